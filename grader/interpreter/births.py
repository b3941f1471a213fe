"""Notes where a kernel makes infinities and NaN out of finite numbers, and may put a number in their place.

A result that is finite with a number in their place got its infinities and NaN there.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterator
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from grader.interpreter.lowering import forget_lowered
from grader.interpreter.memory import running_line
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
        self._is_on = False
        self._settled: frozenset[int] = frozenset()
        self._found: dict[tuple[int, str], Birth] = {}
        # A method's name, and the method without and with notes.
        self._methods: list[tuple[str, Any, Any]] = []

    @property
    def found(self) -> tuple[Birth, ...]:
        """Return the births since the last switch, in the order in which they happened."""
        return tuple(self._found.values())

    def switch(self, on: bool, settled: Collection[int] = ()) -> None:
        """Note births from now on, or no longer. settled: lines whose births become a number.

        The first time, call it after every patch of the interpreter's builder.
        """
        self._settled = frozenset(settled)
        self._found.clear()
        if on == self._is_on:
            return
        from triton.runtime.interpreter import InterpreterBuilder

        self._methods = self._methods or [*self._noting(InterpreterBuilder)]
        for name, plain, noting in self._methods:
            setattr(InterpreterBuilder, name, noting if on else plain)
        self._is_on = on
        # The cache holds the methods that it was made with.
        forget_lowered()

    def _noting(self, builder: Any) -> Iterator[tuple[str, Any, Any]]:
        for name in ("binary_op", "unary_op"):
            plain = getattr(builder, name)
            yield name, plain, self._around(plain, _elements_of)
        yield "create_dot", builder.create_dot, self._around(builder.create_dot, _elements_of_product)

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


BIRTHS = Births()


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
