"""How much memory the tensors of one call take up at a time, counted in the storages that torch's operators make."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef


def storages_of(tensors: Sequence[Tensor]) -> frozenset[int]:
    """The names of these tensors' storages; each is valid while its storage lives."""
    return frozenset(tensor.untyped_storage()._cdata for tensor in tensors)


class Storages:
    """The storages that came into being since this object did."""

    def __init__(self) -> None:
        self.most_bytes = 0
        self._living: dict[int, tuple[StorageWeakRef, int]] = {}

    def add(self, tensors: Sequence[Tensor], known: Collection[int]) -> None:
        """The tensors that an operator returned; `known` names the storages that it was given: they are not new."""
        for tensor in tensors:
            storage = tensor.untyped_storage()
            if storage._cdata in self._living or storage._cdata not in known:
                self._living[storage._cdata] = StorageWeakRef(storage), storage.nbytes()  # type: ignore[no-untyped-call]
        self._living = {key: entry for key, entry in self._living.items() if not entry[0].expired()}  # type: ignore[no-untyped-call]
        self.most_bytes = max(self.most_bytes, sum(size for _, size in self._living.values()))
