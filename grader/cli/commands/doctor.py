"""`grade doctor`: what this machine can judge, and how to get what is missing."""

from __future__ import annotations

import typer

from grader.cli.arguments import AsJson

ORDER = 170
HELP = "Show what this machine can judge, and how to get the rest."


def command(json: AsJson = False) -> None:
    """Try a real kernel in each mode of this machine."""
    from grader.cli.doctor import doctor

    raise typer.Exit(doctor(as_json=json))
