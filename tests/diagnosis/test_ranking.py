"""Clues become a few suspects, the likeliest first; planted mistakes are told by their true causes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from grader.diagnosis.case_contrast import contrasts_of
from grader.diagnosis.gathering import _is_filled, _reaches, _undecided, together
from grader.diagnosis.kinds import NAMEABLE, known_kinds, of_family
from grader.diagnosis.patterns import Answer
from grader.diagnosis.probes.variations import Change, Variation
from grader.diagnosis.ranking import PartFacts, explained, remedied, suspects_of
from grader.exercise.cases import Choice, Size, Space
from grader.exercise.catalogue import Entry, discover, resolve
from grader.exercise.causes import Contrast, Remedy
from grader.exercise.plan import default_seed
from grader.grading import Job, grade
from grader.judge.clue import Clue, sure
from grader.judge.trial import TriedCase
from grader.judge.truth import Expected
from grader.protocol.footprint import Footprint, TensorFootprint
from grader.protocol.observations import LaunchInfo
from grader.record.causes import Cause, Suspect
from grader.record.checks import CheckResult
from grader.sandbox.server import ForkServer
from grader.soundness.claims import claim_of, label_fault
from tests.conftest import plan_of, shortened

ROOT = Path(__file__).resolve().parents[2]
SPACE = Space({"N": Size(1, 4096), "layout": Choice(("rows", "columns"))})
LAYOUT = Contrast("layout", "strides_ignored", "that do not lie row after row")


def ranked(
    *clues: Clue,
    elsewhere: tuple[Clue, ...] = (),
    tried: tuple[TriedCase, ...] = (),
    declared: tuple[Contrast, ...] = (),
    varied: tuple[Variation, ...] = (),
) -> tuple[Suspect, ...]:
    return suspects_of(clues, elsewhere, PartFacts(NAMEABLE, tried, SPACE, declared, varied))


def kinds(suspects: tuple[Suspect, ...]) -> list[str]:
    return [one.kind for one in suspects]


def test_the_likeliest_comes_first_and_what_is_unlikely_is_left_out() -> None:
    clues = Clue("overflow", 0.4), Clue("missing_mask", 0.7), Clue("wrong_axis", 0.1)
    assert kinds(ranked(*clues)) == ["missing_mask", "overflow"]


def test_a_guess_that_a_probe_rules_out_is_left_out_however_firm() -> None:
    guesses = Clue("not_cleared", 0.6, firm=True), Clue("overflow", 0.4)
    assert kinds(ranked(*guesses, Clue("not_cleared", 0.0, refutes=True))) == ["overflow"]
    assert kinds(ranked(sure("not_cleared"), Clue("not_cleared", 0.0, refutes=True))) == ["not_cleared"]


def test_an_update_that_two_programs_lose_is_told_before_sizes_that_differ() -> None:
    space = Space({"Hq": Size(1, 8), "Hkv": Size(1, 8)})
    sizes = ((1, 1, False), (2, 2, False), (3, 3, False), (4, 4, False), (2, 1, True), (4, 2, True), (6, 3, True))
    tried = tuple(TriedCase(space.case(Hq=q, Hkv=kv), bad) for q, kv, bad in sizes)
    for clue, first in ((Clue("lost_update", 0.7), "lost_update"), (Clue("race", 0.6), "axes_exchanged")):
        assert kinds(suspects_of([clue], (), PartFacts(NAMEABLE, tried, space)))[0] == first


def test_where_exactly_the_cases_with_two_different_sizes_fail_the_exercise_says_what_to_do() -> None:
    space = Space({"Hq": Size(1, 8), "Hkv": Size(1, 8)})
    remedy = Remedy("stores_collide", "part", "Hq", "Hkv", "Add the parts of all heads.")
    clues = Clue("stores_collide", 0.9), Clue("axes_exchanged", 0.6)
    found = suspects_of(clues, (), PartFacts(NAMEABLE, space=space))
    sizes = ((1, 1, False), (2, 2, False), (3, 3, False), (2, 1, True), (4, 2, True))
    tried = [TriedCase(space.case(Hq=q, Hkv=kv), bad) for q, kv, bad in sizes]
    (told,) = remedied(found, tried, [remedy], "part")
    assert (told.kind, told.help) == ("stores_collide", remedy.help)
    also_equal = [*tried, TriedCase(space.case(Hq=4, Hkv=4), True)]
    assert remedied(found, also_equal, [remedy], "part") == found
    assert remedied(found, tried, [remedy], "another part") == found


def test_clues_that_agree_strengthen_each_other() -> None:
    clues = Clue("overflow", 0.5), Clue("clamped", 0.6), Clue("overflow", 0.5)
    assert kinds(ranked(*clues)) == ["overflow", "clamped"]


def test_an_access_outside_that_full_blocks_make_too_has_a_wrong_address() -> None:
    access, failing = Clue("missing_mask", 0.85, firm=True), SPACE.case(N=100)
    full = Variation(failing, failing.changed(N=4096), failed=True, change=Change.FULL)
    assert kinds(ranked(access)) == ["missing_mask"]
    assert kinds(ranked(access, varied=(full,))) == ["wrong_address"]


def test_an_access_outside_that_the_layout_alone_makes_misses_no_mask() -> None:
    access, failing = Clue("missing_mask", 0.85, firm=True), SPACE.case(N=100, layout="columns")
    plain = Variation(failing, failing.changed(layout="rows"), failed=False)
    assert kinds(ranked(access, declared=(LAYOUT,), varied=(plain,))) == ["strides_ignored"]


def test_a_grid_that_leaves_out_whole_blocks_in_another_check_leaves_a_remainder_by_chance() -> None:
    remainder, whole = (Clue("remainder_skipped", 0.9, firm=True), Clue("not_all_covered", 0.75, firm=True))
    assert kinds(ranked(remainder)) == ["remainder_skipped"]
    assert kinds(ranked(remainder, elsewhere=(whole,)))[0] == "remainder_skipped"
    assert kinds(ranked(remainder, elsewhere=(replace(whole, in_launch=True),))) == ["not_all_covered"]


def test_errors_as_small_as_a_rounding_s_pass_with_other_inputs_by_luck() -> None:
    failing = SPACE.case(N=128, layout="columns")
    passes = (Variation(failing, failing.changed(layout="rows"), failed=False),)
    declared = (replace(LAYOUT, kind="wrong_factor"),)
    for small, first in (
        (Clue("rounded_intermediate", 0.5), "rounded_intermediate"),
        (Clue("zeros", 0.5), "wrong_factor"),
    ):
        assert kinds(ranked(small, declared=declared, varied=passes))[0] == first


def test_what_is_sure_comes_before_every_guess() -> None:
    suspects = ranked(Clue("overflow", 0.9), sure("clamped", "All are 65504."))
    assert [(one.kind, one.confirmed) for one in suspects] == [("clamped", True), ("overflow", False)]


def test_a_guess_says_looks_like_and_a_certainty_does_not() -> None:
    guess, certain = ranked(Clue("clamped", 0.9)), ranked(sure("clamped"))
    assert guess[0].title == "Looks like values that are cut off at a limit"
    assert certain[0].title == "Values that are cut off at a limit"
    assert guess[0].help == NAMEABLE["clamped"].help


def test_a_clue_with_words_of_its_own_is_quoted() -> None:
    (one,) = ranked(Clue("clamped", 0.9, "So.", title="Looks as if", help="Do."))
    assert (one.title, one.help, one.evidence) == ("Looks as if", "Do.", "So.")


def test_no_more_than_four_are_offered_and_nothing_for_nothing() -> None:
    names = list(NAMEABLE)[:9]
    assert len(ranked(*(Clue(name, 0.5) for name in names))) == 4
    assert ranked() == ()
    assert ranked(Clue("overflow", 0.2)) == ()


def test_what_the_values_may_come_from_is_told_before_what_failing_cases_share() -> None:
    tried, shared = cases(False, False, False, True, True), (LAYOUT,)
    fits = Clue("overflow", 0.9, by_known_mistake=True)
    assert kinds(ranked(fits, tried=tried, declared=shared))[0] == "overflow"
    weak = replace(fits, weight=0.3)
    assert kinds(ranked(weak, tried=tried, declared=shared))[0] == "strides_ignored"


def launch(*tensors: tuple[int, int]) -> LaunchInfo:
    """A launch that wrote so many elements of each tensor, given as (elements, written)."""
    made = (TensorFootprint("y", (size,), size, 0, some, 0, 1, some, 0, 0, (), (1,), (), "") for size, some in tensors)
    return LaunchInfo("kernel", (1,), {}, footprint=Footprint(1, 0, 1, tuple(made)))


@pytest.mark.parametrize(
    ("launches", "filled"),
    [
        # A scratch tensor, then both outputs, each by a launch of its own.
        ((launch((2, 2)), launch((4, 4)), launch((6, 6))), True),
        ((launch((4, 3)), launch((6, 6))), False),
        ((launch((6, 6)),), False),
        ((), False),
    ],
)
def test_an_output_is_filled_if_a_launch_wrote_every_element_of_it(
    launches: Sequence[LaunchInfo], filled: bool
) -> None:
    value = torch.ones(4)
    expected = Expected("y", value.double(), value.dtype, value.double())
    answers = [Answer(torch.zeros(4), torch.ones(4, dtype=torch.bool), expected)]
    part, _ = resolve(ROOT, "ex_15")
    assert _is_filled(answers, launches, part.exercise.parts[0]) == filled


def test_what_another_check_has_confirmed_is_likely_here_and_no_more() -> None:
    (one,) = ranked(elsewhere=(sure("not_cleared", "It grows."), Clue("race", 0.9)))
    assert (one.kind, one.confirmed) == ("not_cleared", False)
    assert one.evidence == "In another check: it grows."


def test_the_help_of_a_cause_that_another_check_has_confirmed_is_given_here_too() -> None:
    (one,) = ranked(elsewhere=(sure("not_all_covered", "It ends.", "The first 512", "How many are joined?"),))
    assert (one.help, one.title.startswith("Looks like elements")) == ("How many are joined?", True)


def cases(*failing: bool) -> tuple[TriedCase, ...]:
    layouts = ("rows", "rows", "rows", "columns", "columns")
    return tuple(TriedCase(SPACE.case(N=128, layout=one), bad) for one, bad in zip(layouts, failing, strict=True))


def test_contrast_joins_what_values_say_and_refutes_it() -> None:
    by_values = Clue("strides_ignored", 0.4), Clue("missing_mask", 0.5)
    only_columns = ranked(*by_values, tried=cases(False, False, False, True, True), declared=(LAYOUT,))
    everywhere = ranked(*by_values, tried=cases(True, True, True, True, True), declared=(LAYOUT,))
    assert kinds(only_columns)[0] == "strides_ignored"
    assert kinds(everywhere) == []
    firm = Clue("missing_mask", 0.5, firm=True)
    assert kinds(ranked(firm, tried=cases(True, True, True, True, True))) == ["missing_mask"]


def test_an_exception_for_all_sizes_but_one_is_a_size_that_is_assumed() -> None:
    tried = tuple(TriedCase(SPACE.case(N=n, layout="rows"), n != 64) for n in (64, 64, 64, 32, 128))
    raised = sure("exception", "ValueError")
    assert kinds(ranked(raised, tried=tried))[0] == "size_assumed"
    assert kinds(ranked(raised, tried=tried[2:])) == ["exception"]


def test_values_that_few_bits_hold_confirm_no_rounding_where_a_known_one_gives_them_too() -> None:
    exact, likely = sure("rounded_intermediate", "Exactly float16."), Clue("low_precision_sum", 0.4)
    assert [one.confirmed for one in ranked(*_undecided([exact], [likely]))] == [True]
    either = _undecided([exact], [sure("tf32"), likely])
    assert [(one.kind, one.confirmed) for one in ranked(*either)] == [("tf32", False), ("rounded_intermediate", False)]
    same = sure("rounded_intermediate", "Element by element.")
    assert [one.confirmed for one in ranked(*_undecided([exact], [same]))] == [True]


def test_a_kind_that_the_part_cannot_have_is_not_offered() -> None:
    own = {name: kind for name, kind in NAMEABLE.items() if name not in of_family("reduction")}
    clues = Clue("padding_counted", 0.8), Clue("missing_mask", 0.3)
    assert [one.kind for one in suspects_of(clues, (), PartFacts(own, space=SPACE))] == ["missing_mask"]


def test_who_computes_explains_wrong_values_less_than_the_values_themselves() -> None:
    suspects = ranked(Clue("zeros", 0.5), elsewhere=(sure("work_outside_kernels"),))
    assert kinds(suspects) == ["zeros", "work_outside_kernels"]


def test_a_contrast_of_another_part_is_not_asked() -> None:
    own = Contrast("layout", "strides_ignored", "so", part="backward")
    assert contrasts_of([own, LAYOUT], "forward") == [LAYOUT]
    assert contrasts_of([own, LAYOUT], "backward") == [own, LAYOUT]


def test_small_errors_beside_work_of_torch_come_from_what_the_two_hand_on() -> None:
    torch_works = (sure("work_outside_kernels"),)
    assert kinds(ranked(Clue("rounded_intermediate", 0.6), elsewhere=torch_works))[0] == "work_outside_kernels"
    assert kinds(ranked(Clue("wrong_factor", 0.85), elsewhere=torch_works))[0] == "wrong_factor"


def test_where_results_are_not_finite_their_values_decide_nothing() -> None:
    declared = (Contrast("layout", "value_shortcut", "so"),)
    tried = cases(False, False, False, True, True)
    nan = Clue("overflow", 0.55), Clue("no_maximum", 0.5, by_known_mistake=True)
    assert kinds(ranked(*nan, declared=declared, tried=tried))[0] == "no_maximum"
    assert kinds(ranked(nan[1], declared=declared, tried=tried))[0] == "value_shortcut"


def test_what_was_never_stored_was_not_rounded() -> None:
    declared = (Contrast("layout", "low_precision_sum", "so", only=False),)
    tried = tuple(TriedCase(SPACE.case(layout=one), one == "columns") for one in ("rows", "columns", "rows", "rows"))
    assert kinds(ranked(Clue("wrong_factor", 0.3), declared=declared, tried=tried))[0] == "low_precision_sum"
    assert kinds(ranked(Clue("not_all_covered", 0.3), declared=declared, tried=tried)) == ["not_all_covered"]


def test_a_known_mistake_that_fits_some_of_the_failing_cases_fits_by_chance() -> None:
    fits = Clue("remainder_skipped", 0.9, by_known_mistake=True)
    assert [clue.weight for clue in together([[fits], [fits]])] == [0.9]
    assert [clue.weight for clue in together([[fits], []])] == [0.225]


def test_of_a_known_mistake_that_fits_all_failing_cases_the_most_telling_case_decides() -> None:
    nan_throughout, in_its_rows = (Clue("no_maximum", weight, by_known_mistake=True) for weight in (0.3, 0.9))
    assert [clue.weight for clue in together([[nan_throughout], [in_its_rows]])] == [0.9]


def test_what_only_some_failing_cases_show_is_less_likely_and_not_sure() -> None:
    whole = together([[sure("clamped")], [sure("clamped")]])
    half = together([[sure("clamped")], [Clue("overflow", 0.5)]])
    assert [(clue.weight, clue.confirmed) for clue in whole] == [(1.0, True)]
    assert {clue.kind: (clue.weight, clue.confirmed) for clue in half} == {
        "clamped": (0.5, False),
        "overflow": (0.25, False),
    }


def test_the_first_suspect_is_what_the_card_says() -> None:
    suspects = (Suspect("clamped", "Looks like a limit", "So.", "Where?"), Suspect("overflow", "Inf", "", "How?"))
    cause = explained(Cause("mismatch", "Wrong values", "y: all wrong."), suspects, "In step 2: ", "Look back.")
    assert (cause.title, cause.help) == ("In step 2: Looks like a limit", "Look back. Where?")
    assert (cause.kind, cause.rationale, cause.suspects) == ("mismatch", "y: all wrong.", suspects)
    assert explained(cause, ()) is cause
    seen = explained(Cause("out_of_bounds", "A load outside x", "Line 3."), suspects)
    assert seen.title == "A load outside x: looks like a limit"
    race = explained(Cause("race", "Programs race for c", "Line 3."), (Suspect("race", "Looks like a race", "", ""),))
    assert race.title == "Programs race for c"


# -- the vocabulary and the labels -----------------------------------------------------------------------------------


@pytest.mark.parametrize("entry", discover(ROOT), ids=lambda entry: entry.id)
def test_every_planted_mistake_says_its_true_cause_by_a_known_kind(entry: Entry) -> None:
    faults = {one.name: label_fault(claim_of(one), entry) for one in entry.wrong}
    assert {name: fault for name, fault in faults.items() if fault} == {}


@pytest.mark.parametrize("entry", discover(ROOT), ids=lambda entry: entry.id)
def test_contrasts_point_to_known_kinds_and_no_exercise_hides_a_listed_one(entry: Entry) -> None:
    hiding = [kind.name for kind in entry.exercise.kinds if NAMEABLE.get(kind.name, kind) is not kind]
    assert hiding == [], "an exercise's own kind must have a name of its own"
    pointed = {one.kind for one in entry.exercise.contrasts}
    assert pointed <= set(known_kinds(entry.exercise))


# -- planted mistakes, one for every kind of rule --------------------------------------------------------------------

TOLD = [
    ("ex_15", "global_sum_never_cleared", "not_cleared"),
    ("ex_15", "global_sum_overwrites", "stores_collide"),
    ("ex_15", "global_sum_tickets_kept", "not_cleared"),
    ("ex_15", "row_softmax_ignores_stride", "strides_ignored"),
    ("ex_15", "row_softmax_maximum_from_zero", "maximum_start"),
    ("ex_15", "row_softmax_three_passes", "read_again"),
    ("ex_15", "vector_add_clamped", "clamped"),
    ("ex_15", "vector_add_floor_grid", "remainder_skipped"),
    ("ex_16", "fused_no_bias", "bias_missing"),
    ("ex_16", "matmul_tf32", "tf32"),
    ("ex_18", "forward_causal_top_left", "causal_alignment"),
    ("ex_19", "append_keys_twice", "operand_mixed_up"),
    ("ex_19", "decode_half_accumulator", "low_precision_sum"),
]


FEW = 12


@pytest.mark.parametrize(("exercise", "name", "kind"), TOLD)
def test_a_planted_mistake_is_told_by_its_cause(exercise: str, name: str, kind: str, server: ForkServer) -> None:
    entry, _ = resolve(ROOT, exercise)
    mistake = entry.mistake(name)
    claim = claim_of(mistake)
    part = frozenset({claim.check.partition(".")[0]})
    plan = plan_of(entry, default_seed(entry.id), gpu=False, parts=part)
    first_id = plan.checks[0].id
    job = Job(
        entry,
        str(mistake.path),
        mistake.text,
        # The first check is where a call is made once more. A few cases of each: a search ends after some seconds.
        shortened(replace(plan, checks=tuple(one for one in plan.checks if one.id in (claim.check, first_id))), FEW),
        "",
        "",
        shrink=False,
        timed=False,
        compiled=False,
    )
    named: CheckResult = next(one for one in grade(job, server).checks if one.id == claim.check)
    assert claim.causes == (kind,)
    assert named.cause is not None
    first = named.cause.suspects[0]
    assert first.kind == kind, named.cause.suspects
    assert named.cause.title.lower().endswith(first.title.lower())
    assert 1 <= len(named.cause.suspects) <= 4


def test_constants_of_one_value_are_all_named_and_programs_share_the_axis_beside_a_row_of_them() -> None:
    of_equal = _reaches([LaunchInfo("kernel", (4,), {"TILE_M": 64, "TILE_K": 64, "STEPS": 2})])
    assert [(one.name, one.elements, one.beside) for one in of_equal] == [
        ("TILE_M or TILE_K", 256, 2),
        ("STEPS", 8, 64),
    ]
    of_groups = _reaches([LaunchInfo("kernel", (4,), {"TILE_M": 64, "GROUP_M": 8})])
    assert {one.name for one in of_groups} == {"TILE_M"}
    row = _reaches([LaunchInfo("kernel", (1, 4), {"TILE_M": 128, "TILE_N": 64})])
    assert [(one.name, one.elements, one.beside) for one in row] == [
        *[("TILE_M", 128, 256), ("TILE_M", 512, 64)],
        *[("TILE_N", 64, 512), ("TILE_N", 256, 128)],
    ]


def test_the_programs_of_a_grid_of_two_axes_may_all_lie_along_one() -> None:
    flat = _reaches([LaunchInfo("kernel", (4, 3), {"WIDTH": 256})])
    assert [(one.programs, one.elements, one.beside) for one in flat] == [
        *[(4, 1024, math.inf), (3, 768, math.inf)],
        (12, 3072, 1),
    ]


def test_elements_that_were_never_stored_come_from_no_wrong_reduction() -> None:
    rows = Clue("wrong_axis", 0.6, firm=True), Clue("not_all_covered", 0.55)
    assert kinds(ranked(*rows)) == ["not_all_covered"]
    assert kinds(ranked(rows[0])) == ["wrong_axis"]


def test_a_part_has_the_kinds_that_its_exercise_names_and_none_of_a_reduction_if_it_reduces_nothing() -> None:
    caches, _ = resolve(ROOT, "ex_19")
    append, decode = (known_kinds(caches.exercise, one) for one in caches.exercise.parts[:2])
    assert "heads_mapping" in decode
    assert {"heads_mapping", "scale_ignored", "low_precision_sum"}.isdisjoint(append)
    assert {"position_shifted", "length_of_first"} <= append.keys()


def test_a_guess_at_a_known_mistake_has_the_words_of_the_one_that_another_check_has_confirmed() -> None:
    guess = Clue("remainder_skipped", 0.45, title="Looks as if tiles are cut", by_known_mistake=True)
    proof = replace(sure("remainder_skipped", title="Looks as if splits are cut"), by_known_mistake=True)
    assert [one.title for one in ranked(guess, elsewhere=(proof,))] == ["Looks as if splits are cut"]
    assert [one.title for one in ranked(guess)] == ["Looks as if tiles are cut"]
