"""docs/gpus.md says what the specifications and the rows of the GPUs say."""

from __future__ import annotations

import pytest

from tests.pages.gpu_table import NAMES, PAGE, bands, baseline, cards, page, sizes


def test_the_table_is_what_python_m_tests_gpu_table_writes() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert text == page(text)


def test_every_timed_part_has_a_baseline_on_every_card() -> None:
    for _, part, band in bands():
        for _, row in cards():
            assert baseline(band, row), part.name


def test_a_card_without_bfloat16_gets_no_size_in_it() -> None:
    t4 = next(card for card in cards() if card[0].name == "T4")
    for _, part, band in bands():
        others = [case for case in band.suite.named_cases if case.get("dtype") != "bfloat16"]
        assert sizes(band, *t4) <= len(others), part.name


@pytest.mark.parametrize("name", NAMES)
def test_the_page_speaks_of_every_card(name: str) -> None:
    assert PAGE.read_text(encoding="utf-8").count(name) >= 3
