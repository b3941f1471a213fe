"""Sealed memory: what the inputs and the kernels' results hold can be seen while a kernel runs, and at no other time.

In a sealed call the function gets tensors whose bytes are those of a decoy. When a kernel starts, the true bytes are
put in their place; when it ends, they are taken out again, and with them everything that the kernel could have
written. Only when the function has returned are the results uncovered. An answer to the true inputs can then have come
about in no other way than through the kernels: whatever else looks at the memory, in Python, in C, in a thread, before,
between or after the launches, sees the decoy or NaN.

Integer inputs stay visible: a launcher may need lengths and tables to choose its grid.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes

from grader.child.bands import bytes_of


@dataclass
class _Place:
    """The bytes of one storage: `memory` is the storage itself, `hidden` its true content while `shown` lies there.

    `memory` also keeps the storage alive, so that its address is not given out again.
    """

    memory: Tensor
    hidden: Tensor
    shown: Tensor


class Sealing:
    """The sealed storages of one call. Before `begin`, everything is an ordinary tensor."""

    def __init__(self) -> None:
        self._places: dict[int, _Place] = {}
        self._visible_inputs: set[int] = set()
        self._active = False
        self._open = 0

    def begin(self, decoys: Iterable[tuple[Tensor, Tensor]], visible: Iterable[Tensor]) -> None:
        """Seal the memory of each (tensor, decoy bytes of its whole storage); leave that of `visible` alone."""
        self._active = True
        with _unobserved():
            for tensor, decoy in decoys:
                memory = bytes_of(tensor)
                self._places[memory.data_ptr()] = _Place(memory, memory.clone(), decoy)
                memory.copy_(decoy)
        self._visible_inputs = {tensor.untyped_storage().data_ptr() for tensor in visible}

    def end(self) -> None:
        """Uncover everything; the memory holds what the kernels left there."""
        with _unobserved():
            for place in self._places.values():
                place.memory.copy_(place.hidden)
        self._places, self._visible_inputs = {}, set()
        self._active, self._open = False, 0

    @property
    def is_open(self) -> bool:
        """Whether the true bytes are in memory now: a kernel runs, or nothing is sealed."""
        return not self._active or self._open > 0

    def holds(self, tensors: Iterable[Tensor]) -> bool:
        """Whether some tensor lies in sealed memory."""
        return self._active and any(tensor.untyped_storage().data_ptr() in self._places for tensor in tensors)

    @contextmanager
    def window(self, touched: Iterable[Tensor]) -> Iterator[None]:
        """Uncover for as long as a kernel runs; then seal again, with the storages of `touched` as well."""
        if not self._active or self._open:
            yield
            return
        with _unobserved():
            for place in self._places.values():
                place.memory.copy_(place.hidden)
        self._open += 1
        try:
            yield
        finally:
            self._open -= 1
            _synchronise()
            with _unobserved():
                for tensor in touched:
                    self._add(tensor)
                for place in self._places.values():
                    place.hidden.copy_(place.memory)
                    place.memory.copy_(place.shown)
            _synchronise()

    def cover(self, tensors: Iterable[Tensor]) -> None:
        """Seal what holds copies of sealed bytes."""
        with _unobserved():
            for tensor in tensors:
                if self._add(tensor):
                    place = self._places[tensor.untyped_storage().data_ptr()]
                    place.memory.copy_(place.shown)

    def _add(self, tensor: Tensor) -> bool:
        address = tensor.untyped_storage().data_ptr()
        if address in self._places or address in self._visible_inputs or not tensor.untyped_storage().nbytes():
            return False
        memory = bytes_of(tensor)
        self._places[address] = _Place(memory, memory.clone(), torch.full_like(memory, 255))
        return True


@contextmanager
def _unobserved() -> Iterator[None]:
    """Our own copies of hidden bytes pass by no torch mode: one of them may be the submission's."""
    with torch._C.DisableTorchFunction(), _disable_current_modes():
        yield


def _synchronise() -> None:
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.synchronize()
