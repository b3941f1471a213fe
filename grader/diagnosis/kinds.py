"""Choose the kinds of causes that a part can have: of the general ones, and of the exercise's own.

The general ones are listed in `general_kinds`; those of a single exercise are in its specification.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from grader.diagnosis.general_kinds import GENERAL_KINDS
from grader.exercise.causes import Contrast, Family, Kind
from grader.exercise.model import Exercise, Part

GENERAL: Mapping[str, Kind] = {kind.name: kind for kind in GENERAL_KINDS}

# Each is known where a contrast of the exercise points to one of its kinds.
_OF_SOME_EXERCISES: tuple[Family, ...] = ("attention", "causal mask", "lengths")


@cache
def of_family(family: Family) -> tuple[str, ...]:
    """Return the names of a family's general kinds."""
    return tuple(kind.name for kind in GENERAL_KINDS if family in kind.families)


def known_kinds(exercise: Exercise, part: Part | None = None) -> dict[str, Kind]:
    """Return all kinds that an exercise may name, by name: its own and the general ones.

    part: the kinds that this part can have, by what it reduces, and by the contrasts whose axis its cases have.
    """
    pointed = {one.kind for one in exercise.contrasts if part is None or _is_about(one, part)}
    unknown = {name for names in map(of_family, _OF_SOME_EXERCISES) if pointed.isdisjoint(names) for name in names}
    if part is not None and not part.reduces:
        unknown |= {*of_family("reduction")}
    general = {name: kind for name, kind in GENERAL.items() if name not in unknown}
    return {**general, **{kind.name: kind for kind in exercise.kinds}}


def _is_about(contrast: Contrast, part: Part) -> bool:
    """Return whether a contrast can tell cases of a part apart."""
    has_axis = any(one.cases is not None and contrast.axis in one.cases.space.axes for one in part.checks)
    return contrast.part in ("", part.name) and has_axis
