"""A submission's processes and their scratch folder: who may stay, and what is left behind."""

from __future__ import annotations

import os
import struct
import threading
import time
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import pytest

from grader.exercise.catalogue import Entry
from grader.exercise.model import Limits
from grader.protocol.answers import Loaded
from grader.protocol.requests import Call, Recipe, Slot, Start
from grader.sandbox import usage
from grader.sandbox.outcome import Finished, TimedOut
from grader.sandbox.process_spec import ProcessSpec
from grader.sandbox.scratch import Scratch
from grader.sandbox.server import ForkServer, Spawner
from grader.sandbox.session import Session
from grader.sandbox.watchdog import Watchdog
from tests.racing import session_of


def state(pid: int) -> str:
    """R, S, T (stopped), Z (dead and not yet buried), …, or nothing where there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0].decode()
    except OSError:
        return ""


def loaded(session: Session) -> int:
    """The process of a session in which the file has been loaded."""
    answer = session.load()
    assert isinstance(answer, Loaded), answer
    assert session.pid is not None
    return session.pid


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
    with Scratch() as scratch, Session(empty(server, ex_15), scratch) as session:
        loaded(session)
        scratch.folder.chmod(0)
        session.restart()
        loaded(session)
        assert scratch.folder.stat().st_mode & 0o777 == 0o700


def test_a_process_that_is_slow_to_start_is_started_again_and_no_process_beside_it_loses_its_folder(
    server: ForkServer, ex_15: Entry, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin, late, granted = Session._begun, [TimedOut(20.0)], list[float]()
    with Scratch() as scratch:
        first, second = (Session(empty(server, ex_15), scratch, beside=True) for _ in range(2))
        with first, second:
            pid, folder = loaded(first), scratch.folder

            def begun(session: Session, *, patience: float = 1.0) -> object:
                granted.append(patience)
                return late.pop() if late else begin(session, patience=patience)

            monkeypatch.setattr(Session, "_begun", begun)
            loaded(second)
            assert granted[0] < granted[1], "a busy machine may need more time than the limit"
            assert (first.pid, scratch.folder) == (pid, folder)
            assert state(pid) in ("S", "R")


def test_a_session_takes_its_own_scratch_with_it_and_leaves_a_given_one(server: ForkServer, ex_15: Entry) -> None:
    with session_of(server, ex_15, "") as own:
        folder = Path(os.readlink(f"/proc/{loaded(own)}/cwd"))
        assert folder.is_dir()
    assert not folder.exists()
    with Scratch() as scratch:
        with Session(empty(server, ex_15), scratch) as given:
            assert Path(os.readlink(f"/proc/{loaded(given)}/cwd")) == scratch.folder
        assert scratch.folder.is_dir()


def test_no_two_scratch_folders_share_a_place_or_a_user() -> None:
    with Scratch() as one, Scratch() as other:
        assert one.folder != other.folder
        assert one.uid != other.uid or os.getuid() != 0


def test_what_was_compiled_in_one_scratch_folder_is_there_in_the_next(tmp_path: Path) -> None:
    with Scratch(tmp_path / "entry") as scratch:
        (scratch.folder / "triton" / "HASH").mkdir(parents=True)
        (scratch.folder / "triton" / "HASH" / "k.cubin").write_bytes(b"machine code")
    with Scratch(tmp_path / "entry") as scratch:
        assert (scratch.folder / "triton" / "HASH" / "k.cubin").read_bytes() == b"machine code"
    with Scratch(tmp_path / "other") as scratch:
        assert not list((scratch.folder / "triton").glob("*"))


def test_a_submission_s_file_is_written_whole_and_nothing_is_left_of_the_writing(
    server: ForkServer, ex_15: Entry
) -> None:
    with Scratch() as scratch, Session(empty(server, ex_15), scratch) as session:
        loaded(session)
        assert [file.name for file in scratch.folder.glob(f"{ex_15.name}*")] == [f"{ex_15.name}.py"]


def test_one_who_ends_beside_another_leaves_the_other_s_process_alone(server: ForkServer, ex_15: Entry) -> None:
    spec = empty(server, ex_15)
    with Scratch() as scratch, Session(spec, scratch) as first:
        staying = loaded(first)
        with Session(spec, scratch, beside=True) as beside:
            leaving = loaded(beside)
            assert os.readlink(f"/proc/{leaving}/cwd") == os.readlink(f"/proc/{staying}/cwd") == str(scratch.folder)
            assert Path(f"/proc/{leaving}").stat().st_uid == Path(f"/proc/{staying}").stat().st_uid
        assert state(leaving) == ""
        assert state(staying) in ("R", "S")
        assert loaded(first) == staying
    assert state(staying) == ""


def test_a_session_that_another_thread_ends_keeps_its_folder_until_its_process_has_ended(
    server: ForkServer, ex_15: Entry, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, goes_on = threading.Event(), threading.Event()
    end = Watchdog.end

    def slowly(watchdog: Watchdog) -> None:
        begun.set()
        goes_on.wait(30)
        end(watchdog)

    monkeypatch.setattr(Watchdog, "end", slowly)
    session = Session(empty(server, ex_15))
    loaded(session)
    folder = session._scratch.folder
    with ThreadPoolExecutor(2) as pool:
        ending = pool.submit(session.restart)
        assert begun.wait(30)
        closing = pool.submit(session.__exit__)
        # Long enough for the folder to go.
        wait([closing], 0.3)
        assert folder.is_dir()
        goes_on.set()
        assert ending.result() >= 0
        closing.result()
    assert not folder.exists()


def empty(server: Spawner, entry: Entry) -> ProcessSpec:
    """A submission without a line."""
    return ProcessSpec(server, Start(f"{entry.name}.py", "", entry.source("inputs.py"), ()), entry.exercise.limits)


# -- a busy machine --------------------------------------------------------------------------------------------------

LINGERING = "import time\ntime.sleep({})\n"


def lingering(server: ForkServer, seconds: float, allowed_s: float = 0.4) -> object:
    """What comes of a file that takes so long to load."""
    start = Start("ex.py", LINGERING.format(seconds), "", ())
    with Session(ProcessSpec(server, start, Limits(load_s=allowed_s))) as session:
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


COUNTS_TURNS = """
import torch
import triton
import triton.language as tl

TURNS = []


@triton.jit
def kernel(x_ptr, out_ptr):
    TURNS.append(0)
    place = tl.program_id(0)
    tl.store(out_ptr + place, tl.load(x_ptr + place))


def vector_add(x, y):
    out = torch.empty_like(x)
    kernel[(x.numel(),)](x, out)
    assert torch.equal(out, x)
    return torch.full_like(x, len(TURNS))
"""


def test_programs_run_at_once_in_the_submission_s_own_process_too(server: ForkServer, ex_15: Entry) -> None:
    case: dict[str, int | float | bool | str] = {"N": 400, "dtype": "float32", "values": "normal", "offset": 0}
    slots = (Slot("float32", (400,), 0, 1600),)
    with session_of(server, ex_15, COUNTS_TURNS) as session:
        assert isinstance(session.load(), Loaded)
        outcome = session.call(Call(Recipe("vector_add", case, 1), ("x", "y"), (), slots))
        assert isinstance(outcome, Finished)
        (raw,) = outcome.outputs
        assert raw is not None
        assert 1 < struct.unpack("400f", raw)[0] < 100
