"""The accuracy measurement's pure parts: every operator on a short kernel, the sample, the journal, and the page."""

from __future__ import annotations

import ast
import json
from collections.abc import Sequence
from dataclasses import replace
from difflib import ndiff
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks.accuracy.measure import close, is_failure
from benchmarks.accuracy.mutate import Mutant, is_kernel, mutants, reached_from, sample, trapped
from benchmarks.accuracy.report import gaps, report
from benchmarks.accuracy.results import Journal, Result, key_of, read, write
from grader.exercise.catalogue import resolve
from grader.judge.truth import Expected
from grader.record.checks import CheckResult

pytestmark = pytest.mark.process

ROOT = Path(__file__).resolve().parents[2]

# "ä·" before a change: columns of a syntax tree count bytes.
SOURCE = '''"""A text with constants: 1 + 2."""
BLOCK = 64

@triton.jit
def kernel(x_ptr, y_ptr, n, stride_xm, stride_ym, BLOCK: tl.constexpr = 64):
    """0 < 1"""
    "ä·"; row = tl.program_id(0) * BLOCK
    columns = row + tl.arange(0, BLOCK)[:, None]
    mask = (columns < n) & (row >= 0)
    x = tl.load(x_ptr + columns * stride_xm, mask=mask, other=float("-inf")).to(tl.float32)
    x = tl.maximum(x, 0.5)
    for step in range(n):
        x += tl.sum(x, axis=1) // 2
    tl.store(y_ptr + columns * stride_ym, x, mask=mask)

KERNEL = Kernel(kernel)

def helper(n):
    return n + 1

def scale(x, y):
    grid = (triton.cdiv(x.numel(), BLOCK),)
    KERNEL[grid](x, y, x.numel(), x.stride(0), y.stride(0), num_warps=4)
    raise ValueError(1 + 1)

def other(x):
    return helper(x)
'''


@pytest.fixture(scope="module")
def found() -> tuple[Mutant, ...]:
    return mutants(SOURCE, ("scale",))


@pytest.mark.parametrize(
    ("operator", "after"),
    [
        ("comparison", "mask = (columns <= n) & (row >= 0)"),
        ("comparison", "mask = (columns < n) & (row > 0)"),
        ("mask", "x = tl.load(x_ptr + columns * stride_xm).to(tl.float32)"),
        ("mask", "tl.store(y_ptr + columns * stride_ym, x)"),
        ("other", "x = tl.load(x_ptr + columns * stride_xm, mask=mask).to(tl.float32)"),
        ("bound", "columns = row + (tl.arange(0, BLOCK) + 1)[:, None]"),
        ("bound", "for step in range((n) - 1):"),
        ("bound", "grid = (((x.numel()) // (BLOCK)),)"),
        ("stride", "tl.store(y_ptr + columns * stride_xm, x, mask=mask)"),
        ("stride", "KERNEL[grid](x, y, x.numel(), y.stride(0), x.stride(0), num_warps=4)"),
        ("dtype", 'x = tl.load(x_ptr + columns * stride_xm, mask=mask, other=float("-inf")).to(tl.float16)'),
        ("dtype", 'x = tl.load(x_ptr + columns * stride_xm, mask=mask, other=float("-inf"))'),
        ("constant", "x = tl.load(x_ptr + columns * stride_xm, mask=mask, other=0.0).to(tl.float32)"),
        ("constant", "x = tl.maximum(x, 1.0)"),
        ("constant", "x += tl.sum(x, axis=1) // 3"),
        ("dropped", "pass"),
        ("axis", '"ä·"; row = tl.program_id(1) * BLOCK'),
        ("axis", "columns = row + tl.arange(0, BLOCK)[None, :]"),
        ("axis", "x += tl.sum(x, axis=0) // 2"),
        ("arithmetic", '"ä·"; row = tl.program_id(0) + BLOCK'),
        ("arithmetic", "x -= tl.sum(x, axis=1) // 2"),
        ("arithmetic", "x += tl.sum(x, axis=1) % 2"),
        ("logic", "mask = (columns < n) | (row >= 0)"),
        ("logic", "x = tl.minimum(x, 0.5)"),
    ],
)
def test_an_operator_makes_its_change(found: Sequence[Mutant], operator: str, after: str) -> None:
    assert after in [one.after for one in found if one.operator == operator]


def test_every_mutant_is_another_program_that_differs_in_one_line(found: Sequence[Mutant]) -> None:
    for one in found:
        assert ast.dump(ast.parse(one.text)) != ast.dump(ast.parse(SOURCE))
        changed = [line for line in ndiff(SOURCE.splitlines(), one.text.splitlines()) if line[0] in "+-"]
        assert [" ".join(line[1:].split()) for line in changed] == [one.before, one.after]
        assert SOURCE.splitlines()[one.line - 1].strip() == one.before


def test_docstrings_signatures_tuning_errors_and_helpers_stay_as_they_are(found: Sequence[Mutant]) -> None:
    for kept in (
        "A text",
        "BLOCK = 64",
        "def kernel",
        '"""0 < 1"""',
        "num_warps=4)",
        "raise ValueError(1 + 1)",
        "n + 1",
    ):
        assert all(kept in one.text for one in found)


def test_an_assignment_is_dropped_only_where_its_name_has_a_value_already(found: Sequence[Mutant]) -> None:
    dropped = [one.before.partition(" ")[0] for one in found if one.operator == "dropped"]
    assert dropped == ["x", "x", "tl.store(y_ptr"]


def test_mutants_come_in_one_order_and_without_repetition(found: Sequence[Mutant]) -> None:
    assert found == mutants(SOURCE, ("scale",))
    assert len({one.text for one in found}) == len(found)
    assert [one.line for one in found] == sorted(one.line for one in found)


def test_a_sample_holds_every_operator_and_follows_from_its_seed(found: Sequence[Mutant]) -> None:
    operators = {one.operator for one in found}
    drawn = sample(found, len(operators), 3)
    assert {one.operator for one in drawn} == operators
    assert drawn == sample(found, len(operators), 3) != sample(found, len(operators), 4)


@pytest.mark.parametrize("count", [0, 1, 7, 10_000])
def test_a_sample_is_as_large_as_there_are_mutants(found: Sequence[Mutant], count: int) -> None:
    drawn = sample(found, count, 0)
    assert len(drawn) == min(count, len(found))
    assert set(drawn) <= set(found)


def test_a_part_reaches_what_it_mentions_through_other_names() -> None:
    assert reached_from(SOURCE, "kernel", ("scale", "other")) == {"scale"}
    assert reached_from(SOURCE, "helper", ("scale", "other")) == {"other"}


BRANCHES = """
def part(x):
    if x == 1:
        a = (
            2
        )
    elif x == 2:
        a = 3
    else:
        a = 4
    return a
"""


@pytest.mark.parametrize(
    ("line", "reached_by"), [(3, {1, 2, 3}), (5, {1}), (7, {1, 2, 3}), (8, {2}), (10, {3}), (11, {1, 2, 3})]
)
def test_a_trap_stands_in_front_of_the_statement_of_its_line(line: int, reached_by: set[int]) -> None:
    names: dict[str, Any] = {}
    exec(trapped(BRANCHES, line), names)
    found = set()
    for x in (1, 2, 3):
        try:
            names["part"](x)
        except RuntimeError:
            found.add(x)
    assert found == reached_by


def test_a_kernel_is_what_calls_tl_in_its_body() -> None:
    functions = [node for node in ast.parse(SOURCE).body if isinstance(node, ast.FunctionDef)]
    assert [one.name for one in functions if is_kernel(one)] == ["kernel"]


@pytest.mark.parametrize("exercise", ["ex_15", "ex_16"])
def test_solutions_have_mutants_of_every_operator(exercise: str) -> None:
    entry, _ = resolve(ROOT, exercise)
    parts = [part.name for part in entry.exercise.parts]
    made = mutants(entry.solution.read_text(encoding="utf-8"), parts)
    assert len({one.operator for one in made}) == 11
    assert all(reached_from(entry.solution.read_text(), name, parts) for name in {one.function for one in made})


# -- what is measured ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dtype", "off", "right"),
    [(torch.float32, 9e-5, True), (torch.float32, 9e-4, False), (torch.float16, 9e-3, True), (torch.int64, 1, False)],
)
def test_the_fixed_shape_protocol_has_the_usual_tolerances(dtype: torch.dtype, off: float, right: bool) -> None:
    value = torch.zeros(3, dtype=torch.float64 if dtype.is_floating_point else dtype)
    expected = Expected("z", value, dtype, torch.zeros(3))
    assert close((value + off).to(dtype), expected) is right


@pytest.mark.parametrize(
    ("status", "points", "failure"),
    [("pass", 2.0, False), ("pass", 1.0, True), ("fail", 0.0, True), ("skipped_environment", 0.0, False)],
)
def test_lost_points_are_a_failure_and_unjudged_ones_are_not(status: str, points: float, failure: bool) -> None:
    assert is_failure(CheckResult("p.c", "p", "A title", "an objective", status, points, 2.0, 0.1)) is failure


# -- results and the page --------------------------------------------------------------------------------------------

CAUGHT = Result(
    "mutant", "a", "ex_15", "fail", "add.tail", "wrong", 0.2, "mask", "k", 7, "load(x, mask=m)", "load(x)", ("add",),
    fixed=False,
)  # fmt: skip
SEEN_BY_BOTH = replace(CAUGHT, key="b", check="add.full", operator="axis", fixed=True)
SAME = replace(CAUGHT, key="c", status="pass", check="", why="", operator="logic", before="a | b", after="b | a")
GAP = replace(SAME, key="d", operator="constant", before="x + 1", after="x + 2")
IDLE = replace(GAP, key="h", status="not_run", operator="mask")
ON_A_GPU = replace(IDLE, key="i", status="crash", check="add.large", where="gpu", fixed=None)
USELESS = replace(CAUGHT, key="e", status="discarded", check="", fixed=None)
HONEST = Result("honest", "f", "ex_15", "pass", file="solution.py", seed=1)
REFUSED = replace(HONEST, key="g", status="fail", check="add.tail", why="off by 1", file="tiles.py")
PLANTED = replace(CAUGHT, kind="planted", key="j", operator="", file="no_mask.py", seed=1, claim="add.tail")
ELSEWHERE = replace(PLANTED, key="k", check="add.full", seed=2, fixed=True)
UNSEEN = replace(PLANTED, key="l", status="pass", check="", file="slow.py")
RESULTS = (CAUGHT, SEEN_BY_BOTH, SAME, GAP, USELESS, HONEST, REFUSED, IDLE, ON_A_GPU, PLANTED, ELSEWHERE, UNSEEN)
EQUIVALENT = {"ex_15 k: a | b -> b | a": "or is commutative."}


def test_an_explained_survivor_is_no_gap() -> None:
    assert gaps(RESULTS, EQUIVALENT) == [GAP]
    assert gaps(RESULTS, {}) == [SAME, GAP]


def test_a_grader_error_catches_nothing() -> None:
    broken = replace(GAP, status="grader_error", why="KeyError | x")
    assert gaps([broken], {}) == [broken]
    assert "the grader failed: KeyError \\| x" in report([broken], {})


@pytest.mark.parametrize(
    "line",
    [
        "| ex_15 | 5 | 1 | 1 | 2 of 3 (67%) | 1 of 3 (33%) |",
        "| mask | 2 | 0 | 1 | 1 of 1 (100%) | 0 of 1 (0%) |",
        "| logic | 1 | 1 | 0 | – | – |",
        "| mask | 1 | 0 | 0 | 1 of 1 (100%) | – |",
        "| ex_15 add.large | crash | 1 | 0 |",
        "5 mutants, 1 more discarded. Median grading: 0.2 s.",
        "| ex_15 add.tail | fail | 1 | 1 |",
        "| ex_15 k:7 | logic | `a \\| b` | `b \\| a` | missed | equivalent: or is commutative. |",
        "| ex_15 k:7 | constant | `x + 1` | `x + 2` | missed | **a gap**, not explained |",
        "| ex_15 | 2 | 1 | 2 | 1 |",
        "- ex_15 tiles.py, seed 0x1: add.tail: fail: off by 1",
        "| ex_15 | 2 | 2 | 2 of 3 (67%) | 1 of 3 (33%) | 1 of 3 (33%) |",
        "- ex_15 slow.py, seed 0x1",
    ],
)
def test_the_page_says(line: str) -> None:
    assert line in report(RESULTS, EQUIVALENT).splitlines()


def test_the_page_of_nothing_is_a_page() -> None:
    assert report([], {}).startswith("# How accurate the grader is")
    assert "None graded." in report([CAUGHT], {})


def test_a_journal_goes_on_where_it_was(tmp_path: Path) -> None:
    journal = Journal.opened(tmp_path / "run.jsonl")
    for one in RESULTS:
        journal.add(one)
    assert Journal.opened(journal.path).known == {one.key: one for one in RESULTS}


def test_results_survive_a_round_trip(tmp_path: Path) -> None:
    write(tmp_path / "run.json", RESULTS)
    assert read(tmp_path / "run.json") == RESULTS


def test_a_key_depends_on_the_mode_the_text_the_exercise_and_the_seed() -> None:
    others = (("gpu", "e", "t", 1), ("gpu", "e", "t", 2), ("gpu", "e", "u", 1), ("gpu", "f", "t", 1))
    assert len({key_of("mutant", *rest) for rest in (("interpret", "e", "t", 1), *others)}) == 5


def test_a_gap_can_be_explained_and_stays_one() -> None:
    page = report(RESULTS, EQUIVALENT, {GAP.change: "no case is long enough."})
    assert "| ex_15 k:7 | constant | `x + 1` | `x + 2` | missed | **a gap**: no case is long enough. |" in page
    assert "2 of 3 (67%)" in page


@pytest.mark.parametrize("file", ["equivalent.json", "gaps.json"])
def test_every_reason_is_of_a_change_that_a_solution_still_has(file: str) -> None:
    reasons = json.loads((ROOT / "benchmarks" / "accuracy" / file).read_text(encoding="utf-8"))
    changes = [changes_of(name) for name in {change.partition(" ")[0] for change in reasons}]
    assert set(reasons) <= set().union(*changes)


@cache
def changes_of(name: str) -> set[str]:
    """Return what the mutants of a solution change."""
    entry, _ = resolve(ROOT, name)
    found = mutants(entry.solution.read_text(encoding="utf-8"), [part.name for part in entry.exercise.parts])
    return {f"{name} {one.function}: {one.before} -> {one.after}" for one in found}
