"""Rank the possible causes of a failure: weigh the clues of all sources by kind, into a few suspects.

It changes no status and no points.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod

from grader.diagnosis.case_contrast import (
    EXCHANGED_KIND,
    REFUTED,
    by_layout_alone,
    contrasts,
    differs_where_failing,
    only_size,
    refuted,
)
from grader.diagnosis.gathering import has_proof
from grader.diagnosis.kinds import GENERAL, of_family
from grader.diagnosis.probes.variations import Variation, fails_full, layout_matters, not_varied, variation_clues
from grader.exercise.cases import Space
from grader.exercise.causes import Contrast, Kind, Remedy
from grader.judge.clue import Clue
from grader.judge.trial import TriedCase
from grader.record import Cause, Suspect

# A card lists no more suspects.
_MOST_SUSPECTS = 4
# Suspects below this likelihood, or this share of the first one's, are left out.
_LEAST, _LEAST_OF_FIRST = 0.3, 0.4
# Weight of a cause that another check of the part has confirmed.
_ELSEWHERE = 0.6
# The same for work outside the kernels, and where errors look like its rounding.
_RULED, _HANDED_ON = 0.4, 0.9
# The factor from a missing mask's weight to that of a wrong address, where no mask can be missing.
_NO_MASK = 0.6
# Symptoms that are facts by themselves.
_FACTS = ("out_of_bounds", "race")
# The factor of a shortcut by values where numbers are not finite: large inputs lead to those.
_BY_VALUES = 0.5
# From this weight on, errors count as those of a rounding.
_SMALL = 0.5
# The factor of what variations tell then: other inputs may pass by luck.
_BY_LUCK = 0.7
# From this weight on, a known mistake explains the values.
_TELLING = 0.8
# The factor of what failing cases share then. From the other weight on, it says more than that values overflow.
_BESIDE_VALUES, _TOLD = 0.7, 0.4


def suspects_of(
    clues: Sequence[Clue],
    elsewhere: Sequence[Clue],
    tried: Sequence[TriedCase],
    space: Space | None,
    declared: Sequence[Contrast],
    kinds: Mapping[str, Kind],
    part: str = "",
    varied: Sequence[Variation] = (),
) -> tuple[Suspect, ...]:
    """Return the likeliest few suspects, likeliest first.

    elsewhere: clues of the part's other failed checks. varied: variations of failing cases.
    """
    own = list(clues)
    if space is not None and any(clue.confirmed and clue.kind in of_family("ending") for clue in own):
        assumed = only_size(tried, space)
        own = [replace(clue, confirmed=False, weight=_ELSEWHERE) for clue in own] + assumed if assumed else own
    if not has_proof(own):
        rounded = bool(own) and all(clue.kind in of_family("small errors") for clue in own)
        own += [_from_elsewhere(clue, rounded=rounded) for clue in elsewhere if clue.confirmed]
    factors: Mapping[str, float] = {}
    declared = [one for one in declared if one.part in ("", part)]
    if space is not None:
        shared = not_varied(contrasts(tried, declared, space), varied)
        if any(clue.by_known_mistake and clue.weight >= _TELLING for clue in clues):
            shared = [replace(clue, weight=_BESIDE_VALUES * clue.weight) for clue in shared]
        told = list(variation_clues(varied, declared))
        if any(clue.kind in of_family("small errors") and clue.weight >= _SMALL for clue in clues):
            told = [clue if clue.firm else replace(clue, weight=_BY_LUCK * clue.weight) for clue in told]
        own += [*shared, *told]
        known = {clue.kind for clue in clues if clue.by_known_mistake}
        factors = {**_outweighed(clues), **refuted(tried, declared, space, known)}
        if fails_full(varied):
            # An access outside a tensor has another reason then.
            own = [_with_wrong_address(clue) for clue in own]
        spared = layout_matters(varied, declared) or fails_full(varied)
        if spared:
            factors = {**factors, **dict.fromkeys(of_family("ragged"), REFUTED)}
        by_layout = layout_matters(varied, declared) or by_layout_alone(tried, declared, space)
        if by_layout:
            # Values stand in wrong places because of the strides.
            factors = {**factors, **dict.fromkeys(of_family("misplaced"), REFUTED)}
        if spared or by_layout:
            # A second mistake may be behind that, unless a replay has proved it.
            doubted = [name for name in of_family("ragged") if not GENERAL[name].by_replay]
            own = [replace(clue, firm=False) if clue.kind in doubted else clue for clue in own]
    # The part cannot have a kind that is not among them.
    own = [clue for clue in own if clue.kind in kinds]
    ranked = sorted(_weighed(own, factors), key=lambda one: -one[0])
    if not ranked:
        return ()
    least = max(_LEAST, _LEAST_OF_FIRST * ranked[0][0])
    few = [one for weight, one in ranked if weight >= least or one[0].confirmed][:_MOST_SUSPECTS]
    return tuple(_suspect(kinds[same[0].kind], same) for same in few)


def _outweighed(clues: Sequence[Clue]) -> dict[str, float]:
    """Return the factors of kinds that are unlikely beside these clues, or say less."""
    found: dict[str, float] = {}
    kinds = {clue.kind for clue in clues}
    if not kinds.isdisjoint(of_family("not finite")):
        found["value_shortcut"] = _BY_VALUES
    if any(clue.by_known_mistake and clue.weight >= _TOLD for clue in clues):
        # A mistake that gives these infinities says more than that there are some.
        found["overflow"] = _BESIDE_VALUES
    if "not_all_covered" in kinds:
        # What was never stored was not rounded.
        found |= dict.fromkeys(of_family("small errors"), REFUTED)
    if "lost_update" in kinds:
        # Two programs share an element only where two sizes differ, such as two numbers of heads.
        found[EXCHANGED_KIND] = REFUTED
    return found


def _with_wrong_address(clue: Clue) -> Clue:
    """Return a missing mask's clue by an access as that of a wrong address; any other as it is."""
    by_access = clue.kind == "missing_mask" and not clue.confirmed and clue.firm
    return Clue("wrong_address", _NO_MASK * clue.weight, clue.evidence, firm=True) if by_access else clue


def _from_elsewhere(clue: Clue, *, rounded: bool) -> Clue:
    """Return a clue that another check has confirmed. rounded: this check's errors look like rounding."""
    evidence = (
        f"In another check: {clue.evidence[0].lower()}{clue.evidence[1:]}"
        if clue.evidence
        else "Another check shows it."
    )
    # What values or a probe have proved there holds whatever the cases have in common.
    weight = _ELSEWHERE
    if clue.kind == "work_outside_kernels":
        # Who computes is a rule of its own, and rarely the reason for wrong values. But what another program goes on
        # with has been rounded to the dtype of the memory between the two.
        weight = _HANDED_ON if rounded else _RULED
    return Clue(clue.kind, weight * min(clue.weight, 1.0), evidence, firm=True)


def _weighed(clues: Sequence[Clue], factors: Mapping[str, float]) -> Iterator[tuple[float, list[Clue]]]:
    """Yield for each kind its likelihood and its clues, strongest first. Clues that agree add up."""
    by_kind: dict[str, list[Clue]] = {}
    for clue in clues:
        by_kind.setdefault(clue.kind, []).append(clue)
    for kind, same in by_kind.items():
        same.sort(key=lambda clue: (not clue.confirmed, -clue.weight))
        if same[0].confirmed:
            # Above everything that is only likely.
            yield 1 + same[0].weight, same
        else:
            factor = 1.0 if any(clue.firm for clue in same) else factors.get(kind, 1.0)
            yield factor * (1 - prod(1 - clue.weight for clue in same)), same


def _suspect(kind: Kind, same: Sequence[Clue]) -> Suspect:
    """Return the suspect of a kind. same: its clues, the strongest first."""
    confirmed = same[0].confirmed
    title = next((clue.title for clue in same if clue.title), "")
    help_text = next((clue.help for clue in same if clue.help), "") or kind.help
    phrase = kind.is_a[0].upper() + kind.is_a[1:] if confirmed else f"Looks like {kind.is_a}"
    # Next to a proof, what is only likely says nothing.
    told = [clue for clue in same if clue.confirmed] or same
    evidence = " ".join(dict.fromkeys(clue.evidence for clue in told[:2] if clue.evidence))
    return Suspect(kind.name, title or phrase, evidence, help_text, confirmed)


def remedied(
    suspects: tuple[Suspect, ...], tried: Sequence[TriedCase], remedies: Sequence[Remedy], part: str
) -> tuple[Suspect, ...]:
    """Return the suspects with the exercise's own help, where the failing cases are those that a remedy is for.

    Two axes in each other's place are no suspect then: the remedy says why it matters that they differ.
    """
    for one in remedies:
        of_kind = one.part == part and any(each.kind == one.kind for each in suspects)
        if of_kind and differs_where_failing(tried, one.axis, one.other):
            told = (replace(each, help=one.help) if each.kind == one.kind else each for each in suspects)
            suspects = tuple(each for each in told if each.kind != EXCHANGED_KIND or each.confirmed)
    return suspects


def explained(cause: Cause, suspects: tuple[Suspect, ...], lead: str = "", advice: str = "") -> Cause:
    """Return the cause with its suspects; the first one gives the title of the card.

    lead, advice: come before its words.
    """
    if not suspects:
        return cause
    first = suspects[0]
    title = first.title
    if cause.kind in _FACTS:
        # The facts come first, then the possible cause, unless that is the same.
        facts = cause.title.removeprefix(lead)
        title = facts if first.kind == cause.kind else f"{facts}: {title[0].lower()}{title[1:]}"
    help_text = " ".join(filter(None, (advice, first.help)))
    return replace(cause, title=f"{lead}{title}", help=help_text, suspects=suspects)
