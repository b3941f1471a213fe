"""A small edit that makes every failing call right is told with its line; any other is not."""

from __future__ import annotations

import pytest

from grader.diagnosis.edits.repairs import repair_clues
from grader.exercise.cases import Case
from grader.exercise.catalogue import Entry
from grader.judge.clue import Clue
from grader.protocol.requests import Recipe
from grader.sandbox.server import ForkServer
from tests.benches import VECTOR_ADD, bench_of
from tests.conftest import answered, plan_with

SMALL, LARGE = (Case({"N": n, "dtype": "float32", "values": "normal", "offset": 0}) for n in (100, 5000))


def clues(server: ForkServer, entry: Entry, source: str, suspected: tuple[str, ...] = ()) -> list[Clue]:
    """Return the clues of a file that fails for small and large vectors."""
    with bench_of(server, entry, source, "vector_add") as bench:
        failing: list[Recipe] = []
        for case in (LARGE, SMALL):
            trial = bench.try_case(case, 5)
            failing += [trial.recipe] if trial.failure else []
        before = list(bench.findings.tried)
        found = repair_clues(bench, source, failing, suspected)
        assert bench.findings.tried == before
        # The submission's own calls fail as before.
        assert bench.try_case(LARGE, 6).failure is not None
        return found


def wrong(right: str, instead: str) -> str:
    assert right in VECTOR_ADD
    return VECTOR_ADD.replace(right, instead)


def test_a_kernel_is_repaired_and_the_line_is_named(server: ForkServer, ex_15: Entry) -> None:
    (clue,) = clues(server, ex_15, wrong("offsets < n", "offsets <= n"))
    assert (clue.kind, clue.confirmed) == ("missing_mask", True)
    words = "With `offsets < n` in place of `offsets <= n` in line 8"
    assert clue.evidence == f"{words}, every failing call that was repeated is right."


@pytest.mark.process
def test_launch_code_is_repaired_in_a_process_of_its_own(server: ForkServer, ex_15: Entry) -> None:
    (clue,) = clues(server, ex_15, wrong("triton.cdiv(x.numel(), 64)", "x.numel() // 64"))
    assert (clue.kind, clue.confirmed) == ("remainder_skipped", True)
    assert "`triton.cdiv(x.numel(), 64)` in place of `x.numel() // 64` in line 15" in clue.evidence


@pytest.mark.process
def test_an_edit_that_leads_to_another_kernel_is_no_repair(server: ForkServer, ex_15: Entry) -> None:
    kernel = VECTOR_ADD[VECTOR_ADD.index("@triton.jit") : VECTOR_ADD.index("def vector_add")]
    name = kernel.partition("def ")[2].partition("(")[0]
    other = kernel.replace(name, "other_kernel").replace("x + y", "x * x * y * y + x * x * x")
    source = VECTOR_ADD.replace(kernel, kernel + other)
    # Rounded up, the quotient would choose the right kernel.
    launch = next(line for line in source.splitlines() if f"{name}[" in line)
    chosen = f"    chosen = {name} if x.numel() // 8192 else other_kernel\n"
    source = source.replace(launch, chosen + launch.replace(f"{name}[", "chosen["))
    assert clues(server, ex_15, source) == []


def test_a_call_that_is_right_alone_does_not_end_the_search(server: ForkServer, ex_15: Entry) -> None:
    source = wrong("offsets < n", "offsets <= n")
    with bench_of(server, ex_15, source, "vector_add") as bench:
        alone = [bench.try_case(Case({**SMALL, "N": n}), 5).recipe for n in (64, 100)]
        assert [one.kind for one in repair_clues(bench, source, alone, ())] == ["missing_mask"]


def test_without_such_an_edit_nothing_is_told(server: ForkServer, ex_15: Entry) -> None:
    assert clues(server, ex_15, wrong("x + y", "x * x * y * y + x * x * x")) == []


def test_a_suspected_kind_that_fits_the_edit_keeps_its_name(server: ForkServer, ex_15: Entry) -> None:
    source = wrong("* BLOCK + tl", "* BLOCK + 1 + tl")
    assert [one.kind for one in clues(server, ex_15, source)] == ["position_shifted"]
    assert [one.kind for one in clues(server, ex_15, source, ("missing_mask", "zeros"))] == ["missing_mask"]
    assert [one.kind for one in clues(server, ex_15, source, ("zeros",))] == ["position_shifted"]


@pytest.mark.process
def test_the_card_of_a_failing_check_names_the_line(server: ForkServer, ex_15: Entry) -> None:
    record = answered(
        server,
        ex_15,
        wrong("offsets < n", "offsets < n - 1"),
        plan_with(ex_15, "vector_add.tail", "vector_add.full_blocks"),
    )
    causes = {check.id: check.cause for check in record.checks if check.status == "fail" and check.cause}
    assert causes
    assert all(cause.suspects[0].kind == "last_left_out" for cause in causes.values())
    assert any("in line 8" in cause.suspects[0].evidence for cause in causes.values())


@pytest.mark.process
def test_the_card_of_a_known_mistake_names_its_line(server: ForkServer, ex_15: Entry) -> None:
    source = wrong("tl.load(y_ptr + offsets", "tl.load(x_ptr + offsets")
    record = answered(server, ex_15, source, plan_with(ex_15, "vector_add.tail"))
    (cause,) = (check.cause for check in record.checks if check.status == "fail" and check.cause)
    first = cause.suspects[0]
    assert (first.kind, first.confirmed) == ("operand_mixed_up", True)
    assert cause.title == "Looks as if x is added to itself"
    assert "`y_ptr` in place of `x_ptr` in line 9" in first.evidence
