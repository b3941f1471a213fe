"""Measure how long a submission's process has worked on one question.

Time in which it waited for a core does not count: a busy machine is not its fault. It counts where the submission's own
other threads and processes kept the cores busy. Time in which it announces a compilation (grader.compile.announcing)
does not count either, within a budget. An announcement is a claim, so the budget is limited.
"""

from __future__ import annotations

import mmap
import time
from collections.abc import Callable
from dataclasses import dataclass

from grader.protocol.requests import NOTICE_BYTES
from grader.sandbox import usage

# Limits on compiling one kernel, and all kernels of one session together.
KERNEL_S = 60.0
ALL_KERNELS_S = 600.0
# For a shorter wait for a core, do not measure all processes.
_SHORT_S = 0.1


@dataclass
class CompileBudget:
    """The seconds that a session has left for compiling, over all of its processes."""

    left_s: float = ALL_KERNELS_S
    kernel_s: float = KERNEL_S


class CompilesTooLong(Exception):
    """A kernel took too long to compile. kernel: as the process names it; limit_s: the limit that it exceeded."""

    def __init__(self, kernel: str, limit_s: float, *, altogether: bool) -> None:
        super().__init__(kernel)
        self.kernel = kernel
        self.limit_s = limit_s
        self.altogether = altogether


class CallClock:
    """The time of one question to the process `pid`. Call `look` regularly.

    worked_s: the time that the process worked; elapsed_s: the same plus its waits for a core; neither holds compiling.
    notice: returns the kernel that the process announces at the moment; None where compiling counts as work.
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
        # State at the latest charge: the waits not yet charged, and the CPU seconds of the other tasks.
        self._forgiven_s = 0.0
        self._others_s: float | None = None
        self._compiling = ""
        self._kernel_s = 0.0
        self.worked_s = 0.0
        self.elapsed_s = 0.0

    def look(self) -> None:
        """Count the time since the last look. Raises CompilesTooLong."""
        now_s, waited_s = self._now(), usage.waited_s(self._pid)
        # The kernel reports nothing about a process that has just ended.
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

    @property
    def has_waited(self) -> bool:
        """Return whether the process has waited for a core since the latest charge."""
        return self.elapsed_s - self.worked_s - self._forgiven_s > _SHORT_S

    def charge(self, others_s: float) -> None:
        """Count waits as work, up to the CPU time that the submission's other threads and processes used meanwhile.

        others_s: the CPU seconds that they have used so far. The first charge only notes them.
        """
        if self._others_s is not None:
            waited_s = self.elapsed_s - self.worked_s - self._forgiven_s
            self.worked_s += max(0.0, min(waited_s, others_s - self._others_s))
        self._others_s, self._forgiven_s = others_s, self.elapsed_s - self.worked_s


class Notice:
    """Memory in which a process announces a compilation: a number, a space, the kernel; empty while there is none.

    The number tells two compilations of one kernel apart.
    """

    def __init__(self, memory_fd: int) -> None:
        self._memory = mmap.mmap(memory_fd, NOTICE_BYTES, prot=mmap.PROT_READ)
        self._last = b""

    def close(self) -> None:
        """Release the memory; the last announcement stays known."""
        if not self._memory.closed:
            self._last = self._memory[:]
            self._memory.close()

    @property
    def text(self) -> str:
        """Return the current announcement."""
        said = self._last if self._memory.closed else self._memory[:]
        return said.rstrip(b"\0").decode(errors="replace")

    @property
    def kernel(self) -> str:
        """Return the announced kernel without its number, or an empty string."""
        return _name(self.text)


def _name(text: str) -> str:
    return text.partition(" ")[2]
