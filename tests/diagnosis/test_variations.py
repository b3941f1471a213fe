"""A failing case is tried with full blocks, equal sizes and simple layouts: two cases that differ in one respect."""

from __future__ import annotations

from dataclasses import replace

import pytest

from grader.diagnosis.probes.variations import (
    Change,
    Variation,
    fails_full,
    layout_matters,
    not_varied,
    variation_clues,
    variations_of,
)
from grader.exercise.cases import Case
from grader.exercise.catalogue import Entry
from grader.exercise.causes import Contrast
from grader.judge.bench import Bench
from grader.judge.clue import Clue
from grader.sandbox.server import ForkServer
from tests.benches import VECTOR_ADD, bench_of

LAYOUT = Contrast("layout", "strides_ignored", "that do not lie row after row")
SLICED = Contrast("layout", "start_ignored", "that are a window", ("sliced",), only=False)
CAUSAL = Contrast("causal", "causal_missing", "with the causal mask")
FAILING = Case({"M": 33, "N": 70, "layout": "sliced", "causal": 1})


def varied(*, fails: bool, change: Change = Change.AXIS, **values: int | str) -> Variation:
    return Variation(FAILING, FAILING.changed(**values), fails, change)


def sized(fails: str, *sizes: tuple[int, int]) -> list[Variation]:
    """Variations with full blocks; `fails`: one letter for each, x for those that fail."""
    return [
        varied(fails=letter == "x", change=Change.EQUAL if m == n else Change.FULL, M=m, N=n)
        for letter, (m, n) in zip(fails, sizes, strict=True)
    ]


SIZES = ((256, 128), (128, 256), (128, 128), (256, 256))


def test_an_axis_that_alone_decides_points_to_the_kinds_of_its_value() -> None:
    clues = list(variation_clues([varied(fails=False, layout="rows")], [LAYOUT, SLICED, CAUSAL]))
    assert [clue.kind for clue in clues] == ["strides_ignored", "start_ignored"]
    assert clues[0].evidence == "The same case passes with layout=rows."
    assert not clues[0].confirmed


def test_a_layout_in_which_one_case_passes_says_nothing_of_one_that_fails_in_it() -> None:
    plain = varied(fails=False, layout="rows")
    assert plain.speaks_of(FAILING)
    assert not plain.speaks_of(FAILING.changed(layout="rows", N=1000))
    assert varied(fails=True, layout="rows").speaks_of(FAILING.changed(layout="rows"))


def test_the_more_axes_decide_the_less_each_of_them_says() -> None:
    layout, causal = varied(fails=False, layout="rows"), varied(fails=False, causal=0)
    (alone,) = variation_clues([layout], [LAYOUT])
    (beside,) = variation_clues([layout, causal], [LAYOUT])
    assert beside.weight == alone.weight / 2
    assert list(variation_clues([varied(fails=True, layout="rows")], [LAYOUT])) == []


def test_an_access_that_the_simplest_layout_does_not_make_is_told_beside_other_mistakes_too() -> None:
    inside = varied(fails=False, layout="rows")
    assert [one.firm for one in variation_clues([inside, replace(inside, outside=True)], [LAYOUT])] == [False, True]


def test_sizes_that_must_be_equal_are_two_axes_in_each_others_place() -> None:
    (clue,) = variation_clues(sized("x---", *SIZES), [])
    assert clue.kind == "axes_exchanged"
    assert clue.evidence == (
        "With full blocks, the case fails where the sizes differ (M=256, N=128, causal=1), and passes where they are "
        "equal (M=256, N=256, causal=1)."
    )


@pytest.mark.parametrize("fails", ["----", "x--x", "xxxx"])
def test_equal_sizes_that_fail_as_well_are_no_sign_of_that(fails: str) -> None:
    assert list(variation_clues(sized(fails, *SIZES), [])) == []


def test_one_block_of_equal_sizes_may_hide_a_wrong_second_block() -> None:
    assert list(variation_clues(sized("x-", (256, 128), (128, 128)), [])) == []


def test_no_mask_is_missing_where_equal_full_blocks_fail() -> None:
    assert fails_full(sized("x--x", *SIZES))
    assert not fails_full(sized("----", *SIZES))


def test_a_mask_may_compare_with_another_axis_where_only_different_sizes_fail() -> None:
    assert not fails_full(sized("x---", *SIZES))


def test_full_blocks_that_fail_answer_what_ragged_cases_have_in_common() -> None:
    contrasted = [Clue("remainder_skipped", 0.4), Clue("axes_exchanged", 0.7), Clue("overflow", 0.5)]
    assert [clue.kind for clue in not_varied(contrasted, sized("x---", *SIZES))] == ["overflow"]
    assert not_varied(contrasted, [varied(fails=True, layout="rows")]) == contrasted


def test_a_single_size_has_full_blocks_too() -> None:
    assert fails_full([varied(fails=True, change=Change.FULL, N=4096)])


def test_no_missing_mask_depends_on_the_layout_alone() -> None:
    assert layout_matters([varied(fails=False, layout="rows")], [LAYOUT])
    assert not layout_matters([varied(fails=True, layout="rows")], [LAYOUT])
    assert not layout_matters([varied(fails=False, layout="rows", causal=0)], [LAYOUT])


def variations(bench: Bench, *, layout_only: bool = False, **values: int | str) -> list[Variation]:
    part = bench.part
    case = Case({"N": 100, "dtype": "float32", "values": "normal", "offset": 0, **values})
    failure = bench.try_case(case, 5).failure
    assert failure is not None
    assert failure.wrong_call is not None
    (check,) = (one for one in part.checks if one.name == "combinations")
    assert check.cases is not None
    kind = "strides_ignored" if layout_only else "start_ignored"
    offset = Contrast("offset", kind, "whose tensors start elsewhere")
    return variations_of(bench, failure.wrong_call, [offset], check.cases.space, layout_only=layout_only)


def test_a_missing_mask_does_no_harm_in_full_blocks(server: ForkServer, ex_15: Entry) -> None:
    with bench_of(server, ex_15, VECTOR_ADD.replace("x + y, mask=mask", "x + y")) as bench:
        found = variations(bench)
    assert [(one.change, one.failed) for one in found] == [(Change.FULL, False)]


@pytest.mark.parametrize(("offset", "change"), [(0, Change.FULL), (1, Change.AXIS)])
def test_a_wrong_sum_fails_in_every_variation(server: ForkServer, ex_15: Entry, offset: int, change: Change) -> None:
    with bench_of(server, ex_15, VECTOR_ADD.replace("x + y,", "x + 2 * y,")) as bench:
        found = variations(bench, offset=offset)
        assert [(one.change, one.failed) for one in found] == [(change, True)]
        # Only what is known of the cases grows; what decides checks does not.
        assert (len(bench.findings.tried), len(bench.findings.evidence)) == (2, 1)


@pytest.mark.parametrize(("offset", "changes"), [(1, [Change.AXIS]), (0, [])])
def test_a_later_access_is_tried_in_the_simplest_layout_alone(
    server: ForkServer, ex_15: Entry, offset: int, changes: list[Change]
) -> None:
    with bench_of(server, ex_15, VECTOR_ADD.replace("x + y,", "x + 2 * y,")) as bench:
        assert [one.change for one in variations(bench, layout_only=True, offset=offset)] == changes


def test_wrong_values_of_full_blocks_say_nothing_of_an_access_outside(server: ForkServer, ex_15: Entry) -> None:
    twice = VECTOR_ADD.replace("x + y, mask=mask", "x + 2 * y")
    with bench_of(server, ex_15, twice) as bench:
        assert variations(bench) == []
    with bench_of(server, ex_15, VECTOR_ADD.replace("x + y, mask=mask", "x + y")) as bench:
        assert [one.outside for one in variations(bench)] == [True]
