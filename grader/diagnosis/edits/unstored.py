"""Name the line that kept a program from storing memory that another one reads.

Takes a call whose answer depends on memory that nobody wrote, and replays it with edited texts: without an early
return, with a branch always taken, without a condition in the mask of a store. Where the answer no longer depends on
that memory, the edited line is the reason. Gives its clue.
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
from grader.protocol.messages import Recipe
from grader.text import clean

KIND = "not_cleared"
# At most so many lines are tried, and a replay may take so many seconds.
_MOST, _CALL_S = 8, 1.0
_LONGEST = 60
_HELP = (
    "A program without work, such as a split without elements, must store its part too, as what changes nothing: a sum "
    "of 0, a maximum or a log-sum-exp of -inf. Or whoever joins the parts must leave it out, by the same condition."
)


@dataclass(frozen=True)
class _Reason:
    """A line that may keep a store from happening. way: how its condition turns out then; "" for a mask."""

    edit: Edit
    way: Literal["true", "false", ""]
    title: str
    says: str


def unstored_clue(bench: Bench, text: str, recipe: Recipe) -> Clue | None:
    """Return the clue of the line without which the call reads no memory that nobody wrote; or None.

    recipe: of a call that does. text: the submission's. bench: interprets.
    """
    with bench.findings.aside():
        call = Edited.of(bench, recipe)
        reasons, read = _reasons(call, text), _answers(call, text)
        if not reasons or read is None or not read.differ:
            return None
        for one in reasons[:_MOST]:
            found = _answers(call, one.edit.applied(text))
            if found is not None and not found.differ and found.spares(read):
                where = f"Line {one.edit.line}, `{clean(one.edit.before, _LONGEST)}`: {one.says}"
                return sure(KIND, where, one.title, _HELP)
    return None


@dataclass(frozen=True)
class _Answers:
    """Two answers of one call. differ: what memory held that nobody wrote. right: the right elements of each output."""

    differ: bool
    right: Sequence[Tensor]

    def spares(self, others: _Answers) -> bool:
        """Return whether everything is right that is right in the other answers."""
        return not any(bool((before & ~now).any()) for now, before in zip(self.right, others.right, strict=True))


def _answers(call: Edited, text: str) -> _Answers | None:
    """Return what a call answers with two contents of new memory; None where it gives no answer."""
    zeros, numbers = (call.outputs_with(text, _CALL_S, unwritten) for unwritten in ("0", "nan"))
    expected = call.bench.truth.expect(call.bench.part, call.recipe)
    if zeros is None or numbers is None or not len(zeros) == len(numbers) == len(expected):
        return None
    whole = [(raw, one) for raw, one in zip(numbers, expected, strict=True) if raw is not None]
    return _Answers(zeros != numbers, [~compare(tensor_of(raw, one), one).wrong for raw, one in whole])


def _reasons(call: Edited, text: str) -> list[_Reason]:
    """Return what may keep a store from happening in the kernels of a call: early returns first, masks last."""
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
                    "Memory that is read, though a program returned before it stored there",
                    "a program that returns here stores nothing, and its part is read all the same. Without this "
                    "return, the answer no longer depends on what that memory held before.",
                )
            elif any(one in stores for one in ast.walk(node)):
                yield _Reason(
                    scope.edit(node.test, "True", (KIND,)),
                    "false",
                    "Memory that is read, though a branch kept a program from storing there",
                    "where this does not hold, a program stores nothing, and its part is read all the same. With this "
                    "branch always taken, the answer no longer depends on what that memory held before.",
                )
    for condition in _conditions(scope, stores):
        yield _Reason(
            scope.edit(condition, f"(({scope.text(condition)}) | True)", (KIND,)),
            "",
            "Memory that is read, though a mask kept a program from storing there",
            "where this does not hold, the mask lets nothing be stored, and that memory is read all the same. Without "
            "this condition, the answer no longer depends on what it held before.",
        )


def _conditions(scope: Scope, stores: Sequence[ast.Call]) -> list[ast.expr]:
    """Return the conditions that the masks of stores are made of, where a mask has a name too."""
    values = {
        node.targets[0].id: node.value
        for node in ast.walk(scope.function)
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }
    masks = [mask for one in stores if (mask := keyword(one, "mask")) is not None]
    masks = [values.get(mask.id, mask) if isinstance(mask, ast.Name) else mask for mask in masks]
    return [*dict.fromkeys(one for mask in masks for one in conjuncts(mask))]
