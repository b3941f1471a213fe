"""What the tolerances of products allow: float32 sums in any order of K, also where all terms are equal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch

from grader.exercise.catalogue import resolve
from grader.judge.truth import Truth
from grader.protocol.requests import Recipe

pytestmark = pytest.mark.process

ENTRY, _ = resolve(Path(__file__).resolve().parents[2], "ex_16")


BLOCK = 32

# Orders in which a kernel may take K.
ORDERS: dict[str, Callable[[int], Sequence[int]]] = {
    "its own": range,
    "backwards": lambda depth: range(depth - 1, -1, -1),
    "blocks backwards": lambda depth: [
        k for start in reversed(range(0, depth, BLOCK)) for k in range(depth)[start : start + BLOCK]
    ],
    "second half first": lambda depth: [*range(depth // 2, depth), *range(depth // 2)],
}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("values", ["normal", "constant", "shifted", "stretch"])
@pytest.mark.parametrize("sides", [(59, 111, 921), (64, 64, 2000), (1, 140, 1536)], ids=["ragged", "long", "row"])
def test_a_sum_in_any_order_of_k_is_allowed(order: str, values: str, sides: tuple[int, int, int]) -> None:
    # Where all terms are equal, roundings add up: such a sum errs by dozens of ulps, and blocks of K by a few. Where
    # some terms are large, it counts whether they come early or late.
    case = dict(zip("MNK", sides, strict=True)) | {"dtype": "float32", "values": values}
    recipe = Recipe("matmul", {**case, "a_layout": "rows", "b_layout": "rows"}, 1)
    part = ENTRY.exercise.part("matmul")
    assert part is not None
    truth = Truth.of(ENTRY)
    a, b = (value for value in truth.inputs(recipe) if isinstance(value, torch.Tensor))
    total = torch.zeros(sides[:2])
    for k in ORDERS[order](sides[2]):
        # As a GPU's multiply-add rounds: once.
        total = torch.addcmul(total.double(), a[:, k : k + 1].double(), b[k : k + 1].double()).float()
    (expected,) = truth.expect(part, recipe)
    assert bool(((total.double() - expected.value).abs() <= expected.allowed).all())
