"""`grade sanitize`: accesses outside tensors, and races, in every planned call."""

from __future__ import annotations

from typing import Annotated, Optional

import typer

from grader.cli.arguments import Cpu, Exercise, Output, Quiet, Seed, Submission

ORDER = 120
HELP = "Find races, and accesses outside tensors. Makes every planned call, with or without a GPU."


def command(
    exercise: Exercise,
    submission: Submission = None,
    part: Annotated[Optional[list[str]], typer.Option(help="look at this part only (repeatable)")] = None,  # noqa: UP045
    seed: Seed = None,
    cpu: Cpu = False,
    tool: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(help="on a GPU: compute-sanitizer's memcheck, racecheck, initcheck or synccheck"),
    ] = None,
    json: Output = None,
    quiet: Quiet = False,
) -> None:
    """Look for accesses outside tensors and for races."""
    from grader.cli.sanitize import SanitizeOptions, sanitize

    options = SanitizeOptions(
        exercise=exercise,
        submission=submission,
        parts=tuple(part or ()),
        seed=seed,
        tool=tool,
        cpu=cpu,
        json=json,
        quiet=quiet,
    )
    raise typer.Exit(sanitize(options))
