"""Usual mistakes are recognised by the values, or the rounding errors, they lead to; nothing else is taken for them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import prod
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, cast

import pytest
import torch

from grader.diagnosis.kinds import known_kinds
from grader.diagnosis.known_mistakes import (
    _explains,
    changed_by,
    mistake_clues,
    mistakes_in,
    passing_like,
    rounding_clues,
    shared_mistake,
)
from grader.exercise import tensors
from grader.exercise.cases import Case
from grader.exercise.catalogue import Entry, discover
from grader.exercise.model import Part
from grader.exercise.plan import default_seed
from grader.exercise.rules import Agrees
from grader.judge.bench import Bench
from grader.judge.clue import Clue
from grader.judge.compare import compare
from grader.judge.failure import WrongCall
from grader.judge.tolerance import ulp
from grader.judge.trial import TriedCase
from grader.judge.truth import Expected, KnownMistake, Truth
from grader.protocol.answers import Returned
from grader.protocol.requests import Recipe
from grader.sandbox.outcome import Finished
from tests.conftest import plan_of

pytestmark = pytest.mark.process

ROOT = Path(__file__).resolve().parents[2]

TRUTH = torch.linspace(1.0, 2.0, 16, dtype=torch.float64).reshape(2, 8)
OUTPUT = Expected("y", TRUTH, torch.float16, 2 * ulp(TRUTH, torch.float16))
HALVED = KnownMistake("Looks as if y is halved", "Do not.", (TRUTH / 2,), "wrong_factor")


def mistakes_of(entry: Entry) -> ModuleType:
    oracle = tensors.module_from_text("oracle.py", entry.source("oracle.py"))
    return tensors.module_from_text("mistakes.py", entry.mistakes, oracle)


def explains(mistake: torch.Tensor, got: torch.Tensor) -> bool:
    return _explains(mistake, got, compare(got, OUTPUT).wrong, OUTPUT)


def seen(got: torch.Tensor, output: Expected = OUTPUT) -> WrongCall:
    answer = cast("Returned", SimpleNamespace(launches=()))
    raw = got.contiguous().view(torch.uint8).numpy().tobytes()
    return WrongCall(Recipe("part", {}, 0), Finished(answer, (raw,)), (output,))


def test_the_mistakes_values_but_for_their_rounding_are_recognised() -> None:
    assert explains(TRUTH / 2, (TRUTH / 2).half())


def test_an_error_that_is_small_beside_the_mistakes_is_not_taken_for_it() -> None:
    assert not explains(TRUTH * 1.004, (TRUTH * 1.003).half())


def test_a_mistake_that_would_spoil_more_than_is_wrong_is_not_named() -> None:
    got = TRUTH.half()
    got[0] /= 2
    assert not explains(TRUTH / 2, got)
    assert explains(torch.cat([TRUTH[:1] / 2, TRUTH[1:]]), got)


def test_nan_and_infinities_are_recognised_where_the_mistake_has_them() -> None:
    got = TRUTH.half()
    got[0] = torch.nan
    assert explains(TRUTH.masked_fill(got.isnan(), torch.nan), got)
    assert not explains(TRUTH / 2, got)


def test_nan_may_spread_to_fewer_elements_than_the_mistake_s_but_to_no_others() -> None:
    got = TRUTH.half()
    got[0, :4] = torch.nan
    whole_row = TRUTH.clone()
    whole_row[0] = torch.nan
    assert explains(whole_row, got)
    assert not explains(whole_row.roll(1, 0), got)


def test_nan_in_one_row_is_not_that_of_a_mistake_that_has_it_in_many() -> None:
    truth = TRUTH.flatten()[:, None].expand(-1, 4)
    output = Expected("y", truth, torch.float16, 2 * ulp(truth, torch.float16))
    got, everywhere = truth.half(), torch.full_like(truth, torch.nan)
    for rows, fits in ((range(1), False), (range(12), True)):
        got[list(rows), 0] = torch.nan
        assert _explains(everywhere, got, compare(got, output).wrong, output) == fits


def test_a_few_numbers_of_another_value_are_not_those_of_a_mistake_that_is_nan_elsewhere() -> None:
    truth = torch.linspace(1.0, 2.0, 128, dtype=torch.float64).reshape(2, 64)
    output = Expected("y", truth, torch.float16, 2 * ulp(truth, torch.float16))
    got, mistake = truth.half(), truth / 2
    got[:, 2:] = torch.nan
    mistake[:, 1:] = torch.nan
    assert not _explains(mistake, got, compare(got, output).wrong, output)
    got[:, 0] = mistake[:, 0].half()
    assert _explains(mistake, got, compare(got, output).wrong, output)


def test_a_few_small_errors_are_not_those_of_a_mistake_with_many() -> None:
    got, coarse = TRUTH.half(), TRUTH + 3 * ulp(TRUTH, torch.float16)
    got[0, 0] = coarse[0, 0]
    assert not explains(coarse, got)
    assert explains(torch.cat([coarse[:, :1], TRUTH[:, 1:]], 1), got)


def test_what_is_allowed_of_large_values_makes_no_small_number_equal_to_zero() -> None:
    large = Expected("y", TRUTH * 1e30, torch.float32, TRUTH * 1e24)
    got = torch.full_like(TRUTH, 65504.0).float()
    assert not _explains(torch.zeros_like(TRUTH), got, compare(got, large).wrong, large)


class Knows:
    """A truth that foresees these mistakes and roundings."""

    def __init__(self, *mistakes: KnownMistake, roundings: tuple[tuple[str, torch.Tensor], ...] = ()) -> None:
        self.mistakes, self.rounded = mistakes, roundings

    def known_mistakes(self, part: Part, recipe: Recipe) -> Iterator[KnownMistake]:
        yield from self.mistakes

    def roundings(self, part: Part, recipe: Recipe) -> Iterator[tuple[str, tuple[torch.Tensor, ...]]]:
        for kind, value in self.rounded:
            yield kind, (value.double(),)


def named(got: torch.Tensor, *mistakes: KnownMistake) -> list[Clue]:
    one = seen(got)
    found = mistakes_in(cast("Truth", Knows(*mistakes)), cast("Part", None), one)
    return list(mistake_clues(found, one))


def test_an_answer_that_is_a_mistakes_is_no_guess() -> None:
    (clue,) = named((TRUTH / 2).half(), HALVED)
    assert (clue.kind, clue.title, clue.help, clue.confirmed) == ("wrong_factor", HALVED.title, "Do not.", True)


def test_of_one_kind_one_mistake_is_named() -> None:
    assert len(named((TRUTH / 2).half(), HALVED, HALVED)) == 1
    assert named(TRUTH.half() + 1, HALVED) == []


def test_of_further_cases_only_the_mistakes_of_the_first_are_looked_for() -> None:
    one, truth = seen((TRUTH / 2).half()), cast("Truth", Knows(HALVED))
    assert [found.kind for found in mistakes_in(truth, cast("Part", None), one, {"zeros", HALVED.kind})] == [
        HALVED.kind
    ]
    assert mistakes_in(truth, cast("Part", None), one, {"zeros"}) == []
    # Not even the oracle is asked.
    assert mistakes_in(cast("Truth", None), cast("Part", None), one, ()) == []


@pytest.mark.parametrize("value", [0.0, torch.nan, torch.inf])
def test_zeros_nan_and_infinities_could_be_anything_s(value: float) -> None:
    nothing = torch.full_like(TRUTH, value)
    (clue,) = named(nothing.half(), KnownMistake("Looks like nothing", "", (nothing,), "zeros"))
    assert not clue.confirmed
    assert clue.weight < 0.5


def test_memory_that_was_left_as_it_is_could_be_anything_s() -> None:
    one = seen((TRUTH / 2).half())
    found = mistakes_in(cast("Truth", Knows(HALVED)), cast("Part", None), one)
    (clue,) = mistake_clues(found, one, untouched=True)
    assert not clue.confirmed
    assert clue.weight < 0.5


# -- roundings -------------------------------------------------------------------------------------------------------

NUMBERS = torch.randn(4, 64, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
EXACT = Expected("y", NUMBERS, torch.float32, torch.full_like(NUMBERS, 1e-6))


def rounded_like(got: torch.Tensor, *roundings: tuple[str, torch.Tensor]) -> dict[str, tuple[float, bool]]:
    truth = cast("Truth", Knows(roundings=roundings))
    clues = rounding_clues(truth, cast("Part", None), seen(got.float(), EXACT))
    return {clue.kind: (clue.weight, clue.confirmed) for clue in clues}


def test_errors_that_are_a_rounding_s_element_by_element_are_no_guess() -> None:
    half, brain = NUMBERS.half(), NUMBERS.bfloat16()
    found = rounded_like(half.float(), ("rounded_intermediate", half), ("low_precision_sum", brain))
    assert found == {"rounded_intermediate": (1.0, True)}


def test_errors_of_another_rounding_of_the_same_size_are_a_weak_guess() -> None:
    other = NUMBERS + (NUMBERS.flip(1).half().double() - NUMBERS.flip(1))
    found = rounded_like(other, ("low_precision_sum", NUMBERS.half()))
    assert found == {"low_precision_sum": (0.4, False)}


def test_errors_of_another_size_point_to_no_rounding() -> None:
    assert rounded_like(NUMBERS * 1.5, ("low_precision_sum", NUMBERS.half())) == {}


def test_errors_of_a_few_elements_are_not_a_rounding_s_of_all() -> None:
    size = float((NUMBERS.half().double() - NUMBERS).norm())
    other = NUMBERS.clone()
    other[2, 5] += size / 2
    other[2, 6] -= size / 2
    assert rounded_like(other, ("low_precision_sum", NUMBERS.half())) == {}


def test_an_infinity_that_is_right_is_no_overflow_and_one_of_the_other_sign_no_rounding() -> None:
    half, truth = NUMBERS.half().double(), NUMBERS.clone()
    truth[0, 0] = half[0, 0] = -torch.inf
    output = replace(EXACT, value=truth)

    def found(got: torch.Tensor) -> list[tuple[str, bool]]:
        rounds = cast("Truth", Knows(roundings=(("rounded_intermediate", half),)))
        return [
            (one.kind, one.confirmed) for one in rounding_clues(rounds, cast("Part", None), seen(got.float(), output))
        ]

    assert found(half) == [("rounded_intermediate", True)]
    other = truth.clone()
    other[0, 0] = torch.inf
    assert found(other) == []


def test_nan_where_a_rounding_overflows_is_not_that_rounding() -> None:
    over = NUMBERS.clone()
    over[2, 5] = torch.inf
    unwritten = over.clone()
    unwritten[2, 5] = torch.nan
    assert rounded_like(over, ("low_precision_sum", over)) == {"low_precision_sum": (0.85, False)}
    assert rounded_like(unwritten, ("low_precision_sum", over)) == {}


# -- what the exercises foresee --------------------------------------------------------------------------------------


def size_of(case: Case) -> int:
    return prod(max(value, 1) for value in case.values() if isinstance(value, int))


@pytest.mark.parametrize("entry", discover(ROOT), ids=lambda entry: entry.id)
def test_every_mistake_that_an_oracle_foresees_has_a_known_kind_and_the_outputs_forms(entry: Entry) -> None:
    truth = Truth.of(entry)
    kinds = known_kinds(entry.exercise)
    found = 0
    for planned in plan_of(entry, default_seed(entry.id), gpu=False).checks:
        if not isinstance(planned.check.rule, Agrees) or planned.part.on == "gpu":
            continue
        # Small ones: the known mistakes of a long row takes long.
        for one in sorted(planned.cases, key=lambda one: size_of(one.case))[:2]:
            recipe = Recipe(planned.part.name, dict(one.case), one.seed)
            shapes = [output.value.shape for output in truth.expect(planned.part, recipe)]
            every: list[tuple[str, tuple[Any, ...]]] = list(truth.roundings(planned.part, recipe))
            for mistake in truth.known_mistakes(planned.part, recipe):
                assert mistake.title[0].isupper(), mistake.title
                assert mistake.help.endswith((".", "?")), mistake.help
                every.append((mistake.kind, mistake.outputs))
            for kind, outputs in every:
                assert kind in kinds, kind
                assert [output.shape for output in outputs] == shapes, (planned.id, one.case, kind)
            found += len(every)
    assert found > 0


def test_splits_without_a_slot_are_counted_by_the_size_of_a_split() -> None:
    cache = next(entry for entry in discover(ROOT) if entry.id == "ex_19")
    mistakes = mistakes_of(cache)
    lengths = torch.tensor([0, 7, 18, 27])
    # Splits of 7 slots of the cache, of a tile of 16, of 32; and each sequence by itself.
    found = [one.tolist() for one in mistakes._ways_to_split(lengths, 4, 27)]
    assert found == [[4, 3, 1, 0], [4, 3, 2, 2], [4, 3, 3, 3], [4, 0, 0, 0]]


@pytest.mark.parametrize("divided", [True, False], ids=["each split divided", "divided at the end"])
def test_splits_that_are_joined_by_their_maxima_alone_are_a_known_mistake(divided: bool) -> None:
    cache = next(entry for entry in discover(ROOT) if entry.id == "ex_19")
    mistakes = mistakes_of(cache)
    generator = torch.Generator().manual_seed(0)
    q, k, v = (
        torch.randn(shape, generator=generator, dtype=torch.float64)
        for shape in ((1, 2, 64), (1, 1, 150, 64), (1, 1, 150, 64))
    )
    # Whole tiles of 16 slots, in two splits.
    logits, values = (q @ k[:, 0].mT / 8).split(80, -1), v[:, 0].split(80, 1)
    tops = torch.stack([one.amax(-1, keepdim=True) for one in logits])
    powers = [(one - top).exp() for one, top in zip(logits, tops, strict=True)]
    sums = [
        one @ value / (one.sum(-1, keepdim=True) if divided else 1) for one, value in zip(powers, values, strict=True)
    ]
    weights = (tops - tops.amax(0)).exp()
    joined = (weights * torch.stack(sums)).sum(0) / weights.sum(0)
    found = mistakes.decode_attention_mistakes(q, k, v, torch.tensor([150]), None)
    names = {(kind, "maxima" in title, "l_s" in told) for kind, title, told, o in found if torch.allclose(o, joined)}
    assert names == {("splits_not_weighted", True, True)}


def test_a_tile_of_slots_that_reads_on_behind_its_first_page_is_a_known_mistake() -> None:
    cache = next(entry for entry in discover(ROOT) if entry.id == "ex_19")
    mistakes = mistakes_of(cache)
    generator = torch.Generator().manual_seed(0)
    q = torch.randn(1, 1, 64, generator=generator, dtype=torch.float64)
    k, v = (torch.randn(8, 16, 1, 64, generator=generator, dtype=torch.float64) for _ in range(2))
    table = torch.tensor([[3, 1, 0, 4, 2, 5, 6, 7]])
    # Tiles of 32 slots begin at pages 3, 0, 2 and 6, and go on behind each of them.
    pages = torch.tensor([3, 4, 0, 1, 2, 3, 6, 7])
    keys, values = (one[pages].reshape(128, 64) for one in (k, v))
    wrong = torch.softmax(q @ keys.T / 8, -1) @ values
    found = mistakes.paged_decode_attention_mistakes(q, k, v, table, torch.tensor([128]), None)
    told = [(kind, title, help_text) for kind, title, help_text, o in found if torch.allclose(o, wrong)]
    ((kind, title, help_text),) = told
    assert (kind, "tile of 32 slots" in title) == ("tile_over_pages", True)
    assert "block_table[b, slot // page]" in help_text


def test_a_causal_loop_whose_end_counts_from_a_start_that_is_rounded_down_is_a_known_mistake() -> None:
    entry = next(entry for entry in discover(ROOT) if entry.id == "ex_18")
    mistakes = mistakes_of(entry)
    queries, keys, block_m, block_n = 150, 170, 64, 32
    # By these lengths it hides the same keys as tiles that meet by their own numbers: both are told.
    rows, columns = torch.arange(queries)[:, None], torch.arange(keys)
    first = rows // block_m * block_m
    end = (first + keys - queries + 1) // block_n * block_n + block_m
    seen = (columns <= rows + keys - queries) & (columns < end)
    q, k = torch.zeros(1, 1, queries, 16), torch.zeros(1, 1, keys, 16)
    kinds = {kind for kind, _, _, mask in mistakes._wrongly_seen(q, k, True) if torch.equal(mask, seen)}
    assert kinds == {"causal_loop", "causal_alignment"}
    seen = (columns <= rows - 4) & (columns < (first - 3).clamp(min=0) // block_n * block_n + block_m)
    told = [
        title
        for _, title, _, mask in mistakes._wrongly_seen(q, k[:, :, :146], True)
        if torch.equal(mask, seen[:, :146])
    ]
    assert told == [mistakes.ENDS_BY_ROUNDED_START]


def test_products_that_overflow_in_float16_are_a_rounding_and_no_missing_maximum() -> None:
    cache = next(entry for entry in discover(ROOT) if entry.id == "ex_19")
    mistakes = mistakes_of(cache)
    q, k = torch.full((1, 1, 64), 40.0).half(), torch.full((1, 1, 2, 64), 1.0).half()
    k[..., 1, :] = 30.0
    v, lengths = torch.ones_like(k), torch.tensor([2])
    # 64 · 40 · 30 is more than 65504; the logit itself is 7.68.
    inputs = (q, k, v, lengths, 1e-4)
    rounded = [o for kind, o in mistakes.decode_attention_roundings(*inputs) if kind == "rounded_intermediate"]
    assert any(bool(o.isnan().all()) for o in rounded)
    wide = (q.double(), k.double(), v.double(), lengths, 1e-4)
    plain = [o for kind, _, _, o in mistakes.decode_attention_mistakes(*wide) if kind == "no_maximum"]
    assert not any(bool(o.isnan().any()) for o in plain)


def looked_at(sizes: Sequence[tuple[int, int]], failing: WrongCall | None) -> list[tuple[object, object]]:
    tried = [TriedCase(Case({"M": m, "N": n, "dtype": "float16"}), n == 65, m) for m, n in sizes]
    bench = cast("Bench", SimpleNamespace(findings=SimpleNamespace(tried=tried), part=SimpleNamespace(name="part")))
    return [(one.case["M"], one.case["N"]) for one in passing_like(bench, failing)]


def test_of_passing_calls_that_are_equally_like_a_failing_one_the_smallest_are_looked_at() -> None:
    sizes = ((2048, 2000), (64, 128), (128, 128), (64, 65))
    failing = replace(seen(TRUTH.half()), recipe=Recipe("part", {"M": 64, "N": 65, "dtype": "float16"}, 0))
    assert looked_at(sizes, failing) == [(64, 128), (128, 128)]
    assert looked_at(sizes, None) == [(64, 128), (128, 128)]


def test_a_passing_call_of_other_kernels_alone_tells_nothing_of_a_failing_one() -> None:
    small, large, failing = (Case({"N": n}) for n in (8, 9000, 9001))
    answer = cast("Returned", SimpleNamespace(launches=(SimpleNamespace(kernel="many_blocks"),)))
    wrong = replace(seen(TRUTH.half()), recipe=Recipe("part", dict(failing), 0), outcome=Finished(answer, ()))
    told = [SimpleNamespace(case=small, seed=1, kernels=("one_block",))]
    told += [SimpleNamespace(case=large, seed=1, kernels=("many_blocks", "one_block"))]
    tried = [TriedCase(one, one == failing, 1) for one in (small, large, failing)]
    findings = SimpleNamespace(tried=tried, evidence=told)
    bench = cast("Bench", SimpleNamespace(findings=findings, part=SimpleNamespace(name="part")))
    assert [one.case["N"] for one in passing_like(bench, wrong)] == [9000]
    assert [one.case["N"] for one in passing_like(bench, None)] == [8, 9000]


def test_a_call_that_takes_the_oracle_seconds_is_looked_at_last_even_if_it_is_most_like_the_failing_one() -> None:
    failing = replace(seen(TRUTH.half()), recipe=Recipe("part", {"M": 4096, "N": 65, "dtype": "float16"}, 0))
    assert looked_at(((4096, 4096), (64, 64), (128, 64)), failing) == [(64, 64), (128, 64)]
    assert looked_at(((4096, 4096),), failing) == [(4096, 4096)]


def test_of_several_mistakes_of_a_kind_the_one_that_gives_most_failing_calls_is_told() -> None:
    tiles, splits = (replace(HALVED, title=title) for title in ("tiles", "splits"))
    other = replace(tiles, outputs=(TRUTH / 3,))
    known = {0: (tiles, splits), 1: (other, splits)}
    truth = cast("Truth", SimpleNamespace(known_mistakes=lambda part, recipe: iter(known[recipe.seed])))
    calls = [replace(seen((TRUTH / 2).half()), recipe=Recipe("part", {}, seed)) for seed in known]
    part = cast("Part", None)
    assert [shared_mistake(truth, part, calls[:n], "wrong_factor") for n in (1, 2)] == [tiles, splits]
    assert shared_mistake(truth, part, calls, "zeros") is None


def test_a_finite_log_sum_exp_of_an_empty_split_outweighs_a_sequence_of_lower_logits() -> None:
    cache = next(entry for entry in discover(ROOT) if entry.id == "ex_19")
    mistakes = mistakes_of(cache)
    q = torch.full((1, 1, 64), -10.0, dtype=torch.float64)
    k = torch.ones((1, 1, 64, 64), dtype=torch.float64)
    # A split of 32 slots has all 3 tokens, the other one none; every logit is -160, below -100.
    found = mistakes.decode_attention_mistakes(q, k, torch.ones_like(k), torch.tensor([3]), 0.25)
    empty = [o for kind, _, _, o in found if kind == "empty_split"]
    assert any(float(o.abs().max()) < 1e-20 for o in empty)
    assert any(float((o - 1).abs().max()) < 1e-20 for o in empty if bool(o.isfinite().all()))


@pytest.mark.parametrize(
    ("there", "outputs", "changed"),
    [
        ("the sign", TRUTH / 2, False),
        ("16 rows", TRUTH / 2, True),
        ("32 rows", TRUTH / 2, True),
        ("16 rows", TRUTH, False),
    ],
)
def test_a_call_is_changed_by_a_mistake_and_not_by_another_one_of_its_kind(
    there: str, outputs: torch.Tensor, changed: bool
) -> None:
    known = [replace(HALVED, title=there, outputs=(outputs,))]
    faked = SimpleNamespace(expect=lambda part, recipe: [OUTPUT], known_mistakes=lambda part, recipe: iter(known))
    part, truth = cast("Part", None), cast("Truth", faked)
    assert changed_by(truth, part, Recipe("part", {}, 0), "wrong_factor", "16 rows") is changed
