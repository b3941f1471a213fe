"""docs/adding-an-exercise.md, taken at its word in an empty tree."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from grader.cli.main import dispatch

pytestmark = pytest.mark.process

ROOT = Path(__file__).resolve().parents[2]
_BLOCK = re.compile(r"^```(?:python|diff) ((?:file=\S+ ?)+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty tree with nothing but the files that the page shows; the working directory is in it."""
    page = (ROOT / "docs" / "adding-an-exercise.md").read_text(encoding="utf-8")
    for files, text in _BLOCK.findall(page):
        for name in re.findall(r"file=(\S+)", files):
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GRADE_ROOT", str(tmp_path))
    return tmp_path


@pytest.mark.usefixtures("lent", "tree")
def test_the_exercise_of_the_page_is_discovered_and_sound(capsys: pytest.CaptureFixture[str]) -> None:
    assert dispatch(["list"]) == 0
    assert "ex_90  Axpy: not started" in capsys.readouterr().out
    status = dispatch(["check", "ex_90", "--cpu", "--json", "-"])
    said = capsys.readouterr()
    assert status == 0, said
    assert "ex_90: sound" in said.err
    (gate,) = json.loads(said.out)["exercises"]
    assert (gate["id"], gate["holds"]) == ("ex_90", True)
    # The gate grades both: a solution that lost a point of what is judged here would be no finding that holds.
    outcomes = {one["subject"]: one["outcome"] for one in gate["findings"] if one["holds"]}
    assert outcomes["stub"] == "every part not_implemented"
    assert re.fullmatch(r"passes \d+ checks of axpy", outcomes["solution"])
    assert outcomes["wrong/library"] == "axpy.kernels: policy"


@pytest.mark.usefixtures("lent", "tree")
def test_its_solution_earns_everything(capsys: pytest.CaptureFixture[str]) -> None:
    assert dispatch(["ex_90", "--cpu", "-q", "--submission", "reference/ex_90_axpy/solution.py"]) == 0
    assert "100 of 100 points" in capsys.readouterr().out
