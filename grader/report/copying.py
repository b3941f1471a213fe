"""The scorecard's one script: it copies a command. The page's policy names its hash, so no other script can run.

Without it the buttons stay hidden, and a click on a command selects all of it.
"""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path

from markupsafe import Markup

_TEXT = Path(__file__).with_name("copy.js.j2").read_text(encoding="utf-8").strip()
# The source that a Content-Security-Policy names.
SOURCE = f"'sha256-{base64.b64encode(hashlib.sha256(_TEXT.encode()).digest()).decode()}'"
ELEMENT = Markup(f"<script>{_TEXT}</script>")  # noqa: S704  a file of this package, and no one's words
