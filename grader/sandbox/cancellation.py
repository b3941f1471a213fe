"""A grading that can be called off: its processes can be ended from another thread, and it gets no new ones."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Callable

from grader.sandbox.server import Mode, Server, Spawned

# How often somebody who waits for a child looks whether it is still wanted.
_LOOK_S = 0.05


class Cancelled(BaseException):
    """The grading is not wanted any more. Not an Exception: nobody on the way may take it for a submission's fault."""


class CancelToken:
    """That something may go on. It is withdrawn once, from any thread, and never given again."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._channels: list[socket.socket] = []
        self.withdrawn = False

    def check(self) -> None:
        """Raise CalledOff where it was withdrawn."""
        if self.withdrawn:
            raise Cancelled

    def withdraw(self) -> None:
        """Let go of every child: whoever waits for one finds it dead, ends it, and tidies up."""
        with self._lock:
            self.withdrawn = True
            for channel in self._channels:
                _shut(channel)

    def covers(self, channel: socket.socket) -> None:
        """This child's channel, too, is shut when the consent is withdrawn."""
        with self._lock:
            # Those that were closed in the meantime are of no interest any more.
            self._channels = [one for one in self._channels if one.fileno() >= 0]
            self._channels.append(channel)
            if self.withdrawn:
                _shut(channel)


class CancellableServer:
    """A server whose children end when the consent is withdrawn; whoever then asks for another gets CalledOff.

    Servers beside it are on the same leash. The server itself goes on, warm, for the next grading.
    """

    def __init__(self, server: Server, consent: CancelToken) -> None:
        self.mode: Mode = server.mode
        self._server = server
        self._consent = consent

    def beside(self, mode: Mode) -> CancellableServer:
        """The server for another mode, on the same leash."""
        self._consent.check()
        return CancellableServer(self._server.beside(mode), self._consent)

    def spawn(
        self,
        scratch: str,
        uid: int,
        limits: dict[str, float],
        program: tuple[str, ...] = (),
        *,
        packages: tuple[str, ...] = (),
    ) -> Spawned:
        """A child of the server; raises CalledOff, even while the server is still loading."""
        self._consent.check()
        spawned = _PendingChild(
            self._server, uid, lambda: self._server.spawn(scratch, uid, limits, program, packages=packages)
        )
        child = spawned.wait(self._consent)
        self._consent.covers(child.channel)
        return child

    def reap(self, pid: int, uid: int) -> int:
        """As the server does it: what was started is ended, with or without consent."""
        return self._server.reap(pid, uid)


class _PendingChild:
    """A child that was asked for on a thread of its own: whoever waits for it may go; it then ends as it comes."""

    def __init__(self, server: Server, uid: int, ask: Callable[[], Spawned]) -> None:
        self._server = server
        self._uid = uid
        self._ask = ask
        self._news = threading.Condition()
        self._child: Spawned | None = None
        self._fault: BaseException | None = None
        self._abandoned = False
        threading.Thread(target=self._run, daemon=True).start()

    def wait(self, consent: CancelToken) -> Spawned:
        """The child, or what went wrong; raises CalledOff as soon as the consent is withdrawn."""
        with self._news:
            while self._child is None and self._fault is None:
                if consent.withdrawn:
                    self._abandoned = True
                    raise Cancelled
                self._news.wait(_LOOK_S)
        if self._fault is not None:
            raise self._fault
        assert self._child is not None
        return self._child

    def _run(self) -> None:
        child = None
        try:
            child = self._ask()
        except BaseException as fault:
            self._fault = fault
        with self._news:
            self._child, abandoned = child, self._abandoned
            self._news.notify_all()
        if abandoned and child is not None:
            child.channel.close()
            os.close(child.log_fd)
            self._server.reap(child.pid, self._uid)


def _shut(channel: socket.socket) -> None:
    # Shut, not closed: its owner reads an end instead of a number that may belong to somebody else by then.
    with contextlib.suppress(OSError):
        channel.shutdown(socket.SHUT_RDWR)
