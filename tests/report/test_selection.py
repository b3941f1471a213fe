"""Test the picture of choices: one cell per case and choice, a ring on the chosen one, a cross on the best."""

from __future__ import annotations

from grader.record.checks import Selection
from grader.report.figures.selection import axes_words, picture

TWO = Selection(
    cases=("M=1, few=0", "M=2, few=0"),
    things=("Kernel(tile=64, stages=4)", "Kernel(tile=128, stages=4)"),
    ratios=((1.0, 1.5), (-1.0, 1.0)),
    chosen=(1, 1),
)


def test_it_says_in_words_what_it_shows() -> None:
    drawn = str(picture(TWO, "x"))
    assert "2 cases by 2 choices" in drawn
    assert "the best was chosen in 1 of 2 cases" in drawn


def test_names_are_cut_to_what_tells_them_apart() -> None:
    drawn = str(picture(TWO, "x"))
    assert ">64<" in drawn
    assert ">128<" in drawn
    assert "stages" not in drawn
    assert "few" not in drawn


def test_the_axes_say_what_their_numbers_are() -> None:
    assert axes_words(TWO) == "Rows: M. Columns: tile."
    assert axes_words(Selection(("first", "second"), ("a", "b"), ((1.0, 2.0), (2.0, 1.0)), (0, 1))) == ""


def test_there_is_none_without_a_case() -> None:
    assert not picture(Selection((), (), (), ()), "x")
