"""Start a submission's processes under a tool that watches from outside and writes a report.

The tool starts the submission's process. Both are confined as every submission is: the fork server's child becomes the
tool after all layers are in place. They talk to the grader over a socket in the scratch folder, since a tool need not
pass on its descriptors.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from dataclasses import replace
from pathlib import Path

from grader.errors import GradeError
from grader.protocol.requests import CHANNEL, Spawn
from grader.sandbox import process
from grader.sandbox.process_spec import ProcessSpec
from grader.sandbox.server import Mode, Spawned, Spawner

_START_S = 120.0
_POLL_S = 0.1
# The time for a tool to finish its report after its watched process has ended.
_LAST_WORDS_S = 10.0
_MOST_BYTES = 64 << 20
_LOAD_S, _PROCESSES = 180.0, 1024


class ToolOutput:
    """The output of the tool so far, of all its processes; beyond 64 MiB it is lost, and `cut` says so."""

    def __init__(self) -> None:
        self._text = bytearray()
        self.cut = False

    def __len__(self) -> int:
        return len(self._text)

    @property
    def text(self) -> bytes:
        """Return all of it."""
        return bytes(self._text)

    def add(self, piece: bytes) -> None:
        """Take the next output."""
        if len(self._text) + len(piece) > _MOST_BYTES:
            self.cut = True
        else:
            self._text += piece

    def settle(self, quiet_s: float, most_s: float) -> int:
        """Wait until no output has come for a while. Returns the size, in bytes."""
        deadline = time.monotonic() + most_s
        size, since = len(self), time.monotonic()
        while time.monotonic() < min(since + quiet_s, deadline):
            time.sleep(quiet_s / 10)
            if len(self) != size:
                size, since = len(self), time.monotonic()
        return size


class ToolServer:
    """Gives a session processes under `tool`, a command line that takes the watched program as its last arguments.

    module: the grader module that this program runs.
    """

    def __init__(self, server: Spawner, tool: tuple[str, ...], module: str = "grader.child.tool_worker") -> None:
        self.mode: Mode = server.mode
        self.report = ToolOutput()
        self._server = server
        self._tool = tool
        self._module = module
        self._started = 0
        self._drains: dict[int, threading.Thread] = {}

    def under_tool(self, spec: ProcessSpec, call_s: float) -> ProcessSpec:
        """Return how the same process is started under the tool, which starts with it and has threads of its own."""
        limits = replace(spec.limits, load_s=_LOAD_S, call_s=call_s, processes=_PROCESSES)
        return replace(spec, server=self, limits=limits)

    def spawn(self, request: Spawn) -> Spawned:
        """Return the tool with the submission's process under it. Raises GradeError if the latter does not connect."""
        self._started += 1
        path = Path(request.scratch, CHANNEL.format(self._started))
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            listener.bind(str(path))
            if request.uid:
                os.chown(path, request.uid, request.uid, follow_symlinks=False)
            listener.listen(1)
            watched = process.command(self._module, self._started)
            spawned = self._server.spawn(replace(request, program=(*self._tool, *watched), packages=()))
            # The tool holds the other end and never uses it.
            spawned.channel.close()
            self._drains[spawned.pid] = process.drain(spawned.log_fd, self.report.add)
            channel = self._accepted(listener, spawned.pid)
        if channel is None:
            self.reap(spawned.pid, request.uid)
            raise GradeError(f"{Path(self._tool[0]).name} must start what it is to watch, {self._last_words()}")
        return Spawned(spawned.pid, channel, os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))

    def _accepted(self, listener: socket.socket, pid: int) -> socket.socket | None:
        """Return the first connection; None if the tool ends or the time is up before."""
        listener.settimeout(_POLL_S)
        deadline = time.monotonic() + _START_S
        while time.monotonic() < deadline:
            with contextlib.suppress(TimeoutError):
                channel, _ = listener.accept()
                channel.settimeout(None)
                return channel
            if _has_ended(pid):
                return None
        return None

    def reap(self, pid: int, uid: int) -> int:
        """End a process after giving the tool time to finish its report."""
        deadline = time.monotonic() + _LAST_WORDS_S
        while not _has_ended(pid) and time.monotonic() < deadline:
            time.sleep(_POLL_S)
        status = self._server.reap(pid, uid)
        if pid in self._drains:
            self._drains.pop(pid).join(_LAST_WORDS_S)
        return status

    def _last_words(self) -> str:
        lines = self.report.text[-2000:].decode(errors="replace").strip(" =\n").splitlines()
        return f"got {lines[-1].lstrip(' =')[:300]!r}" if lines else "got nothing but its end"


def _has_ended(pid: int) -> bool:
    """Return whether a process is gone, or waits to be reaped by its parent."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return True
    # The command, in parentheses, may hold anything: the state stands behind the last parenthesis.
    return stat.rpartition(b")")[2].split()[0] in (b"Z", b"X")
