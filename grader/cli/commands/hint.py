"""`grade hint`: a hint for each part."""

from __future__ import annotations

from typing import Annotated, Optional

import typer

from grader.cli.arguments import AsJson, CurrentExercise
from grader.cli.group import part_names

ORDER = 60
HELP = (
    "Print a hint for each part; without an exercise, for the part that comes next. Level 1 is vague, level 3 is plain."
)


def command(
    exercise: CurrentExercise = None,
    part: Annotated[Optional[str], typer.Option(help="only this part", autocompletion=part_names)] = None,  # noqa: UP045
    level: Annotated[int, typer.Option(min=1, max=3, help="1 is vague, 3 is plain")] = 1,
    json: AsJson = False,
) -> None:
    """Print hints."""
    from grader.cli.hint import hint

    hint(exercise, part, level, as_json=json)
