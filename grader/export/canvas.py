"""Render Canvas's gradebook CSV by the rules of its importer (docs/exports.md#canvas).

A blank cell would delete a score. So a mark that must not be written has no line (`fresh`) or keeps the cell that
Canvas exported (`update`). It reads the file of --into and writes none.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from grader.batch.gradebook import Assignment, Gradebook, Mark, Student
from grader.errors import UsageError
from grader.export.formats import CheckPoints, ClassFiles, ExportOptions, Format
from grader.export.table import safe, score, text
from grader.phrases import all_of, listed
from grader.report import view

_IDENTITY = ("Student", "ID", "SIS User ID", "SIS Login ID", "Section")
# The columns that may precede the assignments; the importer finds them by position.
_PREFIXES = (
    ("Student", "ID", "Section"),
    ("Student", "ID", "SIS Login ID", "Section"),
    *(
        ("Student", "ID", "SIS User ID", "SIS Login ID", *between, "Section")
        for between in ((), ("Integration ID",), ("Root Account",), ("Integration ID", "Root Account"))
    ),
)
_DROPPED = re.compile(r"(Current|Final) (Score|Points|Grade)|Override (Score|Grade|Status)", re.IGNORECASE)
_ENDS_IN_ID = re.compile(r"\s\((\d+)\)\s*$")
_FOR_NOT_JUDGED = "--of-judged scales up the judged points"
_FOR_LEFT_OUT = "--of-judged --parts-left-out-too scales up the judged points"
# Digits with separators: the importer would read another number.
_MANGLED = re.compile(r"[\d.,]*[.,][\d.,]*%?")


@dataclass(frozen=True)
class MarkRules:
    """The rules that turn marks into cells.

    ids: Canvas's assignment number by exercise. of_judged: take the judged points for the whole. parts_left_out_too: do
    so even if nothing of a whole part was judged. scale: fit points to a column that is worth another number.
    """

    ids: Mapping[str, int]
    of_judged: bool = False
    parts_left_out_too: bool = False
    scale: bool = False


@dataclass(frozen=True)
class ImportSheet:
    """A file for the importer: its text, the number of scores in it, and the marks left out with reasons."""

    text: str
    written: int
    left_out: tuple[str, ...]


def fresh(book: Gradebook, exercise: str, rules: MarkRules) -> ImportSheet:
    """Return one exercise's scores, a line for every student who has one."""
    assignment = _assignment(book, exercise)
    notes = _Notes()
    rows = []
    students = {student.id: student for student in book.students}
    for mark in book.marks:
        if mark.exercise == exercise:
            student = students[mark.student]
            if cell := _cell(mark, mark.max_points, rules, notes):
                rows.append([*_identity(student, notes), cell])
    possible = ["    Points Possible", *[""] * (len(_IDENTITY) - 1), view.points(assignment.max_points)]
    sheet = text([*_IDENTITY, _header(assignment, rules)], [possible, *rows])
    return ImportSheet(sheet, len(rows), notes.lines(exercise))


def update(book: Gradebook, exported: str, rules: MarkRules) -> ImportSheet:
    """Return the scores in the columns of a gradebook that Canvas exported.

    It writes only the student's identity and the exercises' columns. Any other column is as old as the export, and
    would overwrite later entries. Raises UsageError.
    """
    table = _parse(exported)
    columns = {one.id: _column(table, one, rules) for one in book.assignments}
    found = {exercise: place for exercise, place in columns.items() if place is not None}
    if not found:
        exercise_ids = ", ".join(one.id for one in book.assignments)
        raise UsageError(f"the gradebook must have a column for one of {exercise_ids}, got {', '.join(table.titles)}")
    possible = {name: _possible(table, place, _assignment(book, name), rules) for name, place in found.items()}
    marks = {(mark.student, mark.exercise): mark for mark in book.marks}
    notes, rows, written = _Notes(), [], 0
    matched = _matched(table, book.students, notes)
    for row, student in matched:
        cells, changed = [], 0
        for name, place in found.items():
            cell = _cell(marks[student.id, name], possible[name], rules, notes)
            # An excused student stays excused.
            keep = not cell or row[place].strip().upper() == "EX"
            cells.append(row[place] if keep else cell)
            changed += not keep
        if changed:
            rows.append([*_kept_identity(row[: table.identity]), *cells])
            written += changed
    worth = [table.points[place] for place in found.values()] if table.points else []
    first = [[*table.points[: table.identity], *worth]] if table.points else []
    header = [*table.header[: table.identity], *(table.header[place] for place in found.values())]
    seen = {student.id for _, student in matched}
    notes.add("not in the gradebook", *(one.id for one in book.students if one.id not in seen))
    notes.add("the gradebook has no column", *(name for name, place in columns.items() if place is None))
    return ImportSheet(text(header, [*first, *rows], table.delimiter), written, notes.lines())


class _Notes:
    """Scores that are left out, by reason."""

    def __init__(self) -> None:
        self._by_reason: dict[str, list[str]] = {}

    def add(self, reason: str, *who: str) -> None:
        if who:
            self._by_reason.setdefault(reason, []).extend(view.line(one, 60) for one in who)

    def lines(self, about: str = "") -> tuple[str, ...]:
        head = f"{about}: " if about else ""
        return tuple(f"{head}{reason}: {listed(who, 5)}" for reason, who in self._by_reason.items())


def _cell(mark: Mark, possible: float, rules: MarkRules, notes: _Notes) -> str:
    """Return the score, or '' if none must be written."""
    if mark.override is None:
        if mark.status == "missing":
            notes.add("nothing was handed in", mark.student)
            return ""
        if not mark.judged:
            notes.add("nothing could be judged", mark.student)
            return ""
        if mark.parts_left_out and not (rules.of_judged and rules.parts_left_out_too):
            notes.add(f"nothing of {all_of(mark.parts_left_out)} was judged ({_FOR_LEFT_OUT})", mark.student)
            return ""
        if mark.judged < mark.max_points and not rules.of_judged:
            notes.add(f"not all points could be judged ({_FOR_NOT_JUDGED})", mark.student)
            return ""
    whole = mark.judged if rules.of_judged and mark.override is None else mark.max_points
    return score(mark.points * possible / whole, possible)


def _assignment(book: Gradebook, exercise: str) -> Assignment:
    return next(one for one in book.assignments if one.id == exercise)


def _header(assignment: Assignment, rules: MarkRules) -> str:
    """Return the column's title. It ends like an assignment's number only if it has one."""
    title = view.line(f"{assignment.id} {assignment.title}", 200)
    if _DROPPED.search(title):
        title = assignment.id
    if assignment.id in rules.ids:
        return f"{safe(title)} ({rules.ids[assignment.id]})"
    return safe(_ENDS_IN_ID.sub(r" \1", title))


def _identity(student: Student, notes: _Notes) -> list[str]:
    """Return the student's name, numbers and login from the roster."""
    number, sis, login = student.ids.get("canvas", ""), student.ids.get("sis", ""), _login(student)
    if login and _MANGLED.fullmatch(login):
        if not (number or sis):
            raise UsageError(f"a login of digits and dots must stand beside a Canvas or SIS ID, got {login!r} alone")
        login = ""
    if not (number or sis or login):
        notes.add("Canvas ID, SIS ID and login, which the roster lacks; the name is written", student.id)
    return [safe(student.name or student.id), number, sis, login, safe(student.section)]


def _login(student: Student) -> str:
    # With both, `login` is that of another service.
    return student.ids.get("sis_login", "") or student.ids.get("login", "")


def _kept_identity(cells: Sequence[str]) -> list[str]:
    """Return the identity as Canvas wrote it.

    A name that a spreadsheet would compute is made safe if an ID beside it does the matching.
    """
    return [safe(cells[0]) if cells[1] else cells[0], *cells[1:]]


@dataclass(frozen=True)
class _Table:
    """An exported gradebook: its header, the points row (empty without one) and the students' rows."""

    delimiter: str
    header: list[str]
    identity: int
    points: list[str]
    rows: list[list[str]]

    @property
    def titles(self) -> list[str]:
        """Return the columns after those of the student's identity."""
        return self.header[self.identity :]


def _parse(exported: str) -> _Table:
    plain = exported.removeprefix("\ufeff")
    first = plain.partition("\n")[0]
    delimiter = ";" if first.count(";") > first.count(",") else ","
    rows = [row for row in csv.reader(io.StringIO(plain, newline=""), delimiter=delimiter) if any(row)]
    if not rows:
        raise UsageError("an exported gradebook must not be empty, got no line")
    header = rows[0]
    identity = next((place + 1 for place, name in enumerate(header) if "Section" in name), 0)
    if tuple(name.strip() for name in header[:identity]) not in _PREFIXES:
        raise UsageError(
            f"an exported gradebook must begin with Student,ID,…,Section, got {delimiter.join(header[:6])[:120]}"
        )
    repeated = [name for name in header if header.count(name) > 1]
    if repeated:
        raise UsageError(f"an exported gradebook's columns must differ, got {repeated[0]!r} twice")
    wrong = next((row for row in rows if len(row) != len(header)), None)
    if wrong is not None:
        raise UsageError(f"every line must have {len(header)} cells as the header, got {len(wrong)}: {wrong[0][:60]!r}")
    points = next((row for row in rows[1:4] if "Points Possible" in row[0]), [])
    # Lines without an ID are Canvas's own (muted, manual posting).
    people = [row for row in rows[1:] if row is not points and row[0].strip() and any(row[1:identity])]
    return _Table(delimiter, header, identity, points, people)


def _column(table: _Table, assignment: Assignment, rules: MarkRules) -> int | None:
    """Return the place of an exercise's column: by Canvas's number, else by a title that begins with its id."""
    if assignment.id in rules.ids:
        canvas_id = str(rules.ids[assignment.id])
        places = [place for place, name in _assignments(table) if _number(name) == canvas_id]
        if not places:
            raise UsageError(f"a column's title must end with ({canvas_id}) for {assignment.id}, got none that does")
        return places[0]
    starts = re.compile(rf"{re.escape(assignment.id)}(?!\w)", re.IGNORECASE)
    places = [place for place, name in _assignments(table) if starts.match(name.strip())]
    if len(places) > 1:
        names = ", ".join(table.header[place] for place in places)
        raise UsageError(
            f"one column must begin with {assignment.id} (or --column {assignment.id}=NUMBER), got {names}"
        )
    return places[0] if places else None


def _assignments(table: _Table) -> Iterator[tuple[int, str]]:
    for place in range(table.identity, len(table.header)):
        read_only = table.points and "(read only)" in table.points[place].lower()
        if not read_only and not _DROPPED.search(table.header[place]):
            yield place, table.header[place]


def _number(header: str) -> str:
    found = _ENDS_IN_ID.search(header)
    return found[1] if found else ""


def _possible(table: _Table, place: int, assignment: Assignment, rules: MarkRules) -> float:
    """Return the points that the column is worth. Raises UsageError if they differ and scaling is off."""
    said = table.points[place].strip() if table.points else ""
    try:
        worth = float(said) if said else assignment.max_points
    except ValueError:
        raise UsageError(f"points possible must be a number, got {said!r} for {table.header[place]!r}") from None
    if worth != assignment.max_points and not rules.scale:
        raise UsageError(
            f"the column {table.header[place]!r} must be worth {view.points(assignment.max_points)} points, "
            f"got {view.points(worth)} (--scale fits the scores to it)"
        )
    return worth


def _matched(table: _Table, students: Sequence[Student], notes: _Notes) -> list[tuple[list[str], Student]]:
    """Return the rows of our students, matched in the importer's order: ID, SIS user, login, unique name."""
    columns = {name.strip(): place for place, name in enumerate(table.header[: table.identity])}
    keys: tuple[tuple[str, Callable[[Student], tuple[str, ...]]], ...] = (
        ("ID", lambda one: (one.ids.get("canvas", ""),)),
        ("SIS User ID", lambda one: (one.ids.get("sis", ""),)),
        ("SIS Login ID", lambda one: (_login(one), one.id, one.email)),
        ("Student", lambda one: (one.name,)),
    )
    indices = [(columns[name], _index(students, key)) for name, key in keys if name in columns]
    found, taken = [], dict[str, str]()
    for row in table.rows:
        student = next((index[row[place].strip()] for place, index in indices if row[place].strip() in index), None)
        if student is None:
            notes.add("in the gradebook, but not in this class", row[0])
        elif student.id in taken:
            raise UsageError(f"a student must have one line, got {taken[student.id]!r} and {row[0]!r} for {student.id}")
        else:
            taken[student.id] = row[0]
            found.append((row, student))
    return found


def _index(students: Sequence[Student], key: Callable[[Student], tuple[str, ...]]) -> dict[str, Student]:
    """Return students by a text that only one of them has."""
    index: dict[str, Student] = {}
    shared = set()
    for student in students:
        for name in dict.fromkeys(filter(None, key(student))):
            shared |= {name} & set(index)
            index[name] = student
    return {name: student for name, student in index.items() if name not in shared}


def _class_files(options: ExportOptions, exercises: Sequence[str]) -> Callable[[Gradebook, CheckPoints], ClassFiles]:
    rules = MarkRules(
        _ids(options.columns, exercises),
        of_judged=options.of_judged,
        parts_left_out_too=options.parts_left_out_too,
        scale=options.scale,
    )
    exported = _read_exported(Path(options.into)) if options.into is not None else None

    def make(book: Gradebook, _: CheckPoints) -> ClassFiles:
        sheets = (
            {"canvas.csv": update(book, exported, rules)}
            if exported is not None
            else {f"canvas_{one.id}.csv": fresh(book, one.id, rules) for one in book.assignments}
        )
        left_out = tuple(dict.fromkeys(line for sheet in sheets.values() for line in sheet.left_out))
        files = {name: sheet.text for name, sheet in sheets.items() if sheet.written}
        advice = (one for one in (_FOR_NOT_JUDGED, _FOR_LEFT_OUT) if any(f"({one})" in line for line in left_out))
        return ClassFiles(files, left_out, single=exported is not None, advice=next(advice, ""))

    return make


def _ids(columns: Sequence[str], exercises: Sequence[str]) -> dict[str, int]:
    """Return Canvas' numbers by exercise from texts such as "ex_18=90412". Raises UsageError."""
    ids = {}
    for column in columns:
        exercise, equals, number = column.partition("=")
        if not equals or not number.isdecimal() or exercise not in exercises:
            example = exercises[0] if exercises else "EXERCISE"
            raise UsageError(f"--column must look like {example}=90412, got {column!r}")
        ids[exercise] = int(number)
    return ids


def _read_exported(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig")
    except OSError as refused:
        raise UsageError(f"--into must name a readable file, got {path}: {refused.strerror}") from None
    except UnicodeDecodeError as broken:
        raise UsageError(f"--into must name a file in UTF-8, got byte {broken.start} of {path}") from None


FORMAT = Format("canvas", "Canvas' gradebook CSV", class_files=_class_files)
