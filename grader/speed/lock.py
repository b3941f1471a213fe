"""Share the GPU among graders: judging answers shares it, timing has it alone. Processor cores are claimed here too.

Locks hold across processes and users. There are two files per GPU: a timing grader closes the door, so that nobody new
comes in, and then waits until the room is empty. The operating system releases the locks of a process that dies.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from grader.errors import GradeError

# This is not $TMPDIR, which differs between users: all graders of this host must use one file.
TEMPORARY = Path("/tmp")  # noqa: S108
# Longer than the timing of any grading.
PATIENCE_S = 600.0
_POLL_S = 0.01


class GpuLock:
    """The lock of the GPU with that UUID."""

    def __init__(self, uuid: str, folder: Path = TEMPORARY) -> None:
        name = re.sub(r"[^\w-]", "_", uuid)[:80] or "unknown"
        self._door, self._room = folder / f"grade-gpu-{name}.door", folder / f"grade-gpu-{name}.room"

    @contextmanager
    def shared(self, patience_s: float | None = None) -> Iterator[None]:
        """Share the GPU with others. Raises GradeError if another grader has it alone for that long; None: 600 s."""
        patience_s = PATIENCE_S if patience_s is None else patience_s
        with _locked(self._room, fcntl.LOCK_SH, patience_s, after=self._door):
            yield

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Use the GPU alone."""
        with _locked(self._door, fcntl.LOCK_EX, PATIENCE_S), _locked(self._room, fcntl.LOCK_EX, PATIENCE_S):
            yield


@contextmanager
def claimed_core(number: int, folder: Path = TEMPORARY) -> Iterator[bool]:
    """Claim a processor core while the block runs; yield whether this grader has it.

    No other grader that asks gets the core meanwhile.
    """
    try:
        descriptor = _open(folder / f"grade-core-{number}")
    except (GradeError, OSError):
        # The path holds something else. A core that cannot be claimed is used as before.
        yield True
        return
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
        else:
            yield True
    finally:
        os.close(descriptor)


@contextmanager
def _locked(path: Path, kind: int, patience_s: float, after: Path | None = None) -> Iterator[None]:
    descriptor = _open(path)
    try:
        with _locked(after, fcntl.LOCK_SH, patience_s) if after else contextlib.nullcontext():
            _take_lock(descriptor, kind, patience_s, path)
        yield
    finally:
        os.close(descriptor)


def _take_lock(descriptor: int, kind: int, patience_s: float, path: Path) -> None:
    """Wait for the lock, but not for ever: any process that can open the file can hold it. Raises GradeError."""
    deadline = time.monotonic() + patience_s
    while True:
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise GradeError(f"the GPU must become free within {patience_s:g} s, but {path} stays locked") from None
            time.sleep(_POLL_S)
        else:
            return


def _open(path: Path) -> int:
    """Return a descriptor of the file, made for everybody if there is none; never through a link or a pipe."""
    careful = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | careful, 0o666)
    except PermissionError:
        # Another user's file in a sticky folder may only be opened, and a lock needs no more than reading.
        descriptor = os.open(path, os.O_RDONLY | careful)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise GradeError(f"graders of this host meet at a plain file, got something else at {path}")
    with contextlib.suppress(OSError):
        os.fchmod(descriptor, 0o666)
    return descriptor
