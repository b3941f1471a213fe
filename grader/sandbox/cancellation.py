"""Cancel a grading: end its processes from another thread, and start no new ones.

Takes a server; gives a server of the same kind under a CancelToken. The server itself stays alive.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading

from grader.protocol.requests import Spawn
from grader.sandbox.server import Mode, Server, Spawned

# How often a thread that waits for a child checks for cancellation.
_LOOK_S = 0.05


class Cancelled(BaseException):
    """The grading was cancelled. Not an Exception, so that no handler takes it for a submission's fault."""


class CancelToken:
    """A permission to go on. It is withdrawn once, from any thread, and never given again."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._channels: list[socket.socket] = []
        self.withdrawn = False

    def check(self) -> None:
        """Raise Cancelled if the token was withdrawn."""
        if self.withdrawn:
            raise Cancelled

    def withdraw(self) -> None:
        """Cancel: shut every child's channel. A thread that waits for a child then sees it dead, and cleans up."""
        with self._lock:
            self.withdrawn = True
            for channel in self._channels:
                _shut(channel)

    def covers(self, channel: socket.socket) -> None:
        """Shut this child's channel as well when the token is withdrawn."""
        with self._lock:
            # Drop the channels that were closed in the meantime.
            self._channels = [one for one in self._channels if one.fileno() >= 0]
            self._channels.append(channel)
            if self.withdrawn:
                _shut(channel)


class CancellableServer:
    """A server whose children end when the token is withdrawn; a request for another child then raises Cancelled.

    Servers beside it share the token. The server itself stays warm for the next grading.
    """

    def __init__(self, server: Server, token: CancelToken) -> None:
        self.mode: Mode = server.mode
        self._server = server
        self._token = token

    def beside(self, mode: Mode) -> CancellableServer:
        """Return the server for another mode, under the same token."""
        self._token.check()
        return CancellableServer(self._server.beside(mode), self._token)

    def spawn(self, request: Spawn) -> Spawned:
        """Return a child of the server. Raises Cancelled, even while the server is still loading."""
        self._token.check()
        child = _PendingChild(self._server, request).wait(self._token)
        self._token.covers(child.channel)
        return child

    def reap(self, pid: int, uid: int) -> int:
        """End a child as the server does, cancelled or not."""
        return self._server.reap(pid, uid)


class _PendingChild:
    """A child requested on a thread of its own. The waiting thread may leave; the child is then ended on arrival."""

    def __init__(self, server: Server, request: Spawn) -> None:
        self._server = server
        self._request = request
        self._news = threading.Condition()
        self._child: Spawned | None = None
        self._fault: BaseException | None = None
        self._abandoned = False
        threading.Thread(target=self._run, daemon=True).start()

    def wait(self, token: CancelToken) -> Spawned:
        """Return the child, or raise its error. Raises Cancelled as soon as the token is withdrawn."""
        with self._news:
            while self._child is None and self._fault is None:
                if token.withdrawn:
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
            child = self._server.spawn(self._request)
        except BaseException as fault:
            self._fault = fault
        with self._news:
            self._child, abandoned = child, self._abandoned
            self._news.notify_all()
        if abandoned and child is not None:
            child.channel.close()
            os.close(child.log_fd)
            self._server.reap(child.pid, self._request.uid)


def _shut(channel: socket.socket) -> None:
    # Shut it instead of closing it: the owner then reads end of file, and never uses a reused descriptor.
    with contextlib.suppress(OSError):
        channel.shutdown(socket.SHUT_RDWR)
