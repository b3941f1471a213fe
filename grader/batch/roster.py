"""The roster: reads the class from a CSV file, and matches the platforms' users to its students."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Collection, Iterable, Mapping, Sequence

from grader.batch.gradebook import Student
from grader.batch.tables import read_rows
from grader.batch.uploads import Owner
from grader.errors import UsageError
from grader.phrases import listed

_PLATFORMS = ("canvas", "sis", "login", "sis_login", "github", "moodle", "gradescope")
# The names of columns in the platforms' exports, in lower case, and ours.
_COLUMNS = {
    "student": "name",
    "full name": "name",
    "email address": "email",
    "sid": "sis",
    "student id": "sis",
    "id number": "sis",
    "sis user id": "sis",
    "sis login id": "sis_login",
    "github_username": "github",
    "username": "login",
    "first name": "first",
    "last name": "last",
    "surname": "last",
}
_UNFIT = re.compile(r"[^\w.@+=-]+")
_MOST_ID = 80


def parse_roster(text: str, path: object = "roster") -> tuple[Student, ...]:
    """Return the students of a roster. Raises UsageError.

    Its columns are our own (id, name, email, section, canvas, sis, login, sis_login, github, moodle, gradescope), or
    those of an export of Canvas, Moodle, Gradescope or GitHub Classroom.
    """
    head, rows = read_rows(text, path)
    columns = [_column(name) for name in head]
    # Canvas calls its own number ID and has the names of people below Student.
    is_canvas = "student" in [name.strip().lower() for name in head]
    named = ["canvas" if is_canvas and column == "id" else column for column in columns]
    if not {"id", "login", "sis_login", "identifier", "email", "sis", "github", "canvas"} & set(named):
        written = ",".join(head)
        raise UsageError(
            f"{path}: a roster must have a column id, login, email, sis, canvas or github, got {written!r}"
        )
    students: dict[str, Student] = {}
    for _, row in rows:
        # If two columns have one meaning, the first that is not empty counts.
        cells = [(key, value.strip()) for key, value in zip(named, row, strict=False) if key]
        values = {key: value for key, value in reversed(cells) if value}
        student = _student(values)
        # Canvas writes the points possible below its header.
        if student is None or values.get("name", "").lower().startswith("points possible"):
            continue
        if student.id in students:
            raise UsageError(f"{path}: a student must stand on one line, got {student.id!r} twice")
        students[student.id] = student
    return tuple(students.values())


def _column(name: str) -> str:
    plain = name.strip().lower()
    return _COLUMNS.get(plain, plain)


def _student(values: Mapping[str, str]) -> Student | None:
    name = values.get("name") or f"{values.get('first', '')} {values.get('last', '')}".strip()
    email = values.get("email", "")
    ids = {platform: values[platform] for platform in _PLATFORMS if values.get(platform)}
    logins = (values.get(column) for column in ("id", "login", "sis_login", "identifier"))
    candidates = (*logins, email.partition("@")[0], *ids.values())
    chosen = next((one for one in candidates if one), "")
    return Student(as_id(chosen), name, email, values.get("section", ""), ids) if chosen else None


def as_id(label: str) -> str:
    """Return a file name for a label: equal for equal labels, different for others."""
    plain = unicodedata.normalize("NFC", label)
    fit = _UNFIT.sub("_", plain).strip("._")[:_MOST_ID]
    if fit and fit == label:
        return fit
    # A changed name could equal another one's.
    mark = hashlib.sha256(label.encode("utf-8", "surrogatepass")).hexdigest()[:6]
    return f"{fit or 'student'}-{mark}"


def strangers_ids(owners: Iterable[Owner], taken: Collection[str]) -> dict[tuple[str, str], str]:
    """Return file names for owners outside the roster, by `person`.

    Different people get different names, also on file systems that ignore case, and none that is `taken`. An owner
    whose label is unique keeps it as the name.
    """
    people = sorted({person(owner) for owner in owners})
    alike: dict[str, set[tuple[str, str]]] = {}
    for one in people:
        alike.setdefault(as_id(one[0]).casefold(), set()).add(one)
    used = {name.casefold() for name in taken}
    named: dict[tuple[str, str], str] = {}
    for one in sorted(people, key=lambda one: len(alike[as_id(one[0]).casefold()])):
        label, number = one
        name, same = as_id(label), alike[as_id(label).casefold()]
        # A label without a number belongs to its only holder.
        if (
            len({other[0] for other in same}) > 1
            or len({other[1] for other in same} - {""}) > 1
            or name.casefold() in (used - {named[other].casefold() for other in same & named.keys()})
        ):
            name = as_id(f"{label} {number}".rstrip() + "\0")
            while name.casefold() in used:
                name = as_id(f"{name}\0")
        named[one] = name
        used.add(name.casefold())
    return named


def person(owner: Owner) -> tuple[str, str]:
    """Return a key that tells owners apart: the label, and the platform's own numbers."""
    return owner.label, " ".join(sorted(owner.ids.values())) or owner.email.lower()


def owner_on(roster: Sequence[Student], owner: Owner) -> Student | None:
    """Return the student on the roster that is this owner, or None.

    The platform's number and the e-mail address decide. A name decides only if the roster knows neither. Raises
    UsageError if the platform's data fit several students.
    """
    for matches in (_same_number_or_address, _same_label, _same_name):
        found = [student for student in roster if matches(student, owner)]
        if len(found) > 1:
            names = listed([student.id for student in found], 4)
            raise UsageError(f"an owner must be one student of the roster, got {owner.label!r}, which is {names}")
        if found:
            return found[0]
    return None


def _same_number_or_address(student: Student, owner: Owner) -> bool:
    if owner.email and student.email.lower() == owner.email.lower():
        return True
    return any(student.ids.get(platform, "").lower() == value.lower() for platform, value in owner.ids.items())


def _same_label(student: Student, owner: Owner) -> bool:
    known = (student.id, student.email, student.email.partition("@")[0], *student.ids.values())
    return owner.label.lower() in {one.lower() for one in known if one} and not _is_another(student, owner)


def _is_another(student: Student, owner: Owner) -> bool:
    """Return whether the platform's number or the e-mail address shows that the owner is another person.

    It counts only if both sides have one. Names do not count: people choose them, and may choose another's.
    """
    if owner.email and student.email and owner.email.lower() != student.email.lower():
        return True
    return any(
        platform in student.ids and student.ids[platform].lower() != value.lower()
        for platform, value in owner.ids.items()
    )


def _same_name(student: Student, owner: Owner) -> bool:
    """Return whether the names are equal. Canvas writes the last name first, and nothing between the names."""
    first, _, rest = student.name.partition(",")
    words = f"{rest} {first}".split() if rest else student.name.split()
    spelled = {_letters(" ".join(words)), _letters(" ".join([*words[-1:], *words[:-1]]))} - {""}
    return not _is_another(student, owner) and bool(spelled & {_letters(owner.name), _letters(owner.label)})


def _letters(text: str) -> str:
    decomposed = unicodedata.normalize("NFKD", text.casefold())
    return "".join(one for one in decomposed if one.isalnum())
