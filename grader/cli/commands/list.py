"""`grade list`: the exercises, and how far you are."""

from __future__ import annotations

from grader.cli.arguments import AsJson

ORDER = 50
HELP = "List the exercises and your progress."


def command(json: AsJson = False) -> None:
    """List the exercises."""
    from grader.cli.list import list_exercises

    list_exercises(as_json=json)
