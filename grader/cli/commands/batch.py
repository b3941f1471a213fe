"""`grade batch`: grade a folder of submissions."""

from __future__ import annotations

from typing import Annotated, Optional

import typer

from grader.cli.arguments import Cpu, ExitZero, Quiet
from grader.cli.group import INSTRUCTOR

ORDER = 130
GROUP = INSTRUCTOR
HELP = "Grade a folder of submissions, such as a class, in parallel. `--resume` continues a stopped run."


def command(
    source: Annotated[
        Optional[str],  # noqa: UP045
        typer.Argument(
            metavar="DIR",
            help="one folder or zip per student, or an export of Canvas, Gradescope, Moodle or GitHub Classroom; "
            "default: that of the last run",
        ),
    ] = None,
    out: Annotated[str, typer.Option(help="where records, scorecards and the gradebook go")] = "graded",
    exercise: Annotated[
        list[str] | None, typer.Option(help="grade this one (repeatable); default: all that were handed in")
    ] = None,
    part: Annotated[Optional[list[str]], typer.Option(help="grade only this part (repeatable)")] = None,  # noqa: UP045
    prefix: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(help="what GitHub Classroom's repositories are called before the user: lab1 (repeatable)"),
    ] = None,
    roster: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(help="CSV: id, name, email, section, canvas, sis, login, github, …"),
    ] = None,
    late: Annotated[
        str | None, typer.Option(help="TOML: due dates, grace days, percentage per day, extensions")
    ] = None,
    overrides: Annotated[
        str | None, typer.Option(help="CSV: student, exercise, part, points, reason, author, time, comment")
    ] = None,
    times: Annotated[
        str | None, typer.Option(help="CSV: student, exercise, submitted_at; for layouts without times")
    ] = None,
    seed: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(help="a number for everybody, or hidden: a random number that no student's file shows"),
    ] = None,
    only: Annotated[Optional[str], typer.Option(help="grade only: failed, changed, or a student's id")] = None,  # noqa: UP045
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="print whose file is whose and what is left over; grade nothing")
    ] = False,
    resume: Annotated[bool, typer.Option("--resume", help="continue a stopped run; it needs no other options")] = False,
    fresh: Annotated[bool, typer.Option("--fresh", help="grade everything again")] = False,
    workers: Annotated[int | None, typer.Option(help="gradings at a time; default: one per GPU, or per core")] = None,
    scheduler: Annotated[Optional[str], typer.Option(help="a running Dask cluster: tcp://HOST:8786")] = None,  # noqa: UP045
    limit_minutes: Annotated[
        float, typer.Option(help="stop a grading that takes longer, and restart its worker")
    ] = 30.0,
    cpu: Cpu = False,
    kernels: Annotated[bool, typer.Option("--kernels", help="also show what kernels compile to; takes longer")] = False,
    allow_unconfined: Annotated[
        bool, typer.Option("--allow-unconfined", help="run strangers' code even if this machine cannot confine it")
    ] = False,
    publish: Annotated[
        bool, typer.Option("--publish", help="write the hidden seed into all records and scorecards")
    ] = False,
    appeal: Annotated[
        str | None, typer.Option(metavar="STUDENT", help="print the commands that repeat a student's failing cases")
    ] = None,
    exit_zero: ExitZero = False,
    quiet: Quiet = False,
) -> None:
    """Grade a class."""
    from grader.cli import batch, batch_seed
    from grader.cli.batch_options import BatchOptions

    if publish or appeal is not None:
        raise typer.Exit(batch_seed.publish(out) if publish else batch_seed.appeal(out, str(appeal)))
    options = BatchOptions(
        source=source,
        out=out,
        exercises=tuple(exercise or ()),
        parts=tuple(part or ()),
        prefixes=tuple(prefix or ()),
        roster=roster,
        late=late,
        overrides=overrides,
        times=times,
        seed=seed,
        only=only,
        scheduler=scheduler,
        workers=workers,
        limit_minutes=limit_minutes,
        resume=resume,
        fresh=fresh,
        cpu=cpu,
        kernels=kernels,
        allow_unconfined=allow_unconfined,
        dry_run=dry_run,
        quiet=quiet,
    )
    code = batch.batch(options)
    raise typer.Exit(0 if exit_zero and code in (1, 3, 4) else code)
