"""Reading specifications and finding a command must not load torch: `grade list` answers at once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HEAVY = ("torch", "triton", "numpy", "hypothesis")


@pytest.mark.parametrize(
    "work",
    [
        "from grader.exercise.catalogue import discover\n"
        "assert [entry.exercise for entry in discover(pathlib.Path.cwd())]",
        "import grader.cli.main",
        "from grader.cli.main import dispatch\nassert dispatch(['list']) == 0",
    ],
    ids=["every specification", "the command line", "grade list"],
)
def test_it_loads_none_of_the_heavy_libraries(work: str) -> None:
    script = f"import pathlib, sys\n{work}\nprint('loaded:', *[name for name in {HEAVY} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "loaded:"
