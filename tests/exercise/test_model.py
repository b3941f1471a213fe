"""What an exercise may be: every rule of the model refuses what breaks it, and says which field and which value."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from grader.errors import SpecError, require
from grader.exercise.cases import Cases, Size, Space
from grader.exercise.curves import Curves
from grader.exercise.model import Check, Exercise, Limits, Part, Tolerance, check_id
from grader.exercise.rules import Agrees, Allowance, Fresh, Launches, SpeedBand, UsesKernels, WorkModel

CASES = Cases(Space({"N": Size(1, 500)}), ({"N": 7},))


def check(**changes: Any) -> Check:
    given = {"name": "tail", "title": "Right", "points": 100, "objective": "writes kernels", "rule": Agrees(CASES)}
    return Check(**{**given, **changes})


def band(**changes: Any) -> SpeedBand:
    given = {
        "baseline": "torch",
        "floor": 0.5,
        "full": 0.9,
        "suite": Cases(Space({"N": Size(1, 500)}), ({"N": 7}, {"N": 63}), generated=0),
        "bytes": "2 * N",
    }
    return SpeedBand(**{**given, **changes})


def part(**changes: Any) -> Part:
    given = {
        "name": "double",
        "title": "Doubling",
        "arguments": ("x",),
        "outputs": ("y",),
        "tolerance": Tolerance(),
        "checks": (check(),),
        "hints": ("a", "b", "c"),
    }
    return Part(**{**given, **changes})


def exercise(**changes: Any) -> Exercise:
    return Exercise(**{"title": "Basics", "version": "1", "parts": (part(),), **changes})


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Tolerance(factor=-1), "Tolerance.factor must be at least 0, got -1"),
        (lambda: Tolerance(factor=float("nan")), "Tolerance.factor must be at least 0, got nan"),
        (
            lambda: Tolerance(result_ulps=0.25),
            "Tolerance.result_ulps must be at least 0.5 (one correct rounding), got 0.25",
        ),
        (lambda: Tolerance(accumulation_ulps=-1), "Tolerance.accumulation_ulps must be at least 0, got -1"),
        (lambda: Tolerance(group=-7), "Tolerance.group must be at least 0, got -7"),
        (lambda: Launches(CASES, most=0), "Launches.most must be at least 1, got 0"),
        (lambda: WorkModel(CASES, moved=Allowance("N - 63")), "WorkModel.moved must be at least 0 for N=7, got -56.0"),
        (lambda: WorkModel(CASES, moved=Allowance("M")), "a formula must be arithmetic over N, got 'M' in it"),
        (lambda: WorkModel(CASES), "WorkModel must allow something, got None"),
        (lambda: Allowance("3 * N", full=0.9), "Allowance.full must be at least 1, got 0.9"),
        (lambda: Allowance("3 * N", full=1.5, none=1.5), "Allowance.full must lie in 1 … none (1.5), got 1.5"),
        (
            lambda: WorkModel(CASES, moved=Allowance("3 * N"), extra=Allowance("0 - N")),
            "WorkModel.extra must be at least 0 for N=7, got -7.0",
        ),
        (lambda: band(baseline=""), "SpeedBand.baseline must name a baseline, got ''"),
        (lambda: band(floor=0.9), "SpeedBand.floor must lie in 0 … full (0.9), got 0.9"),
        (lambda: band(floor=-0.1), "SpeedBand.floor must lie in 0 … full (0.9), got -0.1"),
        (lambda: band(suite=CASES), "SpeedBand.suite must hold named cases only, got 6"),
        (lambda: band(bytes="N - 63"), "SpeedBand.bytes must be at least 0 for N=7, got -56.0"),
        (
            lambda: band(curves=Curves("M", "tflops")),
            "SpeedBand.curves must name axes of the suite (N), got 'M'",
        ),
        (
            lambda: band(curves=Curves("N", "tflops", versus="cublas")),
            "SpeedBand.curves must name a baseline of the band, got 'cublas'",
        ),
        (lambda: band(flops="0 - 1"), "SpeedBand.flops must be at least 0 for N=7, got -1.0"),
        (lambda: band(bytes="M * N"), "a formula must be arithmetic over N, got 'M' in it"),
        (
            lambda: check(name="two words"),
            "Check.name must be an identifier of at most 32 characters, got 'two words'",
        ),
        (
            lambda: check(name="t" * 33),
            f"Check.name must be an identifier of at most 32 characters, got '{'t' * 33}'",
        ),
        (lambda: check(title=" "), "Check.title must be a sentence, got ' '"),
        (lambda: check(points=-1), "Check.points must be at least 0, got -1"),
        (lambda: check(objective=""), "Check.objective must name a learning objective, got ''"),
        (
            lambda: check(rule="fast"),
            "Check.rule must be one of the rules of grader.exercise.rules, got 'fast'",
        ),
        (lambda: part(name="two words"), "Part.name must be the name of the stub's function, got 'two words'"),
        (lambda: part(arguments=()), "Part double: arguments must name at least one argument, got ()"),
        (lambda: part(outputs=()), "Part double: outputs must name at least one output, got ()"),
        (lambda: part(mutates=("cache",)), "Part double: mutates must name arguments, got ('cache',)"),
        (lambda: part(hints=("a", "b")), "Part double: hints must be three sentences, got ('a', 'b')"),
        (lambda: part(hints=("a", "", "c")), "Part double: hints must be three sentences, got ('a', '', 'c')"),
        (lambda: part(checks=()), "Part double: checks must hold at least one check, got ()"),
        (
            lambda: part(checks=(check(), check())),
            "Part double: checks must have distinct names, got ['tail', 'tail']",
        ),
        (lambda: exercise(title=""), "Exercise.title must be a title, got ''"),
        (lambda: exercise(version=" "), "Exercise.version must be a version, got ' '"),
        (lambda: exercise(parts=()), "Exercise.parts must hold at least one part, got ()"),
        (
            lambda: exercise(parts=(part(), part())),
            "Exercise.parts must have distinct names, got ['double', 'double']",
        ),
    ],
)
def test_a_bad_specification_fails_when_it_is_built_and_names_the_field(
    build: Callable[[], object], message: str
) -> None:
    with pytest.raises(SpecError) as refused:
        build()
    assert str(refused.value) == message


@pytest.mark.parametrize("name", ["load_s", "call_s", "memory_bytes", "processes", "file_bytes"])
def test_every_limit_must_be_positive(name: str) -> None:
    with pytest.raises(SpecError) as refused:
        Limits(**{name: 0})
    assert str(refused.value) == f"Limits.{name} must be positive, got 0"


def test_addresses_beside_the_memory_may_be_none_and_not_fewer() -> None:
    assert Limits(sparse_bytes=0) == Limits()
    with pytest.raises(SpecError) as refused:
        Limits(sparse_bytes=-1)
    assert str(refused.value) == "Limits.sparse_bytes must be at least 0, got -1"


@pytest.mark.parametrize("points", [0, 99, 99.999, 101])
def test_the_points_must_make_one_hundred(points: float) -> None:
    with pytest.raises(SpecError) as refused:
        exercise(parts=(part(checks=(check(points=points),)),))
    assert str(refused.value) == f"Exercise.parts must carry 100 points together, got {points}"


def test_fractions_that_make_one_hundred_but_for_rounding_are_accepted() -> None:
    thirds = tuple(check(name=f"third_{i}", points=100 / 7) for i in range(7))
    assert exercise(parts=(part(checks=thirds),)).parts[0].points == pytest.approx(100)


def test_require_says_the_rule_and_then_the_value() -> None:
    require(True, "Size.low", "be at least 0", 0)
    with pytest.raises(SpecError, match=r"^Size\.low must be at least 0, got 'x'$"):
        require(False, "Size.low", "be at least 0", "x")


def test_a_part_that_works_in_place_needs_no_returned_output() -> None:
    assert part(outputs=(), mutates=("x",)).mutates == ("x",)


@pytest.mark.parametrize(
    ("rule", "cases"),
    [
        (Agrees(CASES), CASES),
        (Fresh(CASES), CASES),
        (UsesKernels(CASES), CASES),
        (Launches(CASES), CASES),
        (WorkModel(CASES, moved=Allowance("3 * N")), CASES),
        (band(), None),
    ],
)
def test_a_check_runs_the_cases_of_its_rule(rule: object, cases: Cases | None) -> None:
    assert check(rule=rule).cases is cases


def test_checks_come_in_the_order_of_the_stub() -> None:
    first = part(name="first", checks=(check(name="tail", points=17), check(name="fresh", points=33)))
    second = part(name="second", checks=(check(name="tail", points=50),))
    both = exercise(parts=(first, second))
    assert [check_id(*pair) for pair in both.checks()] == ["first.tail", "first.fresh", "second.tail"]
    assert (first.points, second.points) == (50, 50)


def test_a_part_is_found_by_its_name_or_not_at_all() -> None:
    whole = exercise()
    assert whole.part("double") is whole.parts[0]
    assert whole.part("triple") is None


def test_an_exercise_cannot_be_changed_once_it_is_built() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        exercise().title = "Other"  # type: ignore[misc]
