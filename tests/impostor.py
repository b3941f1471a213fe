"""A submission's process that is none: what lies at the other end of a session's channel says whatever a test wants."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import struct
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from grader.exercise.model import Limits
from grader.protocol.requests import Spawn, Start
from grader.sandbox.process_spec import ProcessSpec
from grader.sandbox.server import Mode, Spawned
from grader.sandbox.session import Session

# Of no process: nothing can be measured of it, and nothing ended by it.
NOBODY = 1 << 30

READY: dict[str, Any] = {"answer": "ready", "isolation": [], "device": "cpu"}
LOADED: dict[str, Any] = {"answer": "loaded", "functions": ["copy"], "others": []}
RETURNED: dict[str, Any] = {
    "answer": "returned",
    "outputs": [{"kind": "tensor", "dtype": "float32", "shape": [7], "device": "cpu", "copied": True}],
    "changed": [],
    "overrun": [],
    "launches": [{"kernel": "k", "grid": [1], "constants": {"BLOCK": 64}}],
}
RAISED: dict[str, Any] = {"answer": "raised", "verdict": "crash", "kind": "E", "message": "no", "frames": []}
PRECOMPILED: dict[str, Any] = {"answer": "precompiled", "launches": 1}
PREPARED: dict[str, Any] = {
    "answer": "prepared",
    "outputs": [{"kind": "tensor", "dtype": "float32", "shape": [7], "device": "cpu"}],
    "choices": [{"line": 7, "times_us": [7.5, -1.0], "chosen": 0}],
    "launches": 1,
}
SAMPLED: dict[str, Any] = {"answer": "sampled", "device_us": 7.5, "projections": [[1.5]], "scales": [[2.0]]}
SHOWN: dict[str, Any] = {"answer": "shown", "copied": True}
COMPILED: dict[str, Any] = {"answer": "compiled", "binaries": [], "cut": 0, "stopped": ""}
ANSWERS = (READY, LOADED, RETURNED, RAISED, PRECOMPILED, PREPARED, SAMPLED, SHOWN, COMPILED)


def framed(payload: bytes, magic: bytes = b"grd1", length: int | None = None) -> bytes:
    return struct.pack(">4sI", magic, len(payload) if length is None else length) + payload


def said(answer: dict[str, Any]) -> bytes:
    return framed(json.dumps(answer).encode())


@dataclass(frozen=True)
class Saying:
    """Bytes, with so many descriptors of its own that travel along."""

    data: bytes
    descriptors: int = 0


@dataclass
class Impostor:
    """Gives a session processes that say one thing at the start, and one more whenever they hear something.

    script: what they say; then they fall silent, or close. deaf: they never read, and say all at once.
    status: what is told of how each ended.
    """

    script: Sequence[Saying] = ()
    closes: bool = False
    deaf: bool = False
    status: int = 0
    mode: Mode = "interpret"
    spawned: int = 0
    reaped: int = 0
    _ends: list[socket.socket] = field(default_factory=list)
    _threads: list[threading.Thread] = field(default_factory=list)

    def spawn(self, request: Spawn) -> Spawned:
        self.spawned += 1
        ours, theirs = socket.socketpair()
        log_read, log_write = os.pipe()
        os.close(log_write)
        self._ends.append(theirs)
        self._threads.append(threading.Thread(target=self._play, args=(theirs,), daemon=True))
        self._threads[-1].start()
        return Spawned(NOBODY, ours, log_read)

    def reap(self, pid: int, uid: int) -> int:
        self.reaped += 1
        self.hang_up()
        return self.status

    def hang_up(self) -> None:
        for end in self._ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(10)
            assert not thread.is_alive()
        for end in self._ends:
            end.close()
        self._ends.clear()
        self._threads.clear()

    def _play(self, end: socket.socket) -> None:
        with contextlib.suppress(OSError):
            for i, saying in enumerate(self.script):
                if i and not self.deaf and not _heard(end):
                    return
                _say(end, saying)
            if self.closes:
                if not self.deaf:
                    _heard(end)
                end.shutdown(socket.SHUT_RDWR)


def _say(end: socket.socket, saying: Saying) -> None:
    sent = 0
    if saying.descriptors and saying.data:
        inlet, outlet = os.pipe()
        try:
            sent = socket.send_fds(end, [saying.data], [inlet, outlet] * saying.descriptors)
        finally:
            os.close(inlet)
            os.close(outlet)
    end.sendall(saying.data[sent:])


def _heard(end: socket.socket) -> bool:
    data, descriptors, _, _ = socket.recv_fds(end, 1 << 20, 4)
    for descriptor in descriptors:
        os.close(descriptor)
    return bool(data)


def script(*sayings: bytes | dict[str, Any] | Saying) -> tuple[Saying, ...]:
    return tuple(
        one if isinstance(one, Saying) else Saying(said(one) if isinstance(one, dict) else one) for one in sayings
    )


def session_with(impostor: Impostor, limit_s: float = 5.0) -> Session:
    limits = Limits(load_s=limit_s, call_s=limit_s, memory_bytes=1 << 30)
    return Session(ProcessSpec(impostor, Start("ex.py", "", "", ("copy",)), limits))


def descriptors_open() -> int:
    return len(os.listdir("/proc/self/fd"))
