"""Find small mistakes in indices. Each finder takes a node and yields edits."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

from grader.diagnosis.edit_scope import SOMETIMES, Edit, Scope

# The kinds behind an index that counts from another start.
_STARTS = ("relative_index", "position_shifted", "wrong_address", "bad_index", "missing_mask", "past_length")


def _relative_indices(scope: Scope, node: ast.AST) -> Iterator[Edit]:
    """Take the index of the whole in place of that within a part, or the reverse: `slot = first + at`."""
    if not scope.in_kernel or not isinstance(node, ast.Name) or not isinstance(node.ctx, ast.Load):
        return
    for whole, terms in scope.sums.items():
        if node.id in terms and whole != node.id and scope.known_from[whole] < node.lineno:
            yield scope.edit(node, whole, _STARTS, SOMETIMES)
    for term in sorted(scope.sums.get(node.id, ())):
        yield scope.edit(node, term, _STARTS, SOMETIMES / 2)


IN_INDICES: tuple[Callable[[Scope, ast.AST], Iterator[Edit]], ...] = (_relative_indices,)
