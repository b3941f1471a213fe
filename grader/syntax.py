"""Parse Python text into syntax trees, one thread at a time, and into lines. Runs nothing."""

from __future__ import annotations

import ast
import re
import threading

# In CPython before 3.11.8 and 3.12.1, threads that call ast.parse at once may end in a SystemError: they count their
# depth in one place (python/cpython#106905). Re-entrant, because a finalizer that parses runs on any thread.
_ONE_AT_A_TIME = threading.RLock()
# Python's functions for trees take up to three of its 1000 frames a level. Honest files have some 20 levels.
MOST_LEVELS = 200
_LINE_ENDS = re.compile("\r\n|\r|\n")


def lines_in(text: str) -> list[str]:
    """Return the lines of a file, as Python numbers them.

    str.splitlines also ends a line at a form feed and at other separators, which may stand in any line of Python.
    """
    lines = _LINE_ENDS.split(text)
    return lines if lines[-1] else lines[:-1]


def tree_of(text: str, most_levels: int = MOST_LEVELS) -> ast.Module:
    """Return the syntax tree of a file. Raises SyntaxError, ValueError, RecursionError or MemoryError, as ast.parse.

    A tree of more levels raises RecursionError here. ast.parse accepts thousands, and ast.dump and ast.unparse would
    raise it later.
    """
    with _ONE_AT_A_TIME:
        tree = ast.parse(text)
    level: list[ast.AST] = [tree]
    levels = 0
    while level and levels <= most_levels:
        level = [child for node in level for child in ast.iter_child_nodes(node)]
        levels += 1
    if levels > most_levels:
        raise RecursionError(f"a text must nest at most {most_levels} levels deep, got more")
    return tree


def is_readable(text: str) -> bool:
    """Return whether tree_of returns a tree for the text."""
    try:
        tree_of(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def expression_of(text: str) -> ast.expr:
    """Return the syntax tree of one expression. Raises as tree_of."""
    with _ONE_AT_A_TIME:
        return ast.parse(text, mode="eval").body
