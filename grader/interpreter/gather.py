"""Loads and stores whole blocks by NumPy; the interpreter goes lane by lane, which takes ten times as long.

Reads and writes exactly the addresses that it is given: grader.interpreter.guard decides which those are.
"""

from __future__ import annotations

from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

# User-space addresses end below this.
_MOST_BYTES = 1 << 47


def load_and_store_blocks() -> None:
    """Patch this process's interpreter. Call it before every other patch of loads and stores."""
    from triton.runtime.interpreter import InterpreterBuilder, TensorHandle, _get_np_dtype

    lane_by_lane = InterpreterBuilder.create_masked_load, InterpreterBuilder.create_masked_store

    def create_masked_load(
        self: Any, ptrs: Any, mask: Any, other: Any, cache_modifier: Any, eviction_policy: Any, is_volatile: Any
    ) -> Any:
        kind = ptrs.get_element_ty()
        places = _places(ptrs.data, np.dtype(_get_np_dtype(kind)))
        if places is None or other is None:
            return lane_by_lane[0](self, ptrs, mask, other, cache_modifier, eviction_policy, is_volatile)
        memory, active = _memory(np.dtype(_get_np_dtype(kind))), np.broadcast_to(mask.data, places.shape)
        if active.all():
            return TensorHandle(memory[places], kind)
        loaded = np.broadcast_to(other.data, places.shape).astype(memory.dtype)
        loaded[active] = memory[places[active]]
        return TensorHandle(loaded, kind)

    def create_masked_store(
        self: Any, ptrs: Any, value: Any, mask: Any, cache_modifier: Any, eviction_policy: Any
    ) -> Any:
        places = _places(ptrs.data, value.data.dtype)
        if places is None:
            return lane_by_lane[1](self, ptrs, value, mask, cache_modifier, eviction_policy)
        memory, active = _memory(value.data.dtype), np.broadcast_to(mask.data, places.shape)
        if active.all():
            memory[places] = value.data
        else:
            memory[places[active]] = np.broadcast_to(value.data, places.shape)[active]
        return None

    InterpreterBuilder.create_masked_load = create_masked_load
    InterpreterBuilder.create_masked_store = create_masked_store


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
