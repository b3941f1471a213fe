"""docs/adding-an-exercise.md, taken at its word in an empty tree."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.process

ROOT = Path(__file__).resolve().parents[2]
_BLOCK = re.compile(r"^```(?:python|diff) ((?:file=\S+ ?)+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """An empty tree with nothing but the files that the page shows."""
    page = (ROOT / "docs" / "adding-an-exercise.md").read_text(encoding="utf-8")
    for files, text in _BLOCK.findall(page):
        for name in re.findall(r"file=(\S+)", files):
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def grade(tree: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "GRADE_ROOT": str(tree)}
    command = [sys.executable, "-m", "grader", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=tree, env=environment, check=False)


def test_the_exercise_of_the_page_is_discovered_and_sound(tree: Path) -> None:
    assert "ex_90  Axpy: not started" in grade(tree, "list").stdout
    checked = grade(tree, "check", "ex_90", "--json", "-")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "ex_90: sound" in checked.stderr
    (gate,) = json.loads(checked.stdout)["exercises"]
    assert (gate["id"], gate["holds"]) == ("ex_90", True)
    assert {"subject": "wrong/library", "holds": True, "outcome": "axpy.kernels: policy"} in gate["findings"]


def test_its_untouched_stub_is_not_implemented_and_its_solution_earns_everything(tree: Path) -> None:
    assert grade(tree, "ex_90", "-q").returncode == 3
    solved = grade(tree, "ex_90", "-q", "--submission", "reference/ex_90_axpy/solution.py")
    assert solved.returncode == 0, solved.stdout
    assert "100 of 100 points" in solved.stdout
