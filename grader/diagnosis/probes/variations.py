"""Run variations of a failing case: other values of some axes, and inputs of the same seed.

Two cases that differ in one respect say more than many that differ in several. A bench runs them; its findings do not
change.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from grader.diagnosis.case_contrast import EXCHANGED_KIND, FULL, LAYOUT_KIND
from grader.diagnosis.kinds import of_family
from grader.exercise.cases import QUICK_VOLUME, Case, Size, Space, Value
from grader.exercise.causes import Contrast
from grader.judge.bench import Bench
from grader.judge.clue import Clue
from grader.judge.failure import WrongCall
from grader.judge.trial import NotRunHere, TriedCase
from grader.protocol.requests import Recipe, only

# Seconds of work for all variations of one failing case, about.
_MOST_S = 2.0
# The smallest usual block, and the largest constant of a launch that counts as a block.
_LEAST_BLOCK, _LARGEST_BLOCK = 16, 4096
# The factor of a contrast on whose axis the failure depends, and the weight of sizes that must be equal.
_DEPENDS, _EQUAL = 0.7, 0.6


class Change(Enum):
    """A change of a failing case.

    FULL: sizes fill every block, and one is larger than the others. EQUAL: they fill every block, and all are equal.
    AXIS: some axes have their simplest value.
    """

    FULL = auto()
    EQUAL = auto()
    AXIS = auto()


@dataclass(frozen=True)
class Variation:
    """A failing case, the same case with other values of some axes, and whether that one fails too.

    outside: the failing call left a tensor.
    """

    failing: Case
    case: Case
    failed: bool
    change: Change = Change.AXIS
    outside: bool = False

    @property
    def axes(self) -> tuple[str, ...]:
        """Return the axes that differ."""
        return tuple(name for name, value in self.case.items() if value != self.failing[name])

    def speaks_of(self, failing: Case) -> bool:
        """Return whether the variation says something of another failing case.

        It does not if it passed by a value that this case has too: the case fails for another reason.
        """
        return (
            self.failed
            or self.change is not Change.AXIS
            or any(failing.get(one) != self.case[one] for one in self.axes)
        )

    @property
    def words(self) -> str:
        """Return the values that differ, in words."""
        return ", ".join(f"{axis}={self.case[axis]}" for axis in self.axes)

    @property
    def sizes(self) -> str:
        """Return the whole numbers of the case, in words."""
        return ", ".join(f"{axis}={value}" for axis, value in self.case.items() if type(value) is int)


def variations_of(
    bench: Bench, wrong_call: WrongCall, declared: Sequence[Contrast], own: Space, *, layout_only: bool = False
) -> list[Variation]:
    """Run the variations of a failing case that are possible cases of the part. Add them to the tried cases.

    own: the space of the failing check. layout_only: only the case in the simplest layout.
    """
    case, until = Case(wrong_call.recipe.case), bench.pair.worked_s + _MOST_S
    spaces = [check.cases.space.without_bounds() for check in bench.part.checks if check.cases]
    found: list[Variation] = []
    fails: dict[Case, bool | None] = {case: True}
    for change, values in (_layout_change if layout_only else _changes)(wrong_call, declared, own):
        varied = case.changed(**values)
        if varied.volume > max(QUICK_VOLUME, case.volume) or not any(space.holds(varied) for space in spaces):
            continue
        if bench.pair.worked_s > until:
            break
        if varied not in fails:
            fails[varied] = _fails(bench, varied, wrong_call)
        if (failed := fails[varied]) is not None:
            found.append(Variation(case, varied, failed, change, left_a_tensor(wrong_call)))
    return found


def _fails(bench: Bench, case: Case, wrong_call: WrongCall) -> bool | None:
    """Return whether a case fails; None if its call gives no answer, or has another mistake.

    The call takes the configuration of the failing one. Where that left a tensor and this one does not, wrong values
    say nothing of the access.
    """
    seed = wrong_call.recipe.seed
    try:
        with bench.findings.aside():
            recipe = Recipe(bench.part.name, dict(case), seed)
            failure = bench.repeat(recipe, only(wrong_call.outcome.answer.configuration)).failure
    except NotRunHere:
        return None
    if failure is not None and failure.status != "fail":
        return None
    bench.findings.tried.append(TriedCase.of(case, seed, failure))
    if failure is not None and left_a_tensor(wrong_call) and not left_a_tensor(failure.wrong_call):
        return None
    return failure is not None


def left_a_tensor(wrong_call: WrongCall | None) -> bool:
    """Return whether the guard found an access in a wrong call: outside a tensor, or in a race."""
    return wrong_call is not None and bool(wrong_call.outcome.answer.findings)


def _changes(
    wrong_call: WrongCall, declared: Sequence[Contrast], own: Space
) -> Iterator[tuple[Change, Mapping[str, Value]]]:
    """Yield changes of a failing case, the most useful first."""
    case = wrong_call.recipe.case
    differs = _simplest(wrong_call, declared, own)
    layouts = _simplest_layout(wrong_call, declared, own)
    changes = [layouts] if layouts else []
    changes += [{axis: value} for axis, value in differs.items() if {axis: value} != layouts]
    yield from ((Change.AXIS, values) for values in changes[: len(layouts)])
    sizes = [name for name, domain in own.axes.items() if isinstance(domain, Size)]
    if _are_blocks(case[name] for name in own.axes if name not in sizes):
        block = max(_block(wrong_call), _LARGEST_BLOCK if len(sizes) == 1 else FULL)
        yield from ((Change.FULL, {**dict.fromkeys(sizes, block), longer: 2 * block}) for longer in sizes)
        yield from ((Change.EQUAL, dict.fromkeys(sizes, size)) for size in (block, 2 * block) if len(sizes) > 1)
    yield from ((Change.AXIS, values) for values in changes[len(layouts) :])


def _layout_change(
    wrong_call: WrongCall, declared: Sequence[Contrast], own: Space
) -> Iterator[tuple[Change, Mapping[str, Value]]]:
    """Yield the change to the simplest layout, if a failing case has another one."""
    if layouts := _simplest_layout(wrong_call, declared, own):
        yield Change.AXIS, layouts


def _simplest(wrong_call: WrongCall, declared: Iterable[Contrast], own: Space) -> dict[str, Value]:
    """Return the simplest value of each declared axis on which a failing case has another one."""
    simplest = {one.axis: own.axes[one.axis].simplest for one in declared if one.axis in own.axes}
    return {axis: value for axis, value in simplest.items() if value != wrong_call.recipe.case[axis]}


def _simplest_layout(wrong_call: WrongCall, declared: Sequence[Contrast], own: Space) -> dict[str, Value]:
    """Return the same of the axes of layouts."""
    return _simplest(wrong_call, [one for one in declared if _is_layout(one)], own)


def _are_blocks(values: Iterable[Value]) -> bool:
    """Return whether the numbers among the values fill usual blocks: along them, no mask is needed."""
    return all(value % _LEAST_BLOCK == 0 for value in values if type(value) is int)


def _is_layout(one: Contrast) -> bool:
    return one.kind == LAYOUT_KIND


def _block(wrong_call: WrongCall) -> int:
    """Return a length that is a multiple of every block of the call's launches."""
    constants = [size for one in wrong_call.outcome.answer.launches for size in one.constants.values()]
    return max((size for size in constants if size <= _LARGEST_BLOCK and size & (size - 1) == 0), default=1)


def layout_matters(varied: Sequence[Variation], declared: Sequence[Contrast]) -> bool:
    """Return whether a failing case passes in the simplest layout. No missing mask does that."""
    layouts = {one.axis for one in declared if _is_layout(one)}
    return any(not one.failed and one.change is Change.AXIS and layouts.issuperset(one.axes) for one in varied)


def fails_full(varied: Sequence[Variation]) -> bool:
    """Return whether a failing case also fails with full blocks, which need no mask.

    If it fails only with different sizes, a mask may compare with the size of another axis.
    """
    equal = [one for one in varied if one.change is Change.EQUAL]
    return any(one.failed for one in equal or varied if one.change is not Change.AXIS)


def not_varied(contrasted: Sequence[Clue], varied: Sequence[Variation]) -> list[Clue]:
    """Return the clues of a case contrast, without those that variations have tested.

    If a case with full blocks fails, its cause is not ragged. Equal sizes were tried with all else unchanged.
    """
    full = [one for one in varied if one.change is Change.FULL]
    answered = of_family("ragged") if any(one.failed for one in full) else ()
    compared = (EXCHANGED_KIND,) if full and any(one.change is Change.EQUAL for one in varied) else ()
    return [clue for clue in contrasted if clue.kind not in (*answered, *compared)]


def variation_clues(varied: Sequence[Variation], declared: Sequence[Contrast]) -> Iterator[Clue]:
    """Yield clues to the axes on which the failure depends, and to sizes that must be equal."""
    alone = [one for one in varied if one.change is Change.AXIS and len(one.axes) == 1 and not one.failed]
    for one in alone:
        (axis,) = one.axes
        weights: dict[str, float] = {}
        for contrast in declared:
            if (
                contrast.axis == axis
                and not contrast.than
                and (not contrast.values or one.failing[axis] in contrast.values)
            ):
                weights[contrast.kind] = max(contrast.weight, weights.get(contrast.kind, 0.0))
        for kind, weight in weights.items():
            # The more axes matter, the weaker is the evidence of each. Wrong values in other cases may be a second
            # mistake, which says nothing of an access.
            evidence = f"The same case passes with {one.words}."
            yield Clue(kind, _DEPENDS * weight / len(alone), evidence, firm=one.outside)
    unequal = next((one for one in varied if one.change is Change.FULL and one.failed), None)
    equal = [one for one in varied if one.change is Change.EQUAL]
    if unequal and len(equal) > 1 and not any(one.failed for one in equal):
        evidence = (
            f"With full blocks, the case fails where the sizes differ ({unequal.sizes}), and passes where they are "
        )
        yield Clue(EXCHANGED_KIND, _EQUAL, f"{evidence}equal ({equal[-1].sizes}).", firm=True)
