"""Submissions that crash, hang, flood, grow or lie: each gets its own status, and the other parts are still judged.

The first line of each file under submissions/ says what it must get.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest

from grader.cli.exit_codes import exit_code
from grader.exercise.catalogue import Entry
from grader.record.statuses import Status
from grader.sandbox.server import ForkServer
from tests.canaries import children_left
from tests.claims import claim, files, statuses
from tests.conftest import SHORT, Grade, answered, grader_with, limited, plan_with
from tests.recordings import HEAD

# Right, but for half a second per call.
SLOW = """
import time, torch
def vector_add(x, y):
    time.sleep(0.5)
    return x + y
def row_softmax(x):
    return torch.softmax(x.double(), -1).to(x.dtype)
"""


def named(path: Path) -> str:
    return path.stem


@pytest.mark.parametrize("path", [*files("faults"), *files("escapes")], ids=named)
def test_a_fault_gets_its_own_status_and_the_other_part_is_still_judged(
    path: Path, hastily: Grade, at_once: Grade
) -> None:
    status, kind = claim(path)
    graded = at_once if status == "timeout" else hastily
    # A second check of the part, for those that answer the first question rightly.
    record = graded(path, "vector_add.full_blocks", "vector_add.tail", "row_softmax.tail")
    judged = [check for check in record.checks if check.part == "vector_add" and check.status != "pass"]
    assert judged[0].status == status, judged[0]
    assert judged[0].cause is not None
    assert judged[0].cause.kind == kind
    assert judged[0].points == 0
    assert statuses(record, "row_softmax") == {"pass"}


def test_calls_that_take_too_long_together_end_the_part_and_no_other(server: ForkServer) -> None:
    patient = limited(replace(SHORT, part_s=0.9))
    # One check of the other part: all of them may take as long on a busy machine.
    asked = *(f"vector_add.{name}" for name in ("full_blocks", "tail", "values")), "row_softmax.kernels"
    record = answered(server, patient, SLOW, plan_with(patient, *asked))
    ended = [check for check in record.checks if check.part == "vector_add"]
    assert [check.status for check in ended] == ["timeout", "timeout", "skipped_dependency"]
    assert ended[0].reason == "The calls of this part took more than the 0.9 s that they may take together."
    assert statuses(record, "row_softmax") == {"policy"}


ONLY_LONG = f"""{HEAD}
def vector_add(x, y):
    if x.numel() < 64:
        raise NotImplementedError
    return added(x, y)
"""


def test_what_a_part_leaves_out_costs_the_checks_that_ask_for_it_alone(hastily: Grade, tmp_path: Path) -> None:
    path = tmp_path / "only_long.py"
    path.write_text(ONLY_LONG)
    checks = hastily(path, "vector_add.full_blocks", "vector_add.tail", "vector_add.traffic").checks
    assert {check.id: check.status for check in checks} == {
        "vector_add.full_blocks": "pass",
        "vector_add.tail": "not_implemented",
        "vector_add.traffic": "pass",
    }


@pytest.mark.parametrize("path", files("unloadable"), ids=named)
def test_a_file_that_does_not_load_gets_one_status_throughout(path: Path, server: ForkServer) -> None:
    status, _ = claim(path)
    record = grader_with(server, limited(replace(SHORT, load_s=2.0)))(path)
    for part in ("vector_add", "fused_multiply_add", "row_softmax", "global_sum"):
        assert statuses(record, part) == {status}
    assert record.verdict == status
    assert record.score == 0
    assert exit_code(record.verdict) == (3 if status == "invalid_submission" else 1)
    assert {check.cause.title for check in record.checks if check.cause} == {"The file does not load"}
    assert not children_left()


def test_a_file_that_does_not_load_shows_the_line_and_the_error(graded: Grade) -> None:
    cause = graded("import torch\n\nBLOCKS = [SIZE, 64]\n", "vector_add").checks[0].cause
    assert cause is not None
    assert cause.rationale == "NameError (line 3): name 'SIZE' is not defined"
    assert "    BLOCKS = [SIZE, 64]" in cause.traceback.splitlines()


def test_every_fault_says_in_its_first_line_what_it_must_get() -> None:
    for folder in ("attacks", "escapes", "faults", "gpu", "hostile", "unloadable"):
        for path in files(folder):
            assert claim(path)[0] in get_args(Status), path


NOT_SHORT = f"""{HEAD}
def vector_add(x, y):
    if x.numel() == 8192:
        raise NotImplementedError("no round lengths")
    return added(x, y)

def row_softmax(x):
    raise NotImplementedError
"""


def test_a_part_that_answers_another_case_is_begun_and_leaves_the_first_one_out(
    server: ForkServer, ex_15: Entry
) -> None:
    asked = "vector_add.full_blocks", "vector_add.tail", "row_softmax.tail"
    checks = {check.id: check for check in answered(server, ex_15, NOT_SHORT, plan_with(ex_15, *asked)).checks}
    left_out = checks["vector_add.full_blocks"]
    assert left_out.status == "crash"
    assert left_out.cause is not None
    assert left_out.cause.title == "Your code leaves this case out"
    assert left_out.cause.rationale == "NotImplementedError (line 22): no round lengths"
    assert checks["vector_add.tail"].status == "pass"
    assert checks["row_softmax.tail"].status == "not_implemented"
