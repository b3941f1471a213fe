"""`grade report`: the class page of an OUT_DIR."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Literal

from grader.batch.reading import Found, read, read_batch
from grader.classes import page
from grader.classes.tally import ClassTally
from grader.cli.files import check_writable, write
from grader.errors import UsageError

_NAMES: dict[page.Audience, str] = {"instructor": "report.html", "student": "report-students.html"}


def report(out_dir: str, out: str | None, audience: str) -> int:
    """Write the page beside the records, or where `out` says; the exit code."""
    folder = Path(out_dir)
    known = _audience(audience)
    target = Path(out) if out is not None else folder / _NAMES[known]
    batch = read_batch(folder)
    check_writable(target)
    tally, problems = ClassTally(), list[page.Problem]()

    def visit(found: Found) -> None:
        if found.record is None:
            problems.append(page.Problem(found.path, found.problem))
        else:
            tally.add(found.student, found.exercise, found.record)

    book = read(folder, visit)
    write(target, page.render(tally, book, batch.title, audience=known, problems=tuple(problems)))
    print(target)
    if known == "instructor":
        print("This page names students; --audience student makes one that does not.", file=sys.stderr)
    return 0


def _audience(text: str) -> Literal["instructor", "student"]:
    match text:
        case "instructor" | "student":
            return text
    raise UsageError(f"--audience must be instructor or student, got {text!r}")
