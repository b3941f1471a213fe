"""Draw the plan: every check's cases and their seeds. Hypothesis draws it before any submission is loaded.

The same exercise, seed and mode give the same plan. A plan holds names and numbers only; a single case of it travels
as a replay token (grader.exercise.replay_token).
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, groupby, product

from grader.exercise.abilities import Abilities
from grader.exercise.cases import FAMILY, PLAIN, Case, Cases, Choice, Space, Value
from grader.exercise.covering import covering
from grader.exercise.model import Check, Exercise, Part, check_id
from grader.exercise.paired_cases import paired_cases
from grader.exercise.seeds import shared
from grader.exercise.star_cases import star_cases
from grader.exercise.strategies import generated_cases
from grader.phrases import counted
from grader.protocol.requests import Recipe


@dataclass(frozen=True)
class PlannedCase:
    """One case and the seed of its inputs."""

    case: Case
    seed: int

    def recipe(self, part: Part) -> Recipe:
        """Return the recipe of a part's inputs in this case."""
        return Recipe(part.name, dict(self.case), self.seed)


@dataclass(frozen=True)
class PlannedCheck:
    """The planned cases of one check.

    notes: what this machine left out. unfit: why it can judge nothing of the check, or ''.
    """

    part: Part
    check: Check
    cases: tuple[PlannedCase, ...]
    space: Space | None
    notes: tuple[str, ...] = ()
    unfit: str = ""

    @property
    def id(self) -> str:
        """Return the check's name within the exercise."""
        return check_id(self.part, self.check)


@dataclass(frozen=True)
class Plan:
    """All checks that one grading will run."""

    seed: int
    checks: tuple[PlannedCheck, ...]


def default_seed(exercise_id: str) -> int:
    """Return the seed of an exercise when none is given: the same for everybody, so that plans are equal."""
    return _digest(exercise_id) & 0xFFFF_FFFF


def draw(exercise: Exercise, seed: int, abilities: Abilities, *, parts: frozenset[str] | None = None) -> Plan:
    """Return the plan of an exercise, or of the named parts.

    Without a GPU, values that need one are left out and noted; so are those that the machine lacks.
    """
    drawn = (
        _suited(part, check, seed, abilities)
        for part, check in exercise.checks()
        if parts is None or part.name in parts
    )
    by_part = groupby(drawn, key=lambda planned: planned.part)
    return Plan(seed, tuple(chain.from_iterable(_in_every_dtype(tuple(checks), seed) for _, checks in by_part)))


def _in_every_dtype(checks: Sequence[PlannedCheck], seed: int) -> Iterator[PlannedCheck]:
    """Yield the checks of a part; each family of values that one of them names meets every dtype.

    What a kernel forgets for one family may show in one dtype only, as an overflow does. A pair that no check's cases
    hold is added to the check that names the family.
    """
    met = {
        _family_and_dtype(one.case) for planned in checks if planned.check.rule.judges_values for one in planned.cases
    }
    for planned in checks:
        added: list[Case] = []
        for case, dtype in product(planned.check.cases.named_cases, _dtypes(planned)) if planned.check.cases else ():
            other = case.changed(dtype=dtype)
            pair = _family_and_dtype(other)
            if pair[0] not in (None, PLAIN) and pair not in met and planned.space and planned.space.holds(other):
                met.add(pair)
                added.append(other)
        first = len(planned.cases)
        more = (PlannedCase(case, case_seed(seed, planned.id, i)) for i, case in enumerate(added, first))
        yield replace(planned, cases=(*planned.cases, *more)) if added else planned


def _family_and_dtype(case: Case) -> tuple[Value | None, Value | None]:
    return case.get(FAMILY), case.get("dtype")


def _dtypes(planned: PlannedCheck) -> tuple[Value, ...]:
    """Return the dtypes of a check that compares values; none for other checks."""
    domain = planned.space.axes.get("dtype") if planned.space and planned.check.rule.judges_values else None
    return domain.values if isinstance(domain, Choice) else ()


def _draw_check(part: Part, check: Check, seed: int, *, gpu: bool) -> PlannedCheck:
    if check.cases is None:
        return PlannedCheck(part, check, (), None)
    name = check_id(part, check)
    space = check.cases.space if gpu else check.cases.space.without_gpu()
    chosen = [case for case in check.cases.named_cases if gpu or not check.cases.space.needs_gpu(case)]
    own = _digest(f"{seed}/{name}")
    chosen += generated_cases(name, space, check.cases.generated, own, without=frozenset(chosen))
    chosen += covering(space, check.cases.covering, own, without=frozenset(chosen))
    if wide := check.cases.star:
        reach = wide.space if gpu else wide.space.without_gpu()
        chosen += star_cases(reach, wide.count, own, without=frozenset(chosen), together=wide.together)
    for number, region in enumerate(check.cases.regions):
        reach = region.space if gpu else region.space.without_gpu()
        chosen += covering(reach, region.count, _digest(f"{own}/{number}"), without=frozenset(chosen))
    chosen += [case for case in check.cases.far_cases if gpu or not check.cases.space.needs_gpu(case)]
    chosen += check.cases.large_cases if gpu else ()
    chosen += paired_cases(space, check.cases.turns, own, without=frozenset(chosen))
    cases = tuple(PlannedCase(case, case_seed(seed, name, i)) for i, case in enumerate(chosen))
    return PlannedCheck(part, check, cases, space, () if gpu else _left_out(check.cases))


def _suited(part: Part, check: Check, seed: int, abilities: Abilities) -> PlannedCheck:
    """Plan a check on the cases and sizes without the values that the machine lacks."""
    held, lacks, gpu = check.rule.sizes, abilities.lacks, abilities.gpu
    suited = _without(held, lacks) if held and lacks else held
    if held is None or suited == held:
        return _draw_check(part, check, seed, gpu=gpu)
    # Named cases lie in the space, too.
    own = [one for one in lacks if any(one in domain for domain in held.space.axes.values())]
    lacked = f"{' and '.join(own)}, which this {'GPU' if gpu else 'machine'} has no instructions or no memory for"
    if suited is None:
        return PlannedCheck(part, check, (), None, unfit=f"all its cases are in {lacked}")
    planned = _draw_check(part, replace(check, rule=check.rule.with_sizes(suited)), seed, gpu=gpu)
    return replace(planned, notes=(*planned.notes, f"left out: cases in {lacked}"))


def without_crowded(planned: PlannedCheck, crowded: Collection[str]) -> PlannedCheck:
    """Return a planned check without the cases of values that the GPU has no free memory for just now."""
    kept = tuple(one for one in planned.cases if not set(one.case.values()) & set(crowded))
    if len(kept) == len(planned.cases) or not kept:
        return planned
    note = f"left out: cases in {' and '.join(crowded)}, for others use the GPU's memory just now"
    return replace(planned, cases=kept, notes=(*planned.notes, note))


def _without(cases: Cases, lacks: Collection[str]) -> Cases | None:
    """Return the cases with none of these values; None if there are none, and the same object if all are."""
    space = cases.space.without(lacks)
    named, large, far = (
        tuple(dict(case) for case in listed if not set(case.values()) & set(lacks))
        for listed in (cases.named_cases, cases.large_cases, cases.far_cases)
    )
    drawn = cases.generated or cases.covering or cases.star or cases.regions
    if space is None or not (named or drawn):
        return None
    kept = (len(cases.named_cases), len(cases.large_cases), len(cases.far_cases))
    if (len(named), len(large), len(far)) == kept and (not drawn or space.axes == cases.space.axes):
        return cases
    reach = cases.star and cases.star.space.without(lacks)
    wide = replace(cases.star, space=reach) if cases.star and reach else None
    left = tuple(replace(one, space=reached) for one in cases.regions if (reached := one.space.without(lacks)))
    return replace(cases, space=space, named=named, large=large, far=far, star=wide, regions=left)


def with_shared_inputs(plan: Plan) -> Plan:
    """Return the plan with shared seeds, for files that can be trusted: all of them meet the same inputs."""

    def marked(check: PlannedCheck) -> PlannedCheck:
        return replace(check, cases=tuple(replace(one, seed=shared(one.seed)) for one in check.cases))

    return replace(plan, checks=tuple(map(marked, plan.checks)))


def case_seed(seed: int, name: str, index: int) -> int:
    """Return the seed of one case's inputs: 32 bits from the run's seed, the check, and the case's index."""
    return _digest(f"{seed}/{name}/{index}") & 0xFFFF_FFFF


def _digest(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")


def _left_out(cases: Cases) -> tuple[str, ...]:
    needing = [
        f"{name}={value}"
        for name, domain in cases.space.axes.items()
        if isinstance(domain, Choice)
        for value in domain.gpu_only
    ]
    if cases.large:
        needing.append(counted(len(cases.large), "large case"))
    return (f"not judged here: {', '.join(needing)} (needs a GPU)",) if needing else ()
