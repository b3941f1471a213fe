"""autograder.zip, unpacked as Gradescope unpacks it, and its script, run as Gradescope runs it."""

from __future__ import annotations

import json
import os
import runpy
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from grader.cli.main import dispatch
from tests import schemas
from tests.forwarded import answer

NAME = "ex_15_triton_basics.py"
ADDS = """

@triton.jit
def add_kernel(x_ptr, y_ptr, z_ptr, n_elements, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n_elements
    tl.store(z_ptr + offsets, tl.load(x_ptr + offsets, mask=mask) + tl.load(y_ptr + offsets, mask=mask), mask=mask)


def vector_add(x, y):
    z = torch.empty_like(x)
    add_kernel[(triton.cdiv(x.numel(), 1024),)](x, y, z, x.numel(), BLOCK=1024)
    return z
"""


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("made") / "autograder.zip"
    assert dispatch(["export", "ex_15", "--format", "gradescope-autograder", "--out", str(path)]) == 0
    return path


@pytest.fixture
def autograder(archive: Path, tmp_path: Path) -> Path:
    """The folder /autograder of a fresh container, with nothing handed in."""
    with zipfile.ZipFile(archive) as opened:
        opened.extractall(tmp_path / "source")
    shutil.copy(tmp_path / "source" / "run_autograder", tmp_path)
    for name in ("submission", "results"):
        (tmp_path / name).mkdir()
    return tmp_path


def run(autograder: Path) -> dict[str, Any]:
    """Run the script with this environment's Python, and return results.json."""
    settings = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "GRADE_ROOT")}
    done = subprocess.run(
        [sys.executable, str(autograder / "run_autograder")],
        cwd=autograder,
        env={**settings, "AUTOGRADER_ROOT": str(autograder)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return results(autograder)


def run_here(autograder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The same in this process, with this grader in the place of the archive's: to start that one takes seconds."""

    def grade(command: list[str], *, cwd: Path, **_: object) -> subprocess.CompletedProcess[str]:
        assert command[:3] == [sys.executable, "-m", "grader"]
        code, _, said = answer([*command[3:]], str(cwd), os.environ)
        return subprocess.CompletedProcess(command, code, None, said)

    monkeypatch.delenv("GRADE_ROOT", raising=False)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setenv("AUTOGRADER_ROOT", str(autograder))
    monkeypatch.setattr("subprocess.run", grade)
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(autograder / "run_autograder"), run_name="__main__")
    assert ended.value.code == 0
    return results(autograder)


def results(autograder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((autograder / "results" / "results.json").read_text())
    jsonschema.validate(found, schemas.GRADESCOPE)
    return found


def test_the_archive_has_both_scripts_at_its_root_and_no_answer(archive: Path) -> None:
    with zipfile.ZipFile(archive) as opened:
        rights = {one.filename: one.external_attr >> 16 for one in opened.infolist()}
    assert {name for name, mode in rights.items() if mode & 0o111} == {"setup.sh", "run_autograder"}
    folders = ("solution.py", "wrong/", "honest/", "fast/")
    assert not [name for name in rights if "/reference/" in name and any(one in name for one in folders)]
    assert "grade/reference/ex_15_triton_basics/oracle.py" in rights


def test_the_same_course_gives_the_same_bytes(archive: Path, tmp_path: Path) -> None:
    again = tmp_path / "again.zip"
    assert dispatch(["export", "ex_15", "--format", "gradescope-autograder", "--out", str(again)]) == 0
    assert again.read_bytes() == archive.read_bytes()


def test_an_exercise_with_packages_of_its_own_gets_them_installed(tmp_path: Path) -> None:
    path = tmp_path / "autograder.zip"
    assert dispatch(["export", "ex_17", "--format", "gradescope-autograder", "--out", str(path)]) == 0
    with zipfile.ZipFile(path) as opened:
        setup = opened.read("setup.sh").decode()
    assert setup.count("pip install -c constraints.txt -e '.[cutlass]'\n") == 1


def test_the_scripts_are_valid(autograder: Path) -> None:
    compile((autograder / "run_autograder").read_text(), "run_autograder", "exec")
    checked = subprocess.run(["bash", "-n", str(autograder / "source" / "setup.sh")], capture_output=True, check=False)
    assert checked.returncode == 0, checked.stderr


@pytest.mark.usefixtures("lent")
def test_a_submission_gets_its_points_check_by_check(autograder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stub = (autograder / "source" / "grade" / "exercises" / NAME).read_text()
    (autograder / "submission" / NAME).write_text(stub + ADDS)
    found = run_here(autograder, monkeypatch)
    assert found["score"] == 15
    rows = [test for test in found["tests"] if test["name"].startswith("vector_add")]
    assert {test.get("status") for test in rows} == {"passed", None}
    assert {test.get("status") for test in found["tests"] if test not in rows} == {"failed", None}


@pytest.mark.process
@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({}, "Hand in one file with the name ex_15_triton_basics.py. Found: none."),
        ({"notes.py": b""}, "Found: none."),
        ({NAME: b"x", f"old/{NAME}": b"y"}, f"Found: {NAME}, {NAME}."),
        ({NAME: b"\xff"}, "a submission must be UTF-8, got byte 0xff"),
    ],
)
def test_what_cannot_be_graded_gets_no_points_and_a_reason(
    autograder: Path, files: dict[str, bytes], said: str
) -> None:
    for name, data in files.items():
        path = autograder / "submission" / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
    found = run(autograder)
    assert found["score"] == 0
    assert said in found["output"]
