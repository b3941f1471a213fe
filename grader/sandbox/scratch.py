"""The place that one submission's processes share: a folder, and a user that owns nothing else."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import subprocess
import tempfile
from pathlib import Path

from grader.sandbox import kernels

# Where in its scratch folder a submission's kernels are compiled (grader.child.confine).
TRITON_CACHE = "triton"
# What a submission left behind is not worth more time.
_REMOVE_S = 60.0


class Scratch:
    """The folder, and the user, that one submission's processes have for themselves. Use as a context manager.

    `shelf` is where its compiled kernels come from and go to (grader.sandbox.kernels), None for nowhere.
    """

    def __init__(self, shelf: Path | None = None) -> None:
        # A grader that runs as root gives every submission a user of its own, far from any real one.
        self.uid = 0 if os.getuid() else 0x4000_0000 + secrets.randbelow(0x2000_0000)
        self.folder = Path(tempfile.mkdtemp(prefix="grade-"))
        self._descriptor = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._shelf = shelf
        self.has_kernels = shelf is not None and shelf.is_dir()
        if self.uid:
            os.chown(self.folder, self.uid, self.uid)
        if shelf is not None:
            kernels.bring(shelf, self.folder / TRITON_CACHE, self.uid)

    def reopen(self) -> None:
        """Let the next process in, whatever the one before did to the folder's mode: where it cannot even start, that
        would be the grader's failure.
        """
        with contextlib.suppress(OSError):
            os.fchmod(self._descriptor, 0o700)

    def __enter__(self) -> Scratch:
        return self

    def __exit__(self, *_: object) -> None:
        if self._shelf is not None:
            kernels.keep(self._shelf, self._descriptor, self.folder / TRITON_CACHE)
        os.close(self._descriptor)
        _remove(self.folder)


def _remove(folder: Path) -> None:
    """Remove a folder with all that is in it, however deep: shutil goes down by recursion, and gives up."""
    with contextlib.suppress(RecursionError):
        shutil.rmtree(folder, ignore_errors=True)
    if folder.exists():
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            subprocess.run(
                [shutil.which("rm") or "/bin/rm", "-rf", "--", str(folder)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=_REMOVE_S,
                check=False,
            )
