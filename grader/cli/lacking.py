"""Name the parts that this machine cannot judge, because a package is not installed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from grader import machine
from grader.exercise.catalogue import Entry
from grader.phrases import all_of


def lacking(entries: Iterable[Entry], parts: Collection[str] = ()) -> Iterator[str]:
    """Yield a sentence for each exercise and package: which parts lack it, and the command that installs it.

    parts: only these; empty for all.
    """
    for entry in entries:
        by_reason: dict[str, list[str]] = {}
        for part in entry.exercise.parts:
            reason = machine.why_not_judged(part)
            if reason and (not parts or part.name in parts):
                by_reason.setdefault(reason, []).append(part.name)
        for reason, names in by_reason.items():
            yield f"{all_of(names)} of {entry.id} cannot be judged here: {reason}"
