"""Hold the numbered storages of a trace. A call's allocations lie between guard bands, so that stray stores show."""

from __future__ import annotations

import zlib
from base64 import b64decode
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import chain

import torch
from torch import Tensor

from grader.calls.arguments import GUARD_BYTES
from grader.calls.filling import run_with_filling
from grader.calls.storage import bytes_of
from grader.exercise.tensors import dtype_name, is_whole, same_bytes
from grader.protocol.trace import Constant, Window, span

_MOST_GUARDED_BYTES = 4 << 20
# Another byte than the 0xFF around arguments: NaN that is read beyond an input and stored beyond an output must show.
_FILL = 0x7F
# NaN in every floating-point type, -1 in every integer's.
_POISON = 0xFF
_MOST_FINDINGS = 8


class Unreplayable(Exception):
    """The trace is impossible: the submission's code wrote it, not the recorder."""


class Computed(Exception):
    """Torch computes on values that are no indices; the message names the operator."""


@dataclass
class _Place:
    """One storage: its bytes, and the longer buffer that they lie in (empty: none), for which shape.

    whole: it holds whole numbers that no kernel made and that were never another type's. before: its bytes when a
    kernel first got it and must not change it; None without such a kernel. first, end: the range of bytes that windows
    may show; an argument lies between guard bands. written: by dtype, the bytes from the first to the last number,
    other than true whole ones, that torch or a kernel wrote there.
    """

    content: Tensor
    buffer: Tensor
    shape: tuple[int, ...]
    whole: bool
    before: Tensor | None = None
    first: int = 0
    end: int = 1 << 62
    written: dict[str, range] = field(default_factory=dict)

    def note(self, dtype: str, reached: range) -> None:
        """Note that numbers of a dtype were put into these bytes."""
        if reached:
            known = self.written.get(dtype, reached)
            self.written[dtype] = range(min(known.start, reached.start), max(known.stop, reached.stop))


class Memory:
    """All storages that were not freed yet, from call to call. guarded: allocations get guard bands."""

    def __init__(self, device: torch.device, *, guarded: bool = True) -> None:
        self._device = device
        self._guarded = guarded
        self._untouched = torch.full((GUARD_BYTES if guarded else 0,), _FILL, dtype=torch.uint8, device=device)
        self._places: dict[int, _Place] = {}
        self._overrun: list[str] = []
        self._outside: dict[Window, None] = {}
        self._own_bytes: dict[int, int] = {}
        self.most_bytes = 0

    def begin(self) -> None:
        """Begin a call: memory that is allocated or recorded from now on is its own."""
        self._own_bytes, self.most_bytes, self._overrun, self._outside = {}, 0, [], {}

    def forget(self) -> None:
        """Forget all storages."""
        self._places.clear()

    def copied(self, numbers: Iterable[int]) -> Memory:
        """Return a memory of its own, with these storages and their bytes."""
        other = Memory(self._device, guarded=self._guarded)
        for number in numbers:
            place = self._places[number]
            if place.buffer.numel():
                buffer = place.buffer.clone()
                content = _as_storage(buffer, GUARD_BYTES, place.content.numel())
            else:
                buffer, content = place.buffer, place.content.clone()
            other._places[number] = replace(place, content=content, buffer=buffer, written={**place.written})
        return other

    def known(self) -> frozenset[int]:
        """Return the numbers of all storages."""
        return frozenset(self._places)

    def bytes_of(self, number: int) -> Tensor:
        """Return the bytes of a storage."""
        return self._places[number].content

    def holds(self, number: int, before: Tensor) -> bool:
        """Return whether a storage holds these bytes, or was freed."""
        place = self._places.get(number)
        return place is None or same_bytes(place.content, before)

    def drop_but(self, spared: frozenset[int]) -> None:
        """Forget all storages but these."""
        for number in self._places.keys() - spared:
            del self._places[number]
            self._own_bytes.pop(number, None)

    def poison(self, numbers: Iterable[int]) -> None:
        """Overwrite storages with NaN, so that the next owner of that memory finds no result there."""
        for number in numbers:
            self._places[number].content.fill_(_POISON)

    def place_argument(self, number: int, buffer: Tensor, tensor: Tensor) -> None:
        """Register an argument's buffer, of bytes, under a number. tensor: the argument, in that buffer."""
        first = int(tensor.storage_offset()) * tensor.element_size()
        end = first + span(tensor.shape, tensor.stride()) * tensor.element_size()
        written = {dtype_name(tensor.dtype): range(first, end)}
        self._places[number] = _Place(
            buffer, buffer[:0], (), is_whole(tensor.dtype), first=first, end=end, written=written
        )

    def place_constant(self, step: Constant) -> None:
        """Make a storage of bytes that Python held. Raises Unreplayable."""
        self._refuse_known(step.storage)
        unpacker = zlib.decompressobj()
        try:
            raw = unpacker.decompress(b64decode(step.data, validate=True), step.nbytes + 1)
        except (ValueError, zlib.error) as broken:
            raise Unreplayable(f"a constant must be compressed bytes: {broken}") from broken
        if len(raw) != step.nbytes:
            raise Unreplayable(f"a constant must hold {step.nbytes} bytes, got {len(raw)}")
        bytes_ = torch.frombuffer(bytearray(raw), dtype=torch.uint8) if raw else torch.empty(0, dtype=torch.uint8)
        self._places[step.storage] = _Place(bytes_.to(self._device), bytes_[:0], (), whole=True)
        self._count(step.storage)

    def adopt(self, number: int, fresh: Tensor) -> None:
        """Register a tensor that an operator has just made under its number, in memory between guard bands.

        Raises Unreplayable where its memory is not new.
        """
        self._refuse_known(number)
        if fresh.is_quantized:
            raise Unreplayable("a tensor must not be quantised")
        if self._guarded and not _is_dense(fresh):
            # Torch leaves old bytes between the elements.
            bytes_of(fresh).fill_(_POISON)
        # Tensors that the submission made on the host lie on the device too: the replay has one memory.
        content = bytes_of(fresh).to(self._device)
        if content.numel() and any(place.content.data_ptr() == content.data_ptr() for place in self._places.values()):
            raise Unreplayable("an operator must make memory of its own")
        size = content.numel()
        buffer = content[:0]
        if self._guarded and 0 < size <= _MOST_GUARDED_BYTES:
            buffer = torch.full((size + 2 * GUARD_BYTES,), _FILL, dtype=torch.uint8, device=self._device)
            buffer[GUARD_BYTES : GUARD_BYTES + size].copy_(content)
            content = _as_storage(buffer, GUARD_BYTES, size)
        self._places[number] = _Place(content, buffer, tuple(fresh.shape), is_whole(fresh.dtype))
        self._count(number)

    def keep_in_use(self, numbers: Iterable[int]) -> None:
        """Count those storages of earlier calls as this call's own: it works with them."""
        for number in numbers:
            if number in self._places:
                self._count(number)

    def _count(self, number: int) -> None:
        self._own_bytes[number] = self._places[number].content.numel()
        self.most_bytes = max(self.most_bytes, sum(self._own_bytes.values()))

    def _refuse_known(self, number: int) -> None:
        if number in self._places:
            raise Unreplayable(f"a new storage must have a new number, got {number}")

    def knows(self, number: int) -> bool:
        """Return whether a storage has this number."""
        return number in self._places

    def is_whole(self, window: Window) -> bool:
        """Return whether a window shows true whole numbers, and no bits of other numbers."""
        place = self._places.get(window.storage)
        if place is None or not place.whole or not is_whole(getattr(torch, window.dtype)):
            return False
        # A kernel may lend bits of its own to an argument, and take them back before the call ends.
        return place.before is None or same_bytes(place.content, place.before)

    def reads_as_written(self, window: Window) -> bool:
        """Return whether a window shows its numbers under the dtype with which they were written."""
        return not any(True for _ in self._others_in(window))

    def cuts_numbers(self, window: Window) -> bool:
        """Return whether a window shows only some of the bytes of numbers of a larger dtype."""
        size = getattr(torch, window.dtype).itemsize
        larger = (getattr(torch, name).itemsize // size for name in self._others_in(window) if name)
        return any(count > 1 and not _has_runs_of(count, window) for count in larger)

    def _others_in(self, window: Window) -> Iterator[str]:
        """Yield the dtypes, except its own, with which numbers were written into a window."""
        place = self._places.get(window.storage)
        if place is None or self.is_whole(window):
            return
        reached = _bytes_reached(window)
        for name, written in place.written.items():
            if name != window.dtype and _meet(written, reached):
                yield name

    def note_write(self, window: Window, sources: Iterable[Window], *, whole: bool) -> None:
        """Note that an operator has written the numbers of sources into a window. whole: all are whole numbers.

        A copy keeps bits of another type as such.
        """
        place = self._places[window.storage]
        if whole and place.whole:
            return
        for name in (window.dtype, *chain.from_iterable(map(self._others_in, sources))):
            place.note(name, _bytes_reached(window))

    def note_kernel(self, window: Window, dtype: str) -> None:
        """Note that a kernel may have put numbers of a dtype around a window: a pointer reaches all of its storage."""
        place = self._places[window.storage]
        place.note(dtype, range(place.content.numel()))

    def taint(self, number: int) -> None:
        """Note that a storage may hold other values than whole numbers."""
        if number in self._places:
            self._places[number].whole = False

    def distrust(self) -> None:
        """Note that any storage may hold bits of any type."""
        for place in self._places.values():
            place.whole = False
            place.note("", range(place.content.numel()))

    def lend(self, number: int) -> None:
        """Note that a kernel gets a storage that it must leave as it is."""
        place = self._places.get(number)
        if place is not None and place.whole and place.before is None:
            place.before = place.content.clone()

    def accept(self, number: int) -> None:
        """Note that an operator has written whole numbers into a storage."""
        place = self._places[number]
        if place.before is not None:
            place.before = place.content.clone()

    def tensor(self, window: Window) -> Tensor:
        """Return a window as a tensor. Raises Unreplayable for one that leaves its storage."""
        place = self._places.get(window.storage)
        dtype = getattr(torch, window.dtype, None)
        if place is None or not isinstance(dtype, torch.dtype):
            raise Unreplayable(f"a tensor must lie in a known storage, got {window}")
        reach = span(window.shape, window.strides)
        end = (window.offset + reach) * dtype.itemsize
        if end > place.content.numel():
            raise Unreplayable(f"a tensor must lie within its {place.content.numel()} bytes, got {window}")
        outside = window.offset * dtype.itemsize < place.first or end > place.end
        if outside and reach:
            # A launch can reach the guard bands through this window, and the guard reports no access outside.
            self._outside[window] = None
        storage = place.content.untyped_storage()
        nothing: Tensor = run_with_filling(torch.empty, (0,), {"dtype": dtype, "device": self._device})
        return nothing.set_(storage, window.offset, window.shape, window.strides)

    def free(self, numbers: tuple[int, ...]) -> None:
        """Release storages, after a check for writes around them."""
        for number in numbers:
            if place := self._places.pop(number, None):
                self._check_guards(place)
            self._own_bytes.pop(number, None)

    def overrun(self) -> tuple[str, ...]:
        """Return descriptions of writes beside the call's allocations."""
        for number in self._own_bytes:
            self._check_guards(self._places[number])
        return tuple(self._overrun[:_MOST_FINDINGS])

    def outside(self) -> tuple[str, ...]:
        """Return descriptions of the call's views that reach beyond their argument."""
        return tuple(
            f"shape {list(one.shape)}, strides {list(one.strides)}, {one.offset} elements from the start of the memory"
            for one in [*self._outside][:_MOST_FINDINGS]
        )

    def _check_guards(self, place: _Place) -> None:
        if not place.buffer.numel():
            return
        after, before = place.buffer[place.buffer.numel() - GUARD_BYTES :], place.buffer[:GUARD_BYTES]
        for band, where in ((after, "after the end"), (before, "before the start")):
            if same_bytes(band, self._untouched):
                continue
            touched = (band != _FILL).nonzero().flatten()
            first = int(touched[0]) if band is after else GUARD_BYTES - int(touched[-1])
            shape = list(place.shape)
            text = f"{touched.numel()} bytes {where} of a tensor of shape {shape} that your code allocated"
            self._overrun.append(f"{text}, the nearest {first} bytes away")


def overlap(one: Window, other: Window) -> bool:
    """Return whether two windows share an element, or, with elements of different sizes, may share one."""
    first, second = _bytes_reached(one), _bytes_reached(other)
    if one.storage != other.storage or not _meet(first, second):
        return False
    if first.step != second.step:
        return True
    marks = torch.zeros(max(first.stop, second.stop) // first.step, dtype=torch.bool)
    marks.as_strided(one.shape, one.strides, one.offset).fill_(value=True)
    return bool(marks.as_strided(other.shape, other.strides, other.offset).any())


def _meet(one: range, other: range) -> bool:
    return max(one.start, other.start) < min(one.stop, other.stop)


def _has_runs_of(count: int, window: Window) -> bool:
    """Return whether a window consists of aligned runs of `count` neighbours."""
    axes = [(size, stride) for size, stride in zip(window.shape, window.strides, strict=True) if size != 1]
    runs = [size for size, stride in axes if stride == 1]
    rest = [stride for _, stride in axes if stride != 1]
    return len(runs) == 1 and all(number % count == 0 for number in (window.offset, *runs, *rest))


def _bytes_reached(window: Window) -> range:
    """Return the bytes from the first to the last element of a window, in steps of an element; empty without any."""
    size = getattr(torch, window.dtype).itemsize
    start = window.offset * size
    return range(start, start + span(window.shape, window.strides) * size, size)


def _is_dense(tensor: Tensor) -> bool:
    """Return whether the elements of a tensor fill its storage, each in a place of its own."""
    count = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size != 1 and stride != count:
            return tensor.numel() == 0
        count *= size
    return tensor.untyped_storage().nbytes() == count * tensor.element_size()


def _as_storage(buffer: Tensor, start: int, size: int) -> Tensor:
    """Return a part of a buffer as bytes, with a storage that does not keep the buffer alive."""
    inside = torch._C._construct_storage_from_data_pointer(buffer.data_ptr() + start, buffer.device, size)
    return torch.empty(0, dtype=torch.uint8, device=buffer.device).set_(inside, 0, (size,), (1,))
