"""List edits for sums in dtypes with fewer bits than float32."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import replace

from grader.diagnosis.edits.edit_scope import MOST, NOW_AND_THEN, Edit, Finder, Scope, called, keyword
from grader.phrases import lines_named

# The kinds of a wrong dtype.
OF_DTYPES = ("low_precision_sum", "rounded_intermediate", "wrong_dtype")
_WIDE = "tl.float32"
_NOT_NARROW = re.compile(r"float(32|64)|int\d+|bool")
_PRODUCT = (
    "tl.dot gives {dtype} here: each product of two blocks is rounded to it before it is added. Leave `out_dtype` out: "
    "float32 is the default."
)
_ACCUMULATOR = "This accumulator starts as {dtype}, and a sum of many steps loses its low bits: use tl.float32."
_STEP = "This line rounds to {dtype} in every step of the loop. Add up in float32, and convert once, after the loop."


def _narrow_sums(scope: Scope, node: ast.AST) -> Iterator[Edit]:
    """Use float32 for the addends of a step, for the accumulator, or for both in all of the function."""
    if not scope.in_kernel:
        return
    if found := _narrow_place(scope, node):
        yield _widened(scope, *found)
    if isinstance(node, ast.FunctionDef):
        places = [place for one in ast.walk(node) if (place := _narrow_place(scope, one))]
        places.sort(key=lambda place: scope.span(place[0]))
        if len(places) > 1:
            first, *others = places
            lines = lines_named(sorted({place.lineno for place, _ in others}))
            whole = scope.joined([(place, _WIDE) for place, _ in places], OF_DTYPES, NOW_AND_THEN)
            shown = f"{_WIDE}, there and in {lines},", scope.text(first[0])
            yield replace(_worded(scope, whole, *first), shown=shown)


def _narrow_place(scope: Scope, node: ast.AST) -> tuple[ast.expr, str] | None:
    """Return the dtype that a call gives to a sum or to an addend, with help; None if it may have enough bits."""
    dtype, help_text = _dtype_of(scope, node)
    if dtype is None or _NOT_NARROW.search(_meant(scope, dtype)):
        return None
    return dtype, help_text


def _dtype_of(scope: Scope, node: ast.AST) -> tuple[ast.expr | None, str]:
    """Return the dtype of a product of blocks, of an accumulator's start, or of an addend; with help."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return None, ""
    given = keyword(node, "dtype") or (node.args[-1] if node.args else None)
    match node.func.attr:
        case "dot" | "dot_scaled":
            return keyword(node, "out_dtype"), _PRODUCT
        case "zeros" if given is not None and (keyword(node, "dtype") or len(node.args) > 1):
            return given, _ACCUMULATOR
        case "full" if keyword(node, "dtype") or len(node.args) > 2:
            return given, _ACCUMULATOR
        case "to" if scope.in_a_loop(node) and scope.target_of(node)[0] and not _is_multiplied(scope, node):
            return given, _STEP
    return None, ""


def _is_multiplied(scope: Scope, node: ast.AST) -> bool:
    """Return whether a node goes into a product of blocks, whose operands may be narrow, or into an address."""
    at = scope.parents.get(node)
    while at is not None and not isinstance(at, ast.stmt):
        if called(at) in ("dot", "load", "store", "arange"):
            return True
        at = scope.parents.get(at)
    return False


def _meant(scope: Scope, dtype: ast.expr) -> str:
    """Return a dtype in words: the value of a constant of the launch, or the text itself."""
    text = scope.text(dtype)
    value = scope.values.get(text)
    return value if isinstance(value, str) else text


def _widened(scope: Scope, dtype: ast.expr, help_text: str) -> Edit:
    """Return the edit that replaces a dtype by float32."""
    return _worded(scope, scope.edit(dtype, _WIDE, OF_DTYPES, MOST), dtype, help_text)


def _worded(scope: Scope, edit: Edit, dtype: ast.expr, help_text: str) -> Edit:
    """Return the edit with the name of the argument in its words, and with help that names the dtype."""
    parent = scope.parents.get(dtype)
    name, end = (f"{parent.arg}=", "") if isinstance(parent, ast.keyword) else ("", "")
    name, end = (".to(", ")") if called(parent) == "to" else (name, end)
    shown = f"{name}{_WIDE}{end}", f"{name}{scope.text(dtype)}{end}"
    return replace(edit, shown=shown, help=help_text.format(dtype=_meant(scope, dtype)))


IN_PRECISION: tuple[Finder, ...] = (_narrow_sums,)
