"""Speed in every report: the verdict in one line, honest tallies, figures that any page can hold, and odd numbers."""

from __future__ import annotations

import dataclasses
import re
import sys
from html import unescape
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grader.exercise.curves import Curves
from grader.record.checks import CheckResult
from grader.record.record import Record, from_json, to_json
from grader.record.speed import Configuration, Contender, SizeTiming, Speed, Tuned
from grader.report import junit, tuned, view
from grader.report import speed as timing
from grader.report.figures import chart, gauge, plots
from grader.report.page import html, speedcard
from grader.report.text import terminal
from tests.hostile import without_our_script
from tests.records import flat, samples, widest
from tests.report.test_html import Page

pytestmark = pytest.mark.process

needs_matplotlib = pytest.mark.skipif(not chart.installed(), reason="matplotlib is not installed")


def record_of(speed: Speed, points: float = 7, status: str = "pass") -> Record:
    """One timed check of one part."""
    check = samples.check("row_softmax.speed", "Speed", status, points, 7, speed=speed)  # type: ignore[arg-type]
    return samples.record((check,), (samples.SOFTMAX,), env=samples.H200)


def changed(speed: Speed, **changes: object) -> Speed:
    return dataclasses.replace(speed, **changes)  # type: ignore[arg-type]


# -- words -----------------------------------------------------------------------------------------------------------


def test_the_headline_says_how_fast_relative_to_what_how_sure_and_where_the_bar_is() -> None:
    assert timing.headline(samples.gemm_speed()) == (
        "0.81× the speed of cuBLAS, 95% interval 0.80 to 0.82 over 7 judged sizes; full marks from 0.90 at each"
    )


def test_a_narrow_interval_gets_the_decimals_that_show_it() -> None:
    assert "95% interval 0.556 to 0.560" in timing.headline(samples.softmax_speed(1.6))


def test_the_headline_below_the_floor_says_where_points_begin() -> None:
    slow = changed(samples.gemm_speed(), ratio=0.12, ratio_low=0.11, ratio_high=0.13)

    assert timing.headline(slow).endswith("points begin above 0.30, full marks from 0.90 at each")


def test_without_a_judged_size_there_is_no_ratio_and_the_headline_says_so() -> None:
    assert timing.headline(samples.unit_speed("cuBLAS")) == (
        "no ratio to cuBLAS: no size could be judged; full marks from 0.90"
    )


@pytest.mark.parametrize(
    ("value", "words"), [(0.8961, "0.896"), (0.90, "0.90"), (0.8996, "0.8996"), (0.2961, "0.296"), (12.5, "12.50")]
)
def test_a_ratio_is_not_rounded_onto_a_bar_that_it_missed_without_more_decimals(value: float, words: str) -> None:
    assert timing.times(value, 0.3, 0.9) == words


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (7.4, "7.40 µs"),
        (219.0, "219 µs"),
        (999.7, "1.00 ms"),
        (1610, "1.61 ms"),
        (2.5e6, "2.50 s"),
        (0, "–"),
        (-3, "–"),
    ],
)
def test_a_time_has_three_digits_and_the_unit_that_suits_it(value: float, words: str) -> None:
    assert timing.duration(value) == words


@pytest.mark.parametrize(
    ("share", "words"), [(0, "0%"), (0.004, "under 1%"), (0.5, "50%"), (0.996, "99%"), (1, "100%"), (1.04, "104%")]
)
def test_a_share_is_whole_only_when_everything_is_meant(share: float, words: str) -> None:
    assert timing.percent(share) == words


def test_sizes_are_named_by_what_varies_and_equal_lengths_are_said_together() -> None:
    sizes = samples.gemm_speed().sizes

    assert timing.size_words(sizes)[4:7] == ("M=N=K=8192", "M=16, N=K=4096", "M=N=512, K=16384")
    assert timing.common_words(sizes) == "bfloat16, normal"
    assert timing.size_words(samples.unsteady_speed().sizes) == ("N=2^23", "N=2^26")


def test_flags_and_words_of_a_case_stand_for_themselves() -> None:
    size = samples.gemm_speed().sizes[0]
    cases = ({"causal": True, "layout": "plain"}, {"causal": False, "layout": "transposed"})
    sizes = [dataclasses.replace(size, case=case) for case in cases]

    assert timing.size_words(sizes) == ("causal, plain", "not causal, transposed")


def test_what_stands_beside_is_compared_with_the_submission_over_the_judged_sizes() -> None:
    (compiled,) = timing.beside(samples.gemm_speed())

    assert compiled.words == "1.20× the speed of torch.compile, max-autotune"
    assert compiled.sizes == 7


def test_remarks_are_said_once_with_the_sizes_that_they_concern() -> None:
    assert [(remark.label, remark.text[:14]) for remark in timing.remarks(samples.gemm_speed())] == [
        ("Shown, not judged (graph, M=N=K=512; M=N=K=1024)", "too short: the"),
        ("Finding (M=N=512, K=16384)", "the GPU's even"),
    ]
    assert timing.remarks(samples.unsteady_speed())[0].label == "Undecided (all sizes)"


def test_baselines_and_notes_without_room_are_counted() -> None:
    speed = samples.gemm_speed()
    size, of_gemm = speed.sizes[0], speed.baselines[0]
    names = [f"b{place}" for place in range(9)]
    beside = [dataclasses.replace(size.contenders[-1], name=name) for name in names]
    absent = [dataclasses.replace(of_gemm, name=name, missing="no GPU") for name in names]
    notes = tuple(f"finding {place}" for place in range(6))
    wide = dataclasses.replace(size, contenders=(size.contenders[0], *beside), notes=notes)
    record = record_of(changed(speed, sizes=(wide,), baselines=tuple(absent), baseline="b0"))

    assert timing.remarks(samples.gemm_speed())[-1].kind == "note"
    assert "Left out the JSON record has 2 more baselines and 2 more notes on sizes" in Page(html.render(record)).text
    assert "2 more remarks are on the scorecard" in terminal.render(record)


def test_a_range_of_times_says_its_unit_once() -> None:
    assert timing.durations(218, 220.2) == "218 to 220 µs"
    assert timing.durations(990, 1010) == "990 µs to 1.01 ms"
    assert timing.durations(-1, 5) == "– to 5.00 µs"


def test_a_remark_about_many_sizes_counts_the_rest() -> None:
    assert timing.Remark("note", "x", tuple("abcdef")).label == "Finding (a; b; c; d; 2 more)"
    assert timing.Remark("note", "x", tuple("abcde")).label == "Finding (a; b; c; d; e)"


def test_the_gpu_line_names_ranges_and_what_slowed_it_down() -> None:
    assert timing.gpu_words(samples.GPU_STATE) == (
        "SM 1755 to 1980 MHz, memory 3201 MHz, 41 to 63 °C, 318 to 694 W; slowed down by: software power cap"
    )
    assert timing.gpu_words(samples.COOL).endswith("not slowed down")


# -- partial points --------------------------------------------------------------------------------------------------


def test_a_pass_without_all_points_never_looks_like_a_pass() -> None:
    record = record_of(samples.softmax_speed(1.6), points=3.2)
    page = Page(html.render(record))

    assert "◐  partly passed" in terminal.render(record)
    assert "/  partly passed" in terminal.render(record, ascii_only=True)
    assert "3.2/7" in terminal.render_check(record.checks[0])
    assert "partly passed" in terminal.render_check(record.checks[0])
    assert "✓" not in terminal.render(record) + page.text
    assert view.verdict_words(record) == "passed, not with all points"
    assert "◐ passed, not with all points" in page.text


def test_a_pass_in_part_is_not_hidden_among_full_passes() -> None:
    failed = samples.check("product.tail", "Right for tails", "fail", reason="No.")
    partly = samples.check("row_softmax.speed", "Speed", "pass", 3.2, 7, speed=samples.softmax_speed(1.6))
    others = tuple(samples.check(f"row_softmax.{name}", "Right", points=1) for name in ("full", "tail"))
    text = terminal.render(samples.record((failed, *others, partly), (samples.PRODUCT, samples.SOFTMAX)))

    assert "◐  partly passed    Speed" in text
    assert "✓  passed           2 checks: full, tail" in text


# -- terminal --------------------------------------------------------------------------------------------------------


def test_the_terminal_shows_headline_sizes_remarks_beside_absent_and_gpu() -> None:
    text = flat(terminal.render(samples.timed()))

    for words in (
        "◐ 0.81× the speed of cuBLAS, 95% interval 0.80 to 0.82 over 7 judged sizes; full marks from 0.90 at each",
        "size time ratio rate roofline points",
        "M=N=K=4096 219 µs 0.881 [0.874, 0.888] 628 TFLOP/s 88% 97%",
        "M=16, N=K=4096 21.8 µs 0.693 [0.687, 0.698] 1.55 TB/s 36% 65%",
        "graph, M=N=K=512 7.40 µs 0.932 [0.895, 0.970] 36.3 TFLOP/s 5% –",
        "Shown, not judged (graph, M=N=K=512; M=N=K=1024): too short: the baseline takes 9.2 µs",
        "Finding (M=N=512, K=16384): the GPU's events say 61 µs, the grader's own clock at least 68 µs: that counts",
        "Beside: 1.20× the speed of torch.compile, max-autotune",
        "Method: timed as CUDA-graph replay at M=N=K=512: launch overhead cannot be hidden there",
        "Absent: XLA: jax is not installed",
        "slowed down by: software power cap",
    ):
        assert words in text, words


def test_a_baseline_that_took_another_s_place_is_named_with_the_reason_in_every_report() -> None:
    why = "Measured against eager torch, because cuBLAS cannot run here: RuntimeError: no kernel"
    speed = dataclasses.replace(samples.gemm_speed(), fallback=why)
    assert f"Baseline: {why}" in flat(terminal.render(record_of(speed), width=200))
    assert why in Page(html.render(record_of(speed))).text
    assert "Baseline:" not in terminal.render(record_of(samples.gemm_speed()))


def test_an_undecided_check_shows_its_measurements_all_the_same() -> None:
    text = flat(terminal.render(samples.timed()))

    assert "≈ 0.72× the speed of torch's addition, 95% interval 0.40 to 1.05 over 2 judged sizes" in text
    assert "Absent: a CUDA C++ kernel: no nvrtc in this environment" in text


def test_full_marks_need_no_more_than_a_headline_a_table_and_what_stands_beside() -> None:
    text = terminal.render(samples.fast())

    assert "✓ 0.89× the speed of a device copy" in text
    assert "GPU: SM" not in text
    assert len(text.splitlines()) <= 24


def test_beside_a_failure_a_part_without_trouble_gets_the_headline_alone() -> None:
    failed = samples.check("product.tail", "Right for tails", "fail", reason="No.")
    fast = samples.fast().checks
    text = terminal.render(samples.record((failed, *fast), (samples.PRODUCT, samples.SOFTMAX), env=samples.H200))

    assert "✓ 0.89× the speed of a device copy" in text
    assert "M=16384" not in text


def test_too_slow_is_told_by_its_measurements_not_by_a_second_card() -> None:
    slow = changed(samples.gemm_speed(), ratio=0.12, ratio_low=0.11, ratio_high=0.13)
    record = record_of(slow, 0, "fail")
    record = dataclasses.replace(record, checks=(dataclasses.replace(record.checks[0], reason="Below the band."),))
    text = terminal.render(record)

    assert text.count("Below the band.") == 1
    assert "✗ 0.12× the speed of cuBLAS" in text


@pytest.mark.parametrize("width", [30, 40, 60, 80, 100, 200])
@pytest.mark.parametrize("ascii_only", [False, True])
def test_the_table_fits_any_width_and_never_loses_the_ratio(width: int, ascii_only: bool) -> None:
    text = terminal.render(samples.timed(), width=width, ascii_only=ascii_only)

    assert widest(text) <= width
    assert "…" not in text
    assert width < 40 or re.search(r"219 .s +0\.88", text)


def test_a_record_without_speed_looks_as_before() -> None:
    assert "the speed of" not in terminal.render(samples.passing())
    assert 'id="speed"' not in html.render(samples.passing())
    assert "<svg" not in html.render(samples.passing())


# -- scorecard -------------------------------------------------------------------------------------------------------


def test_the_page_begins_with_the_speed_of_every_part() -> None:
    page = Page(html.render(samples.timed()))
    summary = page.text.partition("Objectives")[0]

    assert "Matrix product 0.81× the speed of cuBLAS 95% interval 0.80 to 0.82" in summary
    assert "0.72× the speed of torch's addition" in summary
    assert "◐ partly passed 5.82/7" in summary


def test_the_card_shows_every_contender_at_every_size() -> None:
    text = Page(html.render(samples.timed())).text

    for words in (
        "0.81 × the speed of cuBLAS , 95% interval 0.80 to 0.82 over 7 judged sizes",
        "M=N=K=4096 219 µs 0.881 [0.874, 0.888] 0.460 628 88% 97%",
        "M=N=K=4096 60 rounds, at best 193 µs (compute)",
        "submission 219 µs 218 to 220 µs 0.881 [0.874, 0.888]",
        "cuBLAS 193 µs 192 to 194 µs 1 0.522 712 99%",
        "torch.compile, max-autotune 232 µs",
        "CUDA-graph replay, 60 rounds",
        "Absent: XLA jax is not installed",
        "GPU while timing SM 1755 to 1980 MHz",
        "in alternation with the baselines, on fresh inputs, with cold caches: docs/timing.md",
        "all sizes: bfloat16, normal",
    ):
        assert words in text, words


def test_what_was_measured_is_open_whatever_it_came_to() -> None:
    def opened(record: Record) -> int:
        return len(re.findall(r'class="check" id="[^"]*" open', html.render(record)))

    for record in (samples.fast(), samples.timed()):
        assert opened(record) == sum(check.speed is not None for check in record.checks) > 0


def test_a_page_with_speed_is_the_same_every_time() -> None:
    assert html.render(samples.timed()) == html.render(samples.timed())


def test_without_matplotlib_the_card_says_so_and_keeps_its_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [*[name for name in sys.modules if name.partition(".")[0] == "matplotlib"], "matplotlib"]:
        monkeypatch.setitem(sys.modules, name, None)
    page = Page(html.render(samples.timed()))

    assert speedcard.NO_MATPLOTLIB in page.text
    assert "M=N=K=4096 219 µs 0.881 [0.874, 0.888] 0.460 628 88% 97%" in page.text
    assert "figure" not in page.tags


@needs_matplotlib
def test_what_no_figure_can_show_is_said_in_words() -> None:
    unmeasured = changed(samples.gemm_speed(), ceilings=None)
    uncounted = changed(samples.unit_speed("x"), ceilings=samples.CEILINGS)

    assert "this GPU's ceilings were not measured" in Page(html.render(record_of(unmeasured))).text
    assert (
        "no size has counts of both bytes and floating-point operations" in Page(html.render(record_of(uncounted))).text
    )


# -- autotuned launches ------------------------------------------------------------------------------------------------


def with_tuned(*launches: Tuned) -> Speed:
    """One size, at which these launches were tuned."""
    (size, *_) = samples.softmax_speed().sizes[1:]
    return changed(samples.softmax_speed(), sizes=(dataclasses.replace(size, tuned=launches),))


def configurations(*times_us: float, chosen: int = 0) -> Tuned:
    rows = (Configuration(f"BLOCK={16 << i}", time, chosen=i == chosen) for i, time in enumerate(times_us))
    return Tuned("row_kernel", 12, tuple(rows))


def test_the_card_shows_what_an_autotuned_launch_chose_from_the_fastest_first() -> None:
    text = Page(html.render(record_of(with_tuned(configurations(30.0, -1.0, 15.0, 21.0, chosen=2))))).text

    assert "row_kernel, line 12: 4 configurations; 1 does not work" in text
    assert "BLOCK=64 chosen 15.0 µs 1.00× BLOCK=128 21.0 µs 1.40× BLOCK=16 30.0 µs 2.00× BLOCK=32 does not work" in text


def test_of_many_configurations_twelve_are_shown_and_the_chosen_one_is_among_them() -> None:
    (table,) = tuned.tables(with_tuned(configurations(*(10.0 + i for i in range(30)))))
    assert [row.words for row in table.rows] == [f"BLOCK={16 << i}" for i in range(12)]
    assert table.cut == 18
    assert "… and 18 more" in Page(html.render(record_of(with_tuned(configurations(*[1.0] * 30))))).text

    (slow,) = tuned.tables(with_tuned(configurations(*(10.0 + i for i in range(30)), chosen=20)))
    assert [row.words for row in slow.rows if row.chosen] == [f"BLOCK={16 << 20}"]
    assert (len(slow.rows), slow.cut) == (12, 18)


def test_the_terminal_says_in_a_line_what_was_chosen() -> None:
    speed = with_tuned(configurations(30.0, -1.0, 15.0, 21.0, chosen=2))

    assert (
        "Tuned (all sizes): BLOCK=64: the fastest of 4 configurations, 2.00× as fast as the slowest; 1 does not work"
        in flat(terminal.render(record_of(speed), width=200))
    )


def test_sizes_that_chose_the_same_are_said_together_and_launches_by_their_names() -> None:
    small, large, added = tuned.choices(samples.tuned_speed())

    assert small.label == "Tuned (graph, M=N=K=512; M=N=K=1024; M=N=K=2048)"
    assert small.text.startswith("matmul_kernel, line 57: BLOCK_M=32, BLOCK_N=128, num_warps=4: the fastest of 30")
    assert large.label == "Tuned (M=N=K=4096; M=N=K=8192; M=16, N=K=4096; M=N=512, K=16384; 2 more)"
    assert added.label == "Tuned (M=N=512, K=16384)"
    assert added.text == (
        "add_up_kernel, line 91: BLOCK_M=32, BLOCK_N=32, num_warps=8: the fastest of 3 configurations, "
        "1.06× as fast as the slowest"
    )


def test_the_terminal_says_how_many_choices_it_leaves_to_the_card() -> None:
    sizes = [
        dataclasses.replace(size, tuned=(configurations(*times),))
        for size, times in zip(samples.gemm_speed().sizes, [[float(9 - i)] * (i + 2) for i in range(9)], strict=True)
    ]
    text = terminal.render(record_of(changed(samples.gemm_speed(), sizes=tuple(sizes))))

    assert text.count("Tuned (") == 4
    assert "… 5 more choices are on the scorecard …" in text


def test_a_launch_with_one_configuration_has_chosen_nothing() -> None:
    speed = with_tuned(configurations(30.0))

    assert tuned.tables(speed) == tuned.choices(speed) == ()
    assert "Autotuned" not in html.render(record_of(speed))


def test_what_is_not_autotuned_has_no_table() -> None:
    assert "Autotuned" not in html.render(samples.timed())
    assert "Tuned" not in terminal.render(samples.timed())


def test_names_of_configurations_are_text_and_never_markup() -> None:
    hostile = Tuned(samples.HOSTILE, 1, (Configuration(samples.HOSTILE, 2.0, chosen=True), Configuration("b", 3.0)))
    page = html.render(record_of(with_tuned(hostile)))

    assert "<script>alert(1)" not in page
    assert "alert(1)" in Page(page).text
    assert "\x1b]0" not in terminal.render(record_of(with_tuned(hostile)))


@pytest.mark.parametrize("times", [(0.0, 5.0), (float("inf"), 5.0), (float("nan"), -3.0), (1e-320, 1e300)])
def test_times_that_no_clock_gives_are_shown_as_dashes(times: tuple[float, ...]) -> None:
    record = record_of(with_tuned(configurations(*times)))

    assert "inf" not in Page(html.render(record)).text.partition("Autotuned")[2]
    assert "nan" not in Page(html.render(record)).text.partition("Autotuned")[2]
    assert "the fastest of 2 configurations" in flat(terminal.render(record, width=200))


# -- figures ---------------------------------------------------------------------------------------------------------

FIGURES = [plots.ratios, plots.roofline]
SPEEDS = [samples.gemm_speed, samples.softmax_speed, samples.unsteady_speed, samples.hostile_speed]


@needs_matplotlib
@pytest.mark.parametrize("draw", FIGURES)
@pytest.mark.parametrize("speed", SPEEDS[:3])
def test_a_figure_has_no_colour_of_its_own_and_no_background(draw, speed) -> None:
    drawn = str(draw(speed(), "a"))

    assert not re.search(r"#[0-9a-f]{6}|rgb|url\(|font-family", drawn)
    assert "currentColor" in drawn
    assert {"var(--own)"} <= set(re.findall(r"var\(--\w+\)", drawn))


@needs_matplotlib
@pytest.mark.parametrize("draw", FIGURES)
def test_a_figure_says_in_a_sentence_what_it_shows(draw) -> None:
    root = ElementTree.fromstring(str(draw(samples.gemm_speed(), "a")))
    words = root.get("aria-label", "")

    assert root.get("role") == "img"
    assert words.endswith("The table holds the numbers.")
    wanted = {
        plots.ratios: "Ratio to cuBLAS over the sizes: the submission reaches 0.46 to 1.02 at 9 sizes; beside it "
        "torch.compile, max-autotune. Full marks from 0.90 at each size.",
        plots.roofline: "the submission reaches 24.6 to 683 TFLOP/s at 15.9 to 2731 floating-point operations per "
        "byte, under a memory roof of 4.27 TB/s and compute roofs of bfloat16 713 TFLOP/s.",
    }
    assert wanted[draw] in words


@needs_matplotlib
def test_figures_of_one_page_share_no_id() -> None:
    speed = samples.gemm_speed()
    drawn = plots.ratios(speed, "a") + plots.ratios(speed, "b") + plots.roofline(speed, "c")
    found = re.findall(r' id="([^"]*)"', drawn)

    assert len(found) == len(set(found))
    assert set(re.findall(r'href="#([^"]*)"', drawn)) <= set(found)


@needs_matplotlib
def test_contenders_differ_by_shape_and_not_by_colour_alone() -> None:
    root = ElementTree.fromstring(str(plots.ratios(samples.softmax_speed(), "a")))
    shapes = {re.sub(r"\s+", " ", path.get("d", "")) for path in root.iter("path") if path.get("id")}

    # The submission's diamond, a circle, a square, and the axis' tick.
    assert len(shapes) >= 4


@needs_matplotlib
def test_names_are_text_and_never_mathematics() -> None:
    speed = samples.gemm_speed()
    title = r"$\frac{1}{2}$ <b>&"
    named = dataclasses.replace(speed.baselines[1], title=title)
    drawn = plots.ratios(changed(speed, baselines=(speed.baselines[0], named)), "a")

    assert title in [unescape(text or "") for text in ElementTree.fromstring(str(drawn)).itertext()]
    assert "<b>" not in drawn


@needs_matplotlib
def test_drawing_leaves_the_settings_of_matplotlib_alone() -> None:
    import matplotlib

    before = dict(matplotlib.rcParams)
    plots.ratios(samples.gemm_speed(), "a")

    assert dict(matplotlib.rcParams) == before


@needs_matplotlib
def test_many_sizes_are_cut_in_every_report() -> None:
    speed = samples.gemm_speed()
    record = record_of(changed(speed, sizes=speed.sizes * 100), points=3)

    assert len(html.render(record)) < 400_000
    assert "860 more sizes are in the JSON record." in Page(html.render(record)).text
    assert "876 more sizes are in the record" in terminal.render(record)


# -- numbers that no measurement gives -------------------------------------------------------------------------------

NUMBERS = st.one_of(st.floats(), st.sampled_from([0.0, -0.0, 1e-320, 1e308, -1.0, 1.0, float("nan")]))
TEXTS = st.one_of(st.text(max_size=8), st.sampled_from(["$x$", "submission", "float16", "_hidden", ""]))
# No device has as much memory, or as little; and few enough axes for sizes to meet on one.
PEAKS = st.one_of(st.integers(), st.sampled_from([-1, 0, 1, 1 << 20, 1 << 40, 10**400]))
AXES = st.sampled_from(["$x$", "submission", "float16", ""])
VALUES = st.one_of(st.integers(), st.booleans(), st.floats(), TEXTS, st.sampled_from([1, 2, 1.5, 5e-324, 10**400]))


@st.composite
def speeds(draw: st.DrawFn) -> Speed:
    names = draw(st.lists(TEXTS, max_size=3)) + draw(st.sampled_from([[], ["submission"]]))

    def size() -> SizeTiming:
        rows = tuple(Contender(name, *(draw(NUMBERS) for _ in range(9)), draw(PEAKS)) for name in names)
        return dataclasses.replace(
            samples.gemm_speed().sizes[0],
            case=draw(st.dictionaries(st.one_of(AXES, TEXTS), VALUES, max_size=3)),
            method=draw(st.sampled_from(["stream", "graph"])),
            judged=draw(st.booleans()),
            share=draw(NUMBERS),
            floor_us=draw(NUMBERS),
            contenders=rows,
        )

    span = samples.Span(draw(NUMBERS), draw(NUMBERS))
    over, apart, versus = draw(AXES), draw(st.lists(AXES, max_size=2)), draw(st.sampled_from([*names, "", "unknown"]))
    quantity = draw(st.sampled_from(["tflops", "tbps", "time"]))
    return Speed(
        draw(TEXTS),
        draw(NUMBERS),
        draw(NUMBERS),
        draw(st.one_of(NUMBERS, TEXTS)),
        draw(st.one_of(NUMBERS, TEXTS)),
        draw(st.one_of(NUMBERS, TEXTS)),
        tuple(size() for _ in range(draw(st.integers(0, 4)))),
        tuple(samples.Baseline(name, draw(TEXTS), draw(TEXTS)) for name in names),
        ceilings=samples.Ceilings(draw(NUMBERS), draw(NUMBERS), {draw(TEXTS): draw(NUMBERS)}),
        gpu=dataclasses.replace(samples.COOL, sm_mhz=span),
        curves=draw(st.sampled_from([None, Curves(over, quantity, tuple(apart), versus, draw(TEXTS))])),
    )


@settings(max_examples=40, deadline=None)
@given(speeds())
def test_any_numbers_and_names_are_rendered(speed: Speed) -> None:
    record = record_of(speed, points=1)

    assert Page(html.render(record)).open == []
    assert widest(terminal.render(record, width=60)) <= 60
    ElementTree.fromstring(junit.render(record).encode("utf-8"))
    assert "nan" not in gauge.draw(speed)


def test_hostile_measurements_stay_text_in_every_report() -> None:
    record = record_of(samples.hostile_speed(), points=1)
    page = html.render(record)
    text = terminal.render(record)

    assert "<script" not in without_our_script(page) + junit.render(record)
    assert "<img" not in page
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]", page + text)
    assert not [entry for entry in text.splitlines() if entry.lstrip().startswith("::")]


def test_a_record_with_speed_survives_the_round_trip() -> None:
    for record in (samples.timed(), samples.fast(), samples.hostile("text")):
        assert from_json(to_json(record)) == record


def test_an_older_record_has_no_speed() -> None:
    old: CheckResult = samples.passing().checks[-1]

    assert old.speed is None
