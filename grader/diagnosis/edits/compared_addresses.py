"""Find a mask that compares an address with a length: `row * stride + columns < n_columns` holds in row 0 alone.

Take the functions that a call ran. Return a clue. Run nothing.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from grader.diagnosis.edits.edit_scope import Scope, bare_name, called
from grader.judge.clue import Clue
from grader.text import clean

KIND = "relative_index"
# All programs but the first fail the condition: that leaves little else to blame.
_WEIGHT = 0.95
_LONGEST = 80


def compared_address_clue(scopes: Sequence[Scope]) -> Clue | None:
    """Return the clue of the first condition of a call's kernels that only the first program's elements meet."""
    return next((clue for scope in scopes if scope.in_kernel for clue in _clues(scope)), None)


def _clues(scope: Scope) -> Iterator[Clue]:
    for node in ast.walk(scope.function):
        match node:
            case ast.Compare(left=index, ops=[ast.Lt()], comparators=[ast.Name(bound)]):
                if step := _step(scope, index, bound):
                    yield _clue(node.lineno, clean(scope.text(node), _LONGEST), step, bound)


def _step(scope: Scope, index: ast.expr, bound: str) -> str:
    """Return the argument that an index takes times the number of its program, if no bound is larger; else ""."""
    most, origins = scope.values.get(bound), list(scope.origins(index))
    taken_apart = any(isinstance(one, ast.BinOp) and isinstance(one.op, ast.Mod | ast.FloorDiv) for one in origins)
    if type(most) is not int or taken_apart or not any(called(one) == "arange" for one in origins):
        return ""
    for one in origins:
        if not isinstance(one, ast.BinOp) or not isinstance(one.op, ast.Mult):
            continue
        for factor, other in ((one.left, one.right), (one.right, one.left)):
            name = bare_name(factor)
            value = scope.values.get(name)
            is_step = name == bound or "stride" in name.lower()
            if is_step and type(value) is int and value >= most > 1 and _is_of_program(scope, other):
                return name
    return ""


def _is_of_program(scope: Scope, factor: ast.expr) -> bool:
    """Return whether a factor is the number of a program, and no part of a block."""
    made_by = {called(one) for one in scope.origins(factor)}
    return "program_id" in made_by and "arange" not in made_by


def _clue(line: int, condition: str, step: str, bound: str) -> Clue:
    return Clue(
        KIND,
        _WEIGHT,
        f"Line {line}: in `{condition}`, the index has the number of the program times {step} in it, and that alone is "
        f"at least {bound} from program 1 on.",
        title="Looks like a mask that compares an address with a length",
        help=f"Compare what counts within the row: the lanes, as in `tl.arange(0, BLOCK) < {bound}`, and not the place "
        "in memory.",
        firm=True,
    )
