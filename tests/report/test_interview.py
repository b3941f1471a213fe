"""Questions are answered with the figures of a record, and the page of a finished exercise ends in them."""

from __future__ import annotations

import dataclasses

import pytest

from grader.exercise.interview import Figures, Question
from grader.record.checks import Selection
from grader.record.record import Record
from grader.report.achieved import Finish, achievements
from grader.report.interview import answers
from grader.report.page import html
from grader.report.text import terminal
from grader.report.view import Step
from tests.records import compiled, samples
from tests.report.test_html import Page

TRAFFIC, SPEED = "vector_add.traffic", "vector_add.speed"


def own(record: Record | None, *figures: Figures) -> tuple[str, ...]:
    (found,) = answers([Question("Why?", "So.", figures)], {"": record} if record else {})
    return found.own


@pytest.mark.parametrize(
    ("check", "text", "said"),
    [
        (TRAFFIC, "{moved} of {model} bytes at {case}, {launches}", "120,000 of 120,000 bytes at N=10000, float32, 1"),
        (SPEED, "{time} on {gpu} at {size}", "734 µs on an H200 at N=2^28, float32"),
        (SPEED, "{intensity} FLOP per byte: {bound}-bound", "0.0833 FLOP per byte: memory-bound"),
    ],
)
def test_places_are_filled_from_the_check(check: str, text: str, said: str) -> None:
    assert own(samples.on_paper(), Figures(check, text)) == (said,)


def test_measured_times_stand_beside_every_contender() -> None:
    text = "{time_submission} {ratio} {baseline} {roofline}"
    (said,) = own(samples.foretold(), Figures(SPEED, text))
    assert "µs" in said
    assert "%" in said


def test_a_formula_is_evaluated_for_the_case_that_moved_most() -> None:
    figures = Figures(TRAFFIC, "{unfused} instead of {moved}", {"unfused": "6 * N * itemsize"})
    assert own(samples.on_paper(), figures) == ("240,000 instead of 120,000",)


def test_choices_and_kernels_are_counted() -> None:
    chosen = Selection(("M=1", "M=7"), ("a", "b"), ((1.0, 2.0), (3.0, 1.0)), (0, 0))
    record = samples.record((samples.check("pick.regret", "Chooses", selection=chosen),), ())
    assert own(record, Figures("pick.regret", "{best} of {choices}")) == ("1 of 2",)
    record = samples.record((samples.check("gemm.compiles", "Compiles"),), (compiled.gemm(),))
    (said,) = own(record, Figures("gemm.compiles", "{kernel}: {registers} on {target}"))
    assert said.endswith(" on sm_90")


@pytest.mark.parametrize(
    "figures",
    [
        Figures("vector_add.missing", "{moved}"),
        Figures(TRAFFIC, "{time_cuda_cpp}"),
        Figures(TRAFFIC, "{moved} {rows}", {"rows": "M"}),
        Figures("ex_16:matmul.speed", "{time}"),
    ],
)
def test_what_is_not_known_is_left_out(figures: Figures) -> None:
    assert own(samples.on_paper(), figures) == ()
    assert own(None, figures) == ()


def test_another_exercise_answers_from_its_own_record() -> None:
    question = Question("Why?", "One.\n\nTwo\n  lines.", (Figures(f"ex_16:{TRAFFIC}", "{moved}"),))
    (found,) = answers([question], {"ex_16": samples.on_paper()})
    assert (found.paragraphs, found.own) == (("One.", "Two lines."), ("120,000",))


def test_what_was_achieved_is_the_share_of_the_traffic_limit_and_the_time() -> None:
    (found,) = achievements(samples.on_paper())
    assert found.title == "Vector addition"
    assert found.sentences == (
        "95% of the traffic limit: 63,000 bytes moved at N=10000, float16; the limit is 60,000",
        "predicted on an H200: 734 µs at N=2^28, float32 (memory-bound)",
    )
    (measured,) = achievements(samples.foretold())
    assert "of the roofline" in measured.sentences[0]


def test_a_finished_page_names_the_next_exercise_once_and_ends_in_achievements_questions_and_the_solution() -> None:
    question = Question("What is <Triton>?", "A `language`.", (Figures(TRAFFIC, "Yours moved {moved} bytes."),))
    finish = Finish("grade solution ex_15", (question,))
    text = html.render(samples.on_paper(), finish=finish, step=Step("go on with Triton GEMM", "grade watch ex_16"))
    page = Page(text)
    start, _, end = page.text.partition("What you achieved")
    assert "Next: go on with Triton GEMM: grade watch ex_16" in start
    assert page.text.count("grade watch ex_16") == 1
    for words in (
        "95% of the traffic limit",
        "What is <Triton>?",
        "Yours moved 120,000 bytes.",
        "grade solution ex_15",
    ):
        assert words in end, words
    assert '<details class="question">' in text
    assert "<code>language</code>" in text
    assert page.open == []
    assert text.index('id="finish"') > text.index('id="environment"')


def test_a_page_that_is_not_finished_has_no_such_end() -> None:
    assert "What you achieved" not in Page(html.render(samples.on_paper())).text


def test_a_hostile_record_stays_text_in_answers() -> None:
    works, predictions = samples.hostile_work("<img src=x>{0}")
    one = samples.check(TRAFFIC, "T", work=works, predictions=predictions)
    record = dataclasses.replace(samples.record((one,), (samples.VECTOR_ADD,)))
    finish = Finish(questions=(Question("Why?", "So.", (Figures(TRAFFIC, "{case} {moved} {size} {gpu}"),)),))
    assert "<img" not in html.render(record, finish=finish)


def test_the_terminal_shows_question_answer_and_own_figures() -> None:
    (found,) = answers([Question("Why?", "So.", (Figures(TRAFFIC, "{moved} bytes."),))], {"": samples.on_paper()})
    assert terminal.render_answers([found]) == "Why?\n  So.\n  · 120,000 bytes.\n"
