"""Failing cases beside passing ones: what the failing ones have in common is evidence, as far as it goes."""

from __future__ import annotations

from grader.diagnosis.case_contrast import (
    Split,
    by_layout_alone,
    contrasts,
    only_size,
    refuted,
    split,
)
from grader.diagnosis.kinds import of_family
from grader.exercise.cases import Case, Choice, Size, Space
from grader.exercise.causes import Contrast
from grader.judge.clue import Clue
from grader.judge.trial import TriedCase

SPACE = Space({"N": Size(1, 4096), "layout": Choice(("rows", "columns", "sliced")), "causal": Choice((0, 1))})
LAYOUT = Contrast("layout", "strides_ignored", "that do not lie row after row")
CAUSAL = Contrast("causal", "causal_missing", "with the causal mask")


def tried(fails: str, *cases: tuple[int, str, int]) -> list[TriedCase]:
    """Cases of N, layout and causal; `fails`: one letter for each, x for those that fail."""
    return [
        TriedCase(SPACE.case(N=n, layout=layout, causal=causal), letter == "x")
        for letter, (n, layout, causal) in zip(fails, cases, strict=True)
    ]


CASES = (
    (64, "rows", 0),
    (128, "rows", 0),
    (100, "rows", 0),
    (100, "columns", 0),
    (128, "sliced", 0),
    (65, "rows", 1),
    (256, "rows", 1),
    (33, "rows", 0),
)


def found(fails: str, *declared: Contrast) -> dict[str, Clue]:
    return {clue.kind: clue for clue in contrasts(tried(fails, *CASES), declared, SPACE)}


def test_what_all_failing_cases_have_and_no_passing_one_is_evidence_in_words() -> None:
    clues = found("---xx---", LAYOUT, CAUSAL)
    assert "causal_missing" not in clues
    assert max(clues.values(), key=lambda clue: clue.weight).kind == "strides_ignored"
    assert clues["strides_ignored"].evidence == (
        "All 2 failing cases are ones that do not lie row after row; 6 others pass."
    )
    assert not clues["strides_ignored"].confirmed


def test_a_failing_case_without_it_is_no_evidence() -> None:
    assert "strides_ignored" not in found("x--xx---", LAYOUT)


def test_passing_cases_that_have_it_too_weaken_it() -> None:
    weaker = found("---x----", Contrast("layout", "strides_ignored", "so", ("columns", "sliced")))
    assert weaker["strides_ignored"].weight < found("---xx---", LAYOUT)["strides_ignored"].weight
    assert "1 like them pass" not in weaker["strides_ignored"].evidence


def test_some_values_alone_may_be_what_matters() -> None:
    assert "layout=columns" in found("---x----", LAYOUT)["strides_ignored"].evidence


def test_two_axes_may_point_to_one_kind_together() -> None:
    both = LAYOUT, Contrast("causal", "strides_ignored", "with the mask")
    seen = found("---xxxx-", *both)["strides_ignored"].evidence
    assert "that do not lie row after row or with the mask" in seen


def test_lengths_that_fill_no_block_point_to_masks_tails_and_padding() -> None:
    clues = found("--xx-x-x")
    assert set(clues) == set(of_family("ragged"))
    assert "no multiple of 64" in clues["missing_mask"].evidence


def test_where_everything_fails_nothing_can_be_told_apart() -> None:
    assert found("xxxxxxxx", LAYOUT, CAUSAL) == {}


def test_a_kind_that_leaves_a_failing_case_alone_is_refuted() -> None:
    factors = refuted(tried("x-------", *CASES), (LAYOUT,), SPACE)
    assert factors["strides_ignored"] < 1
    assert refuted(tried("---x----", *CASES), (LAYOUT,), SPACE).get("strides_ignored", 1) == 1
    loose = Contrast("layout", "start_ignored", "so", only=False)
    assert "start_ignored" not in refuted(tried("x-------", *CASES), (loose,), SPACE)


def test_a_full_case_that_fails_speaks_against_masks_and_passing_ones_against_what_spares_none() -> None:
    assert set(of_family("ragged")) <= set(refuted(tried("-x------", *CASES), (), SPACE))
    assert set(of_family("everywhere")) <= set(refuted(tried("-x------", *CASES), (), SPACE))
    assert not set(of_family("everywhere")) & set(refuted(tried("xxxxxxxx", *CASES), (), SPACE))


def test_a_split_needs_passing_cases_on_the_other_side() -> None:
    def causal(case: Case) -> bool:
        return case["causal"] == 1

    assert split(tried("-----xx-", *CASES), causal).holds
    assert not split(tried("xxxxxxxx", *CASES), causal).holds
    assert split(tried("xxxxxxxx", *CASES), causal).strength == 0


def test_what_nearly_all_passing_cases_have_as_well_is_hardly_evidence() -> None:
    common, rare = Split(20, 0, 8, 1), Split(20, 0, 2, 1)
    assert common.strength < 0.25 < 0.8 < rare.strength


def test_what_more_passing_cases_have_than_failing_ones_is_no_evidence_for_a_mask() -> None:
    # Of the five lengths that 128 does not divide, one fails.
    one_of_five = contrasts(tried(".......x", *CASES), (), SPACE)
    assert [
        clue.kind for clue in one_of_five if clue.kind in of_family("ragged") and "others" not in clue.evidence
    ] == []
    assert not any("128" in clue.evidence for clue in one_of_five)


def test_a_layout_that_parts_failing_and_passing_cases_speaks_against_a_mask() -> None:
    cases = [(100, layout, 0) for layout in ("rows", "rows", "rows", "columns", "columns", "sliced")]
    apart = tried("...xxx", *cases)
    assert by_layout_alone(apart, (LAYOUT,), SPACE)
    assert all(refuted(apart, (LAYOUT,), SPACE)[kind] < 1 for kind in of_family("ragged"))
    assert not by_layout_alone(tried("..xxxx", *cases), (LAYOUT,), SPACE)


def test_a_size_that_all_passing_cases_have_and_no_failing_one_is_assumed() -> None:
    cases = [(n, "rows", 0) for n in (64, 64, 64, 32, 128)]
    (clue,) = only_size(tried("...xx", *cases), SPACE)
    assert (clue.kind, clue.confirmed) == ("size_assumed", True)
    assert clue.evidence == "All 3 cases that pass have N=64, and no failing one has."
    assert only_size(tried("..xxx", *cases), SPACE) == []


PRODUCTS = Space({"M": Size(1, 512), "N": Size(1, 512)})


def products(*cases: tuple[int, int, bool]) -> list[TriedCase]:
    return [TriedCase(PRODUCTS.case(M=m, N=n), failed) for m, n, failed in cases]


def test_two_sizes_whose_order_alone_parts_the_cases_are_exchanged_axes() -> None:
    tried = products(*((33, 17, True), (128, 64, True), (5, 4, True)), *((9, 9, False), (8, 64, False), (3, 70, False)))
    clue = next(one for one in contrasts(tried, [], PRODUCTS) if one.kind == "axes_exchanged")
    assert clue.evidence == "All 3 failing cases are ones in which M is larger than N; 3 others pass."


def test_two_sizes_that_must_be_equal_are_exchanged_axes() -> None:
    tried = products(*((33, 17, True), (64, 128, True), (5, 4, True)), *((9, 9, False), (8, 8, False), (3, 3, False)))
    clue = next(one for one in contrasts(tried, [], PRODUCTS) if one.kind == "axes_exchanged")
    assert "in which M is not equal to N" in clue.evidence


def test_a_length_and_a_start_that_may_be_0_are_no_exchanged_axes() -> None:
    vectors = Space({"N": Size(1, 512), "start": Choice((0, 1, 7))})
    cases = [(9, 0, True), (70, 7, True), (33, 1, True), (1, 1, False), (1, 7, False), (7, 7, False)]
    tried = [TriedCase(vectors.case(N=n, start=start), failed) for n, start, failed in cases]
    assert not any(one.kind == "axes_exchanged" for one in contrasts(tried, [], vectors))


def test_a_length_that_one_block_holds_wherever_a_case_passes_points_to_the_next_block() -> None:
    tried = products(
        *((70, 9, True), (130, 65, True), (65, 4, True)), *((64, 9, False), (8, 64, False), (3, 70, False))
    )
    (clue,) = (one for one in contrasts(tried, [], PRODUCTS) if one.kind == "later_blocks")
    assert clue.evidence == "All 3 failing cases are ones in which M is larger than 64; 3 others pass."


def test_one_case_in_twenty_may_pass_by_luck() -> None:
    failing = [(size + 1, size, True) for size in range(1, 21)]
    tried = products(*failing, (2, 1, False), (9, 9, False), (8, 8, False), (3, 3, False))
    clue = next(one for one in contrasts(tried, [], PRODUCTS) if one.kind == "axes_exchanged")
    assert "one like them passes; 3 others pass" in clue.evidence


def test_an_order_of_sizes_that_one_passing_case_has_is_no_evidence() -> None:
    tried = products(*((33, 17, True), (128, 64, True), (5, 4, True)), *((9, 7, False), (8, 64, False), (3, 70, False)))
    assert "axes_exchanged" not in {one.kind for one in contrasts(tried, [], PRODUCTS)}


def test_a_cause_that_spares_no_case_is_refuted_by_some_that_pass() -> None:
    layouts = [(64, "rows", 0), *[(64, "columns", 0)] * 3, *[(64, "sliced", 0)] * 2]
    every = Contrast("layout", "strides_ignored", "that do not lie row after row", every=True)
    assert refuted(tried("----xx", *layouts), [every], SPACE)["strides_ignored"] < 1
    # Two may pass by luck, and values leave no doubt that the mistake is made in some cases.
    assert "strides_ignored" not in refuted(tried("-x--xx", *layouts), [every], SPACE)
    assert "strides_ignored" not in refuted(tried("----xx", *layouts), [every], SPACE, ["strides_ignored"])
    assert "strides_ignored" not in refuted(tried("----xx", *layouts), [LAYOUT], SPACE)


def test_a_failing_case_whose_tiles_divide_it_speaks_against_masks() -> None:
    space = Space({"M": Size(1, 70), "tile_m": Choice((8, 4))})
    for rows, is_refuted in ((16, True), (17, False)):
        failing = [TriedCase(Case({"M": rows, "tile_m": 8}), failed=True, seed=0)]
        assert ("missing_mask" in refuted(failing, (), space)) == is_refuted


def test_a_relation_of_two_axes_may_be_declared_and_says_more_than_that_they_differ() -> None:
    space = Space({"Hq": Size(1, 8), "Hkv": Size(1, 8)})
    heads = [(1, 1), (2, 2), (4, 4), (2, 1), (4, 2), (4, 1), (8, 8)]
    cases = [TriedCase(space.case(Hq=one, Hkv=other), one > other) for one, other in heads]
    shared = Contrast("Hq", "heads_mapping", "whose heads share", than="Hkv")
    clues = {clue.kind: clue for clue in contrasts(cases, (shared,), space)}
    assert clues["heads_mapping"].evidence == "All 3 failing cases are ones whose heads share; 4 others pass."
    assert "axes_exchanged" not in clues
    assert "axes_exchanged" in {clue.kind for clue in contrasts(cases, (), space)}
