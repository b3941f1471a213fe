"""`grade batch`: a whole class, from a folder of submissions to records, scorecards and a gradebook."""

from __future__ import annotations

import contextlib
import gc
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from grader import machine
from grader.batch import key, team
from grader.batch.key import Terms
from grader.batch.reading import read_batch
from grader.batch.store import Batch, JournalLine, Kept
from grader.cli.batch_options import BatchOptions, BatchRequest, completed, requested
from grader.cli.lacking import lacking
from grader.cli.moment import now
from grader.errors import MissingEnvironment
from grader.exercise.catalogue import Entry, discover, find_root
from grader.report.audience import HIDDEN
from grader.report.isolation import missing

if TYPE_CHECKING:
    from grader.batch.ledger import Ledger
    from grader.batch.team import Team


def batch(options: BatchOptions) -> int:
    """Grade a class; return the exit code. Refuses bad requests before any work starts."""
    kept = Kept(Path(options.out).resolve())
    before = read_batch(kept.folder) if kept.has_batch() else None
    options = completed(options, before)
    if not team.is_installed():
        raise MissingEnvironment("grading a class must have Dask: pip install -c constraints.txt -e '.[batch]'")
    request = requested(options, before)
    try:
        with kept.alone():
            if not options.quiet:
                _announce(request, options)
            return _grade(options, request, kept)
    except KeyboardInterrupt:
        print(f"grade: interrupted; to go on: grade batch --out {options.out} --resume", file=sys.stderr)
    # What Dask holds is given back before the process ends without ceremony.
    gc.collect()
    return 130


# -- grading ---------------------------------------------------------------------------------------------------------


def _grade(options: BatchOptions, request: BatchRequest, kept: Kept) -> int:
    from grader.batch.ledger import GradingRules, Ledger, assignments
    from grader.batch.ledger import handed_in as with_keys

    started = monotonic()
    settings, submitted = request.settings, request.klass.submissions
    with contextlib.ExitStack() as stack:
        away = stack.enter_context(team.at(options.scheduler)) if options.scheduler else None
        rules = GradingRules(
            entries=request.entries,
            terms=_terms_of(away, options) if away else _terms_here(options, request.entries),
            seed=kept.hidden_seed(now()) if settings.seed == HIDDEN else request.seed,
            is_hidden=settings.seed == HIDDEN,
            now=now,
            parts=options.parts,
            compiled=options.kernels,
            cpu=options.cpu,
            unconfined=options.allow_unconfined,
        )
        whole = replace(settings, assignments=assignments(rules), submissions=with_keys(submitted, rules))
        kept.write_batch(whole)
        if options.fresh:
            kept.forget_results()
        ledger = Ledger(kept, whole, rules, submitted)
        only = options.only or ""
        as_before = list(ledger.open(only))
        tasks = ledger.tasks(only)
        lines: list[JournalLine] = []
        if tasks:
            from grader.cli.batch_progress import board

            with board(len(tasks), len(as_before), quiet=options.quiet) as shown:
                workers = away or stack.enter_context(_workers_here(options))
                if away is None:
                    _terms_of(workers, options)
                for event in workers.run(tasks, options.limit_minutes * 60):
                    shown.heard(event)
                    if isinstance(event, team.TaskEnded):
                        ended = ledger.close(event)
                        shown.graded(ended)
                        lines += ended
    _summary(ledger, whole, Summary(len(lines), len(as_before), monotonic() - started), kept)
    return _exit_code(ledger)


@contextlib.contextmanager
def _workers_here(options: BatchOptions) -> Iterator[Team]:
    if not team.is_private() and not options.quiet:
        said = "other users of this machine can reach the workers' ports; pip install cryptography closes them"
        print(f"grade: {said}", file=sys.stderr)
    gpus = () if options.cpu else machine.visible_gpus()
    with team.here(team.local_workers(gpus, options.workers)) as workers:
        yield workers


def _terms_here(options: BatchOptions, entries: Mapping[str, Entry]) -> Terms:
    uses_gpu = not options.cpu and machine.has_gpu()
    hashes = {entry.name: entry.sha256() for entry in entries.values()}
    return Terms(key.grader(), hashes, key.environment(gpu=uses_gpu))


def _terms_of(workers: Team, options: BatchOptions) -> Terms:
    """Return what all workers have in common. Refuse workers that differ, or that cannot confine a submission."""
    found = workers.introductions(cpu=options.cpu)
    for address, introduction in found.items():
        open_to = missing(introduction.layers)
        if open_to and not options.allow_unconfined:
            raise MissingEnvironment(
                f"a machine that runs strangers' code must confine it (grade doctor), but at {address} nothing guards "
                f"{'; '.join(open_to)}; --allow-unconfined grades anyway"
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


# -- what is said ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Summary:
    """Counts of what a batch did."""

    graded: int
    as_before: int
    seconds: float


def _announce(request: BatchRequest, options: BatchOptions) -> None:
    klass, count = request.klass, len(request.klass.submissions)
    students = len({one.student for one in klass.submissions})
    said = f"{count} submissions of {students} students for {', '.join(request.entries)} in {request.settings.source}"
    print(said, file=sys.stderr, flush=True)
    for name in klass.ignored[:10]:
        print(f"  nobody's: {name}", file=sys.stderr)
    if klass.strangers:
        some = ", ".join(klass.strangers[:8]) + (" …" if len(klass.strangers) > 8 else "")
        print(f"  not on the roster: {some}", file=sys.stderr)
    # What the workers of a cluster lack is not this machine's to say.
    for said in lacking(request.entries.values(), options.parts) if options.scheduler is None else ():
        print(f"  {said}", file=sys.stderr)


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
