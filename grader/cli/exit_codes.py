"""Give a verdict, and several gradings, the exit code of the command line, and exit with it."""

from __future__ import annotations

from collections.abc import Collection
from typing import NoReturn

import typer

from grader.record.statuses import Status


def exit_code(verdict: Status) -> int:
    """Return the command line's exit code for a verdict.

    0: all judged checks pass. 1: some fail. 3: the submission holds nothing to judge. 4: at least one whole part could
    not be judged on this machine. 5: the grader failed.
    """
    match verdict:
        case "pass":
            return 0
        case "not_implemented" | "invalid_submission":
            return 3
        case "skipped_environment" | "inconclusive":
            return 4
        case "grader_error":
            return 5
        case _:
            return 1


def worst_code(codes: Collection[int]) -> int:
    """Return the one exit code for several gradings: the first of 5, 2, 1, 3 and 4 that occurs, else 0."""
    return min(codes, key=(5, 2, 1, 3, 4, 0).index, default=0)


def leave(code: int, *, exit_zero: bool) -> NoReturn:
    """Exit a command that graded. exit_zero: with 0 unless the grading itself failed."""
    raise typer.Exit(0 if exit_zero and code in (1, 3, 4) else code)
