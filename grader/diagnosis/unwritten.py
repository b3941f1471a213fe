"""Recognise memory that a call allocates, never fills, and reads all the same.

Takes a wrong call, replays it where such memory holds zeros, and gives a clue: NaN stands there otherwise.
"""

from __future__ import annotations

import torch

from grader.judge.bench import Bench
from grader.judge.clue import Clue, sure
from grader.judge.compare import tensor_of
from grader.judge.failures import Failure
from grader.sandbox.outcome import Finished

# Of the wrong elements, at least this share must change with what the memory holds.
_SHARE = 0.25


def unwritten_clues(bench: Bench, failure: Failure) -> list[Clue]:
    """Return the clue of a wrong answer that depends on what unwritten memory holds.

    An output that is never stored holds what was there before: such elements tell of no read.
    """
    seen = failure.seen
    if seen is None or failure.cause.mismatch is None or seen.recipe.part != bench.part.name:
        return []
    with bench.aside():
        other = bench.refilled_memory(seen, "0")
    if not isinstance(other, Finished) or len(other.outputs) != len(seen.expected):
        return []
    for raw, (got, wrong, expected) in zip(other.outputs, seen.answers(), strict=True):
        if raw is None or not bool(wrong.any()):
            continue
        now, before = tensor_of(raw, expected)[wrong], got[wrong]
        differs = (now != before) & ~(now.isnan() & before.isnan())
        is_stored = torch.logical_or(now != 0, ~before.isnan()) if now.is_floating_point() else now != 0
        if float((differs & is_stored).double().mean()) >= _SHARE:
            return [sure("not_cleared", "With zeros in the memory that the call allocates, the answer is another one.")]
    return []
