"""Define the statuses of checks, and those whose points nobody loses."""

from __future__ import annotations

from typing import Literal

Status = Literal[
    "pass",
    "fail",
    "not_implemented",
    "compile_error",
    "crash",
    "timeout",
    "oom",
    "policy",
    "invalid_submission",
    "skipped_dependency",
    "skipped_environment",
    "inconclusive",
    "grader_error",
]


# Statuses that are nobody's fault: their points are neither given nor lost.
UNJUDGED: frozenset[Status] = frozenset({"skipped_environment", "inconclusive", "grader_error"})
