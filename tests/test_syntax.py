"""Texts become trees that Python's own functions can walk, and lines as Python numbers them."""

from __future__ import annotations

import ast

import pytest

from grader.definitions import repeated, spans_of
from grader.syntax import MOST_LEVELS, is_readable, lines_in, tree_of

DEEP = (
    "def f():\n    return 0" + " + 1" * 2500,
    "def f():\n    return x" + ".a" * 2500,
    "def f():\n    return " + "-" * 1500 + "1",
    "def f(n):\n    if n == 0: pass\n" + "    elif n == 1: pass\n" * 900,
    "@decorated(0" + " + 1" * 900 + ")\ndef f():\n    pass",
)


@pytest.mark.parametrize("text", DEEP)
def test_a_tree_that_python_cannot_walk_is_refused_while_it_is_made(text: str) -> None:
    ast.parse(text)
    assert not is_readable(text)
    with pytest.raises(RecursionError, match="200 levels"):
        tree_of(text)


@pytest.mark.parametrize("text", DEEP)
def test_the_definitions_of_such_a_text_are_unknown(text: str) -> None:
    assert repeated(text, "f") == {}
    assert spans_of(text, "f") == ()


def test_a_tree_of_the_most_levels_can_be_written_as_text() -> None:
    text = "x = 0" + " + 1" * (MOST_LEVELS - 4)
    assert ast.unparse(tree_of(text)) == text
    assert not is_readable(text + " + 1" * 4)


def test_lines_end_only_where_python_ends_them() -> None:
    assert lines_in("a\x0cb\u2028c\nd\re\r\nf\n") == ["a\x0cb\u2028c", "d", "e", "f"]
    assert lines_in("") == []
