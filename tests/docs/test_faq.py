"""docs/faq.md quotes messages that the code has."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "faq.md").read_text(encoding="utf-8")
QUOTED = re.findall(r"^\| `([^`]+)` \|", PAGE, re.MULTILINE)


@cache
def sources() -> str:
    return "\n".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "grader").rglob("*.py")))


@pytest.mark.parametrize("message", QUOTED)
def test_a_quoted_message_stands_in_the_code(message: str) -> None:
    assert message in sources()


def test_messages_are_quoted() -> None:
    assert len(QUOTED) > 15
