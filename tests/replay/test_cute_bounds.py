"""A program of CuTe's that reaches beyond the end of a tensor is told, whatever the tensor holds behind its end."""

from __future__ import annotations

import importlib.util

import pytest
import torch

from grader.replay.cute_bounds import reached_beyond
from grader.replay.cute_programs import prepare
from tests.replay.test_cute_programs import STORES, function

# Found and not imported: that takes a second, and every worker collects this file.
pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(importlib.util.find_spec("cutlass") is None, reason="CUTLASS is not installed"),
]


@pytest.mark.parametrize(("place", "reached"), [(0, ()), (3, ()), (4, (0,)), (100, (0,))])
def test_the_tensor_that_is_passed_over_is_told(place: int, reached: tuple[int, ...]) -> None:
    longer = torch.zeros(200)
    assert reached_beyond(prepare("f", function(STORES)), [longer[:4], place]) == reached
    assert not longer.any()


def test_the_program_does_not_run_on_the_tensors_themselves() -> None:
    x = torch.zeros(4)
    program = prepare("f", function(STORES))
    assert reached_beyond(program, [x, 2]) == ()
    assert not x.any()


def test_equal_arguments_are_looked_at_once() -> None:
    program = prepare("f", function(STORES))
    reached_beyond(program, [torch.zeros(4), 4])
    assert list(program.reached.values()) == [(0,)]
    reached_beyond(program, [torch.ones(4), 4])
    assert len(program.reached) == 1
