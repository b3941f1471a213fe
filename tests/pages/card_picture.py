"""`python -m tests.pages.card_picture`: makes docs/failing-card.png, a scorecard's first card, for README.md.

It grades a planted mistake as a learner's file, and takes the picture in a Chromium (tests/browsing.py).
"""

from __future__ import annotations

import tempfile
from contextlib import closing
from pathlib import Path

from grader.cli.job import RunOptions, job_for
from grader.exercise.catalogue import resolve
from grader.grading import grade
from grader.report.page import html
from grader.sandbox.server import ForkServer
from tests.browsing import Visit, browser

ROOT = Path(__file__).resolve().parents[2]
PICTURE = ROOT / "docs" / "failing-card.png"
MISTAKE = "vector_add_last_element"
# As wide as README.md is shown, with some paper around the card.
WIDTH, MARGIN = 1000, 16


def card() -> str:
    """Return the scorecard of the planted mistake, graded in the interpreter."""
    entry, stub = resolve(ROOT, "ex_15")
    with closing(ForkServer("interpret")) as server:
        job = job_for(entry, stub, entry.mistake(MISTAKE).text, None, RunOptions(parts=("vector_add",)), gpu=False)
        return html.render(grade(job, server))


def shoot(page: str, picture: Path) -> None:
    """Keep a picture of the first card of a scorecard."""
    with tempfile.TemporaryDirectory() as folder, browser() as opened:
        file = Path(folder, "card.html")
        file.write_text(page, encoding="utf-8")
        with closing(Visit(opened, file.as_uri(), WIDTH, "light")) as visit:
            box = visit.page.locator("section:has(> #first)").bounding_box()
            top = box["y"] - MARGIN
            clip = {"x": 0, "y": top, "width": WIDTH, "height": box["height"] + 2 * MARGIN}
            visit.page.screenshot(path=picture, full_page=True, clip=clip)


if __name__ == "__main__":
    shoot(card(), PICTURE)
