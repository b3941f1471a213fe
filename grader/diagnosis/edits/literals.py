"""List edits for numbers that the text writes: axes, sizes of blocks, factors between bases."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator

from grader.diagnosis.edits.edit_scope import (
    MOST,
    NOW_AND_THEN,
    OFTEN,
    SOMETIMES,
    Edit,
    Finder,
    Scope,
    bare_name,
    called,
)
from grader.diagnosis.edits.functions import REDUCTIONS
from grader.diagnosis.edits.masks import TOO_WIDE
from grader.diagnosis.edits.names import SIZES, is_of_axis

# Functions whose arguments are axes.
_OF_AXES = frozenset({"program_id", "num_programs", "stride", "size"})
# Factors between powers of e and of 2, which are easily confused. They have at least three digits in a text.
_LN_2 = "0.6931471805599453"
_LOG2_E = "1.4426950408889634"
_BASES = {math.log(2): _LOG2_E, 1 / math.log(2): _LN_2}
_FEWEST_DIGITS = 1e-3
# Numbers of usual formulas, which are often written with too few digits; and the fewest digits behind the point.
_KNOWN = (
    math.log2(math.e),
    math.log(2),
    math.log(10),
    math.log10(math.e),
    math.e,
    math.pi,
    math.sqrt(2),
    math.sqrt(0.5),
    math.sqrt(2 / math.pi),
)
_FEWEST_WRITTEN = 2
# A float32 number has about so many bits: more digits change nothing.
_OF_FLOAT32 = 2.0**-24


def _numbers(scope: Scope, node: ast.AST) -> Iterator[Edit]:
    """Use another axis, another step of a loop, or a constant of a launch that is twice as large."""
    if not isinstance(node, ast.Constant) or type(node.value) is not int:
        return
    parent = scope.parents.get(node)
    kinds: tuple[str, ...]
    if isinstance(parent, ast.keyword):
        if parent.arg in scope.constants and node.value > 1:
            kinds = ("size_assumed", "not_all_covered")
            yield scope.edit(node, str(2 * node.value), kinds, NOW_AND_THEN / 2)
            # A block that must hold all of something: the partial sums of all programs.
            for count in _counts_beside(scope, parent):
                yield scope.edit(node, f"triton.next_power_of_2({count})", kinds, NOW_AND_THEN / 2)
        parent = scope.parents.get(parent) if parent.arg in ("axis", "dim") else None
    kinds = ("position_shifted",)
    if called(parent) in REDUCTIONS | _OF_AXES or isinstance(parent, ast.Subscript):
        kinds = ("wrong_axis",) if called(parent) in REDUCTIONS else SIZES
    elif called(parent) in ("range", "static_range"):
        kinds = ("block_left_out", "last_left_out")
    elif not isinstance(parent, ast.BinOp):
        return
    for value in (node.value - 1, node.value + 1):
        if value >= 0:
            weight = SOMETIMES if kinds[0] in ("wrong_axis", "block_left_out") else NOW_AND_THEN / 2
            yield scope.edit(node, str(value), kinds, weight)


def _counts_beside(scope: Scope, constant: ast.keyword) -> list[str]:
    """Return the lengths and counts of blocks that a launch passes beside a constant."""
    launch = scope.parents.get(constant)
    names = dict.fromkeys(map(bare_name, launch.args)) if isinstance(launch, ast.Call) else {}
    counted = {name for name, values in scope.given.items() if {*map(called, values)} & {"cdiv", "min", "max"}}
    return [name for name in names if name and (name in scope.lengths or name in counted)]


def _bases(scope: Scope, node: ast.AST) -> Iterator[Edit]:
    """Replace ln 2 by log2 e, or the reverse."""
    if isinstance(node, ast.Constant) and isinstance(node.value, float):
        for factor, other in _BASES.items():
            if abs(node.value - factor) < _FEWEST_DIGITS:
                yield scope.edit(node, other, ("logarithm_base", "wrong_factor"), OFTEN)


def _missing_bases(scope: Scope, node: ast.AST) -> Iterator[Edit]:
    """Bring a logarithm, or the maximum beside it, from base 2 to base e: `(m + tl.log2(l)) * ln 2`."""
    if not scope.in_kernel or not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Add):
        return
    for one, other in ((node.left, node.right), (node.right, node.left)):
        if called(one) == "log2":
            yield scope.edit(node, f"({scope.text(node)}) * {_LN_2}", ("logarithm_base",), OFTEN)
        if called(one) == "log":
            yield scope.edit(node, f"{scope.text(other)} * {_LN_2} + {scope.text(one)}", ("logarithm_base",), SOMETIMES)


def _logits_of_base_2(scope: Scope, node: ast.AST) -> Iterator[Edit]:
    """Bring logits to base 2, where a function computes powers of 2: `tl.dot(q, k) * scale * log2(e)`."""
    if not scope.in_kernel:
        return
    match node:
        case ast.AugAssign(first, ast.Mult(), factor):
            is_whole = True
        case ast.BinOp(first, ast.Mult(), factor):
            is_whole = isinstance(scope.parents.get(node), ast.Assign)
        case _:
            return
    if is_whole and (called(first) == "dot" or bare_name(first)) and _raises_2(scope):
        yield scope.edit(factor, f"{scope.text(factor)} * {_LOG2_E}", ("logarithm_base",), OFTEN)


def _raises_2(scope: Scope) -> bool:
    """Return whether a function computes powers of 2."""
    return any(called(one).endswith("exp2") for one in ast.walk(scope.function))


def _short_constants(scope: Scope, node: ast.AST) -> Iterator[Edit]:
    """Write a known number with all its digits: log2(e) = 1.4426950408889634, and not 1.442."""
    if not isinstance(node, ast.Constant) or not isinstance(node.value, float):
        return
    _, _, digits = scope.text(node).lower().partition("e")[0].partition(".")
    for known in _KNOWN:
        off = abs(node.value - known)
        if len(digits) >= _FEWEST_WRITTEN and _OF_FLOAT32 * known < off < 10.0 ** -len(digits):
            yield scope.edit(node, repr(known), ("short_constant",), MOST)


def _moduli(scope: Scope, node: ast.AST) -> Iterator[Edit]:
    """Divide by another of a launch's constants, by one more, or by twice as many: `args["K"] % 64 == 0`."""
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Mod):
        return
    divisor = scope.text(node.right)
    if isinstance(scope.parents.get(node), ast.Compare) and not scope.in_kernel:
        yield scope.edit(node.right, f"({divisor} * 2)", ("size_assumed", *TOO_WIDE), SOMETIMES)
        for passed in scope.passed_to_kernels:
            if passed != divisor:
                yield scope.edit(node.right, passed, ("size_assumed", *TOO_WIDE), OFTEN)
    if not isinstance(node.left, ast.Subscript):
        return
    constants = scope.text(node.left.value)
    length = getattr(node.left.slice, "value", "")
    for key in scope.constants:
        if repr(key) in {ast.unparse(one) for one in ast.walk(node) if isinstance(one, ast.Constant)}:
            continue
        # Any condition that rarely holds would make the call right: the block of this length comes first.
        weight = OFTEN if is_of_axis(length, key) else SOMETIMES
        one = f'{constants}["{key}"]'
        after = one if isinstance(node.right, ast.Constant) else f"({divisor} * {one})"
        yield scope.edit(node.right, after, ("size_assumed", *TOO_WIDE), weight)


IN_LITERALS: tuple[Finder, ...] = (_numbers, _bases, _missing_bases, _logits_of_base_2, _short_constants, _moduli)
