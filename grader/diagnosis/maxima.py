"""Find small mistakes in the maxima that exponents are relative to. Each finder takes a node and yields edits."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import replace

from grader.diagnosis.edit_scope import MOST, OFTEN, Edit, Scope, bare_name, called

_INFINITE = 'float("-inf")'
_OF_WHERE = 3


def _starts_of_maxima(scope: Scope, node: ast.AST) -> Iterator[Edit]:
    """Let a running maximum start at -inf in place of 0."""
    parent = scope.parents.get(node)
    if not scope.in_kernel or not isinstance(parent, ast.Assign) or not isinstance(node, ast.expr):
        return
    if not {bare_name(one) for one in parent.targets} & scope.maxima:
        return
    if isinstance(node, ast.Call) and called(node) == "zeros":
        yield scope.edit(node, f"({scope.text(node)} + {_INFINITE})", ("maximum_start",), OFTEN)
    if isinstance(node, ast.Constant) and node.value == 0:
        yield scope.edit(node, _INFINITE, ("maximum_start",), OFTEN)


def _carried_maxima(scope: Scope, node: ast.AST) -> Iterator[Edit]:
    """Compare the maximum of a step with that of the steps before."""
    if not scope.in_kernel or not isinstance(node, ast.Assign):
        return
    value, target = node.value, bare_name(node.targets[0])
    if called(value) != "max" or not isinstance(value, ast.Call) or len(value.args) + len(value.keywords) != 2:
        return
    for name in sorted(_maxima_before(scope, target, in_a_loop=scope.in_a_loop(node))):
        if scope.known_from.get(name, node.lineno) < node.lineno:
            yield scope.edit(value, f"tl.maximum({name}, {scope.text(value)})", ("maximum_restarted",), MOST)


def _maxima_before(scope: Scope, target: str, *, in_a_loop: bool) -> set[str]:
    """Return the names that may hold the maximum before a step: `tl.exp(name - target)`, or `name = target`."""
    found = {bare_name(one.left) for one in scope.exponents if bare_name(one.right) == target}
    if in_a_loop:
        assigned = (one for one in ast.walk(scope.function) if isinstance(one, ast.Assign))
        found |= {target, *(bare_name(one.targets[0]) for one in assigned if bare_name(one.value) == target)}
    return found - {""}


def _carried_guards(scope: Scope, node: ast.AST) -> Iterator[Edit]:
    """Carry a maximum of -inf on, and not the 0 that stands in its place within an exponent."""
    if not scope.in_kernel or not isinstance(node, ast.Assign) or not scope.in_a_loop(node):
        return
    name = bare_name(node.value)
    for guard in scope.guards.get(name, ()):
        if guard.lineno < node.lineno:
            after = f'tl.where({name} == 0.0, float("-inf"), {name})'
            edit = scope.edit(node.value, after, ("guard_carried", "maximum_start"), MOST)
            yield replace(edit, shown=(f"{name}, as it is before line {guard.lineno},", name))


def _infinite_maxima(scope: Scope, node: ast.AST) -> Iterator[Edit]:
    """Subtract 0 in an exponent where the maximum is -inf: of elements that are all -inf."""
    if scope.in_kernel and isinstance(node, ast.BinOp) and node in scope.exponents:
        top = scope.text(node.right)
        after = f"tl.where({top} == {_INFINITE}, 0.0, {top})"
        yield scope.edit(node.right, after, ("inf_minus_inf", "maximum_start"), OFTEN)


def _factors_of_maxima(scope: Scope, node: ast.AST) -> Iterator[Edit]:
    """Multiply before the maximum is taken: a negative factor makes the least number the largest."""
    if not scope.in_kernel or not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Mult):
        return
    for reduced, factor in ((node.left, node.right), (node.right, node.left)):
        if isinstance(reduced, ast.Call) and called(reduced) == "max" and reduced.args:
            values, by = reduced.args[0], scope.text(factor)
            if isinstance(values, ast.Call) and called(values) == "where" and len(values.args) == _OF_WHERE:
                # What stands for hidden elements stays as it is.
                values = values.args[1]
            (first, last), (start, end) = scope.span(reduced), scope.span(values)
            before, behind = scope.source[first:start].decode(), scope.source[end:last].decode()
            after = f"{before}({scope.text(values)}) * {by}{behind}"
            yield scope.edit(node, after, ("scaled_maximum", "overflow"), OFTEN)


def _other_maxima(scope: Scope, node: ast.AST) -> Iterator[Edit]:
    """Take another maximum in an exponent: the one so far for a step's own, or the reverse."""
    if not scope.in_kernel or not isinstance(node, ast.BinOp) or node not in scope.exponents:
        return
    top = node.right.value if isinstance(node.right, ast.Subscript) else node.right
    for name in sorted(scope.tops - {bare_name(top)}) if bare_name(top) else ():
        if scope.known_from.get(name, node.lineno) < node.lineno:
            yield scope.edit(top, name, ("maximum_restarted", "no_rescale"), OFTEN)


IN_MAXIMA: tuple[Callable[[Scope, ast.AST], Iterator[Edit]], ...] = (
    _starts_of_maxima,
    _carried_maxima,
    _carried_guards,
    _infinite_maxima,
    _factors_of_maxima,
    _other_maxima,
)
