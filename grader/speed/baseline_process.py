"""Start the baseline process and talk to it: a trusted process on the same GPU that answers the grader.

It gives baselines, the truth, and the GPU's ceilings. No code of the submission enters it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import mmap
import os
import select
import socket
import tempfile
from collections.abc import Iterator
from typing import Any, TypeVar

from grader.errors import GradeError
from grader.exercise.catalogue import Entry
from grader.protocol.answers import Prepared, Sampled
from grader.protocol.baseline_messages import (
    Ask,
    Begin,
    Failed,
    Gauge,
    Gauged,
    Missing,
    PrepareBaseline,
    Rest,
    Rested,
    Reveal,
    Revealed,
)
from grader.protocol.decode import DecodeError, decode
from grader.protocol.frames import (
    TRUSTED_BYTES,
    Closed,
    FrameError,
    receive,
    send,
)
from grader.protocol.requests import Recipe, Sample
from grader.sandbox import process
from grader.timeline import spent

_START_TIMEOUT_S = 180.0
# A first call may compile for minutes; nothing that the baseline process runs is hostile.
_ANSWER_TIMEOUT_S = 300.0

T = TypeVar("T")


class BaselineProcessFailed(GradeError):
    """The baseline process failed at a request; the message says why."""


class BaselineProcess:
    """The baseline process. It starts at once, and loads while answers are judged; the first question waits for it.

    Use as a context manager. Questions raise BaselineProcessFailed. parts: those that will probably be timed; empty for
    all.
    """

    def __init__(self, entry: Entry, parts: tuple[str, ...] = ()) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  lives as long as the process
        self._channel, theirs = socket.socketpair()
        environment = {**os.environ, "XLA_PYTHON_CLIENT_PREALLOCATE": "false", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
        with theirs:
            self._process = process.start("grader.speed.baseline_main", theirs, environment, self._errors)
        send(self._channel, dataclasses.asdict(Begin(str(entry.root), entry.name, parts)))
        self._started = False

    def __enter__(self) -> BaselineProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self._channel.close()
        # The operating system cleans up after it, and faster.
        self._process.kill()
        self._process.wait()
        self._errors.close()

    def stop(self) -> None:
        """End the process at once, from any thread; a pending question raises BaselineProcessFailed."""
        self._process.kill()

    @property
    def is_running(self) -> bool:
        """Return whether it still answers questions."""
        return self._process.poll() is None

    @property
    def pid(self) -> int:
        """Return its process id."""
        return self._process.pid

    def missing(self, recipe: Recipe, names: tuple[str, ...]) -> dict[str, str]:
        """Return why baselines of a part cannot run here, by name; '' for those that can. Each is tried on a case."""
        return self._ask(Ask(recipe, names), Missing).missing

    def gauge(self) -> Gauged:
        """Return the GPU's sizes and ceilings."""
        return self._ask(Gauge(), Gauged)

    def rest(self) -> bool:
        """Release what the last grading left on the device; return whether the process can serve another one."""
        with contextlib.suppress(BaselineProcessFailed):
            if self._started:
                self._ask(Rest(), Rested)
            return self.is_running
        return False

    def prepare(self, request: PrepareBaseline) -> Prepared:
        """Prepare a baseline for timing."""
        return self._ask(request, Prepared)

    def sample(self, request: Sample) -> Sampled:
        """Time a baseline once."""
        return self._ask(request, Sampled)

    def reveal(self, request: Reveal) -> tuple[Revealed, bytes, bytes]:
        """Return a description of the truth, and the float64 values and allowed errors of the requested elements."""
        count = request.count
        with _memory(2 * 8 * count) as (descriptor, memory):
            revealed = self._ask(request, Revealed, descriptor)
            return revealed, memory[: 8 * count], memory[8 * count : 16 * count]

    def _ask(self, request: Any, answer_type: type[T], descriptor: int | None = None) -> T:
        with self._stop_on_failure():
            if not self._started:
                with spent("wait for the baseline process"):
                    self._answer(_START_TIMEOUT_S)
                self._started = True
            send(self._channel, dataclasses.asdict(request), () if descriptor is None else (descriptor,))
            return decode(answer_type, self._answer(_ANSWER_TIMEOUT_S))

    @contextlib.contextmanager
    def _stop_on_failure(self) -> Iterator[None]:
        try:
            yield
        except (Closed, FrameError, DecodeError, OSError) as gone:
            # If it still runs, its late answer would pass for the answer to the next question.
            self.stop()
            raise BaselineProcessFailed(
                f"the baseline process must answer, but it ended: {process.last_words(self._process, self._errors)}"
            ) from gone

    def _answer(self, limit_s: float) -> dict[str, Any]:
        if not select.select([self._channel], [], [], limit_s)[0]:
            # A late answer would pass for the answer to the next question.
            self.stop()
            raise BaselineProcessFailed(f"the baseline process must answer within {limit_s:g} s, got nothing")
        answer, _ = receive(self._channel, TRUSTED_BYTES)
        if answer.keys() == {"why"}:
            raise BaselineProcessFailed(decode(Failed, answer).why)
        return answer


@contextlib.contextmanager
def _memory(size: int) -> Iterator[tuple[int, mmap.mmap]]:
    """Yield a memory file of that size: its descriptor, and a view of it."""
    descriptor = os.memfd_create("grade-baselines", os.MFD_CLOEXEC)
    try:
        os.ftruncate(descriptor, max(size, 1))
        with mmap.mmap(descriptor, 0, prot=mmap.PROT_READ) as memory:
            yield descriptor, memory
    finally:
        os.close(descriptor)
