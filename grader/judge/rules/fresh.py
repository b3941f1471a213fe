"""Judge whether every call computes anew: remembered answers, shared memory and unequal repeats fail."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from grader.exercise.cases import QUICK_VOLUME
from grader.exercise.plan import PlannedCase
from grader.exercise.rules import Fresh
from grader.exercise.seeds import another
from grader.judge.bench import Bench
from grader.judge.clue import Clue, sure
from grader.judge.compare import compare, tensor_of
from grader.judge.failure import Failure
from grader.judge.retrials import replaying
from grader.judge.ruling import Ruling
from grader.judge.trial import CallRequest, Trial
from grader.judge.wrong_replay import explain_wrong_replay
from grader.record.causes import Cause
from grader.record.json_numbers import Number
from grader.sandbox.outcome import Finished
from grader.text import clean

RULE = Fresh

# How many further calls must not share memory of results: more than a ring has buffers.
_MORE = 13
# The same for the last and largest case: some rings are for large results.
_FEW = 4


def decide(bench: Bench, cases: Sequence[PlannedCase], rule: Fresh) -> Ruling:  # noqa: ARG001  as in the table
    """Pass when the chained calls of every case are right; the first case that fails decides."""
    metrics: dict[str, Number] = {"cases": len(cases)}
    for one in cases:
        if failure := judge_case(bench, one, _extra_calls(cases, one)):
            return Ruling(failure, one, metrics=metrics)
    for one in _of_other_checks(bench) if bench.part.in_any_order else ():
        if failure := _unordered(bench, bench.try_case(one.case, one.seed)):
            return Ruling(failure, one, metrics=metrics)
    return Ruling(None, metrics=metrics)


def _of_other_checks(bench: Bench) -> list[PlannedCase]:
    """Return cases of other checks whose bits may depend on the order of programs: they may have kernels of their own.

    These are the first with atomic additions; and of the quick cases in which programs meet, the largest, the smallest
    and one between.
    """
    added = [seen for seen in bench.findings.evidence if seen.unordered]
    quick = [seen for seen in bench.findings.evidence if seen.meets and seen.case.volume <= QUICK_VOLUME]
    met = sorted(quick, key=lambda seen: -seen.case.volume)
    some = [met[place] for place in sorted({0, len(met) // 2, len(met) - 1})] if met else []
    return [PlannedCase(seen.case, seen.seed) for seen in (*added[:1], *some)]


def judge_case(bench: Bench, one: PlannedCase, more: int = 0) -> Failure | None:
    """Return the failure of four chained calls on one case, or None. A remembered answer fails in one of them.

    1. some bytes; 2. other bytes behind the same pointers and version counters; 3. the same again with only the middle
    changed, which a fingerprint of the ends does not see; 4. the first bytes again, elsewhere in memory.

    more: number of further calls, on other inputs. They show whether results share memory with earlier results, as with
    a few buffers that are used in turn.
    """
    other = another(one.seed)
    requests = [
        CallRequest(bench.part, one.case, one.seed),
        CallRequest(bench.part, one.case, other, storage="same"),
        CallRequest(bench.part, one.case, other, patch_seed=one.seed, storage="same"),
        CallRequest(bench.part, one.case, one.seed),
        *(CallRequest(bench.part, one.case, one.seed + place, is_further=True) for place in range(1, more + 1)),
    ]
    trials = list(bench.tries(requests, chained=True))
    first = trials[0]
    if first.failure:
        return explain_wrong_replay(bench, one, first, first.failure)
    if len(trials) < len(requests) - more:
        # The last trial has the reason for the missing ones.
        return trials[-1].failure
    _, second, third, fourth, *others = trials
    for trial, earlier, what in (
        (second, first, "the bytes behind the same pointers had changed"),
        (third, second, "the middle of the inputs had changed"),
        (fourth, third, "the inputs were those of an earlier call, in new memory"),
    ):
        if failure := _stale_failure(trial, earlier, what):
            return failure
        if trial.failure:
            seen = f"The first call was right. In this one {what}, and the answer is wrong."
            return replace(trial.failure, clues=(*trial.failure.clues, Clue("remembered_input", 0.7, seen)))
    wrong = next((trial.failure for trial in others if trial.failure), None)
    return _alias_failure(*trials) or wrong or _repeats(bench, first, fourth)


def _extra_calls(cases: Sequence[PlannedCase], one: PlannedCase) -> int:
    return _MORE if one is cases[0] else _FEW if one is cases[-1] else 0


def _stale_failure(trial: Trial, earlier: Trial, what: str) -> Failure | None:
    """Return the failure of a wrong answer that is right for the earlier call; or None."""
    if not trial.failure or not isinstance(trial.outcome, Finished):
        return None
    answered = [
        raw is not None and compare(tensor_of(raw, output), output).agrees
        for raw, output in zip(trial.outcome.outputs, earlier.expected, strict=False)
    ]
    if not answered or not all(answered):
        return None
    return Failure(
        "fail",
        Cause(
            "stale_result",
            "An earlier answer was returned again",
            f"In this call {what}, yet the answer is that of the call before.",
            "Compute the results from the inputs at every call; remember none by pointer, shape or content.",
        ),
    )


def _alias_failure(*trials: Trial) -> Failure | None:
    for trial in trials:
        if not isinstance(trial.outcome, Finished):
            continue
        for form, output in zip(trial.outcome.answer.outputs, trial.expected, strict=False):
            if form.alias:
                return Failure(
                    "fail",
                    Cause(
                        "alias",
                        "A result shares memory",
                        f"{output.name} must be memory of its own, but it shares that of {clean(form.alias, 80)}.",
                        "Allocate the output in every call: the caller may still hold or change the shared memory.",
                    ),
                )
    return None


def _repeats(bench: Bench, first: Trial, again: Trial) -> Failure | None:
    if first.launches and not again.launches:
        return Failure(
            "fail",
            Cause(
                "stale_result",
                "A call computed nothing",
                "Called again with the inputs of an earlier call, the function returned without launching a kernel.",
                "Compute the results from the inputs at every call; do not remember them by content.",
            ),
        )
    same = (
        isinstance(first.outcome, Finished)
        and isinstance(again.outcome, Finished)
        and first.outcome.outputs == again.outcome.outputs
    )
    if bench.part.deterministic and not same:
        return Failure(
            "fail",
            Cause(
                "not_repeatable",
                "Two calls on equal inputs disagree",
                "This part promises the same bits for the same inputs.",
                "Look for memory that is read before it is written, or for programs that race for one address.",
            ),
            (Clue("race", 0.5, "Two calls on equal inputs disagree."), Clue("not_cleared", 0.5)),
        )
    return _unordered(bench, first)


def _unordered(bench: Bench, trial: Trial) -> Failure | None:
    """Return the failure of a call whose bits depend on the order of its programs; or None."""
    answer = trial.outcome.answer if isinstance(trial.outcome, Finished) else None
    if answer is None or not bench.part.in_any_order:
        return None
    if answer.unordered:
        line = answer.unordered[0]
        return _unequal_bits(
            f"Line {line} adds up by atomics, and the additions round: another order may give other bits."
        )
    if not _gives_equal_bits(bench, trial):
        return _unequal_bits("With its programs in the opposite order, the same call gives other bits.")
    return None


def _gives_equal_bits(bench: Bench, trial: Trial) -> bool:
    """Return whether the result of a right call has the same bits if its programs run in the opposite order.

    True if programs do not meet at an address, or if a replay does not end.
    """
    if not isinstance(trial.outcome, Finished) or not trial.outcome.answer.meets:
        return True
    with bench.findings.aside():
        replay = replaying(bench, trial.recipe, trial.outcome.answer.configuration)
        usual = replay(lambda one: one)
        pauses = trial.outcome.answer.pauses
        other = replay(lambda one: replace(one, backwards=True, pauses=pauses, interrupted="most"))
    return not isinstance(usual, Finished) or not isinstance(other, Finished) or usual.outputs == other.outputs


def _unequal_bits(seen: str) -> Failure:
    help_text = "Store the parts of a sum to separate elements, and add them up in a fixed order."
    return Failure(
        "fail",
        Cause(
            "not_repeatable",
            "Equal inputs may give unequal bits",
            f"{seen} A GPU runs programs in any order. This part promises the same bits for the same inputs.",
            help_text,
        ),
        (sure("race", seen, "Equal inputs may give unequal bits", help_text),),
    )
