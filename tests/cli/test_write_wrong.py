"""`grade check EX --write-wrong DIR`: planted mistakes as whole files."""

from __future__ import annotations

from pathlib import Path

import pytest

from grader.cli.main import dispatch
from grader.errors import SpecError
from grader.exercise.catalogue import resolve
from tests.conftest import ROOT

ENTRY = resolve(ROOT, "ex_15")[0]


def test_every_mistake_is_written_as_the_file_that_is_graded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "new" / "mistakes"
    assert dispatch(["check", "ex_15", "--write-wrong", str(folder)]) == 0
    written = {path.stem: path.read_text(encoding="utf-8") for path in folder.iterdir()}
    assert written == {one.name: one.text for one in ENTRY.wrong}
    assert capsys.readouterr().out == f"{len(written)} planted mistakes written to {folder}\n"
    assert written["vector_add_floor_grid"].startswith('"""vector_add.tail fail: the grid is N // BLOCK')


def test_a_folder_that_holds_something_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine.py").write_text("", encoding="utf-8")
    for taken in (tmp_path, tmp_path / "mine.py"):
        assert dispatch(["check", "ex_15", "--write-wrong", str(taken)]) == 2
        assert f"the folder of --write-wrong must be new or empty, got {taken}" in capsys.readouterr().err
    assert dispatch(["check", "ex_15", "--write-wrong", str(tmp_path / "mine.py" / "below")]) == 2
    assert "the folder of --write-wrong must be writable" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["mine.py"]


@pytest.mark.parametrize(
    "others", [["--all"], ["ex_15", "--seed", "1"], ["ex_15", "--write-probe"], ["ex_15", "--cpu"]]
)
def test_it_stands_alone_beside_one_exercise(
    others: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert dispatch(["check", *others, "--write-wrong", str(tmp_path)]) == 2
    assert "--write-wrong must come with one exercise and no other option" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_mistake_that_is_asked_for_by_a_name_that_there_is_not_is_an_error() -> None:
    with pytest.raises(SpecError, match="must have the planted mistake that is asked for, got 'vector_add_fast'"):
        ENTRY.mistake("vector_add_fast")
