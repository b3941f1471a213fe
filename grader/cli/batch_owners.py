"""Print the owners of all files: in full for `grade batch --dry-run`, in short at the start of a run.

Takes a batch and its uploads; gives lines of text. Grades nothing and writes no file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from grader.batch.gradebook import Student
from grader.batch.store import Batch, Submission
from grader.batch.submissions import Collected
from grader.phrases import counted, cut, listed
from grader.report.status import LOOKS
from grader.text import clean

_MOST = 10
_LONGEST_NOTE = 300
_IN_FULL = " (--dry-run names all)"


def in_full(whole: Batch, found: Collected) -> Iterator[str]:
    """Yield every student with their files, then files without an owner, files left over, and notes."""
    yield f"{handed_in(whole)}; nothing is graded"
    strangers = set(whole.strangers)
    yield from _students([one for one in whole.students if one.id not in strangers], whole.submissions)
    for title, names in (
        (
            "Not on the roster",
            [*_students([one for one in whole.students if one.id in strangers], found.submissions)],
        ),
        ("Nobody's", [*map(_harmless, found.nobodys)]),
        ("Left over: of a student, and not graded", [*map(_harmless, found.left_over)]),
        ("To be looked at", [*map(_harmless, found.notes)]),
    ):
        if names:
            yield f"\n{title}"
            yield from (f"  {name}" for name in names)


def in_short(found: Collected, strangers: Sequence[str]) -> Iterator[str]:
    """Yield all notes, and the first uploads without an owner or outside the roster."""
    for note in map(_harmless, found.notes):
        yield f"  look at: {cut(note, _LONGEST_NOTE)}{_IN_FULL if len(note) > _LONGEST_NOTE else ''}"
    for title, names in (("nobody's", found.nobodys), ("not on the roster", strangers)):
        if names:
            yield f"  {title}: {_harmless(listed(names, _MOST))}{_IN_FULL if len(names) > _MOST else ''}"


def handed_in(whole: Batch) -> str:
    """Return how much was handed in, and from where."""
    students = counted(len({one.student for one in whole.submissions}), "student")
    exercises = ", ".join(one.id for one in whole.assignments)
    return f"{counted(len(whole.submissions), 'submission')} of {students} for {exercises} in {whole.source}"


def _students(students: Sequence[Student], submissions: Sequence[Submission]) -> Iterator[str]:
    for student in students:
        own = [one for one in submissions if one.student == student.id]
        yield f"{student.id}  {_harmless(student.name)}".rstrip() + ("" if own else ": nothing handed in")
        for one in own:
            late = "  (late)" if one.late else ""
            said = f"  {LOOKS['invalid_submission'].word}: {_harmless(one.trouble)}" if one.trouble else ""
            yield f"  {one.exercise}  {_harmless(one.source)}{late}{said}"


def _harmless(text: str) -> str:
    return clean(text, 100_000).replace("\n", " ")
