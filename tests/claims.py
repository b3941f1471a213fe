"""What a submission under submissions/ says, in its first line, that it must get: `<status>: [<cause kind>: ]…`."""

from __future__ import annotations

import re
from pathlib import Path

from grader.record import Record

SUBMISSIONS = Path(__file__).parent / "submissions"


def files(folder: str) -> list[Path]:
    """The submissions of one folder."""
    return sorted((SUBMISSIONS / folder).glob("*.py"))


def claim(path: Path) -> tuple[str, str]:
    """(status, cause kind) that the file's docstring promises; the kind is the status where none is named."""
    doc = re.match(r'"""(\w+): (?:(\w+): )?', path.read_text(encoding="utf-8"))
    assert doc is not None, path
    return doc[1], doc[2] or doc[1]


def statuses(record: Record, part: str) -> set[str]:
    """The statuses of a part's judged checks."""
    return {check.status for check in record.checks if check.part == part} - {"skipped_environment"}
