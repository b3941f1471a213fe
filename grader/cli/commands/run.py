"""`grade run`: grade one exercise. `grade ex_15` is short for `grade run ex_15`."""

from __future__ import annotations

from typing import Annotated, Optional

import typer

from grader.cli.arguments import AllBaselines, Cpu, Exercise, ExitZero, OpenCard, Output, Quiet, Seed, Submission
from grader.cli.group import part_names

ORDER = 10
HELP = "Grade one exercise. `grade ex_15` is short for `grade run ex_15`."


def command(
    exercise: Exercise,
    submission: Submission = None,
    part: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(help="grade only this part (repeatable)", autocompletion=part_names),
    ] = None,
    seed: Seed = None,
    cpu: Cpu = False,
    json: Output = None,
    html: Output = None,
    junit: Output = None,
    open_card: OpenCard = False,
    timeline: Annotated[bool, typer.Option("--timeline", help="print where the time went")] = False,
    baseline: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(metavar="NAME", help="on a GPU, also time this baseline that compiles slowly (repeatable)"),
    ] = None,
    all_baselines: AllBaselines = False,
    exit_zero: ExitZero = False,
    quiet: Quiet = False,
) -> None:
    """Grade one exercise and write its scorecard."""
    from grader.cli.exit_codes import leave
    from grader.cli.job import RunOptions
    from grader.cli.run import Outputs, run

    outputs = Outputs(json=json, html=html, junit=junit, open_card=open_card, timeline=timeline)
    slow = tuple(baseline or ())
    options = RunOptions(
        parts=tuple(part or ()), seed=seed, cpu=cpu, all_baselines=all_baselines, baselines=slow, quiet=quiet
    )
    leave(run(exercise, submission, options, outputs), exit_zero=exit_zero)
