"""Find a condition that `&` or `|` takes apart: `rows < m & live` compares rows with `m & live`.

Take a failing call, and the submission's text. Return a clue. Run only launch code.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from grader.diagnosis.edits.edit_scope import Edit
from grader.diagnosis.edits.edited import Edited
from grader.diagnosis.edits.edits import scopes_of
from grader.diagnosis.edits.masks import conditions_in_brackets
from grader.diagnosis.edits.repairs import kernels_in
from grader.judge.bench import Bench
from grader.judge.clue import Clue
from grader.judge.failures import WrongCall
from grader.syntax import conditions_apart, tree_of
from grader.text import clean

# Hardly anybody means such a condition, but the failure may have another cause.
_WEIGHT = 0.9
_LONGEST = 80


def brackets_clue(bench: Bench, text: str, wrong_call: WrongCall) -> Clue | None:
    """Return the clue of the first condition without brackets in the kernels of a call; None without one.

    bench: interprets. text: the submission's.
    """
    if not any(isinstance(one, ast.Compare) and _is_taken_apart(one) for one in ast.walk(tree_of(text))):
        return None
    with bench.findings.aside():
        recorded = Edited.of(bench, wrong_call.recipe).recorded
    if recorded is None or recorded.trace.programs:
        return None
    scopes = scopes_of(text, kernels_in(recorded.trace), bench.part.name)
    nodes = ((scope, node) for scope in scopes for node in ast.walk(scope.function))
    found: Iterator[Edit] = (edit for scope, node in nodes for edit in conditions_in_brackets(scope, node))
    edit = min(found, key=lambda one: one.line, default=None)
    if edit is None:
        return None
    evidence = f"Line {edit.line}: `{clean(edit.before, _LONGEST)}` lacks brackets."
    return Clue(edit.kinds[0], _WEIGHT, evidence, help=edit.help, firm=True)


def _is_taken_apart(node: ast.Compare) -> bool:
    return not isinstance(conditions_apart(node), ast.Compare)
