"""Find the limit of a grid that a call reaches, where elements were never stored to.

Take a wrong call and the submission's text. Return a clue. Run only launch code. Large calls are not repeated with
edits, so the limit is read in the text.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from grader.diagnosis.edits.edit_scope import Scope, called
from grader.diagnosis.edits.edited import Edited
from grader.diagnosis.edits.edits import scopes_of
from grader.diagnosis.edits.grids import LIMITED
from grader.diagnosis.edits.repairs import kernels_in
from grader.judge.bench import Bench
from grader.judge.clue import Clue
from grader.judge.failure import WrongCall

UNSHARED = "not_all_covered"
_WEIGHT = 0.85


def limit_clue(bench: Bench, text: str, wrong_call: WrongCall) -> Clue | None:
    """Return the clue of a number of programs that the launch code limits; None if the call does not reach a limit.

    A kernel that asks for the number of programs may take several blocks in each. bench: interprets.
    """
    counts = {count for one in wrong_call.outcome.answer.launches for count in one.grid}
    with bench.findings.aside():
        recorded = Edited.of(bench, wrong_call.recipe).recorded
    if recorded is None or recorded.trace.programs:
        return None
    scopes = scopes_of(text, kernels_in(recorded.trace), bench.part.name)
    if any(called(one) == "num_programs" for scope in scopes for one in ast.walk(scope.function)):
        return None
    found = ((most, line) for scope in scopes for most, line in _limits(scope) if most in counts)
    most, line = next(found, (0, 0))
    if not most:
        return None
    evidence = f"Line {line} launches at most {most:,} programs, and this call has more blocks than that."
    title = "Looks like a limit on the number of programs"
    return Clue(UNSHARED, _WEIGHT, evidence, title=title, help=LIMITED, firm=True)


def _limits(scope: Scope) -> Iterator[tuple[int, int]]:
    """Yield the literal limits of a function's grids, each with its line."""
    calls = (one for one in ast.walk(scope.function) if one in scope.in_grids and isinstance(one, ast.Call))
    for one in calls:
        if called(one) == "min":
            numbers = (each.value for each in one.args if isinstance(each, ast.Constant))
            yield from ((number, one.lineno) for number in numbers if type(number) is int)
