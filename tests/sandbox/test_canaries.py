"""The canaries notice what they are there for."""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.canaries import OWN, watched

# The canaries of the other tests have the usual one.
NAME = f"\0grade-canary-{os.getpid()}"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A checkout of nothing."""
    for name in OWN:
        (tmp_path / name).mkdir()
        (tmp_path / name / "judge.py").touch()
    return tmp_path


def _a_file(place: Path) -> None:
    (place / "anyones" / "result.json").write_text("passed")


def _a_time(place: Path) -> None:
    os.utime(place / "anyones" / "result.json", (1, 1))


def _another_file(place: Path) -> None:
    (place / "anyones" / "sitecustomize.py").touch()


def _a_grader(place: Path) -> None:
    (place / "grader" / "judge.py").unlink()


def _a_scratch_folder(place: Path) -> None:
    tempfile.mkdtemp(prefix="grade-")


def _a_connection(place: Path) -> None:
    with socket.socket(socket.AF_UNIX) as one:
        one.connect(NAME)


LEFT = (_a_file, _a_time, _another_file, _a_grader, _a_scratch_folder, _a_connection)


@pytest.mark.parametrize("leave", LEFT, ids=lambda one: one.__name__)
def test_whatever_is_changed_left_or_reached_is_noticed(leave: Callable[[Path], None], root: Path) -> None:
    before = tempfile.gettempdir()
    with watched(root, NAME) as canaries:
        place = Path(tempfile.gettempdir()).parent
        (place / "grader").symlink_to(root / "grader")
        with pytest.raises(AssertionError), canaries.untouched():
            leave(place)
    assert tempfile.gettempdir() == before


def test_nothing_is_noticed_where_nothing_happens(root: Path) -> None:
    with watched(root, NAME) as canaries, canaries.untouched():
        pass
