"""Texts become trees that Python's own functions can walk, and lines as Python numbers them."""

from __future__ import annotations

import ast

import pytest

from grader.definitions import repeated, spans_of
from grader.syntax import MOST_LEVELS, conditions_apart, expression_of, is_readable, lines_in, tree_of

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


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("a < b < c", "(a < b) & (b < c)"),
        ("a < b & c < d", "(a < b) & (c < d)"),
        ("a >= 0 & a < n", "(a >= 0) & (a < n)"),
        ("row & columns < n", "row & (columns < n)"),
        ("columns < n & row", "(columns < n) & row"),
        ("a < b & c | d < e", "(a < b) & c | (d < e)"),
        ("a < b | c & d < e", "(a < b) | c & (d < e)"),
    ],
)
def test_each_condition_of_a_comparison_without_brackets_is_meant_by_itself(text: str, meant: str) -> None:
    node = expression_of(text)
    assert isinstance(node, ast.Compare)
    assert ast.unparse(conditions_apart(node)) == meant


@pytest.mark.parametrize("text", ["(a & 1) == 0", "n > (a | b)", "(a & b) < (c & d)", "(a < b) == c", "a < b"])
def test_an_operand_in_brackets_of_its_own_is_compared_as_a_whole(text: str) -> None:
    node = expression_of(text)
    assert isinstance(node, ast.Compare)
    assert ast.dump(conditions_apart(node)) == ast.dump(node)
