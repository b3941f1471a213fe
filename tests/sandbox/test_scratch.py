"""A submission's folder: emptied whatever is in it, made anew where it is gone, and weighed."""

from __future__ import annotations

import errno
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from grader.errors import MissingEnvironment
from grader.sandbox import clearing, scratch, usage
from grader.sandbox.scratch import Scratch

pytestmark = pytest.mark.process

ROOT = Path(__file__).resolve().parents[2]
NOBODY = 65534


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder that hostile code fills; whatever is left is removed."""
    place = tmp_path / "scratch"
    place.mkdir()
    yield place
    shutil.rmtree(place, ignore_errors=True)


def emptied(folder: Path) -> bool:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        return clearing.empty(descriptor)
    finally:
        os.close(descriptor)


def _files(place: Path) -> None:
    for name in ("a", "-rf", "new\nline", "\x1b[31m", "." * 3, "ü" * 100):
        (place / name).write_text("x")
    Path(os.fsdecode(os.fsencode(place) + b"/\xff\xfe")).write_text("x")


def _deep(place: Path) -> None:
    here = os.open(place, os.O_RDONLY)
    for _ in range(5000):
        os.mkdir("d", dir_fd=here)
        inner = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)


def _wide_and_deep(place: Path) -> None:
    for one in "abc":
        for other in "abc":
            (place / one / other / "c").mkdir(parents=True)
            (place / one / other / "c" / "file").touch()


def _locked(place: Path) -> None:
    inner = place / "inner"
    (inner / "most").mkdir(parents=True)
    (inner / "most" / "file").touch()
    (inner / "most").chmod(0)
    inner.chmod(0o111)


def _of_every_kind(place: Path) -> None:
    os.mkfifo(place / "pipe")
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(place / "socket"))
    (place / "loop").symlink_to("loop")
    (place / "dangling").symlink_to("/nowhere")


@pytest.mark.parametrize(
    "fill", [_files, _deep, _wide_and_deep, _locked, _of_every_kind], ids=lambda one: one.__name__.strip("_")
)
def test_a_folder_is_emptied_whatever_is_in_it(fill: Callable[[Path], None], folder: Path) -> None:
    fill(folder)
    assert emptied(folder)
    assert not os.listdir(folder)


@pytest.mark.skipif(os.getuid() != 0, reason="root becomes somebody else here")
def test_what_its_owner_locked_is_removed_by_somebody_who_is_not_root(folder: Path) -> None:
    os.chown(folder, NOBODY, NOBODY)
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    child = os.fork()
    if child == 0:
        try:
            os.setresgid(NOBODY, NOBODY, NOBODY)
            os.setresuid(NOBODY, NOBODY, NOBODY)
            os.fchdir(descriptor)
            _locked(Path())
            folder_gone = clearing.empty(descriptor)
            os._exit(0 if folder_gone else 1)
        finally:
            os._exit(2)
    os.close(descriptor)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert not os.listdir(folder)


def test_no_link_is_followed(folder: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    (outside / "kept").mkdir(parents=True)
    (outside / "kept" / "file").write_text("kept")
    outside.chmod(0o500)
    (folder / "inner").mkdir()
    for place in (folder, folder / "inner"):
        (place / "out").symlink_to(outside, target_is_directory=True)
    os.link(outside / "kept" / "file", folder / "same")
    assert emptied(folder)
    assert (outside / "kept" / "file").read_text() == "kept"
    assert outside.stat().st_mode & 0o777 == 0o500


def test_a_folder_is_weighed_by_its_blocks_each_file_once(folder: Path) -> None:
    (folder / "one").write_bytes(bytes(1 << 20))
    os.link(folder / "one", folder / "again")
    (folder / "inner").mkdir()
    (folder / "inner" / "two").write_bytes(bytes(1 << 20))
    with (folder / "sparse").open("wb") as sparse:
        sparse.truncate(1 << 30)
    (folder / "out").symlink_to("/usr")
    with Scratch() as scratch:
        shutil.copytree(folder, scratch.folder / "all", symlinks=True, ignore=shutil.ignore_patterns("sparse"))
        assert 3 << 20 <= scratch.used_bytes(1 << 30, 1000) < 4 << 20
    descriptor = os.open(folder, os.O_RDONLY)
    used, entries = usage.folder_usage(descriptor, 1 << 30, 1000)
    os.close(descriptor)
    assert 2 << 20 <= used < 3 << 20
    assert entries == 6


def test_weighing_ends_where_the_limit_is_passed(folder: Path) -> None:
    for name in range(100):
        (folder / str(name)).touch()
    descriptor = os.open(folder, os.O_RDONLY)
    assert usage.folder_usage(descriptor, 1 << 30, 10)[1] == 11
    os.close(descriptor)


def test_memory_files_and_deleted_files_of_a_process_are_weighed(tmp_path: Path) -> None:
    before = usage.memory_bytes([os.getpid()])
    memory = os.memfd_create("test")
    os.write(memory, bytes(64 << 20))
    exact = usage.memory_bytes([os.getpid()])
    assert exact - before > 48 << 20
    # The bound counts libraries too.
    bound = usage.memory_bytes([os.getpid()], 1 << 40)
    assert bound > exact
    assert usage.memory_bytes([os.getpid()], bound // 2) < bound
    os.close(memory)
    deleted = usage.deleted_bytes([os.getpid()])
    with tempfile.TemporaryFile(dir=tmp_path) as file:
        file.write(bytes(8 << 20))
        file.flush()
        assert usage.deleted_bytes([os.getpid()]) - deleted >= 8 << 20


# -- gone, locked, full ----------------------------------------------------------------------------------------------


def test_a_folder_that_was_deleted_locked_or_replaced_is_there_again() -> None:
    with Scratch() as scratch:
        scratch.folder.chmod(0)
        scratch.renew()
        assert scratch.folder.stat().st_mode & 0o777 == 0o700
        first = scratch.folder
        first.rmdir()
        first.symlink_to("/usr")
        scratch.renew()
        assert scratch.folder.is_dir()
        assert scratch.folder != first
        first.unlink()
    assert not scratch.folder.exists()


def test_where_no_folder_can_be_made_the_reason_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(**_: object) -> str:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(tempfile, "mkdtemp", full)
    with pytest.raises(MissingEnvironment, match=r"a submission's folder must fit into .*No space left on device"):
        Scratch()


def test_where_there_is_no_room_that_is_said_and_nothing_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    before = set(Path(tempfile.gettempdir()).glob("grade-*"))
    monkeypatch.setattr(Scratch, "_free", lambda _: 12 << 10)
    with pytest.raises(MissingEnvironment, match=r"must have room for 4 MiB of a submission's files, got 12 KiB"):
        Scratch()
    assert set(Path(tempfile.gettempdir()).glob("grade-*")) <= before


def test_a_folder_that_cannot_be_made_again_is_not_removed_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "kept").write_text("of another thread")

    def full(**_: object) -> str:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def replaced() -> None:
        with Scratch() as scratch:
            monkeypatch.setattr(tempfile, "mkdtemp", full)
            # Another thread opens its folder as soon as the number is free.
            monkeypatch.setattr(os, "close", lambda one, close=os.close: (close(one), os.open(tmp_path, os.O_RDONLY)))
            scratch.replace()

    with pytest.raises(MissingEnvironment, match="No space left on device"):
        replaced()
    monkeypatch.undo()
    assert (tmp_path / "kept").exists()


def test_where_the_room_was_taken_by_the_submission_it_is_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    with Scratch() as scratch:
        (scratch.folder / "large").touch()
        free = iter([0, 1 << 30])
        monkeypatch.setattr(Scratch, "_free", lambda _: next(free))
        scratch.renew()
        assert list(scratch.folder.iterdir()) == []


def test_what_a_killed_grader_left_is_removed_and_what_is_in_use_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    script = (
        "import os, signal\nfrom grader.sandbox.scratch import Scratch\nscratch = Scratch()\n"
        "(scratch.folder / 'd').mkdir()\n(scratch.folder / 'd' / 'f').touch()\nos.kill(os.getpid(), signal.SIGKILL)\n"
    )
    subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": str(ROOT)},
        check=False,
    )
    (left,) = tmp_path.iterdir()
    with Scratch() as living:
        assert scratch.sweep() == 0, "a folder this young may be about to be locked"
        monkeypatch.setattr(scratch, "_ABANDONED_S", 0.0)
        (tmp_path / "grade-scratch-link").symlink_to(living.folder)
        assert scratch.sweep() == 1
        assert not left.exists()
        assert living.folder.is_dir()
