"""Sealed memory: what the inputs and the kernels' results hold can be seen while a kernel runs, and at no other time.

In a sealed call the function gets tensors whose bytes are those of a decoy. When a kernel starts, the true bytes are
put in their place; when it ends, they are taken out again, and with them everything that the kernel could have
written. When the function has returned, the results are copied from where their true bytes lie; the memory itself is
uncovered with the next call. An answer to the true inputs can then have come about in no other way than through the
kernels: whatever else looks at the memory, in Python, in C, in a thread, before, between or after the launches, or when
the result is looked at, sees the decoy or NaN.

While it is open, Python runs nothing that was not called: no signal handler, no finaliser of garbage, no callback of
NumPy's, no stream or formatter of the submission's.

Integers are sealed as well: with lengths and tables in sight, copies, which torch may make, could do all the work.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor

from grader.child.modes import unobserved
from grader.child.storage import bytes_of


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
        self._touched: list[Tensor] = []
        self._active = False
        self._open = 0
        self._shut = False

    def begin(self, decoys: Iterable[tuple[Tensor, Tensor]]) -> None:
        """Seal the memory of each (tensor, decoy bytes of its whole storage)."""
        self._active = True
        with unobserved():
            for tensor, decoy in decoys:
                memory = bytes_of(tensor)
                self._places[memory.data_ptr()] = _Place(memory, memory.clone(), decoy)
                memory.copy_(decoy)

    def end(self) -> None:
        """Uncover everything: the memory holds what the kernels left there. Only behind the answer."""
        with unobserved():
            for place in self._places.values():
                place.memory.copy_(place.hidden)
        self._places, self._active, self._open = {}, False, 0

    @property
    def is_active(self) -> bool:
        """Whether a sealed call has begun, and no other one since."""
        return self._active

    @property
    def is_open(self) -> bool:
        """Whether the true bytes are in memory now: a kernel runs, or nothing is sealed."""
        return not self._active or self._open > 0

    def holds(self, tensors: Iterable[Tensor]) -> bool:
        """Whether some tensor lies in sealed memory."""
        return self._active and any(tensor.untyped_storage().data_ptr() in self._places for tensor in tensors)

    @contextmanager
    def window(self, touched: Iterable[Tensor]) -> Iterator[None]:
        """Uncover for as long as a kernel runs, `undisturbed`; then seal again, the storages of `touched` as well."""
        if not self._active or self._open:
            yield
            return
        self._touched, self._shut = [*touched], False
        with unobserved():
            for place in self._places.values():
                place.memory.copy_(place.hidden)
        self._open += 1
        try:
            yield
        finally:
            self._open -= 1
            self.shut()

    def shut(self) -> None:
        """Seal again, the storages that a kernel could have written as well; before the window ends, where something
        else starts to run in it. What the kernel makes of the decoy from then on is kept nowhere.
        """
        if self._shut or not self._active:
            return
        self._shut = True
        _synchronise()
        with unobserved():
            for tensor in self._touched:
                self._add(tensor)
            for place in self._places.values():
                place.hidden.copy_(place.memory)
                place.memory.copy_(place.shown)
        _synchronise()

    def content(self, tensor: Tensor) -> Tensor:
        """A tensor with the true elements of this one, wherever they lie."""
        start, size = tensor.data_ptr(), tensor.element_size()
        for address, place in self._places.items():
            offset = start - address
            if 0 <= offset < place.memory.numel() and offset % size == 0:
                with unobserved(), torch.inference_mode(False):
                    hidden = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
                    storage = place.hidden.untyped_storage()
                    return hidden.set_(storage, offset // size, tensor.shape, tensor.stride())
        return tensor

    def cover(self, tensors: Iterable[Tensor]) -> None:
        """Seal what holds copies of sealed bytes."""
        with unobserved():
            for tensor in tensors:
                if self._add(tensor):
                    place = self._places[tensor.untyped_storage().data_ptr()]
                    place.memory.copy_(place.shown)

    def _add(self, tensor: Tensor) -> bool:
        address = tensor.untyped_storage().data_ptr()
        if address in self._places or not tensor.untyped_storage().nbytes():
            return False
        memory = bytes_of(tensor)
        self._places[address] = _Place(memory, memory.clone(), torch.full_like(memory, 255))
        return True


def _synchronise() -> None:
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.synchronize()
