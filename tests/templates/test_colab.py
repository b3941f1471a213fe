"""The Colab notebook, run from its first cell to its last by a Jupyter kernel on the CPU."""

from __future__ import annotations

import os
from pathlib import Path

import nbclient
import nbformat
import pytest

from tests.forwarded import command_in

pytestmark = pytest.mark.process

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOK = ROOT / "templates" / "colab.ipynb"


@pytest.mark.usefixtures("lent")
def test_the_eight_cells_install_grade_and_show_the_card(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    # A package that is there already: nothing is downloaded.
    monkeypatch.setenv("GRADE_SOURCE", "setuptools")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    assert len(notebook.cells) == 8
    with command_in(tmp_path / "bin") as command:
        monkeypatch.setenv("PATH", f"{command.parent}{os.pathsep}{os.environ['PATH']}")
        nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    outputs = {cell.id: "".join(map(str, cell.get("outputs", []))) for cell in notebook.cells}
    assert "a Triton kernel in mode interpret: right" in outputs["machine"]
    assert "15/15" in outputs["grade"]
    assert "iframe srcdoc" in outputs["card"]
    assert (tmp_path / "course" / "card.html").is_file()


def test_the_notebook_is_valid_and_holds_no_output() -> None:
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(notebook)
    assert not any(cell.get("outputs") for cell in notebook.cells)
