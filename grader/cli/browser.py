"""Opening a page for the user."""

from __future__ import annotations

import os
import threading
from pathlib import Path


def show_in_browser(address: str, patience_s: float = 5.0) -> str:
    """Open a page in the user's browser. Return a sentence that reports it, or the address to copy.

    Some browsers return only when they are closed: this waits at most `patience_s` seconds. Text browsers are
    not opened, since they would take the terminal.
    """
    if not _has_screen():
        return f"no screen here to open a page on: {address}"
    import webbrowser

    opening = threading.Thread(target=webbrowser.open, args=(address,), daemon=True)
    opening.start()
    opening.join(patience_s)
    return f"opened {address}"


def _has_screen() -> bool:
    named = any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"))
    return named or Path("/proc/sys/fs/binfmt_misc/WSLInterop").exists()
