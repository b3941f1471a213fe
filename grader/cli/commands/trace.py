"""`grade trace`: what one call allocates, copies and launches, step by step."""

from __future__ import annotations

from typing import Annotated, Optional

import typer

from grader.cli.arguments import Exercise, Submission

ORDER = 110
HELP = (
    "Print what one call allocates, copies and launches, in order. No kernel runs. With --picture, run the call in the "
    "interpreter, and draw which program reads and writes which elements."
)


def command(
    exercise: Exercise,
    submission: Submission = None,
    part: Annotated[Optional[str], typer.Option(help="the function to call; default: the first one")] = None,  # noqa: UP045
    case: Annotated[Optional[str], typer.Option(help='sizes and dtypes, as in "M=64,N=65"')] = None,  # noqa: UP045
    picture: Annotated[bool, typer.Option("--picture", help="draw which program touches which elements")] = False,
) -> None:
    """Print what a submission's function does on its inputs."""
    from grader.cli.trace import trace

    raise typer.Exit(trace(exercise, submission, part, case, picture=picture))
