"""Hold the processes that gradings share: a fork server, and on a GPU the exercise's baseline process.

Decides when each starts and ends, and in which mode the fork server runs. Runs no submission itself.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from grader import machine, selftest
from grader.exercise.catalogue import Entry
from grader.sandbox.server import ForkServer, Mode
from grader.speed.baseline_process import BaselineProcess
from grader.timeline import spent


class Processes:
    """The processes that stay warm from grading to grading.

    Use as a context manager, or call `close`: both end all of them. Every process that loads torch starts before this
    one loads it, so that they load side by side. `cpu` forces the interpreter.
    """

    def __init__(self, *, cpu: bool) -> None:
        self._server = ForkServer(best_mode(cpu=cpu))
        self._baseline_process: BaselineProcess | None = None
        self._exercise_name = ""
        self._beside = ThreadPoolExecutor(1)
        # Beside whatever this process loads meanwhile.
        self._tried = self._beside.submit(selftest.try_kernel, self._server)
        self._closing: threading.Thread | None = None

    def __enter__(self) -> Processes:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def begin_closing(self) -> None:
        """Begin to end all of them in another thread; `close` waits for that thread."""
        self._closing = threading.Thread(target=self._close)
        self._closing.start()

    def close(self) -> None:
        """End all of them."""
        if self._closing is None:
            self._close()
        else:
            self._closing.join()

    def _close(self) -> None:
        with spent("end the grader's processes"):
            self._drop_baseline_process()
            self._server.close()
            self._beside.shutdown()

    @property
    def mode(self) -> Mode:
        """Return the fork server's mode; after `ready`, one that works on this machine."""
        return self._server.mode

    def ready(self, entry: Entry, parts: tuple[str, ...] = ()) -> tuple[ForkServer, BaselineProcess | None]:
        """Return the fork server, and the baseline process if a check of the exercise is timed on a GPU.

        parts: those that will be graded; empty for all.
        """
        if self._server.mode == "gpu":
            rules = [check.rule for _, check in entry.exercise.checks()]
            self._start_or_replace(entry, parts, timed=any(rule.is_timed for rule in rules))
            if any(rule.counts_bytes for rule in rules):
                self._server.beside("interpret")
        return self.settled(), self._baseline_process

    def settled(self) -> ForkServer:
        """Return the fork server, in a mode that this machine can run. Loads torch where there may be a GPU."""
        if self._server.mode == "gpu" and not machine.has_gpu():
            self._drop_baseline_process()
            # The kernel is given up with the server that runs it.
            self._server = _interpreter_instead(self._server)
            self._tried = self._beside.submit(selftest.try_kernel, self._server)
        return self._server

    def check(self) -> None:
        """Wait for the grader's own kernel. Raises GradeError if its result is wrong: then nothing can be judged."""
        server = self.settled()
        selftest.require_right(self._tried.result(), server.mode)

    def checked(self) -> ForkServer:
        """Return the fork server, once the grader's own kernel was right there. Raises GradeError."""
        self.check()
        return self._server

    def stop_baseline_process(self) -> None:
        """End the baseline process at once; the next grading gets another one."""
        if self._baseline_process is not None:
            self._baseline_process.stop()

    def _start_or_replace(self, entry: Entry, parts: tuple[str, ...], *, timed: bool) -> None:
        if self._baseline_process is not None and (
            self._exercise_name != entry.name or not self._baseline_process.rest()
        ):
            self._drop_baseline_process()
        if self._baseline_process is None and timed:
            self._baseline_process, self._exercise_name = BaselineProcess(entry, parts), entry.name

    def _drop_baseline_process(self) -> None:
        if self._baseline_process is not None:
            self._baseline_process.__exit__()
            self._baseline_process = None


def _interpreter_instead(server: ForkServer) -> ForkServer:
    """Replace the server of a GPU that turned out to be unusable."""
    server.close()
    return ForkServer("interpret")


def best_mode(*, cpu: bool) -> Mode:
    """Return the mode that this machine promises at first sight."""
    return "gpu" if not cpu and machine.may_have_gpu() else "interpret"
