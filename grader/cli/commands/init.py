"""`grade init`: the exercises, in a folder of your own."""

from __future__ import annotations

from typing import Annotated

import typer

ORDER = 5
HELP = "Write the exercises into an empty folder. Commands find them from there and from every folder below."


def command(
    target: Annotated[
        str,
        typer.Argument(metavar="DIR", help="the folder to write; new or empty; default: this one", show_default=False),
    ] = ".",
    with_reference: Annotated[
        bool,
        typer.Option("--with-reference", help="for authors: also write specifications, oracles, solutions, mistakes"),
    ] = False,
) -> None:
    """Write a new course."""
    from grader.cli.init import init

    raise typer.Exit(init(target, with_reference=with_reference))
