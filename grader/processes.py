"""The processes that gradings share: a fork server, and on a GPU the anchor of the exercise at hand."""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor

from grader import machine, selftest
from grader.errors import GradeError
from grader.exercise.catalogue import Entry
from grader.sandbox.server import ForkServer, Mode
from grader.speed.baseline_process import BaselineProcess
from grader.timeline import spent


class Processes:
    """Kept warm from grading to grading. Use as a context manager, or close it: then all of them have ended.

    Whatever loads torch is started before this process loads it: they load side by side. `cpu` forces the interpreter.
    """

    def __init__(self, *, cpu: bool) -> None:
        self._server = ForkServer(best_mode(cpu=cpu))
        self._anchor: BaselineProcess | None = None
        self._anchored = ""
        self._beside = ThreadPoolExecutor(1)
        self._tried: Future[selftest.SelfTestResult] | None = None
        self._closing: threading.Thread | None = None

    def __enter__(self) -> Processes:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def begin_closing(self) -> None:
        """Begin to end all of them, beside whatever else is to be done; `close` waits for that."""
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
            self._drop_anchor()
            self._server.close()
            self._beside.shutdown()

    @property
    def mode(self) -> Mode:
        """What the fork server runs; after `ready`, what this machine can."""
        return self._server.mode

    def ready(self, entry: Entry) -> tuple[ForkServer, BaselineProcess | None]:
        """The fork server, and the trusted process on the GPU where something of the exercise is timed."""
        if self._server.mode == "gpu":
            rules = [check.rule for _, check in entry.exercise.checks()]
            self._anchor_for(entry, timed=any(rule.is_timed for rule in rules))
            if any(rule.counts_bytes for rule in rules):
                self._server.beside("interpret")
        return self.settled(), self._anchor

    def settled(self) -> ForkServer:
        """Return the fork server, of a mode that this machine can. Loads torch here where there may be a GPU."""
        if self._server.mode == "gpu" and not machine.has_gpu():
            self._drop_anchor()
            self._server = _interpreter_instead(self._server)
        if self._tried is None:
            # Beside whatever this process loads meanwhile.
            self._tried = self._beside.submit(selftest.try_kernel, self._server)
        return self._server

    def check(self) -> None:
        """Wait for the grader's own kernel. Raises GradeError unless it came out right: then nothing can be judged."""
        server = self.settled()
        assert self._tried is not None
        selftest.require_right(self._tried.result(), server.mode)

    def stop_anchor(self) -> None:
        """End the anchor in the middle of whatever it does; the next grading gets another one."""
        if self._anchor is not None:
            self._anchor.stop()

    def _anchor_for(self, entry: Entry, *, timed: bool) -> None:
        if self._anchor is not None and (self._anchored != entry.name or not self._anchor.rest()):
            self._drop_anchor()
        if self._anchor is None and timed:
            self._anchor, self._anchored = BaselineProcess(entry), entry.name

    def _drop_anchor(self) -> None:
        if self._anchor is not None:
            self._anchor.__exit__()
            self._anchor = None


def start_server(*, cpu: bool) -> ForkServer:
    """Return a fork server for the best mode of this machine. `cpu` forces the interpreter.

    Raises GradeError when the grader's own kernel does not come out right there.
    """
    server = ForkServer(best_mode(cpu=cpu))
    if server.mode == "gpu" and not machine.has_gpu():
        server = _interpreter_instead(server)
    try:
        selftest.require_right(selftest.try_kernel(server), server.mode)
    except GradeError:
        server.close()
        raise
    return server


def _interpreter_instead(server: ForkServer) -> ForkServer:
    """The GPU that was there at first sight cannot be used."""
    server.close()
    return ForkServer("interpret")


def best_mode(*, cpu: bool) -> Mode:
    """The mode that this machine promises at first sight."""
    return "gpu" if not cpu and machine.may_have_gpu() else "interpret"
