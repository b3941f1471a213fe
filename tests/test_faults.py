"""Submissions that crash, hang, flood, grow or lie: each gets its own status, and the other parts are still judged.

The first line of each file under submissions/ says what it must get: `<status>: …`, or `<status>: <cause kind>: …`.
"""

from __future__ import annotations

import os
import re
import time
from pathlib import Path
from typing import get_args

import pytest

from grader.record import Record, Status
from tests.conftest import Grade

SUBMISSIONS = Path(__file__).parent / "submissions"


def named(path: Path) -> str:
    return path.stem


def claim(path: Path) -> tuple[str, str]:
    """(status, cause kind or "") that the file's docstring promises."""
    text = path.read_text(encoding="utf-8")
    doc = re.match(r'"""(\w+): (?:(\w+): )?', text)
    assert doc is not None
    return doc[1], doc[2] or ""


def of_part(record: Record, part: str) -> list[str]:
    return [check.status for check in record.checks if check.part == part and check.status != "skipped_environment"]


@pytest.mark.parametrize("path", sorted(SUBMISSIONS.glob("faults/*.py")), ids=named)
def test_a_fault_gets_its_own_status_and_the_other_part_is_still_judged(path: Path, graded: Grade) -> None:
    status, kind = claim(path)
    record = graded(path, "vector_add", "row_softmax")
    judged = [check for check in record.checks if check.part == "vector_add"]
    assert judged[0].status == status, judged[0]
    assert judged[0].cause is not None
    assert judged[0].cause.kind == (kind or status)
    assert judged[0].points == 0
    assert set(of_part(record, "row_softmax")) == {"pass"}
    assert not children_left()


@pytest.mark.parametrize("path", sorted(SUBMISSIONS.glob("unloadable/*.py")), ids=named)
def test_a_file_that_does_not_load_gets_one_status_throughout(path: Path, graded: Grade) -> None:
    status, _ = claim(path)
    record = graded(path)
    for part in ("vector_add", "fused_multiply_add", "row_softmax", "global_sum"):
        assert set(of_part(record, part)) == {status}
    assert record.verdict == status
    assert record.score == 0
    assert not children_left()


def children_left() -> list[str]:
    """Processes of submissions that still run: those of their own users, or orphans of the fork server."""
    deadline = time.monotonic() + 2
    while (left := _submission_processes()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return left


def _submission_processes() -> list[str]:
    found = []
    for process in Path("/proc").iterdir():
        try:
            if process.name.isdigit() and "grade-" in os.readlink(process / "cwd"):
                found.append(f"{process.name}: {(process / 'cmdline').read_text()[:80]}")
        except OSError:
            continue
    return found


def test_every_fault_says_in_its_first_line_what_it_must_get() -> None:
    for path in SUBMISSIONS.glob("*/*.py"):
        assert claim(path)[0] in get_args(Status), path
