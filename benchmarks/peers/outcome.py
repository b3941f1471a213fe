"""What one evaluator says of one file, and the process that it says it in."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

# flagged: accepted with a warning that somebody should look at it. failed: the evaluator itself did not come to an end.
Verdict = Literal["accepted", "flagged", "refused", "failed"]
# Longer than any honest file takes.
PATIENCE_S = 120.0


@dataclass(frozen=True)
class Outcome:
    """speedup: how many times as fast as the torch reference the evaluator believes the file to be; None: not timed."""

    verdict: Verdict
    seconds: float
    speedup: float | None = None
    reason: str = ""


@dataclass(frozen=True)
class Ran:
    """A process that has ended. code: None if it was ended for taking too long. said: the end of its output."""

    code: int | None
    seconds: float
    said: str

    @property
    def end(self) -> str:
        """Return what a process came to that gave no result: its last line that is not empty, shortened."""
        if self.code is None:
            return "took too long"
        lines = (line.strip()[:160] for line in reversed(self.said.splitlines()))
        return next(filter(None, lines), "nothing was said")


def run(command: Sequence[str], folder: Path, environment: Mapping[str, str], passed: Sequence[int] = ()) -> Ran:
    """Run a command in a session of its own, and leave nothing of the session behind."""
    started = time.monotonic()
    said = folder / "said.txt"
    with said.open("wb") as out:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            pass_fds=passed,
            start_new_session=True,
        )
        code = None
        with suppress(subprocess.TimeoutExpired):
            code = process.wait(PATIENCE_S)
        seconds = time.monotonic() - started
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    return Ran(code, seconds, said.read_text(encoding="utf-8", errors="replace")[-2000:])
