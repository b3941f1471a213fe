"""Torch may compute with whole numbers that are indices, and not with bits that a kernel put in their place."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import cast

import pytest
import torch

from grader.protocol.trace import Trace, Window
from grader.replay.memory import Memory, Unreplayable, overlap
from grader.replay.timing import Blank
from grader.sandbox import usage

LENGTHS = Window(storage=0, offset=0, shape=(4,), strides=(1,), dtype="int32")


@pytest.fixture
def memory() -> Memory:
    """A memory with one argument of whole numbers."""
    held = Memory(torch.device("cpu"))
    lengths = torch.arange(4, dtype=torch.int32)
    held.place_argument(0, lengths.view(torch.uint8), lengths)
    return held


def test_an_argument_that_a_kernel_only_reads_stays_an_argument_of_indices(memory: Memory) -> None:
    memory.lend(0)
    assert memory.is_whole(LENGTHS)


def test_an_argument_that_a_kernel_changed_holds_no_indices_until_it_is_restored(memory: Memory) -> None:
    memory.lend(0)
    lengths = memory.tensor(LENGTHS)
    lengths += 1
    assert not memory.is_whole(LENGTHS)
    memory.lend(0)
    assert not memory.is_whole(LENGTHS)
    lengths -= 1
    assert memory.is_whole(LENGTHS)


def test_whole_numbers_that_torch_computes_in_place_are_indices_again(memory: Memory) -> None:
    memory.lend(0)
    memory.tensor(LENGTHS).add_(1)
    memory.accept(0)
    assert memory.is_whole(LENGTHS)


@pytest.mark.parametrize("guarded", [True, False])
def test_what_was_made_on_the_host_lies_on_the_device_in_the_replay(guarded: bool) -> None:
    """A GPU is not here; "meta" is another device too."""
    held = Memory(torch.device("meta"), guarded=guarded)
    held.adopt(1, torch.empty(8 << 20, dtype=torch.uint8))
    assert held.tensor(Window(storage=1, offset=0, shape=(4,), strides=(1,), dtype="float32")).device.type == "meta"


@pytest.mark.parametrize(("offset", "shape", "strides"), [(7, (2, 3), (5, 1)), (8, (8,), (1,)), (0, (0,), (1,))])
def test_a_view_of_an_argument_lies_within_it(offset: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> None:
    held, buffer = Memory(torch.device("cpu")), torch.arange(24, dtype=torch.int16)
    held.place_argument(0, buffer.view(torch.uint8), buffer[7:].as_strided((2, 4), (5, 1), 7))
    shown = held.tensor(Window(0, "int16", offset, shape, strides))
    assert torch.equal(shown, buffer.as_strided(shape, strides, offset))
    assert held.outside() == ()


@pytest.mark.parametrize(("dtype", "offset", "size"), [("int16", 6, 4), ("int16", 14, 3), ("uint8", 0, 48)])
def test_a_view_of_an_argument_that_reaches_a_guard_band_is_told(dtype: str, offset: int, size: int) -> None:
    held, buffer = Memory(torch.device("cpu")), torch.arange(24, dtype=torch.int16)
    held.place_argument(0, buffer.view(torch.uint8), buffer[7:].as_strided((2, 4), (5, 1), 7))
    held.tensor(Window(0, dtype, offset, (size,), (1,)))
    (told,) = held.outside()
    assert told == f"shape [{size}], strides [1], {offset} elements from the start of the memory"
    held.begin()
    assert held.outside() == ()


@pytest.mark.parametrize(("shape", "strides"), [((3,), (5,)), ((2, 2), (0, 3)), ((2, 3), (3, 2))])
def test_no_memory_of_earlier_tensors_lies_between_elements(shape: tuple[int, ...], strides: tuple[int, ...]) -> None:
    """Bits of inputs that were there would look like indices."""
    held, fresh = Memory(torch.device("cpu")), torch.empty_strided(shape, strides, dtype=torch.int64)
    held.adopt(1, fresh)
    size = fresh.untyped_storage().nbytes()
    assert held.tensor(Window(1, "uint8", 0, (size,), (1,))).unique().tolist() == [255]


@pytest.mark.parametrize(
    ("offset", "shape", "strides", "dtype", "shared"),
    [
        (6, (2, 3), (3, 1), "float32", False),  # the second half of a buffer
        (5, (2, 3), (3, 1), "float32", True),
        (3, (2, 3), (6, 1), "float32", True),
        (0, (0, 3), (3, 1), "float32", False),
        (12, (4,), (1,), "float16", False),
        (11, (4,), (1,), "float16", True),
    ],
)
def test_views_of_one_buffer_share_memory_where_they_share_an_element(
    offset: int, shape: tuple[int, ...], strides: tuple[int, ...], dtype: str, shared: bool
) -> None:
    first = Window(1, "float32", 0, (2, 3), (3, 1))
    other = Window(1, dtype, offset, shape, strides)
    assert overlap(first, other) == overlap(other, first) == shared
    assert not overlap(first, Window(2, dtype, offset, shape, strides))


def test_interleaved_views_share_no_element() -> None:
    even, odd = (Window(1, "float32", start, (4, 2), (4, 1)) for start in (0, 2))
    assert not overlap(even, odd)


@pytest.mark.filterwarnings("ignore:.*deprecated")
def test_a_tensor_is_not_quantised() -> None:
    """Torch fills no such tensor, and neither does anybody know what its numbers are."""
    with pytest.raises(Unreplayable, match="quantised"):
        Memory(torch.device("cpu")).adopt(1, torch.empty(4, dtype=torch.qint8))


def test_a_trace_that_is_only_compiled_takes_addresses_and_no_memory() -> None:
    far = Window(0, "float16", 0, (3, 64), (1 << 32, 1))
    before = usage.resident_bytes(os.getpid())
    blank = Blank(torch.device("cpu"), cast("Trace", SimpleNamespace(windows=(far,))))
    assert blank.tensor(far).shape == (3, 64)
    blank.lend(0)
    assert usage.resident_bytes(os.getpid()) - before < 64 << 20


def test_a_storage_of_no_bytes_can_be_made_for_compiling() -> None:
    none = Window(0, "float16", 0, (0,), (1,))
    assert Blank(torch.device("cpu"), cast("Trace", SimpleNamespace(windows=(none,)))).tensor(none).numel() == 0
