"""Place the inputs of a call in guarded memory on the device, and report what the call changed there.

Every tensor lies in a buffer of its own between two guard bands. Guard bands and the gaps of strided layouts hold
0xFF bytes, which are NaN in every floating-point type. So a read outside an argument poisons the answer, and a write
outside shows. Never touches the tensors that it was given.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from grader.calls.storage import has_storage
from grader.exercise.tensors import distinct, same_bytes, unwritten
from grader.protocol.trace import span

# A block that runs over an end stays inside.
GUARD_BYTES = 1 << 16
# Keeps a slice's address as far from a 256-byte boundary as the inputs' builder put it.
_ALIGNMENT = 256
# Larger buffers, of which the elements are this small a share, are left unwritten between them.
_LARGE_BYTES = 1 << 28
_FULL_SHARE = 1 / 16


@dataclass
class _Placed:
    """One tensor argument: the buffer, the view handed out, and a private view to write it by.

    sparse: the elements lie far apart. before: what was watched when the call began.
    """

    buffer: Tensor
    view: Tensor
    writer: Tensor
    sparse: bool
    before: Tensor

    @property
    def watched(self) -> Tensor:
        """Return the bytes in which a change shows: the buffer's; of a sparse one, those of the elements."""
        return _as_bytes(self, self.buffer) if self.sparse else self.buffer


class PlacedArguments:
    """The arguments of the latest call on one device.

    guarded: with guard bands and fills. Without, a tensor has an allocation of its own that ends with its last element,
    and bytes of no element stay unwritten. So a memory tool sees the ends of allocations and unwritten bytes.
    """

    def __init__(self, device: torch.device, *, guarded: bool = True) -> None:
        self._device = device
        self._band = GUARD_BYTES if guarded else 0
        self._names: tuple[str, ...] = ()
        self._values: list[object] = []
        self._placed: dict[str, _Placed] = {}

    def place(
        self,
        names: Sequence[str],
        values: Sequence[object],
        storage: Literal["new", "same"],
        carries: Sequence[str] = (),
    ) -> list[object]:
        """Return the arguments to call with.

        storage: "same" writes the new bytes into the buffers of the last call. carries: the arguments that stay as
        that call left them.
        """
        reused = self._placed if storage == "same" else {name: self._placed[name] for name in carries}
        self._names, self._values, self._placed = tuple(names), list(values), {}
        for i, (name, value) in enumerate(zip(names, values, strict=True)):
            if isinstance(value, Tensor):
                placed = reused.get(name) or _allocate(value, self._device, self._band)
                if name not in carries:
                    _fill(placed, value, self._band)
                if self._band:
                    placed.before = placed.watched.clone()
                self._placed[name] = placed
                self._values[i] = placed.view
        return list(self._values)

    def rewound(self) -> PlacedArguments:
        """Return a copy that holds the arguments as the latest call found them, in memory of its own."""
        copy = PlacedArguments(self._device, guarded=bool(self._band))
        copy._placed = {name: _rewound(placed) for name, placed in self._placed.items()}
        return copy

    def tensor(self, name: str) -> Tensor:
        """Return the tensor argument of that name as it is now, through a view that the submission never held."""
        return self._placed[name].writer

    @property
    def tensors(self) -> tuple[str, ...]:
        """Return the names of the tensors among the arguments."""
        return tuple(self._placed)

    def buffer(self, name: str) -> Tensor:
        """Return the bytes of the buffer that a tensor argument lies in, guard bands included."""
        return self._placed[name].buffer

    def disturbed(self, may_change: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return (arguments whose elements changed without permission, descriptions of writes outside an argument).

        may_change: the arguments that the call may write to. Between elements that lie far apart, nothing is seen.
        """
        changed, overrun = [], []
        for name, placed in self._placed.items() if self._band else ():
            if same_bytes(placed.watched, placed.before):
                continue
            if placed.sparse:
                changed += [name] if name not in may_change else []
                continue
            inside = torch.zeros_like(placed.buffer)
            _as_bytes(placed, inside).fill_(255)
            differs = placed.buffer != placed.before
            if name not in may_change and bool((differs & (inside != 0)).any()):
                changed.append(name)
            outside = differs & (inside == 0)
            if bool(outside.any()):
                overrun.append(_describe(name, placed, outside))
        return tuple(changed), tuple(overrun)

    def owner(self, tensor: Tensor) -> str:
        """Return the name of the argument in whose buffer a tensor lies, or an empty string."""
        if not has_storage(tensor):
            return ""
        address = tensor.untyped_storage().data_ptr()
        for name, placed in self._placed.items():
            start = placed.buffer.data_ptr()
            if start <= address < start + placed.buffer.numel():
                return name
        return ""


def _allocate(value: Tensor, device: torch.device, band: int) -> _Placed:
    itemsize = value.element_size()
    offset = value.storage_offset() * itemsize
    start = band + offset % _ALIGNMENT if band else offset
    size = int(start + span(value.shape, value.stride()) * itemsize + band)
    sparse = size > _LARGE_BYTES and distinct(value).numel() * itemsize < size * _FULL_SHARE
    buffer = unwritten(size, torch.uint8, device) if sparse else torch.empty(size, dtype=torch.uint8, device=device)
    if band and not sparse:
        buffer.fill_(255)
    return _in_buffer(buffer, value, start // itemsize, sparse=sparse)


def _in_buffer(buffer: Tensor, like: Tensor, offset: int, *, sparse: bool) -> _Placed:
    """Return an argument that lies in a buffer from an element on."""
    view, writer = (
        torch.empty(0, dtype=like.dtype, device=buffer.device).set_(
            buffer.untyped_storage(), offset, like.shape, like.stride()
        )
        for _ in range(2)
    )
    return _Placed(buffer, view, writer, sparse, buffer)


def _rewound(placed: _Placed) -> _Placed:
    one = placed.writer
    if not placed.sparse:
        return _in_buffer(placed.before.clone(), one, int(one.storage_offset()), sparse=False)
    buffer = unwritten(placed.buffer.numel(), torch.uint8, placed.buffer.device)
    rewound = _in_buffer(buffer, one, int(one.storage_offset()), sparse=True)
    rewound.watched.copy_(placed.before)
    return rewound


def _fill(placed: _Placed, value: Tensor, band: int) -> None:
    if band and not placed.sparse:
        placed.buffer.fill_(255)
    distinct(placed.writer).copy_(distinct(value))


def _as_bytes(placed: _Placed, marks: Tensor) -> Tensor:
    """Return the bytes of the view's elements within `marks`, a buffer of the same size: [*shape, itemsize]."""
    view = distinct(placed.writer)
    itemsize = view.element_size()
    sizes = (*view.shape, itemsize)
    strides = (*(stride * itemsize for stride in view.stride()), 1)
    return marks.as_strided(sizes, strides, view.storage_offset() * itemsize)


def _describe(name: str, placed: _Placed, outside: Tensor) -> str:
    touched = outside.nonzero().flatten()
    view = placed.writer
    start = view.storage_offset() * view.element_size()
    end = placed.buffer.numel() - GUARD_BYTES
    first = int(touched[0])
    if first < start:
        where = f"{start - first} bytes before its start"
    elif first >= end:
        where = f"{first - end} bytes after its end"
    else:
        where = "in the gaps between its rows"
    return f"{touched.numel()} bytes outside {name}, the first {where}"
