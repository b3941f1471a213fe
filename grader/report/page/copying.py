"""The scorecard's one script: it copies a command. The page's policy names its hash, so no other script can run.

Without it the buttons stay hidden, and a click on a command selects all of it.
"""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path

from markupsafe import Markup


def source(script: str) -> str:
    """Return the source that a Content-Security-Policy names for an inline script."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"


def element(script: str) -> Markup:
    """Return the element of an inline script, which must be a file of this package and no one's words."""
    return Markup(f"<script>{script}</script>")  # noqa: S704


_TEXT = Path(__file__).with_name("copy.js.j2").read_text(encoding="utf-8").strip()
SOURCE = source(_TEXT)
ELEMENT = element(_TEXT)
