"""A submission's process, which records, and the clean one that replays; both keep memory from call to call."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from grader.model.exercise import Limits
from grader.protocol.messages import Call, Loaded, Raised, Record, Replay, Start
from grader.protocol.trace import Deed, Trace, fingerprint, launches_in
from grader.sandbox.outcome import Finished, Outcome, Unanswered
from grader.sandbox.server import Spawner
from grader.sandbox.session import Session


@dataclass(frozen=True)
class Told:
    """What one call on decoys said. message: the trace as it came. afresh: earlier memory is told anew in it.

    digest: of the trace, and of those that made the memory which it finds.
    """

    call: Call
    trace: Trace
    message: Mapping[str, Any]
    deeds: tuple[Deed, ...]
    untold: tuple[Deed, ...]
    afresh: bool
    digest: bytes

    @property
    def is_replayed(self) -> bool:
        """Whether nothing stands against replaying it."""
        return not (self.deeds or self.untold)

    @property
    def kernels(self) -> tuple[str, ...]:
        """Return the names of the kernels that are launched on some program, once each."""
        launched = [launch for launch in launches_in(self.trace.steps) if prod(launch.grid)]
        return tuple(dict.fromkeys(self.trace.kernels[launch.kernel].name for launch in launched))


class Pair:
    """Records in one session and replays in the other."""

    def __init__(self, session: Session, replayer: Session) -> None:
        self.session = session
        self._replayer = replayer
        self._processes = (0, 0)
        # Whether one of the two knows memory that the other one does not.
        self._apart = True
        # Of each storage that both know, the digest of the trace that touched it last.
        self._touched: dict[int, bytes] = {}

    @property
    def worked_s(self) -> float:
        """Return how long all answers of both took, in seconds."""
        return self.session.worked_s + self._replayer.worked_s

    def record(self, call: Call) -> Told | Raised | Unanswered:
        """Have a call recorded; its recipe is that of the decoys."""
        loaded = self.session.load()
        if not isinstance(loaded, Loaded):
            return loaded
        self._replayer.load()
        now = self.session.starts, self._replayer.starts
        afresh = self._apart or self._processes != now
        answer = self.session.record(Record(call, afresh))
        self._processes, self._apart = now, not isinstance(answer, tuple)
        if not isinstance(answer, tuple):
            return answer
        recorded, trace = answer
        told = Told(
            call,
            trace,
            recorded.trace,
            recorded.deeds,
            recorded.untold,
            afresh,
            self._digest(recorded.trace, afresh=afresh),
        )
        # The next call is told anew whatever this one has made.
        self._apart = not told.is_replayed
        return told

    def _digest(self, message: Mapping[str, Any], *, afresh: bool) -> bytes:
        if afresh:
            self._touched.clear()
        storages = dict.fromkeys([*message["arguments"].values(), *(window[0] for window in message["windows"])])
        digest = hashlib.sha256(fingerprint(message))
        for storage in storages:
            digest.update(self._touched.get(storage, b"new"))
        made = digest.digest()
        self._touched.update(dict.fromkeys(storages, made))
        return made

    def replay(self, told: Told, call: Call) -> Outcome:
        """Replay what was told, on the inputs of the call's recipe."""
        outcome = self._replayer.replay(Replay(call, told.message, told.afresh))
        self._apart = self._apart or not isinstance(outcome, Finished)
        return outcome

    def depends_on_kernels(self, told: Told, call: Call) -> bool:
        """Tell whether what a replay returns is something else when no kernel is launched in it."""
        with_kernels, without = (
            self._replayer.replay(Replay(call, told.message, afresh=True, launches=launches))
            for launches in (True, False)
        )
        self._apart = True
        both = isinstance(with_kernels, Finished) and isinstance(without, Finished)
        return not both or with_kernels.outputs != without.outputs  # type: ignore[union-attr]

    def skip(self) -> None:
        """Say that something was recorded that will not be replayed."""
        self._apart = True


@contextmanager
def paired(server: Spawner, start: Start, limits: Limits, session: Session) -> Iterator[Pair]:
    """Put a process that replays beside a submission's session: in a folder and of a user of its own."""
    with Session(server, replace(start, role="replay"), limits) as replayer:
        yield Pair(session, replayer)


def seeds_after(tolds: Sequence[Told], salt: str) -> Callable[[int], int]:
    """Return what makes a planned seed into the one that counts: nobody knows it before the traces are fixed.

    It depends on what the traces do and on `salt`, so the same file always meets the same inputs.
    """
    digest = hashlib.sha256(salt.encode())
    for told in tolds:
        digest.update(told.digest)

    def seed(planned: int) -> int:
        own = digest.copy()
        own.update(str(planned).encode())
        # Fewer bits could be tried one after another while the call is recorded.
        return int.from_bytes(own.digest()[:8], "big") >> 1

    return seed
