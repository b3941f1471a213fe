"""What the observers of torch's operators find in the values that they are shown."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from grader.calls.modes import tensors_in


def test_tensors_are_found_in_tuples_and_lists_of_any_depth() -> None:
    first, second = torch.zeros(1), torch.ones(2)
    assert [one.tolist() for one in tensors_in((first, [3, (second,)], {"not": first}))] == [[0.0], [1.0, 1.0]]


def test_a_tuple_of_the_submission_s_own_class_is_read_without_its_methods() -> None:
    class Silent(tuple[Tensor, ...]):
        __slots__ = ()

        def __iter__(self) -> Iterator[Tensor]:
            raise AssertionError("the submission's method ran")

    (found,) = tensors_in(Silent((torch.zeros(3),)))
    assert found.shape == (3,)
