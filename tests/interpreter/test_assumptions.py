"""What a kernel promises by tl.assume is checked, but for numbers above 0 that are 0."""

from __future__ import annotations

import ast

import numpy as np
import pytest

from grader.interpreter.language.assumptions import CheckAssumptions, FalseAssumptionError, assumed


def rewritten(line: str) -> str:
    return ast.unparse(CheckAssumptions().visit(ast.parse(line)))


@pytest.mark.parametrize(
    ("line", "checked"),
    [
        ("tl.assume(n % 16 == 0)", "n % 16 == 0"),
        ("tl.assume(stride > 0)", "stride >= 0"),
        ("tl.assume(0 < stride)", "0 <= stride"),
        ("tl.assume(0 < n < 7)", "0 <= n < 7"),
        ("tl.assume(stride >= 1)", "stride > -1"),
        ("tl.assume(1 <= stride)", "-1 < stride"),
        ("tl.assume(n > 1)", "n > 1"),
        ("tl.assume(n >= 2)", "n >= 2"),
        ("tl.assume((a > 0) & (b > 0))", "(a >= 0) & (b >= 0)"),
    ],
)
def test_an_assumption_is_checked_and_a_number_above_zero_may_be_zero(line: str, checked: str) -> None:
    text = line.removeprefix("tl.assume(").removesuffix(")")
    assert rewritten(line) == f"interpreter_semantic.assumed({checked}, {text!r})"


@pytest.mark.parametrize("line", ["assume(n > 0)", "tl.assume(n > 0, 1)", "tl.max(n > 0)"])
def test_other_calls_stay_as_they_are(line: str) -> None:
    assert rewritten(line) == line


def test_a_false_assumption_is_told_in_the_kernels_words() -> None:
    assumed(np.array([True, True]), "n > 0")
    assumed(True, "n > 0")
    with pytest.raises(FalseAssumptionError, match=r"tl\.assume promises n % 16 == 0, and here that is false"):
        assumed(np.array([True, False]), "n % 16 == 0")
