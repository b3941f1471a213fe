"""The regret check: what a choice costs beside the best, from a table of three shapes and three things."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import NamedTuple

import pytest

from grader.errors import SpecError
from grader.exercise.abilities import WHOLE_CPU
from grader.exercise.cases import Case, Cases, Choice, Space
from grader.exercise.catalogue import Entry
from grader.exercise.plan import PlannedCase, draw
from grader.exercise.rules import Regret, RegretGroup
from grader.grading import Job, grade
from grader.judge.rules.regret import ChoiceCost, clues_of, mean_regret
from grader.record.checks import DEAREST_GROUP, CheckResult
from grader.sandbox.server import ForkServer

SPEC = """
from grader import Cases, Check, Choice, Exercise, Part, Regret, Space, Tolerance

SIZES = Space({"N": Choice((1, 2, 3))})
PART = Part(
    name="pick", title="Pick", arguments=("n", "things"), outputs=("choice",), on="cpu", chooses="things",
    tolerance=Tolerance(), hints=("a", "b", "c"),
    checks=(Check("regret", "Picks well", 100, "chooses",
                  Regret(Cases(SIZES, ({"N": 1}, {"N": 2}, {"N": 3}), generated=0), full=0.1, none=0.5)),),
)
EXERCISE = Exercise(title="Picking", version="1", parts=(PART,))
"""
INPUTS = """
import torch

def pick(case, generator):
    order = torch.randperm(3, generator=generator).tolist()
    return case["N"], tuple(("a", "b", "c")[place] for place in order)
"""
ORACLE = """
def pick(n, things):
    return [MEASURED[str(n)].get(thing, float("nan")) for thing in things]
"""
# "a" is the best for 1 and 2, "b" for 3; "c" was never measured for 3.
TABLE = {"1": {"a": 10.0, "b": 12.0, "c": 20.0}, "2": {"a": 5.0, "b": 5.5, "c": 10.0}, "3": {"a": 9.0, "b": 6.0}}


@pytest.fixture
def entry(tmp_path: Path) -> Entry:
    folder = tmp_path / "reference" / "ex_91_picking"
    folder.mkdir(parents=True)
    for name, text in (("spec.py", SPEC), ("inputs.py", INPUTS), ("oracle.py", ORACLE)):
        (folder / name).write_text(text)
    (folder / "measured.json").write_text(json.dumps(TABLE))
    return Entry(tmp_path, "ex_91_picking")


def judged(server: ForkServer, entry: Entry, body: str) -> CheckResult:
    source = f"def pick(n, things):\n    {body}\n"
    plan = draw(entry.exercise, 1, WHOLE_CPU)
    return grade(Job(entry, "x.py", source, plan, "", "", shrink=False), server).checks[0]


def test_the_best_choice_of_every_case_earns_everything(server: ForkServer, entry: Entry) -> None:
    result = judged(server, entry, "return 'b' if n == 3 else 'a'")
    assert (result.status, result.points) == ("pass", 100)
    assert result.metrics["regret"] == 0
    assert result.metrics["best"] == 3


def test_points_lie_linearly_between_the_two_regrets(server: ForkServer, entry: Entry) -> None:
    result = judged(server, entry, "return 'a'")
    regret = 1.5 ** (1 / 3) - 1
    assert result.metrics["regret"] == pytest.approx(regret, abs=1e-4)
    assert result.points == pytest.approx(100 * (0.5 - regret) / 0.4, abs=0.01)


def test_what_was_not_measured_counts_as_the_dearest_that_was(server: ForkServer, entry: Entry) -> None:
    result = judged(server, entry, "return 'c'")
    assert result.status == "fail"
    assert result.metrics["regret"] == pytest.approx((2 * 2 * 1.5) ** (1 / 3) - 1, abs=1e-4)
    assert result.cause is not None
    assert "points begin below 50%" in result.cause.rationale


class Tile(NamedTuple):
    """A thing with a number."""

    width: int


def choice(ratio: float, chosen: Tile, best: Tile) -> ChoiceCost:
    ratios = {str(chosen): ratio, str(best): 1.0, str(Tile(3)): 9.0}
    return ChoiceCost(PlannedCase(Case({"N": 1}), 1), ratio, str(chosen), "", ratios, 1, (best, chosen, Tile(3)))


def test_what_dear_choices_have_in_common_beside_the_best_ones_is_told() -> None:
    dear = [choice(2.0, Tile(8), Tile(4)), choice(3.0, Tile(4), Tile(2))]
    (first, _) = clues_of([*dear, choice(1.1, Tile(1), Tile(2))])
    assert first.kind == "cost_misjudged"
    assert first.evidence == (
        "The choices differ from case to case. width of the chosen one is larger than the best one's in 2 of the "
        "2 cases that cost 15% too much and more."
    )


@pytest.mark.parametrize("body", ["return 0", "return 'd'", "return None", "return things", "return ('a',)"])
def test_an_answer_that_is_none_of_the_things_fails(server: ForkServer, entry: Entry, body: str) -> None:
    result = judged(server, entry, body)
    assert result.status == "fail"
    assert result.cause is not None
    assert result.cause.kind == "no_choice"


def test_an_exception_is_reported_with_its_line(server: ForkServer, entry: Entry) -> None:
    result = judged(server, entry, "raise KeyError('no')")
    assert result.status == "crash"
    assert "line 2" in result.reason


def test_without_a_table_nothing_is_judged(server: ForkServer, entry: Entry) -> None:
    (entry.folder / "measured.json").unlink()
    result = judged(server, entry, "return 'a'")
    assert result.status == "skipped_environment"
    assert "measured.json" in result.reason


def test_the_table_is_part_of_what_decides_a_grade(entry: Entry) -> None:
    before = entry.sha256()
    (entry.folder / "measured.json").write_text(json.dumps({**TABLE, "4": {}}))
    assert entry.sha256() != before


@pytest.mark.parametrize(("regret", "share"), [(0.0, 1.0), (0.1, 1.0), (0.3, 0.5), (0.5, 0.0), (4.0, 0.0)])
def test_the_band_is_linear_and_flat_outside(regret: float, share: float) -> None:
    band = Regret(Cases(Space({"N": Choice((1,))}), ({},), generated=0), full=0.1, none=0.5)
    assert band.share(regret) == pytest.approx(share)


def test_the_mean_is_geometric() -> None:
    assert mean_regret([1.0, 4.0]) == pytest.approx(1.0)
    assert mean_regret([2.0, 0.5]) == pytest.approx(0.0)
    assert math.isclose(mean_regret([1.21]), 0.21)


def rewritten(entry: Entry, name: str, old: str, new: str) -> None:
    text = (entry.folder / name).read_text()
    assert old in text
    (entry.folder / name).write_text(text.replace(old, new))


@pytest.fixture
def beyond(entry: Entry) -> Entry:
    """The same table, and a fourth shape that is not in it."""
    rewritten(entry, "spec.py", "(1, 2, 3)", "(1, 2, 3, 4)")
    rewritten(entry, "spec.py", '{"N": 3}', '{"N": 3}, {"N": 4}')
    rewritten(entry, "oracle.py", "MEASURED[str(n)]", "MEASURED.get(str(n), {})")
    return entry


def test_where_nothing_was_measured_any_of_the_things_is_right(server: ForkServer, beyond: Entry) -> None:
    result = judged(server, beyond, "return 'b' if n > 2 else 'a'")
    assert (result.status, result.points) == ("pass", 100)
    assert result.metrics["cases"] == 3


def test_where_nothing_was_measured_an_answer_must_come(server: ForkServer, beyond: Entry) -> None:
    assert judged(server, beyond, "return {1: 'a', 2: 'a', 3: 'b'}[n]").status == "crash"
    assert judged(server, beyond, "return 'b' if n == 3 else 'a' if n < 3 else None").status == "fail"


def test_an_answer_that_is_remembered_for_other_things_fails(server: ForkServer, entry: Entry) -> None:
    rewritten(entry, "inputs.py", "for place in order)", "for place in order[:1])")
    rewritten(entry, "oracle.py", '.get(thing, float("nan"))', ".get(thing, 30.0)")
    assert judged(server, entry, "return things[0]").status == "pass"
    result = judged(server, entry, "return KNOWN.setdefault(n, things[0])\n\nKNOWN = {}")
    assert result.cause is not None
    assert (result.status, result.cause.kind) == ("fail", "no_choice")


def grouped(entry: Entry) -> Entry:
    """Return the exercise with a group of its own for N at least 3, in which a regret above 20 % earns nothing."""
    spec = entry.root / "reference" / "ex_91_picking" / "spec.py"
    group = 'RegretGroup("N is at least 3", lambda case: case["N"] >= 3, full=0.1, none=0.9)'
    text = SPEC.replace("full=0.1, none=0.5", f"full=0.2, none=0.5, groups=({group},)")
    spec.write_text(text.replace("Regret, Space", "Regret, RegretGroup, Space"))
    return Entry(entry.root, "ex_91_picking")


def test_a_group_of_cases_whose_choices_are_dear_costs_points_that_the_mean_hides(
    server: ForkServer, entry: Entry
) -> None:
    result = judged(server, grouped(entry), "return 'a'")
    assert result.status == "pass"
    # The mean over all three cases is below 0.2, the regret of the group is 0.5.
    assert result.metrics["regret"] < 0.2
    assert result.points == pytest.approx(100 * (0.9 - 0.5) / 0.8, abs=0.01)
    assert result.evidence[DEAREST_GROUP] == (
        "N is at least 3: 50% more than the best over 1 case (1.50 times for N=3)"
    )
    assert judged(server, grouped(entry), "return 'b' if n == 3 else 'a'").points == 100


def test_a_group_that_earns_nothing_is_named_with_its_cases(server: ForkServer, entry: Entry) -> None:
    spec = grouped(entry).root / "reference" / "ex_91_picking" / "spec.py"
    spec.write_text(spec.read_text().replace("none=0.9", "none=0.4"))
    result = judged(server, Entry(entry.root, "ex_91_picking"), "return 'a'")
    assert (result.status, result.points) == ("fail", 0)
    assert result.cause is not None
    assert result.cause.rationale.startswith(
        "N is at least 3: 50% more than the best over 1 case (1.50 times for N=3)."
    )
    assert (result.cause.expected, result.cause.actual) == ("below 40%", "50%")


def test_groups_must_have_names_of_their_own() -> None:
    group = RegretGroup("all", bool, full=0.1, none=0.2)
    with pytest.raises(SpecError, match="distinct names"):
        Regret(Cases(Space({"N": Choice((1,))}), ({},), generated=0), full=0.1, none=0.5, groups=(group, group))
