"""A page that quotes a command and its output, in a fence `output=…`, quotes what the command prints."""

from __future__ import annotations

import re
import shlex
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from grader.cli.main import dispatch
from grader.exercise import plan
from tests.fences import fences

pytestmark = pytest.mark.process

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("trust-model", "efficiency", "sanitize", "trace")
QUOTED = [
    (page, label.removeprefix("output="), fence.body)
    for page in PAGES
    for fence in fences(ROOT / f"docs/{page}.md")
    for label in fence.labels
    if fence.language == "text" and label.startswith("output=")
]
# What the commands read, besides the exercises.
_READ = (
    "reference/ex_15_triton_basics/wrong",
    "reference/ex_16_triton_gemm/wrong",
    *(f"tests/submissions/{name}" for name in ("attacks", "sanitize", "timing")),
)


@pytest.fixture
def course(tree: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the exercises with what the pages grade. The terminal has 100 columns and no colour."""
    for name, value in {"COLUMNS": "100", "NO_COLOR": "1", "TERM": "xterm"}.items():
        monkeypatch.setenv(name, value)
    for folder in _READ:
        shutil.copytree(ROOT / folder, tree / folder)
    return tree


@pytest.fixture
def few_cases(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw few cases a check: where a page would tell how many there are, it has dots."""
    draw = plan.draw

    def brief(*args: object, **named: object) -> plan.Plan:
        whole = draw(*args, **named)  # type: ignore[arg-type]
        return replace(whole, checks=tuple(replace(one, cases=one.cases[:3]) for one in whole.checks))

    monkeypatch.setattr(plan, "draw", brief)


def follows(output: str, line: str, place: int) -> int:
    """Return the place in an output behind the next line that holds this one, whose dots may be anything."""
    wanted = ".*?".join(map(re.escape, line.strip().split("…")))
    found = re.compile(wanted).search(output, place)
    assert found, f"{line!r} is not in what is left of the output:\n{output[place:]}"
    return found.end()


@pytest.mark.usefixtures("lent", "course", "few_cases")
@pytest.mark.parametrize("block", [pytest.param(block, id=f"{page}-{label}") for page, label, block in QUOTED])
def test_a_quoted_command_prints_what_the_page_quotes(block: str, capsys: pytest.CaptureFixture[str]) -> None:
    if "trace ex_17" in block:
        pytest.importorskip("cutlass")
    for command in block.split("$ grade ")[1:]:
        words, _, quoted = command.partition("\n")
        dispatch(shlex.split(words))
        output, place = capsys.readouterr().out, 0
        for line in quoted.splitlines():
            place = follows(output, line, place)


def test_each_of_the_pages_quotes_an_output() -> None:
    assert {page for page, _, _ in QUOTED} == set(PAGES)
