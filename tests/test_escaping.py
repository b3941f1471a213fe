"""Hostile text in every field of what is shown, in every form in which it is shown: it stays text.

Terminals, logs of CI services, pages, XML and JSON each have letters that do something. A submission can choose names,
messages and output; whoever hands a file in chooses its name.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
from collections.abc import Callable
from functools import cache
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from grader.cli import roofline
from grader.cli.main import dispatch
from grader.cli.profile import Profile
from grader.cli.progress import LineProgress, LiveProgress
from grader.cli.roofline import Roofline
from grader.cli.say import say
from grader.export import junit as export_junit
from grader.record.checks import Selection
from grader.record.record import Record, SubmissionInfo, Tool, from_json, to_json
from grader.report import junit
from grader.report.page import html
from grader.report.text import terminal
from grader.sanitizer import findings
from grader.sanitizer import text as sanitizer_text
from grader.sanitizer.findings import Called, CallFinding, Examination, Stopped, ToolFinding
from grader.speed.counters import Counters, LaunchCounters
from grader.text import as_json, clean, disarmed, disarmed_markup
from tests.hostile import TEXTS, Skeleton, changed, commands_in, unseen_in, without_our_script
from tests.records import compiled, samples

pytestmark = pytest.mark.process

EVERYTHING = [
    samples.failing(),
    samples.every_status(),
    samples.timed(),
    samples.on_paper(),
    samples.foretold(),
    samples.covered(),
]
CHOICES = Selection(
    ("M=1", "M=7", "M=8"), ("a(x=1)", "a(x=2)"), ((1.0, 2.0), (3.0, 1.0), (1.0, -1.0)), (0, 0, 1), "here"
)


@cache
def everything() -> Record:
    """One record with all that a record can hold. It is made once: nothing changes a record."""
    parts = {part.name: part for record in EVERYTHING for part in record.parts}
    checks = {check.id: check for record in reversed(EVERYTHING) for check in record.checks}
    chosen = samples.check("pick.regret", "Chooses well", "pass", 3.0, 4.0, selection=CHOICES, notes=("a note",))
    missing = dataclasses.replace(compiled.gemm(), uncompiled={"sm_80": "not compiled in time"})
    return samples.record(
        (*checks.values(), chosen), (*parts.values(), missing), printed=samples.failing().printed, env=samples.H200
    )


def examination() -> Examination:
    called = Called(
        "vector_add", {"N": 65, "dtype": "float16"}, "N=65, dtype=float16", "grade replay ex_15:x:N=65:0x5f"
    )
    sighting = CallFinding(
        "load", "kernel", 7, "x = tl.load(p)", (3,), "A load outside x", "Line 7: it loads", "A mask", "here"
    )
    return Examination(
        schema="grade/sanitize/v1",
        tool=Tool("grade", "0.1.0"),
        exercise="ex_15",
        title="Triton basics",
        path="/home/ada/ex_15.py",
        sha256="51ab",
        seed="0x5f",
        command="grade sanitize ex_15",
        means="guard",
        parts=("vector_add",),
        planned=7,
        looked=5,
        findings=(ToolFinding(sighting, called, 2), ToolFinding(sighting, None, 0)),
        stopped=(Stopped("row_softmax", "crash", "The process ended", "It died.", called, 1),),
        remarks=(ToolFinding(sighting, called, 1),),
        notes=("The guard looked instead.",),
        silent=1,
        unfollowed=1,
    )


def profiled(record: Record) -> Profile:
    checks = [check for check in record.checks if check.work or check.predictions]
    counters = Counters("vector_add", "N=65", (LaunchCounters("kernel", {"dram__bytes_read.sum": 7.0}),), "")
    sections = [Roofline(check.part, check.title, check.work, check.predictions, "why", counters) for check in checks]
    sections.append(Roofline("x", "title", why="no check counts bytes", counters=Counters("x", "N=65", (), "why not")))
    submission = SubmissionInfo("/home/ada/ex_15.py", "51ab")
    return Profile(Tool("grade", "0.1.0"), "ex_15", submission, "2.11", "3.7", record.parts, tuple(sections))


def printed(print_it: Callable[[io.StringIO], object]) -> str:
    stream = io.StringIO()
    print_it(stream)
    return stream.getvalue()


def progress(record: Record) -> str:
    stream = io.StringIO()
    with contextlib.redirect_stderr(stream), LineProgress() as heard:
        for check in record.checks:
            heard(check)
    return stream.getvalue()


def live_progress(record: Record) -> str:
    stream = io.StringIO()
    with contextlib.redirect_stderr(stream), LiveProgress(len(record.checks)) as heard:
        for check in record.checks:
            heard(check)
    return stream.getvalue()


def rooflines(found: Profile) -> str:
    return printed(lambda stream: roofline.show(found.rooflines, stream, (False, False, 100)))


# What everything that prints lines of text does with a record.
LINES: dict[str, Callable[[Record], str]] = {
    "terminal": terminal.render,
    "terminal in colour": lambda record: terminal.render(record, colour=True),
    "narrow terminal": lambda record: terminal.render(record, width=24),
    "terminal in ASCII": lambda record: terminal.render(record, ascii_only=True, width=200),
    "part that passed": lambda record: terminal.render(
        record, focus="", just_passed={part.name for part in record.parts}
    ),
    "one case": terminal.render_case,
    "replay": lambda record: terminal.render(record, one_case=True),
    "kernels": lambda record: terminal.render_kernels(record.parts),
    "kernels in colour": lambda record: terminal.render_kernels(record.parts, colour=True),
    "checks": lambda record: "\n".join(terminal.render_check(check, colour=True) for check in record.checks),
    "progress": progress,
    "live progress": live_progress,
}


def prefixed(text: str) -> Callable[[str], str]:
    """Puts the text before every other one: what is told apart by a text stays told apart."""
    return lambda old: f"{text}{old}"


def suffixed(text: str) -> Callable[[str], str]:
    return lambda old: f"{old}{text}"


PLACES = {"before": prefixed, "behind": suffixed}
_OPEN_ENDED = ("escapes", "controls", "commands")


def cases(*names: str) -> Any:
    """Every hostile text, before what stands in every field; those that depend on what follows, behind it as well."""
    listed = [(text, place) for text in names or TEXTS for place in PLACES if place == "before" or text in _OPEN_ENDED]
    return pytest.mark.parametrize(
        "change", [PLACES[place](TEXTS[text]) for text, place in listed], ids=[" ".join(one) for one in listed]
    )


Change = Callable[[str], str]


# -- lines of text ---------------------------------------------------------------------------------------------------


def is_harmless(text: str) -> None:
    assert unseen_in(text) == set()
    assert commands_in(text) == []
    assert len(text) < 300_000


@cases()
def test_no_line_that_is_printed_does_anything(change: Change) -> None:
    record = changed(everything(), change)
    for name, render in LINES.items():
        try:
            is_harmless(render(record))
        except AssertionError as found:
            raise AssertionError(f"{name}: {found}") from found


@cases()
def test_no_line_of_an_examination_or_of_a_profile_does_anything(change: Change) -> None:
    is_harmless(sanitizer_text.render(changed(examination(), change)))
    is_harmless(sanitizer_text.render(changed(examination(), change), ascii_only=True))
    is_harmless(rooflines(changed(profiled(everything()), change)))


@cases()
def test_no_line_of_our_own_that_names_a_file_does_anything(change: Change) -> None:
    is_harmless(printed(lambda stream: say(f"Checking {change('/home/ada/ex_15.py')} …", stream)))


@cases("commands", "escapes", "directions")
def test_an_error_that_names_a_file_is_a_line(change: Change, capfd: pytest.CaptureFixture[str]) -> None:
    assert dispatch(["run", "ex_15", "--submission", change("/home/ada/ex_15.py")]) == 2
    assert dispatch([change("ex_15")]) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert err.startswith("grade: ")
    is_harmless(err)


def test_no_markup_is_read() -> None:
    shown = terminal.render(changed(everything(), prefixed(TEXTS["markup"])), width=400)
    assert "[bold red]x[/] [/] [link=https://evil]y[/link] [@click=app.bell]z[/] :skull: \\[x]" in shown


def test_text_that_does_nothing_is_printed_as_it_is() -> None:
    text = "a::b: c [x] #[y] ##y ü → 日本 🙂 e\u0301 -- ::"
    assert clean(text) == disarmed(text) == text
    assert text in terminal.render(changed(everything(), suffixed(f" {text}")), width=400)


# -- JSON ------------------------------------------------------------------------------------------------------------


@cases()
def test_every_document_reads_back_as_it_was_and_does_nothing_where_it_is_printed(change: Change) -> None:
    for value in (everything(), examination(), profiled(everything())):
        whole = changed(value, change)
        text = findings.to_json(whole) if isinstance(whole, Examination) else as_json(dataclasses.asdict(whole))
        assert unseen_in(text) == set()
        assert commands_in(text) == []
        read = json.loads(text)
        read.pop("exit_code", None)
        # Tuples are lists in JSON.
        assert read == json.loads(json.dumps(dataclasses.asdict(whole)))


@cases()
def test_a_record_survives_its_json(change: Change) -> None:
    record = changed(everything(), change)
    assert from_json(to_json(record)) == record


@given(
    st.recursive(
        st.text() | st.integers() | st.none(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
    )
)
@example({"##[x": "##[y\n::error::\u2028\x9b\U000e0041\ud800"})
def test_any_document_reads_back_as_it_was(value: Any) -> None:
    text = as_json(value)
    assert json.loads(text) == value
    assert unseen_in(text) == set()
    assert commands_in(text) == []


# -- XML -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("render", [junit.render, export_junit.strict])
@cases()
def test_junit_is_well_formed_and_of_the_same_form_as_without(render: Callable[[Record], str], change: Change) -> None:
    record = everything()
    text, plain = render(changed(record, change)), render(changed(record, prefixed("word ")))
    assert unseen_in(text) == set()
    assert commands_in(text) == []
    assert len(text) < 500_000
    assert form_of(text) == form_of(plain)


def form_of(document: str) -> list[tuple[str, tuple[str, ...]]]:
    return [(one.tag, tuple(one.attrib)) for one in ElementTree.fromstring(document).iter()]


# -- HTML ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def plain_page() -> str:
    return html.render(changed(everything(), suffixed("word")))


@cases("tags", "attributes", "templates", "controls", "no characters", "commands")
def test_a_page_has_the_elements_that_it_has_without(change: Change, plain_page: str) -> None:
    page = html.render(changed(everything(), change))
    is_inert(page)
    assert set(Skeleton(page).elements) == set(Skeleton(plain_page).elements)


@cases("markup", "escapes", "directions", "blank", "long")
def test_a_page_without_figures_has_no_other_elements_either(
    change: Change, plain_page: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("grader.report.figures.chart.installed", lambda: False)
    page = html.render(changed(everything(), change))
    is_inert(page)
    assert set(Skeleton(page).elements) <= set(Skeleton(plain_page).elements)


def is_inert(page: str) -> None:
    """Nothing runs, nothing is loaded, nothing leaves the page."""
    assert unseen_in(page) == set()
    assert commands_in(page) == []
    assert len(page.encode()) <= html.MOST_BYTES
    found = Skeleton(without_our_script(page))
    assert "script" not in {tag for tag, _ in found.elements}
    assert not [name for _, names in found.elements for name in names if name.startswith("on")]
    assert all(link.startswith("#") for link in found.links), found.links
    assert found.oddities == []


def test_a_page_is_not_changed_where_nothing_in_it_is_a_command(plain_page: str) -> None:
    assert disarmed_markup(plain_page) == plain_page


# -- the mechanism ---------------------------------------------------------------------------------------------------


@given(st.text(), st.integers(20, 200))
@example("\x1b" * 40 + "[31m" * 40, 200)
def test_clean_text_holds_nothing_that_a_terminal_obeys(text: str, most: int) -> None:
    cleaned = clean(text, most)
    assert unseen_in(cleaned) == set()
    assert clean(cleaned, most + 100) == cleaned
    assert len(cleaned) <= most + 40


def test_invisible_characters_are_shown_and_joiners_of_letters_removed() -> None:
    assert clean("a\u200bb\u202ec\u00add\u2060") == "a\ufffdb\ufffdc\ufffdd\ufffd"
    assert clean("\u0639\u0644\u06cc\u200c\u0631\u0636\u0627") == "\u0639\u0644\u06cc\u0631\u0636\u0627"
    assert clean("\x1b\u200d[31mred") == "red"


BLANKS = st.sampled_from(
    [" ", "\t", "\u00a0", "\u3000", "\u2003", "\x1b[31m", "\x1b[0m", "\n", ":", "::", "##[", "x", "##", "["]
)


@given(st.lists(BLANKS, max_size=8).map("".join))
def test_disarmed_text_holds_no_command(text: str) -> None:
    assert commands_in(disarmed(text)) == []
    assert commands_in(disarmed_markup(text)) == []
    assert commands_in(disarmed(text).replace("\x1b[31m", "").replace("\x1b[0m", "")) == []


def test_text_of_blank_lines_alone_is_disarmed_at_once() -> None:
    text = "\n \t" * 300_000
    assert disarmed(text) == text
