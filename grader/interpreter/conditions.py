"""Lets `and`, `or` and `not` work lane by lane on blocks, as a compiler does; Python asks for one truth value.

Triton says that this is deprecated, and compiles it.
"""

from __future__ import annotations

import ast
from itertools import count
from typing import Any

from grader.interpreter.trees import copied

_numbers = count()


def is_block(value: Any) -> bool:
    """Return whether a value of a kernel is a block."""
    from triton.runtime.interpreter import tl

    return isinstance(value, tl.tensor) and bool(value.type.is_block())


def joined(word: str, left: Any, right: Any) -> Any:
    """Return `left and right`, or `left or right`, of each lane."""
    left, right = _truth(left), _truth(right)
    return left & right if word == "and" else left | right


def negated(value: Any) -> Any:
    """Return `not value`, of each lane if it is a block."""
    return value == 0 if is_block(value) else not value


def _truth(value: Any) -> Any:
    from triton.runtime.interpreter import tl

    return value if not isinstance(value, tl.tensor) or value.dtype.is_int1() else value != 0


class JoinConditions(ast.NodeTransformer):
    """Rewrites `a and b` to `joined("and", a, b) if is_block(a) else a and b`, with `a` evaluated once."""

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        """Rewrite a chain of conditions, from the left."""
        self.generic_visit(node)
        word = "and" if isinstance(node.op, ast.And) else "or"
        left, *others = node.values
        for right in others:
            name = f"left of {word} {next(_numbers)}"
            kept = ast.NamedExpr(ast.Name(name, ast.Store()), left)
            left = ast.IfExp(
                _call("is_block", kept),
                _call("joined", ast.Constant(word), ast.Name(name, ast.Load()), right),
                ast.BoolOp(node.op, [ast.Name(name, ast.Load()), copied(right)]),
            )
        return ast.fix_missing_locations(ast.copy_location(left, node))

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        """Rewrite `not a`."""
        self.generic_visit(node)
        if not isinstance(node.op, ast.Not):
            return node
        return ast.fix_missing_locations(ast.copy_location(_call("negated", node.operand), node))


def _call(name: str, *values: ast.expr) -> ast.Call:
    owner = ast.Name("interpreter_semantic", ast.Load())
    return ast.Call(ast.Attribute(owner, name, ast.Load()), list(values), [])
