"""The lock of a GPU: judging shares it, timing has it alone, and nobody waits for ever.

Locks belong to open files, so two holders within this process exclude each other like two processes. Where one would
have to wait, `impatient` makes it fail instead: no test waits to see that nothing happens.
"""

from __future__ import annotations

import fcntl
import os
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from grader.errors import GradeError
from grader.speed import lock
from grader.speed.lock import GpuLock

ROOT = Path(__file__).resolve().parents[2]
HOLDER = """
import sys
from pathlib import Path
from grader.speed.lock import GpuLock
with getattr(GpuLock("GPU-7", Path(sys.argv[1])), sys.argv[2])():
    print("inside", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def gpu(tmp_path: Path) -> GpuLock:
    return GpuLock("GPU-7", tmp_path)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """In this thread, a lock that is taken raises BlockingIOError."""
    here, real = threading.current_thread(), lock._take_lock

    def take(descriptor: int, kind: int, patience_s: float, path: Path) -> None:
        if threading.current_thread() is here:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        else:
            real(descriptor, kind, patience_s, path)

    monkeypatch.setattr(lock, "_take_lock", take)


@contextmanager
def held_elsewhere(folder: Path, how: str) -> Iterator[subprocess.Popen[str]]:
    """Another process holds the lock while the block runs."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(folder), how],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdin is not None
        assert holder.stdout.readline() == "inside\n"
        yield holder
        holder.stdin.close()
        holder.wait()


def enter(held: ExitStack, gpu: GpuLock, how: str) -> None:
    held.enter_context(getattr(gpu, how)())


PAIRS = [("exclusive", "exclusive"), ("exclusive", "shared"), ("shared", "exclusive")]


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_who_has_it_alone_shares_it_with_nobody(gpu: GpuLock, first: str, second: str) -> None:
    with ExitStack() as held:
        enter(held, gpu, first)
        with pytest.raises(BlockingIOError), ExitStack() as more:
            enter(more, gpu, second)
    with ExitStack() as held:
        enter(held, gpu, second)


@pytest.mark.usefixtures("impatient")
def test_those_who_share_it_do_so_with_each_other(gpu: GpuLock) -> None:
    with gpu.shared(), gpu.shared(), gpu.shared(), pytest.raises(BlockingIOError), gpu.exclusive():
        pass
    with gpu.exclusive(), pytest.raises(BlockingIOError), gpu.shared():
        pass


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_it_holds_across_processes(gpu: GpuLock, tmp_path: Path, first: str, second: str) -> None:
    with held_elsewhere(tmp_path, first), pytest.raises(BlockingIOError), ExitStack() as held:
        enter(held, gpu, second)
    with ExitStack() as held:
        enter(held, gpu, second)


@pytest.mark.usefixtures("impatient")
def test_a_holder_that_is_killed_leaves_it_free(gpu: GpuLock, tmp_path: Path) -> None:
    with held_elsewhere(tmp_path, "exclusive") as holder:
        with pytest.raises(BlockingIOError), gpu.exclusive():
            pass
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        with gpu.exclusive():
            pass


def test_who_waits_to_have_it_alone_is_not_starved_by_new_ones_who_share(
    gpu: GpuLock, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting, entered = threading.Event(), threading.Event()
    real, taken = lock._take_lock, []

    def take(descriptor: int, kind: int, patience_s: float, path: Path) -> None:
        if threading.current_thread() is not timer:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
            return
        if taken:
            # The door is closed already; what follows waits until the room is empty.
            waiting.set()
        real(descriptor, kind, patience_s, path)
        taken.append(descriptor)

    def time_alone() -> None:
        with gpu.exclusive():
            entered.set()

    monkeypatch.setattr(lock, "_take_lock", take)
    timer = threading.Thread(target=time_alone)
    with gpu.shared():
        timer.start()
        assert waiting.wait(60)
        with pytest.raises(BlockingIOError), gpu.shared():
            pass
        assert not entered.is_set()
    timer.join(60)
    assert entered.is_set()
    with gpu.shared():
        pass


@pytest.mark.usefixtures("impatient")
def test_an_error_inside_leaves_it_free(gpu: GpuLock) -> None:
    with pytest.raises(ZeroDivisionError), gpu.exclusive():
        raise ZeroDivisionError
    with gpu.exclusive():
        pass


@pytest.mark.usefixtures("impatient")
def test_every_gpu_has_a_lock_of_its_own(gpu: GpuLock, tmp_path: Path) -> None:
    other = GpuLock("GPU-8", tmp_path)
    with gpu.exclusive(), other.exclusive():
        for taken in (gpu, other):
            with pytest.raises(BlockingIOError), taken.shared():
                pass


def test_no_link_in_the_place_of_a_lock_is_followed(gpu: GpuLock, tmp_path: Path) -> None:
    with gpu.exclusive():
        names = [path.name for path in tmp_path.iterdir()]
    target = tmp_path / "precious"
    for name in names:
        (tmp_path / name).unlink()
        (tmp_path / name).symlink_to(target)
    for way in (gpu.exclusive, gpu.shared):
        with pytest.raises(OSError, match="symbolic links"), way():
            pass
    assert not target.exists()


def test_its_files_are_for_every_user_of_the_host(gpu: GpuLock, tmp_path: Path) -> None:
    umask = os.umask(0o077)
    try:
        with gpu.exclusive():
            assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {0o666}
    finally:
        os.umask(umask)


@pytest.mark.parametrize("uuid", ["../../etc/passwd", "", "x" * 500, "GPU 7\n"])
def test_no_uuid_leads_out_of_the_folder(uuid: str, tmp_path: Path) -> None:
    with GpuLock(uuid, tmp_path).exclusive():
        assert len(list(tmp_path.iterdir())) == 2


def test_whoever_holds_it_for_ever_is_not_waited_for_for_ever(
    gpu: GpuLock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock, "PATIENCE_S", 0.0)
    with gpu.exclusive(), pytest.raises(GradeError, match="the GPU must become free within 0 s"), gpu.shared():
        pass


def test_who_has_no_patience_is_refused_while_another_has_it_alone(gpu: GpuLock) -> None:
    with gpu.exclusive(), pytest.raises(GradeError, match="the GPU must become free within 0 s"), gpu.shared(0.0):
        pass
    with gpu.shared(0.0), gpu.shared(0.0):
        pass
