"""Read the version of the installed Triton, and which files say that they need an older one.

A file that uses what later versions lack has a line of its docstring for it: `Needs triton < 3.9: block pointers.`
"""

from __future__ import annotations

import importlib.metadata
import re

_NEEDS = re.compile(r"^Needs triton < (?P<major>\d+)\.(?P<minor>\d+): (?P<what>.+)\.$", re.MULTILINE)


def _installed() -> tuple[int, int]:
    try:
        major, minor = importlib.metadata.version("triton").split(".")[:2]
    except importlib.metadata.PackageNotFoundError:
        return 0, 0
    return int(major), int(minor)


# 0, 0 without one.
TRITON = _installed()


def lacking(text: str, installed: tuple[int, int] = TRITON) -> str:
    """Return why a file cannot be judged with this Triton; '' if it can."""
    needs = _NEEDS.search(text)
    if needs is None or installed < (int(needs["major"]), int(needs["minor"])):
        return ""
    return f"triton {needs['major']}.{needs['minor']} and newer have no {needs['what']}"
