"""`grade check`: prove that an exercise is sound."""

from __future__ import annotations

from typing import Annotated, Optional

import typer

from grader.cli.arguments import Cpu, Output, Seed
from grader.cli.group import INSTRUCTOR

ORDER = 90
GROUP = INSTRUCTOR
HELP = "Prove that an exercise is sound. Grades its stub, solution, planted mistakes and honest variants."


def command(
    exercise: Annotated[Optional[str], typer.Argument()] = None,  # noqa: UP045
    every: Annotated[bool, typer.Option("--all", help="every exercise")] = False,
    seed: Seed = None,
    cpu: Cpu = False,
    write_probe: Annotated[bool, typer.Option("--write-probe", help="write the margins next to the spec")] = False,
    jobs: Annotated[Optional[int], typer.Option(help="files graded at a time; default: 3 for every 2 cores")] = None,  # noqa: UP045
    write_wrong: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(metavar="DIR", help="write the planted mistakes as whole files into this folder; check nothing"),
    ] = None,
    json: Output = None,
    junit: Output = None,
    summary: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(metavar="FILE", help="append a Markdown summary to FILE, such as $GITHUB_STEP_SUMMARY"),
    ] = None,
) -> None:
    """Run the author's gate."""
    from grader.cli.check import CheckOptions, check

    options = CheckOptions(
        exercise=exercise,
        every=every,
        seed=seed,
        cpu=cpu,
        write_probe=write_probe,
        jobs=jobs,
        json=json,
        junit=junit,
        summary=summary,
        write_wrong=write_wrong,
    )
    raise typer.Exit(check(options))
