"""Rewrite a line of a kernel into what its author meant: `tl.arange` for range, `&` for `and`, tl.load for brackets.

Takes a line of code, or its syntax tree; gives text for a message. Runs nothing.
"""

from __future__ import annotations

import ast

from grader.syntax import conditions_apart, tree_of

_MOST_CODE = 100
# Python's own functions for trees recurse several times per level, and raise RecursionError.
_MOST_LEVELS = 50


def parsed(code: str) -> ast.stmt | None:
    """Return the syntax tree of a line, such as `if a < b:`; None for a part of a statement, or a deep expression."""
    for text in (code, f"{code} pass"):
        try:
            return tree_of(text, _MOST_LEVELS).body[0]
        except (SyntaxError, ValueError, IndexError, RecursionError, MemoryError):
            continue
    return None


def last_name(node: ast.expr) -> str:
    """Return the last part of a dotted name: load of tl.load; "" for another expression."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def quoted(node: ast.AST) -> str:
    """Return a tree as code in backquotes; "" if it is too long to read."""
    text = ast.unparse(ast.fix_missing_locations(node))
    return f"`{text}`" if len(text) <= _MOST_CODE and "\n" not in text else ""


def _rewritten(tree: ast.stmt | None, change: ast.NodeTransformer) -> str:
    """Return a changed line in backquotes, or only the condition of an `if` or `while`; "" if nothing changes."""
    if tree is None:
        return ""
    node: ast.AST = tree.test if isinstance(tree, ast.If | ast.While) else tree
    before = ast.unparse(node)
    text = quoted(change.visit(node))
    return "" if text == f"`{before}`" else text


class _ToArange(ast.NodeTransformer):
    """Rewrites range(…) and tl.range(…) to tl.arange(0, …)."""

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        if last_name(node.func) not in ("range", "static_range"):
            return node
        bounds = node.args if len(node.args) > 1 else [ast.Constant(0), *node.args]
        return ast.Call(ast.Attribute(ast.Name("tl", ast.Load()), "arange", ast.Load()), bounds[:2], [])


class _ToLanes(ast.NodeTransformer):
    """Rewrites and, or and not to &, | and ~, a < b < c to (a < b) & (b < c), and puts a < b & c < d into brackets."""

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        self.generic_visit(node)
        sign = ast.BitAnd() if isinstance(node.op, ast.And) else ast.BitOr()
        joined = node.values[0]
        for one in node.values[1:]:
            joined = ast.BinOp(joined, sign, one)
        return joined

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        self.generic_visit(node)
        return ast.UnaryOp(ast.Invert(), node.operand) if isinstance(node.op, ast.Not) else node

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        self.generic_visit(node)
        return conditions_apart(node) if len(node.ops) > 1 else node


class _ToLoad(ast.NodeTransformer):
    """Rewrites x_ptr[i] to tl.load(x_ptr + i, mask=mask)."""

    def visit_Call(self, node: ast.Call) -> ast.expr:
        if last_name(node.func) in ("load", "store") and node.args and isinstance(node.args[0], ast.Subscript):
            # It is a load already: only its pointer is written as an element.
            node.args[0] = ast.BinOp(node.args[0].value, ast.Add(), node.args[0].slice)
        self.generic_visit(node)
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        self.generic_visit(node)
        if not is_place(node.slice) or isinstance(node.slice, ast.Tuple):
            return node
        mask = ast.keyword("mask", ast.Name("mask", ast.Load()))
        load = ast.Attribute(ast.Name("tl", ast.Load()), "load", ast.Load())
        return ast.Call(load, [ast.BinOp(node.value, ast.Add(), node.slice)], [mask])


def is_place(index: ast.expr) -> bool:
    """Return whether an index asks for an element. One of None, `:` and `...` makes a view."""
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    return not any(isinstance(one, ast.Slice) or (isinstance(one, ast.Constant) and one.value is None) for one in parts)


def element_in(tree: ast.stmt | None) -> ast.Subscript | None:
    """Return an element of the line that is reached by its index, or None."""
    for node in ast.walk(tree or ast.Pass()):
        if isinstance(node, ast.Subscript) and is_place(node.slice):
            return node
    return None


def with_arange(tree: ast.stmt | None) -> str:
    """Return a line in backquotes with tl.arange(0, …) instead of range(…); "" if it has no range."""
    return _rewritten(tree, _ToArange())


def with_signs(tree: ast.stmt | None) -> str:
    """Return a line in backquotes with & instead of `and`, and without chained comparisons; "" if it has none."""
    return _rewritten(tree, _ToLanes())


def with_load(tree: ast.stmt | None) -> str:
    """Return a line in backquotes with tl.load(x_ptr + i, mask=mask) instead of x_ptr[i]; "" if it has none."""
    return _rewritten(tree, _ToLoad())
