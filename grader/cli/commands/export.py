"""`grade export`: files for a platform or a gradebook, from an OUT_DIR of `grade batch` or one record."""

from __future__ import annotations

from typing import Annotated, Optional

import typer

from grader.cli.group import INSTRUCTOR, ExportCommand

ORDER = 140
GROUP = INSTRUCTOR
HELP = "Write files for a platform or a gradebook. Takes an OUT_DIR, a record, or an exercise."
CLASS = ExportCommand


def command(
    source: Annotated[str, typer.Argument(help="an OUT_DIR, a record (grade ex_15 --json FILE), or an exercise")],
    format: Annotated[str, typer.Option("--format", help="the file's format")],
    out: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(help="the file or folder to write; default: OUT_DIR/export/FORMAT, or stdout for one document"),
    ] = None,
    into: Annotated[str | None, typer.Option(help="canvas: an exported gradebook; fill its columns")] = None,
    column: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(help="canvas: an exercise's assignment, as ex_15=90412 (repeatable)"),
    ] = None,
    of_judged: Annotated[
        bool, typer.Option("--of-judged", help="canvas: scale judged points up to all points")
    ] = False,
    parts_left_out_too: Annotated[
        bool,
        typer.Option("--parts-left-out-too", help="with --of-judged: also for records with whole parts not judged"),
    ] = False,
    scale: Annotated[bool, typer.Option("--scale", help="canvas: scale points to a column's maximum")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="junit: the dialect of the Windy Road schema")] = False,
    metadata: Annotated[Optional[str], typer.Option(help="gradescope: its submission_metadata.json")] = None,  # noqa: UP045
    audience: Annotated[str, typer.Option(help="student hides secrets; instructor hides nothing")] = "student",
) -> None:
    """Write what a platform reads."""
    from grader.cli.export import export
    from grader.export.formats import ExportOptions

    options = ExportOptions(
        format=format,
        out=out,
        into=into,
        columns=tuple(column or ()),
        of_judged=of_judged,
        parts_left_out_too=parts_left_out_too,
        scale=scale,
        strict=strict,
        metadata=metadata,
        audience=audience,
    )
    raise typer.Exit(export(source, options))
