"""Serve the scorecard at a local address and keep it up to date while the loop runs. It serves no file.

It listens on the loopback interface at a port that the system chooses. The address holds a random token, and a request
without the token gets no answer. The Host header must name this address: a foreign page cannot reach it through a name
of its own.
"""

from __future__ import annotations

import hmac
import json
import secrets
import socket
import threading
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from grader.report.page import live

_HOST = "127.0.0.1"
# Shorter than the timeouts of browsers and proxies. The page then asks again.
_NEWS_S = 20.0
# A silent client is dropped after this time.
_SILENCE_S = 30.0
# A browser opens six connections; another user of this machine may open thousands.
MOST_CLIENTS = 32


class Live:
    """A server for one scorecard. Use as a context manager; a browser opens `address`."""

    def __init__(self, title: str) -> None:
        self._token = secrets.token_urlsafe(24)
        self._news = threading.Condition()
        self._title = title
        self._card = ""
        self._words = "waiting for a save"
        self._version = self._shown = 0
        self._closed = False
        self._server = _Server(self)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), daemon=True)

    def __enter__(self) -> Live:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._news:
            self._closed = True
            self._news.notify_all()
        self._server.shutdown()
        self._server.server_close()

    @property
    def address(self) -> str:
        """Return http://127.0.0.1:PORT/TOKEN/."""
        return f"http://{_HOST}:{self.port}/{self._token}/"

    @property
    def port(self) -> int:
        """Return the port that the system chose."""
        return int(self._server.server_address[1])

    def show(self, card: str) -> None:
        """Show this scorecard from now on. `card` is a whole page."""
        with self._news:
            self._card = card
            self._version += 1
            self._shown = self._version
            self._news.notify_all()

    def turn_to(self, title: str) -> None:
        """Switch to another exercise, which has no scorecard yet."""
        self._title = title
        self.show("")

    def say(self, checking: bool, attempts: int) -> None:
        """Show whether a check is running, and the number of attempts."""
        words = "checking …" if checking else f"attempt {attempts}" if attempts else "waiting for a save"
        with self._news:
            if words != self._words:
                self._words = words
                self._version += 1
                self._news.notify_all()

    # -- for requests ------------------------------------------------------------------------------------------------

    def knows(self, host: str) -> bool:
        """Return whether a request's Host header names this address."""
        return host in (f"{_HOST}:{self.port}", f"localhost:{self.port}")

    def lets_in(self, token: str) -> bool:
        """Return whether this is the token. The comparison takes constant time."""
        return hmac.compare_digest(token.encode("utf-8", "replace"), self._token.encode())

    def page(self, nonce: str) -> str:
        """Return the page in its present state."""
        with self._news:
            state = {"version": self._version, "shown": self._shown}
            card, title, words = self._card, self._title, self._words
        return live.render(card, title=title, nonce=nonce, words=words, **state)

    def news(self, after: int) -> dict[str, object]:
        """Return the present state, after waiting until it differs from version `after` or 20 s have passed."""
        with self._news:
            self._news.wait_for(lambda: self._closed or self._version != after, _NEWS_S)
            return {"version": self._version, "shown": self._shown, "words": self._words}


class _Server(ThreadingHTTPServer):
    """A server for at most MOST_CLIENTS clients, so that descriptors and threads cannot run out.

    When it is full, a new client replaces the one that has waited longest without the token. Readers with the token
    keep their places.
    """

    daemon_threads = True
    block_on_close = False
    # A reader does not wait behind clients that are about to be dropped.
    request_queue_size = 4 * MOST_CLIENTS

    def __init__(self, shown: Live) -> None:
        self.shown = shown
        self._places = threading.Lock()
        self._strangers: dict[socket.socket, None] = {}
        self._readers: set[socket.socket] = set()
        super().__init__((_HOST, 0), _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Accept a client if there is room, or if a client without the token can be dropped."""
        with self._places:
            if len(self._strangers) + len(self._readers) >= MOST_CLIENTS:
                longest = next(iter(self._strangers), request)
                with suppress(OSError):
                    longest.shutdown(socket.SHUT_RDWR)
                if longest is request:
                    super().shutdown_request(request)
                    return
                del self._strangers[longest]
            self._strangers[request] = None
        super().process_request(request, client_address)

    def let_in(self, request: socket.socket) -> None:
        """Mark a client as a reader: it knows the token and keeps its place."""
        with self._places:
            if request in self._strangers:
                del self._strangers[request]
                self._readers.add(request)

    def shutdown_request(self, request: Any) -> None:
        """Close a client's connection and free its place."""
        with self._places:
            self._strangers.pop(request, None)
            self._readers.discard(request)
        super().shutdown_request(request)

    def handle_error(self, *_: object) -> None:
        """Ignore a client that went away: the terminal is in use."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = _SILENCE_S
    server_version, sys_version = "grade", ""

    def do_GET(self) -> None:
        """Answer with the page or with its news. There is nothing else."""
        if not self.server.shown.knows(self.headers.get("Host", "")):
            self._refuse(HTTPStatus.FORBIDDEN)
            return
        url = urlsplit(self.path)
        token = url.path.split("/")[1] if url.path.startswith("/") else ""
        if not self.server.shown.lets_in(token):
            self._refuse(HTTPStatus.NOT_FOUND)
            return
        self.server.let_in(self.connection)
        if url.path == f"/{token}/":
            nonce = secrets.token_urlsafe(16)
            self._answer(self.server.shown.page(nonce), "text/html; charset=utf-8", live.policy(nonce))
        elif url.path == f"/{token}/news":
            after = parse_qs(url.query).get("after", ["-1"])[0]
            # 15 digits fit any version. Anything else is answered with the present state.
            known = int(after) if after.isascii() and after.isdigit() and len(after) < 16 else -1
            self._answer(json.dumps(self.server.shown.news(known)), "application/json", "default-src 'none'")
        else:
            self._refuse(HTTPStatus.NOT_FOUND)

    def send_error(self, *_: object) -> None:
        """Answer every bad request as "not found"."""
        self._refuse(HTTPStatus.NOT_FOUND)

    def _refuse(self, status: HTTPStatus) -> None:
        self._answer(f"{status.phrase}\n", "text/plain; charset=utf-8", "default-src 'none'", status)

    def _answer(self, text: str, kind: str, policy: str, status: HTTPStatus = HTTPStatus.OK) -> None:
        data = text.encode("utf-8", "replace")
        self.send_response(status)
        for name, value in (
            ("Content-Type", kind),
            ("Content-Length", str(len(data))),
            ("Content-Security-Policy", policy),
            ("X-Content-Type-Options", "nosniff"),
            ("Referrer-Policy", "no-referrer"),
            ("Cross-Origin-Resource-Policy", "same-origin"),
            ("Cache-Control", "no-store"),
        ):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing: the terminal is in use, and the address must not leak."""
