"""Draw the plan: every check's cases and their seeds. Hypothesis draws it before any submission is loaded.

The same exercise, seed and mode give the same plan. A plan holds names and numbers only; a single case of it travels
as a replay token, `ex_15:vector_add.tail:N=65,dtype=float16:0x5f`.
"""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, groupby, product
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as hypothesis_seed
from hypothesis import strategies as st
from hypothesis.configuration import set_hypothesis_home_dir
from hypothesis.errors import Unsatisfiable

from grader.errors import MissingEnvironment, SpecError, UsageError
from grader.exercise.abilities import Abilities
from grader.exercise.cases import FAMILY, PLAIN, Case, Cases, Choice, Domain, Space, Value
from grader.exercise.covering import covering
from grader.exercise.model import Agrees, Check, Exercise, Part, check_id
from grader.exercise.paired_cases import paired_cases
from grader.exercise.seeds import shared
from grader.exercise.star_cases import star_cases
from grader.phrases import counted
from grader.protocol.messages import Recipe

# Hypothesis stores its examples in a folder; it must not be the learner's working directory.
set_hypothesis_home_dir(Path(tempfile.gettempdir()) / f"grade-hypothesis-{os.getuid()}")

_PRIMES = (2, 3, 5, 7, 13, 31, 61, 127, 251, 509, 1021, 2039, 4093, 8191, 16381)


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

    @property
    def compares(self) -> bool:
        """The check compares outputs with the oracle's."""
        return isinstance(self.check.rule, Agrees)


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
    met = {_family_and_dtype(one.case) for planned in checks if planned.compares for one in planned.cases}
    for planned in checks:
        added: list[Case] = []
        for case, dtype in product(planned.check.cases.named, _dtypes(planned)) if planned.check.cases else ():
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
    domain = planned.space.axes.get("dtype") if planned.space and planned.compares else None
    return domain.values if isinstance(domain, Choice) else ()


def _draw_check(part: Part, check: Check, seed: int, *, gpu: bool) -> PlannedCheck:
    if check.cases is None:
        return PlannedCheck(part, check, (), None)
    name = check_id(part, check)
    space = check.cases.space if gpu else check.cases.space.without_gpu()
    chosen = [case for case in check.cases.named if gpu or not check.cases.space.needs_gpu(case)]
    own = _digest(f"{seed}/{name}")
    chosen += _generate(name, space, check.cases.generated, own, without=frozenset(chosen))
    chosen += covering(space, check.cases.covering, own, without=frozenset(chosen))
    if wide := check.cases.star:
        reach = wide.space if gpu else wide.space.without_gpu()
        chosen += star_cases(reach, wide.count, own, without=frozenset(chosen), together=wide.together)
    for number, region in enumerate(check.cases.regions):
        reach = region.space if gpu else region.space.without_gpu()
        chosen += covering(reach, region.count, _digest(f"{own}/{number}"), without=frozenset(chosen))
    chosen += [case for case in check.cases.named_far if gpu or not check.cases.space.needs_gpu(case)]
    chosen += check.cases.named_large if gpu else ()
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
        for listed in (cases.named, cases.named_large, cases.named_far)
    )
    drawn = cases.generated or cases.covering or cases.star or cases.regions
    if space is None or not (named or drawn):
        return None
    kept = (len(cases.named), len(cases.named_large), len(cases.named_far))
    if (len(named), len(large), len(far)) == kept and (not drawn or space.axes == cases.space.axes):
        return cases
    reach = cases.star and cases.star.space.without(lacks)
    wide = replace(cases.star, space=reach) if cases.star and reach else None
    left = tuple(replace(one, space=reached) for one in cases.regions if (reached := one.space.without(lacks)))
    return replace(cases, space=space, canonical=named, large=large, far=far, star=wide, regions=left)


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


def _generate(name: str, space: Space, count: int, seed: int, without: frozenset[Case]) -> list[Case]:
    """Return up to `count` distinct cases of the space, none of them in `without`."""
    found: dict[Case, None] = {}
    if count == 0:
        return []

    # Hypothesis starts at the simplest case and repeats itself in small spaces: ask for more cases than needed.
    @hypothesis_seed(seed)
    @settings(
        max_examples=2 * count + 4,
        phases=[Phase.generate],
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy(space))
    def collect(case: Case) -> None:
        if case not in without:
            found.setdefault(case)

    try:
        collect()
    except Unsatisfiable:
        raise SpecError(f"{name}: the space's `where` must allow some case, got none in {space.axes}") from None
    return list(found)[-count:]


def strategy(space: Space) -> st.SearchStrategy[Case]:
    """Return a Hypothesis strategy for drawing: sizes at primes, powers of two and their neighbours."""
    return _cases(space, {name: _drawn(domain) for name, domain in space.axes.items()})


def shrinking_strategy(space: Space) -> st.SearchStrategy[Case]:
    """Return a Hypothesis strategy for shrinking: every axis moves freely towards its simplest value."""
    return _cases(space, {name: _ordered(domain) for name, domain in space.axes.items()})


def _cases(space: Space, axes: Mapping[str, st.SearchStrategy[Value]]) -> st.SearchStrategy[Case]:
    def in_order(drawn: dict[str, Value]) -> Case:
        return Case({name: drawn[name] for name in space.axes})

    return st.fixed_dictionaries(dict(axes)).map(in_order).filter(space.allows)


def _drawn(domain: Domain) -> st.SearchStrategy[Value]:
    if isinstance(domain, Choice):
        return _index(len(domain.values)).map(lambda place: domain.values[place])
    awkward = [size for size in _awkward_sizes(domain.high) if size in domain]
    step, low = domain.multiple_of, domain.low
    anywhere = _index((domain.high - low) // step + 1).map(lambda count: low + count * step)
    if not awkward:
        return anywhere
    among = _index(len(awkward)).map(lambda place: awkward[place])
    return st.booleans().flatmap(lambda odd: among if odd else anywhere)


def _index(count: int) -> st.SearchStrategy[int]:
    """Return a strategy for 0 … count-1, built from single bits.

    Hypothesis mixes constants of all imported modules into integers and into choices among values, but not into bits.
    Only with bits does a plan depend on nothing but its seed.
    """
    bits = (count - 1).bit_length() + 4

    def scaled(drawn: list[bool]) -> int:
        return sum(bit << place for place, bit in enumerate(drawn)) * count >> bits

    return st.lists(st.booleans(), min_size=bits, max_size=bits).map(scaled)


def _ordered(domain: Domain) -> st.SearchStrategy[Value]:
    if isinstance(domain, Choice):
        return st.sampled_from(domain.values)
    step = domain.multiple_of
    return st.integers(domain.low // step, domain.high // step).map(lambda count: count * step)


def _awkward_sizes(high: int) -> list[int]:
    powers = [2**exponent + off for exponent in range(high.bit_length()) for off in (-1, 0, 1)]
    return sorted({1, *_PRIMES, *powers})


# -- replay tokens ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ReplayToken:
    """One recorded case: exercise, check, case, and the seed of its inputs."""

    exercise_id: str
    check: str
    case: Case
    seed: int

    def __str__(self) -> str:
        axes = ",".join(f"{name}={_spell(value)}" for name, value in self.case.items())
        return f"{self.exercise_id}:{self.check}:{axes}:{self.seed:#x}"


_TOKEN = re.compile(r"(?P<exercise>\w+):(?P<check>\w+\.\w+):(?P<axes>[^:]*):(?P<seed>0x[0-9a-fA-F]{1,16})")


def parse_token(text: str) -> ReplayToken:
    """Return the token in `text`. Raises UsageError."""
    match = _TOKEN.fullmatch(text.strip())
    if match is None:
        raise UsageError(
            f"a replay token must look like ex_15:vector_add.tail:N=65,dtype=float16:0x5f, got {text[:200]!r}"
        )
    case = Case(dict(_parse_axis(axis) for axis in match["axes"].split(",") if axis))
    return ReplayToken(match["exercise"], match["check"], case, int(match["seed"], 16))


def parse_case(space: Space, text: str) -> dict[str, Value]:
    """Return the axes that a text such as "N=65,dtype=float16" names. Raises UsageError."""
    named = dict(_parse_axis(axis) for axis in text.split(",") if axis)
    for name in named:
        if name not in space.axes:
            raise UsageError(f"an axis must be one of {', '.join(space.axes)}, got {name!r}")
    return {name: _resolve(space, name, value) for name, value in named.items()}


def replay_plan(exercise: Exercise, token: ReplayToken, abilities: Abilities) -> Plan:
    """Return the plan that runs the token's one case.

    Raises UsageError when the exercise has no such check or case, MissingEnvironment when the case needs a GPU, or a
    GPU that supports its dtype.
    """
    for part, check in exercise.checks():
        if check_id(part, check) == token.check:
            if check.cases is None:
                raise UsageError(f"a replayed check must run cases, got {token.check}")
            space, large = check.cases.space, check.cases.named_large
            values = {name: _resolve(space, name, value) for name, value in token.case.items()}
            try:
                case = check.cases.case(values)
            except SpecError as outside:
                raise UsageError(f"{token.check}: {outside}") from outside
            if not abilities.gpu and (case in large or space.needs_gpu(case)):
                raise MissingEnvironment(f"this case must run on a GPU, got the interpreter for {case.words()}")
            if set(case.values()) & set(abilities.lacks):
                where = f"a {'GPU' if abilities.gpu else 'machine'} with {' and '.join(abilities.lacks)}"
                raise MissingEnvironment(f"this case must run on {where}, got {case.words()}")
            planned = PlannedCheck(part, check, (PlannedCase(case, token.seed),), None)
            return Plan(token.seed, (planned,))
    known = ", ".join(check_id(part, check) for part, check in exercise.checks())
    raise UsageError(f"the check must be one of {known}, got {token.check!r}")


def _resolve(space: Space, name: str, value: Value) -> Value:
    """Return the domain's own value that a token's text stands for: "1" may be a word of the exercise."""
    domain = space.axes.get(name)
    if not isinstance(domain, Choice) or value in domain:
        return value
    return next((own for own in domain.values if repr(_parse_value(_spell(own))) == repr(value)), value)


def _spell(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _parse_axis(text: str) -> tuple[str, Value]:
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise UsageError(f"an axis of a replay token must look like N=65, got {text[:80]!r}")
    return name, _parse_value(value)


def _parse_value(text: str) -> Value:
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
