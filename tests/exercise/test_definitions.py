"""The definitions that a function is made of are found in the text alone."""

from __future__ import annotations

import pytest

from grader.exercise.definitions import spans_of

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


@pytest.mark.parametrize("source", ["def f(:", "f = \0", "", "x = 1", "(" * 100_000])
def test_text_without_the_function_has_none(source: str) -> None:
    assert spans_of(source, "f") == ()
