"""Speed and memory over one axis: panels, lines, the sentence above them, and records that no measurement gives."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from html import unescape
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grader.exercise.curves import Curves
from grader.record.record import Record, from_json, to_json
from grader.record.speed import Baseline, SizeTiming, Speed
from grader.report.figures import chart, curves, plots, speed_axis
from grader.report.page import html
from grader.report.text import terminal
from tests.hostile import without_our_script
from tests.records import samples
from tests.report.test_html import TAGS, Page

pytestmark = pytest.mark.process

needs_matplotlib = pytest.mark.skipif(not chart.installed(), reason="matplotlib is not installed")

OVER_LENGTH = Curves("Skv", "tflops", ("D", "causal"), "torch_eager", "standard attention")
BAND = ("sdpa_flash", 0.25, 1.0)


def attention(length: int, width: int, causal: int, *, tokens: int = 1 << 14, **more: Any) -> SizeTiming:
    """One length of attention: times that grow quadratically, and memory that does so only for eager torch."""
    batches, heads = tokens // length, 2048 // width
    operations = 4.0 * batches * 2048 * length**2 / (1 + causal)
    reached = {"sdpa_flash": 640, "sdpa_cudnn": 700, "submission": 560, "torch_eager": 46 / (1 + causal)}
    slow = 1 + 700 / length
    times = {name: slow * operations / tflops / (width / 128) ** 0.3 / 1e6 for name, tflops in reached.items()}
    case: dict[str, int | float | bool | str] = {"B": batches, "Skv": length, "D": width, "causal": causal}
    case |= {"dtype": "bfloat16" if width == 128 else "float16", "values": "normal"}
    size = samples.size(case, times, moved=8.0 * tokens * 2048, operations=operations, noise=0.01, band=BAND, **more)
    inputs = 2 * tokens * 2048
    peaks = {
        "submission": inputs + 4 * batches * heads * length,
        "sdpa_flash": inputs,
        "sdpa_cudnn": 2 * inputs,
        "torch_eager": 3 * batches * heads * length**2,
    }
    return dataclasses.replace(
        size, contenders=tuple(dataclasses.replace(one, peak_bytes=peaks[one.name]) for one in size.contenders)
    )


def attention_speed(**more: Any) -> Speed:
    """Twelve sizes in four panels, and one that is over too soon."""
    short = "too short: the baseline takes 8.1 µs, and 10 are needed"
    sizes = (
        attention(1024, 128, 0, tokens=1024, judged=False, reason=short, method="graph"),
        *(
            attention(length, width, causal)
            for width in (128, 64)
            for causal in (0, 1)
            for length in (1024, 4096, 16384)
        ),
    )
    baselines = (
        Baseline("sdpa_flash", "FlashAttention (SDPA)"),
        Baseline("torch_eager", "eager torch"),
        Baseline("sdpa_cudnn", "cuDNN attention (SDPA)"),
        Baseline("flash_attention_4", "FlashAttention-4", "flash-attn is not installed"),
    )
    given = {"baselines": baselines, "gpu": samples.COOL, "curves": OVER_LENGTH, **more}
    return samples.speed_of(sizes, BAND, **given)


def record_of(speed: Speed) -> Record:
    """One timed check of one part."""
    check = samples.check("attention_forward.speed", "Speed", "pass", 10.2, 13, speed=speed)
    return samples.record((check,), (samples.PartInfo("attention_forward", "Attention, forward"),), env=samples.H200)


def drawn(curve: curves.Curve | None) -> ElementTree.Element:
    assert curve is not None
    return ElementTree.fromstring(str(curve.drawing))


def texts(curve: curves.Curve | None) -> list[str]:
    """Return every text of a figure, in drawing order."""
    return [unescape("".join(text.itertext())) for text in drawn(curve).iter("text")]


def asked(speed: Speed, **changes: Any) -> Speed:
    """The same measurements, drawn otherwise."""
    assert speed.curves is not None
    return dataclasses.replace(speed, curves=dataclasses.replace(speed.curves, **changes))


def with_cases(speed: Speed, change: Callable[[SizeTiming], dict[str, Any]]) -> Speed:
    sizes = tuple(dataclasses.replace(size, case={**size.case, **change(size)}) for size in speed.sizes)
    return dataclasses.replace(speed, sizes=sizes)


def with_peaks(speed: Speed, peak: Callable[[SizeTiming, str], int]) -> Speed:
    sizes = tuple(
        dataclasses.replace(
            size,
            contenders=tuple(dataclasses.replace(one, peak_bytes=peak(size, one.name)) for one in size.contenders),
        )
        for size in speed.sizes
    )
    return dataclasses.replace(speed, sizes=sizes)


# -- the sentence ----------------------------------------------------------------------------------------------------


def test_the_sentence_tells_of_the_longest_size_over_all_panels() -> None:
    assert speed_axis.sentence(attention_speed()) == (
        "At Skv=16384: 12.2 to 24.3× the speed of standard attention, "
        "65 to 66 MiB of memory instead of 12 to 24 GiB (1/189 to 1/372)"
    )


def test_panels_that_agree_are_told_in_one_number() -> None:
    speed = attention_speed()
    one = dataclasses.replace(speed, sizes=speed.sizes[:4])

    assert speed_axis.sentence(one) == (
        "At Skv=16384: 12.2× the speed of standard attention, 65 MiB of memory instead of 12 GiB (1/189)"
    )


def test_memory_that_is_large_enough_is_told_in_the_unit_of_the_others() -> None:
    speed = with_peaks(attention_speed(), lambda _, name: 140_000_000 if name == "submission" else 27_700_000_000)

    assert speed_axis.sentence(speed).endswith("0.13 GiB of memory instead of 25.8 GiB (1/198)")


def test_without_memory_figures_the_sentence_tells_of_speed_alone() -> None:
    speed = with_peaks(attention_speed(), lambda _, name: -1 if name == "submission" else 1 << 30)

    assert speed_axis.sentence(speed) == "At Skv=16384: 12.2 to 24.3× the speed of standard attention"


def test_where_the_versus_did_not_run_the_next_shorter_size_is_told_of() -> None:
    speed = attention_speed()
    sizes = tuple(
        dataclasses.replace(size, contenders=size.contenders[:-1]) if size.case["Skv"] == 16384 else size
        for size in speed.sizes
    )
    assert sizes[-1].contenders[-1].name == "submission"

    assert speed_axis.sentence(dataclasses.replace(speed, sizes=sizes)).startswith(
        "At Skv=4096: 12.2 to 24.3× the speed"
    )


def test_a_versus_without_a_title_is_called_as_in_the_tables() -> None:
    assert "the speed of eager torch, " in speed_axis.sentence(asked(attention_speed(), versus_title=""))


@pytest.mark.parametrize("versus", ["", "unknown", "submission", "flash_attention_4"])
def test_without_a_versus_that_ran_there_is_no_sentence(versus: str) -> None:
    assert speed_axis.sentence(asked(attention_speed(), versus=versus)) == ""


def test_one_size_is_enough_for_the_sentence_and_too_few_for_a_curve() -> None:
    speed = dataclasses.replace(attention_speed(), sizes=attention_speed().sizes[1:2])

    assert speed_axis.sentence(speed).startswith("At Skv=1024: 12.2× the speed of standard attention, ")
    assert curves.speeds(speed, "a") is None
    assert curves.memory(speed, "a") is None


@pytest.mark.parametrize(
    ("own", "other", "words"),
    [
        (10, 1984, "1/198"),
        (10, 32, "1/3.2"),
        (100, 112, "1/1.1"),
        (100, 102, "1/1.02"),
        (7, 7, "as much"),
        (15, 10, "1.5×"),
    ],
)
def test_what_is_saved_is_a_fraction_and_what_is_spent_a_multiple(own: int, other: int, words: str) -> None:
    assert speed_axis.saving(own, other) == words


# -- panels ----------------------------------------------------------------------------------------------------------


def test_panels_stand_in_the_order_of_the_suite_and_sizes_in_that_of_the_axis() -> None:
    speed = attention_speed()
    found = speed_axis.axis_of(dataclasses.replace(speed, sizes=speed.sizes[::-1]))

    assert found is not None
    assert [panel.words for panel in found.panels] == [
        f"D={width}, causal={causal}" for width in (64, 128) for causal in (1, 0)
    ]
    assert [stop.at for stop in found.panels[0].stops] == [1024, 4096, 16384]


def test_a_judged_size_goes_before_its_replay_and_the_replay_before_one_that_launches_rule() -> None:
    found = speed_axis.axis_of(attention_speed())
    short = dataclasses.replace(
        attention_speed(), sizes=tuple(dataclasses.replace(size, judged=False) for size in attention_speed().sizes)
    )
    shown = speed_axis.axis_of(short)
    lonely = speed_axis.axis_of(dataclasses.replace(attention_speed(), sizes=attention_speed().sizes[:1]))

    assert found is not None
    assert lonely is not None
    assert found.panels[0].stops[0].size.method == "stream"
    assert shown is not None
    first = shown.panels[0].stops[0]
    assert (first.size.method, first.with_memory.method) == ("graph", "stream")
    assert lonely.panels[0].stops[0].size.method == "graph"


def test_sizes_without_the_axis_are_left_to_the_table() -> None:
    speed = attention_speed()
    bare = dataclasses.replace(speed.sizes[1], case={"D": 128, "causal": 0})
    found = speed_axis.axis_of(dataclasses.replace(speed, sizes=(bare, *speed.sizes[2:])))

    assert found is not None
    assert [stop.at for stop in found.panels[0].stops] == [4096, 16384]
    assert speed_axis.axis_of(dataclasses.replace(speed, sizes=(bare,))) is None


@pytest.mark.parametrize(
    ("values", "marks"),
    [
        (("short", "long"), {0.0: "short", 1.0: "long"}),
        ((True, False), {0.0: "not Skv", 1.0: "Skv"}),
        ((3, 0), {0.0: "0", 1.0: "3"}),
        ((8, 1.5), {1.5: "1.5", 8.0: "8"}),
        ((-1, 10**400), {0.0: "-1", 1.0: "1" + "0" * 11 + " … 377 characters cut … " + "0" * 12}),
        ((float("nan"), 4), {4.0: "4"}),
    ],
)
def test_what_a_logarithmic_axis_cannot_hold_stands_in_its_order(values: tuple, marks: dict[float, str]) -> None:
    speed = attention_speed()
    sizes = tuple(
        dataclasses.replace(size, case={"Skv": value}) for size, value in zip(speed.sizes, values, strict=False)
    )
    found = speed_axis.axis_of(dataclasses.replace(speed, sizes=sizes))

    assert found is not None
    assert list(found.marks.items()) == list(marks.items())


# -- figures ---------------------------------------------------------------------------------------------------------


@needs_matplotlib
def test_the_speed_figure_has_a_titled_panel_for_each_combination_and_one_legend() -> None:
    shown = texts(curves.speeds(attention_speed(), "a"))

    for words in (*(f"D={width}, causal={causal}" for width in (64, 128) for causal in (0, 1)), "standard attention"):
        assert shown.count(words) == 1, words
    # Under the lowest panel of each of the two columns.
    assert shown.count("16384") == shown.count("Skv") == 2
    assert shown.count("TFLOP/s") == 2
    assert "FlashAttention (SDPA)" in shown
    assert "FlashAttention-4" not in shown


@needs_matplotlib
def test_a_contender_looks_alike_in_both_figures() -> None:
    speed = attention_speed()
    other = str(plots.ratios(speed, "a")), str(curves.speeds(speed, "b"))
    looks = chart.looks(speed)

    assert looks["torch_eager"] != looks["sdpa_cudnn"]
    assert len({look.marker for look in looks.values()}) == len({look.dash for look in looks.values()}) == 4
    for variable in ("--own", "--s1", "--s2"):
        assert all(variable in figure for figure in other)
    assert "--s3" not in other[0] + other[1]


@needs_matplotlib
@pytest.mark.parametrize(
    ("quantity", "unit", "begins"),
    [
        ("tflops", "TFLOP/s", "Speed over Skv; higher is faster."),
        ("tbps", "TB/s", "Speed over Skv; higher is faster."),
        ("time", "µs", "Time of a call over Skv; lower is faster."),
    ],
)
def test_the_quantity_that_the_band_asks_for_is_drawn(quantity: str, unit: str, begins: str) -> None:
    curve = curves.speeds(asked(attention_speed(), quantity=quantity), "a")

    assert unit in texts(curve)
    assert curve is not None
    assert curve.caption.startswith(begins)
    assert ("0" in texts(curve)) == (quantity != "time")


@needs_matplotlib
def test_the_memory_figure_names_the_part_that_is_left_and_whose_claim_it_is() -> None:
    curve = curves.memory(attention_speed(), "a")

    assert curve is not None
    assert speed_axis.COUNTED in curve.caption
    assert [text for text in texts(curve) if text.startswith("1/")] == ["1/189", "1/189", "1/372", "1/372"]
    assert "64 MiB" in texts(curve)
    assert "16 GiB" in texts(curve)


@needs_matplotlib
def test_memory_that_is_the_same_in_all_panels_is_drawn_once() -> None:
    speed = with_peaks(
        attention_speed(), lambda size, name: int(size.case["Skv"]) << (12 if name == "submission" else 20)
    )
    curve = curves.memory(speed, "a")

    assert curve is not None
    assert "It is the same in all panels." in curve.caption
    assert [text for text in texts(curve) if text.startswith(("1/", "D="))] == ["1/256"]


@needs_matplotlib
@pytest.mark.parametrize("known", [{"submission"}, {"torch_eager"}, set()])
def test_without_the_memory_of_both_there_is_no_memory_figure(known: set[str]) -> None:
    speed = with_peaks(attention_speed(), lambda _, name: 1 << 30 if name in known else -1)

    assert curves.memory(speed, "a") is None
    assert curves.memory(asked(attention_speed(), versus=""), "a") is None


@needs_matplotlib
def test_a_seventh_panel_is_left_to_the_tables_and_that_is_said() -> None:
    speed = attention_speed()
    sizes = tuple(
        dataclasses.replace(size, case={**size.case, "Hq": heads}) for heads in (1, 16) for size in speed.sizes[1:]
    )
    many = asked(dataclasses.replace(speed, sizes=sizes), apart=("Hq", "D", "causal"))

    for curve in (curves.speeds(many, "a"), curves.memory(many, "b")):
        assert curve is not None
        assert curve.caption.endswith("The tables hold 2 more panels.")
        assert sum(text.startswith("Hq=") for text in texts(curve)) == curves.MOST_PANELS


@needs_matplotlib
def test_of_forty_sizes_as_many_are_named_as_there_is_room_for() -> None:
    sizes = tuple(attention(128 * i, 128, 0, tokens=512 * i) for i in range(1, 41))
    shown = texts(curves.speeds(dataclasses.replace(attention_speed(), sizes=sizes), "a"))
    named = [text for text in shown if text.isdecimal() and int(text) % 128 == 0 and int(text)]

    assert named[0] == "128"
    assert named[-1] == "5120"
    assert 6 <= len(named) <= 12


@needs_matplotlib
def test_the_figures_say_in_sentences_what_they_show() -> None:
    speed = attention_speed()
    words = [drawn(curve).get("aria-label", "") for curve in (curves.speeds(speed, "a"), curves.memory(speed, "b"))]

    assert words[0].startswith("Speed over Skv in TFLOP/s: the submission at D=128, causal=0: 333 to 537; D=128, ")
    assert words[1].startswith(
        f"Memory of a call over Skv, {speed_axis.COUNTED}: the submission at D=128, causal=0: 65 MiB;"
    )
    for text in words:
        assert speed_axis.sentence(speed) in text
        assert text.endswith("The table holds the numbers.")


@needs_matplotlib
@pytest.mark.parametrize("draw", [curves.speeds, curves.memory])
def test_a_figure_over_an_axis_has_no_colour_of_its_own(draw: Callable[[Speed, str], curves.Curve | None]) -> None:
    curve = draw(attention_speed(), "a")

    assert curve is not None
    assert not re.search(r"#[0-9a-f]{6}|rgb|url\(|font-family", str(curve.drawing))
    assert "var(--own)" in curve.drawing


# -- reports ---------------------------------------------------------------------------------------------------------


@needs_matplotlib
def test_the_card_tells_the_sentence_before_the_figures_and_marks_the_claim() -> None:
    text = html.render(record_of(attention_speed()))
    page = Page(text)
    sentence = speed_axis.sentence(attention_speed())

    assert page.text.count(sentence) == 2
    assert text.index('class="along"') < text.index("<figure>") < text.index("<caption>")
    assert page.tags.count("figure") == 4
    assert set(page.tags) <= TAGS
    assert f"memory {speed_axis.COUNTED}" in page.text
    assert len(set(page.values("id"))) == len(page.values("id"))
    assert {value[1:] for value in page.values("href")} <= set(page.values("id"))


def test_the_terminal_tells_the_sentence_under_the_headline() -> None:
    sentence = speed_axis.sentence(attention_speed())
    failed = samples.check("product.tail", "Right for tails", "fail", reason="No.")
    record = record_of(attention_speed())
    brief = dataclasses.replace(record, checks=(failed, *record.checks))

    for shown in (record, brief):
        lines = " ".join(terminal.render(shown, width=400).split())
        assert f"full marks from 1.00 at each {sentence} " in lines
    assert "12.2 to 24.3x the speed" in terminal.render(record, ascii_only=True)


def test_without_curves_nothing_is_told_or_drawn() -> None:
    speed = dataclasses.replace(attention_speed(), curves=None)

    assert speed_axis.sentence(speed) == ""
    assert curves.speeds(speed, "a") is None
    assert 'class="along"' not in html.render(record_of(speed))


def test_a_page_that_must_be_small_has_neither_figure() -> None:
    page = Page(html.render(record_of(attention_speed()), most_bytes=60_000))

    assert "figure" not in page.tags
    assert speed_axis.sentence(attention_speed()) in page.text


@needs_matplotlib
def test_every_text_of_the_curves_is_shown_as_text() -> None:
    speed = with_cases(attention_speed(), lambda size: {samples.HOSTILE: size.case["Skv"], "D": samples.HOSTILE})
    hostile = asked(speed, over=samples.HOSTILE, apart=("D", samples.HOSTILE[:20]), versus_title=samples.HOSTILE)
    text, shown = html.render(record_of(hostile)), terminal.render(record_of(hostile))

    assert "<script" not in without_our_script(text)
    assert "<img" not in text
    assert Page(text).open == []
    assert Page(text).tags.count("figure") == 4
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]", text + shown)
    assert not [entry for entry in shown.splitlines() if entry.lstrip().startswith("::")]


def test_a_record_with_curves_survives_the_round_trip() -> None:
    record = record_of(attention_speed())

    assert from_json(to_json(record)) == record


# -- records that no measurement gives -------------------------------------------------------------------------------

NUMBERS = st.one_of(
    st.sampled_from([0.3, 1e-5, 7.0, 1e7]), st.sampled_from([0.0, -1.0, 5e-324, 1e308, float("nan"), float("inf")])
)
PEAKS = st.one_of(st.sampled_from([1, 2, 1 << 35, 1 << 50]), st.sampled_from([-1, 0, 10**400]))
PLACES = st.sampled_from([1, 2, 4096, 1.5, 1e-9, 5e-324, -1, 0, 10**400, True, "long", "", float("nan")])


@st.composite
def odd_speeds(draw: st.DrawFn) -> Speed:
    """Few places and panels, so that sizes meet; numbers of any kind."""
    sizes = []
    places = draw(st.lists(PLACES, min_size=2, max_size=6))
    for size in attention_speed().sizes[: draw(st.integers(4, 13))]:
        rows = tuple(
            dataclasses.replace(
                one,
                median_us=draw(NUMBERS),
                tflops=draw(NUMBERS),
                tbps=draw(NUMBERS),
                peak_bytes=draw(PEAKS),
            )
            for one in size.contenders[draw(st.integers(0, 1)) :]
        )
        case = {"Skv": draw(st.sampled_from(places)), "D": draw(st.sampled_from([64, None]))}
        case = {name: value for name, value in case.items() if value is not None}
        sizes.append(dataclasses.replace(size, case=case, contenders=rows, floor_us=draw(NUMBERS)))
    quantity = draw(st.sampled_from(["tflops", "tbps", "time"]))
    versus = draw(st.sampled_from(["torch_eager", "torch_eager", "sdpa_flash", "unknown", "submission", ""]))
    drawn_over = Curves(draw(st.sampled_from(["Skv", "Skv", "D"])), quantity, ("D",), versus, draw(st.text(max_size=4)))
    return dataclasses.replace(attention_speed(), sizes=tuple(sizes), curves=drawn_over)


@needs_matplotlib
@settings(max_examples=60, deadline=None)
@given(odd_speeds())
def test_any_numbers_along_any_axis_are_drawn_or_left_out(speed: Speed) -> None:
    found = [curves.speeds(speed, "a"), curves.memory(speed, "b")]

    for curve in found:
        assert curve is None or not re.search(r"\b(nan|inf)\b", curve.drawing)
    assert "nan" not in speed_axis.sentence(speed) + "".join(curve.caption for curve in found if curve)
