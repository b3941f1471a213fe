"""The submission's own lines stand beside the causes that name them."""

from __future__ import annotations

import pytest

from grader.grading.excerpts import with_excerpt, with_repeats
from grader.record.causes import Cause, Difference, Excerpt, Mismatch, Suspect
from grader.record.checks import CheckResult
from tests.records import samples

LINES = tuple(f"line {number}" for number in range(1, 21))
SOURCE = "\n".join(LINES)


def check(rationale: str, evidence: str = "") -> CheckResult:
    suspects = (Suspect("a", "A", evidence, "help"),) if evidence else ()
    return samples.check("p.c", "C", "fail", cause=Cause("kind", "Title", rationale, suspects=suspects))


def excerpt(result: CheckResult) -> Excerpt | None:
    shown = with_excerpt(result, SOURCE).cause
    assert shown is not None
    return shown.excerpt


@pytest.mark.parametrize("words", ["Line 9 (add_kernel), `x`: …", "NameError (line 9): x", "see lane 3 at line 9."])
def test_a_named_line_is_shown_with_three_neighbours_on_either_side(words: str) -> None:
    assert excerpt(check(words)) == Excerpt(9, 6, LINES[5:12])


def test_neighbours_end_where_the_file_ends() -> None:
    assert excerpt(check("Line 1")) == Excerpt(1, 1, LINES[:4])
    assert excerpt(check("Line 20")) == Excerpt(20, 17, LINES[16:])


@pytest.mark.parametrize("separator", ["\x0b", "\x0c", "\x1c", "\x85", "\u2028"])
def test_lines_count_as_python_counts_them(separator: str) -> None:
    shown = with_excerpt(check("Line 3"), f"# a{separator}b\nline 2\rline 3\r\nline 4\n").cause
    assert shown is not None
    assert shown.excerpt is not None
    assert shown.excerpt.lines[1:] == ("line 2", "line 3", "line 4")


def test_a_line_that_the_evidence_names_is_shown_too() -> None:
    assert excerpt(check("Wrong.", "The store on line 4 has no mask.")) == Excerpt(4, 1, LINES[:7])


def test_of_wrong_values_the_line_to_change_is_shown_and_not_the_one_that_launched_them() -> None:
    mismatch = Mismatch("z", 1, 9, 0.5, 0.5, (4,), "scattered", (Difference((4,), 1.0, 0.5, 0.001),))
    cause = Cause("mismatch", "Title", "Launched in line 15.", "Change the load at line 7.", mismatch=mismatch)
    assert excerpt(samples.check("p.c", "C", "fail", cause=cause)) == Excerpt(7, 4, LINES[3:10])


@pytest.mark.parametrize("words", ["No place.", "Line 0", "Line 21", "16 lines", "outline 3x"])
def test_without_a_line_of_the_file_nothing_is_shown(words: str) -> None:
    assert excerpt(check(words)) is None


def test_a_check_without_a_cause_stays_as_it_is() -> None:
    passed = samples.check("p.c", "C", "pass")
    assert with_excerpt(passed, SOURCE) is passed


KERNEL = """
def kernel(x):
    mask = x < 7
    tl.store(x, mask)

def other(x):
    tl.store(x, 1)

def p(x):
    kernel[(1,)](x)
"""


@pytest.mark.parametrize(("source", "line"), [(KERNEL, 4), (KERNEL.replace("mask = x < 7", "tl.store(x, 7)"), None)])
def test_wrong_values_without_a_line_show_the_only_store_of_the_part(source: str, line: int | None) -> None:
    wrong = samples.check("p.c", "C", "fail", cause=samples.vector_mismatch())
    shown = with_excerpt(wrong, source).cause
    assert shown is not None
    assert (shown.excerpt.line if shown.excerpt else None) == line
    if shown.excerpt:
        assert shown.excerpt.words == "The line that stores the result"


@pytest.mark.parametrize(
    ("kind", "line"),
    [("remembered_input", 4), ("remembered_result", 4), ("reused_output", 4), ("strides_ignored", None)],
)
def test_an_earlier_call_s_result_shows_the_line_that_keeps_it(kind: str, line: int | None) -> None:
    told = Cause("", "Title", "Wrong.", suspects=(Suspect(kind, "A", "", "help"),))
    shown = with_excerpt(
        samples.check("p.c", "C", "fail", cause=told), "KEPT = {}\n\ndef p(x):\n    KEPT[0] = x\n"
    ).cause
    assert shown is not None
    assert (shown.excerpt.line if shown.excerpt else None) == line


def test_a_long_line_is_cut_and_control_characters_are_removed() -> None:
    shown = with_excerpt(check("Line 1"), "\x1b[31m" + "x" * 300).cause
    assert shown is not None
    assert shown.excerpt is not None
    assert shown.excerpt.lines == ("x" * 194 + "…",)


def test_a_function_that_is_defined_twice_is_told_with_its_lines() -> None:
    shown = with_repeats(check("Wrong."), f"{KERNEL}\ndef kernel(x):\n    tl.store(x, 2)\n").cause
    assert shown is not None
    assert shown.help == "`kernel` is defined at lines 2 and 12: Python keeps the last one."


def test_a_helper_that_was_pasted_twice_goes_unmentioned() -> None:
    result = check("Wrong.")
    assert with_repeats(result, f"{KERNEL}\n{KERNEL}") is result


@pytest.mark.parametrize("more", ["", "\ndef other(x):\n    return x\n", "\nx = (", "\np.later = 1\n"])
def test_what_a_part_does_not_reach_may_be_defined_twice(more: str) -> None:
    result = check("Wrong.")
    assert with_repeats(result, KERNEL + more) is result
