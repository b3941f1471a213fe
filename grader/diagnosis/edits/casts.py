"""List edits for conversions of values to another dtype."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from grader.diagnosis.edits.edit_scope import MOST, OFTEN, SOMETIMES, Edit, Finder, Scope, called
from grader.diagnosis.edits.precision import OF_DTYPES

# The kinds of a conversion to a narrow dtype.
_ROUNDED = ("rounded_intermediate", "low_precision_sum", "wrong_dtype")
_NARROW = (".float16", ".bfloat16")
_NARROW_NUMBERS = re.compile(r"\.u?int(8|16|32)$")


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
    elif called(node) == "load" and scope.called_on(node) != "to":
        yield scope.edit(node, f"{scope.text(node)}.to(tl.float32)", OF_DTYPES, SOMETIMES / 2)


IN_CASTS: tuple[Finder, ...] = (_casts,)
