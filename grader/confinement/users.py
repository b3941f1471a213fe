"""Give the submission a user of its own, where the grader runs as root."""

from __future__ import annotations

import ctypes
import os
import stat
import sys
from pathlib import Path

from grader.confinement import system

_CAP_DAC_READ_SEARCH = 2


def become(uid: int, scratch: str) -> str:
    """Give up root for a user that owns nothing but its scratch folder. Returns the layer's name.

    If only root may enter the interpreter's folder, or the one that the scratch folder lies in, one capability stays:
    to read, not to write. The layer's name then includes it.
    """
    closed = _closed(scratch)
    keeps_reading = bool(closed)
    if keeps_reading:
        system.keep_capabilities()
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    if keeps_reading and not system.set_capabilities(1 << _CAP_DAC_READ_SEARCH):
        why = "root must have CAP_DAC_READ_SEARCH where others may not enter Python's folders or the temporary one"
        raise OSError(ctypes.get_errno(), f"{why}, such as {closed}")
    system.stay_dumpable()
    return "own user (enters all folders)" if keeps_reading else "own user"


def hand_on_reading() -> None:
    """Pass the capability to read, if this process has it, on to the program that this process becomes."""
    bits = 1 << _CAP_DAC_READ_SEARCH
    if system.set_capabilities(bits, inheritable=bits):
        system.raise_ambient(_CAP_DAC_READ_SEARCH)


def _closed(scratch: str) -> str:
    """Return a folder that only root may enter: of the interpreter, its imports or the scratch folder; '' for none."""
    needed = {sys.prefix, sys.base_prefix, str(Path(scratch).parent), *(path for path in sys.path if path)}
    return next((path for path in sorted(needed) if os.path.exists(path) and not _enterable(Path(path).resolve())), "")


def _enterable(path: Path) -> bool:
    return all(place.stat().st_mode & stat.S_IXOTH for place in (path, *path.parents) if place.is_dir())
