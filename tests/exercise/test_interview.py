"""Questions are data that checks itself; those of the course name real checks, places and axes."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from grader.errors import SpecError
from grader.exercise.catalogue import Entry, discover
from grader.exercise.formula import evaluate
from grader.exercise.interview import TIME, Figures, Question
from grader.exercise.model import Check, check_id

ROOT = Path(__file__).resolve().parents[2]
CHECKS = {
    f"{entry.id}:{check_id(part, check)}": check for entry in discover(ROOT) for part, check in entry.exercise.checks()
}
FIGURES = [
    pytest.param(entry, figures, id=f"{entry.id}-{figures.check}")
    for entry in discover(ROOT)
    for question in entry.questions
    for figures in question.figures
]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"check": "speed"}, 'Figures.check must be "part.check"'),
        ({"text": "{moves}"}, "Figures.text must name places among"),
        ({"values": {"unused": "N"}}, "Figures.values must stand in the text"),
    ],
)
def test_figures_that_cannot_be_filled_in_are_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(SpecError, match=words):
        Figures(**{"check": "a.b", "text": "Yours moved {moved}.", **given})


def test_a_question_is_a_sentence_with_an_answer() -> None:
    with pytest.raises(SpecError, match=r"Question\.question must be a sentence"):
        Question("Why", "Because.")
    with pytest.raises(SpecError, match=r"Question\.answer must be a text"):
        Question("Why?", " ")


def test_figures_name_a_check_of_this_exercise_or_of_another() -> None:
    own, other = Figures("a.b", "{time}"), Figures("ex_2:a.b", "{time}")
    assert [(one.exercise, one.check_id) for one in (own, other)] == [("", "a.b"), ("ex_2", "a.b")]


@pytest.mark.parametrize(("entry", "figures"), FIGURES)
def test_figures_of_the_course_name_checks_contenders_and_axes_that_exist(entry: Entry, figures: Figures) -> None:
    check: Check = CHECKS[f"{figures.exercise or entry.id}:{figures.check_id}"]
    band = check.rule.band
    contenders = {"submission", band.baseline, *band.shown_beside} if band else set()
    assert {place.removeprefix(TIME) for place in figures.places if place.startswith(TIME)} <= contenders
    cases = check.rule.sizes.named_cases if figures.values and check.rule.sizes else ()
    assert all(evaluate(formula, case) > 0 for case in cases for formula in figures.values.values())


@pytest.mark.parametrize("entry", discover(ROOT), ids=lambda entry: entry.id)
def test_the_author_says_something_on_every_part_of_the_solution(entry: Entry) -> None:
    assert set(entry.commentary) == {part.name for part in entry.exercise.parts}
    assert all(text.strip().endswith(".") for text in entry.commentary.values())


def test_commentary_on_another_part_is_refused(tmp_path: Path) -> None:
    (tmp_path / "reference").mkdir()
    shutil.copytree(discover(ROOT)[0].folder, tmp_path / "reference" / "ex_15_triton_basics")
    entry = Entry(tmp_path, "ex_15_triton_basics")
    (entry.folder / "commentary.py").write_text("COMMENTARY = {'vector_sub': 'A.'}")
    with pytest.raises(SpecError, match=r"commentary\.py must define COMMENTARY"):
        _ = entry.commentary


def entry_of_its_own(root: Path) -> Entry:
    """An empty exercise of a course that has a reference/, and so uses nothing of the grader's."""
    (root / "reference" / "ex_2_sums").mkdir(parents=True)
    return Entry(root, "ex_2_sums")


def test_an_exercise_without_the_file_has_no_questions(tmp_path: Path) -> None:
    entry = entry_of_its_own(tmp_path)
    assert entry.questions == ()
    assert entry.commentary == {}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("QUESTIONS = 7", r"must define QUESTIONS = \(Question"),
        ("QUESTIONS = (1,)", r"must define QUESTIONS = \(Question"),
        ("1 / 0", "ex_2_sums/interview.py, line 1: ZeroDivisionError"),
    ],
)
def test_a_file_without_questions_is_named(tmp_path: Path, text: str, words: str) -> None:
    entry = entry_of_its_own(tmp_path)
    (entry.folder / "interview.py").write_text(text)
    with pytest.raises(SpecError, match=words):
        _ = entry.questions
