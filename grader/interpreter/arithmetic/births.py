"""Note where a kernel makes infinities and NaN out of finite numbers, and put a number there if asked to.

A result that is finite with a number in their place got its infinities and NaN there.
"""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from grader.interpreter.groups import programs_at_once
from grader.interpreter.places import running_line
from grader.interpreter.switched import Method, Switched
from grader.protocol.observations import Birth

# The most births that are reported: the first of each line, of infinities and of NaN.
_MOST = 16
# The most masks of each length that are kept: those of the loads of a step.
_LATEST = 8
# The number in place of a settled birth: neither a sum nor a product of it is NaN.
_SETTLED = 1.0
# Words of NumPy's operations on two operands.
_SIGNS = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/", "true_divide": "/"}

_Floats = NDArray[Any]
_Flags = NDArray[np.bool_]


class Births:
    """Notes births while it is switched on. Off, it costs nothing."""

    def __init__(self) -> None:
        self._settled: frozenset[int] = frozenset()
        self._found: dict[tuple[int, str], Birth] = {}
        self._on = False
        # Of the latest masked loads, by the length of an axis: the places that the mask leaves out, [P, length].
        self._left_out: dict[int, deque[_Flags]] = {}
        self._methods = Switched(self._noting)

    @property
    def found(self) -> tuple[Birth, ...]:
        """Return the births since the last switch, in the order in which they happened."""
        return tuple(self._found.values())

    def switch(self, on: bool, settled: Collection[int] = ()) -> None:
        """Note births from now on, or no longer. settled: lines whose births become a number."""
        self._settled = frozenset(settled)
        self._found.clear()
        self._on = on
        self._left_out.clear()
        self._methods.switch(on)

    def note_mask(self, mask: _Flags) -> None:
        """Note the mask of a load that leaves lanes out."""
        if not self._on:
            return
        for length, taken in _along_axes(mask):
            if not taken.all():
                self._left_out.setdefault(length, deque(maxlen=_LATEST)).append(~taken)

    def _is_padded(self, born: _Flags) -> bool:
        """Return whether births lie, along one axis, only where a mask left lanes out."""
        return any(
            not (where & ~left).any()
            for length, where in _along_axes(born)
            for left in self._left_out.get(length, ())
            if len(left) in (1, len(where))
        )

    def _noting(self) -> Iterator[Method]:
        from triton.runtime.interpreter import InterpreterBuilder

        for name, born_in in _BORN_IN.items():
            plain = getattr(InterpreterBuilder, name)
            yield InterpreterBuilder, name, plain, self._around(plain, name, born_in)

    def _around(self, method: Callable[..., Any], name: str, born_in: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def noting(builder: Any, *operands: Any) -> Any:
            result = method(builder, *operands)
            data = result.data
            if data.dtype.kind != "f" or bool(np.isfinite(data).all()):
                return result
            values = [one.data for one in operands if hasattr(one, "data") and one.data.dtype.kind == "f"]
            with np.errstate(all="ignore"):
                nan, infinite = born_in(data, values)
            line = running_line()[0]
            made: tuple[tuple[Literal["inf", "nan"], _Floats], ...] = (("inf", infinite), ("nan", nan))
            for kind, born in made:
                if bool(born.any()):
                    operation = f"as {data.dtype}" if name == "cast_impl" else getattr(operands[-1], "__name__", "")
                    words = _words(operation, values, born, data)
                    padded = self._is_padded(np.broadcast_to(born, data.shape))
                    self._note(Birth(line, kind, words, padded))
            if line in self._settled:
                # A mask that multiplies is meant to leave 0.
                numbers = np.where(nan, 0.0, _SETTLED) if operands[-1] is np.multiply else _SETTLED
                result.data = np.where(nan | infinite, numbers, data).astype(data.dtype)
            return result

        return noting

    def _note(self, birth: Birth) -> None:
        known = self._found.get((birth.line, birth.made))
        if known is None and len(self._found) < _MOST:
            self._found[birth.line, birth.made] = birth
        elif known and known.padded and not birth.padded:
            self._found[birth.line, birth.made] = replace(known, padded=False)


def _along_axes(flags: _Flags) -> Iterator[tuple[int, _Flags]]:
    """Yield, for each axis of a block, its length and the places along it with a set flag, [P, length]."""
    blocks = flags[None] if programs_at_once() is None else flags
    for axis in range(1, blocks.ndim):
        others = tuple(other for other in range(1, blocks.ndim) if other != axis)
        yield blocks.shape[axis], np.asarray(blocks.any(axis=others))


def _elements_of(data: _Floats, operands: list[_Floats]) -> tuple[_Floats, _Floats]:
    """Return where an operation made NaN, and infinities, element by element."""
    got_nan, got_infinite = np.zeros((), bool), np.zeros((), bool)
    for one in operands:
        got_nan, got_infinite = got_nan | np.isnan(one), got_infinite | np.isinf(one)
    return np.isnan(data) & ~got_nan, np.isinf(data) & ~got_infinite & ~got_nan


def _elements_of_product(data: _Floats, operands: list[_Floats]) -> tuple[_Floats, _Floats]:
    """Return where a matrix product made NaN, and infinities: everywhere or nowhere, for it reads whole rows."""
    got_nan = any(bool(np.isnan(one).any()) for one in operands)
    got_infinite = any(bool(np.isinf(one).any()) for one in operands)
    nan = np.isnan(data) & (not got_nan)
    return nan, np.isinf(data) & (not got_nan) & (not got_infinite)


def _words(operation: str, operands: list[_Floats], born: _Floats, data: _Floats) -> str:
    """Return the first birth of an operation in words: `-inf - -inf`, `exp2(434.2)`, `1e+05 as float16`."""
    first = int(np.argmax(born.reshape(-1)))
    try:
        numbers = [f"{float(np.broadcast_to(one, data.shape).reshape(-1)[first]):.4g}" for one in operands]
    except ValueError:
        # The rows and columns of a matrix product.
        numbers = []
    if len(numbers) == 2 and operation in _SIGNS:
        return f"{numbers[0]} {_SIGNS[operation]} {numbers[1]}"
    if operation.startswith("as "):
        return f"{numbers[0]} {operation}"
    if operation and len(numbers) == 1:
        return f"{operation}({numbers[0]})"
    return "a sum of products"


# By the builder's method: a function that finds where it made NaN, and infinities.
_BORN_IN = {
    **dict.fromkeys(("binary_op", "unary_op", "cast_impl"), _elements_of),
    "create_dot": _elements_of_product,
}

BIRTHS = Births()
