"""Record the outcome of kernel conditions that depend on no tensor: a compiler decides these, and drops a branch.

The compiler may see another length of a tuple, another attribute or another class than the interpreter does. A kernel
that asks for it takes one branch here, and the compiler keeps the other one.
"""

from __future__ import annotations

import ast
from contextlib import suppress
from typing import Any

from grader.compile.static_conditions import Place, is_condition, place_of
from grader.interpreter.language.branches import BRANCHES
from grader.protocol.observations import StaticCondition

# The most conditions of one call that are noted.
_MOST = 1024


class StaticConditions:
    """The conditions of one call, each with its launch."""

    def __init__(self) -> None:
        self._launch = 0
        self._noted: dict[StaticCondition, None] = {}

    def begin(self) -> None:
        """Start over with a call."""
        self._noted.clear()

    def launching(self, number: int) -> None:
        """Begin a launch. number: its place among those of the trace."""
        self._launch = number

    def note(self, place: Place, holds: bool) -> None:
        """Note a condition, at a place of the submission's text."""
        if len(self._noted) < _MOST:
            self._noted[StaticCondition(self._launch, place, holds)] = None

    def noted(self) -> tuple[StaticCondition, ...]:
        """Return the conditions since the call began, each outcome once."""
        return tuple(self._noted)


STATIC_CONDITIONS = StaticConditions()


def decided(place: Place, condition: Any) -> Any:
    """Return a condition of a kernel, and note its outcome, also as a static one if no tensor decides it."""
    # Python raises the exception where it asks next.
    with suppress(Exception):
        BRANCHES.note_condition(place[0], condition)
        if not hasattr(condition, "handle"):
            STATIC_CONDITIONS.note(place, bool(condition))
    return condition


class NoteConditions(ast.NodeTransformer):
    """Rewrites `if a:` to `if interpreter_semantic.decided(place, a):`, and each marked condition like it."""

    def visit(self, node: ast.AST) -> Any:
        """Rewrite the conditions within a node, and the node if it is one."""
        rewritten = self.generic_visit(node)
        return _noted(rewritten) if is_condition(node) and isinstance(rewritten, ast.expr) else rewritten


def _noted(condition: ast.expr) -> ast.expr:
    owner = ast.Attribute(ast.Name("interpreter_semantic", ast.Load()), "decided", ast.Load())
    place = ast.Tuple([ast.Constant(one) for one in place_of(condition)], ast.Load())
    call = ast.Call(owner, [place, condition], [])
    return ast.fix_missing_locations(ast.copy_location(call, condition))
