"""Gather the clues of a check: from the rule that failed, the symptom, and the values of its failing cases.

Take a bench and failures. Compare with known mistakes, in failing and passing cases. Run no call of the submission.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from math import prod

import torch
from torch import Tensor

from grader.diagnosis.altered import altered_clues, blocks_of
from grader.diagnosis.kinds import NAMEABLE, of_family
from grader.diagnosis.known_mistakes import (
    changed_by,
    mistake_clues,
    mistakes_in,
    passing_like,
    rounding_clues,
    shared_mistake,
)
from grader.diagnosis.misplaced import misplaced_clues
from grader.diagnosis.patterns import Answer, Reach, clues_of, first_wrong
from grader.exercise.cases import Domain, Size, Space
from grader.exercise.model import Part
from grader.judge.bench import Bench
from grader.judge.clue import Clue, sure
from grader.judge.failure import Failure
from grader.judge.truth import Truth
from grader.phrases import all_of, one_of
from grader.protocol.answers import Returned
from grader.protocol.footprint import TensorFootprint
from grader.protocol.observations import LaunchInfo, Traffic
from grader.record.causes import Cause
from grader.text import clean

# Letters of the names of arguments on a card.
_LONGEST_NAMES = 200
# Arguments that a card names.
_MOST_NAMED = 4
# A kind is confirmed only if it explains at least this share of the failing cases.
_CONFIRMING_SHARE = 0.6
# The largest weight of a clue that is not confirmed.
_LARGEST_GUESS = 0.97
# Work is repeated where each byte is loaded or stored this many times, on average.
OVERLAP = 1.5
# The number of failing cases that the words of a known mistake are compared with.
_COMPARED = 4
# The factor of a known mistake that explains only some of the failing cases, and none for certain.
_SOME_CASES = 0.5
# Weight of counted padding if every access was checked, and none was outside a tensor.
_WITHOUT_ACCESS = 0.12
# Weight of a changed copy: kernels stored enough bytes, and the tensor did not change.
_TO_A_COPY = 0.97
# The factor of a known mistake that would fail a passing case.
_FAILS_PASSING = 0.4
# The kind that exact values confirm, though another rounding may give them.
_EXACT = "rounded_intermediate"
# The weights of both then. A known mistake is more common.
_EITHER, _LIKELIER = 0.6, 0.8
# Symptoms that stay on the card, whatever mistake causes them.
_KEPT_SYMPTOMS = ("zeros", "copy_of_input")
# The kind of a symptom that has no other cause.
_BY_SYMPTOM = {symptom: kind.name for kind in NAMEABLE.values() for symptom in kind.symptoms}


def has_proof(clues: Iterable[Clue]) -> bool:
    """Return whether a clue is confirmed."""
    return any(clue.confirmed for clue in clues)


def clues_in(failure: Failure, part: Part, truth: Truth, among: Collection[str] | None = None) -> list[Clue]:
    """Return the clues of a single failure: from its rule, its symptom and its values.

    among: the kinds of known mistakes to look for; None for all.
    """
    found = list(failure.clues)
    if not part.reduces:
        # There is nothing to combine: programs that store to the same elements compute a wrong address.
        found = [replace(clue, kind="wrong_address") if clue.kind == "stores_collide" else clue for clue in found]
    if has_proof(found):
        return found
    cause = failure.cause
    if (kind := _kind_of(cause)) and not found:
        return [sure(kind, "", cause.title, cause.help)]
    if cause.mismatch is not None and failure.wrong_call is not None and failure.wrong_call.recipe.part == part.name:
        wrong_call = failure.wrong_call
        if changed := [name for name in wrong_call.outcome.answer.changed if name not in part.mutates]:
            names = clean(all_of(changed[:_MOST_NAMED]), _LONGEST_NAMES)
            return [*found, sure("input_changed", f"After the call, {names} holds other values than before.")]
        before = truth.inputs(wrong_call.recipe)
        named = list(zip(part.arguments, before, strict=True))
        olds = {name: value for name, value in named if name in part.mutates and isinstance(value, Tensor)}
        answers = [
            Answer(got, wrong, expected, olds.get(expected.name)) for got, wrong, expected in wrong_call.answers()
        ]
        traffic = [launch.traffic for launch in wrong_call.outcome.answer.launches]
        found += _to_a_copy(answers, traffic, part)
        found += mistake_clues(
            mistakes_in(truth, part, wrong_call, among), wrong_call, untouched=_is_untouched(answers)
        )
        if has_proof(found):
            return found
        multiplies = any(one is None or one.dot_flops for one in traffic)
        watched = bool(traffic) and None not in traffic
        looks = clues_of(
            answers,
            named,
            multiplies=multiplies,
            watched=watched,
            filled=_is_filled(answers, wrong_call.outcome.answer.launches, part),
            rereads=_may_reread(answers, wrong_call.outcome.answer),
            reaches=_reaches(wrong_call.outcome.answer.launches),
        )
        looks += [*_overlapping(looks, answers, traffic), *_loaded_again(answers, traffic)]
        if watched and not any(clue.kind == "missing_mask" for clue in looks):
            # Every access was checked, and none was outside.
            looks.append(Clue("padding_counted", _WITHOUT_ACCESS))
        if all(clue.kind == _EXACT for clue in looks if clue.confirmed):
            looks = _undecided(looks, rounding_clues(truth, part, wrong_call))
        if not has_proof(looks):
            looks += _misplaced(answers, wrong_call.outcome.answer.launches)
        found += looks
        if len(traffic) == 1 and watched and all(one is not None and one.complete for one in traffic):
            # Two programs that access one element would have been reported.
            found = [clue for clue in found if clue.kind not in of_family("meeting")]
    return found


def _undecided(looks: Sequence[Clue], known: Sequence[Clue]) -> list[Clue]:
    """Return the clues of values and of known roundings together.

    A product of one term, or with ones, has no more bits than its operands. Another rounding may then give values that
    a coarser dtype holds exactly, and neither is certain.
    """
    exact, others = ({clue.kind for clue in clues if clue.confirmed} for clues in (looks, known))
    if not exact:
        return [*looks, *known]
    if not others - exact:
        return list(looks)
    confirmed = [clue for clue in known if clue.confirmed]
    found = [clue if not clue.confirmed else replace(clue, weight=_EITHER, confirmed=False) for clue in looks]
    return [*found, *(replace(clue, weight=_LIKELIER, confirmed=False) for clue in confirmed if clue.kind not in exact)]


def _misplaced(answers: Sequence[Answer], launched: Sequence[LaunchInfo]) -> list[Clue]:
    """Return the clues of right values in wrong places, in the first wrong output."""
    answer = first_wrong(answers)
    if answer is None:
        return []
    # What was not stored still holds its old value.
    stored = answer.wrong if answer.before is None else answer.wrong & (answer.got != answer.before)
    fresh = answer.before is None
    return list(misplaced_clues(answer.got, stored, answer.expected, blocks_of(launched), fresh=fresh))


def _overlapping(looks: Sequence[Clue], answers: Sequence[Answer], traffic: Sequence[Traffic | None]) -> list[Clue]:
    """Return the clue of a launch that stores some elements several times, and others never."""
    if len(traffic) != 1 or traffic[0] is None or not traffic[0].complete:
        return []
    stored, different = traffic[0].stored_bytes, traffic[0].unique_stored_bytes
    due = sum(one.got.nbytes if one.before is None else _due_bytes(one) for one in answers)
    is_short = different < due or any(clue.kind == "not_all_covered" for clue in looks)
    if not 0 < OVERLAP * different <= stored or not is_short:
        return []
    evidence = f"{stored:,} bytes are stored to {different:,} different ones, and others are never stored to."
    if 0 < traffic[0].loaded_bytes < OVERLAP * traffic[0].unique_loaded_bytes:
        # Two programs that store to one element would have been reported: one program stores there in several steps.
        return [Clue("not_advanced", 0.9, f"Steps load different bytes, but {evidence}", firm=True)]
    return [Clue("not_all_covered", 0.85, evidence, firm=True)]


def _loaded_again(answers: Sequence[Answer], traffic: Sequence[Traffic | None]) -> list[Clue]:
    """Return the clue of a single wrong number for which a launch loads elements several times."""
    is_one_number = sum(one.got.numel() for one in answers) == 1
    if not is_one_number or len(traffic) != 1 or traffic[0] is None or not traffic[0].complete:
        return []
    loaded, different = traffic[0].loaded_bytes, traffic[0].unique_loaded_bytes
    if not 0 < OVERLAP * different <= loaded:
        return []
    return [Clue("done_again", 0.85, f"{loaded:,} bytes are loaded of {different:,} different ones.", firm=True)]


def _to_a_copy(answers: Sequence[Answer], traffic: Sequence[Traffic | None], part: Part) -> list[Clue]:
    """Return the clue of a call that stores enough bytes, but not to the tensor that it must change."""
    wrong = [one for one in answers if bool(one.wrong.any())]
    stored = sum(one.unique_stored_bytes for one in traffic if one is not None and one.complete)
    if part.outputs or not wrong or not stored or not all(map(_is_unchanged, wrong)):
        return []
    if stored < sum(map(_due_bytes, answers)):
        return []
    names = all_of([one.expected.name for one in wrong])
    evidence = f"Kernels stored {stored:,} different bytes, as many as needed, but {names} did not change."
    return [Clue("copy_changed", _TO_A_COPY, evidence, firm=True)]


def _due_bytes(one: Answer) -> int:
    """Return how many bytes of an output must change."""
    if one.before is None:
        return 0
    due = one.expected.value.to(one.got.dtype)
    return int(((due != one.before) & ~(due.isnan() & one.before.isnan())).sum()) * one.got.element_size()


def _reaches(launched: Sequence[LaunchInfo]) -> tuple[Reach, ...]:
    """Return the reach of a single launch along each axis of its grid, by each block size, the largest first."""
    if len(launched) != 1:
        return ()
    (one,) = launched
    # If several constants have one value, it is unknown which one the kernel uses.
    # A group counts tiles, and no elements.
    blocks = {name: own for name, own in one.constants.items() if "GROUP" not in name.upper()} or one.constants
    named = {size: [name for name, own in blocks.items() if own == size] for size in blocks.values()}
    sizes = [(one_of(names), size) for size, names in sorted(named.items(), reverse=True) if size > 1]
    # All programs of a flat grid are along one axis, and those of any grid may be. Along another axis each program
    # takes all, or they share it.
    programs = math.prod(one.grid)
    flat = sum(count > 1 for count in one.grid) <= 1
    beside = {name: max((size for other, size in sizes if other != name), default=1) for name, _ in sizes}
    return tuple(
        Reach(name, count, size, beside[name] * (programs // count) if flat or count == programs else math.inf)
        for name, size in sizes
        for count in dict.fromkeys((*one.grid, programs))
        if count
    )


def _is_filled(answers: Sequence[Answer], launches: Sequence[LaunchInfo], part: Part) -> bool:
    """Return whether every element of the new outputs was stored.

    Footprints of launches show the tensors of the first wrong output's size that they wrote. Without footprints, the
    last launch must have stored as many different bytes as all outputs have.
    """
    wrong = first_wrong(answers)
    if part.mutates or not launches or wrong is None:
        return False
    tensors = _tensors_of(launches)
    if written := [one for one in tensors if one.written and one.elements == wrong.got.numel()]:
        return all(one.written == one.elements for one in written)
    last = launches[-1].traffic
    if last is None or not last.complete:
        return False
    return last.unique_stored_bytes >= sum(one.got.nbytes for one in answers) > 0


def _tensors_of(launches: Sequence[LaunchInfo]) -> list[TensorFootprint]:
    """Return the tensors of launches that have a footprint."""
    return [one for launch in launches if launch.footprint for one in launch.footprint.tensors]


def _may_reread(answers: Sequence[Answer], returned: Returned) -> bool:
    """Return whether kernels may have read memory that the call allocated."""
    tensors = _tensors_of(returned.launches)
    more = returned.allocated_bytes > sum(one.got.nbytes for one in answers)
    return more or not tensors or any(one.loaded and one.written for one in tensors)


def _is_untouched(answers: Sequence[Answer]) -> bool:
    """Return whether the first wrong output must change in place, but did not change at all."""
    first = first_wrong(answers)
    return first is not None and _is_unchanged(first)


def _is_unchanged(one: Answer) -> bool:
    """Return whether an output that must change in place did not change."""
    if one.before is None:
        return False
    before = one.before.to(one.got.dtype)
    same = torch.equal(one.got.nan_to_num(0.0), before.nan_to_num(0.0))
    return same and torch.equal(one.got.isnan(), before.isnan())


def gathered(bench: Bench, first: Failure, alike: Sequence[Failure], *, known: bool) -> tuple[list[Clue], Failure]:
    """Return the clues of all failing cases of a check, and the failure to show: the one with the likeliest cause.

    known: another check has confirmed a cause, so that the first case is enough.
    """
    failures = (first, *(() if known else alike))
    several = [clues_in(first, bench.part, bench.truth)]
    # A mistake is in every case, and each known mistake is computed again for each case.
    made = {clue.kind for clue in several[0] if clue.by_known_mistake}
    several += [clues_in(failure, bench.part, bench.truth, made) for failure in failures[1:]]
    clues = [
        replace(clue, weight=_FAILS_PASSING * clue.weight, confirmed=False)
        if clue.by_known_mistake and _would_show(bench, first, clue, several=len(made) > 1)
        else clue
        for clue in together(several)
    ]
    clues = [_for_all(bench, failures[:_COMPARED], clue) for clue in clues]
    clues += _without_launch(bench, first)
    if not known and not has_proof(clues):
        altered = altered_clues(bench, failures)
        clues += altered
        several[0] = [*several[0], *altered]
    sure_of = {clue.kind for clue in clues if clue.confirmed}
    for failure, found in zip(failures, several, strict=True):
        for clue in found:
            if clue.confirmed and clue.kind in sure_of and clue.title and failure.cause.mismatch:
                merged = next(one for one in clues if one.kind == clue.kind) if clue.by_known_mistake else clue
                kind = failure.cause.kind if failure.cause.kind in _KEPT_SYMPTOMS else "likely_mistake"
                shown = replace(failure.cause, kind=kind, title=merged.title, help=merged.help)
                return clues, replace(failure, cause=shown)
    return clues, first


def _for_all(bench: Bench, failures: Sequence[Failure], clue: Clue) -> Clue:
    """Return the clue of a known mistake in the words that fit most failing cases, if several of its kind fit one.

    Slots that no tile divides, or that no splits divide, may be the same ones in one case.
    """
    calls = [one.wrong_call for one in failures if one.wrong_call is not None and one.cause.mismatch is not None]
    own = [one for one in calls if one.recipe.part == bench.part.name]
    if not clue.by_known_mistake or not clue.title or len(own) < 2:
        return clue
    shared = shared_mistake(bench.truth, bench.part, own, clue.kind)
    return replace(clue, title=shared.title, help=shared.help) if shared else clue


def _without_launch(bench: Bench, failure: Failure) -> list[Clue]:
    """Return the clue of a call that launched no kernel, if another call of these sizes did."""
    wrong_call, space = failure.wrong_call, space_of(bench.part)
    if wrong_call is None or space is None or failure.cause.mismatch is None or wrong_call.outcome.answer.launches:
        return []
    sizes = [name for name, domain in space.axes.items() if isinstance(domain, Size)]
    own = [wrong_call.recipe.case.get(name) for name in sizes]
    launching = (one.case for one in bench.findings.evidence if one.kernels)
    if not bench.part.is_replayed or not any([case.get(name) for name in sizes] == own for case in launching):
        return []
    evidence = "This call launched no kernel, and another call of these sizes did."
    return [Clue("remembered_result", 0.85, evidence, firm=True)]


def _would_show(bench: Bench, failure: Failure, clue: Clue, *, several: bool) -> bool:
    """Return whether a known mistake would fail one of the passing cases that are most like the failing one.

    several: other known mistakes explain the failure as well.
    """
    passing = passing_like(bench, failure.wrong_call, several=several)
    return any(changed_by(bench.truth, bench.part, recipe, clue.kind, clue.title) for recipe in passing)


def _kind_of(cause: Cause) -> str:
    if cause.kind == "crash":
        return "exception" if cause.traceback else "process_died"
    if cause.kind == "launches" and cause.actual == "0":
        return "work_outside_kernels"
    return _BY_SYMPTOM.get(cause.kind, "")


def together(several: Sequence[Sequence[Clue]]) -> list[Clue]:
    """Merge the clues of several failing cases of one check.

    A clue that only some cases have weighs less, and is not confirmed if most cases do not have it.
    """
    found: dict[str, list[list[Clue]]] = {}
    for clues in several:
        kinds: dict[str, list[Clue]] = {}
        for clue in clues:
            kinds.setdefault(clue.kind, []).append(clue)
        for kind, same in kinds.items():
            found.setdefault(kind, []).append(sorted(same, key=lambda clue: -clue.weight))
    merged = []
    for cases in found.values():
        best = max((case[0] for case in cases), key=lambda clue: clue.weight)
        share = sum(1 - prod(1 - clue.weight for clue in case) for case in cases) / len(several)
        if best.by_known_mistake and not best.confirmed:
            # A mistake is in every case, and some cases fit it by chance. If all fit, the strongest clue counts.
            share = max(share, best.weight) if len(cases) == len(several) else _SOME_CASES * share
        sure_of = best.confirmed and share >= _CONFIRMING_SHARE
        merged.append(replace(best, weight=share if sure_of else min(share, _LARGEST_GUESS), confirmed=sure_of))
    return merged


def space_of(part: Part) -> Space | None:
    """Return the axes of all cases of a part, in one space."""
    axes: dict[str, Domain] = {}
    for check in part.checks:
        for name, domain in (check.cases.space.axes if check.cases else {}).items():
            if name not in axes or isinstance(domain, Size):
                axes[name] = domain
    return Space(axes) if axes else None
