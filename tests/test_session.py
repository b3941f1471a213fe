"""A submission's processes and their scratch folder: who stands still when, who may stay, and what is left behind."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from grader.catalogue import Entry
from grader.model.exercise import Limits
from grader.protocol.messages import Loaded, Start
from grader.sandbox import usage
from grader.sandbox.outcome import TimedOut
from grader.sandbox.scratch import Scratch
from grader.sandbox.server import ForkServer
from grader.sandbox.session import Session
from tests.racing import session_of

HELPED = """
import subprocess
helper = subprocess.Popen(["sleep", "60"])
open("helper", "w").write(str(helper.pid))
"""


def state(pid: int) -> str:
    """R, S, T (stopped), Z (dead and not yet buried), …, or nothing where there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0].decode()
    except OSError:
        return ""


def becomes(pid: int, *wanted: str) -> bool:
    """Whether a process is soon in one of these states: a signal needs a moment to arrive."""
    deadline = time.monotonic() + 5
    while state(pid) not in wanted and time.monotonic() < deadline:
        time.sleep(0.001)
    return state(pid) in wanted


def loaded(session: Session) -> int:
    """The process of a session in which the file has been loaded."""
    answer = session.load()
    assert isinstance(answer, Loaded), answer
    assert session.pid is not None
    return session.pid


@pytest.fixture
def session(server: ForkServer, ex_15: Entry) -> Iterator[Session]:
    with session_of(server, ex_15, HELPED) as one:
        yield one


# -- standing still --------------------------------------------------------------------------------------------------


def test_a_frozen_process_and_what_it_started_stand_still_and_then_go_on(session: Session) -> None:
    pid = loaded(session)
    helper = int(Path(f"/proc/{pid}/cwd/helper").read_text())
    with session.frozen():
        assert becomes(pid, "T")
        assert becomes(helper, "T")
    assert becomes(pid, "R", "S")
    assert becomes(helper, "R", "S")


def test_what_was_frozen_goes_on_even_where_the_block_fails(session: Session) -> None:
    pid = loaded(session)

    def fail() -> None:
        with session.frozen():
            assert becomes(pid, "T")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert becomes(pid, "R", "S")


def test_without_a_process_nothing_is_frozen(session: Session) -> None:
    with session.frozen():
        assert session.pid is None


@pytest.mark.parametrize("buried", [False, True])
def test_a_process_that_dies_while_it_is_frozen_is_replaced_as_ever(session: Session, buried: bool) -> None:
    pid = loaded(session)
    with session.frozen():
        os.kill(pid, signal.SIGKILL)
        assert becomes(pid, "Z", "")
        if buried:
            session.restart()
    with session.frozen():
        pass
    session.restart()
    assert state(pid) == ""
    assert becomes(loaded(session), "R", "S")


def test_a_frozen_process_can_be_ended(session: Session) -> None:
    pid = loaded(session)
    with session.frozen():
        session.restart()
        assert state(pid) == ""


# -- scratch ---------------------------------------------------------------------------------------------------------


def test_a_scratch_folder_belongs_to_its_user_and_is_gone_in_the_end() -> None:
    with Scratch() as scratch:
        assert scratch.folder.stat().st_uid == (scratch.uid or os.getuid())
        (scratch.folder / "left").write_text("behind")
    assert not scratch.folder.exists()


def test_a_scratch_folder_goes_however_deep_it_has_become() -> None:
    with Scratch() as scratch:
        inner = os.open(scratch.folder, os.O_RDONLY)
        for _ in range(3000):
            os.mkdir("d", dir_fd=inner)
            outer, inner = inner, os.open("d", os.O_RDONLY, dir_fd=inner)
            os.close(outer)
        os.close(inner)
    assert not scratch.folder.exists()


def test_a_folder_that_a_process_closed_is_open_to_the_next_one(server: ForkServer, ex_15: Entry) -> None:
    with Scratch() as scratch, Session(server, empty(ex_15), ex_15.exercise.limits, scratch) as session:
        loaded(session)
        scratch.folder.chmod(0)
        session.restart()
        loaded(session)
        assert scratch.folder.stat().st_mode & 0o777 == 0o700


def test_a_session_takes_its_own_scratch_with_it_and_leaves_a_given_one(server: ForkServer, ex_15: Entry) -> None:
    with session_of(server, ex_15, "") as own:
        folder = Path(os.readlink(f"/proc/{loaded(own)}/cwd"))
        assert folder.is_dir()
    assert not folder.exists()
    with Scratch() as scratch:
        with Session(server, empty(ex_15), ex_15.exercise.limits, scratch) as given:
            assert Path(os.readlink(f"/proc/{loaded(given)}/cwd")) == scratch.folder
        assert scratch.folder.is_dir()


def test_no_two_scratch_folders_share_a_place_or_a_user() -> None:
    with Scratch() as one, Scratch() as other:
        assert one.folder != other.folder
        assert one.uid != other.uid or os.getuid() != 0


def test_what_was_compiled_in_one_scratch_folder_is_there_in_the_next(tmp_path: Path) -> None:
    with Scratch(tmp_path / "shelf") as scratch:
        (scratch.folder / "triton" / "HASH").mkdir(parents=True)
        (scratch.folder / "triton" / "HASH" / "k.cubin").write_bytes(b"machine code")
    with Scratch(tmp_path / "shelf") as scratch:
        assert (scratch.folder / "triton" / "HASH" / "k.cubin").read_bytes() == b"machine code"
    with Scratch(tmp_path / "other") as scratch:
        assert not list((scratch.folder / "triton").glob("*"))


def test_a_submission_s_file_is_written_whole_and_nothing_is_left_of_the_writing(
    server: ForkServer, ex_15: Entry
) -> None:
    with Scratch() as scratch, Session(server, empty(ex_15), ex_15.exercise.limits, scratch) as session:
        loaded(session)
        assert [file.name for file in scratch.folder.glob(f"{ex_15.name}*")] == [f"{ex_15.name}.py"]


def test_one_who_ends_beside_another_leaves_the_other_s_process_alone(server: ForkServer, ex_15: Entry) -> None:
    start, limits = empty(ex_15), ex_15.exercise.limits
    with Scratch() as scratch, Session(server, start, limits, scratch) as first:
        staying = loaded(first)
        with Session(server, start, limits, scratch, beside=True) as beside:
            leaving = loaded(beside)
            assert os.readlink(f"/proc/{leaving}/cwd") == os.readlink(f"/proc/{staying}/cwd") == str(scratch.folder)
            assert Path(f"/proc/{leaving}").stat().st_uid == Path(f"/proc/{staying}").stat().st_uid
        assert state(leaving) == ""
        assert state(staying) in ("R", "S")
        assert loaded(first) == staying
    assert state(staying) == ""


def empty(entry: Entry) -> Start:
    """A submission without a line."""
    return Start(f"{entry.name}.py", "", entry.source("inputs.py"), ())


# -- a busy machine --------------------------------------------------------------------------------------------------

LINGERING = "import time\ntime.sleep({})\n"


def lingering(server: ForkServer, seconds: float, allowed_s: float = 0.4) -> object:
    """What comes of a file that takes so long to load."""
    start = Start("ex.py", LINGERING.format(seconds), "", ())
    with Session(server, start, Limits(load_s=allowed_s)) as session:
        return session.load()


def test_time_in_which_a_process_waits_for_a_core_does_not_count(
    server: ForkServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert lingering(server, 1.0) == TimedOut(0.4)
    monkeypatch.setattr(usage, "waited_s", lambda pid: 0.9 * time.monotonic())
    assert isinstance(lingering(server, 2.0, allowed_s=1.5), Loaded)


def test_of_a_process_that_has_ended_nothing_is_known_and_nothing_is_held_against_it(
    server: ForkServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = iter([1000.0])
    monkeypatch.setattr(usage, "waited_s", lambda pid: next(told, 0.0))
    assert isinstance(lingering(server, 0.0, allowed_s=60.0), Loaded)


def test_but_nobody_is_waited_for_for_ever(server: ForkServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage, "waited_s", lambda pid: time.monotonic())
    started = time.monotonic()
    assert lingering(server, 60.0) == TimedOut(0.4)
    assert time.monotonic() - started >= 10 * 0.4


def test_what_a_process_waited_for_a_core_is_what_the_kernel_counts() -> None:
    before = usage.waited_s(os.getpid())
    assert 0.0 <= before <= usage.waited_s(os.getpid())
    assert usage.waited_s(1 << 30) == 0.0
