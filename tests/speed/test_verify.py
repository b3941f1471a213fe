"""What timed samples are compared with, and the verdicts: each fault has a name, and honest rounding has none."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
import torch
from torch import Tensor

from grader.exercise.cases import Case
from grader.exercise.catalogue import Entry
from grader.exercise.model import Part
from grader.protocol.answers import Sampled
from grader.protocol.baseline_messages import Reveal, Revealed
from grader.protocol.requests import Recipe, Show
from grader.replay.clock import Clock
from grader.speed import verify
from grader.speed.verify import CannotBeTimed

CASE = Case({"N": 500, "dtype": "float32"})
RECIPE = Recipe("vector_add", dict(CASE), 17)
LONG = 1 << 18


def values(seed: int = 17, count: int = 4101) -> Tensor:
    return torch.randn(count, generator=torch.Generator().manual_seed(seed))


@dataclass
class Left:
    """Work that leaves these outputs, whatever its inputs are."""

    outputs: tuple[Tensor, ...]
    mutated: tuple[int, ...] = ()

    def inputs(self, seed: int) -> tuple[object, ...]:
        return ()

    def place(self, inputs: object) -> None: ...

    def run(self) -> tuple[Tensor, ...]:
        return self.outputs


def sampled(*outputs: Tensor, seed: int = 17) -> Sampled:
    """What the clock says of a sample that left these outputs."""
    return Clock(torch.device("cpu")).sample(Left(outputs), seed, 64)[0]


def refusal(check: Callable[[], object]) -> tuple[str, str, str]:
    """(status, cause kind, rationale) of what a check refuses."""
    with pytest.raises(CannotBeTimed) as refused:
        check()
    failure = refused.value.failure
    return failure.status, failure.cause.kind, failure.cause.rationale


# -- alike -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_two_honest_roundings_are_alike(dtype: torch.dtype) -> None:
    exact = values()
    assert verify.are_alike(sampled(exact.to(dtype)), sampled((exact * (1 + 1e-6)).to(dtype)))


@pytest.mark.parametrize(
    "answer",
    [values(18), torch.zeros(4101), values() * 1.2, torch.full((4101,), math.nan), values().flip(0)],
    ids=["of other inputs", "zeros", "too large", "nan", "in another order"],
)
def test_what_other_inputs_or_none_give_is_not_alike(answer: Tensor) -> None:
    assert not verify.are_alike(sampled(answer), sampled(values()))


def test_one_piece_of_numbers_of_the_right_size_is_not_alike() -> None:
    answer = values()
    answer[1025:2050] = values(18, 1025)
    assert not verify.are_alike(sampled(answer), sampled(values()))


def test_every_output_is_compared() -> None:
    assert verify.are_alike(sampled(values(), values(18)), sampled(values(), values(18)))
    assert not verify.are_alike(sampled(values(), values(19)), sampled(values(), values(18)))


def test_where_the_baseline_is_not_finite_nothing_is_compared_and_elsewhere_it_is() -> None:
    wanted, answer = values(), values()
    wanted[7] = math.inf
    answer[63] = 1000.0
    assert verify.are_alike(sampled(answer), sampled(wanted))
    answer[2000] = 1000.0
    assert not verify.are_alike(sampled(answer), sampled(wanted))


def test_an_answer_that_is_not_finite_is_never_alike() -> None:
    # What stands for a sum that is no number must not pass for a sum of that size.
    answer = values()
    answer[7] = math.inf
    odd = [verify.are_alike(sampled(answer, seed=seed), sampled(values(), seed=seed)) for seed in range(200)]
    assert not any(odd)


def test_sums_that_do_not_belong_together_are_not_alike() -> None:
    honest = sampled(values())
    assert not verify.are_alike(replace(honest, projections=(*honest.projections, (0.0,))), honest)
    assert not verify.are_alike(replace(honest, scales=((0.0,),)), honest)


@pytest.mark.parametrize(
    "outputs", [(), (values(), values()), (values(count=500),)], ids=["none", "one too many", "a shorter one"]
)
def test_outputs_of_another_form_are_not_alike(outputs: tuple[Tensor, ...]) -> None:
    assert not verify.are_alike(sampled(*outputs), sampled(values()))


def test_the_signs_follow_from_the_seed_so_nobody_can_prepare_an_answer_of_the_right_sums() -> None:
    one, other = (sampled(values(), seed=seed) for seed in (17, 18))
    assert one.scales == other.scales
    assert not verify.are_alike(one, other)


# -- the oracle ------------------------------------------------------------------------------------------------------


@dataclass
class Oracle:
    """In place of the baseline process and the replayer: an output, the truth of it, and what was looked at of it.

    starts: where the portion begins that is asked for by chance, and how many elements it has.
    """

    got: Tensor
    truth: Tensor
    portion: tuple[int, int] | None = None
    shown: bool = True
    looked: list[Show] = field(default_factory=list)
    asked: list[Reveal] = field(default_factory=list)

    def show(self, wanted: Show) -> bytes | None:
        self.looked.append(wanted)
        raw = self.got.view(torch.uint8).numpy().tobytes()
        return raw[wanted.first : wanted.first + wanted.count] if self.shown else None

    def reveal(self, wanted: Reveal) -> tuple[Revealed, bytes, bytes]:
        self.asked.append(wanted)
        start, count = self.portion if self.portion and wanted.chance is not None else (0, self.truth.numel())
        part = self.truth[start : start + count][wanted.first : wanted.first + wanted.count].double()
        allowed = torch.full_like(part, 1e-6)
        about = Revealed(str(self.got.dtype).removeprefix("torch."), start, count)
        return about, part.numpy().tobytes(), allowed.numpy().tobytes()

    def compare(self, part: Part, *, whole: bool = False) -> None:
        both: Any = self
        verify.compare_with_oracle(both, both, part, CASE, RECIPE, whole=whole)

    def elements_looked_at(self) -> int:
        return sum(one.count for one in self.looked) // self.got.element_size()


@pytest.fixture
def part(ex_15: Entry) -> Part:
    found = ex_15.exercise.part("vector_add")
    assert found is not None
    return found


def test_a_right_answer_is_compared_element_by_element_and_passes(part: Part) -> None:
    oracle = Oracle(values(), values())
    oracle.compare(part)
    assert oracle.elements_looked_at() == 4101


@pytest.mark.parametrize("whole", [False, True])
def test_one_wrong_element_of_a_short_answer_is_always_found(part: Part, whole: bool) -> None:
    answer = values()
    answer[4100] += 1e-3
    status, kind, said = refusal(lambda: Oracle(answer, values()).compare(part, whole=whole))
    assert (status, kind) == ("fail", "wrong_when_timed")
    assert said == "For N=500, dtype=float32 1 of 4101 elements looked at were outside the tolerance."


def test_an_output_that_is_not_shown_is_refused(part: Part) -> None:
    status, kind, said = refusal(lambda: Oracle(values(), values(), shown=False).compare(part))
    assert (status, kind, said) == ("fail", "wrong_form", "For N=500, dtype=float32 z was missing.")


def test_of_a_long_answer_a_few_stretches_are_looked_at_and_of_a_doubtful_one_all(part: Part) -> None:
    long = values(count=8 * LONG)
    few, all_of_it = Oracle(long, long), Oracle(long, long)
    few.compare(part)
    all_of_it.compare(part, whole=True)
    assert few.elements_looked_at() == LONG
    assert all_of_it.elements_looked_at() == 8 * LONG
    again = Oracle(long, long)
    again.compare(part)
    assert [one.first for one in again.looked] != [one.first for one in few.looked]


def test_a_portion_is_drawn_by_chance_and_the_answer_is_looked_at_where_it_lies(part: Part) -> None:
    answer = values()
    answer[:1000] += 1.0
    oracle = Oracle(answer, values(), portion=(1000, 500))
    oracle.compare(part)
    assert [(one.first, one.count) for one in oracle.looked] == [(4000, 2000)]
    (chance,) = {one.chance for one in oracle.asked}
    assert chance is not None
    assert 0 <= chance < 1
    other = Oracle(answer, values(), portion=(1000, 500))
    other.compare(part)
    assert other.asked[0].chance != chance
    # What is in doubt is looked at as a whole.
    assert refusal(lambda: Oracle(answer, values(), portion=(1000, 500)).compare(part, whole=True))[1] == (
        "wrong_when_timed"
    )


def test_an_empty_output_has_nothing_wrong(part: Part) -> None:
    oracle = Oracle(torch.empty(0), torch.empty(0))
    oracle.compare(part)
    assert oracle.looked == []


# -- verdicts --------------------------------------------------------------------------------------------------------


def test_what_a_call_did_at_a_timed_size_has_a_verdict_with_a_name() -> None:
    for failure, status, kind, said in (
        (
            verify.computed_failure(CASE, ["aten.add", "\x1b[31maten.mul"]),
            "policy",
            "library_call",
            "For N=500, dtype=float32, timed, these ran beside your kernels: aten.add, aten.mul.",
        ),
        (verify.no_launch_failure(CASE), "policy", "no_kernel", "For N=500, dtype=float32, timed, none of yours ran."),
        (
            verify.changed_failure(CASE, ["x", "y"]),
            "fail",
            "input_changed",
            "For N=500, dtype=float32 it changed x, y.",
        ),
        (
            verify.changed_failure(CASE, [*"abcdefg"]),
            "fail",
            "input_changed",
            "For N=500, dtype=float32 it changed a, b, c, d, e and 2 more.",
        ),
        (verify.aliased_failure(CASE, "x"), "fail", "alias", "For N=500, dtype=float32 it returned memory of x."),
    ):
        assert (failure.status, failure.cause.kind, failure.cause.rationale) == (status, kind, said)


def test_a_time_that_cannot_be_is_policy_and_says_both_times() -> None:
    failure = verify.impossible_failure(CASE, 3.14, 63.0)
    assert (failure.status, failure.cause.kind) == ("policy", "impossible_time")
    assert "the call took 3.1 µs" in failure.cause.rationale
    assert "at least 63.0 µs" in failure.cause.rationale


def test_hidden_time_is_noted_with_what_counts() -> None:
    assert verify.hidden_note(100.0, 900.0) == (
        "the GPU's events say 100.0 µs, the grader's own clock at least 1000.0 µs: that counts"
    )
