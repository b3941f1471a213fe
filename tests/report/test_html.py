"""The scorecard: one file that loads nothing, runs nothing, and stays readable."""

from __future__ import annotations

import dataclasses
import itertools
import re
from html.parser import HTMLParser

import pytest

from grader.record.causes import Cause, Counterexample, Excerpt, Picture, Suspect
from grader.record.checks import CheckResult
from grader.record.record import Feedback, PrintedOutput, Record
from grader.record.verdicts import headline
from grader.report import by_hand, view
from grader.report.figures import picture
from grader.report.page import html
from grader.report.status import LOOKS
from tests.hostile import without_our_script
from tests.records import samples

pytestmark = pytest.mark.process

VOID = {"meta", "rect", "link", "img", "br", "input"}
TAGS = {
    *(
        "html",
        "head",
        "meta",
        "title",
        "style",
        "body",
        "main",
        "header",
        "section",
        "div",
        "span",
        "p",
        "h1",
        "h2",
        "h3",
        "h4",
    ),
    *("ul", "li", "dl", "dt", "dd", "table", "caption", "thead", "tbody", "tr", "th", "td", "details", "summary"),
    *("a", "b", "i", "small", "strong", "code", "pre", "bdi", "figure", "figcaption", "svg", "desc", "rect", "text"),
    *("g", "defs", "path", "use", "button", "script"),
}


class Page(HTMLParser):
    """A page as a browser parses it: elements, attributes, text, and whether all elements are closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.pieces: list[str] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] not in (["style"], ["script"]):
            self.pieces.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.pieces).split())

    def values(self, name: str) -> list[str]:
        return [value for _, attribute, value in self.attributes if attribute == name]


ALL = ("passing", "failing", "untouched", "every_status", "timed", "fast", "on_paper", "foretold", "covered", "hostile")


@pytest.mark.parametrize("name", ALL)
def test_the_page_holds_known_elements_only_and_closes_them_in_order(name: str) -> None:
    page = Page(html.render(getattr(samples, name)()))

    assert set(page.tags) <= TAGS
    assert page.open == []
    assert not [attribute for _, attribute, _ in page.attributes if attribute.startswith("on")]


@pytest.mark.parametrize("name", ALL)
def test_the_page_loads_nothing_and_links_only_within_itself(name: str) -> None:
    text = html.render(getattr(samples, name)())
    page = Page(text)

    assert not re.search(r"https?:|url\(|@import", text)
    assert not {attribute for _, attribute, _ in page.attributes} & {"src", "srcset", "action", "data", "poster"}
    assert {value[1:] for value in page.values("href")} <= set(page.values("id"))
    assert all(value.startswith("#") for value in page.values("href"))


@pytest.mark.parametrize("name", ALL)
def test_every_anchor_and_id_is_unique(name: str) -> None:
    identifiers = Page(html.render(getattr(samples, name)())).values("id")

    assert len(set(identifiers)) == len(identifiers)


def test_what_a_person_gave_stands_on_the_card_with_the_points_that_count() -> None:
    given = (Feedback("vector_add", "Clear.\n<script>", "prof", 1.0), Feedback("", "See me.", "ta"))
    record = dataclasses.replace(samples.failing(), feedback=given)
    page = Page(html.render(record))
    score, judged = by_hand.score(record)

    assert page.open == []
    assert f"From your instructor {view.points(score)} of {view.points(judged)} points count." in page.text
    assert "The whole exercise See me. ta Vector addition: 1 of" in page.text
    assert "points instead of" in page.text
    assert "Clear. <script> prof" in page.text
    assert "From your instructor" not in Page(html.render(samples.failing())).text


def test_every_check_has_an_anchor() -> None:
    record = samples.failing()

    assert {f"check-{check.id}" for check in record.checks} <= set(Page(html.render(record)).values("id"))


@pytest.mark.parametrize("name", ALL)
def test_the_headline_is_on_the_page(name: str) -> None:
    record = getattr(samples, name)()

    assert headline(record) in Page(html.render(record)).text


def test_every_status_is_a_word_beside_its_symbol() -> None:
    text = Page(html.render(samples.every_status())).text

    for look in LOOKS.values():
        assert f"{look.symbol} {look.word}" in text


def test_a_page_without_whole_parts_claims_no_pass() -> None:
    text = Page(html.render(samples.without_parts())).text

    assert "◐ passed as far as judged here; whole parts were not judged" in text


def test_hostile_text_is_shown_as_text() -> None:
    text = html.render(samples.hostile())

    assert "<script" not in without_our_script(text)
    assert "<img" not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert "{{ 7 * 7 }}" in Page(text).text
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]", text)


def opened(text: str) -> list[str]:
    """The ids of the parts and checks that are open."""
    return re.findall(r'<details class="\w+" id="([^"]*)" open', text)


def test_only_the_first_part_that_failed_is_open() -> None:
    text = html.render(samples.failing())
    page = Page(text)

    assert [one for one in opened(text) if one.startswith("part-")] == ["part-row_softmax"]
    assert "Same cause as Right for lengths that fill every block ." in page.text


def test_what_failed_first_stands_at_the_top_and_every_later_failure_is_one_line() -> None:
    text = html.render(samples.failing())

    assert text.count("What failed first") == 1
    assert [one for one in opened(text) if one.startswith("check-")] == []


def test_a_failed_check_shows_cause_case_neighbour_values_help_and_replay() -> None:
    text = Page(html.render(samples.failing())).text

    for words in (
        "wrong only in the last, partly filled tile",
        "Smallest failing case M=24, N=1025, float32",
        "A neighbour that passes M=24, N=1024",
        "[0, 1024] 0.25 1.75 1.19e-07",
        "Help Which lanes of the last program have no data?",
        "grade replay ex_15:row_softmax.tail:0x5f",
        "NameError: name 'inf' is not defined",
        "Needs a CUDA device; this machine has none.",
        "94,000 bytes are cut from the middle.",
    ):
        assert words in text, words


def test_the_page_begins_with_what_failed_first_why_and_what_to_do_next() -> None:
    text = Page(html.render(samples.failing())).text
    start = text.partition("What failed first")[2].partition("Parts")[0]

    for words in (
        "Right for rows that do not fill a block in Softmax over rows",
        "wrong only in the last, partly filled tile Every full tile is right",
        "Smallest failing case M=24, N=1025, float32 A neighbour that passes M=24, N=1024",
        "Help Which lanes of the last program have no data?",
        "Also: Stable for large scores, shifted rows and entries of -inf in Softmax over rows : your code raised",
        "Next: run the first failing case again: grade replay ex_15:row_softmax.tail:0x5f",
    ):
        assert words in start, words
    assert "not implemented" not in start
    # The command that the card ends in is its replay: it stands there once.
    assert start.count("grade replay") == 1


@pytest.mark.parametrize("name", ["passing", "untouched"])
def test_parts_that_passed_or_are_not_begun_are_one_line_each(name: str) -> None:
    assert opened(html.render(getattr(samples, name)())) == []


def loading_error() -> Record:
    cause = Cause(
        "invalid_submission",
        "The file does not load",
        "SyntaxError (line 2): '(' was never closed",
        "Fix this line first: nothing else could be judged. This costs no attempt.",
        traceback="SyntaxError: '(' was never closed",
        excerpt=Excerpt(2, 1, ("import torch", "def f(x:", "    pass")),
    )
    checks = [
        samples.check(f"{part.name}.full", "Right", "invalid_submission", reason=cause.rationale, cause=cause)
        for part in (samples.VECTOR_ADD, samples.SOFTMAX)
    ]
    return samples.record(tuple(checks), (samples.VECTOR_ADD, samples.SOFTMAX))


def test_a_file_that_does_not_load_is_headed_by_the_error_and_tells_it_once() -> None:
    text = html.render(loading_error())

    assert re.search(r'<h2 id="first">SyntaxError \(line 2\): &#39;\(&#39; was never closed</h2>', text)
    assert '<span class="marked"><i>2</i>def f(x:</span>' in text
    assert text.count("Fix this line first") == 1
    assert opened(text) == []


def test_the_line_that_a_cause_names_is_marked_among_its_neighbours() -> None:
    cause = Cause("out_of_bounds", "A store", "Line 2 (k), `b <c>`.", excerpt=Excerpt(2, 1, ("a", "  b <c>", "d")))
    text = html.render(samples.record((samples.check("vector_add.a", "A", "fail", cause=cause),), ()))

    assert '<span><i>1</i>a</span><span class="marked"><i>2</i>  b &lt;c&gt;</span><span><i>3</i>d</span></pre>' in text


def test_every_command_has_a_button_and_the_only_script_copies() -> None:
    text = html.render(samples.failing())

    assert text.count('class="command"') == text.count('class="copy"') == len(re.findall("<button", text))
    assert text.count("<script") == 1


def test_the_page_names_the_step_that_it_is_given() -> None:
    step = view.Step("write row_softmax", "grade ex_15 --part row_softmax")
    text = Page(html.render(samples.on_paper(), step=step)).text
    assert "Next: write row_softmax: grade ex_15 --part row_softmax" in text
    assert "grade list" not in text


@pytest.mark.parametrize("name", ["passing", "untouched"])
def test_where_nothing_failed_the_page_names_the_next_step_only(name: str) -> None:
    text = Page(html.render(getattr(samples, name)())).text

    assert "What failed first" not in text
    assert "Next: " in text


def test_of_checks_that_failed_alike_the_others_name_their_case() -> None:
    def failed(name: str, length: int) -> CheckResult:
        cause = dataclasses.replace(samples.vector_mismatch(), rationale=f"{length} elements are wrong.")
        example = Counterexample({"N": length}, f"N={length}", f"ex_15:vector_add.{name}:0x1")
        return samples.check(f"vector_add.{name}", name, "fail", cause=cause, counterexample=example)

    checks = tuple(failed(name, length) for length, name in enumerate(("one", "two", "three"), 64))
    page = Page(html.render(samples.record(checks, (samples.VECTOR_ADD,))))

    assert [name for _, name, _ in page.attributes].count("open") == 1
    assert "2 more checks failed in the same way: two, three" in page.text
    assert "wrong only in the last, partly filled tile; fails for N=66" in page.text
    assert page.text.count("Replay grade replay") == 2


def test_every_objective_names_its_points_and_the_evidence_of_every_part() -> None:
    text = Page(html.render(samples.failing())).text.partition("Objectives")[2].partition("Right for")[0]

    assert "writes Triton kernels ✓ Vector addition 3 of 3 ✗ Softmax over rows 1 of 3" in text
    assert "○ Sum of all elements 0 of 3 11/30" in text
    assert (
        "reasons about memory bandwidth – Vector addition not judged ↷ Softmax over rows 0 of 1 0/2, 4 not judged"
        in text
    )


@pytest.mark.parametrize("name", ALL)
def test_what_opens_a_section_holds_phrases_and_headings_only(name: str) -> None:
    heads = re.findall(r"<summary.*?</summary>", html.render(getattr(samples, name)()), re.DOTALL)

    assert {tag for head in heads for tag in Page(head).tags} <= {"summary", "span", "h2", "h3", "h4", "code"}


def test_headings_lead_down_one_level_at_a_time() -> None:
    for name in ALL:
        levels = [
            int(tag[1]) for tag in Page(html.render(getattr(samples, name)())).tags if re.fullmatch("h[1-6]", tag)
        ]
        assert levels[0] == 1
        assert levels.count(1) == 1
        assert all(below - above <= 1 for above, below in itertools.pairwise(levels)), name


def test_what_stands_between_backticks_is_code_and_stays_text() -> None:
    told = samples.check("a.b", "A", "fail", reason="Line 3, `x = <b>`: `y` is not there.")
    odd = samples.check("a.c", "B", "fail", reason="One ` alone <b>.")
    text = html.render(samples.record((told, odd), ()))

    assert "Line 3, <code>x = &lt;b&gt;</code>: <code>y</code> is not there." in text
    assert "One ` alone &lt;b&gt;." in text


def test_a_card_says_what_speaks_for_its_cause_and_what_else_it_may_be() -> None:
    record = samples.failing()
    suspects = (
        Suspect("missing_mask", "Looks like a mask", "All 2 failing cases are <ragged>.", "Which lanes?"),
        Suspect("padding_counted", "Looks like padding that counts", "Rows are wrong.", "What value?"),
    )
    checks = tuple(
        dataclasses.replace(one, cause=dataclasses.replace(one.cause, suspects=suspects))
        if one.id == "row_softmax.tail" and one.cause
        else one
        for one in record.checks
    )
    text = Page(html.render(dataclasses.replace(record, checks=checks))).text
    assert "Because All 2 failing cases are <ragged>. Also possible" in text
    assert "Looks like padding that counts. Rows are wrong. What value?" in text


def test_a_check_of_an_unlisted_part_is_shown_all_the_same() -> None:
    checks = (samples.check("file", "The file can be graded", "invalid_submission", reason="Line 3: invalid syntax."),)

    assert "Line 3: invalid syntax." in Page(html.render(samples.record(checks, ()))).text


def test_the_environment_names_seed_versions_hashes_and_times() -> None:
    record = samples.passing()
    text = Page(html.render(record)).text

    for words in (
        record.seed,
        record.env.triton,
        record.env.gpu,
        record.submission.sha256,
        record.exercise.spec_sha256,
        "submitted 2026-11-02 08:15:00 UTC",
        "graded 2026-11-02 09:00:00 UTC, in 12.4 s",
    ):
        assert words in text


def test_the_points_bar_has_segments_for_what_was_not_written_and_not_judged() -> None:
    page = Page(html.render(samples.failing()))

    assert page.values("style") == ["flex-grow:11", "flex-grow:13", "flex-grow:8", "flex-grow:9"]
    assert "11 earned 13 lost 8 not written yet 9 not judged" in page.text


def test_a_page_that_would_be_too_large_is_cut_and_says_so() -> None:
    record = samples.hostile("<" * 200_000)
    most = 100_000

    text = html.render(record, most_bytes=most)

    assert len(text.encode()) <= most
    assert "The JSON record of this grading holds everything." in Page(text).text


def test_an_ordinary_page_is_not_cut() -> None:
    text = html.render(dataclasses.replace(samples.failing(), printed=PrintedOutput("x" * 4000, 4000)))

    assert len(text.encode()) < 60_000
    assert "shortened" not in Page(text).text
    assert "x" * 4000 in text


def luminance(colour: str) -> float:
    digits = colour.lstrip("#")
    channels = [
        int(pair, 16) / 255 for pair in ([c * 2 for c in digits] if len(digits) == 3 else re.findall("..", digits))
    ]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_text_has_the_contrast_of_wcag_aa_in_light_dark_and_print() -> None:
    schemes = [
        dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{3,6});", block))
        for block in re.findall(r":root \{(.*?)\}", html.render(samples.passing()), re.DOTALL)
    ]

    assert len(schemes) == 3
    for scheme in schemes:
        for ink in ("ink", "soft", "good", "bad", "todo", "quiet", "ours", "link"):
            for paper in ("page", "card", "sunken"):
                light, dark = sorted((luminance(scheme[ink]), luminance(scheme[paper])), reverse=True)
                assert (light + 0.05) / (dark + 0.05) >= 4.5, (ink, paper, scheme[ink], scheme[paper])


def test_a_picture_has_a_title_and_a_description_in_words() -> None:
    drawn = picture.draw(Picture(((0, 0, 9), (0, 4, 9)), 3, 8, (6, 24)), "check-tail")

    assert "<title" in drawn
    assert "Output of shape 6 × 24, drawn as 2 × 3 cells: 3 of 6 hold wrong elements." in drawn
    assert drawn.count("<rect") == 4
    assert ">5</text>" in drawn
    assert ">23</text>" in drawn


def test_a_picture_shows_the_edges_of_the_tiles_where_they_are_known_and_lie_apart() -> None:
    cells = tuple((0, 9, 0, 9) for _ in range(4))
    known = picture.draw(Picture(cells, 8, 8, (32, 32), 16, 16), "a")

    assert re.findall(r'class="tiles"[^>]* d="([^"]*)"', known) == ["M92 0V72M44 36h96"]
    assert "tiles" not in picture.draw(Picture(cells, 8, 8, (32, 32)), "a")
    assert "tiles" not in picture.draw(Picture(cells, 8, 8, (32, 32), 1, 1), "a")


def test_shrinking_a_picture_keeps_a_single_wrong_element_visible() -> None:
    cells = tuple(tuple(int((row, column) == (63, 511)) for column in range(512)) for row in range(64))
    drawn = Picture(cells, 1, 1, (64, 512))

    assert picture.shade_rows(drawn, rows=4, columns=60) == ["░" * 57] * 3 + ["░" * 56 + "▒"]
    assert picture.cell_size(drawn, rows=4, columns=60) == "16 rows × 9 columns"


def test_the_darkest_shade_of_merged_cells_says_that_only_some_are_all_wrong() -> None:
    half = Picture(((9, 0, 9, 9),), 1, 1, (4,))

    assert picture.darkest(half, rows=1, columns=4) == "all wrong"
    assert picture.shade_rows(half, rows=1, columns=2) == ["██"]
    assert picture.darkest(half, rows=1, columns=2) == "all wrong somewhere"


@pytest.mark.parametrize("cells", [(), ((),), ((9,),), ((0,) * 500,), ((1,),) * 500])
def test_pictures_of_any_size_are_drawn(cells: tuple[tuple[int, ...], ...]) -> None:
    drawn = picture.draw(Picture(cells, 1, 1, ()), "a")

    assert len(drawn) < 6000
    assert "<" not in picture.draw(Picture(((9,),), 1, 1, (1,)), '"><x')[30:60]


def test_checks_that_passed_share_a_row_and_those_with_less_than_all_points_do_not() -> None:
    checks = (
        samples.check("vector_add.full", "Full", points=1),
        samples.check("vector_add.wrong", "Wrong", "fail", reason="No."),
        samples.check("vector_add.tail", "Tail", points=1),
        samples.check("vector_add.traffic", "Traffic", points=0.5),
    )
    text = Page(html.render(samples.record(checks, (samples.VECTOR_ADD,)))).text
    assert "✓ passed 2 checks: full, tail 2/2 ✓ passed Full" in text
    assert "◐ partly passed Traffic 0.5/1" in text


@pytest.mark.parametrize(("others", "evidence"), [(0, {}), (0, {"kernels": "add"}), (4, {})])
def test_the_figures_of_a_check_that_passed_stand_in_one_place(others: int, evidence: dict[str, str]) -> None:
    metrics = {"worst_error_over_allowed": 0.5, **{f"other_{i}": i for i in range(others)}}
    check = samples.check("vector_add.tail", "Right", points=1)
    passed = dataclasses.replace(check, metrics=metrics, evidence=evidence)

    page = Page(html.render(samples.record((passed,), (samples.VECTOR_ADD,))))

    assert page.text.count("worst error over allowed") == 1


def test_a_row_that_shows_all_its_figures_does_not_open() -> None:
    passed = dataclasses.replace(samples.check("vector_add.tail", "Right", points=1), metrics={"cases": 3})

    page = html.render(samples.record((passed,), (samples.VECTOR_ADD,)))

    assert '<div class="check" id="check-vector_add.tail">' in page
