"""Find wrong values that come from the masked lanes of a load without `other`.

These lanes are undefined on a GPU, and the interpreter fills them with a pattern of ones. The failing call is replayed
with other values in them: outputs that change depend on them.
"""

from __future__ import annotations

from collections.abc import Callable

from grader.judge.bench import Bench
from grader.judge.clue import Clue, sure
from grader.judge.failures import Failure, WrongCall
from grader.protocol.messages import Filling
from grader.sandbox.outcome import Finished, Outcome

KIND = "padding_counted"
# Values that change no sum, no maximum and no minimum, as code.
_NEUTRAL: tuple[tuple[Filling, str], ...] = (("0", "0"), ("-inf", 'float("-inf")'), ("inf", 'float("inf")'))
# Share of the wrong elements that must change for the undefined lanes to be behind all of them.
_MOST = 0.95

_Replay = Callable[[tuple[int, ...], Filling], Outcome | None]


def clues_of_undefined_lanes(bench: Bench, failure: Failure) -> list[Clue]:
    """Return a clue where undefined lanes reached wrong elements of a call.

    It is confirmed where a value in these lanes makes the answer right.
    """
    seen = failure.seen
    if seen is None or failure.cause.mismatch is None or seen.recipe.part != bench.part.name:
        return []
    lines = seen.outcome.answer.undefined
    if not lines:
        return []
    with bench.aside():
        replay = bench.refilled(seen)
        same = _trial_of(replay, seen, (), "0")
        if same is None or same.outcome.outputs != seen.outcome.outputs:
            # The call depends on more than its inputs, so a change would prove nothing.
            return []
        changed = 0.0
        for filling, code in _NEUTRAL:
            trial = _trial_of(replay, seen, lines, filling)
            if trial is None or (share := _share_changed(seen, trial)) == 0:
                return []
            changed = max(changed, share)
            if _is_right(trial):
                reached = _lines_that_reach(replay, seen, lines, filling)
                return [_with_value(reached, code)]
        reached = _lines_that_reach(replay, seen, lines, "0")
    return [_without_value(reached, changed)]


def _trial_of(replay: _Replay, seen: WrongCall, lines: tuple[int, ...], filling: Filling) -> WrongCall | None:
    outcome = replay(lines, filling)
    if not isinstance(outcome, Finished):
        return None
    return WrongCall(seen.recipe, outcome, seen.expected)


def _share_changed(seen: WrongCall, trial: WrongCall) -> float:
    """Return the share of the wrong elements that are other values in a trial."""
    wrong_elements = changed = 0
    for (got, wrong, _), (later, _, _) in zip(seen.answers(), trial.answers(), strict=False):
        same = (got == later) | (got.isnan() & later.isnan())
        wrong_elements += int(wrong.sum())
        changed += int((wrong & ~same).sum())
    return changed / max(1, wrong_elements)


def _is_right(trial: WrongCall) -> bool:
    return not any(bool(wrong.any()) for _, wrong, _ in trial.answers())


def _lines_that_reach(replay: _Replay, seen: WrongCall, lines: tuple[int, ...], filling: Filling) -> tuple[int, ...]:
    """Return the lines whose undefined lanes matter: filled everywhere else, the answer is another one."""
    every = _trial_of(replay, seen, lines, filling)
    if len(lines) == 1 or every is None:
        return lines
    found = []
    for line in lines:
        trial = _trial_of(replay, seen, tuple(one for one in lines if one != line), filling)
        if trial is None or trial.outcome.outputs != every.outcome.outputs:
            found.append(line)
    return tuple(found) or lines


def _with_value(lines: tuple[int, ...], code: str) -> Clue:
    """Return the clue where a value in the undefined lanes makes the answer right."""
    where = _where(lines)
    return sure(
        KIND,
        f"With {code} in the lanes that the mask leaves out in {where}, the answer is right.",
        "Masked lanes of a load without `other=` reach the result",
        f"Without `other=` these lanes are undefined: here they hold NaN, or -1 in integers. Write `other={code}` in "
        f"{where}.",
    )


def _without_value(lines: tuple[int, ...], changed: float) -> Clue:
    """Return the clue where the undefined lanes reach wrong elements, and no value makes the answer right.

    changed: share of the wrong elements that they reach.
    """
    where = _where(lines)
    share = "every wrong element" if changed >= _MOST else f"about {changed:.0%} of the wrong elements"
    return Clue(
        KIND,
        0.7 if changed >= _MOST else 0.4,
        f"The lanes that the mask leaves out in {where} reach {share}: other values in them change the result.",
        title="Looks like masked lanes that reach the result, in a load without `other=`",
        help="Which elements does this mask leave out, and are they stored or summed all the same? Give such lanes a "
        "value by `other=` that does not change the result, or leave them out in the store too.",
        firm=changed >= _MOST,
    )


def _where(lines: tuple[int, ...]) -> str:
    """Return lines in words: "the load at line 7", "the loads at lines 7 and 9"."""
    if len(lines) == 1:
        return f"the load at line {lines[0]}"
    return f"the loads at lines {', '.join(map(str, lines[:-1]))} and {lines[-1]}"
