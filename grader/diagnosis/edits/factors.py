"""List edits that bring in a factor or a stride of the function."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import product

from grader.diagnosis.edits.edit_scope import OFTEN, RARELY, SOMETIMES, Edit, Finder, Scope, bare_name, called, names_in
from grader.diagnosis.edits.loops import step_of
from grader.diagnosis.edits.names import letter_of

# The kinds of a factor, and of a factor in an address.
FACTORS = ("wrong_factor", "wrong_address", "not_all_covered", "scale_missing", "zeros")
_ADDRESSES = ("wrong_address", "not_all_covered", "done_again", "strides_ignored", "stores_collide")


def _factors(scope: Scope, node: ast.AST) -> Iterator[Edit]:
    """Multiply the number of a program, an index, or the step of a pointer by a block or by a stride."""
    parent = scope.parents.get(node)
    if not scope.in_kernel or not isinstance(parent, ast.BinOp | ast.AugAssign) or not isinstance(parent.op, ast.Add):
        return
    is_step = isinstance(parent, ast.AugAssign)
    if isinstance(parent, ast.AugAssign) and (node is not parent.value or not step_of(parent)):
        return
    inside = names_in(node)
    if not isinstance(node, ast.Call | ast.Name | ast.Subscript) or any(one.endswith("ptr") for one in inside):
        return
    for name in scope.arguments:
        is_factor = scope.is_number(name) and (name.isupper() or "stride" in name.lower())
        if is_factor and name not in inside and scope.values.get(name) != 1:
            kinds, weight = (("strides_ignored", *_ADDRESSES), SOMETIMES) if is_step else (_ADDRESSES, RARELY)
            yield scope.edit(node, f"({scope.text(node)}) * {name}", kinds, weight)


def _missing_factors(scope: Scope, node: ast.AST) -> Iterator[Edit]:
    """Multiply an accumulator, or an addend of a loop, by a factor of the function."""
    if not scope.in_kernel or not isinstance(node, ast.Name | ast.Call) or scope.called_on(node):
        return
    target, is_operand = scope.target_of(node)
    if not target or not is_operand or (isinstance(node, ast.Name) and node.id in scope.factors):
        return
    for factor in scope.factors:
        for text in (factor, f"{factor}[:, None]"):
            weight = SOMETIMES if isinstance(node, ast.Name) and node.id == target else RARELY
            yield scope.edit(node, f"{scope.text(node)} * {text}", ("no_rescale", "scale_missing"), weight)


def _factors_of_others(scope: Scope, node: ast.AST) -> Iterator[Edit]:
    """Multiply an operand of a product of blocks by a factor that it has in another line."""
    if not scope.in_kernel or called(node) != "dot" or not isinstance(node, ast.Call):
        return
    names = [one for operand in node.args[:2] for one in ast.walk(operand) if isinstance(one, ast.Name)]
    products = [one for one in ast.walk(scope.function) if isinstance(one, ast.BinOp) and isinstance(one.op, ast.Mult)]
    for name, one in product(names, products):
        sides = [bare_name(one.left), bare_name(one.right)]
        if name.id in sides and scope.parents.get(name) is not one:
            yield scope.edit(name, f"({scope.text(one)})", ("not_normalised", "no_rescale", "scale_missing"), OFTEN)


def _missing_strides(scope: Scope, node: ast.AST) -> Iterator[Edit]:
    """Move along an axis whose stride is never used, as another tensor does."""
    if not scope.in_kernel or not isinstance(node, ast.Name) or not isinstance(node.ctx, ast.Load):
        return
    for unused, like in scope.unused_strides:
        for term in scope.terms_with(like):
            if letter_of(unused, like) and letter_of(unused, like) in node.id.lower() and "ptr" in node.id.lower():
                added = scope.renamed(term, {like: unused})
                yield scope.edit(node, f"({node.id} + {added})", ("not_advanced", "wrong_address"), SOMETIMES)


IN_FACTORS: tuple[Finder, ...] = (_factors, _missing_factors, _factors_of_others, _missing_strides)
