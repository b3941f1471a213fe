"""Plain CSV: one line per student, nothing that a spreadsheet would compute, nothing rounded into full marks."""

from __future__ import annotations

import csv
import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grader.export import table
from grader.text import clean
from tests.records import samples
from tests.records.classes import all_judged, book


def rows_of(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text, newline="")))


def test_the_gradebook_has_a_line_for_everybody_and_a_column_for_every_exercise() -> None:
    assert rows_of(table.gradebook(book())) == [
        ["student", "name", "email", "section", "ex_15", "total", "not judged"],
        ["ada", "Lovelace, Ada", "ada@uni.example", "GPU-A", "25.5", "25.5", "0"],
        ["grace", "Hopper, Grace", "grace@uni.example", "GPU-A", "11", "11", "9"],
        ["evil", '\'=HYPERLINK("http://x")', "'+1@uni.example", "'@sum", "40.99", "40.99", "0"],
        ["late", "Late, Latif", "late@uni.example", "GPU-B", "", "0", "0"],
    ]


def test_an_exercise_s_file_tells_how_the_points_came_about() -> None:
    checks = {("ada", "ex_15"): table.points_of(all_judged()), ("grace", "ex_15"): table.points_of(samples.failing())}
    header, ada, grace, evil, late = rows_of(table.exercise(book(), "ex_15", checks))
    of_ada, of_evil = dict(zip(header, ada, strict=True)), dict(zip(header, evil, strict=True))
    assert (of_ada["points"], of_ada["earned"], of_ada["penalty"], of_ada["days_late"]) == ("25.5", "29.5", "4", "2")
    assert of_ada["vector_add.tail"] == "9.5"
    assert (of_evil["override"], of_evil["reason"], of_evil["author"]) == ("41", "'=1+1, appealed", "'@prof")
    assert dict(zip(header, grace, strict=True))["row_softmax.tail"] == "0"
    # What nobody judged is an empty cell, not a zero.
    assert "row_softmax.traffic" not in header
    assert dict(zip(header, late, strict=True))["status"] == "missing"


@given(st.text())
def test_no_cell_is_a_formula_and_no_line_breaks(value: str) -> None:
    cell = table.safe(value)
    assert not cell.startswith(("=", "+", "-", "@", "\t", "\r"))
    assert not re.search("[\x00-\x1f]", cell)
    assert rows_of(table.text(["a"], [[cell, "x"]]))[1] == [cell, "x"]


@pytest.mark.parametrize("value", ["ada;=1+1", "ada; =1+1", "\u200b=1", "\uff1d1", ";\u00ad@x", "a;+b;-c"])
def test_no_cell_becomes_a_formula_where_semicolons_end_cells_or_signs_are_wide(value: str) -> None:
    cell = table.safe(value)
    assert not re.search("(^|;)[^\\w']*[=+@\uff1d-]", cell)
    assert cell.replace("'", "") == clean(value)


def test_a_semicolon_or_a_sign_within_a_text_stays_as_it_is() -> None:
    assert table.safe("Lovelace; Ada-Maria a@b.c 1+1=2") == "Lovelace; Ada-Maria a@b.c 1+1=2"


@pytest.mark.parametrize(
    ("value", "most", "shown"),
    [(41, 41, "41"), (40.999, 41, "40.99"), (0.005, 41, "0"), (12.345, 41, "12.34"), (100.0, 100, "100"), (0, 0, "0")],
)
def test_a_score_has_two_decimals_and_reaches_the_top_only_from_there(value: float, most: float, shown: str) -> None:
    assert table.score(value, most) == shown
