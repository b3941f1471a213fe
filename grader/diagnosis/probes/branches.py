"""Find where failing and passing calls diverge: at a condition, a loop, or a launch.

Take a bench and failing calls, repeat them and some passing ones with notes of their branches, and return lines.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from grader.diagnosis.edits.edit_scope import is_long
from grader.diagnosis.edits.edited import Edited
from grader.diagnosis.edits.repairs import quick_calls
from grader.judge.bench import Bench
from grader.judge.clue import Clue
from grader.phrases import all_of
from grader.protocol.observations import WayTaken
from grader.protocol.requests import Recipe
from grader.protocol.trace import Launch, launches_in
from grader.syntax import tree_of

KIND = "diverging_branch"
# Its weight: it says where, not why, and any guess of a reason comes first. The weight if only a program's second tile
# is wrong: that is a reason.
_WEIGHT, _OF_TILES = 0.34, 0.55
_LATER = "later_blocks"
# The numbers of failing and of passing calls that are repeated, and the seconds of work for each and for all.
_FAILING, _PASSING = 5, 12
_CALL_S, _MOST_S = 1.0, 1.5
# With fewer calls, a difference is chance.
_LEAST_FAILING, _LEAST_PASSING = 2, 4
# The number of lines on a card.
_MOST_LINES = 2
_WORDS: dict[str, str] = {
    "true": "the condition holds",
    "false": "the condition does not hold",
    "no turn": "the loop has no iteration",
    "one turn": "the loop has a single iteration",
    "several turns": "the loop has several iterations",
    "launch": "a kernel is launched",
}
_TILES_HELP = (
    "Which value depends on the tile, but is computed or loaded before the loop, or kept from the tile before? Compute "
    "it for each tile inside the loop."
)
# A way of a line: its condition, its loop, or its launch.
_Way = tuple[int, str]


@dataclass(frozen=True)
class Divergence:
    """A line where failing calls diverge from passing ones.

    outcome: what happens in all failing calls and in no passing one, or the reverse. lines: those that run then.
    over_tiles: the line is a loop over the tiles of a persistent program.
    """

    line: int
    outcome: str
    in_failing: bool
    lines: range
    over_tiles: bool = False


def divergences_of(bench: Bench, text: str, failing: Sequence[Recipe]) -> tuple[list[Divergence], Clue | None]:
    """Return the lines where failing calls diverge from passing ones, the most useful first, and their clue.

    bench: interprets.
    """
    until_s = bench.pair.worked_s + _MOST_S
    failed = quick_calls(bench, failed=True, also=failing)
    wrong = _ways_of_calls(bench, _spread(failed, _FAILING), until_s - _MOST_S / 2)
    right = _ways_of_calls(bench, _spread(quick_calls(bench, failed=False), _PASSING), until_s)
    if len(wrong) < _LEAST_FAILING or len(right) < _LEAST_PASSING:
        return [], None
    runs, tiles = _lines_of(text), _loops_over_tiles(text)
    found = [
        Divergence(
            *way,
            calls is wrong,
            runs.get((kernel, "launch") if kernel else way, range(way[0], way[0] + 1)),
            way[0] in tiles,
        )
        for calls, others in ((wrong, right), (right, wrong))
        for way, kernel in calls[0].items()
        if all(way in one for one in calls) and not any(way in one for one in others)
    ]
    # Lines that run in failing calls come first, and few lines before many.
    found.sort(key=lambda one: (not one.in_failing, len(one.lines), one.line))
    return found, _clue(found, len(wrong), len(right)) if found else None


def _ways_of_calls(bench: Bench, recipes: Sequence[Recipe], until_s: float) -> list[dict[_Way, int]]:
    """Return the ways that each call takes, until the time is up. Leave out calls that do not return.

    The value of a launch is the first line of its kernel; that of any other way is 0.
    """
    found: list[dict[_Way, int]] = []
    for recipe in recipes:
        if bench.pair.worked_s > until_s:
            break
        call = Edited.of(bench, recipe)
        taken = call.branches(_CALL_S)
        if taken is not None:
            found.append({(one.line, one.outcome): 0 for one in taken} | _launches(call))
    return found


def _launches(call: Edited) -> dict[_Way, int]:
    if call.recorded is None:
        return {}
    trace = call.recorded.trace
    launches = (one for one in launches_in(trace.steps) if isinstance(one, Launch))
    return {(one.line, "launch"): trace.kernels[one.kernel].line for one in launches}


def _spread(recipes: Sequence[Recipe], most: int) -> list[Recipe]:
    """Return at most this many calls, evenly spread from the first to the last."""
    if len(recipes) <= most:
        return [*recipes]
    return [recipes[place * (len(recipes) - 1) // (most - 1)] for place in range(most)]


def _lines_of(text: str) -> dict[_Way, range]:
    """Return the lines that run for each way of a condition or a loop, and for the launch of a kernel."""
    found: dict[_Way, range] = {}
    for function in ast.walk(tree_of(text)):
        if not isinstance(function, ast.FunctionDef) or is_long(function):
            continue
        first = min([function.lineno, *(one.lineno for one in function.decorator_list)])
        found[first, "launch"] = _range(function.body)
        for node in ast.walk(function):
            if isinstance(node, ast.If):
                found[node.test.lineno, "true"] = _range(node.body)
                if node.orelse:
                    found[node.test.lineno, "false"] = _range(node.orelse)
            elif isinstance(node, ast.For):
                ways: tuple[WayTaken, ...] = ("one turn", "several turns")
                found.update(dict.fromkeys([(node.iter.lineno, way) for way in ways], _range(node.body)))
    return found


def _loops_over_tiles(text: str) -> set[int]:
    """Return the lines of loops that begin at a program's number: the tiles of a persistent program."""
    found = set[int]()
    for function in ast.walk(tree_of(text)):
        if isinstance(function, ast.FunctionDef) and not is_long(function):
            numbers = {
                target.id
                for node in ast.walk(function)
                if isinstance(node, ast.Assign) and "program_id" in ast.unparse(node.value)
                for target in node.targets
                if isinstance(target, ast.Name)
            }
            for node in ast.walk(function):
                if isinstance(node, ast.For) and isinstance(node.iter, ast.Call) and len(node.iter.args) > 1:
                    start = ast.unparse(node.iter.args[0])
                    if start in numbers or "program_id" in start:
                        found.add(node.iter.lineno)
    return found


def _range(statements: Sequence[ast.stmt]) -> range:
    return range(statements[0].lineno, (statements[-1].end_lineno or statements[-1].lineno) + 1)


def _clue(found: Collection[Divergence], failing: int, passing: int) -> Clue:
    lines = [f"in line {one.line} {_WORDS[one.outcome]}" for one in found if one.in_failing][:_MOST_LINES]
    calls = f"all {failing} failing calls that were repeated, and in none of {passing} passing ones"
    if not lines:
        lines = [f"in line {one.line} {_WORDS[one.outcome]}" for one in found][:_MOST_LINES]
        calls = f"all {passing} passing calls that were repeated, and in none of {failing} failing ones"
    words = all_of(lines)
    if any(one.over_tiles and one.in_failing and one.outcome == "several turns" for one in found):
        evidence = (
            f"{words[0].upper()}{words[1:]} in {calls}: a program's first tile is right, and a later one is wrong."
        )
        return Clue(_LATER, _OF_TILES, evidence, help=_TILES_HELP)
    return Clue(KIND, _WEIGHT, f"{words[0].upper()}{words[1:]} in {calls}.")
