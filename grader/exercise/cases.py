"""The cases of a check: its axes, their values, and one concrete choice of them.

A case is a handful of names and numbers, never a tensor: `inputs.py` builds the tensors from the case and a seed.
The domains below are data, so that a specification imports neither torch nor Hypothesis; `grader.exercise.strategies`
turns them into Hypothesis strategies. The first value of every domain is its simplest: failing cases shrink towards it.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from math import prod

from grader.errors import SpecError, require

Value = int | float | bool | str

# The oracle computes a case up to this volume in a moment: a product of 160 × 160 × 160, say.
QUICK_VOLUME = 1 << 22
# Searches repeat no larger case in the interpreter, which takes a minute for it.
INTERPRETED_VOLUME = 16 * QUICK_VOLUME
# The axis that says how the numbers of the inputs are distributed, and its plainest value. No shape, dtype or stride
# may depend on it: launch code is recorded with plain numbers.
FAMILY = "values"
PLAIN = "normal"
# A layout: the slices of an axis lie so far apart that a product of two 32-bit numbers wraps around. It takes 4 GiB and
# more: on a CPU of addresses, on a GPU of memory.
FAR_APART = "far"
# With fewer slices, the stride itself would not fit into 32 bits.
FEWEST_FAR_APART = 3


class Case(Mapping[str, Value]):
    """One frozen choice of axis values, such as N=65, dtype=float16; hashable, ordered as the space orders its axes."""

    __slots__ = ("_items",)

    def __init__(self, values: Mapping[str, Value]) -> None:
        self._items = tuple(values.items())

    def __getitem__(self, axis: str) -> Value:
        for name, value in self._items:
            if name == axis:
                return value
        raise KeyError(axis)

    def __iter__(self) -> Iterator[str]:
        return (name for name, _ in self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __hash__(self) -> int:
        return hash(self._items)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Case) and self._items == other._items

    def __repr__(self) -> str:
        return f"Case({self.words()})"

    def words(self) -> str:
        """Return the case as a learner reads it: "N=65, dtype=float16"."""
        return ", ".join(f"{name}={value}" for name, value in self._items)

    @property
    def volume(self) -> int:
        """Return the product of all whole numbers above 1: a measure of the case's work."""
        return prod(value for value in self.values() if type(value) is int and value > 1)

    def product(self, *axes: str) -> int:
        """Return the product of the lengths of these axes, which a specification's limit on work compares."""
        return prod(int(self[axis]) for axis in axes)

    def changed(self, /, **values: Value) -> Case:
        """Return the same case with some axes changed."""
        return Case({**dict(self._items), **values})


@dataclass(frozen=True)
class Size:
    """An axis length, low … high: drawn at 1, at primes, and at powers of two and their neighbours."""

    low: int
    high: int
    multiple_of: int = 1

    def __post_init__(self) -> None:
        require(self.low >= 0, "Size.low", "be at least 0", self.low)
        require(self.high >= self.low, "Size.high", f"be at least low ({self.low})", self.high)
        require(self.multiple_of >= 1, "Size.multiple_of", "be at least 1", self.multiple_of)
        require(self.low % self.multiple_of == 0, "Size.low", f"be a multiple of {self.multiple_of}", self.low)

    @property
    def simplest(self) -> Value:
        """Return the value that failing cases shrink towards."""
        return self.low

    def __contains__(self, value: object) -> bool:
        return (
            isinstance(value, int)
            and not isinstance(value, bool)
            and self.low <= value <= self.high
            and value % self.multiple_of == 0
        )

    def up_to(self, value: Value) -> Size:
        """Return the part of the domain that is no harder than `value`."""
        return Size(self.low, int(value), self.multiple_of)


@dataclass(frozen=True)
class Choice:
    """A domain of a few values, simplest first; those in `gpu_only` are left out where kernels are interpreted."""

    values: tuple[Value, ...]
    gpu_only: tuple[Value, ...] = ()

    def __post_init__(self) -> None:
        require(
            isinstance(self.values, tuple) and len(self.values) > 0,
            "Choice.values",
            "be a tuple of at least one value",
            self.values,
        )
        require(len(set(self.values)) == len(self.values), "Choice.values", "be distinct", self.values)
        for value in self.values:
            plain = not isinstance(value, str) or re.fullmatch(r"[\w.+-]+", value) is not None
            require(plain, "Choice.values", "be numbers or words of letters, digits, and _ . + -", value)
        require(set(self.gpu_only) <= set(self.values), "Choice.gpu_only", "be among the values", self.gpu_only)
        require(self.values[0] not in self.gpu_only, "Choice.values", "start with one that needs no GPU", self.values)

    @property
    def simplest(self) -> Value:
        """Return the value that failing cases shrink towards."""
        return self.values[0]

    def without(self, values: Collection[Value]) -> Choice | None:
        """Return the domain with none of these values; None if no other is left."""
        left = tuple(one for one in self.values if one not in values)
        if left == self.values:
            return self
        # Where only a GPU has values left, only a GPU asks.
        gpu_only = tuple(one for one in self.gpu_only if one in left) if set(left) - set(self.gpu_only) else ()
        return Choice(tuple(sorted(left, key=lambda one: one in gpu_only)), gpu_only) if left else None

    def __contains__(self, value: object) -> bool:
        return value in self.values

    def up_to(self, value: Value) -> Choice:
        """Return the part of the domain that is no harder than `value`."""
        return Choice(self.values[: self.values.index(value) + 1])

    def without_gpu(self) -> Choice:
        """Return the values that the interpreter computes correctly."""
        return Choice(tuple(value for value in self.values if value not in self.gpu_only))


Domain = Size | Choice


@dataclass(frozen=True)
class Space:
    """Named axes and their domains; `where` restricts them to the combinations that the contract allows."""

    axes: Mapping[str, Domain]
    where: Callable[[Case], bool] | None = None

    def __post_init__(self) -> None:
        require(len(self.axes) > 0, "Space.axes", "name at least one axis", dict(self.axes))
        for name, domain in self.axes.items():
            require(name.isidentifier(), "Space.axes", "be named like a variable", name)
            require(isinstance(domain, Size | Choice), f"Space.axes[{name!r}]", "be a Size or a Choice", domain)

    def case(self, /, **values: Value) -> Case:
        """Return a case of this space; axes not named take their simplest value.

        Raises SpecError outside the space.
        """
        unknown = [name for name in values if name not in self.axes]
        require(not unknown, "case", f"name only the axes {', '.join(self.axes)}", ", ".join(unknown))
        chosen = {name: values.get(name, domain.simplest) for name, domain in self.axes.items()}
        for name, value in chosen.items():
            require(value in self.axes[name], f"case axis {name}", f"lie in {self.axes[name]}", value)
        case = Case(chosen)
        require(self.allows(case), "case", "satisfy the space's `where`", case.words())
        return case

    def allows(self, case: Case) -> bool:
        """Return whether the contract allows this combination."""
        return self.where is None or bool(self.where(case))

    def holds(self, case: Case) -> bool:
        """Return whether a case belongs to this space."""
        inside = all(name in self.axes and value in self.axes[name] for name, value in case.items())
        return inside and len(case) == len(self.axes) and self.allows(case)

    def up_to(self, case: Case) -> Space:
        """Return the part of the space in which no axis is harder than in `case`. Shrinking searches there."""
        return Space({name: domain.up_to(case[name]) for name, domain in self.axes.items()}, self.where)

    def without_gpu(self) -> Space:
        """Return the part of the space that the interpreter computes correctly."""
        axes = {
            name: domain.without_gpu() if isinstance(domain, Choice) else domain for name, domain in self.axes.items()
        }
        return Space(axes, self.where)

    def without(self, values: Collection[Value]) -> Space | None:
        """Return the part of the space with none of these values on any axis; None if an axis has no other value."""
        axes: dict[str, Domain] = {}
        for name, domain in self.axes.items():
            left = domain.without(values) if isinstance(domain, Choice) else domain
            if left is None:
                return None
            axes[name] = left
        return Space(axes, self.where)

    def without_bounds(self) -> Space:
        """Return the same axes with sizes of any length, in all combinations."""
        free = {
            name: Size(domain.low, sys.maxsize, domain.multiple_of) if isinstance(domain, Size) else domain
            for name, domain in self.axes.items()
        }
        return Space(free)

    def needs_gpu(self, case: Case) -> bool:
        """Return whether some axis of the case has a value that only a GPU computes correctly."""
        return any(isinstance(domain, Choice) and case[name] in domain.gpu_only for name, domain in self.axes.items())


@dataclass(frozen=True)
class Star:
    """A set of at most `count` cases; in each, one length is far longer than the others (grader.exercise.star_cases).

    space: has the axes of the check's own space, with lengths far beyond its bounds; its `where` limits the cost of a
    case. together: the most cases added in which all lengths are long.
    """

    count: int
    space: Space
    together: int = 0

    def __post_init__(self) -> None:
        require(self.count >= 0, "Star.count", "be at least 0", self.count)
        require(self.together >= 0, "Star.together", "be at least 0", self.together)
        require(self.count + self.together >= 1, "Star", "hold at least one case", self.count)
        require(
            any(isinstance(domain, Size) for domain in self.space.axes.values()),
            "Star.space",
            "have an axis that is a Size",
            dict(self.space.axes),
        )


@dataclass(frozen=True)
class Region:
    """At most `count` cases where kernels take another path: every tile divides all lengths, or all of them are long.

    space: has the axes of the check's own space; its `where` limits the cost of a case. Pairs of values are covered
    there once more (grader.exercise.covering). Leave plain values out, as one head or the default scale: beside them,
    what a path forgets does not show.
    """

    count: int
    space: Space

    def __post_init__(self) -> None:
        require(self.count >= 1, "Region.count", "be at least 1", self.count)


@dataclass(frozen=True)
class Cases:
    """The cases that a check runs, in this order.

    named: chosen by the author. generated: how many Hypothesis draws from the space. covering: the most cases added to
    make many pairs of values meet (grader.exercise.covering). star: cases whose lengths lie beyond the space's bounds.
    regions: parts of what is allowed whose pairs are covered by themselves.
    turns: axes along which cases of the same lengths follow each other (grader.exercise.paired_cases).
    far: chosen ones beyond the space's bounds. large: the same, but too large for an interpreter; they run on a GPU
    only.
    """

    space: Space
    named: tuple[Mapping[str, Value], ...] = ()
    generated: int = 6
    large: tuple[Mapping[str, Value], ...] = ()
    covering: int = 0
    star: Star | None = None
    far: tuple[Mapping[str, Value], ...] = ()
    turns: tuple[str, ...] = ()
    regions: tuple[Region, ...] = ()
    _named: tuple[Case, ...] = field(init=False, repr=False, default=())
    _large: tuple[Case, ...] = field(init=False, repr=False, default=())
    _far: tuple[Case, ...] = field(init=False, repr=False, default=())
    _widened: tuple[Space, ...] = field(init=False, repr=False, default=())

    def __post_init__(self) -> None:
        require(isinstance(self.named, tuple), "Cases.named", "be a tuple of mappings", self.named)
        require(self.generated >= 0, "Cases.generated", "be at least 0", self.generated)
        require(self.covering >= 0, "Cases.covering", "be at least 0", self.covering)
        held = self.generated + self.covering + len(self.named) + len(self.far)
        held += self.star.count + self.star.together if self.star else 0
        held += sum(one.count for one in self.regions)
        require(held > 0, "Cases", "hold at least one case", held)
        choices = [name for name, domain in self.space.axes.items() if isinstance(domain, Choice)]
        require(set(self.turns) <= set(choices), "Cases.turns", f"name some of the choices {choices}", self.turns)
        own = list(self.space.axes)
        for name, space in (("star", self.star and self.star.space), *(("regions", one.space) for one in self.regions)):
            if space:
                require(list(space.axes) == own, f"Cases.{name}", f"have the axes {own}", list(space.axes))
        require(isinstance(self.large, tuple), "Cases.large", "be a tuple of mappings", self.large)
        object.__setattr__(self, "_named", tuple(self.space.case(**values) for values in self.named))
        beyond = self.space.without_bounds()
        object.__setattr__(self, "_large", tuple(beyond.case(**values) for values in self.large))
        object.__setattr__(self, "_widened", tuple(_widened(self.space, one.space) for one in self.regions))
        require(isinstance(self.far, tuple), "Cases.far", "be a tuple of mappings", self.far)
        object.__setattr__(self, "_far", tuple(beyond.case(**values) for values in self.far))

    def case(self, values: Mapping[str, Value]) -> Case:
        """Return a case of the space, the star or a region, or a far or large one. Raises SpecError for any other."""
        if Case(values) in (*self._far, *self._large):
            return Case(values)
        spaces = [self.space, *self._widened]
        if self.star:
            spaces.append(self.star.space)
        for space in spaces[:-1]:
            with suppress(SpecError):
                return space.case(**values)
        return spaces[-1].case(**values)

    def around(self, case: Case) -> Space:
        """Return the space that a case lies in: smaller cases are searched there, plain ones too."""
        inside = (space for space in (self.space, *self._widened) if space.holds(case))
        return next(inside, self.star.space if self.star else self.space)

    def is_far(self, case: Case) -> bool:
        """Return whether a case lies beyond the space and its regions, as the ends of a star do."""
        return not any(space.holds(case) for space in (self.space, *(one.space for one in self.regions)))

    @property
    def named_cases(self) -> tuple[Case, ...]:
        """Return the `named` cases, completed with the simplest value of every axis they leave open."""
        return self._named

    @property
    def far_cases(self) -> tuple[Case, ...]:
        """Return the `far` cases, completed in the same way."""
        return self._far

    @property
    def large_cases(self) -> tuple[Case, ...]:
        """Return the `large` cases, completed in the same way."""
        return self._large


def _widened(own: Space, region: Space) -> Space:
    """Return the space of a region with what is plain: it costs no more."""
    return Space({name: _joined(domain, region.axes[name]) for name, domain in own.axes.items()}, region.where)


def _joined(own: Domain, more: Domain) -> Domain:
    """Return a domain that holds the values of both, those of `own` first; `more` where they differ in kind."""
    if isinstance(own, Choice) and isinstance(more, Choice):
        values = tuple(dict.fromkeys((*own.values, *more.values)))
        return Choice(values, tuple(one for one in values if one in (*own.gpu_only, *more.gpu_only)))
    if isinstance(own, Size) and isinstance(more, Size):
        return Size(min(own.low, more.low), max(own.high, more.high), math.gcd(own.multiple_of, more.multiple_of))
    return more
