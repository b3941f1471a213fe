"""Find a condition that `&` or `|` takes apart: `rows < m & live` compares rows with `m & live`.

Take the functions that a call ran. Return a clue. Run nothing.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from grader.diagnosis.edits.edit_scope import Edit, Scope
from grader.diagnosis.edits.masks import conditions_in_brackets
from grader.judge.clue import Clue
from grader.text import clean

# Hardly anybody means such a condition, but the failure may have another cause.
_WEIGHT = 0.9
_LONGEST = 80


def brackets_clue(scopes: Sequence[Scope]) -> Clue | None:
    """Return the clue of the first condition without brackets in the functions of a call; None without one."""
    nodes = ((scope, node) for scope in scopes for node in ast.walk(scope.function))
    found: Iterator[Edit] = (edit for scope, node in nodes for edit in conditions_in_brackets(scope, node))
    edit = min(found, key=lambda one: one.line, default=None)
    if edit is None:
        return None
    evidence = f"Line {edit.line}: `{clean(edit.before, _LONGEST)}` lacks brackets."
    return Clue(edit.kinds[0], _WEIGHT, evidence, help=edit.help, firm=True)
