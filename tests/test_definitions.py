"""The definitions that a function is made of are found in the text alone."""

from __future__ import annotations

import pytest

from grader.definitions import keeping_line, repeated, spans_of

SOURCE = """import torch
BLOCK: int = 64
A, B = 1, 2

@triton.jit
def kernel(x):
    return BLOCK

def f(x):
    return kernel[(A,)](x)

def g(x):
    return B
"""


def test_a_function_reaches_kernels_and_constants_with_their_decorators() -> None:
    assert spans_of(SOURCE, "f") == ((2, 2), (3, 3), (5, 7), (9, 10))
    assert spans_of(SOURCE, "g") == ((3, 3), (12, 13))


def test_the_later_of_two_definitions_counts() -> None:
    assert spans_of("def f():\n    pass\n\ndef f():\n    return f\n", "f") == ((4, 5),)


def test_a_definition_that_got_another_name_before_the_next_one_is_not_lost() -> None:
    two = "def f():\n    return 1\n{}\ndef f():\n    return g()\n"
    assert repeated(two.format(""), "f") == {"f": (1, 4)}
    assert repeated(two.format("g = f"), "f") == {}


@pytest.mark.parametrize("source", ["def f(:", "f = \0", "", "x = 1", "(" * 100_000])
def test_text_without_the_function_has_none(source: str) -> None:
    assert spans_of(source, "f") == ()


KEEPING = """import functools
KEPT, MANY, LAST = {}, [], None

@functools.lru_cache(maxsize=None)
def by_cache(n):
    return n

def by_key(x):
    KEPT[x.data_ptr()] = x

def by_method(x):
    MANY.append(x)

def by_name(x):
    global LAST
    LAST = x

def by_attribute(x):
    by_attribute.last = x

def through_another(x):
    return by_cache(x)

def keeps_nothing(x):
    y, rows = x.clone(), []
    y[0] = KEPT[0]
    rows.append(y)
    return y, rows, MANY
"""


@pytest.mark.parametrize(
    ("function", "line"),
    [
        ("by_cache", 4),
        ("by_key", 9),
        ("by_method", 12),
        ("by_name", 15),
        ("by_attribute", 19),
        ("through_another", 4),
        ("keeps_nothing", None),
        ("nowhere", None),
    ],
)
def test_the_line_that_keeps_something_for_a_later_call_is_found(function: str, line: int | None) -> None:
    assert keeping_line(KEEPING, function) == line
