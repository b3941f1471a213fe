"""A package in site-packages grades as a checkout does: same record, same secrets."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.process

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ("grader", "pyproject.toml", "README.md")
# One part: what an installation may get wrong shows in its first check.
GRADING = ("ex_15", "--cpu", "--part", "vector_add", "--quiet", "--json", "-")
# Where it was graded, when, for how long, and what a path that differs is part of.
OF_THE_RUN = {"graded_at", "duration_s", "command", "submission", "timeline"}


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """An environment with this package installed, not linked, beside all that it needs; its Python."""
    # Beside this one, so that what both hold can be linked instead of copied.
    folder = Path(sys.prefix, f"grade-installed-{os.getpid()}")
    source = tmp_path_factory.mktemp("source")
    for name in SOURCES:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, source / name)
    try:
        venv.create(folder, with_pip=False, symlinks=True)
        (theirs,) = folder.glob("lib/python3*/site-packages")
        (ours,) = Path(sys.prefix).glob("lib/python3*/site-packages")
        shutil.copytree(ours, theirs, copy_function=_linked, symlinks=True, dirs_exist_ok=True)
        python = folder / "bin" / "python"
        pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps", "--no-index"]
        done = subprocess.run(
            [*pip, "--no-build-isolation", "--no-compile", str(source)],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        yield python
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def course(tmp_path: Path) -> Path:
    """Exercises and reference in a folder of their own."""
    for name in ("exercises", "reference"):
        shutil.copytree(ROOT / name, tmp_path / name)
    return tmp_path


def _linked(source: str, target: str) -> object:
    # What pip will replace must not be shared.
    return shutil.copy2(source, target) if "grade" in source else os.link(source, target)


def _graded(python: str | Path, course: Path, submission: Path) -> dict[str, Any]:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [str(python), "-m", "grader", *GRADING, "--submission", str(submission)]
    done = subprocess.run(
        command, cwd=course, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode in (0, 1, 3), done.stderr
    record: dict[str, Any] = json.loads(done.stdout)
    return record


def _verdicts(record: dict[str, Any]) -> dict[str, Any]:
    """A record without what differs from run to run: how long things took, and what was compiled in that time."""
    told = {name: value for name, value in record.items() if name not in OF_THE_RUN}
    told["checks"] = [{**check, "duration_s": 0} for check in record["checks"]]
    told["parts"] = [{**part, "kernels": [], "uncompiled": {}} for part in record["parts"]]
    return told


def test_a_package_in_site_packages_gives_the_record_that_a_checkout_gives(installed: Path, course: Path) -> None:
    where = subprocess.run(
        [installed, "-c", "import grader; print(grader.__file__)"],
        cwd=course,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "site-packages" in where.stdout
    solution = course / "reference" / "ex_15_triton_basics" / "solution.py"
    record = _graded(installed, course, solution)
    assert record["verdict"] == "pass"
    assert _verdicts(record) == _verdicts(_graded(sys.executable, course, solution))


def test_a_submission_of_an_installed_grader_cannot_read_the_course(installed: Path, course: Path) -> None:
    spy = course / "spy.py"
    wanted = course / "reference" / "ex_15_triton_basics" / "solution.py"
    spy.write_text(f"raise SystemExit(open({str(wanted)!r}).read(9))")
    record = _graded(installed, course, spy)
    causes = {check["cause"]["rationale"] for check in record["checks"] if check["cause"]}
    assert causes
    assert all("PermissionError" in cause for cause in causes), causes
