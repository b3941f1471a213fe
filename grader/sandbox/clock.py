"""Measures how long a submission's process has worked on one question.

Time in which it waited for a core does not count: a busy machine is not its fault. Nor does time in which it says that
it compiles a kernel, within a budget of its own. What it says is a claim, so the budget has an end.
"""

from __future__ import annotations

import mmap
import time
from collections.abc import Callable
from dataclasses import dataclass

from grader.protocol.messages import NOTICE_BYTES
from grader.sandbox import usage

# What one kernel may take to compile, and all kernels of one session together.
KERNEL_S = 60.0
ALL_KERNELS_S = 600.0


@dataclass
class CompileBudget:
    """The seconds that a session has left for compiling, over all of its processes."""

    left_s: float = ALL_KERNELS_S
    kernel_s: float = KERNEL_S


class CompilesTooLong(Exception):
    """A kernel took longer to compile than it may. kernel: as the process calls it; limit_s: what was exceeded."""

    def __init__(self, kernel: str, limit_s: float, *, altogether: bool) -> None:
        super().__init__(kernel)
        self.kernel = kernel
        self.limit_s = limit_s
        self.altogether = altogether


class CallClock:
    """The time of one question to the process `pid`. `look` must be called every now and then.

    worked_s: what the process worked; elapsed_s: the same with what it waited for a core; neither holds compiling.
    notice: what the process says that it compiles at the moment, or None where compiling counts as work.
    """

    def __init__(
        self, pid: int, notice: Notice | None, budget: CompileBudget, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._pid = pid
        self._notice = notice
        self._budget = budget
        self._now = now
        self._looked_s = now()
        self._waited_s = usage.waited_s(pid)
        self._compiling = ""
        self._kernel_s = 0.0
        self.worked_s = 0.0
        self.elapsed_s = 0.0

    def look(self) -> None:
        """Count the time since the last look. Raises CompilesTooLong."""
        now_s, waited_s = self._now(), usage.waited_s(self._pid)
        # Of a process that has just ended the kernel says nothing any more.
        elapsed_s = now_s - self._looked_s
        passed_s = elapsed_s - max(0.0, waited_s - self._waited_s)
        self._looked_s, self._waited_s = now_s, waited_s
        before, self._compiling = self._compiling, self._notice.text if self._notice else ""
        if not self._compiling:
            self.worked_s += passed_s
            self.elapsed_s += elapsed_s
            return
        self._kernel_s = self._kernel_s + passed_s if self._compiling == before else 0.0
        self._budget.left_s -= passed_s
        if self._kernel_s > self._budget.kernel_s:
            raise CompilesTooLong(_name(self._compiling), self._budget.kernel_s, altogether=False)
        if self._budget.left_s < 0:
            raise CompilesTooLong(_name(self._compiling), ALL_KERNELS_S, altogether=True)


class Notice:
    """Memory in which a process says what it compiles: a number, a space, the kernel. Empty while it compiles nothing.

    The number makes two compilations of one kernel different.
    """

    def __init__(self, memory_fd: int) -> None:
        self._memory = mmap.mmap(memory_fd, NOTICE_BYTES, prot=mmap.PROT_READ)
        self._last = b""

    def close(self) -> None:
        """Let go of the memory; what was said last stays known."""
        if not self._memory.closed:
            self._last = self._memory[:]
            self._memory.close()

    @property
    def text(self) -> str:
        """What the process says now."""
        said = self._last if self._memory.closed else self._memory[:]
        return said.rstrip(b"\0").decode(errors="replace")

    @property
    def kernel(self) -> str:
        """The kernel alone, or an empty string."""
        return _name(self.text)


def _name(text: str) -> str:
    return text.partition(" ")[2]
