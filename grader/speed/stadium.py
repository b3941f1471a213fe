"""Where speed is judged: the GPU's lock, and the trusted process that runs the baselines there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

from grader.catalogue import Entry
from grader.speed.anchor import Anchor
from grader.speed.lock import GpuLock


@dataclass(frozen=True)
class Stadium:
    """A GPU on which a submission is graded. No lock: there is none; no anchor: nothing is timed."""

    anchor: Anchor | None
    lock: GpuLock | None
    uuid: str


@contextmanager
def opened(entry: Entry, uuid: str, anchor: Anchor | None, *, timed: bool) -> Iterator[Stadium]:
    """Open the stadium on the GPU of that UUID (empty: there is none). `anchor` is one that runs already."""
    if not uuid:
        yield Stadium(None, None, "")
    elif not timed:
        yield Stadium(None, GpuLock(uuid), uuid)
    else:
        with nullcontext(anchor) if anchor else Anchor(entry) as running:
            yield Stadium(running, GpuLock(uuid), uuid)
