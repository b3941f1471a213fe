"""Gives loop counters the methods of a Triton scalar.

The interpreter passes a Python int; in a compiled kernel the counter is a scalar (`i.to(tl.int64)`).
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from grader.interpreter.groups import counters_of_programs, programs_at_once

# A submission may replace Python's.
_RANGE = range
_OPERATORS = ("add", "sub", "mul", "floordiv", "mod", "and", "or", "xor", "lshift", "rshift")


class Index(int):
    """An int with the attributes of a Triton scalar; arithmetic with ints gives an Index again."""

    def to(self, *how: Any, **more: Any) -> Any:
        """Convert as tl.tensor.to does."""
        return _tensor(self).to(*how, **more)

    @property
    def dtype(self) -> Any:
        """Return tl.tensor.dtype."""
        return _tensor(self).dtype

    @property
    def type(self) -> Any:
        """Return tl.tensor.type."""
        return _tensor(self).type

    @property
    def shape(self) -> Any:
        """Return tl.tensor.shape."""
        return _tensor(self).shape


def _closed(operate: Callable[[int, Any], Any]) -> Callable[[int, Any], Any]:
    def operated(self: int, other: Any) -> Any:
        result = operate(self, other)
        return Index(result) if type(result) is int else result

    return operated


for _name in _OPERATORS:
    for _method in (f"__{_name}__", f"__r{_name}__"):
        setattr(Index, _method, _closed(getattr(int, _method)))


def _tensor(number: int) -> Any:
    from triton.runtime.interpreter import interpreter_semantic

    return interpreter_semantic.to_tensor(int(number), False)


def numbered(make: Callable[..., Iterable[Any]], *bounds: Any, **more: Any) -> Iterable[Any]:
    """Return the values of a kernel's loop over make(*bounds): the numbers of a range as Index; others unchanged.

    Where programs run in lockstep from different bounds, each value is a scalar that differs between the programs.
    """
    if programs_at_once() is not None:
        given = [*bounds, more["step"]] if "step" in more else bounds
        counters = counters_of_programs([getattr(one, "value", one) for one in given])
        if counters is not None:
            return map(_scalars, counters)
    things = make(*bounds, **more)
    return map(Index, things) if isinstance(things, _RANGE) else things


def _scalars(numbers: NDArray[np.int64]) -> Any:
    """Return a scalar of each program, int32, from an array [P]."""
    from triton.runtime.interpreter import TensorHandle, tl

    return tl.tensor(TensorHandle(numbers.astype(np.int32).reshape(-1, 1), tl.int32), tl.int32)


class WrapLoops(ast.NodeTransformer):
    """Rewrites `for i in range(n)` to `for i in interpreter_semantic.numbered(range, n)`."""

    def visit_For(self, node: ast.For) -> ast.For:
        """Rewrite a loop and the loops within it."""
        self.generic_visit(node)
        if isinstance(node.iter, ast.Call):
            place = ast.Name(id="interpreter_semantic", ctx=ast.Load())
            wrap = ast.Attribute(value=place, attr="numbered", ctx=ast.Load())
            node.iter.args.insert(0, node.iter.func)
            node.iter.func = ast.copy_location(wrap, node.iter)
        return node
