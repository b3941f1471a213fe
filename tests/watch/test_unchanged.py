"""After an edit of one part, the results of the other parts are kept; whatever may be another one now is graded."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from grader.exercise.catalogue import Entry
from grader.record.checks import PartInfo
from grader.record.kernels import CompiledKernel
from grader.record.record import Record
from grader.record.statuses import Status
from grader.watch.unchanged import GradedText
from tests.records import samples

PARTS = ("vector_add", "row_softmax")
SOURCE = """import triton

def vector_add_kernel():
    pass

def vector_add(x, y):
    return vector_add_kernel

def row_softmax(x):
    return 1
"""
EDITED = SOURCE.replace("return 1", "return 2")


def record(*statuses: Status) -> Record:
    """A record with one check for each part."""
    checks = [
        replace(samples.check(f"{part}.tail", part), status=status)
        for part, status in zip(PARTS, statuses, strict=False)
    ]
    numbers = dict.fromkeys(("registers", "stack_bytes", "spill_store_bytes", "spill_load_bytes", "shared_bytes"), 0)
    counts: dict[str, Any] = {name: {} for name in ("constants", "tensor_cores", "copies", "loads", "stores")}
    more = {"configurations": 0, "num_warps": 4, "num_stages": 3, "tensor_memory_columns": 0}
    kernel = CompiledKernel(
        "vector_add_kernel", 3, "sm_90", "N=1", **numbers, **counts, **more, occupancy=None, dots=(), compile_s=0.1
    )
    parts = (PartInfo("vector_add", "Add", (kernel,)), PartInfo("row_softmax", "Softmax"))
    return replace(samples.record(tuple(checks), ()), parts=parts)


def test_a_part_whose_text_stays_keeps_its_results() -> None:
    assert GradedText(SOURCE, record("pass", "pass")).unchanged(EDITED, PARTS) == {"vector_add"}


@pytest.mark.parametrize("status", ["fail", "crash", "timeout", "inconclusive", "grader_error", "policy"])
def test_a_part_that_did_not_pass_is_graded_again(status: Any) -> None:
    assert GradedText(SOURCE, record(status, "pass")).unchanged(EDITED, PARTS) == set()


@pytest.mark.parametrize(
    "source", [SOURCE, f"{SOURCE}\n# a comment\n", "x = (", SOURCE.replace("import triton", "import triton\nprint(1)")]
)
def test_an_edit_of_no_part_or_of_all_lets_all_be_graded_again(source: str) -> None:
    assert GradedText(SOURCE, record("pass", "pass")).unchanged(source, PARTS) == set()


def test_what_a_part_reaches_belongs_to_its_text() -> None:
    edited = EDITED.replace("    pass", "    return 3")
    assert GradedText(SOURCE, record("pass", "pass")).unchanged(edited, PARTS) == set()


def test_a_joined_record_counts_all_parts_and_names_the_lines_of_now(ex_15: Entry) -> None:
    longer = EDITED.replace("import triton\n", "import triton\n\n# A longer head.\n")
    graded = GradedText(SOURCE, record("pass", "pass"))
    assert graded.unchanged(longer, PARTS) == {"vector_add"}
    again = record("pass", "fail")
    part = replace(again, parts=again.parts[1:], checks=again.checks[1:])
    whole = graded.joined(part, longer, {"vector_add"}, ex_15.exercise)
    assert [check.status for check in whole.checks] == ["pass", "fail"]
    assert [one.name for one in whole.parts] == list(PARTS)
    assert whole.verdict == "fail"
    assert (whole.score, whole.max_score) == tuple(
        sum(getattr(check, name) for check in whole.checks) for name in ("points", "max_points")
    )
    assert whole.parts[0].kernels[0].line == 5


def test_a_part_that_is_still_unwritten_names_the_line_where_it_raises_now(ex_15: Entry) -> None:
    raised = "NotImplementedError (line 10): row_softmax: keep a row in one program"
    checks = replace(record("pass", "not_implemented").checks[1], reason=raised)
    graded = GradedText(SOURCE, replace(record("pass", "not_implemented"), checks=(record("pass").checks[0], checks)))
    longer = SOURCE.replace("    pass\n", "    first = 1\n    return first\n")
    assert graded.unchanged(longer, PARTS) == {"row_softmax"}
    whole = graded.joined(record("pass"), longer, {"row_softmax"}, ex_15.exercise)
    assert whole.checks[1].reason == raised.replace("10", "11")
