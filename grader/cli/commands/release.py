"""`grade release`: the student bundle."""

from __future__ import annotations

from typing import Annotated, Optional

import typer

from grader.cli.group import INSTRUCTOR

ORDER = 160
GROUP = INSTRUCTOR
HELP = "Write the student bundle. It holds stubs, grader, specifications and oracles, but no solution."


def command(
    target: Annotated[str, typer.Argument(metavar="DIR", help="the folder to write; new or empty")],
    exercises: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(help="only these: ex_15,ex_18 (repeatable)"),
    ] = None,
) -> None:
    """Write the student bundle."""
    from grader.cli.release import release

    raise typer.Exit(release(target, tuple(exercises or ())))
