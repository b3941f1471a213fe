"""`grade watch`: grade after every save."""

from __future__ import annotations

from typing import Annotated

import typer

from grader.cli.arguments import Cpu, CurrentExercise, Quiet

ORDER = 20
HELP = "Grade after every save. Shows the verdict, hints and keys: the learner's loop."


def command(
    exercise: CurrentExercise = None,
    cpu: Cpu = False,
    serve: Annotated[
        bool, typer.Option("--serve", help="serve the scorecard at an address of this machine, and update it")
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Grade after every save."""
    from grader.cli.watch import watch

    raise typer.Exit(watch(exercise, cpu=cpu, serve=serve, quiet=quiet))
