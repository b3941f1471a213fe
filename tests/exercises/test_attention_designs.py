"""What attention's tolerances allow: designs that round only what enters a product, and none that rounds more."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from grader.exercise.catalogue import resolve
from grader.exercise.model import Part
from grader.exercise.plan import default_seed
from grader.judge.compare import compare
from grader.judge.truth import Truth
from grader.protocol.requests import Recipe
from tests.conftest import plan_of

pytestmark = pytest.mark.process

ROOT = Path(__file__).resolve().parents[2]
# The least and the most that kernels use; those between round no more.
TILES = (16, 128)
# What a logit's products may come to for scaled operands to be rounded: docs/tolerances.md says why.
LARGEST_ROUNDED = 24.0
LN_2 = math.log(2.0)


@dataclass(frozen=True)
class Design:
    """How a kernel computes attention. rounded: which scaled operand of the first product is rounded, if any.

    divided: what weights are divided by before they are rounded: the sum of "all", or that "so_far"; "" for nothing.
    """

    tile: int = 64
    rounded: str = ""
    divided: str = ""
    base_2: bool = False

    @property
    def name(self) -> str:
        """What a test is called."""
        words = [
            f"tiles_of_{self.tile}",
            f"divided_{self.divided}" * bool(self.divided),
            f"rounded_{self.rounded}" * bool(self.rounded),
        ]
        return "-".join([*filter(None, words), "base_2" * self.base_2]).rstrip("-")


DESIGNS = [
    *(Design(tile, divided=divided, base_2=tile > 32) for tile in TILES for divided in ("", "all", "so_far")),
    *(Design(rounded=operand, base_2=base_2) for operand in ("q", "k") for base_2 in (False, True)),
]
BACKWARD = [Design(rounded=operand, base_2=base_2) for operand in ("", "q", "k") for base_2 in (False, True)]


class Known:
    """The planned cases of one part, and the truth about them."""

    def __init__(self, exercise: str, part: str) -> None:
        entry, _ = resolve(ROOT, exercise)
        self.truth = Truth.of(entry, keep=1 << 10)
        found = entry.exercise.part(part)
        assert found
        self.part: Part = found
        plan = plan_of(entry, default_seed(entry.id), gpu=False, parts=frozenset({part}))
        recipes = [Recipe(part, dict(one.case), one.seed) for check in plan.checks for one in check.cases]
        self.recipes = [one for one in recipes if "steps" not in one.case]
        # A case is drawn anew only once.
        self._inputs: dict[int, Any] = {}

    def inputs(self, recipe: Recipe) -> Any:
        """The arguments of a call, which no test changes."""
        if id(recipe) not in self._inputs:
            self._inputs[id(recipe)] = self.truth.inputs(recipe)
        return self._inputs[id(recipe)]

    def elements(self, recipe: Recipe) -> int:
        """How many numbers the arguments hold."""
        return sum(one.numel() for one in self.inputs(recipe) if isinstance(one, Tensor))

    def wrong(self, recipe: Recipe, answer: tuple[Tensor, ...]) -> list[str]:
        """Which outputs of an answer are not allowed."""
        expected = self.truth.expect(self.part, recipe)
        return [one.name for got, one in zip(answer, expected, strict=True) if not compare(got, one).agrees]


@pytest.fixture(scope="module")
def known() -> Callable[[str, str], Known]:
    made: dict[tuple[str, str], Known] = {}
    return lambda exercise, part: made.setdefault((exercise, part), Known(exercise, part))


def scale_of(q: Tensor, scale: float | None) -> float:
    return q.shape[-1] ** -0.5 if scale is None else scale


def visible(queries: int, keys: int, causal: bool) -> Tensor:
    every = torch.ones(queries, keys, dtype=torch.bool)
    return every.tril(keys - queries) if causal else every


def shared(k: Tensor, q: Tensor) -> Tensor:
    """The keys or values that every query head reads."""
    return k.repeat_interleave(q.shape[1] // k.shape[1], 1)


def may_be_rounded(q: Tensor, k: Tensor, scale: float) -> bool:
    products = (scale * q.double()).square() @ shared(k, q).double().square().mT
    return products.numel() == 0 or float(products.amax()) <= LARGEST_ROUNDED**2


def operands(design: Design, q: Tensor, k: Tensor, scale: float) -> tuple[Tensor, Tensor, float]:
    """Those of the first product, in float32, and what is still to be multiplied into its results."""
    factor = scale / LN_2 if design.base_2 else scale
    wide_q, wide_k = q.float(), shared(k, q).float()
    if design.rounded == "q":
        return (factor * wide_q).to(q.dtype).float(), wide_k, 1.0
    if design.rounded == "k":
        return wide_q, (factor * wide_k).to(q.dtype).float(), 1.0
    return wide_q, wide_k, factor


def forward(design: Design, q: Tensor, k: Tensor, v: Tensor, causal: bool, given: float) -> tuple[Tensor, Tensor]:
    """o and lse of [B, H, S, D], tile after tile."""
    first, second, factor = operands(design, q, k, given)
    logits = ((first @ second.mT) * factor).masked_fill(~visible(q.shape[2], k.shape[2], causal), -math.inf)
    power = torch.exp2 if design.base_2 else torch.exp
    values = shared(v, q).float()
    top, total = torch.full((*logits.shape[:3], 1), -math.inf), torch.zeros(*logits.shape[:3], 1)
    acc = torch.zeros(*logits.shape[:3], q.shape[3])
    for start in range(0, k.shape[2], design.tile):
        part = logits[..., start : start + design.tile]
        new_top = torch.maximum(top, part.amax(-1, keepdim=True))
        shift = new_top.masked_fill(new_top == -math.inf, 0.0)
        weights, rescale = power(part - shift), power(top - shift)
        before, total = total * rescale, total * rescale + weights.sum(-1, keepdim=True)
        if design.divided == "so_far":
            by = total.masked_fill(total == 0, 1.0)
            weights, rescale = weights / by, before / by
        acc = acc * rescale + weights.to(q.dtype).float() @ values[:, :, start : start + design.tile]
        top = new_top
    blind = total == 0
    if design.divided == "all":
        weights = power(logits - top.masked_fill(blind, 0.0)) / total.masked_fill(blind, 1.0)
        weights = weights.to(q.dtype).float()
        tiles = range(0, k.shape[2], design.tile)
        acc = sum(
            (weights[..., at : at + design.tile] @ values[:, :, at : at + design.tile] for at in tiles),
            torch.zeros_like(acc),
        )
    o = acc if design.divided else acc / total.masked_fill(blind, 1.0)
    lse = (top + total.log2()) * LN_2 if design.base_2 else top + total.log()
    return o.to(q.dtype), lse.squeeze(-1)


def backward(
    design: Design, do: Tensor, q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor, causal: bool, given: float
) -> tuple[Tensor, Tensor, Tensor]:
    """dq, dk and dv, with the operands of the first product used for the gradients as well."""
    dtype = q.dtype
    first, second, factor = operands(design, q, k, given)
    seen = visible(q.shape[2], k.shape[2], causal) & (lse > -math.inf)[..., None]
    logits, sums = (first @ second.mT) * factor, (lse / LN_2 if design.base_2 else lse)[..., None]
    p = (torch.exp2 if design.base_2 else torch.exp)(logits - sums).masked_fill(~seen, 0.0)
    delta = (o.float() * do.float()).sum(-1, keepdim=True)
    ds = (p * (do.float() @ shared(v, q).float().mT - delta)).to(dtype).float()
    # A scaled operand has the scale already, and log2 e too many.
    already = LN_2 if design.base_2 else 1.0
    dq = ds @ second * (already if design.rounded == "k" else given)
    dk = ds.mT @ first * (already if design.rounded == "q" else given)
    dv = p.to(dtype).float().mT @ do.float()

    def joined(each: Tensor) -> Tensor:
        return each.reshape(*k.shape[:2], -1, *k.shape[2:]).sum(2).to(dtype)

    return dq.to(dtype), joined(dk), joined(dv)


def decoded(design: Design, inputs: Any) -> Iterator[Tensor]:
    """o of every sequence: one query in each head, which sees as many slots as there are."""
    q, k, v, lengths, scale = inputs
    for b, length in enumerate(lengths.tolist()):
        one, keys, values = q[b, None, :, None], k[b, None, :, :length], v[b, None, :, :length]
        yield forward(design, one, keys, values, causal=False, given=scale_of(one, scale))[0][0, :, 0]


@pytest.mark.parametrize("design", DESIGNS, ids=lambda design: design.name)
def test_a_forward_pass_may_round_whatever_enters_a_product(known: Callable[[str, str], Known], design: Design) -> None:
    part, judged = known("ex_18", "attention_forward"), 0
    for recipe in part.recipes:
        q, k, v, causal, scale = part.inputs(recipe)
        given = scale_of(q, scale)
        if not design.rounded or may_be_rounded(q, k, given):
            judged += 1
            assert part.wrong(recipe, forward(design, q, k, v, causal, given)) == [], recipe.case
    assert judged > len(part.recipes) / 2


@pytest.mark.parametrize("design", BACKWARD, ids=lambda design: design.name)
def test_a_backward_pass_may_round_whatever_enters_a_product(
    known: Callable[[str, str], Known], design: Design
) -> None:
    part, judged = known("ex_18", "attention_backward"), 0
    for recipe in part.recipes:
        do, q, k, v, o, lse, causal, scale = part.inputs(recipe)
        given = scale_of(q, scale)
        if not design.rounded or may_be_rounded(q, k, given):
            judged += 1
            assert part.wrong(recipe, backward(design, do, q, k, v, o, lse, causal, given)) == [], recipe.case
    assert judged > len(part.recipes) / 2


@pytest.mark.parametrize("design", DESIGNS, ids=lambda design: design.name)
def test_decoding_may_round_whatever_enters_a_product(known: Callable[[str, str], Known], design: Design) -> None:
    part, judged = known("ex_19", "decode_attention"), 0
    for recipe in part.recipes:
        inputs = part.inputs(recipe)
        q, k, _, lengths, scale = inputs
        slots = [(q[b, None, :, None], k[b, None, :, :length]) for b, length in enumerate(lengths.tolist())]
        if not design.rounded or all(may_be_rounded(one, keys, scale_of(q, scale)) for one, keys in slots):
            judged += 1
            assert part.wrong(recipe, (torch.stack(list(decoded(design, inputs))),)) == [], recipe.case
    assert judged > len(part.recipes) / 2


@pytest.mark.parametrize("operand", ["q", "k"])
def test_logits_of_ten_thousand_have_to_come_from_operands_that_are_not_rounded_again(
    known: Callable[[str, str], Known], operand: str
) -> None:
    part = known("ex_18", "attention_forward")
    peaked = [recipe for recipe in part.recipes if recipe.case["values"] == "peaked"]
    assert peaked
    for recipe in peaked:
        q, k, v, causal, scale = part.inputs(recipe)
        answer = forward(Design(rounded=operand, base_2=True), q, k, v, causal, scale_of(q, scale))
        assert "lse" in part.wrong(recipe, answer), recipe.case


@pytest.mark.parametrize(
    ("exercise", "name"),
    [
        ("ex_18", "attention_forward"),
        ("ex_18", "attention_backward"),
        ("ex_19", "decode_attention"),
        ("ex_19", "paged_decode_attention"),
    ],
)
def test_what_is_rounded_anywhere_else_shows_in_some_planned_case(
    known: Callable[[str, str], Known], exercise: str, name: str
) -> None:
    part = known(exercise, name)
    shown: dict[int, bool] = {}
    # The smallest first: one kind of rounding is computed for small cases alone.
    for recipe in sorted(part.recipes, key=part.elements):
        if shown and all(shown.values()):
            break
        dtypes = [one.dtype for one in part.truth.expect(part.part, recipe)]
        for number, (_, outputs) in enumerate(part.truth.roundings(part.part, recipe)):
            answer = tuple(one.to(dtype) for one, dtype in zip(outputs, dtypes, strict=True))
            shown[number] = shown.get(number, False) or bool(part.wrong(recipe, answer))
    assert shown
    assert all(shown.values()), shown


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_an_lse_that_is_rounded_shows_in_most_cases_of_many_keys(
    known: Callable[[str, str], Known], dtype: str
) -> None:
    part, shown = known("ex_18", "attention_forward"), []
    for recipe in part.recipes:
        q, k, v, causal, scale = part.inputs(recipe)
        # A query that sees one key has an lse that is as small as what rounding a scaled query does to it.
        if recipe.case["dtype"] == dtype and k.shape[2] >= 64 and not causal:
            o, lse = forward(Design(), q, k, v, causal, scale_of(q, scale))
            shown.append(part.wrong(recipe, (o, lse.to(q.dtype).float())) == ["lse"])
    assert 3 * sum(shown) > 2 * len(shown) > 0, shown


def test_every_call_of_the_backward_pass_gets_the_results_of_its_own_forward_pass(
    known: Callable[[str, str], Known],
) -> None:
    part = known("ex_18", "attention_backward")
    for recipe in part.recipes[::8]:
        for patch_seed in (None, recipe.seed + 1):
            _, q, k, v, o, lse, causal, scale = part.truth.inputs(replace(recipe, patch_seed=patch_seed))
            _, right = forward(Design(), q, k, v, causal, scale_of(q, scale))
            torch.testing.assert_close(lse, right, rtol=1e-3, atol=1e-3)
            assert o.shape == q.shape


def test_a_gradient_may_come_from_exponentials_that_give_0_for_small_results() -> None:
    """A GPU's exp2 does, and with it its products: seen on an H100 with weights below 1.2e-38."""
    known = Known("ex_18", "attention_backward")
    sizes = {"B": 3, "Hq": 4, "Hkv": 1, "Sq": 1, "Skv": 229, "D": 128, "causal": 0, "scale": -0.5}
    recipe = Recipe("attention_backward", {**sizes, "dtype": "bfloat16", "values": "rising", "layout": "bhsd"}, 11)
    given = known.truth.inputs(recipe)
    torch.set_flush_denormal(True)
    try:
        answer = next(iter(known.truth._oracle.attention_backward_honest(*given)))
    finally:
        torch.set_flush_denormal(False)
    assert known.wrong(recipe, answer) == []
