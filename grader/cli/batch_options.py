"""Complete the options of `grade batch` from the tables that it names, and from an earlier run.

Bad options are refused here, before anything starts.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from grader.batch.gradebook import Assignment
from grader.batch.late import LatePolicy, check_policy, parse_policy
from grader.batch.layouts import recognise
from grader.batch.roster import parse_roster
from grader.batch.store import Batch, Submission
from grader.batch.submissions import Collected, collect, exercises_in, timed
from grader.batch.tables import above_maximum, parse_overrides, parse_times
from grader.batch.uploads import Upload
from grader.cli.batch_out import check_folder, check_outside
from grader.cli.batch_seed import check_seed, seed_notes
from grader.cli.commands.batch import BatchOptions
from grader.cli.files import parse_seed
from grader.errors import UsageError
from grader.exercise.catalogue import Entry, discover, find_root, resolve
from grader.report.audience import HIDDEN

Table = TypeVar("Table")

_MOST_TABLE_BYTES = 1 << 24
# What --only takes besides a student's id.
_STATES = ("failed", "changed")


def completed(options: BatchOptions, before: Batch | None) -> BatchOptions:
    """Return the options, completed from the run to resume.

    Raises UsageError for options that contradict each other, or that run.
    """
    _check(options, before)
    if before is None or not (options.resume or options.source is None):
        return options
    return replace(
        options,
        parts=options.parts or before.parts,
        prefixes=options.prefixes or before.prefixes,
        kernels=options.kernels or before.compiled,
        cpu=options.cpu or before.cpu,
    )


def selected(only: str | None, submissions: Sequence[Submission]) -> tuple[bool, str]:
    """Return what --only grades again: whether all that failed, and the student ('' for nobody). Raises UsageError."""
    students = {one.student for one in submissions}
    if only in _STATES and only in students:
        both = f"--only state:{only} or --only student:{only}"
        raise UsageError(f"--only must have one meaning, got {only}, which is a student's id, too: write {both}")
    if only is None or only in students:
        return False, only or ""
    if only.removeprefix("state:") in _STATES:
        return only.endswith("failed"), ""
    if only.startswith("student:") and (student := only.removeprefix("student:")) in students:
        return False, student
    raise UsageError(f"--only must be failed, changed, or the id of a student who handed in, got {only!r}")


def requested(options: BatchOptions, before: Batch | None) -> tuple[Batch, dict[str, Entry], Collected]:
    """Return the batch of a completed command line, its exercises by id, and the contents of the uploads.

    The batch lacks only the keys of its results. Raises UsageError.
    """
    old = before or Batch((), (), ())
    entries = _entries(options, old)
    source = Path(options.source or old.source).resolve()
    check_outside(options.out, source)
    roster = _table(options.roster, parse_roster, old.roster)
    names = {entry.id: entry.name for entry in entries.values()}
    uploads = recognise(source, names, options.prefixes, {student.id for student in roster})
    wanted = {name: entries[name] for name in _wanted(options, old, uploads, entries)}
    found = collect(uploads, {name: entry.name for name, entry in wanted.items()}, roster)
    if not found.submissions:
        raise UsageError(f"there must be submissions to grade, got none in {source}")
    selected(options.only, found.submissions)
    ids = {student.id for student in found.students}
    parts = {name: _parts(entry, options.parts) for name, entry in wanted.items()}
    # A course has one table of times and one late policy, also for exercises that are not graded now.
    times = _table(options.times, lambda text, path: parse_times(text, ids, entries, path), old.times)
    found = replace(found, submissions=timed(found.submissions, times))
    whole = Batch(
        assignments=tuple(_assignment(entry, options.parts) for entry in wanted.values()),
        students=found.students,
        submissions=found.submissions,
        roster=roster,
        times=times,
        policy=_table(options.late, lambda text, path: _policy(text, ids, entries, path), old.policy),
        overrides=_table(options.overrides, lambda text, path: parse_overrides(text, ids, parts, path), old.overrides),
        seed=options.seed if options.seed is not None else old.seed,
        source=str(source),
        parts=options.parts,
        compiled=options.kernels,
        cpu=options.cpu,
        prefixes=options.prefixes,
    )
    if whole.seed not in ("", HIDDEN):
        parse_seed(whole.seed)
    _refuse_parts_of_nothing(whole)
    notes = (*found.notes, *seed_notes(options.seed, before), *above_maximum(whole.overrides, _worth(parts)))
    return whole, wanted, replace(found, notes=notes)


def _policy(text: str, students: Collection[str], exercises: Collection[str], path: object) -> LatePolicy:
    policy = parse_policy(text, path)
    check_policy(policy, students, exercises, path)
    return policy


def _refuse_parts_of_nothing(whole: Batch) -> None:
    handed_in = {(one.student, one.exercise) for one in whole.submissions}
    for row in whole.overrides:
        if row.override.part and row.override.points is not None and (row.student, row.exercise) not in handed_in:
            rule = f"points for a part must have a submission; without {row.exercise} give them for the whole exercise"
            raise UsageError(f"overrides: {rule}, got {row.override.part} of {row.student}")


def _parts(entry: Entry, parts: Collection[str]) -> dict[str, float]:
    """Return the points of the parts that are graded."""
    worth: dict[str, float] = {}
    for part, check in entry.exercise.checks():
        if not parts or part.name in parts:
            worth[part.name] = worth.get(part.name, 0.0) + check.points
    return worth


def _worth(parts: Mapping[str, Mapping[str, float]]) -> dict[tuple[str, str], float]:
    """Return the points by exercise and part; '' for the whole."""
    whole = {(exercise, ""): sum(worth.values()) for exercise, worth in parts.items()}
    return whole | {(exercise, part): points for exercise, worth in parts.items() for part, points in worth.items()}


def _assignment(entry: Entry, parts: Collection[str]) -> Assignment:
    """Return an exercise's column, with the points of the parts that are graded."""
    return Assignment(entry.id, entry.exercise.title, sum(_parts(entry, parts).values()))


def _check(options: BatchOptions, before: Batch | None) -> None:
    if options.resume and options.fresh:
        raise UsageError("at most one of --resume and --fresh must be given")
    if options.resume and before is None:
        raise UsageError(f"--resume must find an earlier run, got none in {options.out}")
    if options.source is None and before is None:
        raise UsageError("a folder or a zip file of submissions must be given: grade batch DIR --out OUT_DIR")
    if options.workers is not None and options.workers < 1:
        raise UsageError(f"--workers must be at least 1, got {options.workers}")
    if options.workers is not None and options.scheduler:
        raise UsageError("at most one of --workers and --scheduler must be given: a cluster has the workers it has")
    if options.limit_minutes <= 0:
        raise UsageError(f"--limit-minutes must be above 0, got {options.limit_minutes:g}")
    check_folder(options.out)
    going_on = "with --resume" if options.resume else "without DIR" if options.source is None else ""
    check_seed(options.out, options.seed, before.seed if before else "", going_on)


def _entries(options: BatchOptions, old: Batch) -> dict[str, Entry]:
    """Return every exercise by id. Raises UsageError for a named one that does not exist."""
    root = find_root()
    for wanted in (*options.exercises, *(one.id for one in old.assignments)):
        resolve(root, wanted)
    return {entry.id: entry for entry in discover(root)}


def _wanted(
    options: BatchOptions, old: Batch, uploads: Sequence[Upload], entries: Mapping[str, Entry]
) -> tuple[str, ...]:
    """Return the exercises to grade: those named, or all with a submission; and those graded before."""
    named = {resolve(find_root(), one)[0].id for one in options.exercises}
    columns = (named or set(exercises_in(uploads, entries))) | {one.id for one in old.assignments}
    if not columns:
        raise UsageError(f"somebody must have handed in an exercise ({', '.join(entries)}), got none")
    parts = {part.name for name in columns for part in entries[name].exercise.parts}
    for part in options.parts:
        if part not in parts:
            raise UsageError(f"a part must be one of {', '.join(sorted(parts))}, got {part!r}")
    return tuple(name for name in entries if name in columns)


def _table(path: str | None, parse: Callable[[str, object], Table], before: Table) -> Table:
    """Return a file's table, or without a file the earlier run's. Raises UsageError."""
    if path is None:
        return before
    try:
        with Path(path).open("rb") as file:
            data = file.read(_MOST_TABLE_BYTES + 1)
        if len(data) > _MOST_TABLE_BYTES:
            raise UsageError(f"a table must hold at most {_MOST_TABLE_BYTES} bytes, got more in {path}")
        text = data.decode("utf-8-sig")
    except OSError as refused:
        raise UsageError(f"a table must be readable, got {path}: {refused.strerror}") from refused
    except UnicodeDecodeError as broken:
        raise UsageError(f"a table must be UTF-8, got byte 0x{data[broken.start]:02x} in {path}") from None
    return parse(text, path)
