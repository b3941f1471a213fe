"""Find the line of a kernel that is running."""

from __future__ import annotations

import os
import sys
from functools import cache
from types import FrameType

_MOST_FRAMES = 40


def running_line() -> tuple[int, str]:
    """Return the kernel line that is running, and its file; of nested kernel functions, the innermost."""
    frame: FrameType | None = sys._getframe(1)
    for _ in range(_MOST_FRAMES):
        if frame is None:
            break
        if not is_ours(frame.f_code.co_filename):
            return frame.f_lineno, frame.f_code.co_filename
        frame = frame.f_back
    return 0, ""


def _folders() -> tuple[str, ...]:
    from pathlib import Path

    import triton

    return str(Path(triton.__file__).parent) + os.sep, str(Path(__file__).resolve().parents[1]) + os.sep


_OURS = _folders()


@cache
def is_ours(file: str) -> bool:
    """Return whether a file belongs to Triton or to the grader."""
    return file.startswith(_OURS)
