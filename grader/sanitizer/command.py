"""Find compute-sanitizer, and build its command line."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, get_args

ToolName = Literal["memcheck", "racecheck", "initcheck", "synccheck"]
TOOLS: tuple[ToolName, ...] = get_args(ToolName)

HOW_TO_GET = (
    "it comes with the CUDA toolkit (in /usr/local/cuda/bin), and alone as apt's cuda-sanitizer-… of NVIDIA's "
    "repository or conda's cuda-sanitizer-api"
)

_PLACES = ("/usr/local/cuda/bin", "/usr/local/cuda/compute-sanitizer")
# Every bad lane is a report. These suffice for a place of every kernel, and stay readable by a program.
_MOST_REPORTS = 10_000
# As wide as the guard bands of ordinary gradings: a block that runs over an end stays inside.
_PADDING_BYTES = 1 << 16
# The process imports torch under the tool before it uses the GPU.
_LAUNCH_S = 150


def find(environment: Mapping[str, str] = os.environ) -> str | None:
    """Return the path of compute-sanitizer, or None. Looks in $PATH, and where the toolkit puts it."""
    places = os.pathsep.join([*filter(None, [environment.get("PATH")]), *_PLACES])
    found = shutil.which("compute-sanitizer", path=places)
    return str(Path(found).absolute()) if found else None


def command(executable: str, tool: ToolName) -> tuple[str, ...]:
    """Return the command line; the caller adds the program to watch.

    A kernel with an error is ended, and the process goes on with the next call. Host backtraces would show Python's
    interpreter; device ones lead from Triton's own functions to the learner's line.
    """
    words = [executable, "--tool", tool, "--target-processes", "all", "--launch-timeout", str(_LAUNCH_S)]
    words += ["--destroy-on-device-error", "kernel", "--show-backtrace", "device", "--print-limit", str(_MOST_REPORTS)]
    if tool == "memcheck":
        # Errors of API calls follow from what a kernel did. Padding keeps an overrun out of the next allocation.
        words += ["--report-api-errors", "no", "--padding", str(_PADDING_BYTES)]
    return (*words, "--")
