"""List edits that use another name: one that differs in a letter, one of another axis, one that shares a word."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from grader.diagnosis.edits.edit_scope import (
    MOST,
    NOW_AND_THEN,
    OFTEN,
    RARELY,
    SOMETIMES,
    Edit,
    Finder,
    Scope,
    bare_name,
    called,
)
from grader.diagnosis.edits.precision import OF_DTYPES

# The kinds of mistakes that an edit may take back; the first one is its own.
SIZES = ("axes_exchanged", "wrong_address", "not_all_covered", "missing_mask", "strides_ignored", "bad_index")
STRIDES = ("strides_ignored", "axes_exchanged", "wrong_address")
TENSORS = ("operand_mixed_up", "copies_input")
_INDICES = ("axes_exchanged", "stores_collide", "not_all_covered", "position_shifted", "wrong_address")
_OTHER_AXIS = ("other_axis_block", "not_all_covered", "wrong_address")


def _names(scope: Scope, node: ast.AST) -> Iterator[Edit]:
    """Use a name that differs in one letter: another axis's stride or block, another tensor, another size."""
    if not isinstance(node, ast.Name) or not isinstance(node.ctx, ast.Load):
        return
    for name, line in scope.known_from.items():
        if line < node.lineno and is_one_letter_off(node.id, name) and may_matter(scope, node.id, name):
            weight = NOW_AND_THEN / 2 if scope.in_kernel else RARELY
            # Or the stride of another axis in a step: `b_ptrs += BLOCK_K * stride_bn`.
            in_step = isinstance(scope.parents.get(scope.parents[node]), ast.AugAssign)
            if called(scope.parents.get(node)) == "dot" or isinstance(scope.parents.get(node), ast.keyword) or in_step:
                weight = SOMETIMES
            weight = OFTEN / 2 if name in scope.idle else weight
            weight = max(weight, OFTEN) if _is_of_other_axis(scope, node, name) else weight
            kinds = _kinds_of_names(scope, node)
            if _divides_length_of(scope, node, name):
                kinds, weight = _OTHER_AXIS, MOST
            yield scope.edit(node, name, kinds, weight)


def _keys(scope: Scope, node: ast.AST) -> Iterator[Edit]:
    """Use a key of a launch's constants that differs in one letter: `meta["BLOCK_M"]`."""
    parent = scope.parents.get(node)
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and isinstance(parent, ast.Subscript):
        whole = scope.parents.get(parent)
        length = getattr(getattr(whole, "left", None), "slice", None)
        divides = isinstance(whole, ast.BinOp) and not is_of_axis(getattr(length, "value", ""), node.value)
        for key in scope.keys:
            if is_one_letter_off(node.value, key):
                # Before the finder of moduli doubles the wrong block.
                yield scope.edit(
                    node, scope.text(node).replace(node.value, key), SIZES, 2 * OFTEN if divides else SOMETIMES
                )


def _divides_length_of(scope: Scope, node: ast.Name, block: str) -> bool:
    """Return whether a name divides the length of another axis, to count its blocks, and `block` is of that one."""
    call = scope.parents.get(node)
    is_divisor = called(call) == "cdiv" and isinstance(call, ast.Call) and call.args[-1] is node
    length = bare_name(call.args[0]) if is_divisor and isinstance(call, ast.Call) else ""
    return bool(length) and is_of_axis(length, block) and not is_of_axis(length, node.id)


def is_of_axis(length: object, block: str) -> bool:
    """Return whether a block is named after a length: K, BLOCK_K."""
    return str(length)[-1:].lower() == block[-1:].lower()


def _is_of_other_axis(scope: Scope, node: ast.Name, name: str) -> bool:
    """Return whether a name is the odd one among those of its statement, and another one is not: by their last letters.

    `offs_n = pid_m * BLOCK_N + tl.arange(0, BLOCK_N)`: `pid_n` is of the axis that all others are of.
    """
    statement: ast.AST | None = node
    while isinstance(statement, ast.expr | ast.keyword):
        statement = scope.parents.get(statement)
    if not isinstance(statement, ast.Assign) or not is_of_axis(name, letter_of(name, node.id)):
        return False
    others = [one.id for one in ast.walk(statement) if isinstance(one, ast.Name) and one is not node]
    return sum(is_of_axis(one, name) for one in others) > 1 and not any(is_of_axis(one, node.id) for one in others)


def is_one_letter_off(one: str, other: str) -> bool:
    """Return whether two names differ in one letter, and not in its case."""
    differ = [(a, b) for a, b in zip(one, other, strict=False) if a != b]
    return len(one) == len(other) and len(differ) == 1 and differ[0][0].isupper() == differ[0][1].isupper()


def may_matter(scope: Scope, one: str, other: str) -> bool:
    """Return whether two names may have different values of one type."""
    first, second = scope.values.get(one), scope.values.get(other)
    if first is None or second is None:
        return True
    return type(first) is type(second) and (first != second or not scope.is_number(one))


def _kinds_of_names(scope: Scope, node: ast.Name) -> tuple[str, ...]:
    if getattr(scope.parents.get(node), "attr", "") == "dtype":
        return OF_DTYPES
    if "stride" in node.id.lower():
        return STRIDES
    if not scope.in_kernel or scope.is_number(node.id):
        return SIZES
    made_by = {called(one) for one in scope.origins(node)}
    return _INDICES if "program_id" in made_by and "load" not in made_by else TENSORS


def _similar_names(scope: Scope, node: ast.AST) -> Iterator[Edit]:
    """Use a name that shares a word with this one, or another number."""
    if (
        not isinstance(node, ast.Name)
        or not isinstance(node.ctx, ast.Load)
        or called(scope.parents.get(node)) == node.id
    ):
        return
    own = {*node.id.lower().split("_")}
    for name, line in scope.known_from.items():
        if line >= node.lineno or name == node.id or is_one_letter_off(node.id, name):
            continue
        if not may_matter(scope, node.id, name):
            continue
        kinds = _kinds_of_names(scope, node)
        kinds = ("not_all_covered", "wrong_address", *kinds, "done_again") if kinds == SIZES else kinds
        both_numbers = scope.is_number(node.id) and scope.is_number(name)
        if own & {*name.lower().split("_")} - {"ptr", "ptrs"} or name in node.id or node.id in name:
            yield scope.edit(node, name, kinds, RARELY)
        elif both_numbers and name in scope.values and node.id in scope.values:
            yield scope.edit(node, name, kinds, RARELY / 2)


def letter_of(one: str, other: str) -> str:
    """Return the letter of the first name that differs from the second."""
    return next((a for a, b in zip(one, other, strict=False) if a != b), "")


IN_NAMES: tuple[Finder, ...] = (_names, _keys, _similar_names)
