"""Compare failing and passing cases of a part along every axis, and give clues.

A property that all failing cases have, and some passing ones do not, points to a cause. Run nothing.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations

from grader.diagnosis.kinds import of_family
from grader.exercise.cases import Case, Size, Space, Value
from grader.exercise.causes import Contrast
from grader.judge.clue import Clue
from grader.judge.trial import TriedCase
from grader.phrases import one_of

# Usual sizes of blocks, which a length may fill or not.
_BLOCKS = (2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
# Weights of kinds that show only where blocks are not full: a missing mask is the likeliest.
_UNMASKED, _RAGGED = 0.5, 0.45
# The kind that contrasts of a layout point to.
LAYOUT_KIND = "strides_ignored"
# The kind of a failure for two sizes that differ and must be equal.
EXCHANGED_KIND = "axes_exchanged"
# Its weight if exactly the cases with two different sizes fail.
_DIFFERENT_SIZES = 0.75
# The smallest block, and the weight if only longer cases fail: below that of any more precise guess.
_LEAST_BLOCK, _LONGER = 16, 0.33
# Of this many cases, one may pass by chance: short tensors may have equal strides.
_LUCKY = 20
# This many cases are not chance.
_NO_CHANCE = 3
# Every usual block divides this.
FULL = 128
# A property with less strength is no evidence.
_WEAK = 0.2
# The factor of a property that nearly all passing cases have: this many times more than do not have it.
_COMMON, _NEARLY_ALL = 0.25, 8
# The factor of a property that some passing cases have, if all failing cases are variations of one: they have much in
# common.
_OF_ONE = 0.6
# The factor of values that no contrast declares.
_SOME_VALUES = 0.85
# The factor of a kind that the cases speak against.
REFUTED = 0.25


@dataclass(frozen=True)
class Split:
    """Counts of failing and passing cases, with and without one property."""

    failing_with: int
    failing_without: int
    passing_with: int
    passing_without: int

    @property
    def holds(self) -> bool:
        """Return whether every failing case has the property, and some passing ones do not."""
        return self.failing_with > 0 and self.failing_without == 0 and self.passing_without > 0

    @property
    def strength(self) -> float:
        """Return the strength of the evidence, 0 … 1: 1 if no case with the property passes, and many lack it."""
        if not self.holds:
            return 0.0
        precision = self.failing_with / (self.failing_with + self.passing_with)
        support = min(1.0, (self.failing_with + self.passing_without) / 8)
        strength = precision * (0.5 + 0.5 * support)
        # A property of nearly all passing cases is no reason to fail.
        return _COMMON * strength if self.passing_with >= _NEARLY_ALL * self.passing_without else strength

    def sentence(self, says: str) -> str:
        """Return the evidence in words."""
        without = self.passing_without
        passing = "one other passes" if without == 1 else f"{without} others pass"
        if self.failing_with == 1:
            return f"The only failing case is one {says}; {passing}."
        alike = "one like them passes" if self.passing_with == 1 else f"{self.passing_with} like them pass"
        some = f", {alike}" if self.passing_with else ""
        return f"All {self.failing_with} failing cases are ones {says}{some}; {passing}."


def contrasts_of(declared: Sequence[Contrast], part: str) -> list[Contrast]:
    """Return the declared contrasts that concern a part."""
    return [one for one in declared if one.part in ("", part)]


def split(tried: Sequence[TriedCase], has: Callable[[Case], bool]) -> Split:
    """Count the failing and passing cases with and without a property."""
    counts = {(failed, having): 0 for failed in (True, False) for having in (True, False)}
    for one in tried:
        counts[one.failed, has(one.case)] += 1
    return Split(counts[True, True], counts[True, False], counts[False, True], counts[False, False])


def contrasts(tried: Sequence[TriedCase], declared: Sequence[Contrast], space: Space) -> list[Clue]:
    """Return clues by the exercise's own contrasts, and by sizes that fill blocks."""
    found = []
    is_one = _are_alike([one.case for one in tried if one.failed])
    for kind, several in _by_kind(declared, space).items():
        best: tuple[float, Clue] | None = None
        for parted, says, weight in _readings(tried, several, space):
            likely = weight * parted.strength * (_OF_ONE if is_one and parted.passing_with else 1.0)
            if parted.strength > _WEAK and (best is None or likely > best[0]):
                best = likely, Clue(kind, likely, parted.sentence(says))
        if best:
            found.append(best[1])
    return [*found, *_ragged(tried, space), *_unequal(tried, declared, space), *_longer(tried, space)]


def _are_alike(cases: Sequence[Case]) -> bool:
    """Return whether all cases are variations of the first one, with most of its values."""
    return all(2 * sum(one.get(axis) == value for axis, value in cases[0].items()) > len(cases[0]) for one in cases)


def only_size(tried: Sequence[TriedCase], space: Space) -> list[Clue]:
    """Return the clue of a size that all passing cases have, and no failing case has."""
    for name in space.axes:
        passing = {one.case[name] for one in tried if not one.failed and name in one.case}
        failing = {one.case[name] for one in tried if one.failed and name in one.case}
        sizes = all(type(value) is int for value in passing | failing)
        right = sum(not one.failed for one in tried)
        if sizes and len(passing) == 1 and failing and not passing & failing and right >= _NO_CHANCE:
            (size,) = passing
            evidence = f"All {right} cases that pass have {name}={size}, and no failing one has."
            return [Clue("size_assumed", 1.0, evidence, confirmed=True)]
    return []


def _readings(
    tried: Sequence[TriedCase], several: Sequence[Contrast], space: Space
) -> Iterator[tuple[Split, str, float]]:
    """Yield how each contrast of a kind splits the cases: split, words and weight. Several axes also count together."""
    for one in several:
        yield split(tried, _having(one, space)), one.says, one.weight
        if not one.values and not one.than:
            # Perhaps only some of the values fail.
            values = {each.case[one.axis] for each in tried if each.failed and one.axis in each.case}
            if values and space.axes[one.axis].simplest not in values:
                listed = one_of([f"{one.axis}={value}" for value in sorted(values, key=str)[:3]])
                few = Contrast(one.axis, one.kind, f"with {listed}", tuple(values), _SOME_VALUES * one.weight)
                yield split(tried, _having(few, space)), few.says, few.weight
    if len({one.axis for one in several}) > 1:
        having = [_having(one, space) for one in several]
        says = one_of([*dict.fromkeys(one.says for one in several)])
        yield split(tried, lambda case: any(has(case) for has in having)), says, max(one.weight for one in several)


def _by_kind(declared: Sequence[Contrast], space: Space) -> dict[str, list[Contrast]]:
    found: dict[str, list[Contrast]] = {}
    for one in declared:
        if one.axis in space.axes and (not one.than or one.than in space.axes):
            found.setdefault(one.kind, []).append(one)
    return found


def refuted(
    tried: Sequence[TriedCase], declared: Sequence[Contrast], space: Space, shown: Collection[str] = ()
) -> dict[str, float]:
    """Return a factor below 1 for each kind that the cases speak against.

    Such a kind does not affect some failing case, or would fail some passing case. shown: kinds that the values of a
    failing case show. Passing cases then only say which cases have the mistake.
    """
    failing = [one.case for one in tried if one.failed]
    factors: dict[str, float] = {}
    for kind, several in _by_kind(declared, space).items():
        strict = [_having(one, space) for one in several if one.only]
        if len(strict) == len(several) and any(not any(has(case) for has in strict) for case in failing):
            factors[kind] = REFUTED
        spared = all(one.every and split(tried, _having(one, space)).passing_with >= _NO_CHANCE for one in several)
        if spared and kind not in shown:
            factors[kind] = REFUTED
    if by_layout_alone(tried, declared, space):
        factors.update(dict.fromkeys(of_family("ragged"), REFUTED))
    sizes = _sizes(space)
    if sizes and any(all(int(case.get(axis, 0)) % FULL == 0 for axis in sizes) for case in failing):
        factors.update(dict.fromkeys(of_family("ragged"), REFUTED))
    if any(_has_whole_tiles(case, space) for case in failing):
        factors.update(dict.fromkeys(of_family("ragged"), REFUTED))
    passing = sum(not one.failed for one in tried)
    if passing >= _NO_CHANCE and _LUCKY * passing > len(failing):
        factors.update(dict.fromkeys(of_family("everywhere"), REFUTED))
    return factors


def _has_whole_tiles(case: Case, space: Space) -> bool:
    """Return whether the case says its tiles, tile_m along M, and they divide every size: no lane is left over."""
    tiles = {axis: f"tile_{axis.lower()}" for axis in _sizes(space)}
    named = bool(tiles) and all(tile in case for tile in tiles.values())
    return named and all(int(case.get(axis, 0)) % int(case[tile]) == 0 for axis, tile in tiles.items())


def by_layout_alone(tried: Sequence[TriedCase], declared: Sequence[Contrast], space: Space) -> bool:
    """Return whether the layout alone separates failing cases from passing ones: no mask depends on it."""
    for one in declared:
        if one.kind == LAYOUT_KIND and one.axis in space.axes:
            parted = split(tried, _having(one, space))
            if (
                parted.holds
                and not parted.passing_with
                and min(parted.failing_with, parted.passing_without) >= _NO_CHANCE
            ):
                return True
    return False


def _having(one: Contrast, space: Space) -> Callable[[Case], bool]:
    simplest = space.axes[one.axis].simplest
    if one.than:
        return lambda case: int(case.get(one.axis, 0)) > int(case.get(one.than, 0))

    def has(case: Case) -> bool:
        value = case.get(one.axis, simplest)
        return value in one.values if one.values else value != simplest

    return has


def _no_multiple(axes: Sequence[str], block: int) -> Callable[[Case], bool]:
    return lambda case: any(int(case.get(axis, 0)) % block for axis in axes)


def _sizes(space: Space) -> list[str]:
    return [name for name, domain in space.axes.items() if isinstance(domain, Size)]


def _ragged(tried: Sequence[TriedCase], space: Space) -> Iterator[Clue]:
    """Yield clues if only those cases fail in which some size is no multiple of a block."""
    best: tuple[float, int, str, Split] | None = None
    sizes = _sizes(space)
    for axes in [*((name,) for name in sizes), tuple(sizes)]:
        for block in _BLOCKS:
            parted = split(tried, _no_multiple(axes, block))
            # Of several blocks that split the cases, the code probably has the largest.
            tells = parted.holds and parted.passing_with <= parted.failing_with
            if tells and (best is None or parted.strength >= best[0]):
                best = parted.strength, block, one_of(axes) if len(axes) <= 3 else "some size", parted
    if best is None or best[0] <= _WEAK:
        return
    strength, block, name, parted = best
    evidence = parted.sentence(f"in which {name} is no multiple of {block}")
    for kind in of_family("ragged"):
        yield Clue(kind, (_UNMASKED if kind == "missing_mask" else _RAGGED) * strength, evidence)


def _unequal(tried: Sequence[TriedCase], declared: Sequence[Contrast], space: Space) -> Iterator[Clue]:
    """Yield the clue of two sizes that must be equal: exactly the cases fail in which they differ, or one is larger.

    None of two sizes whose relation a contrast explains.
    """
    best: tuple[float, Clue] | None = None
    known = {frozenset((one.axis, one.than)) for one in declared if one.than}
    for one, other in permutations(_counts(tried, space), 2):
        if {one, other} in known:
            continue
        for relation, has in (("larger than", operator.gt), ("not equal to", operator.ne)):
            parted = split(tried, _related(one, other, has))
            exact = parted.holds and _LUCKY * parted.passing_with <= parted.failing_with
            if exact and min(parted.failing_with, parted.passing_without) >= _NO_CHANCE:
                likely = _DIFFERENT_SIZES * parted.strength
                if best is None or likely > best[0]:
                    evidence = parted.sentence(f"in which {one} is {relation} {other}")
                    best = likely, Clue(EXCHANGED_KIND, likely, evidence)
    if best:
        yield best[1]


def _longer(tried: Sequence[TriedCase], space: Space) -> Iterator[Clue]:
    """Yield the clue of a length that fits into one block in every passing case, and in no failing case."""
    for axis in _sizes(space):
        for block in _BLOCKS:
            parted = split(tried, _longer_than(axis, block))
            exact = parted.holds and _LUCKY * parted.passing_with <= parted.failing_with
            if block >= _LEAST_BLOCK and exact and min(parted.failing_with, parted.passing_without) >= _NO_CHANCE:
                evidence = parted.sentence(f"in which {axis} is larger than {block}")
                yield Clue("later_blocks", _LONGER * parted.strength, evidence)
                return


def _longer_than(axis: str, length: int) -> Callable[[Case], bool]:
    return lambda case: int(case.get(axis, 0)) > length


def differs_where_failing(tried: Sequence[TriedCase], axis: str, other: str) -> bool:
    """Return whether exactly the cases fail in which two axes differ; a few of them may pass by chance."""
    both = [one for one in tried if type(one.case.get(axis)) is int and type(one.case.get(other)) is int]
    parted = split(both, _related(axis, other, operator.ne))
    is_exact = parted.holds and _LUCKY * parted.passing_with <= parted.failing_with
    return is_exact and parted.passing_without >= _NO_CHANCE and len(both) == len(tried)


def _related(one: str, other: str, has: Callable[[Value, Value], bool]) -> Callable[[Case], bool]:
    return lambda case: has(case[one], case[other])


def _counts(tried: Sequence[TriedCase], space: Space) -> list[str]:
    """Return the axes that count something: whole numbers in every case, and never 0, as a start may be."""
    counts = [name for name, domain in space.axes.items() if domain.simplest != 0]
    return [name for name in counts if all(type(one.case.get(name)) is int for one in tried)]
