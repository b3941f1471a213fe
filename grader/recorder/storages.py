"""Number the storages of a submission's tensors. Numbers continue from call to call."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterator

import torch
from torch import Tensor, UntypedStorage
from torch.multiprocessing.reductions import StorageWeakRef

from grader.calls.storage import bytes_of, has_storage

# Why a tensor without memory of its own cannot be told.
ELSEWHERE = "a tensor whose elements do not lie in memory as they are"
# A tensor of more numbers is no list of addresses.
_MOST_ADDRESSES = 1024


class Unrecordable(Exception):
    """Something cannot be recorded; the message says what."""


class Storages:
    """The storages that are known by a number."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[int, StorageWeakRef]] = {}
        self._spans: dict[int, range] = {}
        self._next = 0

    def number_of(self, tensor: Tensor) -> int | None:
        """Return the number of a tensor's storage, or None if it has none."""
        found = self._known.get(tensor.untyped_storage()._cdata) if has_storage(tensor) else None
        return found[0] if found else None

    def add(self, tensor: Tensor) -> int:
        """Give the storage of a tensor a new number, even if it has one, and return it."""
        storage = tensor.untyped_storage()
        number, self._next = self._next, self._next + 1
        # While a weak reference exists, no other storage gets this address.
        self._known[storage._cdata] = number, StorageWeakRef(storage)  # type: ignore[no-untyped-call]
        self._spans[storage._cdata] = _span_of(storage)
        return number

    def has_address_in(self, value: object) -> bool:
        """Return whether a number in an argument is the address of a byte of a known storage."""
        return any(number in span for number in _numbers_in(value) for span in self._spans.values())

    def forget_dead(self) -> list[int]:
        """Forget the storages that nothing holds any more. Returns their numbers."""
        dead = {name: number for name, (number, reference) in self._known.items() if reference.expired()}  # type: ignore[no-untyped-call]
        for name in dead:
            del self._known[name], self._spans[name]
        return list(dead.values())


def _span_of(storage: UntypedStorage) -> range:
    """Return the addresses of a storage; none for that of a subclass, which may have no memory of its own."""
    try:
        return range(storage.data_ptr(), storage.data_ptr() + storage.nbytes())
    except RuntimeError:
        return range(0)


def _numbers_in(value: object, levels: int = 3) -> Iterator[int]:
    """Yield the whole numbers of an argument that are wide enough for an address. Calls no method of a submission."""
    if type(value) is int:
        yield value
    elif isinstance(value, tuple | list) and levels:
        for one in tuple.__iter__(value) if isinstance(value, tuple) else list.__iter__(value):
            yield from _numbers_in(one, levels - 1)
    elif type(value) is Tensor and value.dtype in (torch.int64, torch.uint64) and value.numel() <= _MOST_ADDRESSES:
        yield from value.reshape(-1).tolist()


def window_of(tensor: Tensor, storage: int) -> list[object]:
    """Return a tensor as a window onto its storage, for the trace. Raises Unrecordable."""
    if tensor.layout != torch.strided or tensor.is_conj() or tensor.is_neg() or tensor.is_quantized:
        raise Unrecordable(ELSEWHERE)
    dtype = str(tensor.dtype).removeprefix("torch.")
    return [storage, dtype, int(tensor.storage_offset()), [*map(int, tensor.shape)], [*map(int, tensor.stride())]]


def content_of(tensor: Tensor, most_bytes: int, most_characters: int) -> tuple[int, str]:
    """Return the size of a tensor's storage, and its bytes as they are now.

    Raises Unrecordable where they are too many.
    """
    if not has_storage(tensor):
        raise Unrecordable(ELSEWHERE)
    size = tensor.untyped_storage().nbytes()
    if size > most_bytes:
        raise Unrecordable(f"{size} bytes that were made before the call")
    data = base64.b64encode(zlib.compress(bytes_of(tensor).cpu().numpy().tobytes(), 1)).decode()
    if len(data) > most_characters:
        raise Unrecordable(f"a tensor of {size} bytes that no recorded operator made")
    return size, data
