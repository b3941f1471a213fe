"""Kernels are built out of the text alone: what the list takes runs as it stands, the rest is refused."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.conftest import ROOT

pytestmark = pytest.mark.process

# Triton decides when it is imported whether kernels are interpreted: each question is asked in a process of its own.
_CHECKS = ROOT / "tests" / "replayed_kernels.py"


@pytest.mark.parametrize("mode", ["interpreted", "compiled"])
def test_the_list_holds(mode: str) -> None:
    """Run tests/replayed_kernels.py, where triton interprets or compiles. Neither needs a GPU."""
    environment = {**os.environ, "TRITON_INTERPRET": "1" if mode == "interpreted" else "0"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "0", str(_CHECKS)]
    ran = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout[-6000:] + ran.stderr[-2000:]
