"""Find out what the inputs of every part depend on: values on the seed, forms on the case alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, groupby

import torch
from torch import Tensor

from grader.exercise.cases import Case
from grader.exercise.model import Part
from grader.exercise.plan import Plan
from grader.exercise.tensors import bytes_of, same_bytes
from grader.judge.distinct_inputs import whole_numbers
from grader.judge.truth import Truth
from grader.protocol.requests import Recipe
from grader.sandbox.pair import decoys_of
from grader.soundness.findings import GateLine


def cases_by_part(plan: Plan) -> Iterator[tuple[Part, list[list[Recipe]]]]:
    """Yield every part with the planned cases of each of its checks that has some."""
    for part, several in groupby(plan.checks, key=lambda planned: planned.part):
        checks = [[one.recipe(part) for one in planned.cases] for planned in several]
        if cased := [recipes for recipes in checks if recipes]:
            yield part, cased


def seeded_inputs(plan: Plan, truth: Truth) -> Iterator[GateLine]:
    """Yield for every part whether in each check some case has other inputs where it has another seed.

    Some cases have not: a constant has one value, and a single thing one order.
    """
    for part, checks in cases_by_part(plan):
        fixed = next((recipes for recipes in checks if not any(_depends_on_seed(one, truth) for one in recipes)), None)
        outcome = f"every seed gives the same inputs: {Case(fixed[0].case).words()}" if fixed else "others for others"
        yield GateLine(f"seeds of {part.name}", fixed is None, outcome)


def _depends_on_seed(recipe: Recipe, truth: Truth) -> bool:
    here, there = truth.inputs(recipe), truth.inputs(replace(recipe, seed=recipe.seed + 1))
    return not all(_same(*pair) for pair in zip(here, there, strict=True))


def steady_forms(plan: Plan, truth: Truth) -> Iterator[GateLine]:
    """Yield for every part whether its tensors have the same shapes, strides and places in memory for all numbers.

    A trace holds those of the decoys that it was recorded with: plain numbers of another seed.
    """
    for part, checks in cases_by_part(plan):
        other = next((one for one in chain.from_iterable(checks) if _form_depends_on_numbers(one, truth)), None)
        outcome = (
            f"a seed, or the family of values, decides where a tensor lies: {Case(other.case).words()}"
            if other
            else "the same for every seed"
        )
        yield GateLine(f"forms of {part.name}", other is None, outcome)


def _form_depends_on_numbers(recipe: Recipe, truth: Truth) -> bool:
    recipes = recipe, replace(recipe, seed=recipe.seed + 1), decoys_of(recipe)
    return len({tuple(map(_form, truth.inputs(one))) for one in recipes}) > 1


def _form(value: object) -> object:
    return (value.shape, value.stride(), value.storage_offset()) if isinstance(value, Tensor) else None


def repeatable_inputs(plan: Plan, truth: Truth) -> Iterator[GateLine]:
    """Yield for every part whether a seed gives the same bits again.

    The judge and the submission's process each build the inputs.
    """
    for part, checks in cases_by_part(plan):
        other = next((recipe for recipe in chain.from_iterable(checks) if not _repeats(recipe, truth)), None)
        outcome = f"a seed gives other inputs a second time: {Case(other.case).words()}" if other else "repeatable"
        yield GateLine(f"inputs of {part.name}", other is None, outcome)


def early_whole_numbers(plan: Plan, truth: Truth) -> Iterator[GateLine]:
    """Yield for every part with whole-number tensors whether they are the same where they are made alone."""
    for part, checks in cases_by_part(plan):
        recipes = list(chain.from_iterable(checks))
        if truth.has_whole_numbers(recipes[0]):
            other = next((one for one in recipes if truth.whole_numbers(one) != whole_numbers(truth.inputs(one))), None)
            outcome = (
                f"{part.name}_whole_numbers gives others than {part.name}: {Case(other.case).words()}"
                if other
                else "the same alone"
            )
            yield GateLine(f"whole numbers of {part.name}", other is None, outcome)


def _repeats(recipe: Recipe, truth: Truth) -> bool:
    """Return whether one thread builds the same bits as several: sums may depend on the number of threads."""
    usual = torch.get_num_threads()
    try:
        torch.set_num_threads(max(usual, 2))
        first = truth.inputs(recipe)
        torch.set_num_threads(1)
        second = truth.inputs(recipe)
    finally:
        torch.set_num_threads(usual)
    return len(first) == len(second) and all(_same(*pair) for pair in zip(first, second, strict=True))


def _same(one: object, other: object) -> bool:
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        alike = (one.shape, one.stride(), one.storage_offset()) == (other.shape, other.stride(), other.storage_offset())
        return alike and same_bytes(bytes_of(one), bytes_of(other))
    return one == other
