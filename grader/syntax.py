"""Parse Python text into syntax trees, one thread at a time, and into lines. Runs nothing."""

from __future__ import annotations

import ast
import re
import threading
from typing import TypeGuard

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


def conditions_apart(node: ast.Compare) -> ast.expr:
    """Return the conditions that a comparison means, each by itself: `a < b & c < d` means `(a < b) & (c < d)`.

    In Python, `&` and `|` bind more tightly than `<`. An operand in brackets of its own stays as it is. The last
    condition of `a < b < c` takes b again.
    """
    operands = [node.left, *node.comparators]
    whole = [_has_brackets(node, operands[0], 0), *(False for _ in operands[2:]), _has_brackets(node, operands[-1], -1)]
    joined, made = operands[0], set[ast.expr]()
    for place, sign in enumerate(node.ops, 1):
        before = place == 1 and whole[0]
        joined = _compared(joined, sign, operands[place], (before, whole[place]), made)
    return joined


def _has_brackets(node: ast.Compare, operand: ast.expr, side: int) -> bool:
    """Return whether the first operand of a comparison, or the last one if `side` is -1, has brackets of its own."""
    places = ("lineno", "col_offset") if side == 0 else ("end_lineno", "end_col_offset")
    # A node that was made, and not parsed, has no place in a text.
    return any(getattr(node, one, -1) != getattr(operand, one, -2) for one in places)


def _compared(
    left: ast.expr, sign: ast.cmpop, right: ast.expr, whole: tuple[bool, bool], made: set[ast.expr]
) -> ast.expr:
    """Compare the last condition of `left` with the first one of `right`.

    whole: whether each side is one operand. made: the comparisons made so far.
    """
    if _joins(left) and not whole[0]:
        return ast.BinOp(left.left, left.op, _compared(left.right, sign, right, whole, made))
    if _joins(right) and not whole[1]:
        return ast.BinOp(_compared(left, sign, right.left, whole, made), right.op, right.right)
    first = left.comparators[-1] if isinstance(left, ast.Compare) and left in made else left
    one = ast.Compare(first, [sign], [right])
    made.add(one)
    return one if first is left else ast.BinOp(left, ast.BitAnd(), one)


def _joins(node: ast.expr) -> TypeGuard[ast.BinOp]:
    """Return whether a node is a & b, or a | b."""
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitAnd | ast.BitOr)
