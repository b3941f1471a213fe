"""Check the promises of `tl.assume`: compiled code relies on them, and goes wrong where one is false.

One kind of false promise is accepted: that a number is above 0, or at least 1, although it is 0. Tutorials promise this
of strides, and a stride may be 0.
"""

from __future__ import annotations

import ast
from typing import Any

import numpy as np

from grader.interpreter.groups import go_alone


class FalseAssumptionError(ValueError):
    """A promise of `tl.assume` that does not hold."""


def assumed(condition: Any, text: str) -> None:
    """Raise FalseAssumptionError where a condition is false; text: how the kernel writes it."""
    handle = getattr(condition, "handle", None)
    if not np.all(condition if handle is None else handle.data):
        # The message is about one program.
        go_alone()
        raise FalseAssumptionError(f"tl.assume promises {text}, and here that is false")


class CheckAssumptions(ast.NodeTransformer):
    """Rewrites `tl.assume(n > 0)` to `interpreter_semantic.assumed(n >= 0, "n > 0")`."""

    def visit_Call(self, node: ast.Call) -> ast.Call:
        """Rewrite an assumption; nothing else has this name in a module of the language."""
        self.generic_visit(node)
        if not isinstance(node.func, ast.Attribute) or node.func.attr != "assume" or len(node.args) != 1:
            return node
        text = ast.Constant(ast.unparse(node.args[0]))
        owner = ast.Name("interpreter_semantic", ast.Load())
        call = ast.Call(ast.Attribute(owner, "assumed", ast.Load()), [_AllowZero().visit(node.args[0]), text], [])
        return ast.fix_missing_locations(ast.copy_location(call, node))


class _AllowZero(ast.NodeTransformer):
    """Lets comparisons that a number is above 0, or at least 1, also hold for 0."""

    def visit_Compare(self, node: ast.Compare) -> ast.Compare:
        """Rewrite `n > 0` and `0 < n`, `n >= 1` and `1 <= n`."""
        terms = [node.left, *node.comparators]
        for place, operator in enumerate(node.ops):
            if isinstance(operator, ast.Gt) and _is(terms[place + 1], 0):
                node.ops[place] = ast.GtE()
            elif isinstance(operator, ast.Lt) and _is(terms[place], 0):
                node.ops[place] = ast.LtE()
            elif isinstance(operator, ast.GtE) and _is(terms[place + 1], 1):
                node.ops[place] = ast.Gt()
                node.comparators[place] = ast.copy_location(ast.Constant(-1), node)
            elif isinstance(operator, ast.LtE) and _is(terms[place], 1) and place == 0:
                node.ops[place] = ast.Lt()
                node.left = ast.copy_location(ast.Constant(-1), node)
        return node


def _is(term: ast.expr, number: int) -> bool:
    return isinstance(term, ast.Constant) and term.value == number
