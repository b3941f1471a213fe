"""List edits for the memory that torch allocates."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from grader.diagnosis.edits.edit_scope import OFTEN, SOMETIMES, Edit, Finder, Scope, keyword
from grader.diagnosis.edits.precision import OF_DTYPES

# Functions of torch that allocate, and those that clear the memory too.
_CLEARED = {"empty": "zeros", "empty_like": "zeros_like", "new_empty": "new_zeros"}


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


IN_ALLOCATIONS: tuple[Finder, ...] = (_allocations,)
