"""The places of outputs in the memory file that a process writes them to."""

from __future__ import annotations

from itertools import pairwise

import torch
from hypothesis import given
from hypothesis import strategies as st

from grader.judge.truth import Expected, slots_for

LENGTHS = st.lists(st.integers(0, 200), min_size=1, max_size=5)


@given(LENGTHS, st.sampled_from([torch.float16, torch.float32, torch.int64]))
def test_places_lie_one_after_another_at_multiples_of_64_bytes(lengths: list[int], dtype: torch.dtype) -> None:
    outputs = [Expected("o", torch.zeros(length).double(), dtype, torch.zeros(length)) for length in lengths]
    slots = slots_for(outputs)
    assert [slot.nbytes for slot in slots] == [length * dtype.itemsize for length in lengths]
    assert slots[0].offset == 0
    assert all(slot.offset % 64 == 0 for slot in slots)
    assert all(0 <= later.offset - (one.offset + one.nbytes) < 64 for one, later in pairwise(slots))
