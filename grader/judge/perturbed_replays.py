"""Replay a right call under conditions that a GPU leaves open, and report whether it stays right.

Takes a recorded call with its right outcome and gives a failure, or None. It replays, and records nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from grader.exercise.cases import Case
from grader.exercise.tensors import dtype_of, is_whole
from grader.judge.answer_check import check_answer
from grader.judge.clue import sure
from grader.judge.failure import Failure
from grader.judge.trial import NotRunHere
from grader.judge.truth import Expected
from grader.phrases import lines_named
from grader.protocol.answers import NEEDS_GPU, ONLY_ON_A_GPU, Raised
from grader.protocol.operators import EMPTY
from grader.protocol.requests import Call, Filling, Interrupted, Lanes, only
from grader.protocol.trace import Trace, operators_in
from grader.record.causes import Cause
from grader.sandbox.outcome import Finished, Outcome, OutOfTime
from grader.sandbox.pair import Pair, RecordedAnswer

_OTHER_LANES: tuple[Lanes, ...] = ("first", "drawn")
_INTERRUPTED: tuple[Interrupted, ...] = ("most", "few", "none")


@dataclass(frozen=True)
class RightCall:
    """A call whose replay was right. inputs: makes its input tensors. path: of the submission."""

    recorded: RecordedAnswer
    call: Call
    outcome: Finished
    expected: tuple[Expected, ...]
    inputs: Callable[[], Sequence[object]]
    path: str

    @property
    def words(self) -> str:
        """The case, in words."""
        return Case(self.call.recipe.case).words()

    def failure_of(self, other: Outcome) -> Failure | None:
        """Return the failure of another outcome of the same call."""
        return check_answer(other, self.expected, self.inputs, self.path)[0]


def perturbed_failure(pair: Pair, right: RightCall) -> Failure | None:
    """Return the failure of a right call that is wrong in another order of programs or lanes, or with other garbage.

    Raises NotRunHere where only a GPU can finish such a replay.
    """
    return _in_opposite_order(pair, right) or _with_other_lanes(pair, right) or _with_other_garbage(pair, right)


def _in_opposite_order(pair: Pair, right: RightCall) -> Failure | None:
    """Return the failure of a right call that is wrong if the programs of its launches run in the opposite order.

    Only programs that meet at an address can depend on their order. A GPU runs them in any. They are also interrupted
    behind atomics and volatile loads, unless a program that holds a lock would then block the others. Raises NotRunHere
    for a kernel that needs a GPU only in another order.
    """
    if not right.outcome.answer.meets:
        return None
    wanted, pauses = only(right.outcome.answer.configuration), right.outcome.answer.pauses
    # A paused program that holds a lock blocks all others. With fewer pauses, none may hold one.
    for interrupted in _INTERRUPTED if pauses else _INTERRUPTED[-1:]:
        other = pair.replay_backwards(right.recorded, right.call, wanted, pauses, interrupted=interrupted)
        if isinstance(other, Raised) and other.kind == NEEDS_GPU:
            raise NotRunHere(f"programs that end here in one order only, for {right.words}")
        if not is_unfinished(other):
            failure = right.failure_of(other)
            return failure and _wrong_in_opposite_order(failure, right.words)
        # Programs that wait for others must run at the same time as these.
    return None


def _with_other_lanes(pair: Pair, right: RightCall) -> Failure | None:
    """Return the failure of a right call that is wrong if another lane wins where lanes of a store meet.

    Meeting lanes are no mistake by themselves: a program may store what nobody reads.
    """
    if not (lines := right.outcome.answer.clashes):
        return None
    wanted = only(right.outcome.answer.configuration)
    for lanes in _OTHER_LANES:
        other = pair.replay_other_lanes(right.recorded, right.call, wanted, lanes)
        failure = None if is_unfinished(other) else right.failure_of(other)
        if failure:
            return _wrong_with_other_lanes(failure, lines, right.words)
    return None


def _with_other_garbage(pair: Pair, right: RightCall) -> Failure | None:
    """Return the failure of a right call that is wrong if unwritten memory holds other numbers than NaN.

    Only these calls can depend on it: an operation hid NaN, the result must hold NaN, or there are integers, which have
    no NaN. Where programs meet, in both orders: a flag may have been set before. Raises NotRunHere if the call then
    does not end.
    """
    lines, wanted = right.outcome.answer.undefined, only(right.outcome.answer.configuration)
    orders = (False, True) if right.outcome.answer.meets else (False,)
    for filling, backwards in product(_other_fillings(right), orders):
        other = pair.replay_refilled(right.recorded, right.call, wanted, lines, filling, backwards=backwards)
        if is_unfinished(other):
            if backwards:
                continue
            raise NotRunHere(f"a kernel that ends here only while unwritten memory is NaN, for {right.words}")
        failure = right.failure_of(other)
        if failure and isinstance(other, Finished | Raised):
            if lines:
                # Masked lanes are to blame only where memory alone does not explain it.
                alone = pair.replay_refilled(right.recorded, right.call, wanted, (), filling, backwards=backwards)
                lines = lines if is_unfinished(alone) or right.failure_of(alone) is None else ()
            return _wrong_with_other_garbage(failure, lines, filling, unstored=_stores_too_little(right))
    return None


def _stores_too_little(right: RightCall) -> bool:
    """Return whether all launches together store fewer bytes than the results have."""
    traffic = [one.traffic for one in right.outcome.answer.launches]
    stored = sum(one.unique_stored_bytes for one in traffic if one is not None)
    is_known = bool(traffic) and all(one is not None and one.complete for one in traffic)
    return is_known and stored < sum(one.nbytes for one in right.expected if not one.mutated)


def _other_fillings(right: RightCall) -> Iterator[Filling]:
    """Yield other numbers for unwritten memory, in place of those that may have made the call right."""
    answer, unwritten = right.outcome.answer, _unwritten(right.recorded.trace)
    reads_bits = answer.reads_bits and bool(unwritten)
    whole = any(one.storage in unwritten and is_whole(dtype_of(one.dtype)) for one in right.recorded.trace.windows)
    if answer.hides_nan or answer.undefined_whole or any(bool(one.value.isnan().any()) for one in right.expected):
        yield "inf"
    if answer.hides_nan or whole or reads_bits:
        # For whole numbers, this is the smallest one; so far they were the largest.
        yield "-inf"
    if (answer.hides_nan and unwritten) or whole or reads_bits:
        # Memory that was used before holds finite numbers, and most often 0.
        yield "1.337"
        yield "0"


def _unwritten(trace: Trace) -> set[int]:
    """Return the storages that a call allocates without filling them."""
    empty = [one for one in operators_in(trace.steps) if one.name.partition(".")[0] in EMPTY]
    return {trace.windows[place].storage for one in empty for place in one.results}


def is_unfinished(outcome: Outcome) -> bool:
    """Return whether the interpreter could not finish a replay that a GPU may finish."""
    return isinstance(outcome, OutOfTime) or (isinstance(outcome, Raised) and outcome.kind in ONLY_ON_A_GPU)


def _wrong_in_opposite_order(failure: Failure, words: str) -> Failure:
    """Return the failure of a call that fails only if its programs run in the opposite order. words: of its case."""
    if failure.cause.kind == "race":
        return failure
    seen = "In the order of the grid the result is right, in the opposite order it is not."
    return Failure(
        "fail",
        Cause(
            "race",
            "Right in one order of the programs only",
            f"For {words}, where the programs of each launch run in the opposite order, and some between two "
            f"atomics of another: {failure.cause.rationale}",
            "A GPU runs programs in any order. Which of them reads what others store? Let the program that draws the "
            "last number of an atomic counter do it, or use a second launch. Update a value by one atomic: between two "
            "of them another program may run.",
        ),
        (sure("race", seen),),
    )


def _wrong_with_other_lanes(failure: Failure, lines: Sequence[int], words: str) -> Failure:
    """Return the failure of a call that is right only if the last lane of a store wins. words: of its case."""
    where = lines_named(lines)
    title = "Right only while the last lane of a store wins"
    help_text = (
        "On a GPU, any of these lanes may store last. Mask the lanes that have no element of their own; do not move "
        "them to the element of another lane."
    )
    cause = Cause(
        "race",
        title,
        f"For {words}, lanes of one program store different values to one element ({where}). If another "
        f"lane stores last: {failure.cause.rationale}",
        help_text,
    )
    seen = f"It is right only where the last lane of {where} stays."
    return Failure("fail", cause, (sure("stores_collide", seen, title, help_text),))


def _wrong_with_other_garbage(
    failure: Failure, lines: Sequence[int], filling: str, *, unstored: bool = False
) -> Failure:
    """Return the failure of a call that is right only while unwritten memory holds NaN.

    filling: the numbers there instead. lines: of loads that mask lanes without `other`. unstored: the kernels store
    fewer elements than the results have.
    """
    seen = f"With NaN there the result is right, with {filling} it is not."
    if unstored and not lines:
        rationale = f"With {filling} in memory that nobody wrote: {failure.cause.rationale}"
        cause = Cause("undefined", "Elements of the result that no program stores", rationale, "")
        seen = f"Fresh memory holds NaN here, which is the right value there; with {filling} the result is wrong."
        return Failure("fail", cause, (sure("not_all_covered", seen),))
    lanes = f"in masked lanes without `other=` ({lines_named(lines)}) and " if lines else ""
    what = "Masked lanes of a load without `other=` reach" if lines else "Memory that nobody wrote reaches"
    help_text = (
        "A maximum, a minimum and a comparison pass over NaN, which stands for such numbers elsewhere. On a GPU they "
        f"can be any. {'Give these lanes a value by `other=`.' if lines else 'Write this memory before you read it.'}"
    )
    cause = Cause(
        "undefined",
        f"{what} the result",
        f"With {filling} {lanes}in memory that nobody wrote: {failure.cause.rationale}",
        help_text,
    )
    kind = "padding_counted" if lines else "not_cleared"
    return Failure("fail", cause, (sure(kind, seen, cause.title, help_text),))
