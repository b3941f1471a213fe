"""List edits for sums and products: another operand, another sign, other brackets."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from grader.diagnosis.edits.edit_scope import MOST, NOW_AND_THEN, RARELY, SLIP, SOMETIMES, Edit, Finder, Scope, called
from grader.diagnosis.edits.factors import FACTORS
from grader.diagnosis.edits.functions import EXPONENTIALS
from grader.diagnosis.edits.masks import TOO_NARROW, TOO_WIDE
from grader.diagnosis.edits.names import STRIDES

# The kinds of a term.
_TERMS = ("position_shifted", "wrong_address", "missing_mask", "last_left_out", "block_left_out", "done_again")
_ADDITIVE, _MULTIPLICATIVE = ast.Add | ast.Sub, ast.Mult | ast.Div
_SIGNS: Mapping[type[ast.operator], str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}


def _operands(scope: Scope, node: ast.AST) -> Iterator[Edit]:
    """Remove an operand, or exchange two of a difference."""
    if not isinstance(node, ast.BinOp):
        return
    left, right = scope.text(node.left), scope.text(node.right)
    match node.op:
        case ast.Add() | ast.Sub():
            kinds: tuple[str, ...] = ("not_all_covered", *_TERMS) if "num_programs" in left else _TERMS
            is_number = isinstance(node.right, ast.Constant)
            if isinstance(node.op, ast.Sub) and is_number and (ends := _ended_by(scope, node)):
                # The end of a loop that differs from program to program is that of a causal mask.
                of_programs = any(called(one) == "program_id" for one in ends)
                kinds = (*(("causal_loop",) if of_programs else ()), "block_left_out", "last_left_out", *_TERMS)
            if grows := _bound_grows(scope, node):
                too_narrow = ("last_left_out", "block_left_out") if is_number else TOO_NARROW
                kinds = (*(too_narrow if grows == ast.Lt else TOO_WIDE), *_TERMS)
            weight = MOST if isinstance(node.right, ast.Constant) else NOW_AND_THEN
            if called(scope.parents.get(node)) in EXPONENTIALS:
                # Without its maximum, an exponential overflows for other values: that fixes nothing.
                kinds, weight = ("inf_minus_inf", "overflow"), RARELY
            yield scope.edit(node, left, kinds, weight)
        case ast.Mult() | ast.Div():
            by_stride = "stride" in right.lower()
            yield scope.edit(node, left, STRIDES if by_stride else FACTORS, RARELY if by_stride else NOW_AND_THEN)
        case ast.BitAnd() if not any(isinstance(one, ast.Compare) for one in ast.walk(node)):
            # A mask of bits is right for powers of two only.
            yield scope.edit(node, left, ("position_shifted", "wrong_address", "size_assumed"), NOW_AND_THEN)
        case ast.Pow():
            yield scope.edit(node, f"{left}**-({right})", ("scale_inverted", "wrong_factor"))
    if isinstance(node.op, ast.Add | ast.Mult):
        yield scope.edit(node, right, _TERMS if isinstance(node.op, ast.Add) else FACTORS)
    if isinstance(node.op, ast.Sub):
        in_exponent = called(scope.parents.get(node)) in EXPONENTIALS
        if not in_exponent and not isinstance(node.right, ast.Constant):
            # The last of n is n - 1.
            mirrored = ("position_shifted", "not_all_covered", "last_left_out")
            yield scope.edit(node, f"({left} - 1 - {right})", mirrored, SOMETIMES)
        turned = ("no_rescale", "wrong_factor") if in_exponent else ("wrong_factor", "causal_alignment")
        yield scope.edit(node, f"(({right}) - ({left}))", turned, SOMETIMES if in_exponent else NOW_AND_THEN)


def _ended_by(scope: Scope, node: ast.BinOp) -> list[ast.AST]:
    """Return all nodes of the end of a loop that a node is part of; none if it is part of no such end."""
    for loop in scope.ranges:
        nodes = scope.origins(loop.args[min(1, len(loop.args) - 1)])
        if node in nodes:
            return nodes
    return []


def _bound_grows(scope: Scope, node: ast.BinOp) -> type[ast.cmpop] | None:
    """Return the comparison with a bound that more or fewer elements meet without a term; None for no such bound.

    More for `n - 1` in `i < n - 1`, which is ast.Lt; fewer for `n + 1`, which is ast.Gt.
    """
    compared = scope.parents.get(node)
    if not isinstance(compared, ast.Compare) or len(compared.ops) > 1 or compared.comparators[0] is not node:
        return None
    is_above = isinstance(compared.ops[0], ast.Lt | ast.LtE)
    if not is_above and not isinstance(compared.ops[0], ast.Gt | ast.GtE):
        return None
    return ast.Lt if is_above == isinstance(node.op, ast.Sub) else ast.Gt


def _signs(scope: Scope, node: ast.AST) -> Iterator[Edit]:
    """Subtract in place of adding, or the reverse; remove a sign, or negate an exponent."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, _ADDITIVE):
        sign = "-" if isinstance(node.op, ast.Add) else "+"
        right = scope.text(node.right)
        bare = isinstance(node.right, ast.BinOp) and isinstance(node.right.op, _ADDITIVE)
        right = f"({right})" if bare else right
        yield scope.edit(node, f"{scope.text(node.left)} {sign} {right}", ("wrong_factor", "position_shifted"))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and not isinstance(node.operand, ast.Constant):
        yield scope.edit(node, scope.text(node.operand), ("wrong_factor",), SOMETIMES)
    if called(node) in ("exp", "exp2") and isinstance(node, ast.Call) and len(node.args) == 1:
        yield scope.edit(node.args[0], f"-({scope.text(node.args[0])})", ("wrong_factor",), RARELY)


def _brackets(scope: Scope, node: ast.AST) -> Iterator[Edit]:
    """Put brackets around a sum, or remove them: (a + b) * c, a * c + b, a * (b + c)."""
    if not isinstance(node, ast.BinOp) or type(node.op) not in _SIGNS:
        return
    kinds = (SLIP, "no_rescale", "operand_mixed_up", "delta_missing", "wrong_factor")
    inner = _ADDITIVE if isinstance(node.op, _MULTIPLICATIVE) else _MULTIPLICATIVE
    outer = _SIGNS[type(node.op)]
    if isinstance(node.left, ast.BinOp) and isinstance(node.left.op, inner):
        a, sign, b, c = *_parts(scope, node.left), scope.text(node.right)
        yield scope.edit(node, f"({a} {sign} ({b} {outer} {c}))", kinds)
        if isinstance(node.op, _ADDITIVE) and sign in "*/":
            yield scope.edit(node, f"(({a} {outer} {c}) {sign} {b})", (*kinds, "scaled_maximum", "overflow"), SOMETIMES)
        if isinstance(node.op, _MULTIPLICATIVE):
            yield scope.edit(node, f"({a} {outer} {c} {sign} {b})", kinds)
    if isinstance(node.right, ast.BinOp) and isinstance(node.right.op, inner):
        a, (b, sign, c) = scope.text(node.left), _parts(scope, node.right)
        yield scope.edit(node, f"(({a} {outer} {b}) {sign} {c})", kinds)


def _parts(scope: Scope, node: ast.BinOp) -> tuple[str, str, str]:
    """Return the texts of an operation: left, sign, right."""
    return scope.text(node.left), _SIGNS[type(node.op)], scope.text(node.right)


IN_OPERATIONS: tuple[Finder, ...] = (_operands, _signs, _brackets)
