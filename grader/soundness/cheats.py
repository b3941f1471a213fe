"""Try answers that need no computation: none may pass a check on values, or earn much by choices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isnan

import torch
from torch import Tensor

from grader.exercise.model import check_id
from grader.exercise.plan import Plan, PlannedCheck
from grader.exercise.rules import Regret
from grader.judge.compare import compare
from grader.judge.rules.regret import counted_ratios, mean_regret
from grader.judge.truth import Expected, Truth
from grader.soundness.findings import GateLine

# The largest share of points of a check on choices that a constant choice may earn.
_MOST_FOR_NOTHING = 0.5
_COARSE = "the next lower precision"
_LOWER = {torch.float32: torch.bfloat16, torch.float16: torch.float8_e4m3fn, torch.bfloat16: torch.float8_e4m3fn}


def trivial_answers(plan: Plan, truth: Truth) -> Iterator[GateLine]:
    """Yield for every check on values whether an answer without computation, or too coarse, passes all cases."""
    for planned in plan.checks:
        if planned.check.rule.judges_values:
            passing = _passing_models(planned, truth)
            outcome = f"passed by {', '.join(sorted(passing))}" if passing else "no trivial answer passes"
            if passing == {_COARSE}:
                # The honest function's error, which becomes the tolerance, is then as large as the values.
                outcome += f": does {planned.part.name}_honest compute what the oracle does?"
            yield GateLine(check_id(planned.part, planned.check), not passing, outcome)


def _passing_models(planned: PlannedCheck, truth: Truth) -> set[str]:
    surviving: set[str] | None = None
    for one in planned.cases:
        recipe = one.recipe(planned.part)
        expected = truth.expect(planned.part, recipe)
        models = _models(expected, truth.inputs(recipe), planned.part.arguments)
        asked = models.keys() if surviving is None else surviving & models.keys()
        surviving = {name for name in asked if _all_agree(models[name], expected)}
        if not surviving:
            break
    return surviving or set()


def _all_agree(outputs: Sequence[Tensor], expected: Sequence[Expected]) -> bool:
    return all(compare(got, output).agrees for got, output in zip(outputs, expected, strict=True))


def _models(
    expected: Sequence[Expected], inputs: Sequence[object], names: Sequence[str]
) -> dict[str, tuple[Tensor, ...]]:
    """Return outputs that need no computation, by name."""
    models = {
        "zeros": tuple(torch.zeros(one.value.shape, dtype=one.dtype) for one in expected),
        "ones": tuple(torch.ones(one.value.shape, dtype=one.dtype) for one in expected),
    }
    if all(one.value.numel() > 1 for one in expected):
        models["the mean"] = tuple(one.value.double().mean().expand(one.value.shape).to(one.dtype) for one in expected)
    if all(one.dtype in _LOWER for one in expected):
        models[_COARSE] = tuple(one.value.float().to(_LOWER[one.dtype]).float().to(one.dtype) for one in expected)
    for name, value in zip(names, inputs, strict=True):
        if isinstance(value, Tensor) and all(value.shape == one.value.shape for one in expected):
            models[f"a copy of {name}"] = tuple(value.to(one.dtype) for one in expected)
    return models


def constant_choices(plan: Plan, truth: Truth) -> Iterator[GateLine]:
    """Yield for every check on choices what the best constant choice earns."""
    for planned in plan.checks:
        rule = planned.check.rule
        if not isinstance(rule, Regret):
            continue
        if not truth.has_measurements:
            yield GateLine(planned.id, None, "nothing has been measured that choices could be judged by")
        elif ratios := _ratios(planned, truth):
            name, regret = min(((name, mean_regret(found)) for name, found in ratios.items()), key=lambda one: one[1])
            earned = rule.share(regret)
            outcome = f"the best constant choice, {name}, earns {earned:.0%} of the points (regret {regret:.0%})"
            yield GateLine(planned.id, earned < _MOST_FOR_NOTHING, outcome)


def _ratios(planned: PlannedCheck, truth: Truth) -> dict[str, list[float]]:
    """Return the ratios in each measured case, of every thing that can be chosen in all of them."""
    found: dict[str, list[float]] = {}
    part, measured = planned.part, 0
    for one in planned.cases:
        recipe = one.recipe(part)
        offers = truth.offers(part, recipe)
        if all(isnan(offer.ratio) for offer in offers):
            continue
        measured += 1
        for offer, ratio in zip(offers, counted_ratios(offers), strict=True):
            found.setdefault(str(offer.thing), []).append(ratio)
    return {name: ratios for name, ratios in found.items() if len(ratios) == measured}
