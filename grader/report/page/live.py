"""Render the scorecard as a page that updates itself: the scorecard plus a short script that asks for news.

The policy of the scorecard on disk forbids all scripts but its own (grader.report.page.copying). The server sends a
policy that allows this script as well.
"""

from __future__ import annotations

import re
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from grader.report.page import copying

_POLICY = re.compile(r'<meta http-equiv="Content-Security-Policy"[^>]*>')
_END = "</body>"


def policy(nonce: str) -> str:
    """Return the page's Content-Security-Policy: its own scripts and styles, requests to its own server."""
    rules = (
        "default-src 'none'",
        "style-src 'unsafe-inline'",
        f"script-src 'nonce-{nonce}' {copying.SOURCE}",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
    return "; ".join(rules)


def render(card: str, *, title: str, nonce: str, version: int, shown: int, words: str = "") -> str:
    """Return the page of a scorecard, or a waiting page if `card` is empty.

    version: the version of the news. shown: the version of the card. words: the present state, in words.
    """
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    page = card or environment.get_template("waiting.html.j2").render(title=title)
    script = environment.get_template("live.html.j2").render(nonce=nonce, version=version, shown=shown, words=words)
    head, end, tail = _POLICY.sub("", page).rpartition(_END)
    return f"{head}{script}{end}{tail}"
