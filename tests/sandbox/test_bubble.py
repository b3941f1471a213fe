"""The bubble of bubblewrap around the fork server: used where it is there, done without where it is not."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from grader.exercise.model import Limits
from grader.protocol.answers import Loaded, Raised
from grader.protocol.requests import Start
from grader.sandbox import bubble
from grader.sandbox.process_spec import ProcessSpec
from grader.sandbox.server import ForkServer
from grader.sandbox.session import Session

pytestmark = pytest.mark.process

ROOT = Path(__file__).resolve().parents[2]
needs_bubblewrap = pytest.mark.skipif(not shutil.which("bwrap"), reason="needs bubblewrap")
COMMAND = ("true",)


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    """What was found out about bubblewrap does not last beyond a test."""
    bubble._bubble.cache_clear()
    yield
    bubble._bubble.cache_clear()


def test_without_bubblewrap_the_command_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bubble.shutil, "which", lambda _: None)
    assert bubble.around(COMMAND) == COMMAND


@pytest.mark.parametrize("program", ["/bin/false", "/nowhere/bwrap"])
def test_and_where_bubblewrap_may_make_no_bubble(monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    monkeypatch.setattr(bubble.shutil, "which", lambda _: program)
    assert bubble.around(COMMAND) == COMMAND


@needs_bubblewrap
def test_inside_solutions_are_not_there_and_only_temporary_folders_can_be_written() -> None:
    place = Path(tempfile.mkdtemp())
    script = (
        f"ls {ROOT}/reference | wc -l; touch /usr/grade-was-here 2>/dev/null || echo no; touch {place}/x && echo yes"
    )
    done = subprocess.run(bubble.around(("sh", "-c", script), [ROOT]), capture_output=True, text=True, check=False)
    shutil.rmtree(place)
    assert done.stdout.split() == ["0", "no", "yes"], done.stderr


@needs_bubblewrap
def test_a_submission_runs_inside_and_is_not_told() -> None:
    text = "import os\nraise ValueError(f\"{os.environ.get('GRADE_BUBBLE')} {os.listdir('/proc/1') != []}\")\n"
    server = ForkServer("interpret")
    try:
        with Session(ProcessSpec(server, Start("ex.py", text, "", ()), Limits())) as session:
            answer = session.load()
            assert session.ready is not None
            assert session.ready.isolation[0] == "bubblewrap"
    finally:
        server.close()
    assert isinstance(answer, Raised), answer
    assert answer.message.startswith("None")


def test_a_submission_runs_where_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bubble.shutil, "which", lambda _: None)
    server = ForkServer("interpret")
    try:
        with Session(ProcessSpec(server, Start("ex.py", "import os\n", "", ()), Limits())) as session:
            assert isinstance(session.load(), Loaded)
            assert session.ready is not None
            assert "bubblewrap" not in session.ready.isolation
    finally:
        server.close()
    assert not os.path.exists(f"/proc/{server._process.pid}/root")
