"""Test the live card: its token opens the scorecard and its news; there is no other access and no file."""

from __future__ import annotations

import http.client
import json
import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import pytest

from grader.report.page import copying, html
from grader.report.page.live import policy, render
from grader.watch.live import MOST_CLIENTS, Live
from tests.records import samples

CARD = html.render(samples.record((samples.check("p.full", "Full", "pass", 1.0),), ()))


@pytest.fixture
def live() -> Iterator[Live]:
    with Live("Title & <more>") as live:
        yield live


def ask(
    live: Live, path: str, host: str | None = None, method: str = "GET"
) -> tuple[int, http.client.HTTPMessage, str]:
    connection = http.client.HTTPConnection("127.0.0.1", live.port, timeout=30)
    connection.request(method, path, headers={"Host": host} if host else {})
    answer = connection.getresponse()
    return answer.status, answer.headers, answer.read().decode()


def home(live: Live) -> str:
    return f"/{live.address.split('/')[3]}/"


def test_before_the_first_grading_the_page_waits(live: Live) -> None:
    status, _, page = ask(live, home(live))
    assert status == 200
    assert "Nothing is graded yet" in page
    assert "Title &amp; &lt;more&gt;" in page


def test_the_page_is_the_scorecard_and_one_script_that_its_policy_names(live: Live) -> None:
    live.show(CARD)
    _, headers, page = ask(live, home(live))
    (nonce,) = re.findall(r"<script nonce=\"([\w-]+)\"", page)
    assert headers["Content-Security-Policy"] == policy(nonce)
    assert page.replace(copying.ELEMENT, "").count("<script") == 1
    # A second policy in the page would forbid the script that the first one allows.
    assert "http-equiv" not in page
    main = CARD[CARD.index("<main") : CARD.index("</main>")]
    assert main in page


def test_every_page_has_a_nonce_of_its_own(live: Live) -> None:
    pages = {ask(live, home(live))[1]["Content-Security-Policy"] for _ in range(3)}
    assert len(pages) == 3


def test_news_come_when_there_are_some_and_tell_which_card_is_shown(live: Live) -> None:
    live.say(True, 0)
    _, _, text = ask(live, f"{home(live)}news?after=0")
    before = json.loads(text)
    assert (before["shown"], before["words"]) == (0, "checking …")
    heard: list[dict[str, object]] = []
    asking = threading.Thread(
        target=lambda: heard.append(json.loads(ask(live, f"{home(live)}news?after={before['version']}")[2]))
    )
    asking.start()
    live.show(CARD)
    asking.join(30)
    assert heard[0]["shown"] == heard[0]["version"] == before["version"] + 1


@pytest.mark.parametrize("after", ["", "x", "-5", "9" * 400, "1e3", "%31"])
def test_a_version_that_is_none_is_answered_with_what_is_known(live: Live, after: str) -> None:
    status, _, text = ask(live, f"{home(live)}news?after={after}")
    assert (status, json.loads(text)["version"]) == (200, 0)


def test_nothing_else_is_there_and_nothing_without_the_token(live: Live) -> None:
    wrong = home(live)[:-2] + ("A/" if home(live)[-2] != "A" else "B/")
    for path in (
        "/",
        "//",
        "/x/",
        wrong,
        home(live)[:-1],
        f"{home(live)}../../../../etc/passwd",
        f"{home(live)}scorecards/ex_15.json",
        f"{home(live)}news/",
        "/etc/passwd",
        "/%ff/",
    ):
        status, headers, text = ask(live, path)
        assert (status, text) == (404, "Not Found\n"), path
        assert headers["Content-Security-Policy"] == "default-src 'none'"


def test_a_name_that_was_made_to_lead_here_is_refused(live: Live) -> None:
    for host in ("evil.example", f"evil.example:{live.port}", "127.0.0.1", f"127.0.0.1:{live.port}.evil.example"):
        assert ask(live, home(live), host)[0] == 403
    for host in (f"127.0.0.1:{live.port}", f"localhost:{live.port}"):
        assert ask(live, home(live), host)[0] == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "HEAD", "TRACE"])
def test_only_reading_is_possible(live: Live, method: str) -> None:
    assert ask(live, home(live), method=method)[0] == 404


def test_no_answer_is_kept_framed_or_taken_for_something_else(live: Live) -> None:
    _, headers, _ = ask(live, home(live))
    assert headers["Cache-Control"] == "no-store"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]


def test_it_listens_on_this_machine_alone_and_not_after_its_end() -> None:
    with Live("T") as live:
        assert live._server.server_address[0] == "127.0.0.1"
        port, address = live.port, live.address
    assert len(address.split("/")[3]) >= 32
    with pytest.raises(ConnectionRefusedError):
        http.client.HTTPConnection("127.0.0.1", port, timeout=5).request("GET", "/")


def test_those_who_only_hold_a_place_neither_use_up_the_machine_nor_keep_a_reader_out(live: Live) -> None:
    told: list[int] = []
    reading = threading.Thread(target=lambda: told.append(ask(live, f"{home(live)}news?after=0")[0]))
    reading.start()
    before = threading.active_count()
    with ExitStack() as stack:
        held = [
            stack.enter_context(socket.create_connection(("127.0.0.1", live.port))) for _ in range(3 * MOST_CLIENTS)
        ]
        for one in held:
            one.settimeout(30)
            with suppress(OSError):
                one.sendall(b"GET /")
        # Who came first has gone.
        with suppress(OSError):
            assert held[0].recv(1) == b""
        assert ask(live, home(live))[0] == 200
        # The thread of a client that was sent away ends a moment later.
        until = time.monotonic() + 30
        while threading.active_count() > before + MOST_CLIENTS + 1 and time.monotonic() < until:
            time.sleep(0.01)
        assert threading.active_count() <= before + MOST_CLIENTS + 1
    live.show(CARD)
    reading.join(30)
    assert told == [200]


def test_a_card_with_hostile_words_gets_no_script_but_ours() -> None:
    hostile = html.render(samples.record((samples.check("p.full", samples.HOSTILE, "fail"),), ()))
    page = render(hostile, title="T", nonce="N", version=1, shown=1)
    assert re.findall(r"<script[^>]*>", page) == ["<script>", '<script nonce="N" data-version="1" data-shown="1">']
    assert page.count(copying.ELEMENT) == 1
