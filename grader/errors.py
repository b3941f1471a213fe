"""Exceptions for failures outside a submission, and the exit code that each ends in.

    GradeError                 5   the grader itself failed
    ├── UsageError             2   the command line cannot be carried out
    ├── SpecError              2   an exercise's specification breaks a rule
    └── MissingEnvironment     4   this machine lacks what the command needs

A fault of a *submission* is never an exception: it is a status in the record.
Every message says the rule, then the value that broke it.
"""

from __future__ import annotations


class GradeError(Exception):
    """The grader itself failed; the learner is not at fault."""

    exit_code = 5


class UsageError(GradeError):
    """The command line names something that cannot be graded, read or written."""

    exit_code = 2


class SpecError(GradeError):
    """An exercise's specification is wrong; the message names the field."""

    exit_code = 2


class MissingEnvironment(GradeError):
    """A need of the command that this machine lacks: a GPU, a library."""

    exit_code = 4


def require(holds: bool, field: str, rule: str, value: object) -> None:
    """Raise SpecError "<field> must <rule>, got <value>" unless the rule holds."""
    if not holds:
        raise SpecError(f"{field} must {rule}, got {value!r}")
