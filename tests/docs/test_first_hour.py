"""docs/first-hour.md, taken at its word: its two kernels do what the page says of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from grader.exercise.catalogue import resolve
from tests.conftest import Grade

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "first-hour.md").read_text(encoding="utf-8")
CODE = dict(re.findall(r"^```python (first|then)=vector_add\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))


def with_part_1(code: str) -> str:
    """The stub with this in the place of its first part."""
    stub = resolve(ROOT, "ex_15")[0].source("stub.py")
    before, after = stub.split("# Part 1\n")[0], stub.split("# Part 2\n")[1]
    return f"{before}# Part 1\n\n{code}\n\n# Part 2\n{after}"


def test_the_first_kernel_fails_as_the_page_shows(graded: Grade) -> None:
    record = graded(with_part_1(CODE["first"]), "vector_add")
    failed = next(check for check in record.checks if check.status == "fail")
    assert failed.title == "Right for lengths that do not fill the last block"
    assert record.checks[0].status == "pass"
    assert failed.cause is not None
    assert failed.counterexample is not None
    # Lines are broken where the page has room.
    text = " ".join(PAGE.split())
    assert f"✗ {failed.title} — {failed.cause.title}" in text
    assert f"Smallest failing case: {failed.counterexample.words}" in text
    assert failed.cause.rationale.partition("; ")[0] in text
    assert f"Help: {failed.cause.help}" in text
    assert f"Because: {failed.cause.suspects[0].evidence}" in text


def test_the_second_passes_all_that_can_be_judged(graded: Grade) -> None:
    record = graded(with_part_1(CODE["then"]), "vector_add")
    assert {check.status for check in record.checks} == {"pass", "skipped_environment"}
    assert (record.score, record.judged_score) == (15, 15)


@pytest.mark.parametrize("name", re.findall(r"`(grade [a-z]+)", PAGE))
def test_every_command_of_the_page_exists(name: str) -> None:
    from grader.cli.main import app

    known = {command.name for command in app.registered_commands}
    assert name.split()[1] in known
