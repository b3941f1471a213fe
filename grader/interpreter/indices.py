"""Gives loop counters the methods of a Triton scalar.

The interpreter passes a Python int; in a compiled kernel the counter is a scalar (`i.to(tl.int64)`).
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from typing import Any

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


def numbered(things: Iterable[Any]) -> Iterable[Any]:
    """Return the values of a kernel's loop: the numbers of a range as Index; anything else unchanged."""
    return map(Index, things) if isinstance(things, _RANGE) else things


class WrapLoops(ast.NodeTransformer):
    """Rewrites `for i in things` to `for i in interpreter_semantic.numbered(things)`."""

    def visit_For(self, node: ast.For) -> ast.For:
        """Rewrite a loop and the loops within it."""
        self.generic_visit(node)
        place = ast.Name(id="interpreter_semantic", ctx=ast.Load())
        wrap = ast.Attribute(value=place, attr="numbered", ctx=ast.Load())
        node.iter = ast.copy_location(ast.Call(func=wrap, args=[node.iter], keywords=[]), node.iter)
        return node
