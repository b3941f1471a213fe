"""Empty a folder that hostile code has filled, of any depth, names and permissions. Follows no link."""

from __future__ import annotations

import contextlib
import os
import stat
from itertools import count

_AS_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# A name that no submission can guess or occupy.
_HOISTED = "grade-{}-{}"


def empty(descriptor: int) -> bool:
    """Remove everything in a folder, following no link. Returns whether it is empty.

    Nested folders are first moved to the top, one level after another, so that a path of any length takes one
    descriptor. All writers must have ended.
    """
    with contextlib.suppress(OSError):
        os.fchmod(descriptor, 0o700)
    numbers, unique, stuck = count(), os.urandom(8).hex(), 0
    while folders := _without_files(descriptor):
        removed = sum(_dissolved(descriptor, name, numbers, unique) for name in folders)
        # Every round removes a level, unless something cannot be removed at all.
        stuck = 0 if removed else stuck + 1
        if stuck > 1:
            break
    with contextlib.suppress(OSError):
        return not os.listdir(descriptor)
    return False


def _without_files(folder: int) -> list[str]:
    """Remove everything but folders from a folder, and return the folders' names."""
    folders = []
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                folders.append(entry.name)
            else:
                with contextlib.suppress(OSError):
                    os.unlink(entry.name, dir_fd=folder)
    return folders


def _dissolved(top: int, name: str, numbers: count[int], unique: str) -> bool:
    """Move the content of a folder up beside it, and remove it. Returns whether it is gone."""
    with contextlib.suppress(OSError):
        inner = _opened(top, name)
        try:
            for folder in _without_files(inner):
                with contextlib.suppress(OSError):
                    _allow(inner, folder)
                    os.rename(folder, _HOISTED.format(unique, next(numbers)), src_dir_fd=inner, dst_dir_fd=top)
        finally:
            os.close(inner)
    with contextlib.suppress(OSError):
        os.rmdir(name, dir_fd=top)
        return True
    return False


def _opened(folder: int, name: str) -> int:
    _allow(folder, name)
    return os.open(name, _AS_FOLDER, dir_fd=folder)


def _allow(folder: int, name: str) -> None:
    """Give this process access to a folder of its own user. Follows no link."""
    place = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    try:
        if stat.S_IMODE(os.fstat(place).st_mode) & 0o700 != 0o700:
            os.chmod(f"/proc/self/fd/{place}", 0o700)
    finally:
        os.close(place)
