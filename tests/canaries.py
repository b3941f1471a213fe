"""What is outside of a submission: files, doors and processes, looked at before and after its grading."""

from __future__ import annotations

import contextlib
import multiprocessing.util
import os
import shutil
import socket
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# Where escapes/ knock: whoever connects is noticed.
PORT = 47117
NAME = "\0grade-canary"
# The grader's folders in its checkout.
OWN = ("grader", "reference", "exercises")
# Users that the grader makes up for submissions begin here.
_MADE_UP = 0x4000_0000

State = dict[str, tuple[int, ...]]


class Canaries:
    """Trees that must stay as they are, doors that nobody may come through, and the place of all scratch folders."""

    def __init__(self, trees: list[Path], scratches: Path, listeners: list[socket.socket]) -> None:
        self._trees, self._scratches, self._listeners = trees, scratches, listeners
        # As the last submission left it: nobody else writes there.
        self._known: State = {}

    @contextmanager
    def untouched(self) -> Iterator[None]:
        """Assert that what runs inside changes no file, reaches no socket, and leaves nothing behind."""
        before = self._known or self._state()
        self._known = {}
        yield
        assert children_left() == []
        assert sorted(self._scratches.glob("grade-*")) == []
        after = self._state()
        changed = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
        assert changed == set()
        self._known = after
        assert strangers() == []
        for listener in self._listeners:
            with contextlib.suppress(BlockingIOError):
                listener.accept()[0].close()
                raise AssertionError(f"somebody came through {listener.getsockname()}")

    def _state(self) -> State:
        """Every file and folder by name: its inode, rights, owner, time and size."""
        return {path: _about(path) for tree in self._trees for path in _below(str(tree))}


def _below(folder: str) -> Iterator[str]:
    """Yield a folder and everything in it, by os.scandir: this runs twice for every submission."""
    yield folder
    with os.scandir(folder) as entries:
        for entry in entries:
            # Python and its tools write caches beside the sources while tests run.
            if "cache" in entry.name:
                continue
            if entry.is_dir(follow_symlinks=False):
                yield from _below(entry.path)
            else:
                yield entry.path


def _about(path: str) -> tuple[int, ...]:
    about = os.lstat(path)
    # A folder's own times change with the caches in it.
    times = () if stat.S_ISDIR(about.st_mode) else (about.st_mtime_ns, about.st_size)
    return about.st_ino, about.st_mode, about.st_uid, *times


@contextmanager
def watched(root: Path, door: str = NAME) -> Iterator[Canaries]:
    """Canaries beside the grader's own files; all scratch folders lie in one place that is theirs alone."""
    place = Path(tempfile.mkdtemp(prefix="canaries-"))
    place.chmod(0o755)
    anyones, scratches = place / "anyones", place / "scratches"
    for folder in (anyones, scratches):
        folder.mkdir()
        folder.chmod(0o1777 if folder == scratches else 0o777)
    for name in ("submission.py", "result.json", "triton.py"):
        (anyones / name).write_text("somebody else's")
        (anyones / name).chmod(0o666)
    # Made once in a process, and removed when it ends: not in the folder that is removed here.
    multiprocessing.util.get_temp_dir()
    tempdir, tempfile.tempdir = tempfile.tempdir, str(scratches)
    listeners = _listeners(door)
    try:
        trees = [anyones, *(root / name for name in OWN)]
        yield Canaries(trees, scratches, listeners)
    finally:
        tempfile.tempdir = tempdir
        for listener in listeners:
            listener.close()
        shutil.rmtree(place)


def _listeners(door: str) -> list[socket.socket]:
    found = []
    for family, address in ((socket.AF_INET, ("127.0.0.1", PORT)), (socket.AF_UNIX, door)):
        listener = socket.socket(family)
        try:
            listener.bind(address)
        except OSError:
            # Tests that run beside these have it.
            listener.close()
            continue
        listener.listen()
        listener.setblocking(False)
        found.append(listener)
    return found


def strangers() -> list[str]:
    """Files in places where anybody may write that belong to a user made up for a submission."""
    found = []
    for folder in (Path("/tmp"), Path("/dev/shm"), Path("/var/tmp")):
        with contextlib.suppress(OSError):
            for path in folder.iterdir():
                with contextlib.suppress(OSError):
                    if path.lstat().st_uid >= _MADE_UP and not path.name.startswith("grade-"):
                        found.append(str(path))
    return found


def children_left() -> list[str]:
    """Processes of submissions that still run: those of their own users, or orphans of the fork server."""
    deadline = time.monotonic() + 2
    while (left := _submission_processes()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return left


def _submission_processes() -> list[str]:
    found = []
    for process in Path("/proc").iterdir():
        try:
            in_scratch = process.name.isdigit() and "grade-" in os.readlink(process / "cwd")
            if in_scratch and os.getpid() in ancestors(int(process.name)):
                found.append(f"{process.name}: {(process / 'cmdline').read_text()[:80]}")
        except OSError:
            continue
    return found


def ancestors(pid: int) -> list[int]:
    """The parents of a process, up to the first. The fork server adopts orphans, and we are its parent."""
    found = []
    while pid > 1:
        pid = int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[1])
        found.append(pid)
    return found
