"""List edits that make a line of one loop like the same line of another loop of the kernel.

Kernels often walk along an axis in two loops, over whole blocks and over the rest, and a line of one is forgotten when
the other's changes.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace
from difflib import SequenceMatcher

from grader.diagnosis.edits.edit_scope import OFTEN, SLIP, Edit, Finder, Scope, bare_name

# The least likeness of two lines, 0 … 1.
_ALIKE = 0.6
# The kinds of what may differ between two such lines.
_KINDS = (
    SLIP,
    "logarithm_base",
    "scale_missing",
    "no_rescale",
    "causal_alignment",
    "missing_mask",
    "padding_counted",
    "past_length",
    "heads_mapping",
    "strides_ignored",
    "wrong_address",
    "operand_mixed_up",
)


def _as_in_another_loop(scope: Scope, node: ast.AST) -> Iterator[Edit]:
    """Assign to a name what another loop assigns to it, if the two lines are much alike."""
    if not scope.in_kernel or not isinstance(node, ast.Assign | ast.AugAssign):
        return
    loop, own, text = _loop_of(scope, node), _target(node), scope.text(node.value)
    if loop is None or not own:
        return
    for other in ast.walk(scope.function):
        if not isinstance(other, ast.Assign | ast.AugAssign) or type(other) is not type(node) or _target(other) != own:
            continue
        if _loop_of(scope, other) in (None, loop):
            continue
        after = scope.text(other.value)
        if ast.dump(other.value) != ast.dump(node.value) and SequenceMatcher(None, text, after).ratio() >= _ALIKE:
            told = f"Line {other.lineno} assigns the same name in another loop: must the two lines not be alike?"
            yield replace(scope.edit(node.value, after, _KINDS, OFTEN), help=told)


def _target(node: ast.AST) -> str:
    """Return the name that a statement assigns; "" if it assigns several, or none."""
    if isinstance(node, ast.Assign) and len(node.targets) == 1:
        return bare_name(node.targets[0])
    return bare_name(node.target) if isinstance(node, ast.AugAssign) else ""


def _loop_of(scope: Scope, node: ast.AST) -> ast.AST | None:
    """Return the innermost loop around a statement; None if there is none."""
    around = scope.parents.get(node)
    while around is not None and not isinstance(around, ast.For | ast.While):
        around = scope.parents.get(around)
    return around


IN_OTHER_LOOPS: tuple[Finder, ...] = (_as_in_another_loop,)
