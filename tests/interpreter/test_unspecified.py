"""What Triton leaves open has an answer that nobody may rely on."""

from __future__ import annotations

import numpy as np
import pytest

from grader.exercise.catalogue import Entry
from grader.interpreter.arithmetic.unspecified import backwards, gathered, moves_elements
from grader.sandbox.server import ForkServer
from tests.interpreter.test_loops import tried


@pytest.mark.parametrize(
    ("before", "after", "moves"),
    [
        ((8,), (1, 8), False),
        ((1, 8), (8, 1), False),
        ((8,), (2, 4), True),
        ((2, 4), (8,), True),
        ((2, 4), (4, 2), True),
    ],
)
def test_only_axes_of_length_1_leave_the_order(before: tuple[int, ...], after: tuple[int, ...], moves: bool) -> None:
    assert moves_elements(before, after) == moves


def test_a_block_is_reversed_from_an_axis_on() -> None:
    block = np.arange(8).reshape(2, 2, 2)
    assert backwards(block).ravel().tolist() == list(range(7, -1, -1))
    assert backwards(block, 1).ravel().tolist() == [3, 2, 1, 0, 7, 6, 5, 4]


@pytest.mark.parametrize(("dtype", "outside"), [("f4", "nan"), ("i4", "-1"), ("u2", "65535"), ("?", "True")])
def test_an_index_outside_gathers_a_telling_number(dtype: str, outside: str) -> None:
    found = gathered(np.zeros(4, dtype), np.array([0, -1, 3, 4]), 0)
    assert [str(one) for one in found] == [str(np.zeros((), dtype)[()]), outside, str(np.zeros((), dtype)[()]), outside]


HALVES = "low, high = tl.split(y.reshape(BLOCK // 2, 2))"


@pytest.mark.parametrize(
    ("lines", "right"),
    [
        ((HALVES, "y = tl.cat(low, high, can_reorder=True)"), False),
        ((HALVES, "y = tl.join(low, high).reshape(BLOCK)"), True),
        (
            ("ones = tl.full((BLOCK,), 1, tl.int32)", "y *= tl.sum(tl.cat(ones, ones, can_reorder=True)) == 2 * BLOCK"),
            True,
        ),
        (("y = tl.reshape(tl.reshape(y, (2, BLOCK // 2), can_reorder=True), (BLOCK,))",), False),
        (("y = tl.reshape(tl.reshape(y, (1, BLOCK), can_reorder=True), (BLOCK,))",), True),
        (("y = tl.reshape(tl.reshape(y, (2, BLOCK // 2)), (BLOCK,))",), True),
        (("y = tl.gather(y, (tl.arange(0, BLOCK) - 1 + BLOCK) % BLOCK, 0)",), False),
        (("y = tl.gather(y, tl.arange(0, BLOCK), 0)",), True),
        (("y = tl.gather(y, tl.arange(0, BLOCK) - BLOCK, 0)",), False),
    ],
)
def test_no_kernel_is_right_by_the_order_of_what_may_be_reordered(
    server: ForkServer, ex_15: Entry, lines: tuple[str, ...], right: bool
) -> None:
    assert (tried(server, ex_15, *lines).failure is None) == right
