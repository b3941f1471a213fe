"""Compare the conditions that the compiler decides in a kernel with how they turned out in the interpreter.

A kernel that takes a branch there which the compiler drops was judged on other code than a GPU runs.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from grader.protocol.observations import StaticCondition

Place = tuple[int, int, int, int]


class ConditionWatch:
    """Notes the conditions that Triton's compiler decides. path: the submission's file."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._interpreted: Sequence[StaticCondition] = ()
        self._decided: dict[Place, set[bool]] = {}

    def install(self) -> None:
        """Stand in front of the compiler's front end. Call it once."""
        from triton.compiler.code_generator import CodeGenerator

        visit = CodeGenerator.visit

        def watched(generator: Any, node: Any) -> Any:
            if isinstance(node, ast.FunctionDef):
                mark_conditions(node)
            value = visit(generator, node)
            if is_condition(node) and generator.file_name == self._path:
                self._note(place_of(node, generator.begin_line), value)
            return value

        CodeGenerator.visit = watched

    def begin(self, interpreted: Sequence[StaticCondition]) -> None:
        """Begin a trace. interpreted: the conditions of its launches in the interpreter."""
        self._interpreted = interpreted

    def begin_kernel(self) -> None:
        """Begin a kernel, of which nothing is decided yet."""
        self._decided.clear()

    def other_branch(self, launch: int) -> tuple[int, str]:
        """Return the line of a condition that the compiler decided otherwise for that launch, and how; 0 without one.

        Conditions that it left to the GPU, or did not reach, are ignored.
        """
        for one in self._interpreted:
            decided = self._decided.get(one.place, set())
            if one.launch == launch and decided and one.holds not in decided:
                return one.place[0], f"holds {'in the interpreter only' if one.holds else 'for the compiler only'}"
        return 0, ""

    def _note(self, place: Place, value: Any) -> None:
        if not hasattr(value, "handle"):
            self._decided.setdefault(place, set()).add(bool(getattr(value, "value", value)))


def mark_conditions(tree: ast.AST) -> None:
    """Mark the expressions of a tree that decide a branch: of `if`, and the operands of `and` and `or` but the last."""
    for node in ast.walk(tree):
        match node:
            case ast.If() | ast.IfExp():
                conditions = [node.test]
            case ast.BoolOp():
                conditions = node.values[:-1]
            case _:
                conditions = []
        for one in conditions:
            one.is_condition = True  # type: ignore[attr-defined]


def is_condition(node: ast.AST) -> bool:
    """Return whether an expression was marked."""
    return getattr(node, "is_condition", False)


def place_of(node: ast.expr, lines_before: int = 0) -> Place:
    """Return the place of an expression in a text; lines_before: those before the text that it was parsed from."""
    last_line, last_column = node.end_lineno or node.lineno, node.end_col_offset or node.col_offset
    return lines_before + node.lineno, node.col_offset, lines_before + last_line, last_column
