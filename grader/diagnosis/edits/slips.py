"""List edits for small mistakes in a function. Each finder takes one node of its tree and yields edits.

An edit takes back a mistake. Finders run nothing, and most of their edits are wrong: `repairs` tries them.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations, pairwise, product

from grader.diagnosis.edits.edit_scope import (
    MOST,
    NOW_AND_THEN,
    OFTEN,
    RARELY,
    SLIP,
    SOMETIMES,
    Edit,
    Scope,
    bare_name,
    called,
    keyword,
    names_in,
)
from grader.diagnosis.edits.grids import IN_GRIDS
from grader.diagnosis.edits.indices import IN_INDICES
from grader.diagnosis.edits.loops import IN_LOOPS, bounds_a_loop, starts_a_loop, step_of
from grader.diagnosis.edits.masks import IN_MASKS
from grader.diagnosis.edits.maxima import IN_MAXIMA
from grader.diagnosis.edits.names import (
    IN_NAMES,
    SIZES,
    STRIDES,
    TENSORS,
    is_of_axis,
    is_one_letter_off,
    letter_of,
    may_matter,
)
from grader.diagnosis.edits.other_loops import IN_OTHER_LOOPS
from grader.diagnosis.edits.pairs import IN_PAIRS
from grader.diagnosis.edits.precision import IN_PRECISION, OF_DTYPES
from grader.diagnosis.edits.products import IN_PRODUCTS
from grader.diagnosis.edits.shares import IN_SHARES

# The kinds of mistakes that an edit may take back; the first one is its own.
_TOO_WIDE = ("missing_mask", "padding_counted")
_TOO_NARROW = ("last_left_out", "block_left_out", "not_all_covered")
_TERMS = ("position_shifted", "wrong_address", "missing_mask", "last_left_out", "block_left_out", "done_again")
_FACTORS = ("wrong_factor", "wrong_address", "not_all_covered", "scale_missing", "zeros")
_ADDRESSES = ("wrong_address", "not_all_covered", "done_again", "strides_ignored", "stores_collide")
_ROUNDED_DOWN = ("remainder_skipped", "not_all_covered")
_ONE_MORE = ("count_too_large", "grid_too_large", "bad_index", "missing_mask", "done_again")
_PARTS = ("heads_mapping", "wrong_address", "bad_index", "axes_exchanged", "not_all_covered")
_ROUNDED = ("rounded_intermediate", "low_precision_sum", "wrong_dtype")
# Names of axes that are none of heads: their quotients and remainders choose no kv head.
_NOT_OF_HEADS = re.compile(r"page|slot|tile|block|split|row|col|tok|seq|pos|step", re.IGNORECASE)
_OF_HEADS = re.compile(r"head|group|h_?(q|kv)\b|(q|kv)_?h\b", re.IGNORECASE)
_NARROW = (".float16", ".bfloat16")
_NARROW_NUMBERS = re.compile(r"\.u?int(8|16|32)$")
# Comparisons that include their bound, and the same that do not, each with the kinds of an edit.
_FLIPPED: Mapping[type[ast.cmpop], tuple[str, tuple[str, ...]]] = {
    ast.Lt: ("<=", _TOO_NARROW),
    ast.LtE: ("<", _TOO_WIDE),
    ast.Gt: (">=", _TOO_NARROW),
    ast.GtE: (">", _TOO_WIDE),
}
_REVERSED: Mapping[type[ast.cmpop], str] = {ast.Lt: ">", ast.LtE: ">=", ast.Gt: "<", ast.GtE: "<="}
# Functions along an axis, and functions whose arguments are axes.
_REDUCTIONS = frozenset({"sum", "max", "min", "argmax", "argmin", "reduce"})
_OF_AXES = frozenset({"program_id", "num_programs", "stride", "size"})
# Functions of torch that allocate, and those that clear the memory too.
_CLEARED = {"empty": "zeros", "empty_like": "zeros_like", "new_empty": "new_zeros"}
# Values of masked lanes.
_PADDING = ("0.0", 'float("-inf")', 'float("inf")')
# The kinds of a wrong start value, and of a wrong value of masked elements.
_STARTS = ("maximum_start", "padding_counted")
_HIDDEN = ("padding_counted", "maximum_start", "causal_missing")
# Functions that are easily confused.
_PAIRS = (("exp", "exp2"), ("log", "log2"), ("sum", "max"), ("minimum", "maximum"))
_RELATED = {**dict(_PAIRS), **{other: one for one, other in _PAIRS}, "store": "atomic_add"}
_EXPONENTIALS = frozenset({"exp", "exp2", "log", "log2"})
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
_ADDITIVE, _MULTIPLICATIVE = ast.Add | ast.Sub, ast.Mult | ast.Div
_SIGNS: Mapping[type[ast.operator], str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}


# -- mistakes: (scope, node) -> edits ----------------------------------------------------------------------------------


def _bounds(scope: Scope, node: ast.AST) -> Iterator[Edit]:
    """Include a bound, or exclude it."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _FLIPPED:
        flipped, kinds = _FLIPPED[type(node.ops[0])]
        of_zero = getattr(node.comparators[0], "value", None) == 0
        if of_zero or isinstance(scope.parents.get(node), ast.If | ast.IfExp | ast.While):
            # A condition is no mask, and 0 is no length.
            kinds = (SLIP, *kinds)
        yield scope.edit(node, f"{scope.text(node.left)} {flipped} {scope.text(node.comparators[0])}", kinds, OFTEN / 2)


def _divisions(scope: Scope, node: ast.AST) -> Iterator[Edit]:
    """Round a division up in place of down, or the reverse."""
    function = "tl.cdiv" if scope.in_kernel else "triton.cdiv"
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.FloorDiv):
        yield scope.edit(node, f"{function}({scope.text(node.left)}, {scope.text(node.right)})", _ROUNDED_DOWN, OFTEN)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add) and isinstance(node.left, ast.BinOp):
        adds_one = isinstance(node.left.op, ast.FloorDiv) and getattr(node.right, "value", None) == 1
        if adds_one:
            # One too many where the division leaves no remainder.
            yield scope.edit(
                node, f"{function}({scope.text(node.left.left)}, {scope.text(node.left.right)})", _ONE_MORE, OFTEN
            )
    match node:
        case ast.BinOp(ast.BinOp(whole, ast.FloorDiv(), by), ast.Mult(), again) if ast.dump(by) == ast.dump(again):
            # Whole blocks only: `n // BLOCK * BLOCK`.
            yield scope.edit(node, scope.text(whole), _ROUNDED_DOWN, OFTEN)
    if isinstance(node, ast.Call) and called(node) == "cdiv" and len(node.args) == 2:
        one, other = map(scope.text, node.args)
        kinds = ("grid_too_large", "missing_mask", "done_again", "causal_loop")
        weight = SOMETIMES if scope.in_kernel else NOW_AND_THEN
        if starts_a_loop(scope, node):
            # Round a start down, to visit the block that contains it.
            kinds, weight = ("loop_bounds", "causal_loop", "block_left_out", "done_again"), MOST
        yield scope.edit(node, f"(({one}) // ({other}))", kinds, weight)


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
                too_narrow = ("last_left_out", "block_left_out") if is_number else _TOO_NARROW
                kinds = (*(too_narrow if grows == ast.Lt else _TOO_WIDE), *_TERMS)
            weight = MOST if isinstance(node.right, ast.Constant) else NOW_AND_THEN
            if called(scope.parents.get(node)) in _EXPONENTIALS:
                # Without its maximum, an exponential overflows for other values: that fixes nothing.
                kinds, weight = ("inf_minus_inf", "overflow"), RARELY
            yield scope.edit(node, left, kinds, weight)
        case ast.Mult() | ast.Div():
            by_stride = "stride" in right.lower()
            yield scope.edit(node, left, STRIDES if by_stride else _FACTORS, RARELY if by_stride else NOW_AND_THEN)
        case ast.BitAnd() if not any(isinstance(one, ast.Compare) for one in ast.walk(node)):
            # A mask of bits is right for powers of two only.
            yield scope.edit(node, left, ("position_shifted", "wrong_address", "size_assumed"), NOW_AND_THEN)
        case ast.Pow():
            yield scope.edit(node, f"{left}**-({right})", ("scale_inverted", "wrong_factor"))
    if isinstance(node.op, ast.Add | ast.Mult):
        yield scope.edit(node, right, _TERMS if isinstance(node.op, ast.Add) else _FACTORS)
    if isinstance(node.op, ast.Sub):
        in_exponent = called(scope.parents.get(node)) in _EXPONENTIALS
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
    if called(parent) in _REDUCTIONS | _OF_AXES or isinstance(parent, ast.Subscript):
        kinds = ("wrong_axis",) if called(parent) in _REDUCTIONS else SIZES
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
        yield scope.edit(node.right, f"({divisor} * 2)", ("size_assumed", *_TOO_WIDE), SOMETIMES)
        for passed in scope.passed_to_kernels:
            if passed != divisor:
                yield scope.edit(node.right, passed, ("size_assumed", *_TOO_WIDE), OFTEN)
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
        yield scope.edit(node.right, after, ("size_assumed", *_TOO_WIDE), weight)


def _reductions(scope: Scope, node: ast.AST) -> Iterator[Edit]:
    """Reduce along one axis, and not along all."""
    if isinstance(node, ast.Call) and called(node) in _REDUCTIONS and len(node.args) == 1 and not node.keywords:
        for axis in (0, 1):
            yield scope.edit(node, f"{scope.text(node)[:-1]}, axis={axis})", ("wrong_axis",), OFTEN)


def _masks(scope: Scope, node: ast.AST) -> Iterator[Edit]:
    """Use the mask of another load or store, or another value of masked lanes."""
    if not isinstance(node, ast.Call) or called(node) not in ("load", "store"):
        return
    own, other, text = keyword(node, "mask"), keyword(node, "other"), scope.text(node)
    for mask in scope.masks:
        if own is None:
            yield scope.edit(node, f"{text[:-1]}, mask={mask})", _TOO_WIDE, SOMETIMES)
        else:
            yield scope.edit(own, mask, (*_TOO_WIDE, *SIZES))
            yield scope.edit(own, f"({scope.text(own)}) & ({mask})", _TOO_WIDE)
    if called(node) == "load" and own is not None:
        for value in _PADDING:
            replaced, after = (node, f"{text[:-1]}, other={value})") if other is None else (other, value)
            yield scope.edit(replaced, after, ("padding_counted",))


def _order(scope: Scope, node: ast.AST) -> Iterator[Edit]:
    """Exchange neighbours: arguments of a launch, elements of a grid or of a shape, results."""
    if isinstance(node, ast.Call) and not scope.in_kernel:
        yield from _exchanged(scope, node.args, TENSORS)
    if isinstance(node, ast.Tuple | ast.List):
        yield from _exchanged(scope, node.elts, SIZES if scope.in_kernel else (*SIZES, *TENSORS))


def _exchanged(scope: Scope, items: Sequence[ast.expr], kinds: tuple[str, ...]) -> Iterator[Edit]:
    weight = NOW_AND_THEN
    if not scope.in_kernel:
        # Grids and shapes; or arguments of a launch.
        weight = RARELY if kinds == TENSORS else 2 * NOW_AND_THEN
    for one, other in pairwise(items):
        if isinstance(one, ast.Starred) or isinstance(other, ast.Starred):
            continue
        (start, first), (second, end) = scope.span(one), scope.span(other)
        parts = scope.source[second:end], scope.source[first:second], scope.source[start:first]
        before, after = scope.source[start:end].decode(), b"".join(parts).decode()
        yield Edit(
            one.lineno,
            before,
            after,
            kinds,
            weight,
            start,
            end,
            scope.in_kernel,
        )


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


def _allocations(scope: Scope, node: ast.AST) -> Iterator[Edit]:
    """Clear memory, allocate it in row-major order, or keep intermediate results in float32."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return
    if scope.in_kernel:
        return
    if cleared := _CLEARED.get(node.func.attr):
        rest = scope.text(node)[len(scope.text(node.func)) :]
        yield scope.edit(node, f"{scope.text(node.func.value)}.{cleared}{rest}", ("not_cleared",), OFTEN)
    if node.func.attr.endswith("_like") and keyword(node, "memory_format") is None:
        # It has the other tensor's layout, and that may have its axes in another order.
        after = f"{scope.text(node)[:-1]}, memory_format=torch.contiguous_format)"
        yield scope.edit(node, after, ("strides_ignored", "wrong_address"), OFTEN)
    if node.func.attr in {*_CLEARED, *_CLEARED.values()} and (dtype := keyword(node, "dtype")) is not None:
        yield scope.edit(dtype, "torch.float32", OF_DTYPES, OFTEN)
    elif node.func.attr in {*_CLEARED, *_CLEARED.values()}:
        yield scope.edit(node, f"{scope.text(node)[:-1]}, dtype=torch.float32)", OF_DTYPES, SOMETIMES)


def _related_functions(scope: Scope, node: ast.AST) -> Iterator[Edit]:
    """Call the function that is easily confused with this one."""
    if not scope.in_kernel or not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return
    called_name = node.func.attr
    kinds: tuple[str, ...] = (SLIP, "wrong_factor")
    weight = SOMETIMES
    if called_name in _EXPONENTIALS:
        kinds, weight = ("logarithm_base", "wrong_factor"), OFTEN
    elif called_name == "store":
        kinds, weight = ("lost_update", "stores_collide", "race"), RARELY
    elif called_name in ("minimum", "maximum") and bounds_a_loop(scope, node):
        kinds = ("loop_bounds", "block_left_out", "causal_loop", "done_again")
    if name := _RELATED.get(called_name):
        yield scope.edit(node.func, f"{scope.text(node.func.value)}.{name}", kinds, weight)


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


def _directions(scope: Scope, node: ast.AST) -> Iterator[Edit]:
    """Reverse a comparison."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _REVERSED:
        sign = _REVERSED[type(node.ops[0])]
        after = f"{scope.text(node.left)} {sign} {scope.text(node.comparators[0])}"
        yield scope.edit(node, after, ("causal_missing", "causal_alignment", "missing_mask"), NOW_AND_THEN)


def _last_groups(scope: Scope, node: ast.AST) -> Iterator[Edit]:
    """Limit the last group of tiles to the rows that are left: `% GROUP` and `// GROUP` of one number in a group.

    A group has GROUP * columns programs, and there are num_programs // columns rows.
    """
    if not scope.in_kernel or not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Mod):
        return
    # The group may have a second name: `height = GROUP`.
    place, group = scope.meaning(node.left), scope.text(scope.meaning(node.right))
    if not isinstance(place, ast.BinOp) or not isinstance(place.op, ast.Mod):
        # The remainder may be taken of the number itself: a group has a multiple of GROUP programs.
        place = next((one for one in _remainders(scope) if ast.dump(one.left) == ast.dump(node.left)), place)
    width = scope.meaning(place.right) if isinstance(place, ast.BinOp) and isinstance(place.op, ast.Mod) else None
    if not isinstance(place, ast.BinOp) or not isinstance(width, ast.BinOp) or not isinstance(width.op, ast.Mult):
        return
    sides = [scope.text(width.left), scope.text(width.right)]
    if group not in sides:
        return
    columns = sides[1 - sides.index(group)]
    first = f"({scope.text(place.left)} // ({scope.text(place.right)})) * {group}"
    rows = f"min(tl.num_programs(0) // ({columns}) - {first}, {group})"
    for other in ast.walk(scope.function):
        if not isinstance(other, ast.BinOp) or not isinstance(other.op, ast.FloorDiv):
            continue
        is_of_it = ast.dump(other.left) in (ast.dump(node.left), ast.dump(place))
        if is_of_it and scope.text(scope.meaning(other.right)) == group:
            (start, end), (second, last) = sorted((scope.span(node.right), scope.span(other.right)))
            between = scope.source[end:second].decode()
            before, after = scope.source[start:last].decode(), f"{rows}{between}{rows}"
            cut = f"min(rows - first row, {group})"
            shown = f"% {cut} … // {cut}", f"% {group} … // {group}"
            yield Edit(node.lineno, before, after, ("group_not_cut",), MOST, start, last, True, shown=shown)


def _remainders(scope: Scope) -> Iterator[ast.BinOp]:
    """Yield the remainders by the number of programs in a group, which are divided: `(pid % width) // GROUP`."""
    for one in ast.walk(scope.function):
        match one:
            case ast.BinOp(ast.BinOp(_, ast.Mod()) as remainder, ast.FloorDiv()):
                yield remainder


def _half_cut_groups(scope: Scope, node: ast.AST) -> Iterator[Edit]:
    """Use one divisor for the remainder and the quotient of a number in a group: `local % rows`, `local // rows`."""
    if not scope.in_kernel or not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Mod | ast.FloorDiv):
        return
    other_sign = ast.FloorDiv if isinstance(node.op, ast.Mod) else ast.Mod
    for other in ast.walk(scope.function):
        if not isinstance(other, ast.BinOp) or not isinstance(other.op, other_sign):
            continue
        is_cut = called(scope.meaning(other.right)) in ("min", "minimum")
        if is_cut and ast.dump(other.left) == ast.dump(node.left):
            yield scope.edit(node.right, scope.text(other.right), ("group_not_cut",), MOST)


def _quotients(scope: Scope, node: ast.AST) -> Iterator[Edit]:
    """Exchange quotient, remainder and dividend, or divide an index."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.FloorDiv | ast.Mod):
        left, right = scope.text(node.left), scope.text(node.right)
        sign = "%" if isinstance(node.op, ast.FloorDiv) else "//"
        parts = _kinds_of_parts(f"{left} {right}")
        exchanged = parts if parts == _PARTS else ("parts_exchanged", *parts)
        yield scope.edit(node, f"({left} {sign} {right})", exchanged, OFTEN / 2)
        # A remainder by a literal number is right for the sizes below it only.
        assumed = isinstance(node.op, ast.Mod) and isinstance(node.right, ast.Constant)
        yield scope.edit(node, left, ("size_assumed", *parts) if assumed else parts, SOMETIMES / 2)
    if not scope.in_kernel or not isinstance(node, ast.expr):
        return
    parent = scope.parents.get(node)
    is_index = isinstance(node, ast.Name) and isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.Mult)
    is_index |= isinstance(node, ast.Name) and (isinstance(parent, ast.List) or scope.is_compared(node))
    if is_index and isinstance(getattr(node, "ctx", None), ast.Load) and not scope.is_number(scope.text(node)):
        for divisor, sign in scope.divisors:
            parts = _kinds_of_parts(f"{scope.text(node)} {divisor}")
            yield scope.edit(node, f"({scope.text(node)} {sign} {divisor})", parts, SOMETIMES / 2)
    if isinstance(parent, ast.Assign) and isinstance(node, ast.BinOp) and isinstance(node.op, ast.FloorDiv):
        for name in scope.sizes:
            # A stride and the length of a block count no parts.
            if name not in names_in(node) and name not in scope.lane_factors and name not in scope.blocks:
                yield scope.edit(node, f"({scope.text(node)}) % {name}", ("wrong_address", "bad_index", *_PARTS), OFTEN)


def _kinds_of_parts(text: str) -> tuple[str, ...]:
    """Return the kinds of a mistake in a quotient or a remainder: of heads, unless its names speak of other axes."""
    is_of_others = _NOT_OF_HEADS.search(text) and not _OF_HEADS.search(text)
    return tuple(kind for kind in _PARTS if kind != "heads_mapping") if is_of_others else _PARTS


def _exchanged_names(scope: Scope, node: ast.AST) -> Iterator[Edit]:
    """Exchange two names everywhere in an expression: the sizes of two axes, or the indices."""
    if not isinstance(node, ast.stmt) or isinstance(node, ast.FunctionDef | ast.If | ast.While):
        return
    values = [getattr(node, "value", None), getattr(node, "iter", None)]
    values += [one.value for one in values[0].keywords] if isinstance(values[0], ast.Call) else []
    for value in values:
        if not isinstance(value, ast.expr) or isinstance(value, ast.Name | ast.Constant):
            continue
        for one, other in combinations(sorted(names_in(value) & scope.known_from.keys()), 2):
            alike = is_one_letter_off(one, other) or (one in scope.sizes and other in scope.sizes)
            if alike and may_matter(scope, one, other):
                after = scope.renamed(value, {one: other, other: one})
                kinds = TENSORS if _is_loaded(scope, one) and _is_loaded(scope, other) else ()
                yield scope.edit(value, after, (*kinds, *SIZES, "causal_alignment"), NOW_AND_THEN)


def _is_loaded(scope: Scope, name: str) -> bool:
    """Return whether a name stands for a loaded value."""
    assigned = (one for one in ast.walk(scope.function) if isinstance(one, ast.Assign))
    values = (one.value for one in assigned if bare_name(one.targets[0]) == name)
    return any(called(one) == "load" for value in values for one in ast.walk(value))


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


def _casts(scope: Scope, node: ast.AST) -> Iterator[Edit]:
    """Remove a conversion, or widen a loaded value."""
    if not isinstance(node, ast.Call) or not scope.in_kernel:
        return
    if isinstance(node.func, ast.Attribute) and node.func.attr == "to":
        if node.args and _NARROW_NUMBERS.search(scope.text(node.args[0])):
            yield scope.edit(node.args[0], "tl.int64", ("offset_overflow",), MOST)
            return
        # A literal dtype fits the inputs of one dtype only.
        narrows = bool(node.args) and scope.text(node.args[0]).endswith(_NARROW)
        kinds, weight = (_ROUNDED, OFTEN) if narrows else (OF_DTYPES, SOMETIMES / 2)
        yield scope.edit(node, scope.text(node.func.value), kinds, weight)
    elif called(node) == "load" and _called_on(scope, node) != "to":
        yield scope.edit(node, f"{scope.text(node)}.to(tl.float32)", OF_DTYPES, SOMETIMES / 2)


def _called_on(scope: Scope, node: ast.expr) -> str:
    """Return the method that is called on the value of an expression; "" for none."""
    parent = scope.parents.get(node)
    return parent.attr if isinstance(parent, ast.Attribute) else ""


def _of_masks(scope: Scope, node: ast.AST) -> Iterator[Edit]:
    """Use in the address the index of the mask, or in the mask the index of the address."""
    mask = keyword(node, "mask") if isinstance(node, ast.Call) and called(node) in ("load", "store") else None
    if not scope.in_kernel or mask is None or not isinstance(node, ast.Call) or not node.args:
        return
    compared = (one.left for one in ast.walk(mask) if isinstance(one, ast.Compare))
    indices = {name for one in compared for name in names_in(one) if scope.known_from.get(name)}
    in_address = {name for name in names_in(node.args[0]) if scope.known_from.get(name)}
    for own, other in product(sorted(in_address - indices), sorted(indices - in_address)):
        kinds = ("wrong_address", "missing_mask", "operand_mixed_up")
        # One half of a tile, and the other: the second is computed from the first, or like it.
        meant = scope.meaning(ast.Name(own)), scope.meaning(ast.Name(other))
        is_near = own in names_in(meant[1]) or other in names_in(meant[0]) or names_in(meant[0]) == names_in(meant[1])
        weight = OFTEN if is_near else NOW_AND_THEN
        yield scope.edit(node.args[0], scope.renamed(node.args[0], {own: other}), kinds, weight)
        yield scope.edit(mask, scope.renamed(mask, {other: own}), ("missing_mask", *kinds), weight)


def _boundary_checks(scope: Scope, node: ast.AST) -> Iterator[Edit]:
    """Check the block of a pointer along each axis."""
    if not isinstance(node, ast.Call) or called(node) not in ("load", "store") or keyword(node, "mask") is not None:
        return
    checked = keyword(node, "boundary_check")
    for axes in ("(0,)", "(1,)", "(0, 1)"):
        if checked is not None:
            yield scope.edit(checked, axes, _TOO_WIDE, OFTEN)
        elif scope.has_block_pointers:
            yield scope.edit(node, f"{scope.text(node)[:-1]}, boundary_check={axes})", _TOO_WIDE, OFTEN)


def _starts(scope: Scope, node: ast.AST) -> Iterator[Edit]:
    """Use another value for hidden elements, or another start value."""
    if not scope.in_kernel or not isinstance(node, ast.Call):
        return
    place = {"where": 2, "full": 1}.get(called(node))
    if place is not None and len(node.args) > place:
        kinds = _STARTS if called(node) == "full" else _HIDDEN
        infinite = "inf" in scope.text(node.args[place])
        for value in _PADDING:
            from_infinity = ("inf_minus_inf",) if infinite and "inf" not in value else ()
            yield scope.edit(node.args[place], value, (*from_infinity, *kinds))
    if called(node) == "where" and len(node.args) == 3:
        if _ends_at_a_number(node.args[0]):
            yield scope.edit(node, scope.text(node.args[1]), _kinds_of_ends(scope, node), MOST)
        yield scope.edit(node, scope.text(node.args[1]), ("padding_counted", "value_shortcut"), NOW_AND_THEN)


def _kinds_of_ends(scope: Scope, choice: ast.Call) -> tuple[str, ...]:
    """Return the kinds of a choice that takes its first value only below a literal number."""
    _, taken, other = choice.args
    if isinstance(taken, ast.BinOp) and ast.dump(other) in (ast.dump(taken.left), ast.dump(taken.right)):
        # Above the number a step is missing: `tl.where(i < 64, acc * rescale, acc)`.
        return ("no_rescale", *_FACTORS) if scope.target_of(choice)[0] else _FACTORS
    return ("no_maximum",) if called(scope.parents.get(choice)) == "max" else ("not_all_covered",)


def _ends_at_a_number(condition: ast.expr) -> bool:
    """Return whether a condition holds only below a literal number, as in `columns < 8192`."""
    is_below = isinstance(condition, ast.Compare) and isinstance(condition.ops[0], ast.Lt | ast.LtE)
    end = condition.comparators[0] if isinstance(condition, ast.Compare) and is_below else None
    return isinstance(end, ast.Constant) and isinstance(end.value, int) and end.value > 1


def _missing_factors(scope: Scope, node: ast.AST) -> Iterator[Edit]:
    """Multiply an accumulator, or an addend of a loop, by a factor of the function."""
    if not scope.in_kernel or not isinstance(node, ast.Name | ast.Call) or _called_on(scope, node):
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


SLIPS: tuple[Callable[[Scope, ast.AST], Iterator[Edit]], ...] = (
    # Before the finders that replace a mask by any other.
    *IN_MASKS,
    *IN_PAIRS,
    # Before the finders of names, which take any number.
    *IN_GRIDS,
    *IN_NAMES,
    _bounds,
    _directions,
    _divisions,
    _last_groups,
    _half_cut_groups,
    _quotients,
    _operands,
    _signs,
    _brackets,
    _numbers,
    _bases,
    _missing_bases,
    _logits_of_base_2,
    _short_constants,
    _moduli,
    _reductions,
    _related_functions,
    _masks,
    _of_masks,
    _boundary_checks,
    _starts,
    _order,
    _exchanged_names,
    *IN_PRODUCTS,
    _factors,
    _missing_factors,
    _factors_of_others,
    _missing_strides,
    _casts,
    _allocations,
    *IN_INDICES,
    # Before the finders of loops, which hide elements of any maximum.
    *IN_MAXIMA,
    *IN_LOOPS,
    *IN_SHARES,
    *IN_PRECISION,
    *IN_OTHER_LOOPS,
)
