"""Domains, spaces and cases: what a specification may say of them, and what they then promise."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grader.errors import SpecError
from grader.exercise.cases import Case, Cases, Choice, Size, Space

DTYPES = Choice(("float32", "float16", "bfloat16"), gpu_only=("bfloat16",))
SPACE = Space({"N": Size(1, 500), "dtype": DTYPES})
SMALL = Space({"M": Size(1, 17), "N": Size(1, 63)}, where=lambda case: case["M"] * case["N"] <= 63)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Size(-1, 7), "Size.low must be at least 0, got -1"),
        (lambda: Size(17, 7), "Size.high must be at least low (17), got 7"),
        (lambda: Size(1, 7, 0), "Size.multiple_of must be at least 1, got 0"),
        (lambda: Size(63, 500, multiple_of=8), "Size.low must be a multiple of 8, got 63"),
        (lambda: Choice(()), "Choice.values must be a tuple of at least one value, got ()"),
        (lambda: Choice(["a"]), "Choice.values must be a tuple of at least one value, got ['a']"),
        (lambda: Choice(("a", "b", "a")), "Choice.values must be distinct, got ('a', 'b', 'a')"),
        (lambda: Choice((1, True)), "Choice.values must be distinct, got (1, True)"),
        (lambda: Choice(("a",), gpu_only=("b",)), "Choice.gpu_only must be among the values, got ('b',)"),
        (
            lambda: Choice(("a", "b"), gpu_only=("a",)),
            "Choice.values must start with one that needs no GPU, got ('a', 'b')",
        ),
        (lambda: Space({}), "Space.axes must name at least one axis, got {}"),
        (lambda: Space({"two words": Size(1, 7)}), "Space.axes must be named like a variable, got 'two words'"),
        (lambda: Space({"N": 7}), "Space.axes['N'] must be a Size or a Choice, got 7"),
        (lambda: Cases(SPACE, [{"N": 1}]), "Cases.named must be a tuple of mappings, got [{'N': 1}]"),
        (lambda: Cases(SPACE, generated=-1), "Cases.generated must be at least 0, got -1"),
        (lambda: Cases(SPACE, generated=0), "Cases must hold at least one case, got 0"),
        (
            lambda: Cases(SPACE, ({"N": 501},)),
            "case axis N must lie in Size(low=1, high=500, multiple_of=1), got 501",
        ),
    ],
)
def test_a_bad_domain_fails_when_it_is_built_and_names_the_field(build: Callable[[], object], message: str) -> None:
    with pytest.raises(SpecError) as refused:
        build()
    assert str(refused.value) == message


@pytest.mark.parametrize(
    ("space", "values", "message"),
    [
        (SPACE, {"M": 1, "K": 7}, "case must name only the axes N, dtype, got 'M, K'"),
        (SPACE, {"N": 0}, "case axis N must lie in Size(low=1, high=500, multiple_of=1), got 0"),
        (SPACE, {"N": True}, "case axis N must lie in Size(low=1, high=500, multiple_of=1), got True"),
        (SPACE, {"N": 17.0}, "case axis N must lie in Size(low=1, high=500, multiple_of=1), got 17.0"),
        (
            SPACE,
            {"dtype": "int8"},
            "case axis dtype must lie in Choice(values=('float32', 'float16', 'bfloat16'), gpu_only=('bfloat16',)), "
            "got 'int8'",
        ),
        (SMALL, {"M": 17, "N": 7}, "case must satisfy the space's `where`, got 'M=17, N=7'"),
    ],
)
def test_a_case_outside_its_space_is_refused_with_the_axis_and_the_value(
    space: Space, values: dict[str, int], message: str
) -> None:
    with pytest.raises(SpecError) as refused:
        space.case(**values)
    assert str(refused.value) == message


def test_a_missing_axis_is_a_key_error() -> None:
    with pytest.raises(KeyError, match="M"):
        Case({"N": 7})["M"]


def test_axes_left_open_take_their_simplest_value() -> None:
    assert SPACE.case() == Case({"N": 1, "dtype": "float32"})
    assert SPACE.case(dtype="float16") == Case({"N": 1, "dtype": "float16"})


def test_a_case_orders_its_axes_as_the_space_does() -> None:
    assert list(SPACE.case(dtype="float16", N=63)) == ["N", "dtype"]
    assert SPACE.case(dtype="float16", N=63).words() == "N=63, dtype=float16"


def test_an_axis_may_have_any_name_that_a_variable_may_have() -> None:
    space = Space({"self": Size(1, 7), "values": Choice(("normal",))})
    assert space.case(self=7).words() == "self=7, values=normal"


def test_equal_cases_are_one_key_of_a_dictionary() -> None:
    assert {SPACE.case(N=17): "first"}[SPACE.case(N=17, dtype="float32")] == "first"
    assert SPACE.case(N=17) != SPACE.case(N=7)
    assert SPACE.case(N=17) != {"N": 17, "dtype": "float32"}


def test_a_changed_case_leaves_the_original_alone() -> None:
    case = SPACE.case(N=17)
    assert case.changed(dtype="float16").words() == "N=17, dtype=float16"
    assert case.words() == "N=17, dtype=float32"
    assert repr(case) == "Case(N=17, dtype=float32)"
    assert dict(case) == {"N": 17, "dtype": "float32"}
    assert len(case) == 2


def test_canonical_cases_are_completed_in_their_order() -> None:
    cases = Cases(SPACE, ({"N": 500}, {"dtype": "float16"}, {}))
    assert [case.words() for case in cases.named_cases] == [
        "N=500, dtype=float32",
        "N=1, dtype=float16",
        "N=1, dtype=float32",
    ]


def test_a_far_case_lies_beyond_the_bounds_and_the_condition_but_has_the_space_s_values() -> None:
    cases = Cases(SMALL, far=({"M": 500, "N": 1000},), generated=0)
    assert [case.words() for case in cases.far_cases] == ["M=500, N=1000"]
    assert cases.case({"M": 500, "N": 1000}) == cases.far_cases[0]
    with pytest.raises(SpecError, match="case axis dtype must lie in"):
        Cases(SPACE, far=({"N": 9999, "dtype": "int8"},))


def test_a_size_holds_the_multiples_between_its_ends() -> None:
    size = Size(16, 64, multiple_of=16)
    assert [value for value in range(100) if value in size] == [16, 32, 48, 64]
    assert True not in Size(1, 7)
    assert 7.0 not in Size(1, 7)


def test_without_a_gpu_only_the_values_that_need_one_are_missing() -> None:
    assert SPACE.without_gpu().axes == {"N": Size(1, 500), "dtype": Choice(("float32", "float16"))}
    assert SPACE.needs_gpu(SPACE.case(dtype="bfloat16"))
    assert not SPACE.needs_gpu(SPACE.case(N=500, dtype="float16"))


def test_without_some_values_the_other_axes_and_the_contract_stay_as_they_are() -> None:
    assert SPACE.without(("bfloat16",)) is not None
    assert SPACE.without(("bfloat16",)).axes == {"N": Size(1, 500), "dtype": Choice(("float32", "float16"))}
    assert SPACE.without(("int8",)).axes == SPACE.axes
    assert not SMALL.without(("bfloat16",)).allows(Case({"M": 17, "N": 63}))


def test_without_every_value_of_an_axis_there_is_no_space() -> None:
    assert SPACE.without(("float32", "float16", "bfloat16")) is None


def test_without_a_gpu_the_contract_still_holds() -> None:
    assert not SMALL.without_gpu().allows(Case({"M": 17, "N": 63}))


def test_up_to_a_case_no_axis_is_harder_than_in_it() -> None:
    case = SPACE.case(N=17, dtype="float16")
    assert SPACE.up_to(case).axes == {"N": Size(1, 17), "dtype": Choice(("float32", "float16"))}


def test_up_to_keeps_multiples_and_the_contract() -> None:
    space = Space({"N": Size(16, 512, multiple_of=16)}, where=lambda case: case["N"] != 32)
    smaller = space.up_to(space.case(N=64))
    assert smaller.axes == {"N": Size(16, 64, multiple_of=16)}
    assert not smaller.allows(Case({"N": 32}))


@given(st.integers(1, 17), st.integers(1, 63))
def test_a_space_up_to_a_case_holds_that_case(rows: int, columns: int) -> None:
    case = Case({"M": rows, "N": columns})
    if SMALL.allows(case):
        assert SMALL.up_to(case).case(**case) == case
    else:
        with pytest.raises(SpecError):
            SMALL.case(**case)


def test_a_product_is_that_of_the_named_axes_alone() -> None:
    case = Case({"M": 7, "N": 17, "dtype": "float16", "K": 0})
    assert (case.product("M", "N"), case.product("N", "K"), case.product("M")) == (119, 0, 7)
