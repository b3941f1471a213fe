"""Sdist and wheel carry the course; a wheel in site-packages grades as a checkout does: same record, same secrets."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from grader import __version__
from grader.cli.main import dispatch
from grader.exercise.catalogue import discover
from grader.release import bundle

pytestmark = pytest.mark.process

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ("grader", "reference", "pyproject.toml", "constraints.txt", "README.md")
# One case: what an installation may get wrong shows in the first.
CASE = ("replay", "ex_15:vector_add.tail:N=65,dtype=float16,values=normal,offset=0:0x5f", "--cpu", "--json", "-")
# A file that does not load: each check is decided at once.
GRADING = ("ex_15", "--cpu", "--part", "vector_add", "--quiet", "--json", "-")
# Where it was graded, when, for how long, and what a path that differs is part of.
OF_THE_RUN = {"graded_at", "duration_s", "command", "submission", "timeline"}
SOLUTION = ROOT / "reference" / "ex_15_triton_basics" / "solution.py"


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The sdist of this checkout, and the wheel that is built from that sdist alone."""
    source, built = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("built")
    for name in SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, source / name)
    _done([sys.executable, "-c", f"from setuptools import build_meta; build_meta.build_sdist({str(built)!r})"], source)
    (sdist,) = built.glob("*.tar.gz")
    _done([*_pip("wheel"), "--no-build-isolation", "--wheel-dir", str(built), str(sdist)], built)
    (wheel,) = built.glob("*.whl")
    return sdist, wheel


@pytest.fixture(scope="module")
def installed(archives: tuple[Path, Path]) -> Iterator[Path]:
    """An environment with that wheel installed, beside all that it needs; its Python."""
    # Beside this one, so that what both hold can be linked instead of copied.
    folder = Path(sys.prefix, f"grade-installed-{os.getpid()}")
    try:
        venv.create(folder, with_pip=False, symlinks=True)
        (theirs,) = folder.glob("lib/python3*/site-packages")
        (ours,) = Path(sys.prefix).glob("lib/python3*/site-packages")
        shutil.copytree(ours, theirs, copy_function=_linked, symlinks=True, dirs_exist_ok=True)
        python = folder / "bin" / "python"
        # The checkout is installed in a copy of this environment: a wheel of the same version takes its place.
        options = ["--force-reinstall", "--no-compile"]
        _done([*_pip("--python", str(python), "install"), *options, str(archives[1])], folder)
        yield python
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def course(installed: Path, tmp_path: Path) -> Path:
    """The folder that `grade init` makes, and nothing else."""
    _done([str(installed), "-m", "grader", "init"], tmp_path)
    return tmp_path


def _pip(*command: str) -> list[str]:
    return [sys.executable, "-m", "pip", *command, "--quiet", "--no-deps", "--no-index"]


def _linked(source: str, target: str) -> object:
    # What pip will replace must not be shared.
    return shutil.copy2(source, target) if "grade" in source else os.link(source, target)


def _run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "GRADE_ROOT")}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False
    )


def _done(command: list[str], folder: Path) -> str:
    done = _run(command, folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


def _graded(python: Path, folder: Path, submission: Path, command: tuple[str, ...]) -> dict[str, Any]:
    done = _run([str(python), "-m", "grader", *command, "--submission", str(submission)], folder)
    assert done.returncode in (0, 1, 3), done.stderr
    record: dict[str, Any] = json.loads(done.stdout)
    return record


def _verdicts(record: dict[str, Any]) -> dict[str, Any]:
    """A record without what differs from run to run: how long things took, and what was compiled in that time."""
    told = {name: value for name, value in record.items() if name not in OF_THE_RUN}
    told["checks"] = [{**check, "duration_s": 0} for check in record["checks"]]
    told["parts"] = [{**part, "kernels": [], "uncompiled": {}} for part in record["parts"]]
    return told


def _material() -> set[str]:
    paths = (path for path in (ROOT / "reference").rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(ROOT).as_posix() for path in paths}


def test_sdist_and_wheel_carry_the_whole_course(archives: tuple[Path, Path]) -> None:
    sdist, wheel = archives
    with tarfile.open(sdist) as opened:
        in_sdist = {name.partition("/")[2] for name in opened.getnames()}
    in_wheel = set(zipfile.ZipFile(wheel).namelist())
    material = _material()
    assert len(material) > 300
    assert material - in_sdist == set()
    assert {f"grader/course/{name}" for name in material} - in_wheel == set()
    assert [name for name in in_wheel if not name.startswith(("grader/", "grade-"))] == []


def test_nothing_of_the_checkout_is_in_its_reach(installed: Path, tmp_path: Path) -> None:
    code = "import sys, grader; print(grader.__file__, [one for one in sys.meta_path if 'editable' in repr(one)])"
    assert _done([str(installed), "-c", code], tmp_path) == f"{_site(installed)}/grader/__init__.py []\n"


def test_without_a_course_it_says_how_to_make_one(installed: Path, tmp_path: Path) -> None:
    done = _run([str(installed), "-m", "grader", "ex_15"], tmp_path)
    said = f"a course must be in this folder or above it, got none from {tmp_path}: run grade init first"
    assert (done.returncode, done.stderr) == (2, f"grade: {said}\n")


@pytest.mark.usefixtures("lent")
def test_a_wheel_grades_in_a_folder_of_grade_init_as_a_checkout_grades(
    installed: Path, course: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert sorted(os.listdir(course)) == [".gitignore", "exercises"]
    below = course / "notes" / "monday"
    below.mkdir(parents=True)
    solution = Path(shutil.copy(SOLUTION, course))
    record = _graded(installed, below, solution, CASE)
    assert record["verdict"] == "pass"
    # The checkout is what this process runs.
    monkeypatch.chdir(course)
    monkeypatch.delenv("GRADE_ROOT", raising=False)
    capfd.readouterr()
    assert dispatch([*CASE, "--submission", str(solution)]) == 0
    assert _verdicts(record) == _verdicts(json.loads(capfd.readouterr().out))


def test_a_submission_of_an_installed_grader_can_read_neither_course_nor_answers(installed: Path, course: Path) -> None:
    spy = course / "spy.py"
    answer = f"{_site(installed)}/grader/course/reference/ex_15_triton_basics/solution.py"
    own = f"{course}/exercises/ex_15_triton_basics.py"
    assert Path(answer).is_file()
    spy.write_text(
        "def said(path):\n"
        "    try: return open(path).read(9)\n"
        "    except OSError as error: return type(error).__name__\n"
        f"raise SystemExit(' '.join(map(said, {[answer, own]!r})))"
    )
    record = _graded(installed, course, spy, GRADING)
    assert [path.name for path in (course / "scorecards").glob("*.html")] == ["ex_15-spy-vector_add.html"]
    causes = {check["cause"]["rationale"] for check in record["checks"] if check["cause"]}
    assert causes
    assert all("PermissionError PermissionError" in cause for cause in causes), causes


def test_a_bundle_for_students_from_a_wheel_is_the_one_from_the_checkout(
    installed: Path, course: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("bundles")
    _done([str(installed), "-m", "grader", "release", str(folder / "wheel")], course)
    held = bundle.files(discover(ROOT), ROOT / "grader", __version__)
    made = {str(path.relative_to(folder / "wheel")): path for path in (folder / "wheel").rglob("*") if path.is_file()}
    assert {name: path.read_bytes() for name, path in made.items()} == held


def _site(python: Path) -> Path:
    (found,) = python.parents[1].glob("lib/python3*/site-packages")
    return found
