"""The class page's one script: it sorts and filters the table of students. The page's policy names its hash.

Without it the table shows all students, in the order of the roster.
"""

from __future__ import annotations

from pathlib import Path

from grader.report.page import copying

_TEXT = Path(__file__).with_name("sort.js.j2").read_text(encoding="utf-8").strip()
SOURCE = copying.source(_TEXT)
ELEMENT = copying.element(_TEXT)
