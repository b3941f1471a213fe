"""The scorecard at an address of this machine, kept up to date while the loop runs; it serves that and no file.

Only this machine reaches it, at a port that the system chose, and only who knows the address is answered: it holds a
random token. A page of somebody else's that was made to point here gives itself away by the name it asks for.
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

from grader.report import live

_HOST = "127.0.0.1"
# Shorter than the patience of browsers and of what may stand between; whoever still waits asks again.
_NEWS_S = 20.0
# A client that says nothing is not waited for.
_SILENCE_S = 30.0
# So many may ask at once; a browser has six connections, and whoever else is on this machine may open thousands.
MOST_CLIENTS = 32


class Live:
    """Use as a context manager. `address` is where a browser finds it."""

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
        """http://127.0.0.1:PORT/TOKEN/"""
        return f"http://{_HOST}:{self.port}/{self._token}/"

    @property
    def port(self) -> int:
        """The port that the system chose."""
        return int(self._server.server_address[1])

    def show(self, card: str) -> None:
        """Show this scorecard from now on, a whole page without a script."""
        with self._news:
            self._card = card
            self._version += 1
            self._shown = self._version
            self._news.notify_all()

    def turn_to(self, title: str) -> None:
        """Another exercise, without a scorecard as yet."""
        self._title = title
        self.show("")

    def say(self, checking: bool, attempts: int) -> None:
        """Whether something is being graded, and how many attempts there were."""
        words = "checking …" if checking else f"attempt {attempts}" if attempts else "waiting for a save"
        with self._news:
            if words != self._words:
                self._words = words
                self._version += 1
                self._news.notify_all()

    # -- for requests ------------------------------------------------------------------------------------------------

    def knows(self, host: str) -> bool:
        """Whether a request was meant for this address, and not for a name that somebody made to lead here."""
        return host in (f"{_HOST}:{self.port}", f"localhost:{self.port}")

    def lets_in(self, token: str) -> bool:
        """Whether this is the token; how long the answer takes does not say how much of it is right."""
        return hmac.compare_digest(token.encode("utf-8", "replace"), self._token.encode())

    def page(self, nonce: str) -> str:
        """The page as it is now."""
        with self._news:
            told = {"version": self._version, "shown": self._shown}
            card, title, words = self._card, self._title, self._words
        return live.render(card, title=title, nonce=nonce, words=words, **told)

    def news(self, after: int) -> dict[str, object]:
        """What is known, as soon as it is not what was known at version `after`, or after a while."""
        with self._news:
            self._news.wait_for(lambda: self._closed or self._version != after, _NEWS_S)
            return {"version": self._version, "shown": self._shown, "words": self._words}


class _Server(ThreadingHTTPServer):
    """At most MOST_CLIENTS are connected: a newcomer takes the place of who has waited longest without the token, so
    that neither descriptors nor threads run out, nor is a reader kept out by somebody who only holds a place.
    """

    daemon_threads = True
    block_on_close = False
    # A reader need not wait behind those who are about to be turned away.
    request_queue_size = 4 * MOST_CLIENTS

    def __init__(self, shown: Live) -> None:
        self.shown = shown
        self._places = threading.Lock()
        self._strangers: dict[socket.socket, None] = {}
        self._readers: set[socket.socket] = set()
        super().__init__((_HOST, 0), _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Begin to listen to a client, where there is room or somebody to make it."""
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
        """This client knows the token, and keeps its place."""
        with self._places:
            if request in self._strangers:
                del self._strangers[request]
                self._readers.add(request)

    def shutdown_request(self, request: Any) -> None:
        """A client is done with, and its place is free."""
        with self._places:
            self._strangers.pop(request, None)
            self._readers.discard(request)
        super().shutdown_request(request)

    def handle_error(self, *_: object) -> None:
        """A client that went away is nobody's trouble, and the terminal is in use."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = _SILENCE_S
    server_version, sys_version = "grade", ""

    def do_GET(self) -> None:
        """Two things are there: the page, and its news."""
        if not self.server.shown.knows(self.headers.get("Host", "")):
            self._refuse(HTTPStatus.FORBIDDEN)
            return
        asked = urlsplit(self.path)
        token = asked.path.split("/")[1] if asked.path.startswith("/") else ""
        if not self.server.shown.lets_in(token):
            self._refuse(HTTPStatus.NOT_FOUND)
            return
        self.server.let_in(self.connection)
        if asked.path == f"/{token}/":
            nonce = secrets.token_urlsafe(16)
            self._answer(self.server.shown.page(nonce), "text/html; charset=utf-8", live.policy(nonce))
        elif asked.path == f"/{token}/news":
            after = parse_qs(asked.query).get("after", ["-1"])[0]
            # So many digits fit any version; what is none is answered with what is known.
            known = int(after) if after.isascii() and after.isdigit() and len(after) < 16 else -1
            self._answer(json.dumps(self.server.shown.news(known)), "application/json", "default-src 'none'")
        else:
            self._refuse(HTTPStatus.NOT_FOUND)

    def send_error(self, *_: object) -> None:
        """Whatever else is asked for, and however badly, is not there."""
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
        """Nothing: the terminal is in use, and the address is nobody else's business."""
