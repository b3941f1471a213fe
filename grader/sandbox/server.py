"""The grader's side of the fork server: start it early, ask it for children, and have it end them."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import socket
import subprocess
import tempfile
import threading
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, Protocol

from grader.errors import GradeError
from grader.exercise.catalogue import hidden_folders
from grader.protocol.frames import TRUSTED_BYTES, Closed, FrameError, receive, send
from grader.protocol.requests import Reap, Spawn
from grader.sandbox import bubble, process
from grader.sandbox.scratch import sweep

Mode = Literal["interpret", "gpu", "compile"]

_START_TIMEOUT_S = 180.0
_NICE = 10
# Only these variables of the grader reach a submission: no tokens, no paths into the user's home.
_ENVIRONMENT = ("PATH", "LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH", "VIRTUAL_ENV")
_ENVIRONMENT_PREFIXES = ("CUDA_", "NVIDIA_", "TRITON_", "PYTORCH_")


_SETTINGS = {
    # Devices are numbered as by nvidia-smi, here and in the baseline process.
    "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
    "OMP_NUM_THREADS": "1",
    "PYTHONUNBUFFERED": "1",
    # The CuTe DSL would cache its output in a folder that all submissions share.
    "CUTE_DSL_DISABLE_FILE_CACHING": "1",
    # torch.compile returns functions unchanged: its generated kernels are not in the submission's text, and it would
    # launch the submission's own kernels past the recorder.
    "TORCHDYNAMO_DISABLE": "1",
}


class _Gone(Exception):
    """The server ended; the message is the last line that it wrote."""


@dataclass(frozen=True)
class Spawned:
    """A child of the fork server: its pid, the grader's end of its channel, the read end of its output."""

    pid: int
    channel: socket.socket
    log_fd: int


class Spawner(Protocol):
    """A source of processes for sessions, which also ends them."""

    mode: Mode

    def spawn(self, request: Spawn) -> Spawned:
        """Return a fresh child, confined and waiting for its first message, or one that became its program."""

    def reap(self, pid: int, uid: int) -> int:
        """End a child and everything it started. Returns its wait status, or -1 without one."""


class Server(Spawner, Protocol):
    """A spawner that knows the spawners of other modes."""

    def beside(self, mode: Mode) -> Server:
        """Return the server for another mode."""


class ForkServer:
    """A process with torch and triton preloaded. The constructor returns at once; the first spawn waits for it.

    mode "interpret" runs kernels under TRITON_INTERPRET=1 on the CPU, "gpu" compiles them for the GPU; "compile" only
    compiles them, for GPUs that need not be there, at a lower CPU priority than the judged processes.
    """

    def __init__(self, mode: Mode) -> None:
        self.mode: Mode = mode
        self._closed = False
        # Sessions on several threads may ask: the lock keeps a question and its answer together.
        self._asking = threading.Lock()
        self._starting = threading.Lock()
        self._others: dict[Mode, ForkServer] = {}
        self._hidden = hidden_folders()
        # Remove the leftovers of killed graders.
        sweep()
        self._start()

    def beside(self, mode: Mode) -> ForkServer:
        """Return the server for another mode. It starts on the first request, and lives as long as this one."""
        if mode == self.mode:
            return self
        with self._starting:
            if mode not in self._others:
                self._others[mode] = ForkServer(mode)
            return self._others[mode]

    def _start(self) -> None:
        self._has_spawned = False
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  lives as long as the server
        self._control, theirs = socket.socketpair()
        self._control.settimeout(_START_TIMEOUT_S)
        with theirs:
            environment = _environment(self.mode)
            inside = partial(bubble.around, hidden=self._hidden)
            self._process = process.start("grader.child.forkserver", theirs, environment, self._errors, inside)
        if self.mode == "compile":
            # A lower priority, since judged processes run on the clock; all children inherit it.
            with contextlib.suppress(OSError):
                os.setpriority(os.PRIO_PGRP, self._process.pid, _NICE)

    def spawn(self, request: Spawn) -> Spawned:
        """Return a fresh child, confined and waiting for its first message, or one that became its program.

        The folders hidden from it are the server's. A server that a submission has killed is replaced once. Raises
        GradeError if the new one ends as well.
        """
        request = replace(request, hidden=tuple(map(str, self._hidden)))
        with contextlib.suppress(_Gone):
            return self._spawn(request)
        self._restart()
        try:
            return self._spawn(request)
        except _Gone as gone:
            raise GradeError(f"the fork server must answer, but it ended: {gone}") from gone

    def _spawn(self, request: Spawn) -> Spawned:
        ours, theirs = socket.socketpair()
        log_read, log_write = os.pipe()
        try:
            with theirs:
                answer = self._ask(request, (theirs.fileno(), log_write))
                self._has_spawned = True
        except BaseException:
            ours.close()
            os.close(log_read)
            raise
        finally:
            os.close(log_write)
        return Spawned(int(answer["pid"]), ours, log_read)

    def reap(self, pid: int, uid: int) -> int:
        """End a child and everything it started. Returns its wait status, or -1 without one."""
        try:
            return int(self._ask(Reap("reap", pid, uid))["status"])
        except _Gone:
            # Its children have ended with it, by their parent-death signal.
            self._restart()
            return -1

    def _restart(self) -> None:
        if self._closed:
            raise GradeError("a fork server that was closed must not be asked for anything")
        self._end()
        self._start()

    def close(self) -> None:
        """End the server and with it every child, and the servers beside it."""
        servers = [*self._others.values(), self]
        for server in servers:
            server._closed = True
        # Shut all of them first: they then end side by side.
        for server in servers:
            # Another thread may be waiting for an answer: a shut channel wakes it, a closed one does not.
            with contextlib.suppress(OSError):
                server._control.shutdown(socket.SHUT_RDWR)
            server._control.close()
        for server in servers:
            server._end()
        self._others.clear()

    def _end(self) -> None:
        self._control.close()
        if self._has_spawned:
            # It ends its children and their descendants before it exits. A server without children can be killed.
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(10)
        # The server may be inside a bubble, whose process is another one.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._errors.close()

    def _ask(self, question: Spawn | Reap, descriptors: tuple[int, ...] = ()) -> dict[str, Any]:
        try:
            with self._asking:
                send(self._control, dataclasses.asdict(question), descriptors)
                return receive(self._control, TRUSTED_BYTES)[0]
        except (Closed, FrameError, OSError) as gone:
            raise _Gone(process.last_words(self._process, self._errors)) from gone


def _environment(mode: Mode) -> dict[str, str]:
    environment = {
        name: value
        for name, value in os.environ.items()
        if name in _ENVIRONMENT or name.startswith(_ENVIRONMENT_PREFIXES)
    }
    environment.pop("TRITON_INTERPRET", None)
    if mode != "gpu":
        # Hiding the GPU keeps a submission on the device that the grader judges it on.
        environment["CUDA_VISIBLE_DEVICES"] = ""
    if mode == "interpret":
        environment["TRITON_INTERPRET"] = "1"
    # Packages that write on import write where the bubble permits it.
    return {**environment, **_SETTINGS, "TMPDIR": tempfile.gettempdir()}
