"""`grade solution`: the model solution beside your own, once that passes all that can be judged here."""

from __future__ import annotations

from typing import Annotated

import typer

from grader.cli.arguments import AsJson, Exercise

ORDER = 80
HELP = "Show the model solution beside your own. First yours must pass all checks that this machine can judge."


def command(
    exercise: Exercise,
    show: Annotated[bool, typer.Option("--print", help="print its text alone")] = False,
    copy: Annotated[bool, typer.Option("--write", help="write a copy into solutions/")] = False,
    json: AsJson = False,
    open_page: Annotated[bool, typer.Option("--open", help="open the page with both in a browser")] = False,
) -> None:
    """Show what the model solution costs, and where it lies."""
    from grader.cli.model_solution import solution

    raise typer.Exit(solution(exercise, show=show, copy=copy, as_json=json, open_page=open_page))
