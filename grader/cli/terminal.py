"""Find out what a terminal can show, and show a grading's progress and its result there."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from grader.record.checks import CheckResult
from grader.record.record import Record
from grader.report.view import Step


def terminal_of(stream: object) -> tuple[bool, bool, int]:
    """Return (colour, ASCII only, width) of a stream. rich reads NO_COLOR and FORCE_COLOR."""
    from rich.console import Console

    console = Console(file=stream)  # type: ignore[arg-type]
    ascii_only = not (console.encoding or "").lower().startswith("utf")
    colour = console.color_system is not None and not console.no_color
    return colour, ascii_only, min(shutil.get_terminal_size((100, 24)).columns, 120)


def show_progress(total: int, *, quiet: bool) -> AbstractContextManager[Callable[[CheckResult], None]]:
    """Show every check on stderr when it is decided: by lines that vanish on a terminal, and stay elsewhere."""
    if quiet:
        return nullcontext(lambda result: None)
    from grader.cli.progress import LineProgress, LiveProgress

    # A live display needs a terminal that can redraw.
    moving = sys.stderr.isatty() and os.environ.get("TERM") not in ("dumb", "unknown")
    return LiveProgress(total) if moving else LineProgress()


def show_record(record: Record, stream: object, step: Step | None = None, *, one_case: bool = False) -> None:
    """Print the result as this terminal can show it.

    step: the next step, if it is not the record's own. one_case: a case was run again, and its inputs are shown.
    """
    from grader.report.text import terminal

    colour, ascii_only, width = terminal_of(stream)
    text = terminal.render(record, width=width, colour=colour, ascii_only=ascii_only, step=step, one_case=one_case)
    print(text, file=stream, flush=True)  # type: ignore[call-overload]
