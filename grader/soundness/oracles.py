"""Find out whether the oracle of every part is wide, and allows an error everywhere."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

import torch

from grader.exercise.cases import Case
from grader.exercise.plan import Plan
from grader.judge.truth import Expected, Truth
from grader.soundness.findings import GateLine
from grader.soundness.inputs import cases_by_part


def wide_oracles(plan: Plan, truth: Truth) -> Iterator[GateLine]:
    """Yield for every part that computes whether its oracle gives float64 (or whole numbers) and an allowed error."""
    for part, checks in cases_by_part(plan):
        if part.chooses:
            continue
        faults = (
            f"{fault}: {Case(recipe.case).words()}"
            for recipe in chain.from_iterable(checks)
            for output in truth.expect(part, recipe)
            if (fault := _oracle_fault(output))
        )
        fault = next(faults, "")
        yield GateLine(f"oracle of {part.name}", not fault, fault or "wide, and an error is allowed everywhere")


def _oracle_fault(output: Expected) -> str:
    """Return what is wrong with an expected output as such; "" if nothing is."""
    value, allowed = output.value, output.allowed
    if output.dtype.is_floating_point and value.dtype != torch.float64:
        return f"{output.name} must be computed in float64, got {str(value.dtype).removeprefix('torch.')}"
    if not bool((allowed >= 0).all()):
        return f"the error allowed in {output.name} must be 0 or more, got {float(allowed.min()):g}"
    return ""
