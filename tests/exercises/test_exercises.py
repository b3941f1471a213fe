"""The contract that every discovered exercise keeps; what needs a fork server is `grade check --all`, run by tox."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from math import isnan, prod
from pathlib import Path

import pytest
from unidiff import PatchSet

from grader.exercise.cases import Case, Size
from grader.exercise.catalogue import Entry, discover
from grader.exercise.model import Part, check_id
from grader.exercise.plan import Plan, PlannedCase, PlannedCheck, default_seed
from grader.judge.truth import Truth
from grader.protocol.requests import Recipe
from grader.record.statuses import Status
from grader.soundness.claims import claim_of
from grader.soundness.inputs import repeatable_inputs, seeded_inputs
from grader.soundness.oracles import wide_oracles
from tests.conftest import plan_of

pytestmark = pytest.mark.process

ROOT = Path(__file__).resolve().parents[2]
ENTRIES = discover(ROOT)
PARTS = [(entry, part) for entry in ENTRIES for part in entry.exercise.parts]

every_exercise = pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.id)


def each(pairs: Sequence[tuple[Entry, Part]]) -> pytest.MarkDecorator:
    """A test of every part."""
    return pytest.mark.parametrize(("entry", "part"), pairs, ids=[part.name for _, part in pairs])


every_part = each(PARTS)
# Those that choose among things are asked about the sizes that were measured.
every_computing_part = each([pair for pair in PARTS if not pair[1].chooses])
every_choosing_part = each([pair for pair in PARTS if pair[1].chooses])
# Cases that only a GPU is given: `grade check` on a machine without one meets all others.
every_part_with_large_cases = each(
    [pair for pair in PARTS if any(check.cases and check.cases.large_cases for check in pair[1].checks)]
)


def planned_for_a_gpu(entry: Entry, part: Part) -> list[PlannedCheck]:
    plan = plan_of(entry, default_seed(entry.id), gpu=True)
    return [planned for planned in plan.checks if planned.part.name == part.name and planned.cases]


def functions(path: Path) -> dict[str, ast.FunctionDef]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_there_are_exercises() -> None:
    assert ENTRIES


@every_exercise
def test_the_learners_file_is_the_pristine_stub(entry: Entry) -> None:
    assert entry.stub.read_bytes() == entry.pristine_stub.read_bytes()


@every_exercise
def test_there_are_enough_mistakes_and_honest_variants_and_each_mistake_names_a_check(entry: Entry) -> None:
    known = {check_id(part, check) for part, check in entry.exercise.checks()}
    claims = [claim_of(one) for one in entry.wrong]
    assert len(claims) >= 12
    assert len(entry.honest) >= 5
    assert {claim.check for claim in claims} <= known
    assert {claim.status for claim in claims} <= {*Status.__args__, "partly"}
    assert len(set(claims)) == len(claims)


@every_exercise
def test_every_part_has_a_mistake_and_an_honest_variant_of_its_own(entry: Entry) -> None:
    names = {part.name for part in entry.exercise.parts}
    assert {claim_of(one).check.partition(".")[0] for one in entry.wrong} == names
    assert {name for path in entry.honest for name in entry.parts_in(path)} == names


@every_exercise
def test_every_base_has_patches_that_change_at_most_half_of_its_lines(entry: Entry) -> None:
    started_from = set()
    for path in (entry.folder / "wrong").glob("*.patch"):
        (change,) = PatchSet(f"--- {path.read_text(encoding='utf-8').partition(chr(10) + '--- ')[2]}")
        base = path.with_name(change.source_file)
        assert 2 * (change.added + change.removed) <= len(base.read_text(encoding="utf-8").splitlines()), path
        started_from.add(base)
    assert started_from == set(entry.bases)


@every_exercise
def test_every_file_of_the_folder_begins_with_a_docstring(entry: Entry) -> None:
    for path in entry.folder.rglob("*.py"):
        assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))), path


@every_exercise
def test_a_record_kernel_is_of_one_part_and_begins_with_a_page_of_reasons(entry: Entry) -> None:
    for path in entry.fast:
        assert len(entry.parts_in(path)) == 1, path
        reasons = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
        assert len(reasons.splitlines()) >= 20, path


@every_part
def test_stub_and_solution_define_the_part_with_the_arguments_of_the_specification(entry: Entry, part: Part) -> None:
    for path in (entry.pristine_stub, entry.solution):
        defined = functions(path)[part.name]
        assert tuple(argument.arg for argument in defined.args.args[: len(part.arguments)]) == part.arguments


@every_part
def test_the_stub_says_what_the_part_takes_gives_and_means(entry: Entry, part: Part) -> None:
    text = ast.get_docstring(functions(entry.pristine_stub)[part.name]) or ""
    for heading in ("Inputs:", "Output:", "Definition:"):
        assert heading in text
    for argument in part.arguments:
        assert f"{argument}:" in text


@every_computing_part
def test_some_case_has_a_size_of_one_and_some_case_no_power_of_two(entry: Entry, part: Part) -> None:
    sizes = [
        int(one.case[name])
        for planned in planned_for_a_gpu(entry, part)
        if planned.space
        for one in planned.cases
        for name, domain in planned.space.axes.items()
        if isinstance(domain, Size)
    ]
    # Where sizes come in eights, eight is the one.
    least = min(
        domain.low or domain.multiple_of
        for check in part.checks
        if check.cases
        for domain in check.cases.space.axes.values()
        if isinstance(domain, Size)
    )
    assert least in sizes
    assert any(size & (size - 1) for size in sizes)


@every_choosing_part
def test_most_cases_have_costs_that_were_measured_and_the_others_none(entry: Entry, part: Part) -> None:
    truth = Truth.of(entry)
    for planned in planned_for_a_gpu(entry, part):
        measured = 0
        for one in planned.cases:
            offers = truth.offers(part, Recipe(part.name, dict(one.case), one.seed))
            known = [offer.ratio for offer in offers if not isnan(offer.ratio)]
            assert not known or min(known) == 1
            measured += bool(known)
        assert measured > len(planned.cases) / 2


@every_part_with_large_cases
def test_large_cases_have_a_wide_oracle_and_inputs_that_their_seed_decides(entry: Entry, part: Part) -> None:
    truth = Truth.of(entry)
    large = [case for check in part.checks if check.cases for case in check.cases.large_cases]
    found = [
        line for look in (repeatable_inputs, seeded_inputs) for line in look(_of(part, max(large, key=_work)), truth)
    ]
    # How wide an oracle is does not depend on the case; at the largest, products of float16 take a CPU seconds.
    found += wide_oracles(_of(part, min(large, key=_work)), truth)
    assert [line.holds for line in found] == [True] * 3, found


def _of(part: Part, case: Case) -> Plan:
    """A plan of that case alone."""
    return Plan(5, (PlannedCheck(part, part.checks[0], (PlannedCase(case, seed=5),), None),))


def _work(case: Case) -> int:
    """The product of a case's sizes: operations of a matrix product, elements of a vector."""
    return prod(max(1, value) for value in case.values() if isinstance(value, int))
