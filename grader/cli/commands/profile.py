"""`grade profile`: what your kernels are compiled to, what they move, and how long that should take."""

from __future__ import annotations

from typing import Annotated, Optional

import typer

from grader.cli.arguments import Exercise, Output, Quiet, Submission

ORDER = 100
HELP = "Show your kernels as compiled, with bytes and times."


def command(
    exercise: Exercise,
    submission: Submission = None,
    part: Annotated[Optional[list[str]], typer.Option(help="profile only this part (repeatable)")] = None,  # noqa: UP045
    json: Output = None,
    quiet: Quiet = False,
) -> None:
    """Profile a submission's kernels."""
    from grader.cli.profile import profile

    raise typer.Exit(profile(exercise, submission, tuple(part or ()), json, quiet=quiet))
