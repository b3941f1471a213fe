"""Draw the loop's screen: a text that grows downwards, and a footer that stays below it.

Pure: a state goes in, text comes out. `paint` returns the bytes that turn one screen into the next.
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass

from grader.progress import bar
from grader.report.text import terminal
from grader.text import clean, in_ascii, sha256_of
from grader.watch.state import State, keys, shown_hints

_BAR = 12
# From this attempt on, a hint is offered in words.
_MANY = 3
_CLEAR, _HOME, _CLEAR_BELOW = "\x1b[2J", "\x1b[H", "\x1b[J"


@dataclass(frozen=True)
class Paper:
    """The abilities of a terminal. keys: whether it also reads keys."""

    width: int = 100
    colour: bool = False
    ascii_only: bool = False
    keys: bool = True

    def shown(self, text: str) -> str:
        """Return text without control characters, in characters that this terminal can show."""
        text = clean(text)
        return in_ascii(text) if self.ascii_only else text

    def bold(self, text: str) -> str:
        """Return the text in bold if the terminal has colour."""
        return f"\x1b[1m{text}\x1b[0m" if self.colour else text


@dataclass(frozen=True)
class Screen:
    """One screen.

    body: a text that ends in a newline. footer: lines, each narrower than the terminal.
    """

    body: str = ""
    footer: tuple[str, ...] = ()


def draw(state: State, paper: Paper, elapsed_s: int = 0) -> Screen:
    """Return the screen of a state. elapsed_s: the age of the present run, in whole seconds."""
    return Screen(_body(state, paper), _footer(state, paper, elapsed_s))


def _body(state: State, paper: Paper) -> str:
    if state.phase == "checking":
        return checking(state, paper) + "".join(f"{line_of(state, i, paper)}\n" for i in range(len(state.results)))
    if state.phase == "waiting" or state.trouble:
        said = state.trouble or f"Checking {state.subject.path} …"
        return f"{paper.shown(said)}\n" + (f"{state.panel}\n" if state.panel else "")
    return result(state, paper) + extra(state, paper)


def checking(state: State, paper: Paper) -> str:
    """Return the line that is shown before slow work."""
    # The hash tells two saves apart.
    sha256 = sha256_of(state.source)[:12]
    what = {
        "grade": f"{state.subject.path}  sha256 {sha256}",
        "replay": "the first failing case again",
        "all": "all exercises",
    }[state.kind]
    return f"{paper.shown(f'Checking {what} …')}\n"


def line_of(state: State, index: int, paper: Paper) -> str:
    """Return one check of the present run as a line."""
    result = state.results[index]
    return terminal.render_check(result, width=paper.width, colour=paper.colour, ascii_only=paper.ascii_only)


def result(state: State, paper: Paper) -> str:
    """Return the latest result: in full the first failing part, and the parts that have just passed."""
    if state.record is None:
        return ""
    failing = state.first_failing
    return terminal.render(
        state.record,
        width=paper.width,
        colour=paper.colour,
        ascii_only=paper.ascii_only,
        focus=failing.part if failing is not None else "",
        just_passed=state.just_passed,
    )


def extra(state: State, paper: Paper) -> str:
    """Return the text below the result: that the exercise is done, and what a key asked for last: hints, or a text."""
    lines: list[str] = []
    if state.is_done:
        solution = f" The model solution: grade solution {state.subject.id}" if state.subject.has_solution else ""
        lines.append(f"Done.{solution}")
    failing = state.first_failing
    for i, hint in enumerate(() if state.panel else shown_hints(state)):
        part = failing.part if failing is not None else ""
        lines += terminal.folded(f"Hint {i + 1} of 3 for {part}: {hint}", paper.width)
    if state.panel:
        lines += ["", state.panel.rstrip("\n")]
    # A panel's text is already made for this terminal, with its colours.
    shown = [one if one == state.panel.rstrip("\n") else paper.shown(one) for one in lines]
    return "".join(f"{one}\n" for one in ["", *shown]) if lines else ""


def _footer(state: State, paper: Paper, elapsed_s: int) -> tuple[str, ...]:
    room = max(paper.width - 1, 10)
    lines = [""]
    if state.phase == "asking":
        lines.append("Replace your file with the untouched stub? A backup is kept.")
    elif state.phase == "checking":
        of = f" of {state.total}" if state.total else ""
        again = "; saving again starts over" if state.kind == "grade" else ""
        lines.append(f"{len(state.results)}{of} checks, {elapsed_s} s{again}")
    else:
        tried = f", attempt {state.attempts}" if state.attempts else ""
        failing = state.first_failing
        if state.attempts >= _MANY and failing and failing.status in ("fail", "crash") and not state.hint:
            tried += "; stuck? h gives a hint"
        lines.append(f"{bar(state.progress, width=_BAR, ascii_only=paper.ascii_only)}; {state.subject.id}{tried}")
    if state.notice:
        lines.append(state.notice)
    if state.polls:
        lines.append("no file events here: the file is checked every 0.3 s")
    folded = [piece for line in lines for piece in textwrap.wrap(paper.shown(line), room) or [""]]
    return (*folded, *_key_lines(state, paper, room)) if paper.keys else tuple(folded)


def _key_lines(state: State, paper: Paper, room: int) -> list[str]:
    """Return all keys, on as many lines as they need."""
    rows: list[list[tuple[str, str]]] = [[]]
    for pair in keys(state):
        if rows[-1] and sum(len(key) + len(word) + 3 for key, word in [*rows[-1], pair]) > room:
            rows.append([])
        rows[-1].append(pair)
    return ["  ".join(f"{paper.bold(key)} {word}" for key, word in row) for row in rows]


def paint(old: Screen | None, new: Screen) -> str:
    """Return the text that turns a terminal showing `old` into one showing `new`.

    old: None if the terminal may show anything. The cursor ends behind the last line of the footer. A body that only
    grew is continued, not drawn again.
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
    """Return the log's (result, progress) when one state follows another. Either may be empty."""
    said = ""
    if new.phase == "checking" and new.run != old.run:
        said += checking(new, paper)
    said += "".join(f"{line_of(new, i, paper)}\n" for i in range(len(old.results), len(new.results)))
    for text, before in ((new.trouble, old.trouble), (new.notice, old.notice)):
        said += f"{paper.shown(text)}\n" if text and text != before else ""
    if new.polls and not old.polls:
        said += "no file events here: the file is checked every 0.3 s\n"
    if new.record is not old.record:
        shown = Screen(result(new, paper) + extra(new, paper), _footer(new, paper, 0))
        return shown.body + "".join(f"{line}\n" for line in shown.footer if line), said
    if (new.hint, new.panel) != (old.hint, old.panel):
        return extra(new, paper).lstrip("\n"), said
    return "", said
