"""Arguments and options that several commands share, each declared once with its help text."""

from __future__ import annotations

from typing import Annotated, Optional

import typer

from grader.cli.group import exercise_ids

Exercise = Annotated[
    str,
    typer.Argument(help="ex_15, 15, the full name, or a path to a file of that name", autocompletion=exercise_ids),
]
CurrentExercise = Annotated[
    Optional[str],  # noqa: UP045
    typer.Argument(help="as for run; default: the one that you work on", autocompletion=exercise_ids),
]
Submission = Annotated[Optional[str], typer.Option(help="the file to grade instead of the stub in exercises/")]  # noqa: UP045
Seed = Annotated[Optional[str], typer.Option(help="draw another plan: a number, decimal or 0x…")]  # noqa: UP045
Cpu = Annotated[bool, typer.Option("--cpu", help="use the interpreter even if there is a GPU")]
Output = Annotated[Optional[str], typer.Option(help="a file to write, or - for stdout")]  # noqa: UP045
AsJson = Annotated[bool, typer.Option("--json", help="print one JSON document")]
ExitZero = Annotated[bool, typer.Option("--exit-zero", help="exit with 0 whenever the grading itself worked")]
Quiet = Annotated[bool, typer.Option("-q", "--quiet", help="show no progress on stderr")]
OpenCard = Annotated[bool, typer.Option("--open", help="open the scorecard in a browser")]
AllBaselines = Annotated[
    bool,
    typer.Option("--all-baselines", help="on a GPU, also time every baseline that compiles slowly"),
]
