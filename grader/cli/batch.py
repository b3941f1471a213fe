"""`grade batch`: a whole class, from a folder of submissions to records, scorecards and a gradebook."""

from __future__ import annotations

import contextlib
import gc
import shlex
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from grader import machine
from grader.batch import handed_in, key, late, layouts, roster, submissions, tables, team
from grader.batch.gradebook import Student
from grader.batch.kept import Batch, Kept, Line
from grader.batch.key import Terms
from grader.batch.reading import read_batch
from grader.catalogue import Entry, discover, find_root, resolve
from grader.cli.files import parse_seed
from grader.errors import MissingEnvironment, UsageError
from grader.isolation import missing
from grader.report.audience import HIDDEN

if TYPE_CHECKING:
    from grader.batch.ledger import Ledger
    from grader.batch.team import Team

_MOST_TABLE_BYTES = 1 << 24


@dataclass(frozen=True)
class Asked:
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


def batch(asked: Asked) -> int:
    """Grade a class; the exit code. Whatever can be refused is refused before anything is started."""
    kept = Kept(Path(asked.out).resolve())
    before = read_batch(kept.folder) if kept.has_batch() else None
    _check(asked, before)
    if before and (asked.resume or asked.source is None):
        asked = replace(
            asked,
            parts=asked.parts or before.parts,
            kernels=asked.kernels or before.compiled,
            cpu=asked.cpu or before.cpu,
        )
    if not team.is_installed():
        raise MissingEnvironment("grading a class must have Dask: pip install -c constraints.txt -e '.[batch]'")
    entries = _entries(asked, before)
    source = Path(asked.source or (before.source if before else "")).resolve()
    found = layouts.recognise(handed_in.items_in(source), {entry.id: entry.name for entry in discover(find_root())})
    wanted = {name: entries[name] for name in _wanted(asked, before, found, entries)}
    people = _roster(asked, before)
    times = _times(asked, before)
    klass = submissions.collect(found, {name: entry.name for name, entry in wanted.items()}, people, times)
    if not klass.submissions:
        raise UsageError(f"there must be submissions to grade, got none in {source}")
    settings = Batch(
        assignments=(),
        students=klass.students,
        submissions=(),
        roster=people,
        times={f"{student}/{exercise}": moment for (student, exercise), moment in times.items()},
        policy=_policy(asked, before),
        overrides=_overrides(asked, before, klass.students, wanted),
        seed=asked.seed if asked.seed is not None else before.seed if before else "",
        source=str(source),
        parts=asked.parts,
        compiled=asked.kernels,
        cpu=asked.cpu,
    )
    if asked.only not in (None, "failed", "changed") and asked.only not in {one.student for one in klass.submissions}:
        raise UsageError(f"--only must be failed, changed, or the id of a student who handed in, got {asked.only!r}")
    seed = _seed(settings.seed, before)
    try:
        with kept.alone():
            if not asked.quiet:
                _announce(klass, wanted, source)
            if settings.seed == HIDDEN:
                seed = kept.hidden_seed(_now())
            return _grade(asked, kept, klass, settings, wanted, seed)
    except KeyboardInterrupt:
        print(f"grade: interrupted; to go on: grade batch --out {asked.out} --resume", file=sys.stderr)
    # What Dask holds is given back before the process ends without ceremony.
    gc.collect()
    return 130


def _check(asked: Asked, before: Batch | None) -> None:
    """Raise UsageError for options that contradict each other, or what is there."""
    if asked.resume and asked.fresh:
        raise UsageError("at most one of --resume and --fresh must be given")
    if asked.resume and before is None:
        raise UsageError(f"--resume must find what an earlier run left, got none in {asked.out}")
    if asked.source is None and before is None:
        raise UsageError("a folder or a zip file of submissions must be given: grade batch DIR --out OUT_DIR")
    if asked.workers is not None and asked.workers < 1:
        raise UsageError(f"--workers must be at least 1, got {asked.workers}")
    if asked.workers is not None and asked.scheduler:
        raise UsageError("at most one of --workers and --scheduler must be given: a cluster has the workers it has")
    if asked.limit_minutes <= 0:
        raise UsageError(f"--limit-minutes must be above 0, got {asked.limit_minutes:g}")


def _entries(asked: Asked, before: Batch | None) -> dict[str, Entry]:
    """Every exercise by id; those that are named must be among them. Raises UsageError."""
    root = find_root()
    entries = {entry.id: entry for entry in discover(root)}
    for wanted in (*asked.exercises, *(one.id for one in (before.assignments if before else ()))):
        resolve(root, wanted)
    return entries


def _wanted(asked: Asked, before: Batch | None, found: layouts.Found, entries: Mapping[str, Entry]) -> tuple[str, ...]:
    """The exercises that are graded: those named, or all that somebody handed in; and those graded before."""
    named = {resolve(find_root(), one)[0].id for one in asked.exercises}
    handed = submissions.exercises_in(found, {name: entry.name for name, entry in entries.items()})
    columns = (named or set(handed)) | {one.id for one in (before.assignments if before else ())}
    if not columns:
        raise UsageError(f"somebody must have handed in an exercise ({', '.join(entries)}), got none")
    parts = {part.name for name in columns for part in entries[name].exercise.parts}
    for part in asked.parts:
        if part not in parts:
            raise UsageError(f"a part must be one of {', '.join(sorted(parts))}, got {part!r}")
    return tuple(name for name in entries if name in columns)


def _roster(asked: Asked, before: Batch | None) -> tuple[Student, ...]:
    if asked.roster is not None:
        return roster.parse_roster(_table(asked.roster), asked.roster)
    return before.roster if before else ()


def _times(asked: Asked, before: Batch | None) -> dict[tuple[str, str], str]:
    if asked.times is not None:
        return tables.parse_times(_table(asked.times), asked.times)
    kept = before.times if before else {}
    return {(name.rpartition("/")[0], name.rpartition("/")[2]): moment for name, moment in kept.items()}


def _policy(asked: Asked, before: Batch | None) -> late.LatePolicy:
    if asked.late is not None:
        return late.parse_policy(_table(asked.late), asked.late)
    return before.policy if before else late.LatePolicy()


def _overrides(
    asked: Asked, before: Batch | None, students: tuple[Student, ...], wanted: Mapping[str, Entry]
) -> tuple[tables.Given, ...]:
    if asked.overrides is not None:
        known = {student.id for student in students}
        return tables.parse_overrides(_table(asked.overrides), known, wanted, asked.overrides)
    return before.overrides if before else ()


def _table(path: str) -> str:
    """The text of a table. Raises UsageError."""
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
    """The seed of all exercises, None where each has its own. Raises UsageError."""
    if text == HIDDEN:
        if before and before.seed not in ("", HIDDEN):
            raise UsageError(f"a hidden seed must not be known, got {before.seed}, which is published in this folder")
        return None
    return parse_seed(text) if text else None


# -- grading ---------------------------------------------------------------------------------------------------------


def _grade(
    asked: Asked,
    kept: Kept,
    klass: submissions.Class,
    settings: Batch,
    entries: Mapping[str, Entry],
    seed: int | None,
) -> int:
    from grader.batch.ledger import Ledger, Rules, assignments
    from grader.batch.ledger import handed_in as with_keys

    started = monotonic()
    with contextlib.ExitStack() as stack:
        away = stack.enter_context(team.at(asked.scheduler)) if asked.scheduler else None
        rules = Rules(
            entries=entries,
            terms=_terms_of(away, asked) if away else _terms_here(asked, entries),
            seed=seed,
            is_hidden=settings.seed == HIDDEN,
            now=_now,
            parts=asked.parts,
            compiled=asked.kernels,
            cpu=asked.cpu,
            unconfined=asked.allow_unconfined,
        )
        whole = replace(settings, assignments=assignments(rules), submissions=with_keys(klass.submissions, rules))
        kept.write_batch(whole)
        if asked.fresh:
            kept.forget_results()
        ledger = Ledger(kept, whole, rules, klass.submissions)
        only = asked.only or ""
        as_before = list(ledger.open(only))
        tasks = ledger.tasks(only)
        lines: list[Line] = []
        if tasks:
            from grader.cli.batch_progress import board

            with board(len(tasks), len(as_before), quiet=asked.quiet) as shown:
                workers = away or stack.enter_context(_workers_here(asked))
                if away is None:
                    _terms_of(workers, asked)
                for event in workers.run(tasks, asked.limit_minutes * 60):
                    shown.heard(event)
                    if isinstance(event, team.Ended):
                        ended = ledger.close(event)
                        shown.graded(ended)
                        lines += ended
    _summary(ledger, whole, Summary(len(lines), len(as_before), monotonic() - started), kept)
    return _exit_code(ledger)


@contextlib.contextmanager
def _workers_here(asked: Asked) -> Iterator[Team]:
    if not team.is_private() and not asked.quiet:
        said = "other users of this machine can reach the workers' ports; pip install cryptography closes them"
        print(f"grade: {said}", file=sys.stderr)
    gpus = () if asked.cpu else machine.visible_gpus()
    with team.here(team.local_workers(gpus, asked.workers)) as workers:
        yield workers


def _terms_here(asked: Asked, entries: Mapping[str, Entry]) -> Terms:
    uses_gpu = not asked.cpu and machine.has_gpu()
    hashes = {entry.name: entry.sha256() for entry in entries.values()}
    return Terms(key.grader(), hashes, key.environment(gpu=uses_gpu))


def _terms_of(workers: Team, asked: Asked) -> Terms:
    """What all workers have; refuses those that differ, and those that cannot confine a submission."""
    found = workers.introductions(cpu=asked.cpu)
    for address, introduction in found.items():
        open_to = missing(introduction.layers)
        if open_to and not asked.allow_unconfined:
            raise MissingEnvironment(
                f"a machine that runs strangers' code must confine it (grade doctor), but at {address} nothing guards "
                f"{'; '.join(open_to)}; --allow-unconfined grades all the same"
            )
    first = next(iter(found))
    for address, introduction in found.items():
        if introduction.terms != found[first].terms:
            what = _difference(introduction.terms, found[first].terms)
            raise MissingEnvironment(f"all workers must be alike, got {what} at {address} and {first}")
    terms = found[first].terms
    if terms.grader != key.grader():
        raise MissingEnvironment(f"workers must have this grader, {key.grader()}, got {terms.grader} at {first}")
    for entry in discover(find_root()):
        if terms.exercises.get(entry.name) != entry.sha256():
            raise MissingEnvironment(f"workers must have these exercises, got another {entry.name} at {first}")
    return terms


def _difference(one: Terms, other: Terms) -> str:
    if one.grader != other.grader:
        return f"graders {one.grader} and {other.grader}"
    if one.exercises != other.exercises:
        return "different exercises"
    return f"{one.environment} and {other.environment}"


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


# -- what is said ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Summary:
    """How much was done."""

    graded: int
    as_before: int
    seconds: float


def _announce(klass: submissions.Class, wanted: Mapping[str, Entry], source: Path) -> None:
    students = len({one.student for one in klass.submissions})
    count = len(klass.submissions)
    print(
        f"{count} submissions of {students} students for {', '.join(wanted)} in {source}", file=sys.stderr, flush=True
    )
    for name in klass.ignored[:10]:
        print(f"  nobody's: {name}", file=sys.stderr)
    if klass.strangers:
        some = ", ".join(klass.strangers[:8]) + (" …" if len(klass.strangers) > 8 else "")
        print(f"  not on the roster: {some}", file=sys.stderr)


def _summary(ledger: Ledger, whole: Batch, done: Summary, kept: Kept) -> None:
    marks = ledger.marks()
    print(f"{done.graded} graded in {_duration(done.seconds)}, {done.as_before} as before")
    for column in whole.assignments:
        own = [mark for mark in marks if mark.exercise == column.id]
        verdicts = Counter(mark.status for mark in own)
        said = ", ".join(f"{count} {verdict}" for verdict, count in verdicts.most_common())
        judged = [mark for mark in own if mark.judged]
        mean = sum(mark.points for mark in judged) / len(judged) if judged else 0.0
        print(f"{column.id}  {column.title}: {said}; {mean:.1f} points on average")
    for one in [one for one in whole.submissions if one.trouble][:20]:
        print(f"invalid  {one.student}, {one.exercise}: {one.trouble}")
    print(f"Records: {kept.folder / 'records'}\nScorecards: {kept.folder / 'cards'}")


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s" if minutes else f"{rest} s"


def _exit_code(ledger: Ledger) -> int:
    """5 where the grader failed at some, 1 where some failed, 3 and 4 where nothing worse happened, else 0."""
    statuses = {mark.status for mark in ledger.marks()} - {"missing"}
    if "grader_error" in statuses:
        return 5
    for statuses_of, code in (
        ({"not_implemented", "invalid_submission"}, 3),
        ({"skipped_environment", "inconclusive"}, 4),
    ):
        if statuses <= {"pass", *statuses_of} and statuses & statuses_of:
            return code
    return 0 if statuses <= {"pass"} else 1


# -- the hidden seed -------------------------------------------------------------------------------------------------


def publish(out: str) -> int:
    """Write the hidden seed, and the replay tokens, into the records and scorecards of a class."""
    kept = Kept(Path(out).resolve())
    with kept.alone():
        whole = read_batch(kept.folder)
        if whole.seed != HIDDEN:
            raise UsageError(f"there must be a hidden seed to publish, got {whole.seed or 'none'} in {out}")
        seed = kept.hidden_seed(_now())
        known = replace(whole, seed=f"{seed:#x}")
        ledger = _reading(kept, known, seed)
        # The seed first: a run that is killed here is repeated, and writes the same.
        count = ledger.restamp()
        kept.write_batch(known)
    print(f"The seed was {seed:#x}; {count} records and scorecards now hold it.")
    return 0


def appeal(out: str, student: str) -> int:
    """Print the command that runs each failing case of a student again, seeds included."""
    kept = Kept(Path(out).resolve())
    whole = read_batch(kept.folder)
    own = [one for one in whole.submissions if one.student == student]
    if not own:
        raise UsageError(f"a student must have handed in something, got {student!r}")
    entries = {entry.id: entry for entry in discover(find_root())}
    for one in own:
        result = kept.result(one.key) if one.key else None
        if result is None:
            print(f"{one.exercise}: {one.trouble or 'no result is kept'}")
            continue
        path = kept.submission_path(student, entries[one.exercise].name)
        cpu = " --cpu" if result.env.mode == "interpret" and machine.may_have_gpu() else ""
        print(
            f"{one.exercise}: {result.verdict}, {result.score:g} of {result.judged_score:g} points, seed {result.seed}"
        )
        for check in result.checks:
            if check.counterexample:
                command = (
                    f"grade replay {shlex.quote(check.counterexample.replay)} --submission {shlex.quote(str(path))}"
                )
                print(f"  {check.id} {check.status}: {command}{cpu}")
    return 0


def _reading(kept: Kept, whole: Batch, seed: int) -> Ledger:
    """A ledger that grades nothing."""
    from grader.batch.ledger import Ledger, Rules

    return Ledger(kept, whole, Rules({}, Terms("", {}, ""), seed, False, _now), ())
