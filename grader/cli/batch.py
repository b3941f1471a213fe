"""`grade batch`: a whole class, from a folder of submissions to records, scorecards and a gradebook."""

from __future__ import annotations

import contextlib
import gc
import sys
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from grader import machine
from grader.batch import dask_workers, result_key
from grader.batch.gradebook import APART, Mark, MarkStatus
from grader.batch.reading import read, read_batch, record_of
from grader.batch.regrading import changed, in_words
from grader.batch.result_key import Terms
from grader.batch.store import Batch, BatchStore, JournalLine
from grader.batch.submissions import Collected
from grader.cli.batch_options import completed, requested, selected
from grader.cli.batch_owners import handed_in, in_full, in_short
from grader.cli.commands.batch import BatchOptions
from grader.cli.exit_codes import exit_code, worst_code
from grader.cli.files import parse_seed
from grader.cli.lacking import lacking
from grader.errors import MissingEnvironment
from grader.exercise.catalogue import Entry, discover, find_root
from grader.moments import now
from grader.phrases import counted
from grader.report.audience import HIDDEN
from grader.report.isolation import missing
from grader.report.status import LOOKS
from grader.text import one_line

if TYPE_CHECKING:
    from distributed import Client

# The most invalid files that the end of a run names.
_MOST_INVALID = 20


def batch(options: BatchOptions) -> int:
    """Grade a class. Return the exit code. Refuses bad options before anything is started."""
    store = BatchStore(Path(options.out).resolve())
    before = read_batch(store.folder) if store.has_batch() else None
    options = completed(options, before)
    if options.dry_run:
        whole, _, found = requested(options, before)
        print("\n".join(in_full(whole, found)))
        return 0
    if not dask_workers.is_installed():
        raise MissingEnvironment("grading a class must have Dask: pip install -c constraints.txt -e '.[batch]'")
    whole, entries, found = requested(options, before)
    try:
        with store.exclusive():
            if not options.quiet:
                _announce(whole, entries, found, options)
            with _told_what_changed(store, before, whole):
                return _grade(options, whole, entries, store)
    except KeyboardInterrupt:
        print(f"grade: interrupted; to go on: grade batch --out {options.out} --resume", file=sys.stderr)
    # Free Dask's resources: the process then exits without cleanup.
    gc.collect()
    return 130


# -- grading ---------------------------------------------------------------------------------------------------------


def _grade(options: BatchOptions, whole: Batch, entries: Mapping[str, Entry], store: BatchStore) -> int:
    from grader.batch.ledger import Ledger

    started = monotonic()
    with contextlib.ExitStack() as stack:
        # What libraries warn of is nothing that an instructor could mend.
        stack.enter_context(warnings.catch_warnings(action="ignore"))
        away = stack.enter_context(dask_workers.connect(options.scheduler)) if options.scheduler else None
        if away:
            if not dask_workers.tasks_at_a_time(away):
                print(f"grade: no worker is there; {_without_workers(options)}", file=sys.stderr, flush=True)
            terms = _terms_of(away, options)
        else:
            terms = result_key.terms(entries.values(), gpu=not options.cpu and machine.has_gpu())
        seed = store.hidden_seed() if whole.seed == HIDDEN else parse_seed(whole.seed) if whole.seed else None
        ledger = Ledger(store, whole, entries, terms, seed, now, unconfined=options.allow_unconfined)
        store.write_batch(ledger.batch)
        if options.fresh:
            store.forget_results()
        failed_again, student = selected(options.only, whole.submissions)
        as_before = list(ledger.open(failed_again=failed_again, student=student))
        tasks = ledger.tasks(student)
        lines: list[JournalLine] = []
        if tasks:
            from grader.cli.batch_progress import progress_board

            advice = _without_workers(options)
            with progress_board(len(tasks), len(as_before), quiet=options.quiet, advice=advice) as shown:
                workers = away or stack.enter_context(_workers_here(options))
                if away is None:
                    _terms_of(workers, options)
                for task, outcome in dask_workers.run_tasks(workers, tasks, options.limit_minutes * 60, shown.waited):
                    if outcome is None:
                        shown.started(task)
                    else:
                        ended = ledger.close(task, outcome)
                        shown.graded(ended)
                        lines += ended
    print(f"{len(lines)} graded in {_duration(monotonic() - started)}, {len(as_before)} as before")
    marks = read(store.folder).marks
    _summary(marks, whole, store)
    return _exit_code(marks)


@contextlib.contextmanager
def _told_what_changed(store: BatchStore, before: Batch | None, whole: Batch) -> Iterator[None]:
    """Print the marks that the block changes, even if it is interrupted."""
    if before is None:
        yield
        return
    old = read(store.folder)
    texts = {(one.student, one.exercise): one.sha256 for one in before.submissions}
    anew = {
        (one.student, one.exercise)
        for one in whole.submissions
        if texts.get((one.student, one.exercise), one.sha256) != one.sha256
    }
    try:
        yield
    finally:
        for line in in_words(changed(old, read(store.folder)), anew):
            print(line)


@contextlib.contextmanager
def _workers_here(options: BatchOptions) -> Iterator[Client]:
    if not dask_workers.is_private() and not options.quiet:
        said = "other users of this machine can reach the workers' ports; pip install cryptography closes them"
        print(f"grade: {said}", file=sys.stderr)
    gpus = () if options.cpu else machine.visible_gpus()
    with dask_workers.start_local(dask_workers.local_workers(gpus, options.workers)) as workers:
        yield workers


def _without_workers(options: BatchOptions) -> str:
    """Return what to do if no worker is left."""
    again = f"grade batch --out {options.out} --resume"
    if options.scheduler:
        return f"start one: dask worker {options.scheduler}; or stop with Ctrl-C, and later: {again}"
    return f"this run starts one anew; if none comes, stop with Ctrl-C, and then: {again} --workers 1"


def _terms_of(workers: Client, options: BatchOptions) -> Terms:
    """Return what all workers have in common. Refuse workers that differ, or that cannot confine a submission."""
    found = dask_workers.terms_by_worker(workers, cpu=options.cpu)
    for address, its in found.items():
        open_to = missing(its.layers)
        if open_to and not options.allow_unconfined:
            raise MissingEnvironment(
                f"a machine that runs strangers' code must confine it (grade doctor), but at {address} nothing guards "
                f"{'; '.join(open_to)}; --allow-unconfined grades anyway"
            )
    first, terms = next(iter(found.items()))
    for address, its in found.items():
        if its != terms:
            raise MissingEnvironment(
                f"all workers must be alike, got {_difference(its, terms)} at {address} and {first}"
            )
    if terms.grader != result_key.grader_hash():
        raise MissingEnvironment(
            f"workers must have this grader, {result_key.grader_hash()}, got {terms.grader} at {first}"
        )
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


def _announce(whole: Batch, entries: Mapping[str, Entry], found: Collected, options: BatchOptions) -> None:
    for line in (handed_in(whole), *in_short(found, whole.strangers)):
        print(line, file=sys.stderr, flush=True)
    # This machine does not know what the workers of a cluster lack.
    for said in lacking(entries.values(), options.parts) if options.scheduler is None else ():
        print(f"  {said}", file=sys.stderr)


def _summary(marks: Sequence[Mark], whole: Batch, store: BatchStore) -> None:
    for column in whole.assignments:
        own = [mark for mark in marks if mark.exercise == column.id]
        verdicts = Counter(mark.status for mark in own)
        said = ", ".join(f"{count} {_word(verdict)}" for verdict, count in verdicts.most_common())
        # A file that could not be read does not show how hard the exercise is.
        judged = [mark for mark in own if mark.override is not None or (mark.judged and mark.status not in APART)]
        mean = sum(mark.points for mark in judged) / len(judged) if judged else 0.0
        print(f"{column.id}  {column.title}: {said}; {mean:.1f} points on average")
    troubles = {(one.student, one.exercise): one.trouble for one in whole.submissions}
    invalid, word = [mark for mark in marks if mark.status == "invalid_submission"], _word("invalid_submission")
    for mark in invalid[:_MOST_INVALID]:
        why = troubles.get((mark.student, mark.exercise)) or _not_loaded(store, mark)
        print(f"{word}  {mark.student}, {mark.exercise}: {one_line(why)}")
    if (more := len(invalid) - _MOST_INVALID) > 0:
        print(f"{counted(more, f'more {word}')}: grade batch --out {store.folder} --dry-run")
    print(f"Records: {store.folder / 'records'}\nScorecards: {store.folder / 'cards'}")


def _not_loaded(store: BatchStore, mark: Mark) -> str:
    """Return why a readable file does not load, from its record."""
    record = record_of(store.folder, mark.student, mark.exercise)
    causes = [check.cause for check in record.checks if check.cause] if record is not None else []
    return causes[0].rationale if causes else "it does not load"


def _word(status: MarkStatus) -> str:
    return "missing" if status == "missing" else LOOKS[status].word


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s" if minutes else f"{rest} s"


def _exit_code(marks: Sequence[Mark]) -> int:
    """Return 5 if the grader failed at some, 1 if some failed, 3 or 4 if nothing worse happened, else 0."""
    return worst_code([exit_code(mark.status) for mark in marks if mark.status != "missing"])
