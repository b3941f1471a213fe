"""Render the class page: one file that loads nothing and runs nothing; the template escapes every value.

The instructor's page names students. The students' page holds numbers only, and none that fewer than five students
share.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import quote

from jinja2 import Environment
from markupsafe import Markup

from grader.batch.gradebook import Gradebook, Mark, Student
from grader.classes import drawing
from grader.classes.tally import (
    OUTCOMES,
    CauseTally,
    CheckTally,
    ClassTally,
    ExerciseTally,
    Points,
    SpeedTally,
    StudentTiming,
    UnjudgedTally,
    by_student,
    median,
    points,
)
from grader.report import view
from grader.report.speed import three_digits
from grader.report.status import LOOKS
from grader.report.templates import page_environment

Audience = Literal["instructor", "student"]

# Fewer than these could be recognised in a number.
_FEWEST = 5
_MOST_CAUSES, _MOST_EXTREMES, _MOST_STRUGGLING, _MOST_LISTED = 8, 5, 10, 50
_PAGES = Path(__file__).parent


@dataclass(frozen=True)
class ExtremeView:
    """A student's kernel among the fastest or the slowest."""

    student: str
    card: str
    ratio: str
    interval: str
    picture: Markup


@dataclass(frozen=True)
class ClassSpeedView:
    """A speed check: the class's median, and its fastest and slowest kernels."""

    title: str
    part: str
    baseline: str
    count: int
    median: str
    fastest: tuple[ExtremeView, ...]
    slowest: tuple[ExtremeView, ...]


@dataclass(frozen=True)
class CauseView:
    """A cause, and the student who is its example."""

    tally: CauseTally
    look: object
    count: int
    checks: tuple[str, ...]
    more_checks: int
    student: str
    card: str


@dataclass(frozen=True)
class ClassCheckView:
    """A check's row."""

    tally: CheckTally
    picture: Markup
    lost: str


@dataclass(frozen=True)
class ExerciseView:
    """One exercise's section."""

    tally: ExerciseTally
    anchor: str
    title: str
    points: Points
    counted: int
    median: str
    histogram: Markup
    checks: tuple[tuple[str, tuple[ClassCheckView, ...]], ...]
    causes: tuple[CauseView, ...]
    more_causes: int
    speeds: tuple[ClassSpeedView, ...]
    unjudged: tuple[tuple[UnjudgedTally, str], ...]
    devices: tuple[tuple[str, int], ...]


def render(
    tally: ClassTally,
    book: Gradebook,
    title: str,
    *,
    audience: Audience = "instructor",
    problems: Sequence[tuple[str, str]] = (),
    similar: str = "",
) -> str:
    """Return the whole page.

    problems: the path of every record that could not be read, and the reason. similar: the page of similar sources, if
    there is one.
    """
    named = audience == "instructor"
    exercises = [_exercise(tally, book, one.id, view.line(one.title, 120), named) for one in book.assignments]
    return (
        environment()
        .get_template("class.html.j2")
        .render(
            title=title,
            named=named,
            students=len(book.students),
            graded=sum(one.graded for one in tally.exercises.values()),
            exercises=exercises,
            outcomes=OUTCOMES,
            fewest=_FEWEST,
            struggling=_struggling(book) if named else (),
            overrides=_overrides(book) if named else (),
            problems=problems[:_MOST_LISTED] if named else (),
            more_problems=max(0, len(problems) - _MOST_LISTED),
            similar=similar if named else "",
        )
        .lstrip()
    )


def environment() -> Environment:
    """Return the templates' environment with the filters that they call."""
    made = page_environment([_PAGES])
    filters: dict[str, Callable[..., object]] = {
        "line": view.line,
        "points": view.points,
        "spaced": lambda name: view.line(name, 100).replace("_", " "),
    }
    made.filters.update(filters)
    return made


def _exercise(tally: ClassTally, book: Gradebook, exercise: str, title: str, named: bool) -> ExerciseView:
    found = tally.exercises.get(exercise) or ExerciseTally(exercise)
    names = {student.id: _name(student) for student in book.students}
    spread = points(book, exercise)
    telling = named or len(spread.shares) >= _FEWEST
    causes = sorted(found.causes.values(), key=lambda cause: (-len(cause.students), cause.title))
    causes = [cause for cause in causes if named or len(cause.students) >= _FEWEST]
    speeds = [one for one in found.speeds.values() if named or len(one.timings) >= _FEWEST]
    return ExerciseView(
        tally=found,
        anchor=f"exercise-{quote(exercise, safe='')}",
        title=title or found.title,
        points=spread,
        counted=len(spread.shares),
        median=f"{100 * median(spread.shares):.0f} %" if telling and spread.shares else "–",
        histogram=drawing.histogram(spread.bins, f"bins-{quote(exercise, safe='')}") if telling else Markup(""),
        checks=_checks(found) if telling else (),
        causes=tuple(_cause(cause, exercise, names, named) for cause in causes[:_MOST_CAUSES]),
        more_causes=max(0, len(causes) - _MOST_CAUSES),
        speeds=tuple(_speed(one, exercise, names, named) for one in speeds),
        unjudged=tuple(
            (one, LOOKS[one.status].word)
            for one in sorted(found.unjudged.values(), key=lambda one: -len(one.students))[:_MOST_LISTED]
            if named or len(one.students) >= _FEWEST
        ),
        devices=tuple(found.devices.most_common(10)) if telling else (),
    )


def _checks(found: ExerciseTally) -> tuple[tuple[str, tuple[ClassCheckView, ...]], ...]:
    parts: dict[str, list[ClassCheckView]] = {}
    for check in found.checks.values():
        lost = view.share(check.lost, check.judged) if check.judged else "–"
        parts.setdefault(check.part, []).append(ClassCheckView(check, drawing.outcomes(check.outcomes), lost))
    return tuple((part, tuple(rows)) for part, rows in parts.items())


def _cause(cause: CauseTally, exercise: str, names: dict[str, str], named: bool) -> CauseView:
    example = cause.example
    checks = [name for name, _ in cause.checks.most_common(3)]
    shown = named and example is not None
    return CauseView(
        tally=cause,
        look=LOOKS[cause.status],
        count=len(cause.students),
        checks=tuple(checks),
        more_checks=len(cause.checks) - len(checks),
        student=names.get(example.student, example.student) if shown and example else "",
        card=_card(example.student, exercise) if shown and example else "",
    )


def _speed(speed: SpeedTally, exercise: str, names: dict[str, str], named: bool) -> ClassSpeedView:
    ordered = sorted(speed.timings, key=lambda one: -one.ratio)
    top = 1.05 * max([speed.full, *(min(one.high, 4 * one.ratio) for one in ordered)])

    def shown(one: StudentTiming) -> ExtremeView:
        return ExtremeView(
            student=names.get(one.student, one.student),
            card=_card(one.student, exercise),
            ratio=f"{three_digits(one.ratio)}×",
            interval=f"{three_digits(one.low)} – {three_digits(one.high)}",
            picture=drawing.interval(one, speed.floor, speed.full, top),
        )

    fastest = ordered[:_MOST_EXTREMES] if named else []
    slowest = ordered[len(fastest) :][-_MOST_EXTREMES:] if named else []
    middle = median(tuple(sorted(one.ratio for one in ordered)))
    return ClassSpeedView(
        title=speed.title,
        part=speed.part,
        baseline=speed.baseline,
        count=len(ordered),
        median=f"{three_digits(middle)}×",
        fastest=tuple(map(shown, fastest)),
        slowest=tuple(map(shown, slowest)),
    )


def _card(student: str, exercise: str) -> str:
    """Return the path of a student's scorecard, relative to OUT_DIR."""
    return f"cards/{quote(student, safe='')}/{quote(exercise, safe='')}.html"


def _name(student: Student) -> str:
    return view.line(f"{student.name} ({student.id})" if student.name else student.id, 120)


def _struggling(book: Gradebook) -> tuple[tuple[str, str], ...]:
    """Return the students with the lowest shares, all below half of what could be judged."""
    shares = by_student(book)
    names = {student.id: _name(student) for student in book.students}
    least = sorted((share, student) for student, share in shares.items() if share < 0.5)
    return tuple((names[student], f"{100 * share:.0f} %") for share, student in least[:_MOST_STRUGGLING])


def _overrides(book: Gradebook) -> tuple[tuple[str, Mark], ...]:
    names = {student.id: _name(student) for student in book.students}
    return tuple((names[mark.student], mark) for mark in book.marks if mark.override)[:_MOST_LISTED]
