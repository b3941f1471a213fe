"""Build the options of `grade batch` from its command line, the tables that it names, and an earlier run.

Bad options are refused here, before anything starts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from grader.batch import handed_in, late, layouts, submissions, tables
from grader.batch.gradebook import Student
from grader.batch.roster import parse_roster
from grader.batch.store import Batch
from grader.cli.files import parse_seed
from grader.errors import UsageError
from grader.exercise.catalogue import Entry, discover, find_root, resolve
from grader.report.audience import HIDDEN

_MOST_TABLE_BYTES = 1 << 24


@dataclass(frozen=True)
class BatchOptions:
    """The command line. Files as they were typed; None and empty: not given."""

    source: str | None
    out: str
    exercises: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()
    roster: str | None = None
    late: str | None = None
    overrides: str | None = None
    times: str | None = None
    seed: str | None = None
    only: str | None = None
    scheduler: str | None = None
    workers: int | None = None
    limit_minutes: float = 30.0
    resume: bool = False
    fresh: bool = False
    cpu: bool = False
    kernels: bool = False
    allow_unconfined: bool = False
    quiet: bool = False


@dataclass(frozen=True)
class BatchRequest:
    """The gradings of a batch: all submissions, the exercises, and the settings.

    seed: None if every exercise has its own, or if it is hidden.
    """

    klass: submissions.Class
    entries: Mapping[str, Entry]
    settings: Batch
    seed: int | None


def completed(options: BatchOptions, before: Batch | None) -> BatchOptions:
    """Return the options, completed by those of the run that is resumed.

    Raises UsageError for options that contradict each other, or that run.
    """
    _check(options, before)
    if before is None or not (options.resume or options.source is None):
        return options
    return replace(
        options,
        parts=options.parts or before.parts,
        kernels=options.kernels or before.compiled,
        cpu=options.cpu or before.cpu,
    )


def requested(options: BatchOptions, before: Batch | None) -> BatchRequest:
    """Return the request of a command line that was completed. Raises UsageError."""
    entries = _entries(options, before)
    source = Path(options.source or (before.source if before else "")).resolve()
    found = layouts.recognise(handed_in.items_in(source), {entry.id: entry.name for entry in entries.values()})
    wanted = {name: entries[name] for name in _wanted(options, before, found, entries)}
    people = _roster(options, before)
    times = _times(options, before)
    klass = submissions.collect(found, {name: entry.name for name, entry in wanted.items()}, people, times)
    if not klass.submissions:
        raise UsageError(f"there must be submissions to grade, got none in {source}")
    if options.only not in (None, "failed", "changed") and options.only not in {
        one.student for one in klass.submissions
    }:
        raise UsageError(f"--only must be failed, changed, or the id of a student who handed in, got {options.only!r}")
    settings = Batch(
        assignments=(),
        students=klass.students,
        submissions=(),
        roster=people,
        times={f"{student}/{exercise}": moment for (student, exercise), moment in times.items()},
        policy=_policy(options, before),
        overrides=_overrides(options, before, klass.students, wanted),
        seed=options.seed if options.seed is not None else before.seed if before else "",
        source=str(source),
        parts=options.parts,
        compiled=options.kernels,
        cpu=options.cpu,
    )
    return BatchRequest(klass, wanted, settings, _seed(settings.seed, before))


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


def _entries(options: BatchOptions, before: Batch | None) -> dict[str, Entry]:
    """Every exercise by id; those that are named must be among them. Raises UsageError."""
    root = find_root()
    entries = {entry.id: entry for entry in discover(root)}
    for wanted in (*options.exercises, *(one.id for one in (before.assignments if before else ()))):
        resolve(root, wanted)
    return entries


def _wanted(
    options: BatchOptions, before: Batch | None, found: layouts.BundleListing, entries: Mapping[str, Entry]
) -> tuple[str, ...]:
    """Return the exercises that are graded: those named, or all that somebody handed in; and those graded before."""
    named = {resolve(find_root(), one)[0].id for one in options.exercises}
    handed = submissions.exercises_in(found, {name: entry.name for name, entry in entries.items()})
    columns = (named or set(handed)) | {one.id for one in (before.assignments if before else ())}
    if not columns:
        raise UsageError(f"somebody must have handed in an exercise ({', '.join(entries)}), got none")
    parts = {part.name for name in columns for part in entries[name].exercise.parts}
    for part in options.parts:
        if part not in parts:
            raise UsageError(f"a part must be one of {', '.join(sorted(parts))}, got {part!r}")
    return tuple(name for name in entries if name in columns)


def _roster(options: BatchOptions, before: Batch | None) -> tuple[Student, ...]:
    if options.roster is not None:
        return parse_roster(_table(options.roster), options.roster)
    return before.roster if before else ()


def _times(options: BatchOptions, before: Batch | None) -> dict[tuple[str, str], str]:
    if options.times is not None:
        return tables.parse_times(_table(options.times), options.times)
    kept = before.times if before else {}
    return {(name.rpartition("/")[0], name.rpartition("/")[2]): moment for name, moment in kept.items()}


def _policy(options: BatchOptions, before: Batch | None) -> late.LatePolicy:
    if options.late is not None:
        return late.parse_policy(_table(options.late), options.late)
    return before.policy if before else late.LatePolicy()


def _overrides(
    options: BatchOptions, before: Batch | None, students: tuple[Student, ...], wanted: Mapping[str, Entry]
) -> tuple[tables.Given, ...]:
    if options.overrides is not None:
        known = {student.id for student in students}
        return tables.parse_overrides(_table(options.overrides), known, wanted, options.overrides)
    return before.overrides if before else ()


def _table(path: str) -> str:
    """Return the text of a table. Raises UsageError."""
    try:
        with Path(path).open("rb") as file:
            data = file.read(_MOST_TABLE_BYTES + 1)
        if len(data) > _MOST_TABLE_BYTES:
            raise UsageError(f"a table must hold at most {_MOST_TABLE_BYTES} bytes, got more in {path}")
        return data.decode("utf-8-sig")
    except OSError as refused:
        raise UsageError(f"a table must be readable, got {path}: {refused.strerror}") from refused
    except UnicodeDecodeError as broken:
        raise UsageError(f"a table must be UTF-8, got byte 0x{data[broken.start]:02x} in {path}") from None


def _seed(text: str, before: Batch | None) -> int | None:
    """Return the seed of all exercises, None where each has its own. Raises UsageError."""
    if text == HIDDEN:
        if before and before.seed not in ("", HIDDEN):
            raise UsageError(f"a hidden seed must not be known, got {before.seed}, which is published in this folder")
        return None
    return parse_seed(text) if text else None
