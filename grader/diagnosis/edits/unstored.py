"""Find the line that prevents a program from storing memory that another program reads.

Take a call whose answer depends on memory that no program wrote. Replay it with edited texts: without an early return,
with a branch always taken, or without a condition in the mask of a store. If the answer no longer depends on that
memory, the edited line is the reason.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from grader.diagnosis.edits.edit_scope import Edit, Scope, called, keyword
from grader.diagnosis.edits.edited import Edited
from grader.diagnosis.edits.edits import scopes_of
from grader.diagnosis.edits.masks import conjuncts
from grader.diagnosis.edits.repairs import kernels_in
from grader.judge.bench import Bench
from grader.judge.clue import Clue, sure
from grader.judge.compare import compare, tensor_of
from grader.protocol.requests import Recipe
from grader.text import clean

KIND = "not_cleared"
# The number of lines that are tried, and the seconds of a replay.
_MOST_LINES, _CALL_S = 8, 1.0
_LONGEST = 60
_HELP = (
    "A program without work, such as a split without elements, must store its part too, with a value that changes "
    "nothing: a sum of 0, a maximum or a log-sum-exp of -inf. Or the program that joins the parts must leave it out "
    "by the same condition."
)


@dataclass(frozen=True)
class _Reason:
    """A line that may prevent a store. way: the result of its condition then; "" for a mask."""

    edit: Edit
    way: Literal["true", "false", ""]
    title: str
    says: str


def unstored_clue(bench: Bench, text: str, recipe: Recipe) -> Clue | None:
    """Return the clue of the line without which the call reads no unwritten memory; or None.

    recipe: of a call that reads some. text: the submission's. bench: interprets.
    """
    with bench.findings.aside():
        call = Edited.of(bench, recipe)
        reasons, read = _reasons(call, text), _answers(call, text)
        if not reasons or read is None or not read.differ:
            return None
        for one in reasons[:_MOST_LINES]:
            found = _answers(call, one.edit.applied(text))
            if found is not None and not found.differ and found.spares(read):
                where = f"Line {one.edit.line}, `{clean(one.edit.before, _LONGEST)}`: {one.says}"
                return sure(KIND, where, one.title, _HELP)
    return None


@dataclass(frozen=True)
class _Answers:
    """Two answers of one call. differ: they depend on unwritten memory. right: the right elements of each output."""

    differ: bool
    right: Sequence[Tensor]

    def spares(self, others: _Answers) -> bool:
        """Return whether every element that is right in the other answers is right."""
        return not any(bool((before & ~now).any()) for now, before in zip(self.right, others.right, strict=True))


def _answers(call: Edited, text: str) -> _Answers | None:
    """Return the answers of a call with two contents of new memory; None if it gives no answer."""
    zeros, numbers = (call.outputs_with(text, _CALL_S, unwritten) for unwritten in ("0", "nan"))
    expected = call.bench.truth.expect(call.bench.part, call.recipe)
    if zeros is None or numbers is None or not len(zeros) == len(numbers) == len(expected):
        return None
    whole = [(raw, one) for raw, one in zip(numbers, expected, strict=True) if raw is not None]
    return _Answers(zeros != numbers, [~compare(tensor_of(raw, one), one).wrong for raw, one in whole])


def _reasons(call: Edited, text: str) -> list[_Reason]:
    """Return the lines that may prevent a store in the kernels of a call: early returns first, masks last."""
    if call.recorded is None or call.recorded.trace.programs:
        return []
    taken = {(one.line, one.outcome) for one in call.branches(_CALL_S) or ()}
    scopes = scopes_of(text, kernels_in(call.recorded.trace), call.bench.part.name)
    found = [one for scope in scopes if scope.in_kernel for one in _of_kernel(scope)]
    found = [one for one in found if not one.way or (one.edit.line, one.way) in taken]
    return sorted(found, key=lambda one: ("true", "false", "").index(one.way))


def _of_kernel(scope: Scope) -> Iterator[_Reason]:
    stores = [node for node in ast.walk(scope.function) if isinstance(node, ast.Call) and called(node) == "store"]
    last = max((node.lineno for node in stores), default=0)
    for node in ast.walk(scope.function):
        if isinstance(node, ast.If) and not node.orelse:
            if isinstance(node.body[-1], ast.Return) and node.lineno < last:
                yield _Reason(
                    scope.edit(node.test, "False", (KIND,)),
                    "true",
                    "Memory is read that no program stored, because one returned early",
                    "a program that returns here stores nothing, but its part is read. Without this return, the answer "
                    "no longer depends on the former content of that memory.",
                )
            elif any(one in stores for one in ast.walk(node)):
                yield _Reason(
                    scope.edit(node.test, "True", (KIND,)),
                    "false",
                    "Memory is read that no program stored, because a branch was not taken",
                    "if this does not hold, a program stores nothing, but its part is read. With this branch always "
                    "taken, the answer no longer depends on the former content of that memory.",
                )
    for condition in _conditions(scope, stores):
        yield _Reason(
            scope.edit(condition, f"(({scope.text(condition)}) | True)", (KIND,)),
            "",
            "Memory is read that no program stored, because of a mask",
            "where this does not hold, the mask prevents the store, but that memory is read. Without this condition, "
            "the answer no longer depends on the former content of that memory.",
        )


def _conditions(scope: Scope, stores: Sequence[ast.Call]) -> list[ast.expr]:
    """Return the conditions in the masks of stores, whether or not a mask has a name."""
    values = {
        node.targets[0].id: node.value
        for node in ast.walk(scope.function)
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }
    masks = [mask for one in stores if (mask := keyword(one, "mask")) is not None]
    masks = [values.get(mask.id, mask) if isinstance(mask, ast.Name) else mask for mask in masks]
    return [*dict.fromkeys(one for mask in masks for one in conjuncts(mask))]
