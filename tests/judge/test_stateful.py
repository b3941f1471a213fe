"""Calls that build on each other: a small log that `push` writes to and `total` adds up, step after step."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from grader.errors import SpecError
from grader.exercise.abilities import WHOLE_CPU
from grader.exercise.cases import Cases, Choice, Size, Space
from grader.exercise.catalogue import Entry
from grader.exercise.model import Check, Part, Tolerance
from grader.exercise.plan import default_seed, draw
from grader.exercise.rules import Agrees, Stateful
from grader.grading import Job, grade
from grader.record.checks import CheckResult
from grader.sandbox.server import ForkServer

SPEC = '''"""A log that grows."""

from grader import Agrees, Cases, Check, Choice, Exercise, Part, Size, Space, Stateful, Tolerance

RUNS = Cases(Space({"steps": Size(1, 9), "dtype": Choice(("float32",))}), ({"steps": 5}, {"steps": 1}), generated=0)
HINTS = ("a", "b", "c")
PUSH = Part(
    "push", "Push", ("log", "value", "count"), (), Tolerance(), (Check("right", "Right", 10, "logs", Agrees(RUNS)),),
    HINTS, mutates=("log",),
)
TOTAL = Part(
    "total", "Total", ("log", "count"), ("sum",), Tolerance(accumulation_ulps=2.0), (
        Check("right", "Right", 10, "logs", Agrees(RUNS)),
        Check("run", "Right in every step", 80, "logs", Stateful(RUNS, "steps", (PUSH,), ("log",))),
    ), HINTS,
)
EXERCISE = Exercise("Log", "1", (PUSH, TOTAL))
'''

INPUTS = '''"""The log before and after a push; places that were never written hold NaN."""

import torch


def story(case, generator):
    return torch.randn(case["steps"], generator=generator), int(case.get("step", 0))


def until(values, count):
    return torch.where(torch.arange(len(values)) < count, values, float("nan"))


def push(case, generator):
    values, step = story(case, generator)
    return until(values, step), values[step : step + 1].clone(), torch.tensor([step], dtype=torch.int32)


def total(case, generator):
    values, step = story(case, generator)
    return until(values, step + 1), torch.tensor([step + 1], dtype=torch.int32)
'''

ORACLE = '''"""The truth."""


def push(log, value, count):
    after = log.clone()
    after[int(count)] = value[0]
    return after


def push_honest(log, value, count):
    yield push(log, value, count)


def total(log, count):
    return log[: int(count)].sum().reshape(1)


def total_honest(log, count):
    yield total(log, count)
'''

PUSH = """
def push(log, value, count):
    log[int(count)] = value[0]
"""
TOTAL = """
def total(log, count):
    return log[: int(count)].sum().reshape(1)
"""
# The first of all calls decides, for ever, how long the log is.
REMEMBERED = """
known = {}

def total(log, count):
    length = known.setdefault(count.data_ptr(), int(count))
    return log[:length].sum().reshape(1)
"""
MISPLACED = """
def push(log, value, count):
    log[min(int(count), 2)] = value[0]
"""


@pytest.fixture
def run(server: ForkServer, tmp_path: Path) -> Callable[[str], CheckResult]:
    """What the check on the whole run says of a submission."""
    folder = tmp_path / "reference" / "ex_91_log"
    folder.mkdir(parents=True)
    for name, text in (("spec.py", SPEC), ("inputs.py", INPUTS), ("oracle.py", ORACLE)):
        (folder / name).write_text(text, encoding="utf-8")
    entry = Entry(tmp_path, "ex_91_log")

    def judge(source: str) -> CheckResult:
        plan = draw(entry.exercise, default_seed(entry.id), WHOLE_CPU)
        job = Job(entry, "log.py", source, plan, "grade ex_91", "", shrink=False, compiled=False)
        return next(check for check in grade(job, server).checks if check.id == "total.run")

    return judge


def test_a_run_in_which_every_step_is_right_passes(run: Callable[[str], CheckResult]) -> None:
    assert run(PUSH + TOTAL).status == "pass"


def test_what_a_call_left_wrong_is_found_in_the_step_in_which_it_was_left(run: Callable[[str], CheckResult]) -> None:
    found = run(MISPLACED + TOTAL)
    assert found.status == "fail"
    assert found.cause is not None
    assert found.cause.title.startswith("Right at first, wrong in step 3: ")
    assert "All was right in steps 0 to 2; in step 3 of 5 push fails" in found.reason


def test_what_was_right_only_in_the_first_step_is_told_as_such(run: Callable[[str], CheckResult]) -> None:
    found = run(PUSH + REMEMBERED)
    assert "All was right in step 0; in step 1 of 5 total fails" in found.reason
    assert found.counterexample is not None
    assert found.counterexample.case["steps"] == 5


def test_a_first_step_that_is_wrong_is_not_said_to_be_right(run: Callable[[str], CheckResult]) -> None:
    found = run(PUSH + "def total(log, count):\n    return log[:1] * 0\n")
    assert found.cause is not None
    assert found.cause.title.startswith("Wrong in the first step: ")


@pytest.mark.parametrize("other", ["", 'def push(log, value, count):\n    raise NotImplementedError("later")\n'])
def test_a_run_waits_for_parts_that_are_not_written_and_costs_nothing(
    run: Callable[[str], CheckResult], other: str
) -> None:
    found = run(other + TOTAL)
    assert found.status == "inconclusive"
    assert found.reason == "its steps call push, which is not written yet"


def test_a_part_that_is_not_written_itself_is_not_implemented(run: Callable[[str], CheckResult]) -> None:
    assert run(PUSH + "def total(log, count):\n    raise NotImplementedError\n").status == "not_implemented"


CASES = Cases(Space({"steps": Size(1, 9), "kind": Choice(("a",))}), ({"steps": 2},), generated=0)
OTHER = Part(
    "push", "Push", ("log",), ("y",), Tolerance(), (Check("a", "A", 1, "logs", Agrees(CASES)),), ("a", "b", "c")
)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Stateful(CASES, "count", (OTHER,), ("log",)), "Stateful.steps must name a number among the axes"),
        (lambda: Stateful(CASES, "kind", (OTHER,), ("log",)), "Stateful.steps must name a number among the axes"),
        (lambda: Stateful(CASES, "steps", (OTHER,), ()), "Stateful.carries must name at least one argument"),
        (lambda: Stateful(CASES, "steps", (OTHER,), ("x",)), "Stateful.carries must be arguments of push, got"),
    ],
)
def test_a_rule_that_cannot_be_is_refused(build: Callable[[], object], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        build()


def test_a_part_must_take_what_its_own_run_carries() -> None:
    check = Check("run", "Run", 1, "logs", Stateful(CASES, "steps", (OTHER,), ("log",)))
    with pytest.raises(SpecError, match=r"Part total: Stateful\.carries must name arguments"):
        Part("total", "Total", ("x",), ("y",), Tolerance(), (check,), ("a", "b", "c"))
