"""Counted work and predicted times in reports: a line in a terminal, tables on the card, odd numbers as dashes."""

from __future__ import annotations

import dataclasses

import pytest

from grader.record.record import Record
from grader.report import efficiency
from grader.report import speed as timing
from grader.report.page import html
from grader.report.text import terminal
from tests.records import flat, samples
from tests.report.test_html import Page


def without_counts(record: Record) -> Record:
    checks = tuple(dataclasses.replace(check, work=(), predictions=()) for check in record.checks)
    return dataclasses.replace(record, checks=checks)


# -- words -----------------------------------------------------------------------------------------------------------


def test_moved_bytes_stand_beside_the_model_s_for_the_case_nearest_to_its_limit() -> None:
    assert efficiency.moved((samples.counted(10000), samples.counted(10000, "float16", factor=1.05))) == (
        "moved 63,000 bytes for N=10000, float16; the model says 60,000, allowed 66,000"
    )


def test_extra_memory_is_told_where_it_is_limited() -> None:
    limited = samples.counted(10000, extra=(1024, 4096))
    assert efficiency.moved((limited,)).endswith("allowed 132,000; 1,024 of 4,096 bytes of extra memory")


def test_a_band_is_told_by_where_all_points_and_where_none_are_earned() -> None:
    banded = dataclasses.replace(samples.counted(10000, extra=(1024, 4096)), none_bytes=240_000, extra_none_bytes=8192)
    assert efficiency.moved((banded,)).endswith(
        "all points up to 132,000, none from 240,000; 1,024 of 4,096 bytes of extra memory, no points from 8,192"
    )


def test_what_alone_is_limited_is_told_with_the_case() -> None:
    stored = dataclasses.replace(
        samples.counted(10000),
        model_bytes=-1,
        allowed_bytes=-1,
        unique_stored_bytes=40_000,
        stored_allowed_bytes=44_000,
        stored_none_bytes=80_000,
    )
    assert efficiency.moved((stored,)) == (
        "stored 40,000 different bytes for N=10000, float32, all points up to 44,000, none from 80,000"
    )


def test_the_longest_time_on_the_first_gpu_is_told() -> None:
    predictions = samples.on_paper().checks[2].predictions
    assert efficiency.predicted(predictions) == "predicted on an H200: 734 µs at N=2^28, float32 (memory-bound)"


def test_a_prediction_beside_a_measured_time_is_not_told_as_one_on_paper() -> None:
    check = samples.foretold().checks[0]
    assert efficiency.predicted(check.predictions) == ""
    assert efficiency.compared(check) == ("off by 5% in the median: N=2^20 -20%, N=2^24 +5%, N=2^28 0%")


@pytest.mark.parametrize(
    ("gpu", "words"),
    [("H200", "an H200"), ("B200", "a B200"), ("A100", "an A100"), ("L4", "an L4"), ("", "an unknown GPU")],
)
def test_a_gpu_has_the_article_that_its_first_letter_is_spoken_with(gpu: str, words: str) -> None:
    assert efficiency.with_article(gpu) == words


def test_a_size_is_told_by_its_lengths_its_type_and_what_varies() -> None:
    sizes = samples.gemm_speed().sizes
    assert timing.length_words(sizes)[4:6] == ("M=N=K=8192, bfloat16", "M=16, N=K=4096, bfloat16")
    assert timing.length_words((samples.counted(7),)) == ("N=7, float32",)


def test_a_check_without_counts_has_nothing_to_tell() -> None:
    check = samples.passing().checks[0]
    assert efficiency.sentence(check) == ""
    assert efficiency.compared(check) == ""
    assert efficiency.efficiency_view(check) is None


# -- terminal --------------------------------------------------------------------------------------------------------


def test_the_terminal_tells_moved_bytes_and_predicted_times_under_their_lines() -> None:
    text = flat(terminal.render(samples.on_paper()))

    assert (
        "Moves no more than 3·N elements 2/2 moved 63,000 bytes for N=10000, float16; the model says 60,000, allowed "
        "66,000; 4,000 of 4,096 bytes of extra memory"
    ) in text
    assert f"{samples.NO_GPU} predicted on an H200: 734 µs at N=2^28, float32 (memory-bound)" in text


def test_a_part_grows_by_at_most_three_lines() -> None:
    record = samples.on_paper()
    lines = [len(terminal.render(one).splitlines()) for one in (record, without_counts(record))]

    assert lines[0] - lines[1] <= 3


def test_beside_trouble_elsewhere_a_part_without_any_tells_no_counts() -> None:
    failed = samples.check("product.tail", "Right for tails", "fail", reason="No.")
    record = samples.record((failed, *samples.on_paper().checks), (samples.PRODUCT, samples.VECTOR_ADD))

    assert "moved" not in terminal.render(record)
    assert "predicted" not in terminal.render(record)


def test_some_of_the_points_are_told_with_what_was_moved_whatever_else_there_is() -> None:
    failed = samples.check("product.tail", "Right for tails", "fail", reason="No.")
    banded = dataclasses.replace(samples.counted(10000, factor=1.5), none_bytes=240_000)
    partly = samples.check("vector_add.traffic", "Moves few", points=1.2, most=2, work=(banded,))
    record = samples.record((failed, partly), (samples.PRODUCT, samples.VECTOR_ADD))
    text = flat(terminal.render(record))

    assert "◐ partly passed Moves few 1.2/2 moved 180,000 bytes" in text
    assert "all points up to 132,000, none from 240,000" in text
    assert "N=10000, float32 120,000 60,000 180,000 120,000 132,000 240,000 136% 1" in Page(html.render(record)).text


def test_on_a_gpu_the_terminal_tells_how_far_off_the_prediction_is() -> None:
    assert "Prediction: off by 5% in the median: N=2^20 -20%" in flat(terminal.render(samples.foretold()))


# -- scorecard -------------------------------------------------------------------------------------------------------


def test_the_card_holds_every_counted_case_the_memory_and_every_named_gpu() -> None:
    text = Page(html.render(samples.on_paper())).text

    for words in (
        "case loaded stored together model allowed no points from of allowed launches",
        "N=10000, float32 80,000 40,000 120,000 120,000 132,000 – 91% 1",
        "N=10000, float16 42,000 21,000 63,000 60,000 66,000 – 95% 1",
        "case taken allowed no points from N=10000, float32 0 4,096 – N=10000, float16 4,000 4,096 –",
        "size H200 B200",
        "N=2^20, float32 7.85 µs launch 6.78 µs launch",
        "N=2^28, float32 734 µs memory 460 µs memory",
        "published figures minus an assumed loss",
    ):
        assert words in text, words


def test_the_card_holds_predicted_beside_measured_times_and_their_error() -> None:
    text = Page(html.render(samples.foretold())).text

    assert "this GPU's measured ceilings, beside the measured time: off by 5% in the median" in text
    assert "N=2^24 52.5 µs 50.0 µs +5% memory-bound" in text
    assert "No time was measured here" not in text


def test_what_exceeds_its_limit_is_marked_and_says_so_in_its_share() -> None:
    over = samples.check("vector_add.traffic", "Moves little", "fail", work=(samples.counted(100, factor=1.5),))
    page = html.render(samples.record((over,), (samples.VECTOR_ADD,)))

    assert 'class="got">1,800<' in page
    assert "136%" in Page(page).text


def test_more_cases_than_a_page_has_room_for_are_counted() -> None:
    many = samples.check("vector_add.traffic", "Moves little", work=tuple(map(samples.counted, range(1, 100))))

    assert "59 more cases are in the JSON record." in Page(html.render(samples.record((many,), ()))).text
