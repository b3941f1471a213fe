"""Notes where a kernel makes infinities and NaN out of finite numbers, and may put a number in their place.

A result that is finite with a number in their place got its infinities and NaN there.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterator
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from grader.interpreter.places import running_line
from grader.interpreter.switched import Method, Switched
from grader.protocol.messages import Birth

# Births that are told: the first of each line, of infinities and of NaN.
_MOST = 16
# What stands in place of a settled birth: neither a sum nor a product of it is NaN.
_SETTLED = 1.0
# Words of NumPy's operations on two operands.
_SIGNS = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/", "true_divide": "/"}

_Floats = NDArray[Any]


class Births:
    """Notes births while it is switched on. Off, it costs nothing."""

    def __init__(self) -> None:
        self._settled: frozenset[int] = frozenset()
        self._found: dict[tuple[int, str], Birth] = {}
        self._methods = Switched(self._noting)

    @property
    def found(self) -> tuple[Birth, ...]:
        """Return the births since the last switch, in the order in which they happened."""
        return tuple(self._found.values())

    def switch(self, on: bool, settled: Collection[int] = ()) -> None:
        """Note births from now on, or no longer. settled: lines whose births become a number."""
        self._settled = frozenset(settled)
        self._found.clear()
        self._methods.switch(on)

    def _noting(self) -> Iterator[Method]:
        from triton.runtime.interpreter import InterpreterBuilder

        for name, born_in in _BORN_IN.items():
            plain = getattr(InterpreterBuilder, name)
            yield InterpreterBuilder, name, plain, self._around(plain, born_in)

    def _around(self, method: Callable[..., Any], born_in: Callable[..., Any]) -> Callable[..., Any]:
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
                    words = _words(getattr(operands[-1], "__name__", ""), values, born, data)
                    self._note(Birth(line, kind, words))
            if line in self._settled:
                result.data = np.where(nan | infinite, data.dtype.type(_SETTLED), data)
            return result

        return noting

    def _note(self, birth: Birth) -> None:
        if len(self._found) < _MOST:
            self._found.setdefault((birth.line, birth.made), birth)


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
    """Return the first birth of an operation in words: `-inf - -inf`, `exp2(434.2)`."""
    first = int(np.argmax(born.reshape(-1)))
    try:
        numbers = [f"{float(np.broadcast_to(one, data.shape).reshape(-1)[first]):.4g}" for one in operands]
    except ValueError:
        # The rows and columns of a matrix product.
        numbers = []
    if len(numbers) == 2 and operation in _SIGNS:
        return f"{numbers[0]} {_SIGNS[operation]} {numbers[1]}"
    if operation and len(numbers) == 1:
        return f"{operation}({numbers[0]})"
    return "a sum of products"


# By the builder's method: tells where it made NaN, and infinities.
_BORN_IN = {"binary_op": _elements_of, "unary_op": _elements_of, "create_dot": _elements_of_product}

BIRTHS = Births()
