"""`grade trace`: what one call allocates, copies and launches, step by step."""

from __future__ import annotations

from typing import Annotated, Optional

import typer

from grader.cli.arguments import Exercise, Submission

ORDER = 110
HELP = "Print what one call allocates, copies and launches, in order. No kernel runs."


def command(
    exercise: Exercise,
    submission: Submission = None,
    part: Annotated[Optional[str], typer.Option(help="the function to call; default: the first one")] = None,  # noqa: UP045
    case: Annotated[Optional[str], typer.Option(help='sizes and dtypes, as in "M=64,N=65"')] = None,  # noqa: UP045
) -> None:
    """Print what a submission's function does on its inputs."""
    from grader.cli.trace import trace

    raise typer.Exit(trace(exercise, submission, part, case))
