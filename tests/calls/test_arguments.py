"""Arguments in guarded memory: what surrounds them is NaN, and whatever a call does to them or around them shows."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from grader.calls.arguments import PlacedArguments
from grader.exercise.tensors import far_apart, starting_at, with_gaps

CPU = torch.device("cpu")
FLOATS = (torch.float32, torch.float16, torch.bfloat16, torch.float64)
GUARD_BYTES = 1 << 16


def placed(
    *values: object, storage: str = "new", into: PlacedArguments | None = None
) -> tuple[PlacedArguments, list[Tensor]]:
    """Arguments a0, a1, … and what the submission would get."""
    arguments = into or PlacedArguments(CPU)
    names = [f"a{i}" for i in range(len(values))]
    return arguments, arguments.place(names, values, storage)  # type: ignore[arg-type,return-value]


def everything(view: Tensor) -> Tensor:
    """All of the memory behind an argument, in elements of its type: what a kernel that runs over would touch."""
    storage = view.untyped_storage()
    return torch.empty(0, dtype=view.dtype).set_(storage, 0, (storage.nbytes() // view.element_size(),))


def disturbed(arguments: PlacedArguments, may_change: Sequence[str] = ()) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return arguments.disturbed(may_change)


# -- what a call did -------------------------------------------------------------------------------------------------


def test_a_call_that_wrote_nothing_disturbed_nothing() -> None:
    arguments, _ = placed(torch.arange(17.0), with_gaps(torch.ones(7, 63), 0, 13), 500)
    assert disturbed(arguments) == ((), ())


@pytest.mark.parametrize("position", [0, 250, 499])
def test_a_changed_input_is_named(position: int) -> None:
    arguments, (_, second) = placed(torch.zeros(500), torch.zeros(500))
    second[position] = 1
    assert disturbed(arguments) == (("a1",), ())


def test_a_change_that_only_a_bit_tells_is_named() -> None:
    arguments, (x,) = placed(torch.zeros(7))
    x[3] = -0.0
    assert disturbed(arguments) == (("a0",), ())


def test_an_argument_that_may_change_is_exempt_and_its_surroundings_are_not() -> None:
    arguments, (cache, x) = placed(torch.zeros(7), torch.zeros(7))
    cache.fill_(1)
    assert disturbed(arguments, ["a0"]) == ((), ())
    everything(cache)[cache.storage_offset() + 7] = 1.0
    x[0] = 1
    assert disturbed(arguments, ["a0"]) == (("a1",), ("4 bytes outside a0, the first 0 bytes after its end",))


@pytest.mark.parametrize("distance", [1, 7, 1000])
def test_a_write_before_an_argument_is_described(distance: int) -> None:
    arguments, (x,) = placed(torch.zeros(17))
    everything(x)[x.storage_offset() - distance] = 1.0
    assert disturbed(arguments) == ((), (f"4 bytes outside a0, the first {4 * distance} bytes before its start",))


@pytest.mark.parametrize("distance", [0, 1, 63, 16383])
def test_a_write_behind_an_argument_is_described(distance: int) -> None:
    arguments, (x,) = placed(torch.zeros(17))
    everything(x)[x.storage_offset() + 17 + distance] = 1.0
    assert disturbed(arguments) == ((), (f"4 bytes outside a0, the first {4 * distance} bytes after its end",))


def test_a_write_between_rows_is_described() -> None:
    arguments, (x,) = placed(with_gaps(torch.zeros(7, 17), 0, 3))
    everything(x)[x.storage_offset() + 18] = 1.0
    assert disturbed(arguments) == ((), ("4 bytes outside a0, the first in the gaps between its rows",))


def test_a_tile_that_runs_over_both_ends_of_a_matrix_s_rows_is_one_description() -> None:
    arguments, (x,) = placed(with_gaps(torch.zeros(2, 17), 0, 3))
    start = x.storage_offset()
    everything(x)[start - 1 : start + 38] = 1.0
    # One element before, three between the rows, one behind.
    assert disturbed(arguments) == (("a0",), ("20 bytes outside a0, the first 4 bytes before its start",))


@pytest.mark.parametrize("dtype", [torch.int8, torch.int32, torch.int64, torch.bool])
def test_writes_around_integers_show_as_well(dtype: torch.dtype) -> None:
    arguments, (x,) = placed(torch.ones(7, dtype=dtype))
    everything(x)[x.storage_offset() + 7] = 0
    size = x.element_size()
    assert disturbed(arguments) == ((), (f"{size} bytes outside a0, the first 0 bytes after its end",))


def test_the_next_call_s_arguments_start_undisturbed() -> None:
    arguments, (x,) = placed(torch.zeros(7))
    x.fill_(1)
    placed(torch.zeros(7), storage="same", into=arguments)
    assert disturbed(arguments) == ((), ())


# -- what a call gets ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("gap", [0, 13])
def test_everything_around_an_argument_is_nan(dtype: torch.dtype, gap: int) -> None:
    x = with_gaps(torch.ones(7, 63, dtype=dtype), 0, gap)
    _, (view,) = placed(x)
    around = everything(view).isnan()
    assert int((~around).sum()) == 7 * 63
    for edge in (around[: GUARD_BYTES // x.element_size()], around[-GUARD_BYTES // x.element_size() :]):
        assert bool(edge.all())


@pytest.mark.parametrize("dtype", [*FLOATS, torch.int32, torch.bool])
@pytest.mark.parametrize("shape", [(), (1,), (17,), (0,), (7, 63), (3, 0), (2, 3, 5)])
def test_an_argument_has_the_values_and_the_form_that_were_built(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    value = torch.arange(float(torch.Size(shape).numel())).reshape(shape).to(dtype)
    arguments, (view,) = placed(value)
    assert torch.equal(view, value)
    assert (view.shape, view.stride(), view.dtype) == (value.shape, value.stride(), dtype)
    assert type(view) is Tensor
    assert disturbed(arguments) == ((), ())


@pytest.mark.parametrize(
    "value",
    [
        with_gaps(torch.arange(35.0).reshape(7, 5), 0, 3),
        torch.arange(35.0).reshape(7, 5).t(),
        torch.arange(70.0).reshape(7, 10)[:, ::2],
        torch.arange(5.0).expand(7, 5),
        torch.tensor(7.0).expand(17),
    ],
    ids=["row gap", "transposed", "every second column", "one row for all", "one element for all"],
)
def test_an_argument_keeps_its_strides(value: Tensor) -> None:
    arguments, (view,) = placed(value)
    assert torch.equal(view, value)
    assert view.stride() == value.stride()
    assert disturbed(arguments) == ((), ())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int64])
@pytest.mark.parametrize("offset", [0, 1, 3, 7, 63, 500])
def test_a_slice_lies_as_far_from_an_aligned_address_as_it_was_built(offset: int, dtype: torch.dtype) -> None:
    value = starting_at(torch.ones(17, dtype=dtype), offset)
    _, (view,) = placed(value)
    size = value.element_size()
    assert view.storage_offset() * size % 256 == offset * size % 256
    # The host's allocator aligns to 64 bytes, a GPU's to 512.
    assert view.data_ptr() % 64 == offset * size % 64


def test_what_is_no_tensor_is_handed_on() -> None:
    arguments = PlacedArguments(CPU)
    assert arguments.place(["n", "mode"], [17, "mean"], "new") == [17, "mean"]
    assert disturbed(arguments) == ((), ())


def test_a_builder_s_own_tensor_never_reaches_the_submission() -> None:
    value = torch.zeros(17)
    _, (view,) = placed(value)
    view.fill_(1)
    assert bool((value == 0).all())


def test_new_storage_lies_elsewhere_while_the_old_is_still_held() -> None:
    arguments, (first,) = placed(torch.zeros(17))
    _, (second,) = placed(torch.ones(17), into=arguments)
    assert first.data_ptr() != second.data_ptr()
    assert (float(first[0]), float(second[0])) == (0, 1)


def test_the_same_storage_gets_new_bytes_behind_its_back() -> None:
    arguments, (x, matrix) = placed(torch.zeros(500), with_gaps(torch.zeros(7, 17), 0, 3))
    known = [(view.data_ptr(), view._version, id(view)) for view in (x, matrix)]
    _, again = placed(torch.ones(500), with_gaps(torch.ones(7, 17), 0, 3), storage="same", into=arguments)
    assert [(view.data_ptr(), view._version, id(view)) for view in again] == known
    assert bool((x == 1).all())
    assert bool((matrix == 1).all())
    assert disturbed(arguments) == ((), ())


def test_what_is_carried_stays_as_the_last_call_left_it_and_counts_as_undisturbed() -> None:
    arguments, (cache, x) = placed(torch.zeros(17), torch.zeros(3))
    cache[5] = 7
    again = arguments.place(["a0", "a1"], [torch.ones(17), torch.ones(3)], "same", ["a0"])
    assert again[0] is cache
    assert float(cache[5]) == 7
    assert float(cache.sum()) == 7
    assert bool((x == 1).all())
    assert disturbed(arguments) == ((), ())


def test_a_tensor_argument_is_read_through_a_view_of_our_own() -> None:
    arguments, (x,) = placed(torch.zeros(17))
    x.fill_(7)
    mine = arguments.tensor("a0")
    assert torch.equal(mine, torch.full((17,), 7.0))
    assert mine is not x


def test_a_submission_that_reshapes_its_argument_does_not_mislead_us() -> None:
    arguments, (x,) = placed(torch.zeros(17))
    x.resize_(7)
    x.set_(torch.ones(3))
    assert torch.equal(arguments.tensor("a0"), torch.zeros(17))
    assert disturbed(arguments) == ((), ())


def test_an_alias_of_an_argument_is_recognised() -> None:
    arguments, (x, y) = placed(torch.zeros(17), torch.zeros(7))
    assert [arguments.owner(tensor) for tensor in (x, y[3:], x.view(torch.int32), x.reshape(1, 17))] == [
        "a0",
        "a1",
        "a0",
        "a0",
    ]
    assert arguments.owner(x.clone()) == ""


def test_an_argument_whose_rows_lie_far_apart_is_watched_element_by_element() -> None:
    value = far_apart(torch.arange(12, dtype=torch.float16).view(4, 3), 0)
    arguments, (first, second) = placed(value, value)
    assert torch.equal(first, value)
    assert first.stride() == value.stride()
    assert disturbed(arguments) == ((), ())
    first[3, 2] = 7
    second[0, 0] = 7
    assert disturbed(arguments, ("a1",)) == (("a0",), ())
    rewound = arguments.rewound()
    assert torch.equal(rewound.tensor("a0"), value)
    assert first[3, 2] == 7
    # The next call gets the same memory, with the values as built.
    placed(value, value, storage="same", into=arguments)
    assert torch.equal(first, value)
