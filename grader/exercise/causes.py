"""Possible causes of a failure: their kinds, and how a case's axes point to them.

grader.diagnosis.general_kinds lists the kinds that any exercise may meet. A specification adds its own, and those of
grader.exercise.attention_kinds that its parts may have.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum, auto
from typing import Literal

from grader.errors import require
from grader.exercise.cases import Value


class Shown(Enum):
    """Name what a failing check shows.

    ENDED: the call did not return. ACCESS: an access outside a tensor, or a race. BESIDE: anything else than values,
    such as a form, launches or bytes. NEAR, FAR: values that are off by a rounding, or by more. NOT_FINITE: infinities
    or NaN, and no value that is far off.
    """

    ENDED = auto()
    ACCESS = auto()
    BESIDE = auto()
    NEAR = auto()
    FAR = auto()
    NOT_FINITE = auto()


# What a step of the formula may explain: it moves no address, and torch accesses nothing outside a tensor.
NO_ACCESS = frozenset({Shown.BESIDE, Shown.NEAR, Shown.FAR, Shown.NOT_FINITE})

# What kinds have in common. ragged: they show only where a block is not full. everywhere: they fail every case.
# misplaced: right values stand in wrong places. ending: they say how a call ended, and not why. meeting: two programs
# access one element. not finite: large inputs give infinities or NaN. small errors: errors look like a rounding. few
# bits: a dtype is too narrow. earlier calls: they lie in an earlier call, or seem to be in the recorded one. reduction:
# a part that reduces nothing cannot have them. addresses: they lie in an address. masks: in a mask, a bound or an
# address.
Family = Literal[
    "ragged",
    "everywhere",
    "misplaced",
    "ending",
    "meeting",
    "not finite",
    "small errors",
    "few bits",
    "earlier calls",
    "reduction",
    "addresses",
    "masks",
]


@dataclass(frozen=True)
class Kind:
    """One kind of cause.

    `name` is for programs and for the labels of planted mistakes. `is_a` completes the title "Looks like <is_a>".
    `help` says where to look, and leaves the answer to the learner.

    The diagnosis reads the rest only of kinds that it names itself. `families`: what the kind has in common with
    others. `symptoms`: kinds of a `Cause` that have no other cause than this one. `explains`: what a check may show
    that fails because of this kind, where another check has confirmed it. `in_launch_code`: launch code can make this
    mistake. `particular`: it names a step of one formula, as an exercise's own kinds do, and so says more than an edit
    does. `by_edit`: an edit that makes a call right shows this kind, whatever was suspected. `by_replay`: a replay
    proves it, so that what cases have in common raises no doubt.
    """

    name: str
    is_a: str
    help: str
    families: tuple[Family, ...] = ()
    symptoms: tuple[str, ...] = ()
    explains: frozenset[Shown] = frozenset(Shown)
    in_launch_code: bool = True
    particular: bool = False
    by_edit: bool = False
    by_replay: bool = False

    def __post_init__(self) -> None:
        require(re.fullmatch(r"[a-z][a-z0-9_]{2,31}", self.name) is not None, "Kind.name", "be a short word", self.name)
        whole = bool(self.is_a.strip()) and not self.is_a.endswith(".")
        require(whole, f"Kind {self.name}: is_a", "say what it is, without a full stop", self.is_a)
        require(self.help.endswith((".", "?")), f"Kind {self.name}: help", "be a sentence", self.help)


@dataclass(frozen=True)
class Contrast:
    """A clue to a kind: a part fails for some values of `axis`, and passes for the others.

    `values`: the failing values; if empty, all but the domain's simplest. `says` ends the sentence "wrong in all 4
    cases …, right in 9 others": "whose memory is not contiguous". `weight`, 0 … 1: how strong the clue is. `only`: the
    cause leaves all other cases right, so that another failing case speaks against it. `every`: the cause spares none
    of its cases, so that passing ones speak against it. `part`: the only part that the clue is about; '' for any.
    `than`: another axis; the failing values are those that are larger than its value.
    """

    axis: str
    kind: str
    says: str
    values: tuple[Value, ...] = ()
    weight: float = 0.75
    only: bool = True
    every: bool = False
    part: str = ""
    than: str = ""

    def __post_init__(self) -> None:
        require(self.axis.isidentifier(), "Contrast.axis", "name an axis", self.axis)
        require(not (self.than and self.values), "Contrast.than", "stand without values", self.than)
        require(bool(self.says.strip()), "Contrast.says", "end a sentence", self.says)
        require(isinstance(self.values, tuple), "Contrast.values", "be a tuple", self.values)
        require(0 < self.weight < 1, "Contrast.weight", "lie between 0 and 1", self.weight)


@dataclass(frozen=True)
class Remedy:
    """Advise on a kind of cause, in the words of the exercise.

    It replaces the kind's help in the cards of `part`, where exactly the cases fail in which `axis` and `other` differ,
    as the numbers of query heads and of kv heads do where heads share keys.
    """

    kind: str
    part: str
    axis: str
    other: str
    help: str

    def __post_init__(self) -> None:
        require(self.help.endswith((".", "?")), "Remedy.help", "be a sentence", self.help)
