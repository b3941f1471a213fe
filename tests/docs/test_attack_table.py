"""Every number of the catalogue is a file or has a reason, and docs/attacks.md says what the files say."""

from __future__ import annotations

import re

import pytest

from grader.exercise.catalogue import discover
from grader.exercise.planted import read
from grader.soundness.claims import claim_of
from tests.claims import REFERENCE, ROOT, SUBMISSIONS, Link, files, link, links, twin_of
from tests.pages.attack_table import ATTACKS, MECHANISM, MORE, PAGE, REASONS, page


@pytest.fixture(scope="module")
def every_link() -> list[Link]:
    """Read every file that is an attack: some hundred, so not where this file is collected."""
    return links()


def test_the_page_is_what_python_m_tests_attack_table_writes(every_link: list[Link]) -> None:
    assert PAGE.read_text(encoding="utf-8") == page(every_link)


def test_every_number_is_a_file_or_has_a_reason(every_link: list[Link]) -> None:
    assert list(ATTACKS) == list(range(1, 76))
    expressed = {number for found in every_link for number in found.numbers}
    assert expressed | REASONS.keys() == ATTACKS.keys()
    assert not expressed & REASONS.keys()
    assert MORE.keys() <= ATTACKS.keys()


def test_every_number_says_what_stops_it() -> None:
    assert list(MECHANISM) == list(ATTACKS)
    assert all(MECHANISM.values())
    # What does not apply has a reason instead of files.
    assert {number for number, text in MECHANISM.items() if text == "does not apply"} <= REASONS.keys()


@pytest.mark.parametrize("folder", ["attacks", "elsewhere", "escapes"])
def test_every_file_of_these_folders_says_which_attack_it_is(folder: str) -> None:
    assert [path for path in files(folder) if link(path) is None] == []


def test_an_attack_has_a_number_that_there_is_and_an_honest_twin_that_is_judged(every_link: list[Link]) -> None:
    entries = {entry.name: entry for entry in discover(ROOT)}
    for found in every_link:
        assert set(found.numbers) <= ATTACKS.keys(), found
        twin = twin_of(found)
        assert twin is not None, found
        assert twin.is_file(), found
        assert twin.parent.name in ("controls", "honest") or re.match("timing/(honest_twin$|control_)", found.twin)
        if found.path.is_relative_to(REFERENCE):
            parts = entries[found.path.parents[1].name].parts_in(twin)
            assert claim_of(read(found.path)).check.partition(".")[0] in parts, found


def test_what_is_honest_is_no_attack() -> None:
    honest = [*files("controls"), *SUBMISSIONS.glob("timing/control_*.py"), *REFERENCE.glob("*/honest/*.py")]
    assert [path for path in honest if link(path)] == []
