"""`grade report`: the class page of an OUT_DIR."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from grader.batch.reading import read, read_batch
from grader.batch.store import Batch, BatchStore, StoredRecord
from grader.classes import page
from grader.classes.tally import ClassTally
from grader.cli.files import check_writable, read_submission, write
from grader.errors import MissingEnvironment, UsageError
from grader.exercise.catalogue import discover, find_root
from grader.record import SubmissionInfo

_NAMES: dict[page.Audience, str] = {"instructor": "report.html", "student": "report-students.html"}


# Whose it is, what the record says of it, and where OUT_DIR keeps its text.
Graded = tuple[str, SubmissionInfo, Path]


def report(out_dir: str, out: str | None, audience: str, *, similarity: bool = False, threshold: float = 0.6) -> int:
    """Write the page beside the records, or where `out` says; the exit code."""
    if similarity:
        _check_similarity(audience, threshold)
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
    if similarity:
        check_writable(beside)
        write(beside, _alike(batch, submissions, threshold))
        print(beside)
    similar = beside.name if similarity else ""
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


def _check_similarity(audience: str, threshold: float) -> None:
    if audience != "instructor":
        raise UsageError(f"--similarity must come with --audience instructor, got --audience {audience}")
    if not 0 < threshold <= 1:
        raise UsageError(f"--threshold must lie in 0 … 1, got {threshold:g}")
    if importlib.util.find_spec("copydetect") is None:
        raise MissingEnvironment(
            '--similarity needs copydetect, got none: pip install -c constraints.txt -e ".[similarity]"'
        )


def _alike(batch: Batch, submissions: Mapping[str, list[Graded]], threshold: float) -> str:
    """Return the page of similar sources: the files that were graded, where they still are what they were."""
    from grader.classes import alike, similarity

    entries = {entry.id: entry for entry in discover(find_root())}
    exercises = []
    for assignment in batch.assignments:
        read_files = [
            (student, _text(info, stored_path)) for student, info, stored_path in submissions.get(assignment.id, [])
        ]
        sources = [similarity.Source(student, text) for student, text in read_files if text is not None]
        absent = [student for student, text in read_files if text is None]
        stub = entries[assignment.id].source("stub.py") if assignment.id in entries else ""
        found = similarity.pairs(sources, stub, threshold=threshold)
        exercises.append(alike.ComparedExercise(assignment.id, assignment.title, found, len(sources), absent))
    names = {one.id: f"{one.name} ({one.id})" if one.name else one.id for one in batch.students}
    return alike.render(exercises, batch.title, names, threshold)


def _text(info: SubmissionInfo, stored_path: Path) -> str | None:
    """Return the graded text, from OUT_DIR or from its first place; None if the file is gone or has changed."""
    for path in (stored_path, Path(info.path)):
        with contextlib.suppress(UsageError):
            text = read_submission(path)
            if hashlib.sha256(text.encode()).hexdigest() == info.sha256:
                return text
    return None
