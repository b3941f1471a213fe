"""Find an argument that no kernel of a call gets: its result cannot depend on it.

Take a failing call. Return a clue. Run only launch code.
"""

from __future__ import annotations

from grader.diagnosis.edits.edited import Edited
from grader.judge.bench import Bench
from grader.judge.clue import Clue
from grader.judge.failures import WrongCall
from grader.judge.idle_kernels import unreached
from grader.protocol.trace import every_launch

KIND = "operand_mixed_up"
# The values of another mistake beside it look like that one.
_WEIGHT = 0.95


def unread_clue(bench: Bench, wrong_call: WrongCall) -> Clue | None:
    """Return the clue of the first tensor argument that no launch of a call can have read; None without one."""
    with bench.findings.aside():
        recorded = Edited.of(bench, wrong_call.recipe).recorded
    if recorded is None or recorded.trace.programs or not [*every_launch(recorded.trace.steps)]:
        return None
    name = next(iter(unreached(recorded.trace)[0]), "")
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
