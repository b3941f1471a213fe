"""docs/commands.md is what its command writes, and holds every command."""

from __future__ import annotations

import pkgutil

from grader.cli import commands
from tests.pages.commands import PAGE, page


def test_the_page_is_what_python_m_tests_commands_writes() -> None:
    assert PAGE.read_text(encoding="utf-8") == page()


def test_every_command_has_a_section() -> None:
    sections = {line.strip("#` ") for line in page().splitlines() if line.startswith("### ")}
    assert sections == {f"grade {found.name}" for found in pkgutil.iter_modules(commands.__path__)}
