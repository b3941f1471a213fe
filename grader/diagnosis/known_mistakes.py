"""Find known mistakes: those that mistakes.py describes, and that give the wrong values of a call.

Take a wrong call, and return mistakes and clues. Run only the oracle and mistakes.py.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from math import isfinite

import torch

from grader.diagnosis.row_factors import row_factors
from grader.exercise.cases import QUICK_VOLUME, Case
from grader.exercise.model import Part
from grader.judge.bench import Bench
from grader.judge.clue import Clue, sure
from grader.judge.compare import compare
from grader.judge.evidence import kernels_of
from grader.judge.failure import WrongCall
from grader.judge.truth import Expected, KnownMistake, Truth
from grader.protocol.requests import Recipe

# A mistake is tested on this many passing cases.
_TESTED = 2
# The same, if several mistakes explain the failure.
_TO_TELL_APART = 6
# Share of the elements that the mistake must give; the others may be wrong for another reason.
_EXPLAINED_SHARE = 0.95
# The number of wrong elements that are compared first, and the share of them that the mistake must give. To compare
# all elements of a large output takes a hundred times as long.
_COMPARED_FIRST, _SHARE_OF_FIRST = 1024, 0.9
# The largest distance of a wrong element to the mistake's value, over its distance to the true value.
_NEARER = 0.25
# Rounding allowed around the mistake's exact values, in eps of the dtype and of the row's largest value.
_ROUNDINGS = 4.0
# Correlation of errors: of the same rounding, and of a similar one. By chance, it is below the third one / sqrt(n).
_VERY_ALIKE, _ALIKE, _BY_CHANCE = 0.9, 0.4, 3.0
# Ratios of the sizes of errors: nearly equal, about as large, and the limit beyond which they have different causes.
_SIMILAR, _AS_LARGE, _NO_OTHER = 0.45, 0.4, 0.1
# Errors on this many times fewer elements come from another rounding.
_AS_SPREAD = 0.2
# A mistake may change at most this many times the number of wrong elements.
_SPOILT = 2
# Of the rows in which a mistake gives NaN, at least this share must hold NaN.
_NAN_ROWS = 0.5
# Weight of a mistake that gives NaN in other rows as well.
_OTHER_ROWS = 0.4
# Weight of a mistake with which a wrong output would be right: there is another mistake, instead of it or beside it.
_RIGHT_THERE = 0.7
# Fewer rows than this do not tell factors of rows apart; and the weight of a rounding that gives such factors.
_TELLING_ROWS, _OF_ROWS = 8, 0.4
# More mistakes than this explain nothing.
_MOST_MISTAKES = 3


def mistakes_in(
    truth: Truth, part: Part, wrong_call: WrongCall, among: Collection[str] | None = None
) -> list[KnownMistake]:
    """Return up to _MOST_MISTAKES known mistakes, of different kinds, whose values the wrong call returned.

    among: the kinds to look for; None for all. Of one kind, a mistake that fits in every respect is preferred.
    """
    most = _MOST_MISTAKES if among is None else min(_MOST_MISTAKES, len(among))
    if not most:
        return []
    answers = [*wrong_call.answers()]
    for i, (got, wrong, output) in enumerate(answers):
        if bool(wrong.any()):
            found: dict[str, KnownMistake] = {}
            exact: set[str] = set()
            for one in truth.known_mistakes(part, wrong_call.recipe):
                wanted = one.kind not in exact and (among is None or one.kind in among)
                if wanted and _explains(one.outputs[i], got, wrong, output):
                    fits = torch.equal(one.outputs[i].isnan(), got.isnan()) and _spares(one.outputs, answers)
                    if fits:
                        exact.add(one.kind)
                    if fits or one.kind not in found:
                        found[one.kind] = one
                    if len(exact) == most:
                        break
            return [*found.values()][:most]
    return []


def shared_mistake(truth: Truth, part: Part, wrong_calls: Sequence[WrongCall], kind: str) -> KnownMistake | None:
    """Return the known mistake of a kind that gives the values of most wrong calls, the first of several; or None.

    Mistakes are told apart by their titles.
    """
    found: dict[str, KnownMistake] = {}
    given: Counter[str] = Counter()
    for wrong_call in wrong_calls:
        answers = [*wrong_call.answers()]
        known = (one for one in truth.known_mistakes(part, wrong_call.recipe) if one.kind == kind)
        explaining = {one.title: one for one in known if explains_all(one.outputs, answers)}
        given.update([*explaining])
        found = {**explaining, **found}
    return found[given.most_common(1)[0][0]] if given else None


def _spares(outputs: Sequence[torch.Tensor], answers: Sequence[tuple[torch.Tensor, torch.Tensor, Expected]]) -> bool:
    """Return whether every output that is right in the answers is right with the mistake too."""
    right = (place for place, (_, wrong, _) in enumerate(answers) if not bool(wrong.any()))
    return all(compare(outputs[i].to(answers[i][2].dtype), answers[i][2]).agrees for i in right if i < len(outputs))


def _leaves_right(
    outputs: Sequence[torch.Tensor], answers: Sequence[tuple[torch.Tensor, torch.Tensor, Expected]]
) -> bool:
    """Return whether an output that is wrong in the answers is right with the mistake."""
    return any(
        bool(wrong.any()) and compare(value.to(expected.dtype), expected).agrees
        for value, (_, wrong, expected) in zip(outputs, answers, strict=False)
    )


def explains_all(
    outputs: Sequence[torch.Tensor], answers: Sequence[tuple[torch.Tensor, torch.Tensor, Expected]]
) -> bool:
    """Return whether these outputs of a mistake explain every wrong output of a call, except for rounding.

    answers: those of WrongCall.answers.
    """
    same = len(answers) == len(outputs)
    return same and all(
        _explains(outputs[i], got, wrong, output) for i, (got, wrong, output) in enumerate(answers) if bool(wrong.any())
    )


def passing_like(bench: Bench, wrong_call: WrongCall | None, *, several: bool = False) -> Iterator[Recipe]:
    """Yield the few passing calls that are most like a failing one. A mistake that was made leaves them right.

    Large calls come last, and of equally similar calls the smallest comes first: the oracle computes each of them many
    times. Calls that launch none of the failing one's kernels prove nothing, and are left out. several: more of them,
    to distinguish several mistakes.
    """
    failing = wrong_call.recipe.case if wrong_call is not None else {}
    others = _by_other_kernels(bench, wrong_call)

    def unlikeness(case: Case) -> tuple[bool, int, int]:
        return case.volume > QUICK_VOLUME, sum(failing.get(name) != case[name] for name in case), case.volume

    telling = (one for one in bench.findings.tried if not one.failed and (one.case, one.seed) not in others)
    passing = sorted(telling, key=lambda one: unlikeness(one.case))
    for one in passing[: _TO_TELL_APART if several else _TESTED]:
        yield Recipe(bench.part.name, dict(one.case), one.seed)


def _by_other_kernels(bench: Bench, wrong_call: WrongCall | None) -> set[tuple[Case, int]]:
    """Return the cases and seeds of the calls that launched none of a wrong call's kernels."""
    own = {*kernels_of(wrong_call.outcome.answer.launches)} if wrong_call is not None else set()
    told = (one for one in bench.findings.evidence if one.kernels) if own else ()
    return {(one.case, one.seed) for one in told if own.isdisjoint(one.kernels)}


def changed_by(truth: Truth, part: Part, recipe: Recipe, kind: str, title: str) -> bool:
    """Return whether a known mistake would make a call wrong.

    The title may contain a number that another call does not have. Another mistake of the kind says nothing.
    """
    alike = [one for one in truth.known_mistakes(part, recipe) if one.kind == kind]
    numbered = [one for one in alike if _unnumbered(one.title) == _unnumbered(title)]
    same = [one for one in numbered if one.title == title] or numbered
    expected = truth.expect(part, recipe) if same else ()
    return bool(same) and not any(agree(one.outputs, expected) for one in same)


def _unnumbered(title: str) -> str:
    return re.sub(r"\d+", "", title)


def agree(outputs: Sequence[torch.Tensor], expected: Sequence[Expected]) -> bool:
    """Return whether a mistake's outputs, in the dtypes of a call's, are right for the call."""
    pairs = zip(outputs, expected, strict=True)
    return all(compare(value.to(right.dtype), right).agrees for value, right in pairs)


def _explains(value: torch.Tensor, got: torch.Tensor, wrong: torch.Tensor, output: Expected) -> bool:
    """Return whether the answer is that of the mistake, except for rounding.

    They must agree where the answer is wrong, and nearly everywhere else. A wrong element must also be nearer to the
    mistake than to the truth: small errors are near to both.
    """
    if not _may_explain(value, got, wrong, output):
        return False
    wide, truth = got.double(), output.value
    size = value.nan_to_num(0.0, 0.0, 0.0).abs()
    size = size.amax(-1, keepdim=True) if size.dim() else size
    allowed = torch.where(truth.isfinite(), output.allowed, 0.0)
    off = (wide - value).abs()
    # The error allowed at large true values must not make a small wrong value equal to 0.
    allowed = torch.minimum(allowed, _NEARER * torch.maximum(wide.abs(), value.abs()).nan_to_num(0.0))
    near = off <= allowed + _ROUNDINGS * torch.finfo(output.dtype).eps * size
    # Values that are not finite must match, with their sign.
    near |= (wide == value.to(output.dtype).double()) | (wide.isnan() & value.isnan())
    if bool(wide[wrong].isnan().all()) and not output.signed:
        # How far NaN spreads depends on the tiles. In a copy, it does not spread.
        near |= value.isnan()
        finite = ~(value.isnan() | wide.isnan())
        if not _has_nan_rows(value, got) or float(near[finite].double().mean()) < _EXPLAINED_SHARE:
            return False
    # A zero of the wrong sign equals the true value: no mistake in values explains it.
    nearer = near & (wide != truth) & ~(off > _NEARER * (wide - truth).abs())
    if not bool(nearer[wrong].double().mean() >= _EXPLAINED_SHARE) or not bool(
        near.double().mean() >= _EXPLAINED_SHARE
    ):
        return False
    # Small errors in a few elements are near to any mistake with larger errors.
    spoilt = int((compare(value.to(output.dtype), output).wrong & ~value.isnan()).sum())
    return spoilt <= _SPOILT * int(wrong.sum())


def _has_nan_rows(value: torch.Tensor, got: torch.Tensor) -> bool:
    """Return whether NaN is in most of the rows that have it with the mistake: it spreads along rows only."""
    if value.dim() < 2:
        return True
    rows = value.isnan().any(-1)
    return not bool(rows.any()) or float(got.isnan().any(-1)[rows].double().mean()) >= _NAN_ROWS


def _has_its_rows(value: torch.Tensor, got: torch.Tensor) -> bool:
    """Return whether NaN is in every row that has it with the mistake."""
    return value.dim() < 2 or not bool((value.isnan().any(-1) & ~got.isnan().any(-1)).any())


def _may_explain(value: torch.Tensor, got: torch.Tensor, wrong: torch.Tensor, output: Expected) -> bool:
    """Return whether the mistake gives most of a few wrong elements, as hardly any other mistake does."""
    marked = wrong.reshape(-1).nonzero()[:, 0]
    few = marked[:: max(1, len(marked) // _COMPARED_FIRST)]
    wide, mistaken = got.reshape(-1)[few].double(), value.reshape(-1)[few]
    allowed = output.allowed.reshape(-1)[few].nan_to_num(torch.inf)
    near = (wide - mistaken).abs() <= allowed + _ROUNDINGS * torch.finfo(output.dtype).eps * _largest(value)
    near |= (wide == mistaken.to(output.dtype).double()) | (wide.isnan() & mistaken.isnan())
    return bool(near.double().mean() >= _SHARE_OF_FIRST)


def _largest(value: torch.Tensor) -> float:
    """Return the largest magnitude of the finite elements; 0 if there are none."""
    largest = float(value.abs().amax()) if value.numel() else 0.0
    return largest if isfinite(largest) else float(value.nan_to_num(0.0, 0.0, 0.0).abs().amax())


def rounding_clues(truth: Truth, part: Part, wrong_call: WrongCall) -> list[Clue]:
    """Return kinds of too low a precision whose errors resemble those of a call."""
    found: dict[str, Clue] = {}
    for i, (got, wrong, output) in enumerate(wrong_call.answers()):
        if not bool(wrong.any()):
            continue
        if not bool(got[wrong].any()):
            # No rounding makes all wrong elements zeros.
            break
        factors = row_factors(got, output.value, output.allowed)
        of_rows = factors is not None and len(factors) < _TELLING_ROWS
        for kind, outputs in truth.roundings(part, wrong_call.recipe):
            clue = _alike(kind, _error(got, output.value), _error(outputs[i], output.value))
            if clue and clue.confirmed and of_rows:
                # Any two factors of rows have errors that look alike in a row.
                clue = replace(clue, weight=_OF_ROWS, confirmed=False)
            if clue and (kind not in found or clue.weight > found[kind].weight):
                found[kind] = clue
        break
    return list(found.values())


def _error(value: torch.Tensor, truth: torch.Tensor) -> torch.Tensor:
    """Return the errors of values; 0 where the same infinity, or NaN, is right."""
    wide = value.double()
    return (wide - truth).masked_fill((wide == truth) | (wide.isnan() & truth.isnan()), 0.0)


def _alike(kind: str, error: torch.Tensor, known: torch.Tensor) -> Clue | None:
    """Return a clue if the errors of an answer resemble those of a known rounding; else None."""
    finite = error.isfinite()
    # NaN, as in unwritten memory, is no infinity.
    if not torch.equal(finite, known.isfinite()) or not torch.equal(error.isnan(), known.isnan()):
        return None
    if not bool(finite.all()):
        # If no element is finite, many mistakes look alike.
        weight = 0.85 if bool(finite.any()) else 0.3
        return Clue(kind, weight, "The same elements overflow as with this mistake.")
    size, expected = float(error.norm()), float(known.norm())
    ratio = size / expected if expected else 0.0
    if not _NO_OTHER < ratio < 1 / _NO_OTHER:
        return None
    # The same rounding in another order may change the sign of the errors.
    alike = abs(float((error * known).sum())) / (size * expected)
    if alike > max(_ALIKE, _BY_CHANCE / error.numel() ** 0.5):
        if alike > _VERY_ALIKE and _SIMILAR < ratio < 1 / _SIMILAR:
            return sure(kind, "Element by element, the errors are those of this mistake.")
        return Clue(kind, 0.8, "The errors correlate with those of this mistake.")
    as_large = _AS_LARGE < ratio < 1 / _AS_LARGE and _spread(error) > _AS_SPREAD * _spread(known)
    return Clue(kind, 0.4, "The errors are as large as those of this mistake.") if as_large else None


def _spread(error: torch.Tensor) -> float:
    """Return how many elements share the error: 1 if all errors are equally large, near 0 if a few are much larger."""
    square = error.square() / error.square().amax()
    return float(square.sum() ** 2 / (error.numel() * square.square().sum()))


def mistake_clues(likely: Sequence[KnownMistake], wrong_call: WrongCall, *, untouched: bool = False) -> Iterator[Clue]:
    """Yield clues to mistakes that give these values.

    Zeros, NaN and infinities without a number, and unchanged memory (`untouched`) have many causes and weigh less.
    """
    answers = [*wrong_call.answers()]
    place, (got, wrong, _) = next((i, one) for i, one in enumerate(answers) if bool(one[1].any()))
    values = got[wrong]
    usual, what = 1.0, "values"
    if untouched:
        usual, what = 0.35, "unchanged values"
    elif not bool(got.any()):
        usual, what = 0.45, "zeros"
    elif bool(values.isnan().all()):
        usual, what = (0.3 if bool(got.isnan().all()) else 0.9), "NaN"
    elif bool(got.isinf().all()):
        usual, what = 0.3, "infinities"
    for one in likely:
        weight = min(usual, _OTHER_ROWS) if what == "NaN" and not _has_its_rows(one.outputs[place], got) else usual
        if _leaves_right(one.outputs, answers):
            weight = min(weight, _RIGHT_THERE)
        text = f"The {what} are those of this mistake." if weight == 1 else f"The {what} may come from this mistake."
        yield Clue(one.kind, weight, text, weight == 1, one.title, one.help, by_known_mistake=True)
