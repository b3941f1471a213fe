"""The baselines of a round read the same inputs; only what changes its inputs gets its own."""

from __future__ import annotations

import dataclasses

import torch

from grader.exercise.catalogue import resolve
from grader.exercise.model import Part
from grader.protocol.baseline_messages import PrepareBaseline
from grader.protocol.requests import Recipe
from grader.speed import baseline_main
from tests.conftest import ROOT


def given_to(part: Part, request: PrepareBaseline, seeds: tuple[int, ...]) -> list[torch.Tensor]:
    """Return the first argument that a part's baseline gets in two kinds of work, for each seed."""
    entry, _ = resolve(ROOT, "ex_15")
    state = baseline_main._State(entry)
    names = "torch_eager", "naive"
    for name in names:
        state._functions[part.name, name] = lambda *given: given[0]
        state._prepare(dataclasses.replace(request, baseline=name))
    given: list[torch.Tensor] = []
    for seed in seeds:
        for work, _ in state._works.values():
            work.place(work.inputs(seed))
            given += [one for one in work.run() if isinstance(one, torch.Tensor)][:1]
    return given


def request_for(mutates: tuple[str, ...]) -> tuple[Part, PrepareBaseline]:
    part = resolve(ROOT, "ex_15")[0].exercise.parts[0]
    recipe = Recipe(part.name, dict(part.speed_bands[0].suite.named_cases[0]) | {"N": 64}, 0)
    return part, PrepareBaseline("torch_eager", recipe, part.arguments, mutates, "stream", 64)


def test_the_baselines_of_a_round_read_the_same_tensors() -> None:
    first, second, third, fourth = given_to(*request_for(()), (1, 2))
    assert first is second
    assert third is fourth
    assert not torch.equal(first, third)


def test_what_changes_its_inputs_gets_tensors_of_its_own() -> None:
    part, request = request_for(("x",))
    first, second = given_to(part, request, (1,))
    assert first is not second
    assert torch.equal(first, second)
