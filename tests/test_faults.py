"""Submissions that crash, hang, flood, grow or lie: each gets its own status, and the other parts are still judged.

The first line of each file under submissions/ says what it must get.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import get_args

import pytest

from grader.record import Status
from tests.claims import claim, files, statuses
from tests.conftest import Grade


def named(path: Path) -> str:
    return path.stem


@pytest.mark.parametrize("path", [*files("faults"), *files("escapes")], ids=named)
def test_a_fault_gets_its_own_status_and_the_other_part_is_still_judged(path: Path, graded: Grade) -> None:
    status, kind = claim(path)
    record = graded(path, "vector_add", "row_softmax")
    judged = [check for check in record.checks if check.part == "vector_add"]
    assert judged[0].status == status, judged[0]
    assert judged[0].cause is not None
    assert judged[0].cause.kind == kind
    assert judged[0].points == 0
    assert statuses(record, "row_softmax") == {"pass"}
    assert not children_left()


@pytest.mark.parametrize("path", files("unloadable"), ids=named)
def test_a_file_that_does_not_load_gets_one_status_throughout(path: Path, graded: Grade) -> None:
    status, _ = claim(path)
    record = graded(path)
    for part in ("vector_add", "fused_multiply_add", "row_softmax", "global_sum"):
        assert statuses(record, part) == {status}
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
            in_scratch = process.name.isdigit() and "grade-" in os.readlink(process / "cwd")
            if in_scratch and os.getpid() in ancestors(int(process.name)):
                found.append(f"{process.name}: {(process / 'cmdline').read_text()[:80]}")
        except OSError:
            continue
    return found


def ancestors(pid: int) -> list[int]:
    """The parents of a process, up to the first. The fork server adopts orphans, and we are its parent."""
    found = []
    while pid > 1:
        pid = int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[1])
        found.append(pid)
    return found


def test_every_fault_says_in_its_first_line_what_it_must_get() -> None:
    for folder in ("attacks", "faults", "gpu", "unloadable"):
        for path in files(folder):
            assert claim(path)[0] in get_args(Status), path
