"""Find wrong values that come from the masked lanes of loads.

Without `other` these lanes are undefined on a GPU, and the interpreter fills them with ones. A wrong `other` changes a
sum or a maximum. Replay the failing call with other values in these lanes: outputs that change depend on them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from grader.judge.bench import Bench
from grader.judge.clue import Clue, sure
from grader.judge.failure import Failure, WrongCall
from grader.judge.retrials import replaying
from grader.phrases import lines_named
from grader.protocol.requests import Filling, ReplayCall
from grader.sandbox.outcome import Finished, Outcome

KIND = "padding_counted"
# Values that do not change a maximum, a minimum or a sum, as code.
# Zero comes last: it does not change a maximum of positive numbers, but the next maximum may be negative.
_NEUTRAL: Mapping[Filling, str] = {"-inf": 'float("-inf")', "inf": 'float("inf")', "0": "0"}
# The argument of a block pointer that replaces `other=0`.
_OF_BLOCK_POINTERS = ' (of a block pointer: `padding_option="zero"`)'
# The share of the wrong elements that must change if masked lanes are the reason for all of them.
_NEARLY_ALL = 0.95
# Weight of masked lanes that another check of the part has confirmed.
_CONFIRMED_ELSEWHERE = 0.9

_Replay = Callable[[Callable[[ReplayCall], ReplayCall]], Outcome | None]


def masks_lanes(failure: Failure) -> bool:
    """Return whether the interpreter noted a load with masked lanes in the failing call."""
    answer = failure.wrong_call and failure.wrong_call.outcome.answer
    return bool(answer and (answer.undefined or answer.padded))


def padding_clues(bench: Bench, failure: Failure) -> list[Clue]:
    """Return a clue if the masked lanes of loads reached wrong elements of a call.

    It is confirmed if a value in these lanes makes the answer right.
    """
    wrong_call = failure.wrong_call
    if wrong_call is None or failure.cause.mismatch is None or wrong_call.recipe.part != bench.part.name:
        return []
    if not masks_lanes(failure):
        return []
    undefined, padded = wrong_call.outcome.answer.undefined, wrong_call.outcome.answer.padded
    with bench.findings.aside():
        replay = replaying(bench, wrong_call.recipe, wrong_call.outcome.answer.configuration)
        same = _trial_of(replay, wrong_call, (), "0")
        if same is None or same.outcome.outputs != wrong_call.outcome.outputs:
            # The call depends on more than its inputs, so a change would prove nothing.
            return []
        return [*_without_other(replay, wrong_call, undefined)] or [*_with_other(replay, wrong_call, padded)]


def padding_elsewhere(failure: Failure, known: Sequence[Clue]) -> list[Clue]:
    """Return the clue that another check has confirmed, for a call that is too slow to be replayed several times."""
    if not known or not masks_lanes(failure):
        return []
    first = known[0]
    return [
        replace(
            first,
            weight=_CONFIRMED_ELSEWHERE,
            confirmed=False,
            firm=True,
            evidence=f"In another check: {_lower(first.evidence)}",
        )
    ]


def _lower(sentence: str) -> str:
    return f"{sentence[:1].lower()}{sentence[1:]}"


def _without_other(replay: _Replay, wrong_call: WrongCall, lines: tuple[int, ...]) -> list[Clue]:
    """Return the clue of undefined lanes, which should not reach a result."""
    filling, changed = _neutral_value(replay, wrong_call, lines)
    if not changed:
        return []
    where = _where(_lines_that_reach(replay, wrong_call, lines, filling or "0"))
    if filling:
        code = _NEUTRAL[filling]
        return [
            sure(
                KIND,
                _seen(code, where),
                "Masked lanes of a load without `other=` reach the result",
                "Without `other=` these lanes are undefined: here they hold NaN, or -1 in integers. "
                f"Write `other={code}` in {where}{_OF_BLOCK_POINTERS if filling == '0' else ''}.",
            )
        ]
    share = "every wrong element" if changed >= _NEARLY_ALL else f"about {changed:.0%} of the wrong elements"
    return [
        Clue(
            KIND,
            0.7 if changed >= _NEARLY_ALL else 0.4,
            f"The lanes that the mask leaves out in {where} reach {share}: other values in them change the result.",
            title="Looks like masked lanes that reach the result, in a load without `other=`",
            help="Which elements does this mask leave out, and are they stored or summed nevertheless? Give such lanes "
            "a value by `other=` that does not change the result, or leave them out in the store too.",
            firm=changed >= _NEARLY_ALL,
        )
    ]


def _with_other(replay: _Replay, wrong_call: WrongCall, lines: tuple[int, ...]) -> list[Clue]:
    """Return the clue of a wrong `other`: a value in its place makes the answer right."""
    filling, _ = _neutral_value(replay, wrong_call, lines)
    if not filling:
        return []
    code, where = _NEUTRAL[filling], _where(_lines_that_reach(replay, wrong_call, lines, filling))
    return [
        sure(
            KIND,
            _seen(code, where),
            "Masked lanes of a load change the result by their `other=`",
            f"Which value of `other=` changes no result? Write `other={code}` in {where}.",
        )
    ]


def _neutral_value(replay: _Replay, wrong_call: WrongCall, lines: tuple[int, ...]) -> tuple[Filling | None, float]:
    """Return the value of masked lanes that makes the answer right, or None, and a share of the wrong elements.

    The share: how many wrong elements change with any tried value. At 0.0, the lanes reach no wrong element.
    """
    changed = 0.0
    for filling in _NEUTRAL if lines else ():
        trial = _trial_of(replay, wrong_call, lines, filling)
        if trial is None:
            break
        changed = max(changed, _share_changed(wrong_call, trial))
        if _is_right(trial):
            return filling, changed
    return None, changed


def _trial_of(replay: _Replay, wrong_call: WrongCall, lines: tuple[int, ...], filling: Filling) -> WrongCall | None:
    outcome = replay(lambda usual: replace(usual, filled=lines, filling=filling))
    if not isinstance(outcome, Finished):
        return None
    return WrongCall(wrong_call.recipe, outcome, wrong_call.expected)


def _share_changed(wrong_call: WrongCall, trial: WrongCall) -> float:
    """Return the share of the wrong elements that change in a trial."""
    wrong_elements = changed = 0
    for (got, wrong, _), (later, _, _) in zip(wrong_call.answers(), trial.answers(), strict=False):
        same = (got == later) | (got.isnan() & later.isnan())
        wrong_elements += int(wrong.sum())
        changed += int((wrong & ~same).sum())
    return changed / max(1, wrong_elements)


def _is_right(trial: WrongCall) -> bool:
    return not any(bool(wrong.any()) for _, wrong, _ in trial.answers())


def _lines_that_reach(
    replay: _Replay, wrong_call: WrongCall, lines: tuple[int, ...], filling: Filling
) -> tuple[int, ...]:
    """Return the lines whose masked lanes matter: if only the others are filled, the answer differs."""
    every = _trial_of(replay, wrong_call, lines, filling)
    if len(lines) == 1 or every is None:
        return lines
    found = []
    for line in lines:
        trial = _trial_of(replay, wrong_call, tuple(one for one in lines if one != line), filling)
        if trial is None or trial.outcome.outputs != every.outcome.outputs:
            found.append(line)
    return tuple(found) or lines


def _seen(code: str, where: str) -> str:
    return f"With {code} in the lanes that the mask leaves out in {where}, the answer is right."


def _where(lines: tuple[int, ...]) -> str:
    """Return lines in words: "the load at line 7", "the loads at lines 7 and 9"."""
    return f"the {'load' if len(lines) == 1 else 'loads'} at {lines_named(lines)}"
