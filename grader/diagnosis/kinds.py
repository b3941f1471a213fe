"""Choose the kinds of causes that a part can have: of the general ones, and of those that its exercise names.

The general ones are listed in `general_kinds`; those that an exercise names are in its specification, or in
`grader.exercise.attention_kinds`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from grader.diagnosis.general_kinds import GENERAL_KINDS
from grader.exercise.attention_kinds import ATTENTION_KINDS, CAUSAL_MASK_KINDS, LENGTH_KINDS
from grader.exercise.causes import Family, Kind
from grader.exercise.model import Exercise, Part

GENERAL: Mapping[str, Kind] = {kind.name: kind for kind in GENERAL_KINDS}
# Those that an exercise has only if its specification names them.
SHARED: Mapping[str, Kind] = {kind.name: kind for kind in (*ATTENTION_KINDS, *CAUSAL_MASK_KINDS, *LENGTH_KINDS)}
# All kinds that evidence may name. What the diagnosis reads of a kind besides its words, it reads of these alone.
NAMEABLE: Mapping[str, Kind] = {**GENERAL, **SHARED}


@cache
def of_family(family: Family) -> tuple[str, ...]:
    """Return the names of a family's kinds, an exercise's own aside."""
    return tuple(name for name, kind in NAMEABLE.items() if family in kind.families)


def known_kinds(exercise: Exercise, part: Part | None = None) -> dict[str, Kind]:
    """Return all kinds that an exercise may name, by name: the general ones, and those of its specification.

    part: the kinds that this part can have, by what it reduces.
    """
    known = {**GENERAL, **{kind.name: kind for kind in exercise.kinds}}
    if part is None or part.reduces:
        return known
    return {name: kind for name, kind in known.items() if "reduction" not in kind.families}
