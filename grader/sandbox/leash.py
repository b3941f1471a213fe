"""A grading that can be called off: its processes can be ended from another thread, and it gets no new ones."""

from __future__ import annotations

import contextlib
import socket
import threading

from grader.sandbox.server import Mode, Server, Spawned


class CalledOff(BaseException):
    """The grading is not wanted any more. Not an Exception: nobody on the way may take it for a submission's fault."""


class Consent:
    """That something may go on. It is withdrawn once, from any thread, and never given again."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._channels: list[socket.socket] = []
        self.withdrawn = False

    def check(self) -> None:
        """Raise CalledOff where it was withdrawn."""
        if self.withdrawn:
            raise CalledOff

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


class Leash:
    """A server whose children end when the consent is withdrawn; whoever then asks for another gets CalledOff.

    Servers beside it are on the same leash. The server itself goes on, warm, for the next grading.
    """

    def __init__(self, server: Server, consent: Consent) -> None:
        self.mode: Mode = server.mode
        self._server = server
        self._consent = consent

    def beside(self, mode: Mode) -> Leash:
        """The server for another mode, on the same leash."""
        self._consent.check()
        return Leash(self._server.beside(mode), self._consent)

    def spawn(
        self,
        scratch: str,
        uid: int,
        limits: dict[str, float],
        program: tuple[str, ...] = (),
        *,
        packages: tuple[str, ...] = (),
    ) -> Spawned:
        """A child of the server; raises CalledOff."""
        self._consent.check()
        spawned = self._server.spawn(scratch, uid, limits, program, packages=packages)
        self._consent.covers(spawned.channel)
        return spawned

    def reap(self, pid: int, uid: int) -> int:
        """As the server does it: what was started is ended, with or without consent."""
        return self._server.reap(pid, uid)


def _shut(channel: socket.socket) -> None:
    # Shut, not closed: its owner reads an end instead of a number that may belong to somebody else by then.
    with contextlib.suppress(OSError):
        channel.shutdown(socket.SHUT_RDWR)
