"""Compare the marks of a class before and after a run."""

from __future__ import annotations

from collections.abc import Iterator

from grader.batch.gradebook import Gradebook, Mark
from grader.phrases import counted
from grader.report.status import LOOKS

_SMALLEST = 0.005


def changed(before: Gradebook, after: Gradebook) -> list[tuple[Mark, Mark]]:
    """Return the marks that changed, old and new; those that fell come first, by how far.

    A student who has left the class counts as one who handed nothing in. The first result after a lost grading is no
    change, nor is a submission that waits for its first result.
    """
    new = {(mark.student, mark.exercise): mark for mark in after.marks}
    old = [mark for mark in before.marks if mark.override is not None or mark.status != "grader_error"]
    pairs = [(mark, new.get((mark.student, mark.exercise)) or _left(mark)) for mark in old]
    return sorted(filter(_differs, pairs), key=lambda pair: pair[1].points - pair[0].points)


def _left(mark: Mark) -> Mark:
    return Mark(mark.student, mark.exercise, "missing", 0.0, 0.0, mark.max_points)


def _differs(pair: tuple[Mark, Mark]) -> bool:
    one, other = pair
    if (one.status, other.status) == ("missing", "grader_error"):
        return False
    figures = ((one.points, other.points), (one.judged, other.judged), (one.max_points, other.max_points))
    return one.status != other.status or any(abs(was - now) >= _SMALLEST for was, now in figures)


def fell(pair: tuple[Mark, Mark]) -> bool:
    """Return whether a mark is lower than it was."""
    return pair[1].points < pair[0].points - _SMALLEST


def in_words(pairs: list[tuple[Mark, Mark]], handed_in_anew: set[tuple[str, str]]) -> Iterator[str]:
    """Yield a headline and a line for every change. handed_in_anew: students and exercises with another text."""
    if not pairs:
        return
    falling = sum(map(fell, pairs))
    changed = counted(len(pairs), "mark changed", "marks changed")
    yield f"{changed}, {falling} of them fell" if falling else f"{changed}, none fell"
    for one, other in pairs:
        why = "  (another file)" if (one.student, one.exercise) in handed_in_anew else ""
        word = "fell  " if fell((one, other)) else ""
        yield f"  {word}{one.student}, {one.exercise}: {_figure(one)} -> {_figure(other)}{why}"


def _figure(mark: Mark) -> str:
    word = "missing" if mark.status == "missing" else LOOKS[mark.status].word
    if mark.status == "missing" and mark.override is None:
        return word
    judged = "" if mark.judged == mark.max_points or mark.override is not None else f", {mark.judged:g} judged"
    return f"{word}, {mark.points:g} of {mark.max_points:g} points{judged}"
