"""One sample of some work: inputs of its own, and sums by which two answers to the same inputs can be compared."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor

from grader.exercise import tensors
from grader.protocol.answers import Sampled
from grader.replay import clock as module
from grader.replay.clock import Clock

SIZE, PIECES = 8 * 1024, 8
COVER_BYTES = 1 << 16
SEED = 0x7357
Outputs = Sequence[object]


@dataclass
class Doubling:
    """Returns twice its only input. spoil: what becomes of the answer; events: what happened, in order."""

    spoil: Callable[[Tensor], object] = lambda answer: answer
    mutated: tuple[int, ...] = ()
    size: int = SIZE
    events: list[str] = field(default_factory=list)
    x: Tensor = field(default_factory=lambda: torch.empty(0))

    def inputs(self, seed: int) -> Outputs:
        self.events.append(f"draw {seed}")
        return (torch.randn(self.size, generator=torch.Generator().manual_seed(seed)),)

    def place(self, inputs: Outputs) -> None:
        self.events.append("place")
        (x,) = inputs
        assert isinstance(x, Tensor)
        self.x = x

    def run(self) -> Outputs:
        self.events.append("run")
        return (self.spoil(2 * self.x),)


@dataclass
class InPlace(Doubling):
    """Adds something to its input in place, and returns nothing else."""

    mutated: tuple[int, ...] = (0,)
    adds: float = 1.0

    def run(self) -> Outputs:
        return (self.spoil(self.x.add_(self.adds)),)


@pytest.fixture
def clock() -> Clock:
    return Clock(torch.device("cpu"))


def sampled(work: Doubling, seed: int = SEED) -> Sampled:
    """What a clock of its own measures: two processes never share one."""
    return Clock(torch.device("cpu")).sample(work, seed, COVER_BYTES)[0]


def sums_of(output: object) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """The sums of an answer, whatever it is."""
    found = sampled(Doubling(lambda _: output))
    return found.projections[0], found.scales[0]


def differing(one: Sampled, other: Sampled) -> list[int]:
    """The pieces of the first output whose sums are not the same."""
    pairs = zip(one.projections[0], other.projections[0], one.scales[0], other.scales[0], strict=True)
    return [place for place, (a, b, c, d) in enumerate(pairs) if (a, c) != (b, d)]


# -- the sums --------------------------------------------------------------------------------------------------------


def test_equal_answers_to_equal_seeds_have_equal_sums() -> None:
    one, other = sampled(Doubling()), sampled(Doubling(lambda answer: answer.clone()))
    assert (one.projections, one.scales) == (other.projections, other.scales)
    assert len(one.projections[0]) == len(one.scales[0]) == PIECES


def test_another_seed_has_other_signs() -> None:
    answer = torch.randn(SIZE, generator=torch.Generator().manual_seed(1))
    one, other = (sampled(Doubling(lambda _: answer), seed) for seed in (1, 2))
    assert one.scales == other.scales
    assert all(a != b for a, b in zip(one.projections[0], other.projections[0], strict=True))


def test_what_the_rows_of_a_long_answer_leave_over_counts_in_its_last_piece() -> None:
    answer, spoiled = torch.zeros((1 << 24) + 200), torch.zeros((1 << 24) + 200)
    spoiled[(1 << 24) + 127] = 3.0
    (before, norms), (projections, scales) = sums_of(answer), sums_of(spoiled)
    assert set(before) == set(norms) == {0.0}
    assert [abs(one) for one in projections] == [*scales] == [*before[:-1], 3.0]


def test_the_signs_are_those_of_no_input() -> None:
    # Inputs are drawn by a generator of the same seed: a sum under their own signs would be far off zero.
    drawn = torch.randint(0, 2, (SIZE,), generator=torch.Generator().manual_seed(SEED), dtype=torch.int8)
    projections, scales = sums_of(drawn.float() * 2 - 1)
    assert all(abs(sum_) < scale * 8 for sum_, scale in zip(projections, scales, strict=True))


@pytest.mark.parametrize(
    "spoil",
    [
        lambda _: 2 * torch.randn(SIZE, generator=torch.Generator().manual_seed(SEED + 1)),
        lambda answer: answer * 1.001,
        lambda answer: -answer,
        lambda answer: answer.view(PIECES, -1).roll(1, 1).reshape(-1),
        torch.zeros_like,
    ],
    ids=["of the sample before", "scaled", "of the other sign", "moved by one", "nothing"],
)
def test_an_answer_that_is_another_one_shows_in_every_piece(spoil: Callable[[Tensor], Tensor]) -> None:
    assert differing(sampled(Doubling()), sampled(Doubling(spoil))) == list(range(PIECES))


@pytest.mark.parametrize("missing", range(PIECES))
def test_a_missing_eighth_shows_in_its_piece_and_in_no_other(missing: int) -> None:
    def without(answer: Tensor) -> Tensor:
        answer.view(PIECES, -1)[missing] = 0
        return answer

    found = sampled(Doubling(without))
    assert differing(sampled(Doubling()), found) == [missing]
    assert (found.projections[0][missing], found.scales[0][missing]) == (0.0, 0.0)


def test_pieces_that_changed_places_are_found() -> None:
    swapped = sampled(Doubling(lambda answer: answer.view(PIECES, -1).flip(0).reshape(-1)))
    assert differing(sampled(Doubling()), swapped) == list(range(PIECES))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf"), 1e30])
def test_a_piece_that_holds_what_is_no_number_says_so_and_the_others_do_not(value: float) -> None:
    def spoiled(answer: Tensor) -> Tensor:
        answer[1024 * 3 + 7] = value
        return answer

    found = sampled(Doubling(spoiled))
    assert (found.projections[0][3], found.scales[0][3]) == (-1.0, -1.0)
    assert differing(sampled(Doubling()), found) == [3]


def test_what_is_no_tensor_has_no_sums() -> None:
    assert sums_of("an answer") == ((), ())
    assert sums_of(None) == ((), ())


def test_an_output_without_elements_has_one_sum_of_nothing() -> None:
    assert sums_of(torch.empty(0, 7)) == ((0.0,), (0.0,))


@pytest.mark.parametrize(("elements", "pieces"), [(1, 1), (2047, 1), (2048, 2), (4101, 4), (1 << 18, 128)])
def test_pieces_are_neither_small_nor_many(elements: int, pieces: int) -> None:
    projections, scales = sums_of(torch.ones(elements))
    assert len(projections) == len(scales) == pieces
    run = elements // pieces
    assert scales == pytest.approx([run**0.5] * pieces)


def test_only_the_elements_count_and_not_how_they_lie() -> None:
    square = torch.randn(96, 96, generator=torch.Generator().manual_seed(1))
    assert sums_of(square.t()) == sums_of(square.t().contiguous())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.int8, torch.int32, torch.bool])
def test_sums_of_narrow_types_are_those_of_wide_ones(dtype: torch.dtype) -> None:
    # Too many for a sum of squares in float16.
    answer = torch.full((SIZE,), 100).to(dtype)
    assert sums_of(answer) == sums_of(answer.double())
    assert min(sums_of(answer)[1]) > 0


def test_a_large_output_is_summed_up_piece_after_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    # Whole numbers, whose sums are exact in any order.
    answer = torch.arange(SIZE) % 17
    at_once = sums_of(answer)
    monkeypatch.setattr(module, "_AT_A_TIME", 3 * 1024)
    assert sums_of(answer) == at_once


# -- inputs that are changed in place --------------------------------------------------------------------------------


def test_an_input_that_is_changed_is_covered_by_its_change() -> None:
    (projections,), (scales,) = (found := sampled(InPlace(adds=0.5))).projections, found.scales
    # Every element changed by a half, but for the rounding of what it was added to.
    assert scales == pytest.approx([0.5 * 1024**0.5] * PIECES, rel=1e-5)
    assert any(projections)


def test_an_input_that_should_have_been_changed_and_was_not_has_sums_of_nothing() -> None:
    found = sampled(InPlace(adds=0.0))
    assert (found.projections, found.scales) == (((0.0,) * PIECES,), ((0.0,) * PIECES,))


def test_a_small_change_of_a_large_input_is_no_less_visible() -> None:
    def one_element(answer: Tensor) -> Tensor:
        answer[1024 * 5] += 0.25
        return answer

    found = sampled(InPlace(one_element, adds=0.0))
    assert [place for place, scale in enumerate(found.scales[0]) if scale] == [5]


@pytest.mark.parametrize("left", [torch.empty(7), None], ids=["another shape", "no tensor"])
def test_what_is_left_in_the_place_of_an_input_and_does_not_fit_has_no_sums(left: object) -> None:
    found = sampled(InPlace(lambda _: left))
    assert (found.projections, found.scales) == (((),), ((),))


# -- a sample --------------------------------------------------------------------------------------------------------


def test_a_sample_has_all_that_it_should_and_its_outputs_come_with_it(clock: Clock) -> None:
    found, outputs = clock.sample(Doubling(), SEED, COVER_BYTES)
    assert found.answer == "sampled"
    assert found.device_us >= 0
    # On a CPU nobody waits for the host, and no memory is counted.
    assert (found.exposed, found.peak_bytes, found.changed) == (False, -1, ())
    (output,) = outputs
    (x,) = Doubling().inputs(SEED)
    assert isinstance(output, Tensor)
    assert isinstance(x, Tensor)
    torch.testing.assert_close(output, 2 * x, rtol=0, atol=0)


def test_every_sample_runs_once_on_inputs_of_its_own_seed(clock: Clock) -> None:
    work = Doubling()
    for seed in (1, 2):
        clock.sample(work, seed, COVER_BYTES)
    assert work.events == ["draw 1", "place", "run", "draw 2", "place", "run"]


def test_the_cover_is_written_before_the_work_and_is_as_large_as_was_asked_for(clock: Clock) -> None:
    seen: list[tuple[int, int]] = []

    def look(answer: Tensor) -> Tensor:
        seen.append((clock._cover.numel() * clock._cover.element_size(), int(clock._cover.min())))
        return answer

    for cover_bytes in (1 << 16, 1 << 16, 1 << 14):
        clock.sample(Doubling(look), SEED, cover_bytes)
    assert seen == [(1 << 16, 2), (1 << 16, 4), (1 << 14, 2)]


def test_work_can_be_timed_on_what_it_has(clock: Clock) -> None:
    work = Doubling()
    assert clock.time_us(work, COVER_BYTES) >= 0
    assert work.events == ["run"]


def test_the_collector_rests_while_work_is_timed_and_goes_on_whatever_happens(clock: Clock) -> None:
    enabled: list[bool] = []

    def fail(_: Tensor) -> Tensor:
        enabled.append(gc.isenabled())
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        clock.sample(Doubling(fail), SEED, COVER_BYTES)
    assert enabled == [False]
    assert gc.isenabled()


def test_the_stand_in_draws_as_the_grader_does() -> None:
    # The signs must be no copy of what an exercise draws from the same seed.
    def doubled(case: object, generator: torch.Generator) -> tuple[Tensor, ...]:
        return (torch.randn(SIZE, generator=generator),)

    (drawn,) = tensors.build(SimpleNamespace(doubled=doubled), "doubled", {}, SEED)
    assert isinstance(drawn, Tensor)
    (own,) = Doubling().inputs(SEED)
    assert isinstance(own, Tensor)
    torch.testing.assert_close(drawn, own, rtol=0, atol=0)
