"""List edits for calls of functions: another axis, or a function that is easily confused."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from grader.diagnosis.edits.edit_scope import OFTEN, RARELY, SLIP, SOMETIMES, Edit, Finder, Scope, called
from grader.diagnosis.edits.loops import bounds_a_loop

# Functions along an axis.
REDUCTIONS = frozenset({"sum", "max", "min", "argmax", "argmin", "reduce"})
# Functions that are easily confused.
_PAIRS = (("exp", "exp2"), ("log", "log2"), ("sum", "max"), ("minimum", "maximum"))
_RELATED = {**dict(_PAIRS), **{other: one for one, other in _PAIRS}, "store": "atomic_add"}
EXPONENTIALS = frozenset({"exp", "exp2", "log", "log2"})


def _reductions(scope: Scope, node: ast.AST) -> Iterator[Edit]:
    """Reduce along one axis, and not along all."""
    if isinstance(node, ast.Call) and called(node) in REDUCTIONS and len(node.args) == 1 and not node.keywords:
        for axis in (0, 1):
            yield scope.edit(node, f"{scope.text(node)[:-1]}, axis={axis})", ("wrong_axis",), OFTEN)


def _related_functions(scope: Scope, node: ast.AST) -> Iterator[Edit]:
    """Call the function that is easily confused with this one."""
    if not scope.in_kernel or not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return
    called_name = node.func.attr
    kinds: tuple[str, ...] = (SLIP, "wrong_factor")
    weight = SOMETIMES
    if called_name in EXPONENTIALS:
        kinds, weight = ("logarithm_base", "wrong_factor"), OFTEN
    elif called_name == "store":
        kinds, weight = ("lost_update", "stores_collide", "race"), RARELY
    elif called_name in ("minimum", "maximum") and bounds_a_loop(scope, node):
        kinds = ("loop_bounds", "block_left_out", "causal_loop", "done_again")
    if name := _RELATED.get(called_name):
        yield scope.edit(node.func, f"{scope.text(node.func.value)}.{name}", kinds, weight)


IN_FUNCTIONS: tuple[Finder, ...] = (_reductions, _related_functions)
