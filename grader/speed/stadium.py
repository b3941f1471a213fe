"""Where speed is judged: the GPU's lock, the trusted process on the GPU, and who goes ahead of the clock."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

from grader.catalogue import Entry
from grader.model.exercise import Part
from grader.speed.anchor import Anchor
from grader.speed.lock import GpuLock
from grader.speed.scout import Scout
from grader.speed.suite import Suite, Verdict


@dataclass(frozen=True)
class Stadium:
    """A GPU on which a submission is graded. No lock: there is none; no anchor: nothing is timed."""

    anchor: Anchor | None
    lock: GpuLock | None
    uuid: str


@dataclass(frozen=True)
class Timed:
    """A speed verdict that waits to be confirmed."""

    suite: Suite
    verdict: Verdict
    duration_s: float


@contextmanager
def opened(entry: Entry, uuid: str, anchor: Anchor | None, *, timed: bool) -> Iterator[Stadium]:
    """The stadium on the GPU of that UUID (empty: there is none). `anchor` is one that runs already."""
    if not uuid:
        yield Stadium(None, None, "")
    elif not timed:
        yield Stadium(None, GpuLock(uuid), uuid)
    else:
        with nullcontext(anchor) if anchor else Anchor(entry) as running:
            yield Stadium(running, GpuLock(uuid), uuid)


@contextmanager
def scouted(stadium: Stadium, parts: Sequence[Part], made: Callable[[GpuLock], Scout]) -> Iterator[Scout | None]:
    """While the block runs, a scout goes ahead, where something will be timed; behind it, the scout has ended."""
    if stadium.anchor is None or stadium.lock is None or not parts:
        yield None
        return
    with made(stadium.lock) as scout:
        scout.send(parts)
        yield scout
