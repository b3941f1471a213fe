"""`grade report`: the class page."""

from __future__ import annotations

from typing import Annotated, Optional

import typer

from grader.cli.group import INSTRUCTOR

ORDER = 150
GROUP = INSTRUCTOR
HELP = "Write the class page. It shows points, checks, common causes, speed, and what was not judged."


def command(
    out_dir: Annotated[str, typer.Argument(metavar="OUT_DIR", help="the folder that `grade batch` wrote")],
    out: Annotated[Optional[str], typer.Option(help="the page to write; default: OUT_DIR/report.html")] = None,  # noqa: UP045
    audience: Annotated[str, typer.Option(help="instructor names students; student names nobody")] = "instructor",
    similarity: Annotated[bool, typer.Option("--similarity", help="also write a page of similar sources")] = False,
    threshold: Annotated[float, typer.Option(help="show two sources from this similarity on, 0 … 1")] = 0.6,
    base: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(help="code that was handed out: a file, a folder, or an OUT_DIR; it does not count (repeatable)"),
    ] = None,
    earlier: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(help="an earlier class's OUT_DIR: compared with this class, not with itself (repeatable)"),
    ] = None,
) -> None:
    """Write the class page."""
    from grader.cli.report import Similarity, report

    options = Similarity(similarity, threshold, tuple(base or ()), tuple(earlier or ()))
    raise typer.Exit(report(out_dir, out, audience, options))
