"""`grade reset`: restore an exercise's stub, after a backup of your file."""

from __future__ import annotations

from typing import Annotated

import typer

from grader.cli.arguments import Exercise

ORDER = 70
HELP = "Restore an exercise's stub, after a backup of your file."


def command(exercise: Exercise, yes: Annotated[bool, typer.Option("--yes", help="do not ask")] = False) -> None:
    """Restore a stub."""
    from grader.cli.reset import reset

    raise typer.Exit(reset(exercise, yes=yes))
