"""What the recorder knows of the memory of tensors."""

from __future__ import annotations

from typing import Any

import torch

from grader.recorder.storages import Storages


class Wrapper(torch.Tensor):
    """A tensor in whose place another one computes."""

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **kwargs or {})


def test_an_address_of_a_known_tensor_is_found_in_numbers_tuples_and_tensors() -> None:
    storages, tensor = Storages(), torch.zeros(8)
    storages.add(tensor)
    inside = tensor.data_ptr() + 4
    assert storages.has_address_in(inside)
    assert storages.has_address_in((1, [inside]))
    assert storages.has_address_in(torch.tensor([inside]))
    assert not storages.has_address_in(tensor.data_ptr() + tensor.nbytes)


def test_a_tensor_without_memory_of_its_own_has_a_number_and_no_address() -> None:
    storages = Storages()
    assert storages.add(Wrapper._make_wrapper_subclass(Wrapper, (4,))) == 0
    assert not storages.has_address_in(0)
