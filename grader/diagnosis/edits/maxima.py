"""List edits for small mistakes in the maxima that exponents subtract."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

from grader.diagnosis.edits.edit_scope import MOST, OFTEN, SOMETIMES, Edit, Finder, Scope, bare_name, called, names_in

_INFINITE = 'float("-inf")'
_LOWEST = "-1e30"
_OF_WHERE = 3
# The end of the name of a maximum before a step.
_OLD = "_of_steps_before"


def _starts_of_maxima(scope: Scope, node: ast.AST) -> Iterator[Edit]:
    """Start a running maximum at -inf, and not at 0."""
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
    """Take the larger of a step's maximum and that of the steps before."""
    if not scope.in_kernel or not isinstance(node, ast.Assign):
        return
    value, target = node.value, bare_name(node.targets[0])
    if called(value) != "max" or not isinstance(value, ast.Call) or len(value.args) + len(value.keywords) != 2:
        return
    for name in sorted(_maxima_before(scope, target, in_a_loop=scope.in_a_loop(node))):
        if scope.known_from.get(name, node.lineno) < node.lineno:
            yield scope.edit(value, f"tl.maximum({name}, {scope.text(value)})", ("maximum_restarted",), MOST)


def _forgotten_maxima(scope: Scope, node: ast.AST) -> Iterator[Edit]:
    """Carry a maximum on at the end of each step: `new = tl.maximum(old, top)`, and then `old = new`."""
    if not scope.in_kernel or not isinstance(node, ast.For):
        return
    last, inside = node.body[-1], [one for line in node.body for one in ast.walk(line)]
    stored = {one.id for one in inside if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}
    for one in inside:
        if not isinstance(one, ast.Assign) or called(one.value) != "maximum" or not bare_name(one.targets[0]):
            continue
        new = bare_name(one.targets[0])
        for old in sorted(names_in(one.value) - stored):
            # It has a value of its own before the loop.
            before_loop = 0 < scope.known_from.get(old, 0) < node.lineno
            if before_loop and isinstance(last, ast.Assign | ast.AugAssign | ast.Expr):
                (start, end), line = scope.span(last), scope.text(last)
                kinds = ("maximum_restarted", "no_rescale")
                after = f"{line}; {old} = {new}"
                yield Edit(last.lineno, line, after, kinds, MOST, start, end, scope.in_kernel)


def _maxima_before(scope: Scope, target: str, *, in_a_loop: bool) -> set[str]:
    """Return the names that may be the maximum before a step: `tl.exp(name - target)`, or `name = target`."""
    found = {bare_name(one.left) for one in scope.exponents if bare_name(one.right) == target}
    if in_a_loop:
        assigned = (one for one in ast.walk(scope.function) if isinstance(one, ast.Assign))
        found |= {target, *(bare_name(one.targets[0]) for one in assigned if bare_name(one.value) == target)}
    return found - {""}


def _carried_guards(scope: Scope, node: ast.AST) -> Iterator[Edit]:
    """Carry a maximum of -inf to the next step, and not the 0 that replaces it in an exponent."""
    if not scope.in_kernel or not isinstance(node, ast.Assign) or not scope.in_a_loop(node):
        return
    name = bare_name(node.value)
    for guard in scope.guards.get(name, ()):
        if guard.lineno < node.lineno:
            after = f'tl.where({name} == 0.0, float("-inf"), {name})'
            edit = scope.edit(node.value, after, ("guard_carried", "maximum_start"), MOST)
            yield replace(edit, shown=(f"{name}, as it is before line {guard.lineno},", name))


def _infinite_maxima(scope: Scope, node: ast.AST) -> Iterator[Edit]:
    """Subtract 0 in an exponent if the maximum is -inf, as that of elements that are all -inf."""
    if scope.in_kernel and isinstance(node, ast.BinOp) and node in scope.exponents:
        top = scope.text(node.right)
        after = f"tl.where({top} == {_INFINITE}, 0.0, {top})"
        yield scope.edit(node.right, after, ("inf_minus_inf", "maximum_start"), OFTEN)


def _hidden_in_maxima(scope: Scope, node: ast.AST) -> Iterator[Edit]:
    """Take a maximum only over elements that count, if the exponentials of the others are set to 0 afterwards."""
    if not scope.in_kernel or called(node) != "max" or not isinstance(node, ast.Call) or not node.args:
        return
    values = node.args[0]
    for condition, exponent in scope.hidden_behind:
        is_known = all(scope.known_from.get(name, 0) < node.lineno for name in names_in(condition))
        if bare_name(values) and is_known and bare_name(values) in names_in(exponent.left):
            # If nothing counts yet, a maximum of -inf gives NaN.
            after = f"tl.where({scope.text(condition)}, {scope.text(values)}, {_LOWEST})"
            yield scope.edit(values, after, ("maximum_of_hidden", "maximum_start"), MOST)


def _factors_of_maxima(scope: Scope, node: ast.AST) -> Iterator[Edit]:
    """Multiply before the maximum is taken: a negative factor makes the smallest number the largest."""
    if not scope.in_kernel or not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Mult):
        return
    for reduced, factor in ((node.left, node.right), (node.right, node.left)):
        if isinstance(reduced, ast.Call) and called(reduced) == "max" and reduced.args:
            values, by = reduced.args[0], scope.text(factor)
            if isinstance(values, ast.Call) and called(values) == "where" and len(values.args) == _OF_WHERE:
                # The value of hidden elements stays unchanged.
                values = values.args[1]
            (first, last), (start, end) = scope.span(reduced), scope.span(values)
            before, behind = scope.source[first:start].decode(), scope.source[end:last].decode()
            after = f"{before}({scope.text(values)}) * {by}{behind}"
            yield scope.edit(node, after, ("scaled_maximum", "overflow"), OFTEN)


def _other_maxima(scope: Scope, node: ast.AST) -> Iterator[Edit]:
    """Subtract another maximum in an exponent: the running one and not that of a step, or the reverse."""
    if not scope.in_kernel or not isinstance(node, ast.BinOp) or node not in scope.exponents:
        return
    top = node.right.value if isinstance(node.right, ast.Subscript) else node.right
    for name in sorted(scope.tops - {bare_name(top)}) if bare_name(top) else ():
        if scope.known_from.get(name, node.lineno) < node.lineno:
            yield scope.edit(top, name, ("maximum_restarted", "no_rescale"), OFTEN)


def _overwritten_maxima(scope: Scope, node: ast.AST) -> Iterator[Edit]:
    """Rescale by the maximum before a line overwrites it: `old = m; m = tl.maximum(m, top)`, `exp(old - m)`.

    The factor replaces one that compares the new maximum with itself, or with that of a step; or it multiplies a sum
    without a factor.
    """
    if not scope.in_kernel or not isinstance(node, ast.Assign) or not _overwrites_a_maximum(scope, node):
        return
    top = bare_name(node.targets[0])
    factors = [one for one in _behind(scope, node) if _is_factor(scope, one, top)]
    for factor in factors:
        whole = _with_conditions(scope, factor)
        yield _rescaled(scope, node, whole, _factor_of(factor, top), MOST)
    for total, added in () if factors else _sums_behind(scope, node):
        grown = f"{bare_name(total)} * {_factor_of(None, top)}"
        if added is None:
            yield _rescaled(scope, node, total, f"({grown})", SOMETIMES)
        else:
            # The right side of `l += v` is added to l, and does not contain l.
            yield _rescaled(scope, node, added, f"{grown} - {bare_name(total)} + ({scope.text(added)})", SOMETIMES)


def _overwrites_a_maximum(scope: Scope, node: ast.Assign) -> bool:
    """Return whether a line of a loop assigns to a name the larger of its value and another one."""
    value, name = scope.meaning(node.value), bare_name(node.targets[0])
    return bool(name) and called(value) == "maximum" and name in names_in(value) and scope.in_a_loop(node)


def _behind(scope: Scope, node: ast.Assign) -> Iterator[ast.AST]:
    """Yield the nodes of the lines after a line, in the same body."""
    body = getattr(scope.parents[node], "body", [])
    for line in body[body.index(node) + 1 :] if node in body else ():
        yield from ast.walk(line)


def _is_factor(scope: Scope, node: ast.AST, top: str) -> bool:
    """Return whether a call is the exponential of a maximum relative to another one, or to itself."""
    exponent = node.args[0] if isinstance(node, ast.Call) and node.args else None
    if not isinstance(exponent, ast.BinOp) or exponent not in scope.exponents:
        return False
    sides = [bare_name(exponent.left), bare_name(exponent.right)]
    return top in sides and {*sides} <= scope.given_maxima


def _with_conditions(scope: Scope, factor: ast.AST) -> ast.expr:
    """Return a factor with the conditions around it: `tl.where(grown, tl.exp(old - new), 1.0)`."""
    while called(scope.parents.get(factor)) == "where":
        factor = scope.parents[factor]
    assert isinstance(factor, ast.expr)
    return factor


def _factor_of(factor: ast.AST | None, top: str) -> str:
    """Return the factor from the old maximum to the new one. Both may be -inf."""
    power = called(factor) or "exp"
    return f"tl.where({top}{_OLD} == {top}, 1.0, tl.{power}({top}{_OLD} - {top}))"


def _sums_behind(scope: Scope, node: ast.Assign) -> Iterator[tuple[ast.expr, ast.expr | None]]:
    """Yield each name that a later line adds to: the read of the name; or for `+=`, the name and what is added."""
    for one in _behind(scope, node):
        if isinstance(one, ast.AugAssign) and isinstance(one.op, ast.Add) and isinstance(one.target, ast.Name):
            yield one.target, one.value
        if isinstance(one, ast.Assign) and isinstance(one.value, ast.BinOp) and isinstance(one.value.op, ast.Add):
            for side in (one.value.left, one.value.right):
                if bare_name(side) and bare_name(side) == bare_name(one.targets[0]):
                    yield side, None


def _rescaled(scope: Scope, node: ast.Assign, replaced: ast.expr, after: str, weight: float) -> Edit:
    """Return the edit that keeps a maximum before a line overwrites it, and replaces an expression after the line."""
    top = bare_name(node.targets[0])
    start = scope.span(node.targets[0])[0]
    first, end = scope.span(replaced)
    kept = scope.source[start:first].decode()
    shown = after.replace(_factor_of(None, top), f"tl.exp(old - {top})")
    shown = f"tl.exp(old - {top})" if shown.startswith("tl.where") else shown
    words = f"{shown}, where old is {top} before line {node.lineno},", scope.text(replaced)
    before, edited = f"{kept}{scope.text(replaced)}", f"{top}{_OLD} = {top}; {kept}{after}"
    line = replaced.lineno
    return Edit(line, before, edited, ("no_rescale",), weight, start, end, scope.in_kernel, shown=words)


IN_MAXIMA: tuple[Finder, ...] = (
    _starts_of_maxima,
    _carried_maxima,
    _forgotten_maxima,
    _carried_guards,
    _infinite_maxima,
    _hidden_in_maxima,
    _factors_of_maxima,
    _other_maxima,
    _overwritten_maxima,
)
