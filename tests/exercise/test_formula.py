"""Formulas over a case's axes: arithmetic and nothing else, refused with the names that there are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grader.errors import SpecError
from grader.exercise.cases import Case
from grader.exercise.formula import evaluate, itemsize

CASE = Case({"M": 7, "N": 63, "scale": 0.5, "causal": True, "dtype": "float16"})


@pytest.mark.parametrize(
    ("formula", "got"),
    [
        ("K", "'K'"),
        ("dtype", "'dtype'"),
        ("causal", "'causal'"),
        ("M.real", "'M.real'"),
        ("M if N else 0", "'M if N else 0'"),
        ("M < N", "'M < N'"),
        ("M % N", "'M % N'"),
        ("+M", "'+M'"),
        ("abs(M)", "'abs(M)'"),
        ("__import__('os')", "\"__import__('os')\""),
        ("max(M, key=N)", "'max(M, key=N)'"),
        ("max(*M)", "'*M'"),
        ("(lambda: M)()", "'(lambda: M)()'"),
        ("[M, N]", "'[M, N]'"),
        ("'7'", "\"'7'\""),
        ("True", "'True'"),
        ("2j", "'2j'"),
    ],
)
def test_what_is_no_arithmetic_is_refused_with_the_names_that_there_are(formula: str, got: str) -> None:
    with pytest.raises(SpecError) as refused:
        evaluate(formula, CASE)
    assert str(refused.value) == f"a formula must be arithmetic over M, N, scale, itemsize, got {got} in it"


@pytest.mark.parametrize(
    ("formula", "reason"),
    [
        ("2 *", "invalid syntax"),
        ("", "invalid syntax"),
        ("M; N", "invalid syntax"),
        ("M / (N - 63)", "division by zero"),
        ("M // 0", "division by zero"),
        ("max()", "at least 1 argument"),
        ("10.0 ** 999", "out of range"),
        ("(M - N) ** 0.5", "not 'complex'"),
        ("max(M, (M - N) ** 0.5)", "'complex'"),
    ],
)
def test_what_has_no_value_is_refused_with_the_reason(formula: str, reason: str) -> None:
    with pytest.raises(SpecError) as refused:
        evaluate(formula, CASE)
    assert str(refused.value).startswith(f"a formula must be arithmetic over M, N, scale, itemsize, got {formula!r} (")
    assert reason in str(refused.value)


def test_a_case_without_numbers_has_no_axes_to_name() -> None:
    with pytest.raises(SpecError, match=r"^a formula must be arithmetic over no axes, got 'N' in it$"):
        evaluate("N", Case({"values": "normal"}))


@pytest.mark.parametrize(
    ("formula", "value"),
    [
        ("M", 7),
        ("2 * M * N", 882),
        ("itemsize * (M + N)", 140),
        ("-M + N", 56),
        ("M / 2", 3.5),
        ("M // 2", 3),
        ("N ** 2", 3969),
        ("ceil(N / 17) * 17", 68),
        ("min(M, N) + max(M, N, 500)", 507),
        ("scale * N", 31.5),
        ("1e3", 1000),
    ],
)
def test_arithmetic_gives_its_value(formula: str, value: float) -> None:
    assert evaluate(formula, CASE) == value


@given(st.integers(0, 1 << 30), st.integers(1, 1 << 30))
def test_it_is_python_s_own_arithmetic(m: int, n: int) -> None:
    case = Case({"M": m, "N": n})
    assert evaluate("3 * M + N // 4", case) == 3 * m + n // 4
    assert evaluate("M / N - ceil(M / N)", case) == pytest.approx(m / n - -(-m // n))


@pytest.mark.parametrize(
    ("dtype", "size"),
    [("float64", 8), ("float32", 4), ("bfloat16", 2), ("float16", 2), ("int8", 1), ("float8_e4m3fn", 1), ("bool", 1)],
)
def test_the_number_in_a_dtype_s_name_counts_its_bits(dtype: str, size: int) -> None:
    assert itemsize(dtype) == size
