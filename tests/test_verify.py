"""What is found behind a timed call, and the verdict on it: each fault has a name, and honest rounding has none."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from grader.protocol.spans import spans, word_sum
from torch import Tensor

from grader.model.cases import Case
from grader.protocol.messages import Clocked, Form, Launch, Open, Revealed
from grader.sandbox.outcome import Clocking
from grader.speed import verify
from grader.speed.verify import Glance, Refused, Shown

CASE = Case({"N": 500, "dtype": "float32"})
FORM = Revealed("float32", (500,))
FORMS = (FORM, Revealed("float16", (7, 4101)))


def values(seed: int = 17, count: int = 500) -> Tensor:
    return torch.randn(count, generator=torch.Generator().manual_seed(seed))


def raw(tensor: Tensor) -> bytes:
    return tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def shown(tensor: Tensor) -> Shown:
    form = Revealed(str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape))
    return Shown(Open(0, 0, len(raw(tensor))), form, raw(tensor))


def ran(*outputs: Tensor, cover: int = 7, **changes: Any) -> Clocking:
    """A timed call that left these outputs."""
    forms = tuple(Form("tensor", str(one.dtype).removeprefix("torch."), tuple(one.shape), "cpu") for one in outputs)
    sums = [word_sum(raw(one)[first : first + count]) for one in outputs for first, count in spans(len(raw(one)))]
    given = {"answer": "clocked", "device_us": 1.0, "outputs": forms, "launches": (), "operators": ()}
    return Clocking(Clocked(**{**given, **changes}), (*sums, cover), 100.0)


def refusal(check: Callable[[], None]) -> tuple[str, str, str]:
    """(status, cause kind, rationale) of what a check refuses."""
    with pytest.raises(Refused) as refused:
        check()
    failure = refused.value.failure
    return failure.status, failure.cause.kind, failure.cause.rationale


# -- form ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("form", "got"),
    [
        (Form("tensor", "float16", (500,)), "tensor float16 [500]"),
        (Form("tensor", "float32", (499,)), "tensor float32 [499]"),
        (Form("Lazy"), "Lazy"),
        (Form("\x1b[31mLazy"), "Lazy"),
        (Form("tensor with layout torch.sparse_coo"), "tensor with layout torch.sparse_coo"),
    ],
)
def test_an_output_of_another_form_is_refused_with_both_forms(form: Form, got: str) -> None:
    status, kind, said = refusal(lambda: verify.has_form(ran(values(), outputs=(form,)), (FORM,)))
    assert (status, kind) == ("fail", "wrong_form")
    assert said == f"A timed call must return tensor float32 [500], got {got}."


def test_nothing_returned_and_too_much_returned_are_refused() -> None:
    assert refusal(lambda: verify.has_form(ran(), (FORM,)))[2].endswith("got nothing.")
    assert refusal(lambda: verify.has_form(ran(values(), values()), (FORM,)))[1] == "wrong_form"


@pytest.mark.parametrize("sums", [(), (7,), (1, 2, 7)])
def test_an_answer_without_all_its_sums_is_refused(sums: tuple[int, ...]) -> None:
    honest = ran(values())
    assert refusal(lambda: verify.has_form(Clocking(honest.answer, sums, 1.0), (FORM,)))[1] == "wrong_form"


def test_an_output_of_the_right_form_is_accepted_wherever_it_lies() -> None:
    verify.has_form(ran(values(), torch.ones(7, 4101, dtype=torch.float16)), FORMS)


# -- commitment ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("output_chance", "piece_chance"), [(0.0, 0.0), (0.49, 0.99), (0.5, 0.0), (0.99, 0.5), (0.99, 0.99)]
)
def test_any_piece_of_any_output_can_be_asked_for_and_an_honest_one_keeps_its_word(
    output_chance: float, piece_chance: float
) -> None:
    outputs = (values(), values(7, 7 * 4101).reshape(7, 4101).half())
    piece, place = Glance(output_chance, piece_chance).piece(FORMS)
    part = raw(outputs[piece.output])[piece.first : piece.first + piece.count]
    assert len(part) == piece.count > 0
    verify.kept_its_word(ran(*outputs), FORMS, piece, place, part, CASE)
    changed = bytes([part[0] ^ 1]) + part[1:]
    status, kind, said = refusal(lambda: verify.kept_its_word(ran(*outputs), FORMS, piece, place, changed, CASE))
    assert (status, kind) == ("fail", "changed_after_timing")
    assert said == (
        "For N=500, dtype=float32 the output was not the same when the timed call returned and when it was looked at."
    )


def test_bytes_that_are_not_shown_are_no_kept_word() -> None:
    piece, place = Glance(0, 0).piece((FORM,))
    kind = refusal(lambda: verify.kept_its_word(ran(values()), (FORM,), piece, place, None, CASE))[1]
    assert kind == "changed_after_timing"


def test_every_piece_is_as_likely_to_be_asked_for_as_every_other() -> None:
    form = Revealed("float32", (4101,))
    count = len(spans(4 * 4101))
    asked = {Glance(0, (i + 0.5) / count).piece((form,))[1] for i in range(count)}
    assert asked == set(range(count))


def test_the_same_bits_for_other_inputs_are_stale() -> None:
    verify.is_fresh(ran(values()), None, CASE)
    verify.is_fresh(ran(values(17)), ran(values(18)), CASE)
    status, kind, said = refusal(lambda: verify.is_fresh(ran(values(), cover=63), ran(values()), CASE))
    assert (status, kind) == ("fail", "stale_result")
    assert said == "For N=500, dtype=float32 two timed calls on different inputs gave the same bits."


def test_zeros_twice_are_no_proof_of_a_stale_answer() -> None:
    verify.is_fresh(ran(torch.zeros(500)), ran(torch.zeros(500)), CASE)


def test_an_empty_output_has_nothing_to_show_and_nothing_wrong() -> None:
    empty, form = torch.empty(0, 7), Revealed("float32", (0, 7))
    verify.has_form(ran(empty), (form,))
    piece, place = Glance(0.99, 0.99).piece((form,))
    assert piece.count == 0
    verify.kept_its_word(ran(empty), (form,), piece, place, b"", CASE)
    assert shown(empty).elements().tolist() == []
    assert verify.resembles(shown(empty), shown(empty))
    verify.is_true(shown(empty).elements(), "z", torch.float32, b"", b"", CASE)


# -- technique -------------------------------------------------------------------------------------------------------


def test_a_call_without_a_kernel_is_refused() -> None:
    answer = ran(values()).answer
    assert refusal(lambda: verify.used_technique(answer, (), CASE)) == (
        "policy",
        "no_kernel",
        "For N=500, dtype=float32, timed, none of yours ran.",
    )


def test_operators_beside_the_kernels_are_named_unless_they_are_allowed() -> None:
    operators = ("aten.add", "aten.sum", "\x1b[31maten.mul")
    answer = ran(values(), launches=(Launch("kernel", (), {}),), operators=operators).answer
    verify.used_technique(ran(values(), launches=(Launch("kernel", (), {}),)).answer, (), CASE)
    verify.used_technique(answer, operators, CASE)
    status, kind, said = refusal(lambda: verify.used_technique(answer, ("aten.sum",), CASE))
    assert (status, kind) == ("policy", "library_call")
    assert said == "For N=500, dtype=float32, timed, these ran beside your kernels: aten.add, aten.mul."


# -- values ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_two_honest_roundings_resemble_each_other(dtype: torch.dtype) -> None:
    exact = values()
    assert verify.resembles(shown(exact.to(dtype)), shown((exact * (1 + 1e-6)).to(dtype)))


@pytest.mark.parametrize(
    "answer",
    [values(18), torch.zeros(500), values() * 1.2, torch.full((500,), math.nan), values().flip(0)],
    ids=["of other inputs", "zeros", "too large", "nan", "in another order"],
)
def test_what_other_inputs_or_none_give_does_not_resemble(answer: Tensor) -> None:
    assert not verify.resembles(shown(answer), shown(values()))


def test_one_missing_element_is_noticed_among_many() -> None:
    answer = values()
    answer[499] += 1.0
    assert not verify.resembles(shown(answer), shown(values()))


def test_where_the_baseline_overflows_nothing_is_compared() -> None:
    wanted = values()
    wanted[::2] = math.inf
    assert verify.resembles(shown(values()), shown(wanted))


def test_the_truth_is_compared_within_its_own_tolerance() -> None:
    exact = values().double()
    bytes_of = [raw(exact), raw(torch.full((500,), 1e-6, dtype=torch.float64))]
    verify.is_true(values(), "z", torch.float32, *bytes_of, CASE)
    status, kind, said = refusal(lambda: verify.is_true(values() + 1e-3, "z", torch.float32, *bytes_of, CASE))
    assert (status, kind) == ("fail", "wrong_when_timed")
    assert said == "For N=500, dtype=float32 500 of 500 elements looked at were outside the tolerance."


# -- measurement -----------------------------------------------------------------------------------------------------


def test_a_skipped_cover_and_an_impossible_time_are_policy() -> None:
    assert (verify.tampered().status, verify.tampered().cause.kind) == ("policy", "measurement_skipped")
    failure = verify.impossible(CASE, 3.14, 63.0)
    assert (failure.status, failure.cause.kind) == ("policy", "impossible_time")
    assert "the call took 3.1 µs" in failure.cause.rationale
    assert "at least 63.0 µs" in failure.cause.rationale
