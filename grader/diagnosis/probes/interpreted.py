"""Compare a failure on a GPU with the same case in the interpreter, which sees every access.

Takes both failures and gives a clue, or the failure to show. Runs the GPU's case again, launched in other ways.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from grader.exercise.cases import Case
from grader.exercise.plan import PlannedCase, PlannedCheck
from grader.judge.bench import Bench
from grader.judge.clue import Clue, sure
from grader.judge.failures import Failure
from grader.judge.retrials import is_right_only
from grader.judge.rules import ruling_of
from grader.protocol.trace import relaunched

KIND = "compiled_differs"
# Statuses of failures that the interpreter can see more of: wrong values, and processes that a wild address ended.
EXPLAINED = ("fail", "crash")
# Causes that an access proves.
_ACCESSES = ("out_of_bounds", "race")
# Right by little: an error of this share of the allowed one; honest kernels stay below it. Wrong by little: at most so
# many times the allowed error.
_NEARLY_WRONG, _SLIGHTLY = 0.4, 4.0
# The warps of a launch that names no number, and the most of any.
_WARPS, _MOST_WARPS = 4, 32


@dataclass(frozen=True)
class Relaunch:
    """A way to launch kernels that changes nothing but what is compiled: its kind, words, and the changed options."""

    kind: str
    how: str
    changed: Callable[[Mapping[str, Any]], Mapping[str, Any]]


RELAUNCHES = (
    Relaunch("pipelined", "with num_stages=1", lambda options: {**options, "num_stages": 1}),
    Relaunch(
        "compiled_for_warps",
        "with twice as many warps",
        lambda options: {**options, "num_warps": min(_MOST_WARPS, 2 * int(options.get("num_warps", _WARPS)))},
    ),
)


def right_in_interpreter(on_gpu: Failure, worst: float, is_right: Callable[[Relaunch], bool]) -> Clue:
    """Return the clue of a case that fails on the GPU only.

    worst: the largest error in the interpreter, over the allowed one. is_right: tells whether the GPU gives the right
    values where kernels are launched in this way.
    """
    if worst >= _NEARLY_WRONG and _is_slight(on_gpu):
        by_little = f"its largest error there is {worst:.2f} of what is allowed. A GPU adds in another order."
        return Clue("rounded_intermediate", 0.9, f"The same case is right in the interpreter by little: {by_little}")
    for way in RELAUNCHES:
        if is_right(way):
            return sure(way.kind, f"Launched {way.how}, the same call is right on this GPU.")
    return sure(KIND, "The same case is right in the interpreter, so the logic of the kernel is.")


def remembered_there(interpreted: Bench, planned: PlannedCheck, one: PlannedCase) -> Clue | None:
    """Return the clue of a case that is right by itself in the interpreter, and wrong after the one planned before it.

    Launch code that keeps something of an earlier call spoils a case there as on a GPU. one: the smallest case that
    fails, with the seed of the planned one.
    """
    place = next((place for place, each in enumerate(planned.cases) if each.seed == one.seed), 0)
    if not place:
        return None
    before, failed = planned.cases[place - 1 : place + 1]
    with interpreted.findings.aside(), interpreted.pair.in_new_process():
        is_right = ruling_of(interpreted, planned, before).failure is None
        if not is_right or ruling_of(interpreted, planned, failed).failure is None:
            return None
    words = f"{failed.case.words()}: it is right by itself, and wrong after the call for {before.case.words()}."
    return sure("remembered_input", f"In the interpreter, with {words}")


def is_right_relaunched(bench: Bench, case: Case, seed: int, way: Relaunch) -> bool:
    """Return whether a call is wrong on the GPU, and right where its kernels are launched in this way.

    seed: the planned one.
    """
    recipe = bench.true_recipe(case, seed)
    return is_right_only(bench, recipe, -1, lambda replay: replace(replay, trace=relaunched(replay.trace, way.changed)))


def _is_slight(failure: Failure) -> bool:
    """Return whether the first wrong elements lie just beyond the allowed errors."""
    shown = failure.cause.mismatch.first if failure.cause.mismatch else ()
    return bool(shown) and all(
        abs(float(one.got) - float(one.expected)) <= _SLIGHTLY * float(one.allowed) for one in shown
    )


def with_access(on_gpu: Failure, interpreted: Failure) -> Failure:
    """Return the failure on the GPU, with the access that the interpreter found in the same case."""
    cause = interpreted.cause
    if cause.kind not in _ACCESSES:
        return on_gpu
    rationale = f"{cause.rationale} (Seen in the interpreter. On the GPU: {on_gpu.cause.rationale})"
    return replace(interpreted, status=on_gpu.status, cause=replace(cause, rationale=rationale))
