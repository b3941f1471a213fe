"""Write JSON for platforms: one document, indented, with a newline at its end."""

from __future__ import annotations

from typing import Any

import msgspec


def json_of(document: dict[str, Any]) -> str:
    """Return the document's text.

    Compiled code writes it: json.dumps indents in Python, which takes most of the time of a large class.
    """
    return msgspec.json.format(msgspec.json.encode(document), indent=1).decode("utf-8") + "\n"
