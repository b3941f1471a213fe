"""docs/status.md is what its command writes, and its commands name what there is; every link leads somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.pages.status import PAGE, ROOT, commands, page

pytestmark = pytest.mark.process

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def test_the_page_is_what_python_m_tests_status_writes() -> None:
    assert PAGE.read_text(encoding="utf-8") == page()


@pytest.mark.parametrize("command", sorted(set(commands())))
def test_a_command_names_only_files_and_environments_that_there_are(command: str) -> None:
    words = command.split()
    assert [word for word in words if "/" in word and not (ROOT / word).exists()] == []
    if words[0] == "tox":
        assert f"[testenv:{words[2]}]" in (ROOT / "tox.ini").read_text(encoding="utf-8")


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_every_link_of_a_page_leads_to_a_file(path: Path) -> None:
    targets = re.findall(r"\]\(([\w./-]+\.(?:md|py|png|ini|toml))[)#]", path.read_text(encoding="utf-8"))
    assert [target for target in targets if not (path.parent / target).exists()] == []


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_every_test_file_that_a_page_names_is_there(path: Path) -> None:
    named = re.findall(r"tests/[\w/]+\.py", path.read_text(encoding="utf-8"))
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_the_readme_is_read_in_five_minutes() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 150
