"""Rewrite a checked tree where Python would do more than Triton does.

What a rewritten tree calls has names that no Python text can contain; `helpers` returns the functions behind them.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

import triton.language as tl

from grader.replay.checking import Checked
from grader.replay.text import Function
from grader.replay.values import RefusedFunction, Unusable, fields_of, text_of

LANGUAGE, _FIELD, CONSTEXPR = "triton.language", "field of", "tl.constexpr"
_TEXT, _REMAINDER, _SORTED = "text of", "remainder of", "what is sorted"
_CONDITION = "condition that is known"


def helpers() -> dict[str, object]:
    """Return the values of the names that rewritten trees use."""
    return {
        LANGUAGE: tl,
        CONSTEXPR: tl.constexpr,
        _FIELD: _field_of,
        _TEXT: text_of,
        _REMAINDER: _remainder,
        _SORTED: _sorted,
        _CONDITION: _require_constant,
    }


def rewrite_fields(tree: Function, found: Checked) -> Function:
    """Rewrite attributes that no Triton value has: they read fields of records and named tuples. Changes the tree."""
    return _Fields(found).visit(tree)  # type: ignore[no-any-return]


def rewrite_conditions(tree: Function, found: Checked) -> Function:
    """Let conditions of branches with refused code test whether Triton would leave a branch out. Changes the tree."""
    return _Conditions(found).visit(tree)  # type: ignore[no-any-return]


def rewrite_operators(module: ast.Module) -> ast.Module:
    """Rewrite operators that change a value in place, or make a text of anything but numbers. Changes the module."""
    return _Pure().visit(module)  # type: ignore[no-any-return]


class _Fields(ast.NodeTransformer):
    def __init__(self, found: Checked) -> None:
        self._fields = {id(one) for one in found.fields}

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        ours = id(node) in self._fields
        self.generic_visit(node)
        if not ours:
            return node
        call = ast.Call(ast.Name(_FIELD, ast.Load()), [node.value, ast.Constant(node.attr)], [])
        return ast.fix_missing_locations(ast.copy_location(call, node))


class _Conditions(ast.NodeTransformer):
    def __init__(self, found: Checked) -> None:
        self._conditions = found.conditions

    def visit_If(self, node: ast.If) -> ast.stmt:
        refusal = self._conditions.get(id(node))
        self.generic_visit(node)
        if refusal:
            node.test = _call_of(_CONDITION, node.test, node.test, ast.Name(refusal, ast.Load()))
        return node

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        refusal = self._conditions.get(id(node))
        self.generic_visit(node)
        if refusal:
            node.test = _call_of(_CONDITION, node.test, node.test, ast.Name(refusal, ast.Load()))
        return node


class _Pure(ast.NodeTransformer):
    def visit_AugAssign(self, node: ast.AugAssign) -> ast.stmt:
        assert isinstance(node.target, ast.Name)
        before = ast.copy_location(ast.Name(node.target.id, ast.Load()), node.target)
        after = ast.copy_location(ast.BinOp(before, node.op, node.value), node)
        return ast.copy_location(ast.Assign([node.target], self.visit(after)), node)

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        self.generic_visit(node)
        return _call_of(_REMAINDER, node, node.left, node.right) if isinstance(node.op, ast.Mod) else node

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        self.generic_visit(node)
        if node.attr == "sort":
            # The only method that tensors and lists share; it changes a list.
            node.value = _call_of(_SORTED, node.value, node.value)
        return node

    def visit_FormattedValue(self, node: ast.FormattedValue) -> ast.expr:
        self.generic_visit(node)
        how = ast.Constant(chr(node.conversion) if node.conversion > 0 else "s")
        node.value, node.conversion = _call_of(_TEXT, node.value, node.value, how), -1
        return node


def _call_of(name: str, place: ast.expr, *operands: ast.expr) -> ast.expr:
    call = ast.Call(ast.Name(name, ast.Load()), list(operands), [])
    return ast.fix_missing_locations(ast.copy_location(call, place))


def _require_constant(condition: Any, refuse: Callable[[], None]) -> Any:
    """Return a condition that is known at compile time. Refuses any other: both branches would be compiled."""
    if isinstance(condition, tl.tensor):
        refuse()
    return condition


def _field_of(value: Any, name: str) -> object:
    """Return a field of a record or a named tuple."""
    known = fields_of(value.value if type(value) is tl.constexpr else value)
    if isinstance(value, Unusable):
        raise RefusedFunction(0, value.rule, python=False)
    if name not in known:
        raise AttributeError(f"a {type(value).__name__} has no {name}")
    return known[name]


def _remainder(left: Any, right: Any) -> Any:
    """Return `left % right`. Raises TypeError for a text on the left, which % would format."""
    if isinstance(left.value if type(left) is tl.constexpr else left, str | bytes):
        raise TypeError("a kernel formats no text with `%`: write an f-string")
    return left % right


def _sorted(value: Any) -> Any:
    if isinstance(value.value if type(value) is tl.constexpr else value, list):
        raise TypeError("a kernel sorts no list: write tl.sort for a tensor")
    return value
