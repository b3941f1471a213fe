"""Give one submission's processes a folder, and a user that owns nothing else; remove both afterwards."""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import signal
import tempfile
import time
from pathlib import Path

from grader.errors import MissingEnvironment
from grader.sandbox import clearing, kernel_cache, usage

# The subfolder that a submission's kernels are compiled into (grader.confinement).
TRITON_CACHE = "triton"
_PREFIX = "grade-scratch-"
# User ids for submissions, far from any real user.
_FIRST_UID, _UIDS = 0x4000_0000, 0x2000_0000
# A folder is locked right after its creation; a younger one may not be locked yet.
_ABANDONED_S = 60.0
_ENDING_S = 5.0
_POLL_S = 0.01
# A folder with less room than this cannot even hold a submission's text.
_LEAST_ROOM_BYTES = 4 << 20
# Stands for the descriptor of a folder that was removed, or never made.
_REMOVED = -1


class Scratch:
    """The folder and the user of one submission's processes. Use as a context manager.

    entry: the cache entry of its compiled kernels (grader.sandbox.kernel_cache), None for no cache.
    """

    def __init__(self, entry: Path | None = None) -> None:
        self.uid = _some_uid()
        self._make()
        # True once a line of the submission may have run here.
        self.is_used = False
        self._entry = entry
        self.has_kernels = entry is not None and entry.is_dir()
        if entry is not None:
            kernel_cache.restore(entry, self.folder / TRITON_CACHE, self.uid)

    def __enter__(self) -> Scratch:
        return self

    def __exit__(self, *_: object) -> None:
        if self._entry is not None and self._descriptor != _REMOVED:
            kernel_cache.save(self._entry, self._descriptor, self.folder / TRITON_CACHE)
        self._remove()

    def _make(self) -> None:
        base = tempfile.gettempdir()
        self._descriptor = _REMOVED
        try:
            self.folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
        except OSError as refused:
            raise MissingEnvironment(f"a submission's folder must fit into {base}, got: {refused}") from refused
        self._descriptor = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        # The kernel releases the lock however this process ends.
        fcntl.flock(self._descriptor, fcntl.LOCK_SH)
        if self.uid:
            os.chown(self.folder, self.uid, self.uid)
        self._free_bytes = self._free()
        if self._free_bytes < _LEAST_ROOM_BYTES:
            self._remove()
            raise MissingEnvironment(_no_room(self._free_bytes))

    def _remove(self) -> None:
        """Remove the folder and its content by descriptor, wherever its name leads by now; do nothing without one."""
        if self._descriptor == _REMOVED:
            return
        clearing.empty(self._descriptor)
        if self._is_in_place():
            with contextlib.suppress(OSError):
                self.folder.rmdir()
        # A second removal could empty another folder: the number may be reused.
        descriptor, self._descriptor = self._descriptor, _REMOVED
        os.close(descriptor)

    def renew(self) -> None:
        """Make the folder usable for a new process: create it again if it is gone, and check its room."""
        if not self._is_in_place():
            self._remove()
            self._make()
        elif self._free() < _LEAST_ROOM_BYTES:
            # The submission itself may have taken the room.
            self.clear()
            if self._free() < _LEAST_ROOM_BYTES:
                raise MissingEnvironment(_no_room(self._free()))
        with contextlib.suppress(OSError):
            os.fchmod(self._descriptor, 0o700)

    def replace(self) -> None:
        """Take another folder and another user, which nothing from the old ones can reach."""
        self._remove()
        self.uid = _some_uid()
        self._make()
        self.is_used = False

    def clear(self) -> None:
        """Remove everything that the submission's processes wrote; they must have ended."""
        clearing.empty(self._descriptor)

    def is_filling(self, limit_bytes: int) -> bool:
        """Return whether the folder's content may explain how far free space has shrunk since the start."""
        return self._free_bytes - self._free() > limit_bytes // 2

    def used_bytes(self, limit_bytes: int, most_files: int) -> int:
        """Return the bytes in the folder; more than the limit where it holds too many files."""
        used, entries = usage.folder_usage(self._descriptor, limit_bytes, most_files)
        return max(used, limit_bytes + 1) if entries > most_files else used

    def _free(self) -> int:
        about = os.fstatvfs(self._descriptor)
        return about.f_bavail * about.f_frsize

    def _is_in_place(self) -> bool:
        with contextlib.suppress(OSError):
            return os.path.samestat(self.folder.lstat(), os.fstat(self._descriptor))
        return False


def _some_uid() -> int:
    # A grader that runs as root gives every submission a user of its own.
    return 0 if os.getuid() else _FIRST_UID + secrets.randbelow(_UIDS)


def sweep() -> int:
    """Remove the folders of killed graders, and end the processes that still write there. Returns their number.

    Folders of another user, and folders in use, stay.
    """
    swept = 0
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                about = os.fstat(descriptor)
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if _is_ours(about.st_uid) and time.time() - about.st_ctime > _ABANDONED_S:
                    _end_all_of(about.st_uid)
                    clearing.empty(descriptor)
                    folder.rmdir()
                    swept += 1
            finally:
                os.close(descriptor)
    return swept


def _is_ours(uid: int) -> bool:
    return uid == os.getuid() or (os.getuid() == 0 and _FIRST_UID <= uid < _FIRST_UID + _UIDS)


def _end_all_of(uid: int) -> None:
    """End the remaining processes of a submission's own user: they would fill the folder again."""
    deadline = time.monotonic() + _ENDING_S
    while uid != os.getuid() and (left := usage.family(-1, uid)) and time.monotonic() < deadline:
        for pid in left:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(_POLL_S)


def _no_room(free_bytes: int) -> str:
    need = f"{_LEAST_ROOM_BYTES >> 20} MiB of a submission's files"
    return f"{tempfile.gettempdir()} must have room for {need}, got {free_bytes >> 10} KiB"
