"""`grade solution`: the model solution, once your own file passes all that can be judged here."""

from __future__ import annotations

from typing import Annotated

import typer

from grader.cli.arguments import AsJson, Exercise

ORDER = 80
HELP = "Show the model solution. First your own file must pass all checks that this machine can judge."


def command(
    exercise: Exercise,
    show: Annotated[bool, typer.Option("--print", help="print its text")] = False,
    copy: Annotated[bool, typer.Option("--write", help="write a copy into solutions/")] = False,
    json: AsJson = False,
) -> None:
    """Show where the model solution lies."""
    from grader.cli.model_solution import solution

    raise typer.Exit(solution(exercise, show=show, copy=copy, as_json=json))
