"""Check the hints that kernels give the compiler: tl.multiple_of, tl.max_contiguous and tl.max_constancy.

Compiled code relies on them: it takes several elements at once if neighbours are promised, and goes wrong if a promise
is false. One false promise is mostly harmless in loads, and real code makes it: indices that start again at 0 at the
end of a tile, as `rows % M` do. On a GPU such a load may meet a misaligned address; here it passes. A store through
such indices is reported.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from grader.interpreter.gather import stretched
from grader.interpreter.groups import go_alone, programs_at_once
from grader.interpreter.lowering import value_was_read

Array = NDArray[Any]

# Indices that start again at 0, [P, L] or [L], though neighbours were promised: the latest ones.
_WRAPPED: deque[Array] = deque(maxlen=8)


def hold_to_promises() -> None:
    """Raise ValueError where a hint is false, and TypeError for a hint about a constant, which does not compile."""
    from triton.runtime import interpreter
    from triton.runtime.interpreter import InterpreterBuilder, TensorHandle, tl

    set_attr, store = TensorHandle.set_attr, InterpreterBuilder.create_masked_store
    patch = interpreter._patch_lang_core

    def checked(self: Any, key: str, value: Any) -> None:
        value_was_read()
        check, counts = _CHECKS.get(key), [int(one) for one in value]
        if check is not None and self.data.size:
            is_pointer = self.dtype.is_ptr()
            unit = max(1, self.dtype.element_ty.primitive_bitwidth // 8) if is_pointer else 1
            if problem := check(np.atleast_1d(self.data), counts, unit, is_pointer):
                # The message is about one program.
                go_alone()
                raise ValueError(problem)
        set_attr(self, key, value)

    def create_masked_store(self: Any, ptrs: Any, value: Any, mask: Any, *how: Any, **named: Any) -> Any:
        if _WRAPPED and _goes_through_wrapped(ptrs, mask):
            go_alone()
            raise ValueError(
                "tl.max_contiguous promises neighbours, and the indices of this store start again in between: a GPU "
                "stores several elements at once, beyond the end"
            )
        return store(self, ptrs, value, mask, *how, **named)

    def about_tensors(name: str, promise: Callable[..., Any]) -> Callable[..., Any]:
        def promised(input: Any, values: Any) -> Any:
            if not isinstance(input, tl.tensor):
                raise TypeError(f"tl.{name} promises something of a tensor, and here it gets the constant {input}")
            return promise(input, values)

        return promised

    def patched(lang: Any, scope: Any) -> None:
        patch(lang, scope)
        for name in ("multiple_of", "max_contiguous", "max_constancy"):
            scope.set_attr(lang, name, about_tensors(name, getattr(lang, name)))

    TensorHandle.set_attr = checked
    InterpreterBuilder.create_masked_store = create_masked_store
    interpreter._patch_lang_core = patched


def forget_promises() -> None:
    """Forget what an earlier launch promised."""
    _WRAPPED.clear()


def _axes(data: Array, counts: Sequence[int]) -> list[tuple[int, int]]:
    """Return the axes of a block that a hint is about, and its count for each. Programs in lockstep are no axis."""
    first = data.ndim - len(counts)
    return [(first + place, count) for place, count in enumerate(counts) if count > 1]


def _steps(data: Array, axis: int) -> Array:
    """Return by how much each element along an axis exceeds the one before; addresses have no sign."""
    return np.diff(data.astype(np.int64), axis=axis)


def _false_multiple(data: Array, counts: Sequence[int], unit: int, is_pointer: bool) -> str:
    """Return what is wrong with a promise of multiples: the first element of each run of neighbours must be one.

    A block along several axes is looked at along those that have runs. Without runs, every element counts; but one of
    pointers is harmless then: the compiler takes several elements at once along an axis of neighbours alone.
    """
    axes = _axes(data, counts)
    steps = {axis: _steps(data, axis) == unit for axis, _ in axes}
    with_runs = [one for one in axes if steps[one[0]].any()]
    harmless = is_pointer and len(counts) > 1
    for axis, multiple in with_runs or ([] if harmless else axes):
        begins = np.insert(~steps[axis], 0, values=True, axis=axis)
        starts = data[begins]
        past = starts % np.asarray(multiple, starts.dtype)
        if past.any():
            wrong = int(np.flatnonzero(past)[0])
            if is_pointer:
                rule = (
                    f"an address that is a multiple of {multiple} bytes, and this one is {past[wrong]} bytes past one"
                )
            else:
                rule = f"a multiple of {multiple}, and here one is {starts[wrong]}"
            return f"tl.multiple_of promises {rule}"
    return ""


def _false_constancy(data: Array, counts: Sequence[int], _unit: int, _is_pointer: bool) -> str:
    """Return what is wrong with a promise of equal neighbours."""
    for axis, count in _axes(data, counts):
        inner = _inside_groups(data.shape[axis], count)
        changes = np.moveaxis(_steps(data, axis) != 0, axis, -1)[..., inner]
        if changes.any():
            return f"tl.max_constancy promises that {count} neighbours are equal, and here they are not"
    return ""


def _false_contiguity(data: Array, counts: Sequence[int], unit: int, _is_pointer: bool) -> str:
    """Return what is wrong with a promise of neighbours. Indices that start again are kept for the stores to come."""
    for axis, count in _axes(data, counts):
        inner = _inside_groups(data.shape[axis], count)
        steps = np.moveaxis(_steps(data, axis), axis, -1)[..., inner]
        if (steps > unit).any():
            return f"tl.max_contiguous promises {count} neighbours, and here some are not"
        if (steps <= 0).any() and len(counts) == 1:
            _WRAPPED.append(data.copy())
    return ""


def _inside_groups(length: int, count: int) -> Array:
    """Return for each step between two elements of an axis whether both are in the same group of so many."""
    inside: Array = np.arange(1, length) % count != 0
    return inside


def _goes_through_wrapped(ptrs: Any, mask: Any) -> bool:
    """Return whether the pointers of a store, all active, have the distances of indices that start again."""
    pointers = ptrs.data.astype(np.int64)
    unit = max(1, ptrs.get_element_ty().primitive_bitwidth // 8)
    lanes = stretched(mask if isinstance(mask, np.ndarray) else mask.data, pointers.shape)
    at_once = programs_at_once() is not None
    return any(
        _lie_apart_as(one, pointers if at_once else pointers[None], lanes if at_once else lanes[None], unit)
        for one in (each if at_once else each[None] for each in _WRAPPED)
        if one.ndim == 2
    )


def _lie_apart_as(indices: Array, pointers: Array, lanes: Array, unit: int) -> bool:
    """Return whether all lanes of a program are active, and its pointers lie apart as indices that start again.

    indices: [P, L]; pointers, lanes: [P, …]; a program's first line along an axis of L elements is compared.
    """
    wanted = (indices - indices[:, :1]) * unit
    restarts = (np.diff(wanted, axis=1) <= 0).any(1)
    full = lanes.reshape(len(lanes), -1).all(1)
    for axis in range(1, pointers.ndim):
        if pointers.shape[axis] == indices.shape[1]:
            lines = np.moveaxis(pointers, axis, -1).reshape(len(pointers), -1, indices.shape[1])[:, 0]
            alike = (lines - lines[:, :1] == wanted).all(1)
            if bool((alike & restarts & full).any()):
                return True
    return False


_CHECKS: dict[str, Callable[[Array, Sequence[int], int, bool], str]] = {
    "tt.divisibility": _false_multiple,
    "tt.constancy": _false_constancy,
    "tt.contiguity": _false_contiguity,
}
