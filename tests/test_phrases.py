"""Counts, lists, sizes and shares in words."""

from __future__ import annotations

from grader.phrases import all_of, counted, cut, in_percent, kib, lines_named, listed, one_of


def test_one_of_a_thing_has_no_plural() -> None:
    assert [counted(number, "call") for number in (0, 1, 2, 1024)] == ["0 calls", "1 call", "2 calls", "1,024 calls"]
    assert counted(1, "launch", "launches") == "1 launch"
    assert counted(3, "launch", "launches") == "3 launches"


def test_a_long_list_names_its_first_and_counts_the_others() -> None:
    assert listed(["a", "b"], 2) == "a, b"
    assert listed(["a", "b", "c", "d"], 2) == "a, b and 2 more"
    assert listed(["a, b", "c", "d"], 2, "; ") == "a, b; c; and 1 more"


def test_a_list_in_a_sentence_ends_in_and() -> None:
    assert all_of(()) == ""
    assert all_of(("a",)) == "a"
    assert all_of(("a", "b")) == "a and b"
    assert all_of(("a", "b", "c")) == "a, b and c"


def test_alternatives_in_a_sentence_end_in_or() -> None:
    assert [one_of(names) for names in ((), ("a",), ("a", "b"), ("a", "b", "c"))] == ["", "a", "a or b", "a, b or c"]


def test_several_lines_are_lines() -> None:
    assert lines_named([3]) == "line 3"
    assert lines_named([3, 5, 7]) == "lines 3, 5 and 7"
    assert lines_named(range(1, 5001)) == "lines 1, 2, 3, 4, 5, 6, 7, 8 and 4992 more"


def test_a_cut_is_marked_and_its_mark_counts() -> None:
    assert cut("four", 4) == "four"
    assert cut("fives", 4) == "fiv…"


def test_kibibytes_have_a_digit_behind_the_point_where_it_says_something() -> None:
    assert [kib(size) for size in (1024, 12_800, 1 << 20)] == ["1 KiB", "12.5 KiB", "1024 KiB"]


def test_only_nothing_is_0_and_only_everything_100_per_cent() -> None:
    shares = (-0.1, 0, 0.005, 0.5, 0.9999, 1, 1.2)
    assert [in_percent(one) for one in shares] == ["0%", "0%", "under 1%", "50%", "99%", "100%", "120%"]
    assert [in_percent(one, 1) for one in shares] == ["0%", "0%", "0.5%", "50.0%", "99.9%", "100%", "120%"]
    assert in_percent(0.0005, 1) == "under 0.1%"
