"""Counts, lists, sizes and shares in words."""

from __future__ import annotations

import pytest

from grader.phrases import counted, cut, in_percent, kib, lines_named, listed


def test_one_of_a_thing_has_no_plural() -> None:
    assert [counted(number, "call") for number in (0, 1, 2, 1024)] == ["0 calls", "1 call", "2 calls", "1,024 calls"]
    assert counted(1, "launch", "launches") == "1 launch"
    assert counted(3, "launch", "launches") == "3 launches"


def test_a_long_list_names_its_first_and_counts_the_others() -> None:
    assert listed(["a", "b"], 2) == "a, b"
    assert listed(["a", "b", "c", "d"], 2) == "a, b and 2 more"


def test_several_lines_are_lines() -> None:
    assert lines_named([3]) == "line 3"
    assert lines_named([3, 5, 7]) == "lines 3, 5 and 7"


def test_a_cut_is_marked_and_its_mark_counts() -> None:
    assert cut("four", 4) == "four"
    assert cut("fives", 4) == "fiv…"


@pytest.mark.parametrize(("size", "words"), [(1024, "1 KiB"), (12_800, "12.5 KiB"), (1 << 20, "1024 KiB")])
def test_kibibytes_have_a_digit_behind_the_point_where_it_says_something(size: int, words: str) -> None:
    assert kib(size) == words


@pytest.mark.parametrize(
    ("share", "whole", "tenths"),
    [
        (-0.1, "0%", "0%"),
        (0, "0%", "0%"),
        (0.0005, "under 1%", "under 0.1%"),
        (0.005, "under 1%", "0.5%"),
        (0.5, "50%", "50.0%"),
        (0.9999, "99%", "99.9%"),
        (1, "100%", "100%"),
        (1.2, "120%", "120%"),
    ],
)
def test_only_nothing_is_0_and_only_everything_100_per_cent(share: float, whole: str, tenths: str) -> None:
    assert in_percent(share) == whole
    assert in_percent(share, 1) == tenths
