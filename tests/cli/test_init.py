"""`grade init`: a course appears in an empty folder, is found from below, and nothing that was there changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from grader.cli.main import dispatch
from grader.exercise.catalogue import discover, find_root
from grader.release import course

ROOT = Path(__file__).resolve().parents[2]
ENTRIES = discover(ROOT)
STUBS = {f"exercises/{entry.name}.py": entry.pristine_stub.read_bytes() for entry in ENTRIES}


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GRADE_ROOT", raising=False)
    return tmp_path


def held(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert dispatch(["init", *arguments]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    return said.err.removeprefix("grade: ").rstrip("\n")


def test_an_empty_folder_gets_the_untouched_stubs(empty: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert dispatch(["init"]) == 0
    assert capsys.readouterr().out == (
        f"{empty}: {', '.join(entry.id for entry in ENTRIES)}\nNext: write vector_add: grade watch ex_15\n"
    )
    made = held(empty)
    assert b"/scorecards/\n" in made.pop(".gitignore")
    assert made == STUBS


def test_a_folder_that_is_named_is_made(empty: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert dispatch(["init", "courses/kernels"]) == 0
    assert "\nFirst: cd courses/kernels\n" in capsys.readouterr().out
    assert held(empty / "courses" / "kernels").items() >= STUBS.items()


def test_authors_get_the_reference_material_as_well(empty: Path) -> None:
    assert dispatch(["init", "--with-reference"]) == 0
    made = held(empty)
    assert {entry.name for entry in discover(empty)} == {entry.name for entry in ENTRIES}
    for entry in ENTRIES:
        for path in (entry.solution, *entry.honest, *entry.fast, *(one.path for one in entry.wrong)):
            name = f"reference/{entry.name}/{path.relative_to(entry.folder).as_posix()}"
            assert made[name] == path.read_bytes()
    assert [name for name in course.files(ENTRIES, with_reference=True) if "__pycache__" in name] == []


def test_the_new_course_is_found_from_every_folder_below(empty: Path) -> None:
    assert dispatch(["init"]) == 0
    below = empty / "notes" / "monday"
    below.mkdir(parents=True)
    assert find_root(below) == empty
    assert [entry.stub for entry in discover(empty)] == [empty / name for name in STUBS]


def test_its_specifications_are_the_grader_s_own_until_it_has_others(empty: Path) -> None:
    assert dispatch(["init"]) == 0
    assert [entry.folder for entry in discover(empty)] == [entry.folder for entry in ENTRIES]
    assert [entry.sha256() for entry in discover(empty)] == [entry.sha256() for entry in ENTRIES]
    (empty / "reference").mkdir()
    assert discover(empty) == ()


def test_no_file_that_is_there_is_overwritten(empty: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = next(iter(STUBS))
    (empty / "exercises").mkdir()
    (empty / name).write_text("# my work\n")
    for options in ([], ["--with-reference"]):
        assert refused(capsys, *options) == (
            f"a new course must not overwrite files, got {name} in {empty}; grade reset restores one stub"
        )
    assert held(empty) == {name: b"# my work\n"}


def test_of_many_files_that_are_there_some_are_named(empty: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert dispatch(["init"]) == 0
    capsys.readouterr()
    said = refused(capsys)
    assert f"got {', '.join(list(STUBS)[:3])} and {len(STUBS) - 3} more in {empty}; " in said


def test_a_folder_with_other_files_is_refused(empty: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (empty / "notes.txt").touch()
    assert refused(capsys) == (
        f"a new course must start in an empty folder, got notes.txt in {empty}; grade init NAME makes a new folder"
    )
    assert list(held(empty)) == ["notes.txt"]


def test_a_file_is_no_folder_for_a_course(empty: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (empty / "notes.txt").touch()
    assert refused(capsys, "notes.txt") == "a new course must be a folder, got the file notes.txt"


def test_a_course_inside_a_course_is_refused(empty: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert dispatch(["init"]) == 0
    capsys.readouterr()
    assert refused(capsys, "exercises/again") == (
        f"a new course must not lie inside another, got {empty}/exercises/again inside {empty}"
    )


def test_a_repository_with_a_virtual_environment_counts_as_empty(empty: Path) -> None:
    (empty / ".git").mkdir()
    (empty / ".gitignore").write_text("mine\n")
    (empty / "env").mkdir()
    (empty / "env" / "pyvenv.cfg").touch()
    assert dispatch(["init"]) == 0
    assert held(empty).items() >= {**STUBS, ".gitignore": b"mine\n"}.items()
