"""`grade trace --picture`: one call is replayed, and drawn on the terminal."""

from __future__ import annotations

from pathlib import Path

import pytest

from grader.cli.trace import trace

pytestmark = [pytest.mark.process, pytest.mark.usefixtures("lent")]

KERNEL = """
import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.load(x_ptr + offsets, offsets < n) + tl.load(y_ptr + offsets, offsets < n)
    tl.store(z_ptr + offsets, total, offsets < n)


def vector_add(x, y):
    z = torch.empty_like(x)
    add_kernel[(x.numel() // 16,)](x, y, z, x.numel(), BLOCK=16)
    return z
"""


@pytest.fixture
def submission(tmp_path: Path) -> str:
    path = tmp_path / "ex.py"
    path.write_text(KERNEL, encoding="utf-8")
    return str(path)


def test_a_picture_shows_programs_elements_and_what_is_missing(
    submission: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert trace("ex_15", submission, None, "N=40", picture=True) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "ex_15 vector_add for N=40, dtype=float32, values=normal, offset=0"
    assert lines[1:3] == [
        "add_kernel: 2 programs × 16 elements cover 32 of 40 in z_ptr",
        "No program writes 8 elements of z_ptr: z_ptr[32] to [39].",
    ]
    assert lines[5].split() == ["0", "░░░░░░░░············", "░░░░░░░░············", "████████············"]
    assert lines[7].split() == ["none", "□□□□"]


def test_a_function_that_is_not_written_has_no_picture(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "ex.py"
    path.write_text("def vector_add(x, y):\n    raise NotImplementedError('write it')\n", encoding="utf-8")
    assert trace("ex_15", str(path), None, None, picture=True) == 3
    assert "write it" in capsys.readouterr().err


def test_a_trace_says_that_no_kernel_ran(submission: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert trace("ex_15", submission, None, "N=40") == 0
    said = capsys.readouterr()
    assert said.out.splitlines()[-1] == "     returns t1 [40] float32"
    assert said.err == "No kernel ran: a kernel that crashes or is wrong shows with --picture, and when you grade.\n"


@pytest.mark.parametrize("case", ["N=40", None])
def test_a_crash_of_some_calls_is_told_beside_the_picture_of_another_one(
    submission: str, case: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    crashing = KERNEL.replace("    tl.store", "    if n > 20:\n        total += tl.arange(0, 32)\n    tl.store")
    Path(submission).write_text(crashing, encoding="utf-8")
    assert trace("ex_15", submission, None, case, picture=True) == 1
    said = capsys.readouterr()
    assert "Line 12" in said.err
    assert ("add_kernel: " in said.out) == (case is None)


def test_an_access_outside_a_tensor_is_told_beside_its_picture(
    submission: str, capsys: pytest.CaptureFixture[str]
) -> None:
    unmasked = KERNEL.replace("x_ptr + offsets, offsets < n", "x_ptr + offsets")
    Path(submission).write_text(unmasked, encoding="utf-8")
    assert trace("ex_15", submission, None, "N=20", picture=True) == 0
    Path(submission).write_text(unmasked.replace("// 16", "// 16 + 1"), encoding="utf-8")
    assert trace("ex_15", submission, None, "N=20", picture=True) == 1
    said = capsys.readouterr()
    assert "z_ptr" in said.out
    assert "loads x_ptr[20], but x_ptr has the shape [20]" in said.err
