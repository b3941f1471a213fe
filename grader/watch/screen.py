"""What the loop shows: a text that grows downwards, and below it some lines that are always there. Pure: text in, text
out; `paint` says what to send to a terminal so that it shows one screen after another.
"""

from __future__ import annotations

import hashlib
import textwrap
from dataclasses import dataclass

from grader.progress import bar
from grader.report import terminal
from grader.text import clean, in_ascii
from grader.watch.state import State, keys, shown_hints

_BAR = 12
# From this attempt on, a hint is offered in words.
_MANY = 3
_CLEAR, _HOME, _CLEAR_BELOW = "\x1b[2J", "\x1b[H", "\x1b[J"


@dataclass(frozen=True)
class Paper:
    """What a terminal can show. keys: whether it also takes keys."""

    width: int = 100
    colour: bool = False
    ascii_only: bool = False
    keys: bool = True

    def said(self, text: str) -> str:
        """Text that this terminal can show, and that it shows without obeying it."""
        text = clean(text)
        return in_ascii(text) if self.ascii_only else text

    def bold(self, text: str) -> str:
        """The text, made to stand out where there is colour."""
        return f"\x1b[1m{text}\x1b[0m" if self.colour else text


@dataclass(frozen=True)
class Screen:
    """body: a text that ends in a newline; footer: lines, none as wide as the terminal."""

    body: str = ""
    footer: tuple[str, ...] = ()


def draw(state: State, paper: Paper, elapsed_s: int = 0) -> Screen:
    """The screen of a state. elapsed_s: how long the run is going on, in whole seconds."""
    return Screen(_body(state, paper), _footer(state, paper, elapsed_s))


def _body(state: State, paper: Paper) -> str:
    if state.phase == "checking":
        return checking(state, paper) + "".join(f"{line_of(state, i, paper)}\n" for i in range(len(state.results)))
    if state.phase == "waiting" or state.trouble:
        said = state.trouble or f"Checking {state.subject.path} …"
        return f"{paper.said(said)}\n" + (f"{state.panel}\n" if state.panel else "")
    return result(state, paper) + extra(state, paper)


def checking(state: State, paper: Paper) -> str:
    """The line before anything slow."""
    # Which of two saves it is, is to be seen.
    sha256 = hashlib.sha256(state.source.encode()).hexdigest()[:12]
    what = {
        "grade": f"{state.subject.path}  sha256 {sha256}",
        "replay": "the first failing case again",
        "all": "all exercises",
    }[state.kind]
    return f"{paper.said(f'Checking {what} …')}\n"


def line_of(state: State, index: int, paper: Paper) -> str:
    """One check of the run that is going on, as a line."""
    result = state.results[index]
    return terminal.render_check(result, width=paper.width, colour=paper.colour, ascii_only=paper.ascii_only)


def result(state: State, paper: Paper) -> str:
    """The latest result, the part that fails first in full."""
    if state.record is None:
        return ""
    failing = state.first_failing
    return terminal.render(
        state.record,
        width=paper.width,
        colour=paper.colour,
        ascii_only=paper.ascii_only,
        focus=failing.part if failing is not None else "",
    )


def extra(state: State, paper: Paper) -> str:
    """What stands below the result: that it is done, hints, what a key asked for."""
    lines: list[str] = []
    if state.is_done:
        solution = f" The model solution: grade solution {state.subject.id}" if state.subject.has_solution else ""
        lines.append(f"Done.{solution}")
    failing = state.first_failing
    hints = shown_hints(state)
    for i, hint in enumerate(hints):
        part = failing.part if failing is not None else ""
        lines += terminal.folded(f"Hint {i + 1} of 3 for {part}: {hint}", paper.width)
    if state.panel:
        lines += ["", state.panel.rstrip("\n")]
    # What a panel holds was made for this terminal, colours and all.
    shown = [one if one == state.panel.rstrip("\n") else paper.said(one) for one in lines]
    return "".join(f"{one}\n" for one in ["", *shown]) if lines else ""


def _footer(state: State, paper: Paper, elapsed_s: int) -> tuple[str, ...]:
    room = max(paper.width - 1, 10)
    lines = [""]
    if state.phase == "asking":
        lines.append("Replace your file by the untouched stub? A backup of it is kept.")
    elif state.phase == "checking":
        of = f" of {state.total}" if state.total else ""
        again = "; saving again starts over" if state.kind == "grade" else ""
        lines.append(f"{len(state.results)}{of} checks, {elapsed_s} s{again}")
    else:
        tried = f", attempt {state.attempts}" if state.attempts else ""
        failing = state.first_failing
        if state.attempts >= _MANY and failing and failing.status in ("fail", "crash") and not state.hint:
            tried += "; stuck? h gives a hint"
        lines.append(f"{bar(state.shelf, width=_BAR, ascii_only=paper.ascii_only)}; {state.subject.id}{tried}")
    if state.told:
        lines.append(state.told)
    if state.polls:
        lines.append("no file events here: the file is looked at every 0.3 s")
    folded = [piece for line in lines for piece in textwrap.wrap(paper.said(line), room) or [""]]
    return (*folded, *_key_lines(state, paper, room)) if paper.keys else tuple(folded)


def _key_lines(state: State, paper: Paper, room: int) -> list[str]:
    """All keys, on as many lines as it takes."""
    rows: list[list[tuple[str, str]]] = [[]]
    for pair in keys(state):
        if rows[-1] and sum(len(key) + len(word) + 3 for key, word in [*rows[-1], pair]) > room:
            rows.append([])
        rows[-1].append(pair)
    return ["  ".join(f"{paper.bold(key)} {word}" for key, word in row) for row in rows]


def paint(old: Screen | None, new: Screen) -> str:
    """What to send to a terminal that shows `old` so that it shows `new`; None: it shows anything.

    The cursor rests at the end of the last line of the footer. A body that only grew is continued.
    """
    footer = "\n".join(new.footer)
    if old is None or not new.body.startswith(old.body):
        return f"{_HOME}{_CLEAR}{new.body}{footer}"
    if old == new:
        return ""
    up = len(old.footer) - 1
    back = f"\r\x1b[{up}A" if up > 0 else "\r"
    return f"{back}{_CLEAR_BELOW}{new.body[len(old.body) :]}{footer}"


def plain(old: State, new: State, paper: Paper) -> tuple[str, str]:
    """What a log gets when a state follows another: (result, progress), either may be empty."""
    said = ""
    if new.phase == "checking" and new.run != old.run:
        said += checking(new, paper)
    said += "".join(f"{line_of(new, i, paper)}\n" for i in range(len(old.results), len(new.results)))
    for text, before in ((new.trouble, old.trouble), (new.told, old.told)):
        said += f"{paper.said(text)}\n" if text and text != before else ""
    if new.polls and not old.polls:
        said += "no file events here: the file is looked at every 0.3 s\n"
    if new.record is not old.record:
        shown = Screen(result(new, paper) + extra(new, paper), _footer(new, paper, 0))
        return shown.body + "".join(f"{line}\n" for line in shown.footer if line), said
    if (new.hint, new.panel) != (old.hint, old.panel):
        return extra(new, paper).lstrip("\n"), said
    return "", said
