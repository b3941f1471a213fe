"""The number of a loop: for the interpreter Python's, in a compiled kernel a scalar of triton's with its methods."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from typing import Any

# A submission may put something else in the place of Python's.
_RANGE = range
_OPERATORS = ("add", "sub", "mul", "floordiv", "mod", "and", "or", "xor", "lshift", "rshift")


class Index(int):
    """An int that can be asked what a scalar of triton's can be; what is computed from it and ints is one, too."""

    def to(self, *how: Any, **more: Any) -> Any:
        """As tl.tensor.to."""
        return _tensor(self).to(*how, **more)

    @property
    def dtype(self) -> Any:
        """As tl.tensor.dtype."""
        return _tensor(self).dtype

    @property
    def type(self) -> Any:
        """As tl.tensor.type."""
        return _tensor(self).type

    @property
    def shape(self) -> Any:
        """As tl.tensor.shape."""
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
    """What a kernel's loop goes through: the numbers of a range as those of triton's; anything else as it is."""
    return map(Index, things) if isinstance(things, _RANGE) else things


class WrapLoops(ast.NodeTransformer):
    """Rewrites `for i in things` to `for i in interpreter_semantic.numbered(things)`."""

    def visit_For(self, node: ast.For) -> ast.For:
        """A loop, and those within it."""
        self.generic_visit(node)
        place = ast.Name(id="interpreter_semantic", ctx=ast.Load())
        wrap = ast.Attribute(value=place, attr="numbered", ctx=ast.Load())
        node.iter = ast.copy_location(ast.Call(func=wrap, args=[node.iter], keywords=[]), node.iter)
        return node
