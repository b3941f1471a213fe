"""Writes the submission's text where its processes find it."""

from __future__ import annotations

import os
from pathlib import Path


def write_down(path: str, text: str) -> None:
    """Write a text file in one step: another process of the same submission may be reading it."""
    unfinished = Path(f"{path}.{os.getpid()}")
    unfinished.write_text(text, encoding="utf-8")
    unfinished.replace(path)
