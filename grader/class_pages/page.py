"""Render the class page: one file that loads nothing and runs one script; the template escapes every value.

The instructor's page names students, and its script sorts and filters their table. The students' page has no script.
It holds numbers only, and none that fewer than five students share.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal
from urllib.parse import quote

from jinja2 import Environment
from markupsafe import Markup

from grader.batch.gradebook import APART, Gradebook, Mark, Override, Student
from grader.class_pages import drawing, sorting
from grader.class_pages.tally import (
    OUTCOMES,
    CauseTally,
    CheckTally,
    ClassTally,
    ExerciseTally,
    PartTally,
    Points,
    SpeedTally,
    StudentTiming,
    UnjudgedTally,
    by_student,
    median,
    points,
)
from grader.phrases import in_percent
from grader.report import view
from grader.report.page.html import anchor
from grader.report.page.templates import page_environment
from grader.report.speed import three_digits
from grader.report.status import LOOKS

Audience = Literal["instructor", "student"]

# Fewer than these could be recognised in a number.
_FEWEST = 5
_MOST_CAUSES, _MOST_EXTREMES, _MOST_STRUGGLING, _MOST_LISTED = 8, 5, 10, 50
_PAGES = Path(__file__).parent
_INVALID = LOOKS["invalid_submission"].word


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
class StudentList:
    """Students by name, each with the link to the scorecard; `more` are left out. words: what they have in common."""

    words: str
    count: int
    links: tuple[tuple[str, str], ...]
    more: int


@dataclass(frozen=True)
class ClassCheckView:
    """A check's row, and the students behind its bar."""

    tally: CheckTally
    picture: Markup
    lost: str
    students: tuple[StudentList, ...]


@dataclass(frozen=True)
class BinView:
    """A tenth of the points, and the students who earned it."""

    picture: Markup
    students: StudentList


@dataclass(frozen=True)
class StuckView:
    """A part, how far the class is with it, and the students who are stuck, by check."""

    exercise: str
    part: str
    picture: Markup
    count: int
    students: tuple[StudentList, ...]


@dataclass(frozen=True)
class StudentCell:
    """A cell of the table of students. tone: the class of an outcome's colour. words: what the cell means."""

    text: str
    tone: str
    card: str
    words: str


@dataclass(frozen=True)
class StudentRow:
    """A student's row. words: what the filter finds it by, besides the section."""

    name: str
    words: str
    section: str
    cells: tuple[StudentCell, ...]


@dataclass(frozen=True)
class HelpRow:
    """A student who may need help: the mean share of the points, and the exercises with an invalid file."""

    name: str
    share: str
    invalid: str


@dataclass(frozen=True)
class ExerciseView:
    """One exercise's section."""

    tally: ExerciseTally
    anchor: str
    title: str
    points: Points
    counted: int
    median: str
    average: str
    bins: tuple[BinView, ...]
    unread: StudentList | None
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
    rows = _rows(tally, book) if named else ()
    struggling = _struggling(book) if named else ()
    overrides = _overrides(book) if named else ()
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
            sorting=sorting,
            stuck=_stuck(tally, book) if named else (),
            columns=_columns(tally, book) if named else (),
            rows=rows,
            sections=sorted({row.section for row in rows if row.section}),
            fewest=_FEWEST,
            struggling=struggling[:_MOST_STRUGGLING],
            more_struggling=max(0, len(struggling) - _MOST_STRUGGLING),
            overrides=overrides[:_MOST_LISTED],
            more_overrides=max(0, len(overrides) - _MOST_LISTED),
            invalid=_INVALID,
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
    names = _names(book)
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
        median=in_percent(median(spread.shares)) if telling and spread.shares else "–",
        average=in_percent(sum(spread.shares) / len(spread.shares)) if telling and spread.shares else "–",
        bins=_bins(spread, exercise, names, named) if telling and spread.shares else (),
        unread=_unread(found, exercise, names) if named and found.unread else None,
        checks=_checks(found, names, named) if telling else (),
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


def _bins(spread: Points, exercise: str, names: Mapping[str, str], named: bool) -> tuple[BinView, ...]:
    most = max(map(len, spread.bins))

    def shown(place: int, students: tuple[str, ...]) -> BinView:
        words = "full marks" if place == 10 else f"{place * 10} to {place * 10 + 10}%"
        picture = drawing.bar(len(students), most, "full" if place == 10 else "tenth")
        return BinView(picture, _listed(words, students, exercise, names if named else {}))

    return tuple(shown(place, students) for place, students in enumerate(spread.bins))


def _unread(found: ExerciseTally, exercise: str, names: Mapping[str, str]) -> StudentList:
    listed = _listed("", tuple(found.unread), exercise, names)
    links = tuple(
        (Markup("{}: {}").format(name, view.line(reason, 300)), card)
        for (name, card), reason in zip(listed.links, found.unread.values(), strict=False)
    )
    return replace(listed, links=links)


def _listed(
    words: str, students: Sequence[str], exercise: str, names: Mapping[str, str], check: str = ""
) -> StudentList:
    """Return students with links to their cards, at a check if one is named; students without a name are counted."""
    place = f"#{anchor('check', check)}" if check else ""
    known = [student for student in students if student in names][:_MOST_LISTED]
    links = tuple((names[student], _card(student, exercise) + place) for student in known)
    return StudentList(words, len(students), links, len(students) - len(links) if names else 0)


def _stuck(tally: ClassTally, book: Gradebook) -> tuple[StuckView, ...]:
    """Return the parts that somebody is stuck in, those with most students first."""
    names = _names(book)
    found = [
        _stuck_in(tally.exercises[one.id], part, names)
        for one in book.assignments
        if one.id in tally.exercises
        for part in tally.exercises[one.id].parts.values()
    ]
    return tuple(sorted((one for one in found if one.count), key=lambda one: -one.count))


def _stuck_in(found: ExerciseTally, part: PartTally, names: Mapping[str, str]) -> StuckView:
    titles = {check.id: check.title for check in found.checks.values()}
    students = tuple(
        _listed(titles.get(check, check), those, found.id, names, check) for check, those in part.stuck.items()
    )
    counts = Counter(one.outcome for one in part.students.values())
    return StuckView(found.id, part.title, drawing.outcomes(counts), sum(one.count for one in students), students)


def _columns(tally: ClassTally, book: Gradebook) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return the exercises with their parts, in the order of the table's cells."""
    return tuple((one.id, tuple(part.title for part in _parts(tally, one.id))) for one in book.assignments)


def _parts(tally: ClassTally, exercise: str) -> tuple[PartTally, ...]:
    found = tally.exercises.get(exercise)
    return tuple(found.parts.values()) if found else ()


def _rows(tally: ClassTally, book: Gradebook) -> tuple[StudentRow, ...]:
    marks = {(mark.student, mark.exercise): mark for mark in book.marks}
    return tuple(
        _row(student, [(marks[student.id, one.id], _parts(tally, one.id)) for one in book.assignments])
        for student in book.students
    )


def _row(student: Student, marks: Sequence[tuple[Mark, tuple[PartTally, ...]]]) -> StudentRow:
    cells = [cell for mark, parts in marks for cell in (_total(mark), *(_part_cell(mark, part) for part in parts))]
    about = (student.id, student.name, student.email, *(cell.words for cell in cells))
    words = " ".join(dict.fromkeys(view.line(one, 200).lower() for one in about if one))
    return StudentRow(_name(student), words, view.line(student.section, 100), tuple(cells))


def _total(mark: Mark) -> StudentCell:
    """Return the cell of a whole exercise: the points that count, or why there are none."""
    card = _card(mark.student, mark.exercise) if mark.record else ""
    if mark.override is None and mark.status in APART:
        word = "missing" if mark.status == "missing" else _INVALID
        return StudentCell(word, "apart", card, word)
    if mark.override is None and not mark.judged:
        return StudentCell("–", "o5", card, "not judged")
    said = [*(["by hand"] if mark.overrides else []), *(["late"] if mark.days_late else []), _status_word(mark)]
    return StudentCell(f"{view.points(round(mark.points, 2))}{'*' if mark.overrides else ''}", "", card, " ".join(said))


def _status_word(mark: Mark) -> str:
    return "passed" if mark.status == "pass" else mark.status.replace("_", " ")


def _part_cell(mark: Mark, part: PartTally) -> StudentCell:
    found = part.students.get(mark.student)
    if found is None:
        return StudentCell("", "", "", "")
    text = f"{view.points(found.points)}/{view.points(found.judged)}" if found.judged else "–"
    card = f"{_card(mark.student, mark.exercise)}#{anchor('part', part.name)}"
    return StudentCell(text, f"o{OUTCOMES.index(found.outcome)}", card, found.outcome)


def _checks(
    found: ExerciseTally, names: Mapping[str, str], named: bool
) -> tuple[tuple[str, tuple[ClassCheckView, ...]], ...]:
    parts: dict[str, list[ClassCheckView]] = {}
    for check in found.checks.values():
        lost = view.share(check.lost, check.judged) if check.judged else "–"
        behind = tuple(
            _listed(name, check.students[name], found.id, names, check.id)
            for name in OUTCOMES
            if name in check.students
        )
        picture = drawing.outcomes(check.outcomes)
        parts.setdefault(check.part, []).append(ClassCheckView(check, picture, lost, behind if named else ()))
    return tuple((part, tuple(rows)) for part, rows in parts.items())


def _cause(cause: CauseTally, exercise: str, names: Mapping[str, str], named: bool) -> CauseView:
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


def _speed(speed: SpeedTally, exercise: str, names: Mapping[str, str], named: bool) -> ClassSpeedView:
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


def _name(student: Student) -> Markup:
    """Return a student's name and id. The name does not change the direction in which the text around it is read."""
    name, own = view.line(student.name, 120), view.line(student.id, 120)
    return Markup("<bdi>{}</bdi> ({})").format(name, own) if name else Markup("<bdi>{}</bdi>").format(own)


def _names(book: Gradebook) -> Mapping[str, str]:
    return {student.id: _name(student) for student in book.students}


def _struggling(book: Gradebook) -> tuple[HelpRow, ...]:
    """Return the students below half of what could be judged, or with an invalid file; the lowest shares first."""
    shares, names = by_student(book), _names(book)
    invalid: dict[str, list[str]] = {}
    for mark in book.marks:
        if mark.override is None and mark.status == "invalid_submission":
            invalid.setdefault(mark.student, []).append(view.line(mark.exercise, 60))
    # Nothing is known of whoever handed in invalid files alone: they come first.
    least = sorted((shares.get(one, -1.0), one) for one in names if shares.get(one, 1.0) < 0.5 or one in invalid)
    return tuple(
        HelpRow(names[student], in_percent(share) if share >= 0 else "–", ", ".join(invalid.get(student, ())))
        for share, student in least
    )


def _overrides(book: Gradebook) -> tuple[tuple[str, Mark, Override], ...]:
    names = _names(book)
    given = ((mark, one) for mark in book.marks for one in mark.overrides)
    return tuple((names[mark.student], mark, one) for mark, one in given)
