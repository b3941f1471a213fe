"""`grade replay`: run exactly one recorded case and show it."""

from __future__ import annotations

from typing import Annotated

import typer

from grader.cli.arguments import Cpu, Output, Submission

ORDER = 40
HELP = "Run exactly one recorded case and show it."


def command(
    token: Annotated[str, typer.Argument(help="as shown with a failure: ex_15:vector_add.tail:N=65,…:0x5f")],
    submission: Submission = None,
    cpu: Cpu = False,
    json: Output = None,
) -> None:
    """Run one recorded case."""
    from grader.cli.run import replay

    raise typer.Exit(replay(token, submission, cpu=cpu, json=json))
