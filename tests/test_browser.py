"""Scorecards and class pages in a real browser: nothing runs or is loaded, everybody can read and reach all of it.

Deselected unless asked for (`tox -e browser`). Screenshots go to .screenshots/ for the eye; no machine compares them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from grader.class_pages import page as class_page
from grader.exercise.interview import Figures, Question
from grader.record.causes import Suspect
from grader.record.record import Record
from grader.report.achieved import Finish
from grader.report.page import beside, html, index
from grader.watch.live import Live
from tests.browsing import Visit, browser
from tests.class_pages import test_page as classes
from tests.records import samples
from tests.report.test_beside import solved
from tests.report.test_html import loading_error
from tests.test_escaping import everything

pytestmark = pytest.mark.browser

SCREENSHOTS = Path(__file__).resolve().parents[1] / ".screenshots"
NARROW, WIDE = 360, 1600


def similar() -> str:
    """Two sources beside each other. What compares them is an extra that other tests do not need."""
    from grader.class_pages import alike
    from grader.class_pages.similarity import Cluster, SimilarPair, Source

    text = Path(__file__).read_text(encoding="utf-8")
    lines = frozenset(range(20, 60))
    pair = SimilarPair(Source("ada", text), Source("<b>bob</b>", text.replace("visit", "v")), 0.9, lines, lines)
    cluster = Cluster((pair.first, pair.second, Source("cy", text)), (pair, pair))
    compared = alike.ComparedExercise("ex_15", "Triton basics", (cluster,), 7, ("cy",), ("dee",), 3)
    return alike.render([compared], "GPU course", {}, 0.6)


def suspected() -> Record:
    """A failure with a likely cause, and others that it may be."""
    suspects = (
        Suspect("missing_mask", "Looks like a mask that is missing", "All 4 failing cases are ragged.", "Which lanes?"),
        Suspect("padding_counted", "Looks like padding that counts", "Rows are wrong.", "What value?"),
    )
    record = samples.failing()
    checks = tuple(
        replace(one, cause=replace(one.cause, suspects=suspects)) if one.cause and one.cause.mismatch else one
        for one in record.checks
    )
    return replace(record, checks=checks)


def finished() -> str:
    """The page of a finished exercise."""
    question = Question(
        "What is Triton?", "A language.", (Figures("vector_add.traffic", "Yours moved {moved} bytes."),)
    )
    finish = Finish("grade solution ex_15", (question,))
    return html.render(samples.on_paper(), finish=finish)


def course() -> tuple[index.ExerciseRow, ...]:
    """Exercises in every state."""
    records = {"done": samples.passing(), "begun": samples.failing(), "not started": samples.untouched()}
    states = {**records, "changed": None, "no file": None}
    return tuple(
        index.ExerciseRow(
            f"ex_{number}",
            "Triton basics",
            state,
            f"{state}, 3 points",
            "ex.py",
            "ex.html",
            2,
            found.checks if found else (),
        )
        for number, (state, found) in enumerate(states.items(), 15)
    )


PAGES: dict[str, Callable[[], str]] = {
    "pass": lambda: html.render(samples.passing()),
    "fail": lambda: html.render(samples.failing()),
    "finished": finished,
    "does_not_load": lambda: html.render(loading_error()),
    "beside": lambda: beside.render("ex_15", beside.beside(*[solved(samples.on_paper())] * 2, {})),
    "not_implemented": lambda: html.render(samples.untouched()),
    "every_status": lambda: html.render(samples.every_status()),
    "skipped_gpu": lambda: html.render(samples.on_paper()),
    "suspects": lambda: html.render(suspected()),
    "covered": lambda: html.render(samples.covered()),
    "index": lambda: index.render(course()),
    "hostile": lambda: html.render(samples.hostile()),
    "all_figures": lambda: html.render(everything()),
    "shortened": lambda: html.render(samples.hostile("<" * 100_000)),
    "class": lambda: class_page.render(*classes.alike(7), "GPU course"),
    "class_mixed": lambda: class_page.render(*classes.small(), "GPU course"),
    "class_hostile": lambda: class_page.render(*classes.hostile(), samples.HOSTILE),
    "similar": similar,
    "class_for_students": lambda: class_page.render(*classes.alike(7), "GPU course", audience="student"),
}
LOOKS = [(width, scheme) for width in (NARROW, WIDE) for scheme in ("light", "dark")]


# The rows of checks in which two cells' contents share some place.
_OVERLAPS = """[...document.querySelectorAll('.row')].flatMap(row => {
    const boxes = [...row.children].map(one => {
        const range = document.createRange(); range.selectNodeContents(one);
        return range.getBoundingClientRect();
    }).filter(box => box.width > 0);
    return boxes.flatMap((a, i) => boxes.slice(i + 1).filter(b => a.left < b.right - 1 && b.left < a.right - 1
        && a.top < b.bottom - 1 && b.top < a.bottom - 1).map(() => row.innerText.slice(0, 80)));
})"""


@pytest.fixture(scope="session")
def opened() -> Iterator[Any]:
    """The browser; without one the run ends and says why, instead of skipping what was asked for."""
    try:
        with browser() as found:
            yield found
    except LookupError as error:
        pytest.exit(str(error), returncode=1)


@pytest.fixture(scope="session")
def address(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """The file:// address of a page."""
    folder = tmp_path_factory.mktemp("pages")

    def written(name: str) -> str:
        path = folder / f"{name}.html"
        if not path.exists():
            path.write_text(PAGES[name](), encoding="utf-8")
        return path.as_uri()

    return written


@pytest.fixture(
    scope="module",
    params=[(name, *look) for name in PAGES for look in LOOKS],
    ids=lambda param: "-".join(map(str, param)),
)
def visit(request: pytest.FixtureRequest, opened: Any, address: Callable[[str], str]) -> Iterator[Visit]:
    """Every page, narrow and wide, light and dark."""
    name, width, scheme = request.param
    found = Visit(opened, address(name), width, scheme)
    found.shoot(SCREENSHOTS / f"{name}-{width}-{scheme}.png")
    yield found
    found.close()


@pytest.fixture(params=list(PAGES))
def each(request: pytest.FixtureRequest, opened: Any, address: Callable[[str], str]) -> Iterator[Visit]:
    """Every page once."""
    found = Visit(opened, address(request.param), 800, "light")
    yield found
    found.close()


# -- what happens when it is opened ----------------------------------------------------------------------------------


def test_nothing_goes_wrong_and_nothing_asks(visit: Visit) -> None:
    assert visit.errors == []
    assert visit.dialogs == []


def test_the_page_asks_for_itself_and_for_nothing_else(visit: Visit) -> None:
    assert visit.requests == [visit.url]
    assert len(visit.ask("performance.getEntriesByType('resource')")) == 0


def test_axe_finds_nothing_to_complain_of(visit: Visit) -> None:
    assert visit.violations() == []


def test_no_page_is_wider_than_its_window(visit: Visit) -> None:
    assert visit.ask("document.scrollingElement.scrollWidth") <= visit.ask("innerWidth")


def test_what_is_cut_off_at_the_side_can_be_scrolled_to_by_keyboard(visit: Visit) -> None:
    """Tables may be wider than a telephone: then their own frame scrolls, and the keyboard reaches it."""
    cut = visit.ask(
        """[...document.querySelectorAll('main *')].filter(one => one.scrollWidth > one.clientWidth + 1
            && getComputedStyle(one).overflowX !== 'visible' && one.clientWidth > 0 && one.tabIndex < 0
            && !(one instanceof SVGElement)).map(one => one.outerHTML.slice(0, 120))"""
    )
    assert cut == []


@pytest.mark.parametrize(("width", "most"), [(1400, 3500), (NARROW, 6000)])
@pytest.mark.parametrize("name", ["fail", "suspects", "covered", "does_not_load", "every_status"])
def test_a_failing_card_is_a_few_screens_high(
    name: str, width: int, most: int, opened: Any, address: Callable[[str], str]
) -> None:
    """A learner reads it after every change: what is long lies in what is closed."""
    with closing(Visit(opened, address(name), width, "light")) as visit:
        assert visit.ask("document.scrollingElement.scrollHeight") <= most


def test_no_text_lies_on_other_text(visit: Visit) -> None:
    """Words of one row of checks keep apart, however narrow the page is."""
    assert visit.ask(_OVERLAPS) == []


# -- keyboard --------------------------------------------------------------------------------------------------------

_WHERE = """() => {
    const one = document.activeElement;
    if (!one || one === document.body) return null;
    const box = one.getBoundingClientRect(), style = getComputedStyle(one);
    return {
        place: [...document.querySelectorAll('*')].indexOf(one), tag: one.tagName,
        seen: box.bottom > 0 && box.top < innerHeight,
        ring: style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 1,
        open: one.tagName === 'SUMMARY' ? one.parentElement.open : null,
    };
}"""


def walk(visit: Visit, most: int = 3000) -> list[dict[str, Any]]:
    """Every stop of the Tab key, in order; what is closed is opened on the way."""
    stops: list[dict[str, Any]] = []
    for _ in range(most):
        visit.page.keyboard.press("Tab")
        stop = visit.ask(_WHERE)
        if stop is None or (stops and stop["place"] == stops[0]["place"]):
            return stops
        if stop["tag"] == "SUMMARY":
            visit.page.keyboard.press("Enter")
            stop["toggled"] = visit.ask(_WHERE)["open"] is not stop["open"]
            if stop["open"]:
                visit.page.keyboard.press("Enter")
        stops.append(stop)
    raise AssertionError(f"a page must have at most {most} stops of the Tab key")


def test_the_keyboard_reaches_and_opens_everything_and_shows_where_it_is(each: Visit) -> None:
    stops = walk(each)
    summaries = [stop for stop in stops if stop["tag"] == "SUMMARY"]

    assert len(summaries) == each.ask("document.querySelectorAll('details').length")
    assert all(stop["toggled"] for stop in summaries)
    assert each.ask("document.querySelectorAll('details:not([open])').length") == 0
    assert [stop for stop in stops if not (stop["ring"] and stop["seen"])] == []
    assert len(stops) == each.ask(
        "document.querySelectorAll('a[href], summary, button, input, select, [tabindex=\"0\"]').length"
    )


@pytest.mark.parametrize("name", ["fail", "all_figures"])
def test_the_first_tab_offers_to_skip_to_the_checks(name: str, opened: Any, address: Callable[[str], str]) -> None:
    visit = Visit(opened, address(name), NARROW, "light")
    visit.page.keyboard.press("Tab")
    assert visit.ask("document.activeElement.innerText") == "Skip to the checks"
    visit.page.keyboard.press("Enter")
    visit.page.keyboard.press("Tab")
    assert visit.ask("document.querySelector('#checks').contains(document.activeElement)")
    visit.close()


def rows_shown(visit: Visit) -> list[str]:
    return list(
        visit.ask("[...document.querySelectorAll('.students tbody tr:not([hidden]) th')].map(th => th.innerText)")
    )


def test_the_table_of_students_is_sorted_and_filtered_and_is_whole_without_a_script(
    opened: Any, address: Callable[[str], str]
) -> None:
    with closing(Visit(opened, address("class_mixed"), 1600, "light")) as visit:
        everybody = rows_shown(visit)
        visit.page.locator('th[data-column="1"] button').click()
        assert [name[:4] for name in rows_shown(visit)] == ["Late", "Hopp", "Love", "=HYP"]
        visit.page.locator('th[data-column="1"] button').click()
        assert [name[:4] for name in rows_shown(visit)] == ["=HYP", "Love", "Hopp", "Late"]
        visit.page.locator(".students select").select_option("GPU-A")
        visit.page.locator(".students input").fill("stopped")
        assert [name[:4] for name in rows_shown(visit)] == ["Hopp"]
        assert visit.ask("document.querySelector('.students output').textContent") == "1 of 4"
    with closing(Visit(opened, address("class_mixed"), 1600, "light", scripts=False)) as visit:
        assert rows_shown(visit) == everybody
        assert not visit.page.locator(".students input").is_visible()


def test_what_failed_first_leads_to_its_check(opened: Any, address: Callable[[str], str]) -> None:
    visit = Visit(opened, address("fail"), 800, "light")
    visit.page.click(".first .eyebrow a")
    top = visit.ask("document.getElementById('check-row_softmax.tail').getBoundingClientRect().top")
    assert 0 <= top < 100
    visit.close()


def test_a_command_is_copied_by_its_button_and_selected_by_a_click(opened: Any, address: Callable[[str], str]) -> None:
    command = "grade replay ex_15:row_softmax.tail:0x5f"
    visit = Visit(opened, address("fail"), 800, "light")
    visit.context.grant_permissions(["clipboard-read", "clipboard-write"])
    visit.page.click(".first .copy")
    visit.page.wait_for_selector("text=Copied")
    assert visit.ask("navigator.clipboard.readText()") == command
    visit.close()
    visit = Visit(opened, address("fail"), 800, "light", scripts=False)
    assert not visit.page.is_visible(".copy")
    assert visit.page.evaluate("getComputedStyle(document.querySelector('.first .command')).userSelect") == "all"
    visit.close()


# -- print -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["fail", "all_figures", "class"])
def test_paper_is_white_in_a_dark_room_too_and_holds_what_was_open(
    name: str, opened: Any, address: Callable[[str], str]
) -> None:
    # A4 without its margins.
    visit = Visit(opened, address(name), 718, "dark")
    visit.page.emulate_media(media="print", color_scheme="dark")
    visit.shoot(SCREENSHOTS / f"{name}-print.png")

    assert visit.ask("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert visit.ask("getComputedStyle(document.body).color") == "rgb(0, 0, 0)"
    assert visit.ask("document.scrollingElement.scrollWidth <= innerWidth")
    assert visit.ask(_OVERLAPS) == []
    assert visit.ask("[...document.querySelectorAll('.skip')].every(one => one.checkVisibility() === false)")
    assert visit.ask(
        "[...document.querySelectorAll('details[open] .body')]"
        ".every(one => one.checkVisibility() || one.closest('details:not([open])'))"
    )
    assert visit.ask("[...document.querySelectorAll('.copy')].every(one => one.checkVisibility() === false)")
    assert len(visit.page.pdf(format="A4")) > 1000
    visit.close()


# -- the page as a file ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", list(PAGES))
def test_a_page_is_below_the_limit(name: str, address: Callable[[str], str]) -> None:
    assert Path(address(name).removeprefix("file://")).stat().st_size < html.MOST_BYTES


# -- the tests themselves --------------------------------------------------------------------------------------------


def test_what_these_tests_look_for_is_seen_where_it_is(opened: Any, tmp_path: Path) -> None:
    path = tmp_path / "bad.html"
    path.write_text(
        '<!doctype html><html><body><main><img src="other.png"><div style="width:5000px">wide</div>'
        "<p style='color:#bbb;background:#fff'>pale</p></main><script>alert('here'); nowhere()</script></body></html>"
    )
    visit = Visit(opened, path.as_uri(), NARROW, "light")

    assert visit.dialogs == ["here"]
    assert any("nowhere is not defined" in error for error in visit.errors)
    assert visit.requests == [visit.url, (tmp_path / "other.png").as_uri()]
    assert {"image-alt", "color-contrast", "document-title"} <= {one.rule for one in visit.violations()}
    assert visit.ask("document.scrollingElement.scrollWidth > innerWidth")
    visit.close()


def test_without_a_browser_the_reason_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.browsing import executable

    monkeypatch.setenv("CHROMIUM", "/nowhere/chromium")
    with pytest.raises(LookupError, match=r"set CHROMIUM to the path .* got CHROMIUM='/nowhere/chromium'"):
        executable()
    monkeypatch.delenv("CHROMIUM")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(LookupError, match="got none of them on PATH"):
        executable()


# -- the live page -----------------------------------------------------------------------------------------------------


def test_the_live_page_shows_the_newest_card_without_a_reload(opened: Any) -> None:
    errors: list[str] = []
    with Live("Triton basics") as live:
        live.show(html.render(samples.failing()))
        page = opened.new_page()
        page.on("console", lambda said: errors.append(said.text) if said.type == "error" else None)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(live.address)
        first = page.inner_text("h1 ~ *, main")
        live.say(True, 1)
        page.get_by_text("checking").first.wait_for()
        live.show(html.render(samples.passing()))
        page.get_by_text("What failed first").wait_for(state="detached")
        assert page.inner_text("main") != first
        page.close()
    assert errors == []
