"""Put the fork server into a bubble where bubblewrap is installed: only temporary folders are writable inside.

This layer is added to those that every child applies to itself (grader.confinement). A mount namespace needs a
program of its own. So it is made once, for the server, and holds all its children.
"""

from __future__ import annotations

import functools
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

# The variable by which the fork server alone knows that it is inside.
INSIDE = "GRADE_BUBBLE"
_TRIED_S = 10.0


def around(command: tuple[str, ...], hidden: Sequence[Path] = ()) -> tuple[str, ...]:
    """Return the command inside a bubble, or unchanged where bubblewrap is missing or not permitted.

    hidden: roots whose solutions and tests are absent inside.
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
        # Not --die-with-parent: an orphaned fork server ends its children before it exits.
        *("--ro-bind", "/", "/"),
        # /dev and /proc are as outside: CUDA needs both, and names its threads there.
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
