"""`grade report`: the class page."""

from __future__ import annotations

from typing import Annotated, Optional

import typer

ORDER = 150
HELP = "The class page: points, checks, common causes, speed, what was not judged."


def command(
    out_dir: Annotated[str, typer.Argument(metavar="OUT_DIR", help="what `grade batch` wrote")],
    out: Annotated[Optional[str], typer.Option(help="the page to write; OUT_DIR/report.html unless given")] = None,  # noqa: UP045
    audience: Annotated[str, typer.Option(help="instructor names students; student names nobody")] = "instructor",
    similarity: Annotated[bool, typer.Option("--similarity", help="also a page of similar sources")] = False,
    threshold: Annotated[float, typer.Option(help="from which share on two sources are shown")] = 0.6,
) -> None:
    """Write the class page."""
    from grader.cli.report import report

    raise typer.Exit(report(out_dir, out, audience, similarity=similarity, threshold=threshold))
