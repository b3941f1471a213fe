"""`grade replay`: run exactly one recorded case and show it."""

from __future__ import annotations

from typing import Annotated, Optional

import typer

from grader.cli.arguments import Cpu, Output, Submission

ORDER = 40
HELP = "Run exactly one recorded case and show it; without a token, the last failure."


def command(
    token: Annotated[
        Optional[str],  # noqa: UP045
        typer.Argument(help="as shown with a failure: ex_15:vector_add.tail:N=65,…:0x5f; default: the last failure"),
    ] = None,
    submission: Submission = None,
    cpu: Cpu = False,
    json: Output = None,
) -> None:
    """Run one recorded case."""
    from grader.cli.replay import replay

    raise typer.Exit(replay(token, submission, cpu=cpu, json=json))
