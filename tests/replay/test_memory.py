"""Torch may compute with whole numbers that are indices, and not with bits that a kernel put in their place."""

from __future__ import annotations

import pytest
import torch

from grader.protocol.trace import Window
from grader.replay.memory import Memory

LENGTHS = Window(storage=0, offset=0, shape=(4,), strides=(1,), dtype="int32")


@pytest.fixture
def memory() -> Memory:
    """A memory with one argument of whole numbers."""
    held = Memory(torch.device("cpu"))
    held.place_argument(0, torch.arange(4, dtype=torch.int32).view(torch.uint8), torch.int32)
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
