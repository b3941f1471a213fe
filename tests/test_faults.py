"""Submissions that crash, hang, flood, grow or lie: each gets its own status, and the other parts are still judged.

The first line of each file under submissions/ says what it must get.
"""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

from grader.record import Status
from tests.canaries import children_left
from tests.claims import claim, files, statuses
from tests.conftest import Grade


def named(path: Path) -> str:
    return path.stem


@pytest.mark.parametrize("path", [*files("faults"), *files("escapes")], ids=named)
def test_a_fault_gets_its_own_status_and_the_other_part_is_still_judged(path: Path, hastily: Grade) -> None:
    status, kind = claim(path)
    # A second check of the part, for those that answer the first question rightly.
    record = hastily(path, "vector_add.full_blocks", "vector_add.tail", "row_softmax.tail")
    judged = [check for check in record.checks if check.part == "vector_add" and check.status != "pass"]
    assert judged[0].status == status, judged[0]
    assert judged[0].cause is not None
    assert judged[0].cause.kind == kind
    assert judged[0].points == 0
    assert statuses(record, "row_softmax") == {"pass"}


@pytest.mark.parametrize("path", files("unloadable"), ids=named)
def test_a_file_that_does_not_load_gets_one_status_throughout(path: Path, graded: Grade) -> None:
    status, _ = claim(path)
    record = graded(path)
    for part in ("vector_add", "fused_multiply_add", "row_softmax", "global_sum"):
        assert statuses(record, part) == {status}
    assert record.verdict == status
    assert record.score == 0
    assert not children_left()


def test_every_fault_says_in_its_first_line_what_it_must_get() -> None:
    for folder in ("attacks", "escapes", "faults", "gpu", "hostile", "unloadable"):
        for path in files(folder):
            assert claim(path)[0] in get_args(Status), path
