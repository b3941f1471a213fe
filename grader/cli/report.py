"""`grade report`: the class page of an OUT_DIR."""

from __future__ import annotations

import contextlib
import importlib.util
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from grader.batch.reading import read, read_batch
from grader.batch.store import Batch, BatchStore, StoredRecord
from grader.class_pages import page
from grader.class_pages.tally import ClassTally
from grader.cli.files import check_writable, read_submission, write
from grader.errors import MissingEnvironment, UsageError
from grader.exercise.catalogue import discover, find_root
from grader.record.record import SubmissionInfo
from grader.text import sha256_of

_NAMES: dict[page.Audience, str] = {"instructor": "report.html", "student": "report-students.html"}


# The student, the record's data on the submission, and the path of its text in OUT_DIR.
Graded = tuple[str, SubmissionInfo, Path]


@dataclass(frozen=True)
class Similarity:
    """The options of the page of similar sources.

    base: files and folders that students were given. earlier: OUT_DIRs of earlier classes.
    """

    wanted: bool = False
    threshold: float = 0.6
    base: tuple[str, ...] = ()
    earlier: tuple[str, ...] = ()


def report(out_dir: str, out: str | None, audience: str, similarity: Similarity) -> int:
    """Write the page beside the records, or to `out`; return the exit code."""
    _check_similarity(audience, similarity)
    folder = Path(out_dir)
    known = _audience(audience)
    target = Path(out) if out is not None else folder / _NAMES[known]
    batch = read_batch(folder)
    check_writable(target)
    tally, problems = ClassTally(), list[tuple[str, str]]()
    submissions: dict[str, list[Graded]] = {}

    def visit(found: StoredRecord) -> None:
        if found.record is None:
            problems.append((found.path, found.problem))
        else:
            tally.add(found.student, found.exercise, found.record)
            stored_path = BatchStore(folder).submission_path(found.student, found.record.exercise.name)
            submissions.setdefault(found.exercise, []).append((found.student, found.record.submission, stored_path))

    book = read(folder, visit)
    beside = target.with_name(f"{target.stem}-similarity.html")
    if similarity.wanted:
        check_writable(beside)
        write(beside, _alike(batch, submissions, similarity))
        print(beside)
    similar = beside.name if similarity.wanted else ""
    write(target, page.render(tally, book, batch.title, audience=known, problems=problems, similar=similar))
    print(target)
    if known == "instructor":
        print("This page names students; --audience student makes one that does not.", file=sys.stderr)
    return 0


def _audience(text: str) -> Literal["instructor", "student"]:
    match text:
        case "instructor" | "student":
            return text
    raise UsageError(f"--audience must be instructor or student, got {text!r}")


def _check_similarity(audience: str, similarity: Similarity) -> None:
    if not similarity.wanted:
        if similarity.base or similarity.earlier:
            raise UsageError("--base and --earlier must come with --similarity, got them alone")
        return
    if audience != "instructor":
        raise UsageError(f"--similarity must come with --audience instructor, got --audience {audience}")
    if not 0 < similarity.threshold <= 1:
        raise UsageError(f"--threshold must lie in 0 … 1, got {similarity.threshold:g}")
    if importlib.util.find_spec("copydetect") is None:
        raise MissingEnvironment(
            '--similarity needs copydetect, got none: pip install -c constraints.txt -e ".[similarity]"'
        )


def _alike(batch: Batch, submissions: Mapping[str, list[Graded]], options: Similarity) -> str:
    """Return the page of similar sources, from the graded files that have not changed."""
    from grader.class_pages import alike, similarity

    entries = {entry.id: entry for entry in discover(find_root())}
    exercises = []
    for assignment in batch.assignments:
        own = submissions.get(assignment.id, [])
        # Without a hash there was no text to grade.
        invalid = [student for student, info, _ in own if not info.sha256]
        read_files = [(student, _text(info, path)) for student, info, path in own if info.sha256]
        sources = [similarity.Source(student, text) for student, text in read_files if text is not None]
        absent = [student for student, text in read_files if text is None]
        entry = entries.get(assignment.id)
        name = f"{entry.name}.py" if entry else ""
        earlier = [
            similarity.Source(student, text, is_earlier=True)
            for folder in options.earlier
            for student, text in _of_earlier(Path(folder), name)
        ]
        base = [
            *([entry.source("stub.py")] if entry else []),
            *(one for path in options.base for one in _base(path, name)),
        ]
        found = similarity.clusters([*sources, *earlier], base, threshold=options.threshold)
        exercises.append(
            alike.ComparedExercise(assignment.id, assignment.title, found, len(sources), absent, invalid, len(earlier))
        )
    names = {one.id: f"{one.name} ({one.id})" if one.name else one.id for one in batch.students}
    return alike.render(exercises, batch.title, names, options.threshold)


def _of_earlier(folder: Path, name: str) -> Iterator[tuple[str, str]]:
    """Yield owner and text of every file of that name from an earlier class. Raises UsageError."""
    students = read_batch(folder).students
    for student in students:
        path = BatchStore(folder).submission_path(student.id, name.removesuffix(".py"))
        if path.is_file():
            yield f"{student.id} of {folder}", read_submission(path)


def _base(place: str, name: str) -> Iterator[str]:
    """Yield the texts that were handed out: a file, the Python files of a folder, or a class's files of that name."""
    path = Path(place)
    if not path.exists():
        raise UsageError(f"--base must name a file or a folder, got {place}")
    is_class = (path / "batch.json").is_file()
    found = sorted(path.glob(f"submissions/*/{name}") if is_class else path.rglob("*.py")) if path.is_dir() else [path]
    yield from map(read_submission, found)


def _text(info: SubmissionInfo, stored_path: Path) -> str | None:
    """Return the graded text, from OUT_DIR or from its first place; None if the file is gone or has changed."""
    for path in (stored_path, Path(info.path)):
        with contextlib.suppress(UsageError):
            text = read_submission(path)
            if sha256_of(text) == info.sha256:
                return text
    return None
