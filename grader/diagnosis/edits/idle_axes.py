"""Find an axis of a grid that no program asks for: all of its programs do the same.

Take a wrong call and the submission's text. Return a clue. Run nothing.
"""

from __future__ import annotations

import ast

from grader.definitions import spans_of
from grader.diagnosis.edits.edit_scope import called
from grader.judge.clue import Clue
from grader.judge.failure import WrongCall
from grader.phrases import counted
from grader.syntax import tree_of
from grader.text import clean

KIND = "done_again"
# The launch is written otherwise than it is meant. Beside it, elements that nobody stored are a symptom.
_WEIGHT = 0.95
_LONGEST = 60


def idle_axis_clue(text: str, wrong_call: WrongCall) -> Clue | None:
    """Return the clue of the first launch with several programs on an axis that its kernel does not ask for."""
    for launch in wrong_call.outcome.answer.launches:
        asked = _axes_of(text, launch.kernel)
        for axis, programs in enumerate(launch.grid):
            if asked is not None and programs > 1 and axis not in asked:
                return _clue(clean(launch.kernel, _LONGEST), axis, programs)
    return None


def _clue(kernel: str, axis: int, programs: int) -> Clue:
    return Clue(
        KIND,
        _WEIGHT,
        f"A launch has {counted(programs, 'program')} on axis {axis} of its grid, and {kernel} never asks for "
        f"tl.program_id({axis}): all of them do the same.",
        title=f"Looks like an axis of the grid that {kernel} does not ask for",
        help="The brackets hold the numbers of programs, one for each axis; they hold no threads, as those of CUDA do. "
        f"Write `{kernel}[(programs,)](…)` for one axis, or use tl.program_id({axis}).",
        firm=True,
        in_launch=True,
    )


def _axes_of(text: str, kernel: str) -> frozenset[int] | None:
    """Return the axes for which a kernel and its helpers ask; None if the text does not tell them all."""
    spans = spans_of(text, kernel)
    axes: set[int] = set()
    for node in ast.walk(tree_of(text)) if spans else ():
        if not isinstance(node, ast.Call) or called(node) != "program_id":
            continue
        if not any(first <= node.lineno <= last for first, last in spans):
            continue
        given = [*node.args, *(one.value for one in node.keywords if one.arg == "axis")]
        if len(given) != 1 or not isinstance(given[0], ast.Constant) or type(given[0].value) is not int:
            return None
        axes.add(given[0].value)
    return frozenset(axes) if axes else None
