"""The scorecard as a page that keeps itself up to date: the same page, and a few lines of script that ask for news.

What is written to disk has no script. The policy that forbids it there is replaced by one that allows this script
alone, which the server sends as a header.
"""

from __future__ import annotations

import re
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

_POLICY = re.compile(r'<meta http-equiv="Content-Security-Policy"[^>]*>')
_END = "</body>"


def policy(nonce: str) -> str:
    """The Content-Security-Policy of the page: its own script, its own styles, questions to its own server."""
    rules = (
        "default-src 'none'",
        "style-src 'unsafe-inline'",
        f"script-src 'nonce-{nonce}'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
    return "; ".join(rules)


def render(card: str, *, title: str, nonce: str, version: int, shown: int, words: str = "") -> str:
    """The page of a scorecard, or of none yet (an empty `card`). version: of what is known; shown: of the card; words:
    what is going on.
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
