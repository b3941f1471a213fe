"""Let `and`, `or` and `not` do what compiled code does; Python asks for one truth value, and stops at it.

A compiler computes every operand, unless a constant before it decides. Constants that do not decide drop out. The rest
must hold truth values, and is combined lane by lane; for blocks, Triton calls this deprecated.
"""

from __future__ import annotations

import ast
from itertools import count
from typing import Any

_numbers = count()


def settled(word: str, value: Any) -> bool:
    """Return whether a constant decides `value and …`, or `value or …`: the rest is then not computed."""
    return not _is_tensor(value) and bool(value) == (word == "or")


def joined(word: str, left: Any, right: Any) -> Any:
    """Return `left and right`, or `left or right`, if `left` does not settle it.

    Raises TypeError for two tensors that hold no truth values.
    """
    if not _is_tensor(left) or settled(word, right):
        return right
    if not _is_tensor(right):
        return left
    for one in (left, right):
        if not one.dtype.is_int1():
            raise TypeError(f"`{word}` joins truth values, and here it gets {one.dtype}: compare it, as in `n != 0`")
    return left & right if word == "and" else left | right


def negated(value: Any) -> Any:
    """Return `not value`, lane by lane. Raises TypeError for a tensor that holds no truth values."""
    if not _is_tensor(value):
        return not value
    if not value.dtype.is_int1():
        raise TypeError(f"`not` takes truth values, and here it gets {value.dtype}: compare it, as in `n == 0`")
    return value == 0


def _is_tensor(value: Any) -> bool:
    from triton.runtime.interpreter import tl

    return isinstance(value, tl.tensor)


class JoinConditions(ast.NodeTransformer):
    """Rewrites `a and b` to `a if settled("and", a) else joined("and", a, b)`, with `a` evaluated once."""

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        """Rewrite a chain of conditions, from the right."""
        self.generic_visit(node)
        spelled = "and" if isinstance(node.op, ast.And) else "or"
        word = ast.Constant(spelled)
        *others, rest = node.values
        for left in reversed(others):
            name = f"left of {spelled} {next(_numbers)}"
            kept, again = ast.NamedExpr(ast.Name(name, ast.Store()), left), ast.Name(name, ast.Load())
            rest = ast.IfExp(_call("settled", word, kept), again, _call("joined", word, again, rest))
        return ast.fix_missing_locations(ast.copy_location(rest, node))

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        """Rewrite `not a`."""
        self.generic_visit(node)
        if not isinstance(node.op, ast.Not):
            return node
        return ast.fix_missing_locations(ast.copy_location(_call("negated", node.operand), node))


def _call(name: str, *values: ast.expr) -> ast.Call:
    owner = ast.Name("interpreter_semantic", ast.Load())
    return ast.Call(ast.Attribute(owner, name, ast.Load()), list(values), [])
