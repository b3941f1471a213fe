"""Compare a failure on a GPU with the same case in the interpreter, which sees every access.

Take both failures, and return a clue or the failure to show. Repeat the GPU's case, launched in other ways.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from grader.exercise.cases import Case
from grader.exercise.plan import PlannedCase, PlannedCheck
from grader.judge.bench import Bench
from grader.judge.clue import Clue, sure
from grader.judge.failure import Failure
from grader.judge.retrials import NO_EARLIER_CALL, is_right_only
from grader.judge.rules import ruling_of
from grader.protocol.trace import relaunched

KIND = "compiled_differs"
# Statuses of failures that the interpreter may explain: wrong values, and processes that a wild address ended.
EXPLAINED = ("fail", "crash")
# Symptoms that an access proves.
_ACCESSES = ("out_of_bounds", "race")
# Barely right: at least this share of the allowed error, which honest kernels stay below. Slightly wrong: at most this
# many times the allowed error.
_BARELY_RIGHT, _SLIGHTLY_WRONG = 0.4, 4.0
# The default number of warps of a launch, and the largest.
_WARPS, _MOST_WARPS = 4, 32


@dataclass(frozen=True)
class Relaunch:
    """A way to launch kernels that changes only what the compiler makes: a kind, words, and the changed options."""

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

    worst: the largest error in the interpreter, over the allowed one. is_right: returns whether the GPU gives the right
    values if kernels are launched in this way.
    """
    if worst >= _BARELY_RIGHT and _is_slight(on_gpu):
        barely = "The same case is barely within tolerance in the interpreter"
        error = f"its largest error there is {worst:.2f} of what is allowed. A GPU adds in another order."
        return Clue("rounded_intermediate", 0.9, f"{barely}: {error}")
    for way in RELAUNCHES:
        if is_right(way):
            return sure(way.kind, f"Launched {way.how}, the same call is right on this GPU.")
    return sure(KIND, "The same case is right in the interpreter, and so is the logic of the kernel.")


def remembered_there(interpreted: Bench, planned: PlannedCheck, one: PlannedCase) -> Clue | None:
    """Return the clue of a case that is right alone in the interpreter, and wrong after the case planned before it.

    Launch code that keeps something of an earlier call makes a case wrong there as on a GPU. one: the smallest failing
    case, with the seed of the planned one.
    """
    place = next((place for place, each in enumerate(planned.cases) if each.seed == one.seed), 0)
    if not place:
        return None
    before, failed = planned.cases[place - 1 : place + 1]
    with interpreted.findings.aside(), interpreted.pair.in_new_process():
        is_right = ruling_of(interpreted, planned, before).failure is None
        if not is_right or ruling_of(interpreted, planned, failed).failure is None:
            return None
    words = f"{failed.case.words()}: it is right alone, and wrong after the call for {before.case.words()}."
    return sure("remembered_input", f"In the interpreter, with {words}")


def right_in_new_process(bench: Bench, planned: PlannedCheck, one: PlannedCase) -> Clue | None:
    """Return the clue of a case that fails after other calls, and is right as the first call of a new process."""
    with bench.findings.aside(), bench.pair.in_new_process():
        ruling = ruling_of(bench, planned, one)
    if ruling.failure is not None or ruling.undecided or ruling.unfit:
        return None
    return sure("remembered_input", NO_EARLIER_CALL)


def is_right_relaunched(bench: Bench, case: Case, seed: int, way: Relaunch) -> bool:
    """Return whether a call is wrong on the GPU, and right if its kernels are launched in this way.

    seed: the planned one.
    """
    recipe = bench.true_recipe(case, seed)
    return is_right_only(bench, recipe, -1, lambda replay: replace(replay, trace=relaunched(replay.trace, way.changed)))


def _is_slight(failure: Failure) -> bool:
    """Return whether the errors of the first wrong elements are only slightly larger than allowed."""
    shown = failure.cause.mismatch.first if failure.cause.mismatch else ()
    return bool(shown) and all(
        abs(float(one.got) - float(one.expected)) <= _SLIGHTLY_WRONG * float(one.allowed) for one in shown
    )


def with_access(on_gpu: Failure, interpreted: Failure) -> Failure:
    """Return the failure on the GPU, with the access that the interpreter found in the same case."""
    cause = interpreted.cause
    if cause.kind not in _ACCESSES:
        return on_gpu
    rationale = f"{cause.rationale} (Seen in the interpreter. On the GPU: {on_gpu.cause.rationale})"
    return replace(interpreted, status=on_gpu.status, cause=replace(cause, rationale=rationale))
