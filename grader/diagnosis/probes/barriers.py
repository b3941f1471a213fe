"""Find a barrier that is missing on a GPU: a program loads what another of its threads has just stored.

The compiler decides which thread holds a lane, so the interpreter cannot know. Take a wrong call on a GPU and the
submission's text; make the call again with a `tl.debug_barrier()` between a store and a load of the same pointers.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from grader.diagnosis.edits.edit_scope import called
from grader.diagnosis.edits.edited import Edited
from grader.judge.bench import Bench
from grader.judge.clue import Clue, sure
from grader.protocol.requests import Recipe
from grader.syntax import is_readable, lines_in, tree_of

# The seconds of the call, whose kernels are compiled, and the lines that a card names.
_CALL_S, _MOST_LINES = 20.0, 3
_TITLE = "A barrier is missing between a store and a load"


def missing_barrier(bench: Bench, recipe: Recipe, text: str) -> Clue | None:
    """Return the clue of a call that is right on this GPU with a barrier between each such store and load."""
    pairs = [*loaded_again(text)] if is_readable(text) else []
    if not pairs:
        return None
    repaired = with_barriers(text, [store for store, _ in pairs])
    if not Edited.of(bench, recipe).is_right(repaired, _CALL_S, in_kernel=True):
        return None
    places = ", and between ".join(f"lines {store.end_lineno} and {load.lineno}" for store, load in pairs[:_MOST_LINES])
    return sure(
        "compiled_differs",
        f"With `tl.debug_barrier()` between {places}, the same call is right on this GPU.",
        _TITLE,
        "Another thread of the program may load before the value is stored: put `tl.debug_barrier()` between "
        f"{places}, or keep the values in a block and out of memory.",
    )


def loaded_again(text: str) -> Iterator[tuple[ast.Call, ast.Call]]:
    """Yield each store that is a statement, and the next load of the same pointers, with no barrier between."""
    for function in ast.walk(tree_of(text)):
        if not isinstance(function, ast.FunctionDef):
            continue
        stored: dict[str, ast.Call] = {}
        nodes = [*ast.walk(function)]
        statements = {node.value for node in nodes if isinstance(node, ast.Expr)}
        calls = (node for node in nodes if isinstance(node, ast.Call))
        for call in sorted(calls, key=lambda one: (one.lineno, one.col_offset)):
            pointers = ast.dump(call.args[0]) if call.args else ""
            match called(call):
                case "debug_barrier":
                    stored.clear()
                case "store" if pointers and call in statements:
                    stored[pointers] = call
                case "load" if pointers in stored:
                    yield stored.pop(pointers), call


def with_barriers(text: str, stores: Sequence[ast.Call]) -> str:
    """Return the text with a barrier on a line of its own behind each of these stores, which are statements."""
    lines = lines_in(text)
    for store in sorted(stores, key=lambda one: one.lineno, reverse=True):
        language = ast.unparse(store.func.value) if isinstance(store.func, ast.Attribute) else "tl"
        lines.insert(store.end_lineno or store.lineno, f"{' ' * store.col_offset}{language}.debug_barrier()")
    return "\n".join(lines)
