"""Masks that leave out what exists, or let in another part's elements, are mended, and maxima go over what counts."""

from __future__ import annotations

import pytest

from grader.diagnosis.edits.edits import Edit, edits_of

SOURCE = """import triton
import triton.language as tl


@triton.jit
def weighted(x_ptr, w_ptr, y_ptr, n, share, BLOCK: tl.constexpr):
    begin = tl.program_id(0) * share
    end = tl.minimum(begin + share, n)
    top = -1e30
    for block in range(begin // BLOCK, tl.cdiv(end, BLOCK)):
        at = block * BLOCK + tl.arange(0, BLOCK)
        inside = at < end
        w = tl.load(w_ptr + at, mask=inside, other=0.0)
        x = tl.load(x_ptr + at, mask=inside, other=0.0)
        top = tl.maximum(top, tl.max(w, 0))
        p = tl.exp(w - top)
        p = tl.where(inside, p, 0.0)
        tl.store(y_ptr + at, p * x, mask=inside)


def scale(x):
    weighted[(2,)](x, x, x, 5, 3, BLOCK=16)
"""


def edits(source: str = SOURCE) -> list[Edit]:
    return edits_of(source, {("weighted", 5): ((), {"n": 5, "share": 3, "BLOCK": 16})}, "scale")


def kinds_of(line: str, source: str = SOURCE) -> list[str]:
    """Return the first kind of each edit after which the text has a line."""
    return [one.kinds[0] for one in edits(source) if line in map(str.strip, one.applied(source).splitlines())]


@pytest.mark.parametrize(
    "mask",
    [
        "inside & (w > 0.0)",
        "(w != 0.0) & inside",
        "inside & (tl.abs(w) > 1e-6)",
        "w != 0.0",
        "inside & (x > w) & (w > 0)",
    ],
)
def test_a_condition_on_loaded_values_is_left_out_of_a_mask(mask: str) -> None:
    right = "tl.store(y_ptr + at, p * x, mask=inside)"
    wrong = SOURCE.replace(right, right.replace("inside", mask))
    assert kinds_of(right, wrong)[:1] == ["masked_by_values"]


def test_a_condition_on_loaded_values_is_found_behind_a_name() -> None:
    source = SOURCE.replace("mask=inside)", "mask=kept)").replace(
        "        top = tl.max", "        kept = inside & (w > 0)\n        top = tl.max"
    )
    assert kinds_of("tl.store(y_ptr + at, p * x, mask=inside)", source) == ["masked_by_values"]
    assert kinds_of("kept = inside", source) == ["masked_by_values"]


def test_a_position_below_a_loaded_length_is_no_condition_on_values() -> None:
    source = SOURCE.replace("    top = -1e30\n", "    top = -1e30\n    length = tl.load(w_ptr)\n")
    source = source.replace("inside = at < end", "inside = (at < end) & (at < length)")
    assert not any("masked_by_values" in one.kinds for one in edits(source))


def test_what_a_condition_on_values_leaves_to_some_is_computed_for_all() -> None:
    right = "tl.store(y_ptr + at, (p * x), mask=inside)"
    source = SOURCE.replace("p * x,", "tl.where(x == 0.0, x, p * x),")
    assert kinds_of(right, source) == ["value_shortcut"]
    assert kinds_of(right, SOURCE.replace("p * x,", "tl.where(inside, x, p * x),")) == []


def test_what_lies_before_a_part_is_masked_out() -> None:
    line = "inside = ((at < end) & (at >= begin))"
    assert kinds_of(line) == ["starts_before"]
    named = SOURCE.replace("range(begin // BLOCK,", "range(first,").replace(
        "    top = -1e30\n", "    first = begin // BLOCK\n    top = -1e30\n"
    )
    assert kinds_of(line, named) == ["starts_before"]
    by_slots = SOURCE.replace("range(begin // BLOCK, tl.cdiv(end, BLOCK))", "range(begin - begin % BLOCK, end, BLOCK)")
    assert kinds_of(line, by_slots) == ["starts_before"]


def test_a_loop_whose_start_is_not_rounded_begins_with_its_part() -> None:
    source = SOURCE.replace("range(begin // BLOCK, tl.cdiv(end, BLOCK))", "range(begin, end, BLOCK)")
    assert not any("starts_before" in one.kinds for one in edits(source))


@pytest.mark.parametrize(
    "hidden",
    [
        "p = tl.exp(w - top)\n        p = tl.where(inside, p, 0.0)",
        "p = tl.where(inside, tl.exp(w - top), 0.0)",
        "p = tl.exp(w - top) * inside",
    ],
)
def test_a_maximum_goes_over_what_is_not_hidden_behind_it(hidden: str) -> None:
    source = SOURCE.replace("p = tl.exp(w - top)\n        p = tl.where(inside, p, 0.0)", hidden)
    assert "maximum_of_hidden" in kinds_of("top = tl.maximum(top, tl.max(tl.where(inside, w, -1e30), 0))", source)


def test_a_maximum_of_what_nothing_hides_stays() -> None:
    source = SOURCE.replace("        p = tl.where(inside, p, 0.0)\n", "")
    assert not any("maximum_of_hidden" in one.kinds for one in edits(source))


@pytest.mark.parametrize(
    ("mask", "right"), [("live & at < end", "live & (at < end)"), ("at < end & live", "(at < end) & live")]
)
def test_a_condition_that_and_takes_apart_gets_its_brackets(mask: str, right: str) -> None:
    source = SOURCE.replace("inside = at < end", f"live = at >= 0\n        inside = {mask}")
    assert kinds_of(f"inside = {right}", source) == ["brackets_missing"]


@pytest.mark.parametrize("mask", ["(at & 1) == 0", "(at < end) & (at >= 0)", "end > (at | 1)"])
def test_conditions_in_brackets_stay_as_they_are(mask: str) -> None:
    source = SOURCE.replace("inside = at < end", f"inside = {mask}")
    assert not any("brackets_missing" in one.kinds for one in edits(source))
