"""Pair a submission's process, which records, with clean processes that replay its traces.

Takes calls; gives recorded answers and outcomes. Recorder and replayers keep memory from call to call.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import Any, Literal

from grader.exercise.cases import FAMILY, PLAIN
from grader.exercise.seeds import is_shared
from grader.protocol.answers import Loaded, Raised
from grader.protocol.observations import Pause
from grader.protocol.requests import (
    ANY,
    Call,
    Counts,
    Filling,
    Interrupted,
    Lanes,
    Recipe,
    RecordCall,
    RecordedInputs,
    ReplayCall,
    Unwritten,
    Wanted,
)
from grader.protocol.trace import (
    CuteCall,
    Launch,
    Recorded,
    Trace,
    TraceNote,
    choices_in,
    constants_in,
    fingerprint,
    launches_in,
)
from grader.sandbox.kernel_cache import SlowKernels
from grader.sandbox.outcome import Finished, Outcome, Unanswered
from grader.sandbox.precompiling import precompile
from grader.sandbox.process_spec import ProcessSpec
from grader.sandbox.scratch import Scratch
from grader.sandbox.session import Session
from grader.sandbox.side_by_side import SideBySide

# The replayers with interpreted kernels. The same on every machine, since seeds follow from re-recorded traces.
_SIDE_BY_SIDE = 2
# Replayers on a GPU; they compile most of the time.
_MOST_ON_GPU = 8
# Further compiling processes, and the cores that stay free for recording, judging and counting.
_MOST_COMPILERS, _OTHERS = 6, 2


@dataclass(frozen=True)
class RecordedAnswer:
    """The answer to one call on decoys.

    message: the trace as received. afresh: the trace records earlier memory anew. storages: all that it works with.
    found: those that earlier calls made. digest: of the trace and of the traces that made the found memory. untried:
    configurations of its autotuners that timing leaves out. asked: the file asked for the GPU's properties.
    """

    call: Call
    trace: Trace
    message: Mapping[str, Any]
    outside_work: tuple[TraceNote, ...]
    unrecordable: tuple[TraceNote, ...]
    afresh: bool
    storages: frozenset[int]
    found: frozenset[int]
    digest: bytes
    untried: frozenset[int] = frozenset()
    asked: bool = False

    @property
    def is_replayable(self) -> bool:
        """Return whether the trace can be replayed."""
        return not (self.outside_work or self.unrecordable)

    @property
    def needs_no_memory(self) -> bool:
        """Return whether the trace can be replayed without memory of earlier calls."""
        return self.is_replayable and not self.found

    @property
    def configurations(self) -> int:
        """Return the largest number of configurations of an autotuner; 0 where nothing is autotuned."""
        return max((len(step.alternatives) for step in choices_in(self.trace.steps)), default=0)

    @property
    def kept(self) -> int:
        """Return the largest number of configurations that an autotuner has from an earlier call alone."""
        return max((step.kept for step in choices_in(self.trace.steps)), default=0)

    @property
    def kernels(self) -> tuple[str, ...]:
        """Return the names of the kernels that are launched on at least one program, once each."""
        names = [_launched(self.trace, step) for step in launches_in(self.trace.steps)]
        return tuple(dict.fromkeys(filter(None, names)))


def _launched(trace: Trace, step: Launch | CuteCall) -> str:
    """Return the name of the launched kernel; an empty text for a launch of no program."""
    if isinstance(step, CuteCall):
        return trace.programs[step.program].name
    return trace.kernels[step.kernel].name if prod(step.grid) else ""


class Pair:
    """Records in one session, and replays in others: in order in the first of them, side by side in all.

    inputs: those that calls are recorded on, as in requests.RecordCall. compilers: processes that may compile beside
    the replayers, into the same folder. slow: the kernels that were too slow to compile before.
    """

    def __init__(
        self,
        session: Session,
        replayers: Sequence[Session],
        compilers: Sequence[Session] = (),
        *,
        inputs: RecordedInputs = "guarded",
        slow: SlowKernels | None = None,
    ) -> None:
        self.session = session
        self.compilers = tuple(compilers)
        self._inputs: RecordedInputs = inputs
        self._slow = slow or SlowKernels()
        self._replayers = tuple(replayers)
        self._processes = (0, 0)
        # True if recorder or first replayer knows memory that the other does not.
        self._out_of_step = True
        # By storage: a digest of the trace that touched it last, and of its place in that trace.
        self._touched: dict[int, bytes] = {}
        # By digest: the number of traces that touched the known memory.
        self._equals: Counter[bytes] = Counter()
        # The number of times that all memory was recorded anew: older storage numbers are invalid then.
        self.recorded_anew = 0
        # Storages that no replayer kept.
        self._gone: set[int] = set()
        # The seconds that answers of other processes of the submission took.
        self._elsewhere_s = 0.0

    @property
    def worked_s(self) -> float:
        """Return the seconds that all answers of all processes took."""
        of_replayers = sum(replayer.worked_s for replayer in self._replayers)
        return self._elsewhere_s + self.session.worked_s + of_replayers

    def record(self, call: Call) -> RecordedAnswer | Raised | Unanswered:
        """Record a call on decoys in place of the inputs that its recipe names."""
        loaded = self.session.load()
        if not isinstance(loaded, Loaded):
            return loaded
        self._replayers[0].wake()
        now = self.session.starts, self._replayers[0].starts
        afresh = self._out_of_step or self._processes != now
        self.recorded_anew += afresh
        on_decoys = replace(call, recipe=decoys_of(call.recipe))
        answer = self.session.record(RecordCall(on_decoys, afresh, self._inputs))
        self._processes, self._out_of_step = now, not isinstance(answer, tuple)
        if not isinstance(answer, tuple):
            return answer
        recorded = self._recorded_answer(call, *answer, afresh=afresh)
        if recorded.found & self._gone:
            # Record once more, with that memory recorded anew.
            self._out_of_step = True
            return self.record(call)
        # The next trace then records all memory of this call anew.
        self._out_of_step = not recorded.is_replayable
        return recorded

    def _recorded_answer(self, call: Call, message: Recorded, trace: Trace, *, afresh: bool) -> RecordedAnswer:
        """Return the answer of a call, with the memory that it works with."""
        memory = self._memory_of(message.trace, trace, afresh=afresh)
        told = message.trace, message.outside_work, message.unrecordable
        return RecordedAnswer(call, trace, *told, afresh, *memory, asked=message.asked)

    def _memory_of(
        self, message: Mapping[str, Any], trace: Trace, *, afresh: bool
    ) -> tuple[frozenset[int], frozenset[int], bytes]:
        """Return the storages of a trace, those of them that earlier calls made, and the digest.

        A forged trace may fill a storage for a later call, and show no window of it.
        """
        if afresh:
            self._touched.clear()
            self._equals.clear()
            self._gone.clear()
        filled = (one.storage for one in constants_in(trace.steps))
        # By name: a fingerprint leaves out the order of the arguments.
        given = (number for _, number in sorted(trace.arguments.items()))
        storages = dict.fromkeys([*given, *(one.storage for one in trace.windows), *filled])
        found = frozenset(storage for storage in storages if storage in self._touched)
        digest = hashlib.sha256(fingerprint(message))
        for storage in storages:
            digest.update(self._touched.get(storage, b"new"))
        made = digest.digest()
        # Each storage gets another digest, so that a later trace's seed depends on which one it finds. Otherwise it
        # could choose among the answers that this trace left, when its seed is known.
        for place, storage in enumerate(storages):
            self._touched[storage] = made + f"/{self._equals[made]}/{place}".encode()
        self._equals[made] += 1
        return frozenset(storages), found, made

    def record_timed(self, call: Call) -> tuple[RecordedAnswer, ...] | Raised | Unanswered:
        """Record a call that will be timed: on inputs without guard bands, twice.

        Returns the first answer and, where it differs, the second, which finds memory of the first. A process that may
        remember earlier calls is replaced first.
        """
        traced = self._recorded_twice(call)
        if isinstance(traced, tuple) and remembers(traced[0]):
            self.session.restart()
            traced = self._recorded_twice(call)
        return traced

    def _recorded_twice(self, call: Call) -> tuple[RecordedAnswer, ...] | Raised | Unanswered:
        self._out_of_step = True
        recorded_answers: list[RecordedAnswer] = []
        for afresh in (True, False):
            loaded = self.session.load()
            if not isinstance(loaded, Loaded):
                return loaded
            answer = self.session.record(RecordCall(call, afresh, "timed"))
            if not isinstance(answer, tuple):
                return answer
            recorded_answers.append(self._recorded_answer(call, *answer, afresh=afresh))
        first, second = recorded_answers
        return (first,) if fingerprint(first.message) == fingerprint(second.message) else (first, second)

    def precompile(self, calls: Sequence[RecordedAnswer]) -> list[RecordedAnswer]:
        """Compile the launches of calls in all replayers side by side; return the calls with their `untried` set."""
        tunes = any(recorded.configurations > 1 for recorded in calls)
        processes = [*self._replayers, *(self.compilers if tunes else ())]
        late = precompile(processes, calls, slow=self._slow.names())
        self._slow.add(late.slow)
        return [replace(recorded, untried=places) for recorded, places in zip(calls, late.places, strict=True)]

    @contextmanager
    def in_new_process(self, text: str = "", *, multiprocessors: int = 0) -> Iterator[None]:
        """Record the calls of the block in another process of the submission, which remembers no earlier call.

        text: of the submission; "": the same one. multiprocessors: of the GPU that launch code sees; 0: as usual.
        """
        kept = self.session
        with kept.another(text, multiprocessors=multiprocessors) as other:
            self._elsewhere_s += kept.worked_s
            self.session, self._out_of_step = other, True
            try:
                yield
            finally:
                self._elsewhere_s += other.worked_s - kept.worked_s
                self.session, self._out_of_step = kept, True

    def end_all_but_one(self) -> Session:
        """End the submission's process and all replayers but one; return that one, which times."""
        first, *others = *self._replayers, *self.compilers
        self._out_of_step = True
        with ThreadPoolExecutor(1 + len(others)) as pool:
            for done in [pool.submit(session.restart) for session in (self.session, *others)]:
                done.result()
        return first

    def end(self) -> None:
        """End all of them; the next call starts others."""
        self.end_all_but_one().restart()

    def replay(
        self, recorded: RecordedAnswer, call: Call, wanted: Wanted = ANY, *, counts: Counts = "bytes"
    ) -> Outcome:
        """Replay a recorded answer on the inputs of the call's recipe, in a wanted configuration.

        counts: of each launch in the interpreter.
        """
        memory: Literal["afresh", "kept"] = "afresh" if recorded.afresh else "kept"
        request = ReplayCall(call, recorded.message, memory, wanted=wanted, counts=counts)
        outcome = self._replayers[0].replay(request)
        self._out_of_step = self._out_of_step or not isinstance(outcome, Finished)
        return outcome

    def side_by_side(self, prepare: Callable[[], object] = lambda: None) -> SideBySide:
        """Return an object that replays calls side by side. Meanwhile, only record, and replay in order."""
        return SideBySide(self._replayers, prepare)

    def replay_isolated(self, recorded: RecordedAnswer, call: Call, wanted: Wanted) -> Outcome:
        """Replay a call that needs no memory of earlier ones; the memory that it makes is dropped."""
        self._gone |= recorded.storages
        return self._replayers[0].replay(ReplayCall(call, recorded.message, "isolated", wanted=wanted))

    def replay_backwards(
        self,
        recorded: RecordedAnswer,
        call: Call,
        wanted: Wanted,
        pauses: tuple[Pause, ...] = (),
        *,
        interrupted: Interrupted = "none",
    ) -> Outcome:
        """Repeat the latest replay, with the programs of each launch in the opposite order.

        pauses: the places of that replay at which programs may be interrupted. interrupted: how many programs are.
        """
        return self._replay_again(recorded, call, wanted, backwards=True, pauses=pauses, interrupted=interrupted)

    def replay_other_lanes(self, recorded: RecordedAnswer, call: Call, wanted: Wanted, lanes: Lanes) -> Outcome:
        """Repeat the latest replay. lanes: which lane wins among those that store to one address."""
        return self._replay_again(recorded, call, wanted, lanes=lanes)

    def replay_refilled(
        self,
        recorded: RecordedAnswer,
        call: Call,
        wanted: Wanted,
        lines: tuple[int, ...],
        filling: Filling,
        *,
        backwards: bool = False,
    ) -> Outcome:
        """Repeat the latest replay, with other numbers in unwritten memory.

        lines: of loads; their masked lanes hold `filling`, and so do empty allocations. backwards: programs run in the
        opposite order.
        """
        garbage = {"filled": lines, "filling": filling, "unwritten": filling}
        return self._replay_again(recorded, call, wanted, backwards=backwards, **garbage)

    def _replay_again(self, recorded: RecordedAnswer, call: Call, wanted: Wanted, **how: Any) -> Outcome:
        """Replay a call on the memory and the carried arguments that its latest replay found; drop what it makes.

        how: other fields of ReplayCall.
        """
        memory: Literal["before", "isolated"] = "before" if recorded.found else "isolated"
        return self._replayers[0].replay(ReplayCall(call, recorded.message, memory, wanted=wanted, again=True, **how))

    def replay_request(self, recorded: RecordedAnswer, request: ReplayCall, most_s: float = math.inf) -> Outcome | None:
        """Replay a call by this request, within `most_s` seconds; drop the memory that it makes.

        Returns None for a call that needs memory of earlier ones.
        """
        self.leave(recorded)
        if not recorded.needs_no_memory:
            return None
        return self._replayers[0].replay(request, most_s)

    def begin_edited(
        self,
        together: SideBySide,
        place: int,
        recorded: RecordedAnswer,
        call: Call,
        text_of: Callable[[], str],
        most_s: float,
    ) -> None:
        """Begin to replay a call with the kernels of another text, isolated. text_of: makes the text."""
        self.leave(recorded)
        if recorded.needs_no_memory:
            together.begin(place, lambda: ReplayCall(call, recorded.message, "isolated", text=text_of()), most_s)

    def begin_isolated(
        self,
        together: SideBySide,
        place: int,
        recorded: RecordedAnswer,
        call_of: Callable[[], Call],
        wanted: Wanted = ANY,
        *,
        counts: Counts = "bytes",
    ) -> None:
        """Begin to replay a call if it needs no memory of earlier ones; the memory that it makes is dropped.

        call_of: makes the call, with the inputs of the replay. counts: of each launch in the interpreter.
        """
        if recorded.needs_no_memory and not recorded.afresh and len(self._replayers) > 1:
            self._gone |= recorded.storages
            together.begin(
                place, lambda: ReplayCall(call_of(), recorded.message, "isolated", wanted=wanted, counts=counts)
            )

    def depends_on_kernels(self, recorded: RecordedAnswer, call: Call) -> bool:
        """Return whether the outputs of a replay change if no kernel is launched in it.

        A kernel that computes NaN has the result of empty memory, one that computes zeros that of cleared memory.
        So both are tried.
        """
        self.leave(recorded)
        return self._differs_without_kernels(recorded, call, "nan") or self._differs_without_kernels(
            recorded, call, "0"
        )

    def _differs_without_kernels(self, recorded: RecordedAnswer, call: Call, unwritten: Unwritten) -> bool:
        with_kernels, without = (
            self._replayers[0].replay(
                ReplayCall(call, recorded.message, "isolated", launches=launches, unwritten=unwritten)
            )
            for launches in (True, False)
        )
        both = isinstance(with_kernels, Finished) and isinstance(without, Finished)
        return not both or with_kernels.outputs != without.outputs  # type: ignore[union-attr]

    def leave(self, recorded: RecordedAnswer) -> None:
        """Note that no replayer keeps the memory of a call.

        If all memory was recorded anew for it, the replayers still hold the old memory under the same numbers.
        """
        self._gone |= recorded.storages
        self._out_of_step = self._out_of_step or recorded.afresh

    def skip(self) -> None:
        """Note that a recorded call will not be replayed."""
        self._out_of_step = True


def remembers(recorded: RecordedAnswer) -> bool:
    """Return whether a call whose memory is recorded in full may have read memory of earlier calls."""
    return bool(recorded.unrecordable) or _tells_content(recorded.message["steps"])


def _tells_content(row: object) -> bool:
    """Return whether a message holds a constant, or a stand-in for one that is too large."""
    if isinstance(row, Mapping):
        return any(map(_tells_content, row.values()))
    return isinstance(row, list) and (row[:1] in (["constant"], ["unknown"]) or any(map(_tells_content, row)))


@contextmanager
def paired(
    spec: ProcessSpec,
    session: Session,
    entry: Path | None = None,
    *,
    inputs: RecordedInputs = "guarded",
) -> Iterator[Pair]:
    """Start replayers beside a submission's session; they share a folder and a user.

    spec: how the replayers are started, but for their role. entry: the cache entry of compiled kernels
    (grader.sandbox.kernel_cache), None for no cache. inputs: as in Pair; a server whose processes have no guard bands
    needs others than "guarded".
    """
    with ExitStack() as stack:
        scratch = stack.enter_context(Scratch(entry))
        cores = len(os.sched_getaffinity(0))
        on_gpu = spec.server.mode == "gpu"
        replayers = max(1, min(_MOST_ON_GPU, cores // 2)) if on_gpu else _SIDE_BY_SIDE
        compilers = max(0, min(_MOST_COMPILERS, cores - replayers - _OTHERS)) if on_gpu else 0
        sessions = [Session(spec.replaying(), scratch, beside=True) for _ in range(replayers + compilers)]
        for one in sessions:
            stack.enter_context(one)
        yield Pair(session, sessions[:replayers], sessions[replayers:], inputs=inputs, slow=SlowKernels(entry))


def decoys_of(recipe: Recipe) -> Recipe:
    """Return the recipe of the decoys of a call.

    Their seeds do not reveal the planned one: with it, the submission's process could compute the inputs that follow
    from a trace, and change the trace until they suit its kernels. Their numbers do not reveal the family of values:
    launch code that reads them unseen could else take a short cut for constant numbers, or skip a maximum.
    """

    def decoy(seed: int) -> int:
        return _seed_of(hashlib.sha256(f"decoys/{seed}".encode()).digest())

    patch = None if recipe.patch_seed is None else decoy(recipe.patch_seed)
    case = {**recipe.case, FAMILY: PLAIN} if FAMILY in recipe.case else recipe.case
    return replace(recipe, case=case, seed=decoy(recipe.seed), patch_seed=patch)


def seeds_after(recorded_answers: Sequence[RecordedAnswer], salt: str, draw: int = 0) -> Callable[[int], int]:
    """Return a function from a planned seed to the true one, which is unknown before the traces are fixed.

    The true seed depends on the traces and on `salt`, so that the same file always gets the same inputs. The true seed
    of shared inputs depends on the planned seed alone. draw: a number for a different set of seeds.
    """
    shared, digest = (hashlib.sha256(f"{text}/{draw}".encode()) for text in ("", salt))
    for recorded in recorded_answers:
        digest.update(recorded.digest)

    def seed(planned: int) -> int:
        own = (shared if is_shared(planned) else digest).copy()
        own.update(str(planned).encode())
        return _seed_of(own.digest())

    return seed


def _seed_of(digest: bytes) -> int:
    """Return a seed of 63 bits: fewer could be tried one after another while a call is recorded."""
    return int.from_bytes(digest[:8], "big") >> 1
