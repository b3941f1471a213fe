"""Load and store whole blocks by NumPy; the interpreter goes lane by lane, which takes ten times as long.

Reads and writes exactly the addresses that it is given: grader.interpreter.accesses.guard decides which those are.
"""

from __future__ import annotations

from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.random import default_rng
from numpy.typing import NDArray

from grader.protocol.requests import Lanes

Array = NDArray[Any]

# User-space addresses end below this.
_MOST_BYTES = 1 << 47


def load_and_store_blocks() -> None:
    """Patch this process's interpreter. Call it before every other patch of loads and stores."""
    from triton.runtime.interpreter import InterpreterBuilder, TensorHandle, _get_np_dtype

    def create_masked_load(_builder: Any, ptrs: Any, mask: Any, other: Any, *_: Any, **__: Any) -> Any:
        kind = ptrs.get_element_ty()
        dtype, active = np.dtype(_get_np_dtype(kind)), stretched(_lanes(mask), ptrs.data.shape)
        if active.all():
            return TensorHandle(read(ptrs.data, dtype), kind)
        loaded = np.zeros(active.shape, dtype)
        if other is not None:
            loaded[...] = other.data
        loaded[active] = read(ptrs.data[active], dtype)
        return TensorHandle(loaded, kind)

    def create_masked_store(_builder: Any, ptrs: Any, value: Any, mask: Any, *_: Any, **__: Any) -> None:
        active = stretched(_lanes(mask), ptrs.data.shape)
        if active.all():
            write(ptrs.data, value.data)
        else:
            write(ptrs.data[active], stretched(value.data, active.shape)[active])

    InterpreterBuilder.create_masked_load = create_masked_load
    InterpreterBuilder.create_masked_store = create_masked_store


def _lanes(mask: Any) -> Array:
    """Return the array of a mask; that of a block pointer is bare."""
    return mask if isinstance(mask, np.ndarray) else np.asarray(mask.data)


def stretched(data: Array, shape: tuple[int, ...]) -> Array:
    """Do as np.broadcast_to, in less than half the time: blocks are small, and every operation calls it.

    data: can be broadcast to `shape`. No caller stores into the result.
    """
    if data.shape == shape:
        return data
    if data.ndim != len(shape) or not data.size or not data.flags.c_contiguous:
        return np.broadcast_to(data, shape)
    steps = [step if have == wanted else 0 for have, wanted, step in zip(data.shape, shape, data.strides, strict=True)]
    made: Array = np.ndarray(shape, data.dtype, data, 0, steps)
    made.flags.writeable = False
    return made


def read(addresses: Array, dtype: np.dtype[Any]) -> Array:
    """Return the values of a dtype at addresses."""
    from triton.runtime.interpreter import _interpreter

    places = _places(addresses, dtype)
    if places is None:
        every = np.ones(addresses.shape, dtype=bool)
        return np.asarray(_interpreter.load(addresses, every, np.zeros(addresses.shape, dtype), dtype))
    return np.asarray(_memory(dtype)[places])


class LaneOrder:
    """Decides which lane wins if several lanes of a store or an exchange meet at one address: a GPU leaves it open.

    Usually that is the last one.
    """

    def __init__(self) -> None:
        self._order: Lanes = "last"
        self._chance = default_rng()

    def begin(self, order: Lanes, seed: int) -> None:
        """Start over with a call."""
        self._order, self._chance = order, default_rng(seed)

    def of(self, lanes: int) -> NDArray[np.int64] | None:
        """Return the order in which so many lanes act; None for their own."""
        if self._order == "last":
            return None
        return np.arange(lanes)[::-1] if self._order == "first" else self._chance.permutation(lanes)


LANE_ORDER = LaneOrder()


def write(addresses: Array, values: Array) -> None:
    """Store values at addresses; if several have one address, the last one wins, or another by LANE_ORDER."""
    from triton.runtime.interpreter import _interpreter

    if (order := LANE_ORDER.of(addresses.size)) is not None:
        values = np.broadcast_to(values, addresses.shape).reshape(-1)[order]
        addresses = addresses.reshape(-1)[order]
    places = _places(addresses, values.dtype)
    if places is None:
        _interpreter.store(addresses, np.broadcast_to(values, addresses.shape), np.ones(addresses.shape, dtype=bool))
    else:
        _memory(values.dtype)[places] = values


def _places(addresses: Array, dtype: np.dtype[Any]) -> NDArray[np.int64] | None:
    """Return the places of addresses in _memory, or None where an address is no multiple of the element's size."""
    if dtype.itemsize > 1 and (addresses & np.uint64(dtype.itemsize - 1)).any():
        return None
    return (addresses >> np.uint64(dtype.itemsize.bit_length() - 1)).view(np.int64) - 1


@cache
def _memory(dtype: np.dtype[Any]) -> Array:
    """Return the whole memory of this process as an array, from the second element on: no array begins at 0."""
    count = _MOST_BYTES // dtype.itemsize - 1
    made = {"data": (dtype.itemsize, False), "shape": (count,), "typestr": dtype.str, "version": 3}
    return np.asarray(SimpleNamespace(__array_interface__=made))
