"""docs/corpus.md is what its command writes; its program runs; no folder of submissions is left out."""

from __future__ import annotations

import re

import pytest

from grader.exercise.catalogue import discover
from tests.claims import SUBMISSIONS
from tests.pages.corpus import FOLDERS, PAGE, ROOT, page

pytestmark = pytest.mark.process


def test_the_page_is_what_python_m_tests_corpus_writes() -> None:
    assert PAGE.read_text(encoding="utf-8") == page()


def test_every_folder_of_submissions_is_told() -> None:
    assert {path.name for path in SUBMISSIONS.iterdir() if any(path.glob("*.py"))} == FOLDERS.keys()


def test_the_program_of_the_page_lists_every_planted_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    (program,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    exec(compile(program, str(PAGE), "exec"), {})
    assert len(capsys.readouterr().out.splitlines()) == sum(len(entry.wrong) for entry in discover(ROOT))
