"""Values of altered inputs are recognised: another tensor, the first block again, a neighbour, other strides."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from grader.diagnosis.altered import Alteration, _left_out, alterations, altered_clues, stored_by_others
from grader.exercise.cases import Case
from grader.exercise.catalogue import Entry, resolve
from grader.judge.clue import Clue
from grader.sandbox.server import ForkServer
from tests.benches import VECTOR_ADD, bench_of
from tests.conftest import ROOT

A = torch.arange(12.0).reshape(3, 4)
B = 100 + torch.arange(12.0).reshape(4, 3).T.contiguous().T
VECTORS = Case({"N": 300, "dtype": "float32", "values": "normal", "offset": 0})


def found(*inputs: Tensor, names: tuple[str, ...] = ("a", "b"), blocks: tuple[int, ...] = ()) -> list[Alteration]:
    return list(alterations(names, inputs, blocks))


def read_as(kind: str, *inputs: Tensor, blocks: tuple[int, ...] = ()) -> list[Tensor]:
    """What is read in place of the first input, for one kind of mistake."""
    ways = [one for one in found(*inputs, blocks=blocks) if one.kind == kind and one.arguments == (0,)]
    values = [one.applied(inputs) for one in ways]
    return [each[0] for each in values if each is not None and isinstance(each[0], Tensor)]


def holds(several: list[Tensor], one: Tensor) -> bool:
    return any(torch.equal(each, one) for each in several)


def test_another_tensor_of_the_same_form_may_be_read_in_its_place() -> None:
    assert holds(read_as("operand_mixed_up", A, A + 1), A + 1)
    assert read_as("operand_mixed_up", A, B) == []


def test_the_first_block_may_be_read_in_every_step() -> None:
    assert holds(read_as("not_advanced", A, A, blocks=(2,)), A[:, [0, 1, 0, 1]])
    assert holds(read_as("not_advanced", A, A, blocks=(2,)), A[[0, 0, 0]])


def test_a_neighbour_may_be_read() -> None:
    assert holds(read_as("position_shifted", A, A), A.roll(-1, 1))


def test_blocks_may_be_looked_for_at_a_wrong_start_and_are_zero_beyond_the_end() -> None:
    places = [[0, 1, 1, 2, 2, 3], [0, 1, 4, 5, 8, 9], [2, 3, 4, 5, 6, 7], [0, 1, 0, 1, 4, 5]]
    wide = torch.arange(1.0, 13.0).reshape(2, 6)
    beyond = torch.nn.functional.pad(wide, (0, 4))
    found = read_as("wrong_address", wide, wide, blocks=(2,))
    assert all(holds(found, beyond[:, one]) for one in places)
    # Zeros alone may come of a mask as well.
    narrow = torch.nn.functional.pad(wide[:, :4], (0, 2))
    assert not holds(read_as("wrong_address", wide[:, :4], wide[:, :4], blocks=(2,)), narrow[:, [0, 1, 4, 5]])


def test_a_mask_may_compare_with_the_size_of_another_axis() -> None:
    long, short = torch.arange(1.0, 7.0), torch.ones(4, 5)
    found = read_as("axes_exchanged", long, short)
    assert all(holds(found, torch.where(torch.arange(6) < size, long, 0.0)) for size in short.shape)


def test_a_step_along_one_axis_may_move_along_another() -> None:
    moved = torch.cat([A[:, :2], torch.cat([A[2:, :2], torch.zeros(2, 2)])], 1)
    assert holds(read_as("axes_exchanged", A, A, blocks=(2,)), moved)


def test_strides_may_be_exchanged_or_those_of_another_tensor_as_long_as_they_stay_inside() -> None:
    square = torch.arange(9.0).reshape(3, 3)
    assert holds(read_as("axes_exchanged", square, A), square.T)
    assert holds(read_as("strides_ignored", square.T, torch.empty(3, 3)), square)
    # Three rows four elements apart do not fit into nine.
    assert not holds(read_as("strides_ignored", square, A), square)


def test_an_index_may_lack_its_stride_also_in_a_table_of_whole_numbers() -> None:
    table = torch.arange(8).reshape(2, 4)
    assert holds(read_as("strides_ignored", table), torch.tensor([[0, 1, 2, 3], [1, 2, 3, 4]]))


def test_an_argument_may_be_rounded_before_it_is_used() -> None:
    fine = torch.linspace(1.001, 2.0, 8)
    assert holds(read_as("rounded_intermediate", fine), fine.half().float())
    assert read_as("rounded_intermediate", fine.bfloat16()) == []
    # Two numbers may be the same ones after another rounding.
    assert read_as("rounded_intermediate", fine[:2]) == []


def test_operands_of_one_shape_may_be_read_alike() -> None:
    both = [one for one in found(A, A + 1) if one.arguments == (0, 1) and one.kind == "wrong_factor"]
    altered = both[0].applied((A, A + 1))
    assert altered is not None
    assert [torch.equal(one, want) for one, want in zip(altered, (-A, -A - 1), strict=True)] == [True, True]


def test_a_result_may_be_stored_by_the_strides_of_an_argument() -> None:
    right, turned = torch.arange(6.0).reshape(2, 3), torch.empty(3, 2).t()
    (told,) = stored_by_others(("c",), ("a",), (turned,))
    stored = told.outputs((right,), (turned,))
    assert told.title == "Looks as if c is stored by the strides of a"
    assert stored is not None
    assert stored[0].reshape(-1).tolist() == [0.0, 3.0, 1.0, 4.0, 2.0, 5.0]


@pytest.mark.parametrize(
    "argument", [torch.empty(2, 3), torch.empty(1, 3).expand(2, 3), torch.empty(6)], ids=["own", "meet", "other axes"]
)
def test_strides_that_lead_to_the_right_places_or_to_one_place_are_no_mistake(argument: Tensor) -> None:
    (told,) = stored_by_others(("c",), ("a",), (argument,))
    assert told.outputs((torch.arange(6.0).reshape(2, 3),), (argument,)) is None


def test_what_other_strides_leave_out_was_never_stored() -> None:
    (told,) = stored_by_others(("c",), ("a",), (torch.empty(2, 8)[:, :3],))
    stored = told.outputs((torch.arange(6.0).reshape(2, 3),), (torch.empty(2, 8)[:, :3],))
    assert stored is not None
    assert stored[0].reshape(-1)[:3].tolist() == [0.0, 1.0, 2.0]
    assert stored[0].reshape(-1)[3:].isnan().all()


def test_an_argument_without_a_name_is_left_alone() -> None:
    assert all(0 not in one.arguments for one in found(A, A, names=("", "b")))


def clues(server: ForkServer, entry: Entry, source: str) -> list[Clue]:
    with bench_of(server, entry, source) as bench:
        failure = bench.try_case(VECTORS, 5).failure
        assert failure is not None
        return altered_clues(bench, [failure])


@pytest.mark.process
@pytest.mark.parametrize(
    ("before", "after", "kind", "title"),
    [
        ("y_ptr + offsets", "y_ptr + tl.arange(0, BLOCK)", "wrong_address", "Looks as if the first 64 along axis 0"),
        ("y_ptr + offsets", "x_ptr + offsets", "operand_mixed_up", "Looks as if x is read in place of y"),
        ("x + y,", "x - y,", "wrong_factor", "Looks as if y has the wrong sign"),
    ],
)
def test_a_wrong_read_is_told_by_the_values_that_it_gives(
    server: ForkServer, ex_15: Entry, before: str, after: str, kind: str, title: str
) -> None:
    (clue,) = clues(server, ex_15, VECTOR_ADD.replace(before, after))
    assert (clue.kind, clue.confirmed) == (kind, True)
    assert clue.title.startswith(title)


@pytest.mark.process
def test_values_that_no_wrong_read_gives_are_not_told(server: ForkServer, ex_15: Entry) -> None:
    assert clues(server, ex_15, VECTOR_ADD.replace("x + y,", "x + 2.5 * y,")) == []


EQUAL = """import torch
import triton
import triton.language as tl


@triton.jit
def equal(x_ptr, p_ptr, N, BLOCK: tl.constexpr):
    places = tl.program_id(0) * N + tl.arange(0, BLOCK)
    e = tl.exp(tl.load(x_ptr + places) * 0.0)
    tl.store(p_ptr + places, e / tl.sum(e, 0))


def row_softmax(x):
    p = torch.empty_like(x)
    equal[(x.shape[0],)](x, p, x.shape[1], BLOCK=128)
    return p
"""


@pytest.mark.process
def test_one_number_for_all_elements_comes_of_too_many_mistakes(server: ForkServer, ex_15: Entry) -> None:
    case = Case({"M": 3, "N": 128, "dtype": "float32", "values": "normal", "stride": 0})
    with bench_of(server, ex_15, EQUAL, "row_softmax") as bench:
        failure = bench.try_case(case, 5).failure
        assert failure is not None
        assert altered_clues(bench, [failure]) == []


def test_an_argument_without_its_end_is_a_loop_that_ends_early_whatever_length_the_end_has() -> None:
    long = torch.arange(1.0, 13.0).reshape(2, 6)
    ways = [one for one in found(long, torch.ones(4, 5)) if one.kind == "axes_exchanged" and one.arguments == (0,)]
    told = {_left_out(one, (long, torch.ones(4, 5)), ("a", "b")) for one in ways}
    assert {"the last 2 of 6 along axis 1 of a", "the last 1 of 6 along axis 1 of a"} <= told
    negated = next(one for one in found(long, long) if one.kind == "wrong_factor")
    assert _left_out(negated, (long, long), ("a", "b")) == ""


@pytest.mark.process
def test_values_without_the_end_of_an_argument_are_not_sure_to_come_from_another_length(server: ForkServer) -> None:
    entry, _ = resolve(ROOT, "ex_16")
    text = (entry.folder / "wrong" / "base_matmul.py").read_text(encoding="utf-8")
    source = text.replace("range(0, K, BLOCK_K)", "range(0, K - BLOCK_K, BLOCK_K)")
    # The last of two steps of 32 is left out, and N is 32 too.
    case = Case({"M": 16, "N": 32, "K": 64, "a_layout": "rows", "b_layout": "rows", "dtype": "float32"})
    with bench_of(server, entry, source, "matmul") as bench:
        failure = bench.try_case(Case({**case, "values": "normal"}), 5).failure
        assert failure is not None
        (clue,) = altered_clues(bench, [failure])
    assert (clue.kind, clue.confirmed) == ("block_left_out", False)
    assert clue.title == "Looks like a loop without the last 32 of 64 along axis 1 of a"
