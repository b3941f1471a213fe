"""Compare a failure on a GPU with the same case in the interpreter, which sees every access.

Takes both failures and gives a clue, or the failure to show. It runs nothing.
"""

from __future__ import annotations

from dataclasses import replace

from grader.judge.clue import Clue, sure
from grader.judge.failures import Failure

KIND = "compiled_differs"
# Statuses of failures that the interpreter can see more of: wrong values, and processes that a wild address ended.
EXPLAINED = ("fail", "crash")
# Causes that an access proves.
_ACCESSES = ("out_of_bounds", "race")


def right_in_interpreter() -> Clue:
    """Return the clue of a case that fails on the GPU only."""
    return sure(KIND, "The same case is right in the interpreter, so the logic of the kernel is.")


def with_access(on_gpu: Failure, interpreted: Failure) -> Failure:
    """Return the failure on the GPU, with the access that the interpreter found in the same case."""
    cause = interpreted.cause
    if cause.kind not in _ACCESSES:
        return on_gpu
    rationale = f"{cause.rationale} (Seen in the interpreter. On the GPU: {on_gpu.cause.rationale})"
    return replace(interpreted, status=on_gpu.status, cause=replace(cause, rationale=rationale))
