"""`grade completion`: a script that makes your shell complete commands, options and exercises."""

from __future__ import annotations

from typing import Annotated

import typer

from grader.cli.group import completion_script

ORDER = 190
HELP = "Print a completion script for your shell. It completes commands, options and exercises."


def command(
    shell: Annotated[str, typer.Argument(help="bash, zsh or fish", autocompletion=lambda: ["bash", "zsh", "fish"])],
) -> None:
    """Print a completion script."""
    print(completion_script(shell), end="")
