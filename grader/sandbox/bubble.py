"""A bubble around the fork server, where bubblewrap is installed: nothing but temporary folders can be written in it.

One more layer in front of those that every child puts on for itself (grader.sandbox.confinement). A mount namespace
needs a program of its own, so it is made once, for the server, and all its children are inside.
"""

from __future__ import annotations

import functools
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

# What says to the fork server, and to nobody else, that it is inside.
INSIDE = "GRADE_BUBBLE"
_TRIED_S = 10.0


def around(command: tuple[str, ...], hidden: Sequence[Path] = ()) -> tuple[str, ...]:
    """Return the command inside a bubble, or as it is where bubblewrap is missing or may make none.

    hidden: roots whose solutions and tests are not there inside.
    """
    bubble = _bubble(str(Path(tempfile.gettempdir()).resolve()), tuple(hidden))
    return (*bubble, "--setenv", INSIDE, "1", *command) if bubble else command


@functools.cache
def _bubble(temporary: str, hidden: tuple[Path, ...]) -> tuple[str, ...]:
    program = shutil.which("bwrap")
    if program is None:
        return ()
    folders = (root / name for root in hidden for name in ("reference", "tests"))
    solutions = [str(folder) for folder in folders if folder.is_dir()]
    bubble: tuple[str, ...] = (
        program,
        # Not --die-with-parent: a fork server that is left alone ends what it has started before it goes.
        *("--ro-bind", "/", "/"),
        # Devices and what the kernel says of processes are as outside: CUDA needs both, and names its threads there.
        *("--dev-bind", "/dev", "/dev"),
        *("--dev-bind", "/proc", "/proc"),
        *("--bind", temporary, temporary),
    )
    for folder in solutions:
        bubble += ("--tmpfs", folder)
    try:
        tried = subprocess.run([*bubble, "true"], capture_output=True, timeout=_TRIED_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ()
    return bubble if tried.returncode == 0 else ()
