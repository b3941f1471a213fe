"""Rank the possible causes of a failure: weigh the clues by kind, and keep a few suspects.

Take clues and tried cases. Change no status and no points.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
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
from grader.diagnosis.kinds import NAMEABLE, of_family
from grader.diagnosis.probes.variations import Variation, fails_full, layout_matters, not_varied, variation_clues
from grader.exercise.cases import Space
from grader.exercise.causes import Contrast, Kind, Remedy
from grader.judge.clue import Clue
from grader.judge.trial import TriedCase
from grader.record.causes import Cause, Suspect

# The number of suspects on a card.
_MOST_SUSPECTS = 4
# The least likelihood of a suspect, and its least share of the first one's.
_LEAST, _LEAST_OF_FIRST = 0.3, 0.4
# Weight of a cause that another check of the part has confirmed.
_CONFIRMED_ELSEWHERE = 0.6
# The same for work outside the kernels, and for that work if the errors look like its rounding.
_RULED, _HANDED_ON = 0.4, 0.9
# The factor from a missing mask's weight to that of a wrong address, if no mask can be missing.
_WRONG_ADDRESS = 0.6
# Symptoms that are facts: they stay in the title.
_FACTS = ("out_of_bounds", "race")
# The kinds that only elements without a store show.
_NEVER_STORED = ("not_all_covered",)
# The factor of a shortcut by values if numbers are not finite: large inputs lead to those.
_BY_VALUES = 0.5
# From this weight on, errors look like rounding.
_LOOKS_ROUNDED = 0.5
# The factor of clues of variations then: other inputs may pass by chance.
_MAY_PASS = 0.7
# From this weight on, a known mistake explains the values.
_EXPLAINS_VALUES = 0.8
# The factor of what failing cases have in common then. From the second weight on, a known mistake says more than that
# values overflow.
_BESIDE_VALUES, _SAYS_MORE_THAN_OVERFLOW = 0.7, 0.4


@dataclass(frozen=True)
class PartFacts:
    """Facts about a part, beside the clues of its checks.

    kinds: those that its failures can have. tried: the cases that ran. space: its cases; None if it declares none.
    contrasts: those that its specification declares. varied: variations of failing cases.
    """

    kinds: Mapping[str, Kind]
    tried: Sequence[TriedCase] = ()
    space: Space | None = None
    contrasts: Sequence[Contrast] = ()
    varied: Sequence[Variation] = ()


def suspects_of(clues: Sequence[Clue], elsewhere: Sequence[Clue], facts: PartFacts) -> tuple[Suspect, ...]:
    """Return the few likeliest suspects of a check, the likeliest first.

    clues: those of the check. elsewhere: those of the part's other failed checks.
    """
    refuted_kinds = {clue.kind for clue in clues if clue.refutes}
    clues = [clue for clue in clues if clue.confirmed or clue.kind not in refuted_kinds]
    own = _with_proofs_of(elsewhere, _assumed_of_one_size(clues, facts))
    if any(_leaves_whole_blocks(clue) for clue in (*clues, *elsewhere)):
        own = [_with_whole_blocks(clue) for clue in own]
    factors: Mapping[str, float] = {}
    if facts.space is not None:
        own, factors = _contrasted(own, clues, facts, facts.space)
    # The part cannot have the other kinds.
    own = [clue for clue in own if clue.kind in facts.kinds]
    if any(clue.kind in _NEVER_STORED and not clue.confirmed for clue in clues):
        # A wrong reduction stores wrong values everywhere: it leaves no element out.
        own = [clue for clue in own if clue.kind != "wrong_axis" or clue.confirmed]
    ranked = sorted(_weighed(own, factors), key=lambda one: -one[0])
    if not ranked:
        return ()
    least = max(_LEAST, _LEAST_OF_FIRST * ranked[0][0])
    few = [one for weight, one in ranked if weight >= least or one[0].confirmed][:_MOST_SUSPECTS]
    return tuple(_suspect(facts.kinds[same[0].kind], same) for same in few)


def _assumed_of_one_size(clues: Sequence[Clue], facts: PartFacts) -> list[Clue]:
    """Return the clues. A proof that a loop ends too early is a guess where all passing cases have one size."""
    if facts.space is None or not any(clue.confirmed and clue.kind in of_family("ending") for clue in clues):
        return list(clues)
    assumed = only_size(facts.tried, facts.space)
    doubted = [replace(clue, confirmed=False, weight=_CONFIRMED_ELSEWHERE) for clue in clues]
    return [*doubted, *assumed] if assumed else list(clues)


def _with_proofs_of(elsewhere: Sequence[Clue], clues: list[Clue]) -> list[Clue]:
    """Return the clues of a check with what other checks have confirmed; unchanged if the check has its own proof."""
    if has_proof(clues):
        return clues
    own = [_in_proved_words(clue, elsewhere) for clue in clues]
    rounded = bool(own) and all(clue.kind in of_family("small errors") for clue in own)
    return own + [_from_elsewhere(clue, rounded=rounded) for clue in elsewhere if clue.confirmed]


def _contrasted(
    own: list[Clue], clues: Sequence[Clue], facts: PartFacts, space: Space
) -> tuple[list[Clue], Mapping[str, float]]:
    """Return the clues with those that a comparison of failing and passing cases gives, and factors of kinds.

    clues: those of the check alone.
    """
    tried, declared, varied = facts.tried, facts.contrasts, facts.varied
    shared = not_varied(contrasts(tried, declared, space), varied)
    if any(clue.by_known_mistake and clue.weight >= _EXPLAINS_VALUES for clue in clues):
        shared = [replace(clue, weight=_BESIDE_VALUES * clue.weight) for clue in shared]
    tested = list(variation_clues(varied, declared))
    if any(clue.kind in of_family("small errors") and clue.weight >= _LOOKS_ROUNDED for clue in clues):
        tested = [clue if clue.firm else replace(clue, weight=_MAY_PASS * clue.weight) for clue in tested]
    own = [*own, *shared, *tested]
    known = {clue.kind for clue in clues if clue.by_known_mistake}
    factors = {**_outweighed(clues), **refuted(tried, declared, space, known)}
    if fails_full(varied):
        # No mask was needed: an access outside a tensor has another cause.
        own = [_with_wrong_address(clue) for clue in own]
    spared = layout_matters(varied, declared) or fails_full(varied)
    if spared:
        factors |= dict.fromkeys(of_family("ragged"), REFUTED)
    by_layout = layout_matters(varied, declared) or by_layout_alone(tried, declared, space)
    if by_layout:
        # The strides are why values are in wrong places.
        factors |= dict.fromkeys(of_family("misplaced"), REFUTED)
    if spared or by_layout:
        # These may be a second mistake, except for what a replay has proved.
        doubted = [name for name in of_family("ragged") if not NAMEABLE[name].by_replay]
        own = [replace(clue, firm=False) if clue.kind in doubted else clue for clue in own]
    return own, factors


def _outweighed(clues: Sequence[Clue]) -> dict[str, float]:
    """Return the factors of kinds that these clues make less likely."""
    found: dict[str, float] = {}
    kinds = {clue.kind for clue in clues}
    if not kinds.isdisjoint(of_family("not finite")):
        found["value_shortcut"] = _BY_VALUES
    if any(clue.by_known_mistake and clue.weight >= _SAYS_MORE_THAN_OVERFLOW for clue in clues):
        # A mistake that gives these infinities says more than that there are infinities.
        found["overflow"] = _BESIDE_VALUES
    if "not_all_covered" in kinds:
        # Elements that were never stored are not rounded.
        found |= dict.fromkeys(of_family("small errors"), REFUTED)
    if "lost_update" in kinds:
        # Two programs share an element only if two sizes differ, such as two numbers of heads.
        found[EXCHANGED_KIND] = REFUTED
    return found


def _with_wrong_address(clue: Clue) -> Clue:
    """Return the clue of a wrong address in place of a missing mask that an access shows; other clues unchanged."""
    by_access = clue.kind == "missing_mask" and not clue.confirmed and clue.firm
    return Clue("wrong_address", _WRONG_ADDRESS * clue.weight, clue.evidence, firm=True) if by_access else clue


def _leaves_whole_blocks(clue: Clue) -> bool:
    """Return whether a clue shows a grid that leaves out whole blocks."""
    return clue.kind in _NEVER_STORED and clue.in_launch and clue.firm


def _with_whole_blocks(clue: Clue) -> Clue:
    """Return the clue of a grid with too few programs in place of a rounded number of them; other clues unchanged.

    A grid that leaves out whole blocks in one case leaves less than a block in another one by chance.
    """
    by_grid = clue.kind == "remainder_skipped" and clue.firm and not clue.confirmed
    if not by_grid:
        return clue
    return Clue(_NEVER_STORED[0], clue.weight, clue.evidence, firm=True, in_launch=True)


def _in_proved_words(clue: Clue, elsewhere: Sequence[Clue]) -> Clue:
    """Return a guess at a known mistake in the words of the one of its kind that another check has confirmed."""
    proved = [one for one in elsewhere if one.confirmed and one.by_known_mistake and one.title]
    alike = next((one for one in proved if one.kind == clue.kind), None)
    return replace(clue, title=alike.title, help=alike.help) if alike and clue.by_known_mistake and clue.title else clue


def _from_elsewhere(clue: Clue, *, rounded: bool) -> Clue:
    """Return the clue of a cause that another check has confirmed. rounded: this check's errors look like rounding."""
    evidence = (
        f"In another check: {clue.evidence[0].lower()}{clue.evidence[1:]}"
        if clue.evidence
        else "Another check shows it."
    )
    # Values or a probe have proved it there: what these cases have in common does not change the weight.
    weight = _CONFIRMED_ELSEWHERE
    if clue.kind == "work_outside_kernels":
        # It breaks another rule, and rarely makes values wrong. But values that go through memory between two programs
        # are rounded to its dtype.
        weight = _HANDED_ON if rounded else _RULED
    return Clue(clue.kind, weight * min(clue.weight, 1.0), evidence, help=clue.help, firm=True)


def _weighed(clues: Sequence[Clue], factors: Mapping[str, float]) -> Iterator[tuple[float, list[Clue]]]:
    """Yield the likelihood of each kind, with its clues, strongest first. Clues of one kind strengthen each other."""
    by_kind: dict[str, list[Clue]] = {}
    for clue in clues:
        by_kind.setdefault(clue.kind, []).append(clue)
    for kind, same in by_kind.items():
        same.sort(key=lambda clue: (not clue.confirmed, -clue.weight))
        if same[0].confirmed:
            # Above all guesses.
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
    # Beside a proof, guesses say nothing.
    proofs = [clue for clue in same if clue.confirmed] or same
    evidence = " ".join(dict.fromkeys(clue.evidence for clue in proofs[:2] if clue.evidence))
    return Suspect(kind.name, title or phrase, evidence, help_text, confirmed)


def remedied(
    suspects: tuple[Suspect, ...], tried: Sequence[TriedCase], remedies: Sequence[Remedy], part: str
) -> tuple[Suspect, ...]:
    """Return the suspects with the exercise's own help, if exactly the cases of a remedy fail.

    Exchanged axes are no suspect then: the remedy says why it matters that the two axes differ.
    """
    for one in remedies:
        of_kind = one.part == part and any(each.kind == one.kind for each in suspects)
        if of_kind and differs_where_failing(tried, one.axis, one.other):
            told = (replace(each, help=one.help) if each.kind == one.kind else each for each in suspects)
            suspects = tuple(each for each in told if each.kind != EXCHANGED_KIND or each.confirmed)
    return suspects


def explained(cause: Cause, suspects: tuple[Suspect, ...], lead: str = "", advice: str = "") -> Cause:
    """Return the cause with its suspects. The first suspect gives the title and the help of the card.

    lead: before that title. advice: before that help.
    """
    if not suspects:
        return cause
    first = suspects[0]
    title = first.title
    if cause.kind in _FACTS:
        # The facts first, then the possible cause, if that is another one.
        facts = cause.title.removeprefix(lead)
        title = facts if first.kind == cause.kind else f"{facts}: {title[0].lower()}{title[1:]}"
    help_text = " ".join(filter(None, (advice, first.help)))
    return replace(cause, title=f"{lead}{title}", help=help_text, suspects=suspects)
