"""Gather the end of a finished exercise's page: the model solution, and questions."""

from __future__ import annotations

from grader.cli import saved
from grader.exercise.catalogue import Entry, discover
from grader.exercise.model import check_id
from grader.record.record import Record
from grader.report.achieved import Finish


def finish_of(entry: Entry, record: Record) -> Finish | None:
    """Return the end of the page; None unless the record covers all parts and everything judged passed."""
    checks = {check_id(part, check) for part, check in entry.exercise.checks()}
    if record.verdict != "pass" or checks - {check.id for check in record.checks}:
        return None
    return Finish(
        solution=f"grade solution {entry.id}" if entry.solution.is_file() else "",
        questions=entry.questions,
        records=records_for(entry),
    )


def records_for(entry: Entry) -> dict[str, Record]:
    """Return the learner's records of the other exercises that the answers refer to, by id."""
    named = {figures.exercise for question in entry.questions for figures in question.figures}
    found = {one.id: saved.record_of(one) for one in discover(entry.root) if one.id in named}
    return {name: record for name, record in found.items() if record is not None}
