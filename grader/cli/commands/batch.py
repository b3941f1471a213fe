"""`grade batch`: grade a folder of submissions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from grader.cli.arguments import Cpu, ExitZero, Quiet
from grader.cli.group import INSTRUCTOR
from grader.cli.option_fields import command_of

ORDER = 130
GROUP = INSTRUCTOR
HELP = "Grade a folder of submissions, such as a class, in parallel. `--resume` continues a stopped run."


@dataclass(frozen=True)
class BatchOptions:
    """The command line. Files as typed; None and empty: not given."""

    source: Annotated[
        str | None,
        typer.Argument(
            metavar="DIR",
            help="one folder or zip per student, or an export of Canvas, Gradescope, Moodle or GitHub Classroom; "
            "default: that of the last run",
        ),
    ] = None
    out: Annotated[str, typer.Option(help="where records, scorecards and the gradebook go")] = "graded"
    exercises: Annotated[
        tuple[str, ...],
        typer.Option("--exercise", help="grade this one (repeatable); default: all that were handed in"),
    ] = ()
    parts: Annotated[tuple[str, ...], typer.Option("--part", help="grade only this part (repeatable)")] = ()
    prefixes: Annotated[
        tuple[str, ...],
        typer.Option(
            "--prefix", help="what GitHub Classroom's repositories are called before the user: lab1 (repeatable)"
        ),
    ] = ()
    roster: Annotated[str | None, typer.Option(help="CSV: id, name, email, section, canvas, sis, login, github, …")] = (
        None
    )
    late: Annotated[str | None, typer.Option(help="TOML: due dates, grace days, percentage per day, extensions")] = None
    overrides: Annotated[
        str | None, typer.Option(help="CSV: student, exercise, part, points, reason, author, time, comment")
    ] = None
    times: Annotated[
        str | None, typer.Option(help="CSV: student, exercise, submitted_at; for layouts without times")
    ] = None
    seed: Annotated[
        str | None,
        typer.Option(help="a number for everybody, or hidden: a random number that no student's file shows"),
    ] = None
    only: Annotated[str | None, typer.Option(help="grade only: failed, changed, or a student's id")] = None
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="print whose file is whose and what is left over; grade nothing")
    ] = False
    resume: Annotated[bool, typer.Option("--resume", help="continue a stopped run; it needs no other options")] = False
    fresh: Annotated[bool, typer.Option("--fresh", help="grade everything again")] = False
    workers: Annotated[int | None, typer.Option(help="gradings at a time; default: one per GPU, or per core")] = None
    scheduler: Annotated[str | None, typer.Option(help="a running Dask cluster: tcp://HOST:8786")] = None
    limit_minutes: Annotated[float, typer.Option(help="stop a grading that takes longer, and restart its worker")] = (
        30.0
    )
    cpu: Cpu = False
    kernels: Annotated[bool, typer.Option("--kernels", help="also show what kernels compile to; takes longer")] = False
    allow_unconfined: Annotated[
        bool, typer.Option("--allow-unconfined", help="run strangers' code even if this machine cannot confine it")
    ] = False
    publish: Annotated[
        bool, typer.Option("--publish", help="write the hidden seed into all records and scorecards")
    ] = False
    appeal: Annotated[
        str | None, typer.Option(metavar="STUDENT", help="print the commands that repeat a student's failing cases")
    ] = None
    exit_zero: ExitZero = False
    quiet: Quiet = False


def _run(options: BatchOptions) -> None:
    """Grade a class, or do what --publish or --appeal asks for instead."""
    from grader.cli import batch, batch_seed
    from grader.cli.exit_codes import leave

    if options.publish:
        raise typer.Exit(batch_seed.publish(options.out))
    if options.appeal is not None:
        raise typer.Exit(batch_seed.appeal(options.out, options.appeal))
    leave(batch.batch(options), exit_zero=options.exit_zero)


command = command_of(BatchOptions, _run)
