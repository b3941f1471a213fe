"""Find an argument that no kernel of a call gets: its result cannot depend on it.

Take the trace of a call. Return a clue. Run nothing.
"""

from __future__ import annotations

from grader.judge.clue import Clue
from grader.judge.idle_kernels import unreached
from grader.protocol.trace import Trace, every_launch

KIND = "operand_mixed_up"
# The values of another mistake beside it look like that one.
_WEIGHT = 0.95


def unread_clue(trace: Trace) -> Clue | None:
    """Return the clue of the first tensor argument that no launch of a call can have read; None without one."""
    name = next(iter(unreached(trace)[0]), "") if [*every_launch(trace.steps)] else ""
    if not name:
        return None
    return Clue(
        KIND,
        _WEIGHT,
        f"No launch of this call gets {name}, nor a copy of it: the result cannot depend on {name}.",
        title=f"Looks like an input that no kernel gets: {name}",
        help=f"Which step of the stub's definition takes {name}? Pass it to the kernel that computes this step.",
        firm=True,
        in_launch=True,
    )
