"""Write what was found as a page: a summary by kind, then a row for each file."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.peers.files import KINDS, Fed, Kind
from benchmarks.peers.outcome import Outcome
from benchmarks.peers.tasks import TOLERANCE

# What a grader should do with each kind.
WANTED: Mapping[Kind, str] = {
    "honest": "accept",
    "wrong": "refuse",
    "other means": "as its rules say",
    "attack": "refuse, or believe no more than 1 or so",
}
# An attack gains if it is believed to be so many times as fast as the fastest honest file.
_GAIN = 1.05


@dataclass(frozen=True)
class Row:
    """One file, and what each grader said of it, by the grader's name. A grader that was not asked is absent."""

    fed: Fed
    outcomes: Mapping[str, Outcome]


@dataclass(frozen=True)
class Setting:
    """Where and with what it was measured. checkouts: by grader, where its evaluator came from."""

    day: str
    machine: str
    versions: str
    checkouts: Mapping[str, str]
    command: str
    left_out: int = 0


def page(rows: Sequence[Row], graders: Sequence[str], setting: Setting) -> str:
    """Return the page."""
    return (
        "\n".join(
            [*_introduction(setting), *_summary(rows, graders), "", "## File by file", "", *_files(rows, graders)]
        )
        + "\n"
    )


def _introduction(setting: Setting) -> Iterator[str]:
    yield "# The same files in other graders, measured"
    yield ""
    yield f"Made by `{setting.command}` on {setting.day}, on {setting.machine} ({setting.versions}); do not edit."
    yield from ("", *(f"- {name}: {place}." for name, place in setting.checkouts.items()), "")
    yield (
        "*Wrong* are planted mistakes whose values break the statement of our exercise. Mistakes that only cost time, "
        "or that need slices or strides, are left out. *Other means* compute the right values without a kernel of the "
        "file: a grader may allow that. *Attacks* were written against our own grader, on `vector_add`: one that "
        "fails elsewhere proves nothing. The files are spread evenly over the sorted names; nobody picked them. "
        "Docstrings, which say what is wrong, were blanked."
    )
    yield ""
    yield (
        f"All inputs are float32. For the others atol = rtol = {TOLERANCE:g}: KernelBench's own for that type; popcorn "
        "leaves it to the task. The sizes stand in `benchmarks/peers/tasks.py`. A speed-up is what each grader "
        "believes, relative to eager torch, at its own sizes and in its own types. Seconds are of all commands for one "
        "file; as many files as GPUs ran at a time."
    )
    if setting.left_out:
        yield from ("", f"{setting.left_out} files were not reached in the time.")
    yield ""


def _summary(rows: Sequence[Row], graders: Sequence[str]) -> Iterator[str]:
    yield from _header("kind", "wanted", *(f"{name} accepts" for name in graders))
    for kind in KINDS:
        of_kind = [row for row in rows if row.fed.kind == kind]
        if of_kind:
            yield _line(kind, WANTED[kind], *(_accepted(of_kind, name) for name in graders))
    attacks = [row for row in rows if row.fed.kind == "attack"]
    honest = [row for row in rows if row.fed.kind == "honest" and row.fed.task.part == "vector_add"]
    gained = f"attack, accepted with a gain: over {_GAIN:g} × the greatest of an honest `vector_add`"
    yield _line(gained, "none", *(_gainful(attacks, honest, name) for name in graders))
    yield _line("seconds a file, median", "", *(_seconds(rows, name) for name in graders))
    yield _line("greatest speed-up believed of an attack", "", *(_greatest(attacks, name) for name in graders))
    yield _line("greatest of an honest `vector_add`", "", *(_greatest(honest, name) for name in graders))


def _gainful(rows: Iterable[Row], honest: Iterable[Row], grader: str) -> str:
    """Return how many files were accepted with a gain: a speed-up well above that of every honest file."""
    usual = max(_believed(honest, grader), default=1.0)
    asked = [row.outcomes[grader] for row in rows if grader in row.outcomes]
    gained = sum(one.verdict == "accepted" and (one.speedup or 0) > _GAIN * usual for one in asked)
    return f"{gained} of {len(asked)}"


def _files(rows: Sequence[Row], graders: Sequence[str]) -> Iterator[str]:
    yield from _header("kind", "file", "what it does", *graders)
    for row in rows:
        told = (_told(row.outcomes.get(name)) for name in graders)
        yield _line(row.fed.kind, f"`{row.fed.task.part}`: {row.fed.name}", row.fed.says, *told)


def _told(outcome: Outcome | None) -> str:
    if outcome is None:
        return "not asked"
    speed = f", {outcome.speedup:.3g}×" if outcome.speedup is not None else ""
    reason = f": {outcome.reason}" if outcome.reason else ""
    return f"{outcome.verdict}{speed}, {outcome.seconds:.0f} s{reason}"


def _accepted(rows: Iterable[Row], grader: str) -> str:
    asked = [row.outcomes[grader] for row in rows if grader in row.outcomes]
    flagged = sum(one.verdict == "flagged" for one in asked)
    failed = sum(one.verdict == "failed" for one in asked)
    more = [f"{count} {word}" for count, word in ((flagged, "flagged"), (failed, "without a result")) if count]
    return f"{sum(one.verdict == 'accepted' for one in asked)} of {len(asked)}{''.join(f', {one}' for one in more)}"


def _seconds(rows: Iterable[Row], grader: str) -> str:
    seconds = [row.outcomes[grader].seconds for row in rows if grader in row.outcomes]
    return f"{statistics.median(seconds):.1f}" if seconds else "–"


def _believed(rows: Iterable[Row], grader: str) -> list[float]:
    found = [row.outcomes[grader].speedup for row in rows if grader in row.outcomes]
    return [speedup for speedup in found if speedup is not None]


def _greatest(rows: Iterable[Row], grader: str) -> str:
    believed = _believed(rows, grader)
    return f"{max(believed):.3g}×" if believed else "–"


def _header(*words: str) -> Iterator[str]:
    yield _line(*words)
    yield _line(*("---" for _ in words))


def _line(*cells: str) -> str:
    return f"| {' | '.join(cell.replace('|', '/').replace(chr(10), ' ') for cell in cells)} |"
