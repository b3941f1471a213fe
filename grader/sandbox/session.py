"""Run one submission's process: load the file, call it, watch it, and start another process when it has ended.

Takes messages of grader.protocol, and limits. Gives outcomes: the answer, Raised (an exception of the submission), or
Unanswered (no answer, and why). After every Unanswered the process has ended; loading starts a fresh one. After Raised
it lives on, unless the exception is fatal or came from loading.

Runs no line of the submission in the grader, and judges no result. Measures time, memory and disk space from outside.
It believes only an announced compilation, within a budget: that time does not count.

A time limit (`limit_s`) is in seconds of work. Waits for a core do not count either, unless the submission's own other
tasks had the cores; an answer must come within ten times the limit.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import math
import mmap
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from grader.errors import GradeError
from grader.protocol.answers import (
    Answer,
    BytesShown,
    Compiled,
    Loaded,
    Precompiled,
    Prepared,
    Raised,
    Ready,
    Returned,
    Sampled,
    decode_answer,
)
from grader.protocol.decode import DecodeError
from grader.protocol.frames import (
    UNTRUSTED_BYTES,
    Closed,
    FrameError,
    has_more,
    receive,
    send,
)
from grader.protocol.requests import (
    NOTICE_BYTES,
    Call,
    Compile,
    Precompile,
    Prepare,
    RecordCall,
    ReplayCall,
    Sample,
    Show,
    Spawn,
)
from grader.protocol.trace import TRACE_BYTES, Recorded, Trace
from grader.protocol.trace_decoding import decode_recorded
from grader.sandbox import process, usage
from grader.sandbox.clock import CallClock, CompileBudget, CompilesTooLong, Notice
from grader.sandbox.outcome import (
    CompiledTooLong,
    Died,
    Finished,
    Garbled,
    Outcome,
    OutOfMemory,
    OutOfSpace,
    TimedOut,
    Unanswered,
)
from grader.sandbox.process_spec import ProcessSpec
from grader.sandbox.scratch import Scratch
from grader.sandbox.server import Spawned
from grader.sandbox.watchdog import Watchdog
from grader.timeline import spent

_TOO_EARLY = "an answer must follow its question, got one before it was asked"
# The interval at which all processes of a submission are measured together.
_LOOK_S = 0.5
# The longest wait for an answer on a busy machine, as a multiple of the time limit.
_MOST_PATIENCE = 10.0
# The share of a call's time limit after which the interpreter gives up a call of many programs.
_PATIENCE = 0.75
# The second start of a process may take so many times the limit: a driver that serves many processes starts one more
# slowly, and no line of the submission has run yet.
_PATIENCE_AT_START = 6.0


T = TypeVar("T", bound=Answer)
R = TypeVar("R")
Question = Call | RecordCall | ReplayCall | Precompile | Prepare | Sample | Show | Compile


class Printed:
    """The output of the submission's processes: its first and its last 4,096 bytes, and the number of all bytes.

    It is read all the time, so that a process never waits for its reader.
    """

    _KEPT = 4096

    def __init__(self) -> None:
        self._head = bytearray()
        self._tail = bytearray()
        self.total_bytes = 0

    def add(self, piece: bytes) -> None:
        """Take the next output."""
        self.total_bytes += len(piece)
        room = self._KEPT - len(self._head)
        self._head += piece[:room]
        self._tail = (self._tail + piece[room:])[-self._KEPT :]

    @property
    def cut_bytes(self) -> int:
        """Return the number of bytes that were dropped, between the two ends."""
        return self.total_bytes - len(self._head) - len(self._tail)

    @property
    def text(self) -> str:
        """Return both ends, joined by a line that counts the missing bytes."""
        middle = f"\n… {self.cut_bytes} bytes cut …\n".encode() if self.cut_bytes else b""
        return bytes(self._head + middle + self._tail).decode(errors="replace")


class _Exceeded(Exception):
    """Raised while an answer is awaited: the submission exceeded a limit, and its processes have ended."""

    def __init__(self, limit: OutOfMemory | OutOfSpace) -> None:
        super().__init__(limit)
        self.limit = limit


@dataclass
class _Child:
    """The running process. baseline_bytes: its memory right after loading; limits count from there.

    watchdog: only of the process that runs the submission's code; a replayer is idle between answers.
    """

    spawned: Spawned
    drain: threading.Thread
    notice: Notice
    baseline_bytes: int = 0
    watchdog: Watchdog | None = None

    @property
    def exceeded(self) -> OutOfMemory | OutOfSpace | None:
        """Return the limit for which it was killed between two answers, or None."""
        return self.watchdog.exceeded if self.watchdog else None


class Session:
    """One process of a submission at a time, and what it starts. Use as a context manager: on exit they have ended.

    spec: of its processes. scratch: the folder and the user of the processes. A session that gets none
    makes its own, and removes it on exit. beside: other sessions of the submission run at the same time, as the same
    user; when this one ends its process, it spares theirs.

    ready, loaded: the latest answers to starting and to loading, or None.
    """

    def __init__(self, spec: ProcessSpec, scratch: Scratch | None = None, *, beside: bool = False) -> None:
        self._spec = spec
        self._child: _Child | None = None
        self._scratch = scratch or Scratch()
        self._owns_scratch = scratch is None
        self._beside = beside
        self.printed = Printed()
        self.ready: Ready | None = None
        self.loaded: Loaded | None = None
        # The seconds that all answers took, without waits for a core and without compiling.
        self.worked_s = 0.0
        # How many processes were started so far.
        self.starts = 0
        self._compile_budget = CompileBudget()
        self._counts_compiling = False
        self._turn = threading.Lock()
        self._ending = threading.Lock()

    def __enter__(self) -> Session:
        return self

    def another(self, text: str = "", *, multiprocessors: int = 0) -> Session:
        """Return a session with a folder and processes of its own.

        text: of the submission; "": the same one. multiprocessors: as in Start.
        """
        start = self._spec.start
        start = replace(start, submission=text or start.submission, multiprocessors=multiprocessors)
        return Session(replace(self._spec, start=start))

    def __exit__(self, *_: object) -> None:
        self.restart()
        if self._owns_scratch:
            self._scratch.__exit__()

    @property
    def pid(self) -> int | None:
        """Return the id of the running process, or None."""
        return self._child.spawned.pid if self._child else None

    @property
    def runs_on_gpu(self) -> bool:
        """Return whether kernels are compiled and run on a GPU rather than interpreted."""
        return self._spec.server.mode == "gpu"

    def load(self) -> Loaded | Raised | Unanswered:
        """Start a process if there is none, and load the submission in it.

        Every question does this first, except Sample and Show. Raises GradeError if the process ends before the
        submission's first line: the submission is not to blame. Raises MissingEnvironment if there is no room for the
        scratch folder.
        """
        if self._child is not None and self.loaded is not None:
            return self.loaded
        ready = self._begun()
        if not isinstance(ready, Ready) and (self._scratch.is_used or isinstance(ready, TimedOut)):
            if self._scratch.is_used and not self._beside:
                # An earlier process of the submission may have left an obstacle. A new folder has none. The processes
                # of sessions beside this one need the old one.
                self._scratch.replace()
            ready = self._begun(patience=_PATIENCE_AT_START)
        if not isinstance(ready, Ready):
            raise GradeError(f"a fresh process must be ready for a submission, got {ready}: {self.printed.text[-200:]}")
        self.ready = ready
        child = self._child
        assert child is not None
        self._scratch.is_used = True
        with spent("load the file"):
            answer = self._receive(self._spec.limits.load_s)
        if isinstance(answer, Loaded):
            self.loaded = answer
            child.baseline_bytes = usage.resident_bytes(child.spawned.pid)
        elif isinstance(answer, Raised | Unanswered):
            self.restart()
        else:
            return self._garbled(f"Load must be answered by Loaded, got {type(answer).__name__}")
        return answer

    def _begun(self, *, patience: float = 1.0) -> Answer | Unanswered:
        """Start a process and send it Start. Return its answer; after any but Ready the process has ended.

        patience: how many times the limit of loading a file it may take.
        """
        limit_s = patience * self._spec.limits.load_s
        notice_fd = _sealed_memory(NOTICE_BYTES)
        try:
            with spent("start a process"):
                self._spawn(Notice(notice_fd))
            refused = self._send(dataclasses.asdict(self._spec.start), (notice_fd,), limit_s)
        finally:
            os.close(notice_fd)
        with spent("a process gets ready"):
            ready = refused or self._receive(limit_s)
        if not isinstance(ready, Ready):
            self.restart()
        return ready

    def call(self, call: Call) -> Outcome:
        """Load if needed, run one call, and copy its outputs when the answer comes."""
        loaded = self.load()
        if not isinstance(loaded, Loaded):
            return loaded
        with self._memory_for(call) as memory_fd:
            with spent("calls in the submission's process"):
                answer = self._exchange(call, Returned, self._spec.limits.call_s, memory_fd)
            return Finished(answer, _copied_slots(call, answer, memory_fd)) if isinstance(answer, Returned) else answer

    def record(self, request: RecordCall) -> tuple[Recorded, Trace] | Raised | Unanswered:
        """Load if needed, and record one call on decoys: its launches are written down, and none runs."""
        loaded = self.load()
        if not isinstance(loaded, Loaded):
            return loaded
        if refused := self._ask(request, self._spec.limits.call_s):
            return refused
        assert self._child is not None
        channel = self._child.spawned.channel

        def read(deadline: float, watch: Callable[[], None]) -> tuple[Recorded, Trace] | Answer:
            message = receive(channel, TRACE_BYTES, deadline=deadline, watch=watch)[0]
            return decode_recorded(message) if message.get("answer") == "recorded" else decode_answer(message)

        with spent("record"):
            answer = self._read(read, self._spec.limits.call_s)
        if isinstance(answer, Raised) and answer.fatal:
            self.restart()
        if isinstance(answer, tuple | Raised | Unanswered):
            return answer
        return self._garbled(f"Record must be answered by Recorded, got {type(answer).__name__}")

    def wake(self) -> None:
        """Start a process and load the submission, if there is no process. Does not wait for a running replay.

        Does not report a failed loading: the next question does.
        """
        if self.pid is None:
            with self._turn:
                self.load()

    def replay(self, request: ReplayCall, most_s: float = math.inf) -> Outcome:
        """Load if needed, replay one call, and copy its outputs when the answer comes. Threads take turns.

        most_s: a limit below that of calls.
        """
        with self._turn:
            return self._replay(request, min(most_s, self._spec.limits.call_s))

    def _replay(self, request: ReplayCall, limit_s: float) -> Outcome:
        loaded = self.load()
        if not isinstance(loaded, Loaded):
            return loaded
        with self._memory_for(request.call) as memory_fd:
            with spent("replay"):
                patient = replace(request, patience_s=_PATIENCE * limit_s)
                answer = self._exchange(patient, Returned, limit_s, memory_fd)
            if not isinstance(answer, Returned):
                return answer
            return Finished(answer, _copied_slots(request.call, answer, memory_fd))

    @contextlib.contextmanager
    def _memory_for(self, call: Call) -> Iterator[int]:
        """Make memory for the call's outputs; give its descriptor to the block, and close it afterwards."""
        size = max((slot.offset + slot.nbytes for slot in call.slots), default=0)
        memory_fd = _sealed_memory(max(size, 1))
        try:
            yield memory_fd
        finally:
            os.close(memory_fd)

    def precompile(
        self, request: Precompile, limit_s: float, *, counted: bool = False
    ) -> Precompiled | Raised | Unanswered:
        """Load if needed, and compile the launches of a trace. Threads take turns.

        counted: compiling counts towards the limit; otherwise it is limited by the budget of this session.
        """
        with self._turn, spent("compile what will be timed"):
            loaded = self.load()
            if not isinstance(loaded, Loaded):
                return loaded
            self._counts_compiling = counted
            try:
                return self._exchange(request, Precompiled, limit_s)
            finally:
                self._counts_compiling = False

    def prepare(self, request: Prepare, limit_s: float) -> Prepared | Raised | Unanswered:
        """Load if needed, and prepare traces for timing."""
        with spent("prepare what is timed"):
            loaded = self.load()
            return self._exchange(request, Prepared, limit_s) if isinstance(loaded, Loaded) else loaded

    def sample(self, request: Sample, limit_s: float) -> Sampled | Raised | Unanswered:
        """Take one sample of the prepared work. Loads nothing: without a process, return Died."""
        if self._child is None:
            return Died("ended before it was timed")
        return self._exchange(request, Sampled, limit_s)

    def show(self, request: Show) -> bytes | None:
        """Return bytes of an output of the latest sample; None if there is no process, or it shows none."""
        if self._child is None:
            return None
        memory_fd = _sealed_memory(max(request.count, 1))
        try:
            answer = self._exchange(request, BytesShown, self._spec.limits.call_s, memory_fd)
            if not isinstance(answer, BytesShown) or not answer.copied:
                return None
            with mmap.mmap(memory_fd, 0, prot=mmap.PROT_READ) as memory:
                return memory[: request.count]
        finally:
            os.close(memory_fd)

    def compile(self, request: Compile, limit_s: float) -> tuple[Compiled | Raised | Unanswered, str]:
        """Load if needed, and compile the launches of a trace, in a replayer that only compiles. Threads take turns.

        Returns the answer, and the kernel that the process announced when it ended; '' if there is none, or if the
        process lives on.
        """
        with self._turn:
            loaded = self.load()
            if not isinstance(loaded, Loaded):
                return loaded, ""
            assert self._child is not None
            notice = self._child.notice
            answer = self._exchange(request, Compiled, limit_s)
            return answer, notice.kernel

    def restart(self) -> int:
        """End the process, if there is one, and all that it started; the next question gets a fresh one.

        Returns the process's wait status, -1 if there is none. Where another thread is ending it, waits for that: the
        watchdog and the process need the scratch folder until then.
        """
        with self._ending:
            child, self._child = self._child, None
            if child is None:
                return -1
            if child.watchdog:
                child.watchdog.end()
            child.spawned.channel.close()
            child.notice.close()
            with spent("end a process"):
                status = self._spec.server.reap(child.spawned.pid, 0 if self._beside else self._scratch.uid)
            child.drain.join(2)
            return status

    def _spawn(self, notice: Notice) -> None:
        """End the running process, if any, and start a fresh one in a usable folder."""
        self.restart()
        self.starts += 1
        self._scratch.renew()
        if self._is_filling():
            # This process is not to blame for the leftovers of an earlier one.
            self._scratch.clear()
        addresses = self._spec.limits.memory_bytes + self._spec.limits.sparse_bytes
        limits: dict[str, float] = {
            "address_space_bytes": 0 if self.runs_on_gpu else addresses,
            "processes": self._spec.limits.processes,
            "file_bytes": self._spec.limits.file_bytes,
        }
        spawned = self._spec.server.spawn(
            Spawn("spawn", str(self._scratch.folder), self._scratch.uid, limits, packages=self._spec.start.packages)
        )
        child = _Child(spawned, process.drain(spawned.log_fd, self.printed.add), notice)
        if not self._beside:
            child.watchdog = Watchdog(
                lambda: self._measured(child, thoroughly=True, filling=self._is_filling()),
                lambda: self._family(child),
            )
        # Only now may another thread end it, with its watchdog.
        self._child = child

    def _exchange(
        self, message: Question, answer_type: type[T], limit_s: float, memory_fd: int | None = None
    ) -> T | Raised | Unanswered:
        """Send one message and get its answer."""
        refused = self._ask(message, limit_s, memory_fd)
        return refused or self._checked(self._receive(limit_s), answer_type, type(message).__name__)

    def _ask(self, message: Question, limit_s: float, memory_fd: int | None = None) -> Unanswered | None:
        """Send one message. Returns the reason if it could not be sent, or None.

        The limits of memory and disk space are checked first, except before Sample and Show: earlier calls may
        have ended before a check.
        """
        assert self._child is not None
        if self._child.exceeded:
            return self._bury()
        if not isinstance(message, Sample | Show) and (exceeded := self._exceeded(thoroughly=self._is_filling())):
            return exceeded
        # Answers are matched by order alone: an extra one would pass as the answer to the next question.
        if has_more(self._child.spawned.channel):
            return self._garbled(_TOO_EARLY)
        return self._send(_plain(message), () if memory_fd is None else (memory_fd,), limit_s)

    def _send(self, message: dict[str, Any], descriptors: tuple[int, ...], limit_s: float) -> Unanswered | None:
        """Send one message within the time limit of its answer. Returns the reason if it could not be sent, or None."""
        assert self._child is not None
        try:
            send(self._child.spawned.channel, message, descriptors, time.monotonic() + limit_s)
        except TimeoutError:
            self.restart()
            return TimedOut(limit_s)
        except OSError:
            return self._bury()
        return None

    def _checked(self, answer: Answer | Unanswered, answer_type: type[T], question: str) -> T | Raised | Unanswered:
        """Return the answer if it fits the question, else Garbled."""
        if isinstance(answer, Raised) and answer.fatal:
            self.restart()
        if isinstance(answer, Raised | Unanswered | answer_type):
            return answer
        return self._garbled(f"{question} must be answered by {answer_type.__name__}, got {type(answer).__name__}")

    def _receive(self, limit_s: float) -> Answer | Unanswered:
        """Return the child's next answer."""
        assert self._child is not None
        channel = self._child.spawned.channel

        def read(deadline: float, watch: Callable[[], None]) -> Answer:
            return decode_answer(receive(channel, UNTRUSTED_BYTES, deadline=deadline, watch=watch)[0])

        return self._read(read, limit_s)

    def _read(self, read: Callable[[float, Callable[[], None]], R], limit_s: float) -> R | Unanswered:
        """Return the result of `read` on the channel, or Unanswered: a limit was exceeded, or the answer was bad.

        read: takes a deadline, on the clock of `monotonic`, and a function to call again and again; that one checks
        the limits of time, compiling, memory and disk space.
        """
        child = self._child
        assert child is not None
        # The interpreter compiles nothing; in a process that only compiles, compiling is the timed work.
        notice = child.notice if self.runs_on_gpu and not self._counts_compiling else None
        clock = CallClock(child.spawned.pid, notice, self._compile_budget)
        looked = time.monotonic()
        # The clock below ends the wait earlier; this is an upper bound.
        deadline = looked + _MOST_PATIENCE * limit_s + max(0.0, self._compile_budget.left_s)

        def watch() -> None:
            nonlocal looked
            clock.look()
            late = clock.worked_s > limit_s or clock.elapsed_s > _MOST_PATIENCE * limit_s
            # A call that fills memory or disk until its time is over has exceeded both limits: name what it filled.
            thoroughly = late or time.monotonic() - looked > _LOOK_S
            if thoroughly and clock.has_waited:
                clock.charge(usage.others_s(child.spawned.pid, self._family(child)))
            if exceeded := self._exceeded(thoroughly=thoroughly):
                raise _Exceeded(exceeded)
            if late:
                raise TimeoutError
            # Measuring many processes takes time: wait again afterwards.
            looked = time.monotonic() if thoroughly else looked

        try:
            found = read(deadline, watch)
        except _Exceeded as exceeded:
            return exceeded.limit
        except CompilesTooLong as too_long:
            self.restart()
            return CompiledTooLong(too_long.kernel, too_long.limit_s, too_long.altogether)
        except TimeoutError:
            self.restart()
            return TimedOut(limit_s)
        except (Closed, OSError):
            return self._bury()
        except (FrameError, DecodeError) as broken:
            return self._garbled(str(broken))
        with contextlib.suppress(CompilesTooLong):
            clock.look()
        self.worked_s += clock.worked_s
        return found

    def _exceeded(self, *, thoroughly: bool) -> OutOfMemory | OutOfSpace | None:
        """End the submission's processes if it exceeds a limit of memory or disk space; return the outcome, else None.

        thoroughly: measure the memory of all of its processes together, and its folder; else only the memory of the
        process itself.
        """
        assert self._child is not None
        exceeded = self._measured(self._child, thoroughly=thoroughly, filling=thoroughly)
        return exceeded and self._end_for(exceeded)

    def _measured(self, child: _Child, *, thoroughly: bool, filling: bool) -> OutOfMemory | OutOfSpace | None:
        """Return the limit that a process exceeds, or None. Changes nothing. filling: measure its folder too."""
        limit = self._spec.limits.memory_bytes
        allowed = child.baseline_bytes + limit
        used = usage.resident_bytes(child.spawned.pid)
        if thoroughly and used <= allowed:
            used = usage.memory_bytes(self._family(child), allowed)
        if used > allowed:
            return OutOfMemory(limit, used)
        limit = self._spec.limits.scratch_bytes
        return OutOfSpace(limit) if filling and self._used_disk_bytes(child, limit) > limit else None

    def _family(self, child: _Child) -> list[int]:
        """Return the processes that count for a process: not its siblings, which replay as the same user."""
        return usage.family(child.spawned.pid, 0 if self._beside else self._scratch.uid)

    def _end_for(self, exceeded: OutOfMemory | OutOfSpace) -> OutOfMemory | OutOfSpace:
        """End the submission's processes for a limit, and return it."""
        self.restart()
        if isinstance(exceeded, OutOfSpace):
            self._scratch.clear()
        return exceeded

    def _is_filling(self) -> bool:
        return self._scratch.is_filling(self._spec.limits.scratch_bytes)

    def _used_disk_bytes(self, child: _Child, limit: int) -> int:
        """Return the bytes that the submission's files take up, deleted ones included while the disk is filling."""
        used = self._scratch.used_bytes(limit, self._spec.limits.scratch_files)
        # A deleted file that is still open has no name to find it by.
        filling = used <= limit and self._is_filling()
        return used + (usage.deleted_bytes(self._family(child)) if filling else 0)

    def _bury(self) -> Died | OutOfMemory | OutOfSpace:
        """End the process, and return how it ended."""
        if self._child and self._child.exceeded:
            return self._end_for(self._child.exceeded)
        status = self.restart()
        if status >= 0 and os.WIFSIGNALED(status):
            number = os.WTERMSIG(status)
            return Died(f"was killed by {_signal_name(number)} ({signal.strsignal(number)})", number)
        if status >= 0 and os.WIFEXITED(status):
            return Died(f"ended with exit status {os.WEXITSTATUS(status)} before it answered")
        return Died("ended before it answered")

    def _garbled(self, why: str) -> Garbled:
        """End the process, whose answers fit no question any more, and return Garbled."""
        self.restart()
        return Garbled(why)


def _plain(message: Question) -> dict[str, Any]:
    """Return a message as plain data. A trace is plain already, and large: it is not copied."""
    if isinstance(message, ReplayCall | Precompile | Compile):
        return {**dataclasses.asdict(replace(message, trace={})), "trace": message.trace}
    if isinstance(message, Prepare):
        return {**dataclasses.asdict(replace(message, traces=())), "traces": message.traces}
    return dataclasses.asdict(message)


def _sealed_memory(size: int) -> int:
    """Return a memory file of that size, sealed against shrinking and growing, so that reading it never faults."""
    descriptor = os.memfd_create("grade-outputs", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(descriptor, size)
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
    return descriptor


def _copied_slots(call: Call, answer: Returned, memory_fd: int) -> tuple[bytes | None, ...]:
    if not call.slots:
        return ()
    with mmap.mmap(memory_fd, 0, prot=mmap.PROT_READ) as memory:
        return tuple(
            memory[slot.offset : slot.offset + slot.nbytes]
            if i < len(answer.outputs) and answer.outputs[i].copied
            else None
            for i, slot in enumerate(call.slots)
        )


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        # Real-time signals have no name, except the first and the last.
        return f"signal {number}"
