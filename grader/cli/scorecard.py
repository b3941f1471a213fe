"""Write scorecards with their records beside them, and keep the results of parts."""

from __future__ import annotations

import sys
from pathlib import Path

from grader.cli.files import check_writable, write
from grader.cli.finish import finish_of
from grader.cli.next_step import step_after
from grader.cli.saved import keep_results, note_attempt
from grader.cli.say import say
from grader.errors import UsageError
from grader.exercise.catalogue import Entry
from grader.record.record import Record, to_json


def keep(entry: Entry, record: Record, source: str, card: Path) -> str:
    """Keep the parts' results, and write a scorecard and its record beside it; return the page.

    source: the text that was graded.
    """
    keep_results(entry, record, source)
    page = card_page(entry, record)
    write_card(entry, record, card, page)
    return page


def card_page(entry: Entry, record: Record) -> str:
    """Return the scorecard. With plots it takes a second."""
    from grader.report.page import html

    return html.render(record, finish=finish_of(entry, record), step=step_after(entry, record))


def write_card(entry: Entry, record: Record, card: Path, page: str) -> None:
    """Write a scorecard and its record beside it, and count the attempt."""
    write(card.with_suffix(".json"), to_json(record))
    write(card, page)
    note_attempt(entry, record)


def can_keep(card: Path) -> bool:
    """Return whether a scorecard can be written; if not, print why. The grading goes on."""
    try:
        check_writable(card)
        check_writable(card.with_suffix(".json"))
    except UsageError as refused:
        say(f"grade: no scorecard is kept: {refused}", sys.stderr)
        return False
    return True
