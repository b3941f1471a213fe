"""The seed of a class, one in each folder. A hidden one is published in all records, or used for an appeal."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from grader import machine
from grader.batch.ledger import restamp
from grader.batch.reading import read_batch
from grader.batch.store import Batch, BatchStore
from grader.cli.batch_out import check_folder
from grader.cli.files import parse_seed
from grader.errors import UsageError
from grader.exercise.catalogue import discover, find_root
from grader.phrases import counted
from grader.report.audience import HIDDEN


def check_seed(out: str, asked: str | None, own: str, going_on: str) -> None:
    """Refuse a second seed in a run that goes on, and a hidden seed that students know. Raises UsageError.

    asked: None if the command line has none. own: that of the folder's last run. going_on: why the run goes on with the
    folder's submissions, or ''. A stored hidden seed that is still secret may always be used again.
    """
    if asked is None or _is_same(asked, own):
        return
    store = BatchStore(Path(out).resolve())
    instead = "leave --seed out, or name another --out"
    if asked == HIDDEN and store.has_hidden_seed():
        if known := store.published_seed(own):
            rule = "a hidden seed must not be known"
            raise UsageError(f"{rule}, got {known}, which is published in this folder; {instead}")
    elif going_on:
        raise UsageError(f"{going_on} the seed must be the folder's own ({_named(own)}), got {asked}; {instead}")


def seed_notes(asked: str | None, before: Batch | None) -> Iterator[str]:
    """Yield a note if a run changes the seed of its folder."""
    if before is not None and asked is not None and not _is_same(asked, before.seed):
        yield f"the seed was {_named(before.seed)}, and is {asked} now: everything is graded on other inputs"


def _named(seed: str) -> str:
    return seed or "that of the default plan"


def _is_same(asked: str, own: str) -> bool:
    """Return whether two seeds are equal, in any notation. Raises UsageError for what is not a seed."""
    if asked == HIDDEN:
        return own == HIDDEN
    return parse_seed(asked) == (parse_seed(own) if own not in ("", HIDDEN) else None)


def publish(out: str) -> int:
    """Write the hidden seed, and the replay tokens, into the records and scorecards of a class."""
    check_folder(out)
    store = BatchStore(Path(out).resolve())
    with store.exclusive():
        whole = read_batch(store.folder)
        if whole.seed != HIDDEN:
            raise UsageError(f"there must be a hidden seed to publish, got {whole.seed or 'none'} in {out}")
        seed = store.hidden_seed()
        known = replace(whole, seed=f"{seed:#x}")
        store.note_published()
        # Write batch.json last: if this run is killed before, a repeated run writes the same.
        count = restamp(store, known)
        store.write_batch(known)
    holding = counted(count, "record and its scorecard now hold", "records and their scorecards now hold")
    print(f"The seed was {seed:#x}; {holding} it.")
    return 0


def appeal(out: str, student: str) -> int:
    """Print the command that runs each failing case of a student again, seeds included."""
    store = BatchStore(Path(out).resolve())
    whole = read_batch(store.folder)
    own = [one for one in whole.submissions if one.student == student]
    if not own:
        raise UsageError(f"a student must have handed in something, got {student!r}")
    entries = {entry.id: entry for entry in discover(find_root())}
    for one in own:
        result = store.result(one) if one.key else None
        if result is None:
            print(f"{one.exercise}: {one.trouble or 'no result is kept'}")
            continue
        path = store.submission_path(student, entries[one.exercise].name)
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
