"""The plan: the same for everybody who has the seed, inside the contract, and replayable case by case."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grader.errors import MissingEnvironment, SpecError, UsageError
from grader.exercise.abilities import WHOLE_CPU, WHOLE_GPU, Abilities
from grader.exercise.cases import FAMILY, PLAIN, Case, Cases, Choice, Domain, Size, Space
from grader.exercise.catalogue import Entry, discover
from grader.exercise.model import Check, Exercise, Part, Tolerance
from grader.exercise.plan import Plan, PlannedCase, PlannedCheck, case_seed, default_seed, draw, without_crowded
from grader.exercise.replay_token import ReplayToken, parse_token, replay_plan
from grader.exercise.rules import Agrees, Compiles, Rule, SpeedBand
from grader.exercise.strategies import shrinking_strategy, strategy
from grader.grading.fitness import unfit_here
from tests.conftest import plan_of

pytestmark = pytest.mark.process

ROOT = Path(__file__).resolve().parents[2]
DTYPES = Choice(("float32", "float16", "bfloat16"), gpu_only=("bfloat16",))
SPACE = Space({"N": Size(1, 5000), "dtype": DTYPES, "values": Choice(("normal", "large"))})
SMALL = Space({"M": Size(1, 17), "N": Size(1, 500)}, where=lambda case: case["M"] * case["N"] <= 500)
BAND = SpeedBand("torch", 0.5, 0.9, Cases(SPACE, ({"N": 63},), generated=0), bytes="2 * N")
CANONICAL = ({"N": 1}, {"N": 1025, "dtype": "float16"}, {"N": 63, "dtype": "bfloat16"})


def exercise(*rules: Rule) -> Exercise:
    """One part "copy" with these rules as its checks "check_0", "check_1", …"""
    checks = tuple(Check(f"check_{i}", "Right", 100 / len(rules), "copies", rule) for i, rule in enumerate(rules))
    return Exercise("Copying", "1", (Part("copy", "Copy", ("x",), ("y",), Tolerance(), checks, ("a", "b", "c")),))


def planned(cases: Cases, seed: int = 17, *, gpu: bool = True) -> PlannedCheck:
    return draw(exercise(Agrees(cases)), seed, Abilities(gpu=gpu, lacks=())).checks[0]


def case_words(check: PlannedCheck) -> list[str]:
    return [one.case.words() for one in check.cases]


# -- replay tokens: errors -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ex_15",
        "ex_15:vector_add.tail:N=65",
        "ex_15:vector_add:N=65:0x5f",
        "ex_15:vector_add.tail:N=65:5f",
        "ex_15:vector_add.tail:N=65:0x",
        "ex_15:vector_add.tail:N=65:0x5g",
        "ex_15:vector_add.tail:N=65:0x00112233445566778",
        "ex_15:vector_add.tail:N=65:0x5f and more",
        "ex-15:vector_add.tail:N=65:0x5f",
    ],
)
def test_what_is_no_token_is_shown_one(text: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_token(text)
    assert str(refused.value) == (
        f"a replay token must look like ex_15:vector_add.tail:N=65,dtype=float16:0x5f, got {text!r}"
    )


def test_a_refused_token_is_repeated_only_in_part() -> None:
    with pytest.raises(UsageError) as refused:
        parse_token("x" * 1000)
    assert str(refused.value).endswith(f"got {'x' * 200!r}")


@pytest.mark.parametrize("axis", ["N", "=65", "2N=65", "a b=65", "x" * 80])
def test_an_axis_without_a_name_or_a_value_is_refused(axis: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_token(f"ex_15:vector_add.tail:M=7,{axis}:0x5f")
    assert str(refused.value) == f"an axis of a replay token must look like N=65, got {axis!r}"


@pytest.mark.parametrize(
    ("token", "message"),
    [
        ("ex_15:copy.head:N=7:0x5f", "the check must be one of copy.check_0, copy.check_1, got 'copy.head'"),
        ("ex_15:copy.check_1:N=7:0x5f", "a replayed check must run cases, got copy.check_1"),
        (
            "ex_15:copy.check_0:N=0:0x5f",
            "copy.check_0: case axis N must lie in Size(low=1, high=5000, multiple_of=1), got 0",
        ),
        (
            "ex_15:copy.check_0:N=true:0x5f",
            "copy.check_0: case axis N must lie in Size(low=1, high=5000, multiple_of=1), got True",
        ),
        (
            "ex_15:copy.check_0:K=7:0x5f",
            "copy.check_0: case must name only the axes N, dtype, values, got 'K'",
        ),
        (
            "ex_15:copy.check_0:self=7:0x5f",
            "copy.check_0: case must name only the axes N, dtype, values, got 'self'",
        ),
    ],
)
def test_a_token_of_another_exercise_is_refused_with_what_there_is(token: str, message: str) -> None:
    with pytest.raises(UsageError) as refused:
        replay_plan(exercise(Agrees(Cases(SPACE)), BAND), parse_token(token), WHOLE_GPU)
    assert str(refused.value) == message


# -- replay tokens: round trip ---------------------------------------------------------------------------------------

AXES = ("N", "M", "dtype", "causal", "scale", "offset")
WORDS = st.from_regex(r"[a-z]{2}_[a-z0-9_]{0,9}", fullmatch=True)


@st.composite
def sizes(draw_one: Any) -> Size:
    step = draw_one(st.sampled_from([1, 1, 7, 16]))
    low = draw_one(st.integers(0, 70))
    return Size(low * step, (low + draw_one(st.integers(0, 300))) * step, step)


def choices() -> st.SearchStrategy[Choice]:
    floats = st.floats(allow_nan=False)
    flags = st.just((False, True))
    several = [
        st.lists(kind, min_size=1, max_size=5, unique=True).map(tuple) for kind in (WORDS, st.integers(), floats)
    ]
    return st.one_of(flags, *several).map(Choice)


@st.composite
def spaces(draw_one: Any) -> Space:
    names = draw_one(st.lists(st.sampled_from(AXES), min_size=1, max_size=4, unique=True))
    domains: st.SearchStrategy[Domain] = st.one_of(sizes(), choices())
    return Space({name: draw_one(domains) for name in names})


@given(st.data(), spaces(), st.integers(0, 2**64 - 1))
def test_a_token_brings_back_any_case_of_any_space(data: Any, space: Space, seed: int) -> None:
    case = data.draw(strategy(space))
    token = ReplayToken("ex_15", "copy.check_0", case, seed)
    assert parse_token(str(token)) == token
    assert [type(value) for value in parse_token(str(token)).case.values()] == [type(value) for value in case.values()]


@pytest.mark.parametrize("word", ["1", "1e5", "inf", "nan", "true"])
def test_a_value_that_is_a_word_stays_a_word_in_its_token(word: str) -> None:
    asked = exercise(Agrees(Cases(Space({"N": Size(1, 7), "values": Choice(("normal", word))}))))
    case = Case({"N": 7, "values": word})
    token = parse_token(str(ReplayToken("ex_15", "copy.check_0", case, 17)))
    assert replay_plan(asked, token, WHOLE_GPU).checks[0].cases == (PlannedCase(case, 17),)


def test_a_token_reads_as_the_case_does() -> None:
    case = Case({"N": 65, "dtype": "float16", "causal": True, "scale": 0.5})
    assert (
        str(ReplayToken("ex_15", "copy.tail", case, 95))
        == "ex_15:copy.tail:N=65,dtype=float16,causal=true,scale=0.5:0x5f"
    )


def test_a_token_survives_the_spaces_around_it() -> None:
    assert parse_token("  ex_15:copy.tail:N=65:0x5F\n") == ReplayToken("ex_15", "copy.tail", Case({"N": 65}), 95)


def test_every_planned_case_replays_as_itself() -> None:
    for entry in discover(ROOT):
        for check in plan_of(entry, 0, gpu=True).checks:
            for one in check.cases:
                token = ReplayToken(entry.id, check.id, one.case, one.seed)
                again = replay_plan(entry.exercise, parse_token(str(token)), WHOLE_GPU)
                assert again == Plan(one.seed, (replace(check, cases=(one,), space=None, notes=()),))


# -- drawing: errors -------------------------------------------------------------------------------------------------


def test_a_contract_that_allows_nothing_is_the_specification_s_fault() -> None:
    with pytest.raises(SpecError):
        planned(Cases(Space({"N": Size(1, 500)}, where=lambda case: False), generated=3))


# -- drawing ---------------------------------------------------------------------------------------------------------


SEEDS = (0, 2**64 - 1)


def drawn_here() -> list[list[str]]:
    """The tokens of the first exercise's plans for a few seeds."""
    entry = discover(ROOT)[0]
    return [
        [
            str(ReplayToken(entry.id, check.id, one.case, one.seed))
            for check in plan_of(entry, seed, gpu=False).checks
            for one in check.cases
        ]
        for seed in SEEDS
    ]


def drawn_elsewhere(folder: Path, prelude: str) -> list[list[str]]:
    """The same, drawn in another process that first runs `prelude`."""
    script = f"""
import json, sys
from pathlib import Path
sys.path[:0] = [{str(ROOT)!r}, {str(folder)!r}]
{prelude}
from grader.exercise.abilities import WHOLE_CPU
from grader.exercise.catalogue import discover
from grader.exercise.plan import draw
from grader.exercise.replay_token import ReplayToken
entry = discover(Path({str(ROOT)!r}))[0]
print(json.dumps([
    [str(ReplayToken(entry.id, check.id, one.case, one.seed)) for check in plan.checks for one in check.cases]
    for plan in (draw(entry.exercise, seed, WHOLE_CPU) for seed in {SEEDS})
]))
"""
    environment = {**os.environ, "PYTHONHASHSEED": "random"}
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    tokens: list[list[str]] = json.loads(done.stdout)
    return tokens


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[list[str]]]:
    """A folder in which another process drew plans, and their tokens."""
    folder = tmp_path_factory.mktemp("elsewhere")
    return folder, drawn_elsewhere(folder, "")


def test_the_same_seed_gives_the_same_plan() -> None:
    asked = exercise(Agrees(Cases(SPACE, CANONICAL)), Agrees(Cases(SMALL)))
    assert draw(asked, 17, WHOLE_CPU) == draw(asked, 17, WHOLE_CPU)


def test_the_same_seed_gives_the_same_plan_in_another_process(elsewhere: tuple[Path, list[list[str]]]) -> None:
    assert drawn_here() == elsewhere[1]


def test_the_plan_does_not_depend_on_what_else_is_imported(
    elsewhere: tuple[Path, list[list[str]]], tmp_path: Path
) -> None:
    # The numbers in a module of somebody's own must not find their way into everybody's plan.
    (tmp_path / "numbers_of_mine.py").write_text(f"NUMBERS = {tuple(range(1000, 1400, 7))}\n", encoding="utf-8")
    assert drawn_elsewhere(tmp_path, "import numbers_of_mine") == elsewhere[1]


def test_drawing_a_plan_writes_no_file(elsewhere: tuple[Path, list[list[str]]]) -> None:
    assert list(elsewhere[0].iterdir()) == []


def test_another_seed_gives_other_cases_and_other_inputs() -> None:
    one, other = planned(Cases(SPACE, CANONICAL), 17), planned(Cases(SPACE, CANONICAL), 18)
    assert case_words(one) != case_words(other)
    assert case_words(one)[:3] == case_words(other)[:3]
    assert {case.seed for case in one.cases}.isdisjoint(case.seed for case in other.cases)


def test_canonical_cases_come_first_and_in_their_order() -> None:
    assert case_words(planned(Cases(SPACE, CANONICAL)))[:3] == [
        "N=1, dtype=float32, values=normal",
        "N=1025, dtype=float16, values=normal",
        "N=63, dtype=bfloat16, values=normal",
    ]


@pytest.mark.parametrize(("seed", "gpu"), [(0, True), (2**64 - 1, False)])
def test_generated_cases_lie_in_the_space_and_repeat_nothing(seed: int, gpu: bool) -> None:
    for entry in discover(ROOT):
        for check in plan_of(entry, seed, gpu=gpu).checks:
            cases = [one.case for one in check.cases]
            assert len(set(cases)) == len(cases)
            held = check.check.cases
            beyond = (*held.far_cases, *held.large_cases) if held else ()
            for case in set(cases) - set(beyond):
                assert check.space is not None
                assert check.check.cases is not None
                drawn_from = check.check.cases.around(case)
                space = check.space if drawn_from is check.check.cases.space else drawn_from
                assert space.case(**case) == case


def test_as_many_cases_are_generated_as_were_asked_for() -> None:
    assert len(planned(Cases(SPACE, CANONICAL, generated=7)).cases) == 3 + 7
    assert len(planned(Cases(SPACE, CANONICAL, generated=0)).cases) == 3
    assert len(planned(Cases(SMALL, generated=1)).cases) == 1


def test_a_space_with_fewer_cases_gives_all_that_it_has() -> None:
    few = Space({"causal": Choice((False, True)), "dtype": Choice(("float32", "float16"))})
    found = planned(Cases(few, ({"causal": True},), generated=50))
    assert sorted(case_words(found)) == [
        "causal=False, dtype=float16",
        "causal=False, dtype=float32",
        "causal=True, dtype=float16",
        "causal=True, dtype=float32",
    ]


def test_generated_sizes_are_often_awkward() -> None:
    awkward = {2**exponent + off for exponent in range(13) for off in (-1, 0, 1)}
    sizes_drawn = [one.case["N"] for seed in range(7) for one in planned(Cases(SPACE, generated=7), seed).cases]
    assert sum(size in awkward for size in sizes_drawn) >= 7


def test_without_a_gpu_the_values_that_need_one_are_left_out_and_noted() -> None:
    without = planned(Cases(SPACE, CANONICAL, generated=17), gpu=False)
    assert "bfloat16" not in {one.case["dtype"] for one in without.cases}
    assert len(without.cases) == 2 + 17
    assert without.notes == ("not judged here: dtype=bfloat16 (needs a GPU)",)


def test_with_a_gpu_nothing_is_left_out() -> None:
    with_gpu = planned(Cases(SPACE, CANONICAL, generated=17))
    assert "bfloat16" in {one.case["dtype"] for one in with_gpu.cases}
    assert with_gpu.notes == ()


def test_a_check_whose_every_case_needs_a_gpu_runs_none_without() -> None:
    found = planned(Cases(SPACE, ({"dtype": "bfloat16"},), generated=0), gpu=False)
    assert found.cases == ()
    assert found.notes == ("not judged here: dtype=bfloat16 (needs a GPU)",)


def test_a_space_without_values_for_a_gpu_notes_nothing() -> None:
    assert planned(Cases(SMALL), gpu=False).notes == ()


def suited(rule: Rule, *lacks: str) -> PlannedCheck:
    """The check on a GPU that has no instructions for these types."""
    return draw(exercise(rule), 17, Abilities(gpu=True, lacks=lacks)).checks[0]


def test_what_a_check_leaves_out_names_only_values_that_it_has() -> None:
    found = suited(Agrees(Cases(SPACE, CANONICAL, generated=0)), "bfloat16", "far")
    assert found.notes == ("left out: cases in bfloat16, which this GPU has no instructions or no memory for",)


def test_cases_in_a_type_that_the_gpu_lacks_are_left_out_and_noted() -> None:
    found = suited(Agrees(Cases(SPACE, CANONICAL, generated=17, large=({"N": 9999, "dtype": "bfloat16"},))), "bfloat16")
    assert "bfloat16" not in {one.case["dtype"] for one in found.cases}
    assert len(found.cases) == 2 + 17
    assert found.notes == ("left out: cases in bfloat16, which this GPU has no instructions or no memory for",)
    assert found.unfit == ""


def test_a_machine_without_a_gpu_that_lacks_values_gets_no_cases_for_a_gpu_instead() -> None:
    rule = Agrees(Cases(SPACE, CANONICAL, generated=17, large=({"N": 9999},)))
    found = draw(exercise(rule), 17, Abilities(gpu=False, lacks=("float16",))).checks[0]
    assert not {"float16", "bfloat16"} & {one.case["dtype"] for one in found.cases}
    assert 9999 not in {one.case["N"] for one in found.cases}


def test_cases_that_a_crowded_gpu_has_no_memory_for_are_left_out_and_noted() -> None:
    whole = planned(Cases(SPACE, CANONICAL, generated=17))
    found = without_crowded(whole, ("bfloat16",))
    assert "bfloat16" not in {one.case["dtype"] for one in found.cases}
    assert found.notes == ("left out: cases in bfloat16, for others use the GPU's memory just now",)
    assert without_crowded(whole, ()) is whole


def test_a_check_of_nothing_but_such_cases_is_tried_all_the_same() -> None:
    whole = planned(Cases(SPACE, ({"dtype": "bfloat16"},), generated=0))
    assert without_crowded(whole, ("bfloat16",)) is whole


def test_sizes_in_a_type_that_the_gpu_lacks_are_not_timed() -> None:
    band = replace(BAND, suite=Cases(SPACE, CANONICAL, generated=0))
    found = suited(band, "bfloat16")
    assert isinstance(found.check.rule, SpeedBand)
    assert [case["dtype"] for case in found.check.rule.suite.named_cases] == ["float32", "float16"]
    assert found.notes == ("left out: cases in bfloat16, which this GPU has no instructions or no memory for",)


@pytest.mark.parametrize(
    "rule",
    [
        Agrees(Cases(SPACE, ({"dtype": "bfloat16"},), generated=0)),
        replace(BAND, suite=Cases(SPACE, ({"dtype": "bfloat16"},), generated=0)),
        Agrees(Cases(Space({"N": Size(1, 9), "dtype": Choice(("bfloat16",))}))),
    ],
)
def test_a_check_whose_every_case_the_gpu_lacks_the_type_for_says_so(rule: Rule) -> None:
    found = suited(rule, "bfloat16")
    assert (found.cases, found.notes) == ((), ())
    assert found.unfit == "all its cases are in bfloat16, which this GPU has no instructions or no memory for"
    assert unfit_here(found, on_gpu=True) == found.unfit


def test_a_check_without_such_cases_is_planned_as_on_any_gpu() -> None:
    for rule in (Agrees(Cases(SMALL)), BAND, Compiles((90,))):
        assert suited(rule, "bfloat16") == draw(exercise(rule), 17, WHOLE_GPU).checks[0]


def test_a_gpu_that_lacks_nothing_gets_the_same_plan_as_before() -> None:
    cases = Cases(SPACE, CANONICAL, generated=17)
    assert suited(Agrees(cases)) == planned(cases)


def test_a_token_of_a_case_in_a_type_that_the_gpu_lacks_is_refused() -> None:
    found = planned(Cases(SPACE, CANONICAL, generated=0)).cases[-1]
    token = ReplayToken("ex_15", "copy.check_0", found.case, found.seed)
    whole = exercise(Agrees(Cases(SPACE)))
    with pytest.raises(MissingEnvironment, match=r"^this case must run on a GPU with bfloat16, got N=63, "):
        replay_plan(whole, token, Abilities(gpu=True, lacks=("bfloat16",)))
    assert replay_plan(whole, token, WHOLE_GPU).checks[0].cases[0].case == found.case


def test_a_rule_that_runs_no_cases_is_planned_without_any() -> None:
    found = draw(exercise(BAND), 17, WHOLE_GPU).checks[0]
    assert (found.id, found.cases, found.space) == ("copy.check_0", (), None)


def test_the_plan_of_a_part_is_the_whole_one_without_the_others() -> None:
    for entry in discover(ROOT)[:2]:
        whole = draw(entry.exercise, 2**64 - 1, WHOLE_CPU)
        # It draws part by part.
        by_parts = plan_of(entry, 2**64 - 1, gpu=False)
        assert {check.part.name for check in whole.checks} == {part.name for part in entry.exercise.parts}
        assert [(check.id, check.cases, check.notes) for check in by_parts.checks] == [
            (check.id, check.cases, check.notes) for check in whole.checks
        ]
        name = entry.exercise.parts[-1].name
        alone = plan_of(entry, 2**64 - 1, gpu=False, parts=frozenset({name}))
        assert [check.id for check in alone.checks] == [check.id for check in whole.checks if check.part.name == name]


def test_every_case_has_inputs_of_its_own() -> None:
    seeds = [
        one.seed for entry in discover(ROOT) for check in plan_of(entry, 0, gpu=True).checks for one in check.cases
    ]
    assert len(set(seeds)) == len(seeds)
    assert all(0 <= seed < 2**32 for seed in seeds)


def test_seeds_are_the_same_on_every_machine() -> None:
    assert default_seed("ex_15") == 0xF7C042F1
    assert case_seed(17, "copy.tail", 0) == 0x83E3C262


@given(strategy(SMALL), shrinking_strategy(SMALL))
def test_both_strategies_stay_inside_the_contract(drawn: Case, shrunk: Case) -> None:
    assert SMALL.case(**drawn) == drawn
    assert SMALL.case(**shrunk) == shrunk


@given(strategy(Space({"N": Size(16, 512, multiple_of=16)})))
def test_drawn_sizes_are_multiples_where_multiples_are_asked_for(case: Case) -> None:
    assert case["N"] in range(16, 513, 16)


def test_covering_cases_follow_the_generated_ones() -> None:
    check = planned(Cases(SPACE, CANONICAL, generated=4, covering=5))
    assert case_words(check)[:7] == case_words(planned(Cases(SPACE, CANONICAL, generated=4)))
    assert len({*case_words(check)}) == 12


def test_large_cases_run_on_a_gpu_alone_last_and_beyond_the_bounds_of_the_space() -> None:
    cases = Cases(Space({"N": Size(1, 100)}, lambda case: int(case["N"]) < 50), ({"N": 7},), 3, ({"N": 4096},))
    with_gpu, without = planned(cases), planned(cases, gpu=False)
    assert [one.case["N"] for one in with_gpu.cases][-1] == 4096
    assert with_gpu.cases[:-1] == without.cases
    assert (with_gpu.notes, without.notes) == ((), ("not judged here: 1 large case (needs a GPU)",))
    with pytest.raises(SpecError, match="name only the axes N, dtype, values"):
        Cases(SPACE, large=({"M": 4096},))


def test_a_large_case_is_replayed_on_a_gpu_alone() -> None:
    cases = Cases(Space({"N": Size(1, 100)}), ({"N": 7},), 0, ({"N": 4096},))
    checked = exercise(Agrees(cases))
    token = ReplayToken("ex_98", "copy.check_0", Case({"N": 4096}), 5)
    assert replay_plan(checked, token, WHOLE_GPU).checks[0].cases == (PlannedCase(Case({"N": 4096}), 5),)
    with pytest.raises(MissingEnvironment, match="must run on a GPU"):
        replay_plan(checked, token, WHOLE_CPU)


@pytest.mark.parametrize("entry", discover(ROOT), ids=str)
def test_every_family_of_values_that_a_check_names_meets_every_dtype(entry: Entry) -> None:
    for part in entry.exercise.parts:
        checks = [
            one
            for one in draw(entry.exercise, 5, WHOLE_CPU).checks
            if one.part == part and one.check.rule.judges_values
        ]
        met = {(one.case.get(FAMILY), one.case.get("dtype")) for check in checks for one in check.cases}
        for check in checks:
            assert check.space is not None
            assert check.check.cases is not None
            domain = check.space.axes.get("dtype")
            named = [case for case in check.check.cases.named_cases if case.get(FAMILY, PLAIN) != PLAIN]
            dtypes = domain.values if isinstance(domain, Choice) else ()
            wanted = [case.changed(dtype=dtype) for case in named for dtype in dtypes]
            assert {(one[FAMILY], one["dtype"]) for one in wanted if check.space.holds(one)} <= met


def test_a_family_in_a_further_dtype_is_added_once_and_by_the_check_that_names_it() -> None:
    dtypes, families = Choice(("float32", "float16")), Choice(("normal", "large"))
    space = Space({"N": Size(1, 9), "values": families, "dtype": dtypes})
    cases = ({"N": 3}, {"N": 5, "values": "large"}, {"N": 7, "values": "large"})
    rules = (Agrees(Cases(space, (one,), generated=0)) for one in cases)
    plain, telling, again = map(case_words, draw(exercise(*rules), 17, WHOLE_GPU).checks)
    assert plain == ["N=3, values=normal, dtype=float32"]
    assert telling == ["N=5, values=large, dtype=float32", "N=5, values=large, dtype=float16"]
    assert again == ["N=7, values=large, dtype=float32"]
