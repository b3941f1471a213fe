"""What the grader itself fails at is never a student's zero: its own kernel is tried before anything is judged."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest

from grader import selftest
from grader.cli import main as command_line
from grader.errors import GradeError
from grader.exercise.model import Limits
from grader.protocol.requests import Start
from grader.sandbox.outcome import Died
from grader.sandbox.process_spec import ProcessSpec
from grader.sandbox.server import ForkServer
from grader.sandbox.session import Session

pytestmark = pytest.mark.process

STUB = "def f(x):\n    return x\n"


def test_the_grader_s_own_kernel_comes_out_right_and_names_the_layers(server: ForkServer) -> None:
    tried = selftest.try_kernel(server)
    assert (tried.mark, tried.words) == ("ok", "right")
    assert "rlimits" in tried.isolation


def test_other_values_are_wrong_and_no_values_are_broken(server: ForkServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selftest, "_EXPECTED", b"")
    assert selftest.try_kernel(server).mark == "WRONG"
    monkeypatch.setattr(selftest, "_INPUTS", "def double(case, generator):\n    return ('no tensor',)\n")
    tried = selftest.try_kernel(server)
    assert tried.mark == "BROKEN"
    assert tried.words.startswith("TypeError: empty_like()")


@pytest.mark.usefixtures("lent", "tree")
@pytest.mark.parametrize(
    "command", [["ex_15"], ["all"], ["replay", "ex_15:vector_add.tail:N=5:0x1"]], ids=lambda c: c[0]
)
def test_where_it_does_not_come_out_right_nothing_is_judged_and_the_exit_code_is_5(
    command: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(selftest, "_EXPECTED", b"")
    assert command_line.dispatch([*command, "--cpu"]) == 5
    said = capsys.readouterr()
    assert "the grader's own Triton kernel in mode interpret must come out right, got wrong values" in said.err
    assert "grade doctor" in said.err
    assert not list(tmp_path.glob("scorecards/*.json"))


def test_a_process_that_ends_before_the_submission_s_first_line_is_the_grader_s_fault(server: ForkServer) -> None:
    with (
        Session(
            ProcessSpec(server, Start("ex.py", STUB, "raise RuntimeError('our own inputs')\n", ("f",)), Limits())
        ) as session,
        pytest.raises(GradeError, match="must be ready for a submission") as raised,
    ):
        session.load()
    assert "could not start: RuntimeError('our own inputs')" in str(raised.value)


def test_a_submission_that_ends_with_our_own_status_is_at_fault_itself(server: ForkServer) -> None:
    with Session(ProcessSpec(server, Start("ex.py", "import os\nos._exit(70)\n", "", ("f",)), Limits())) as session:
        assert session.load() == Died("ended with exit status 70 before it answered")


@pytest.mark.usefixtures("lent")
def test_workers_of_a_class_say_what_is_broken_before_they_get_any_work(monkeypatch: pytest.MonkeyPatch) -> None:
    from grader.batch import work

    monkeypatch.setattr(selftest, "_EXPECTED", b"")
    state = work._WorkerState(cpu=True)
    monkeypatch.setattr(work, "_opened", lambda cpu: state)
    with closing(state._processes):
        introduction = json.loads(work.introduce(cpu=True))
    assert "the grader's own Triton kernel in mode interpret must come out right" in introduction["trouble"]
