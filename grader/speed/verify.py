"""Compare timed samples with a baseline or the oracle, and write the verdicts on what is found."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from grader.exercise.cases import Case
from grader.exercise.model import Part
from grader.judge.compare import compare
from grader.judge.failure import Failure
from grader.judge.truth import Expected
from grader.phrases import listed
from grader.protocol.answers import Sampled
from grader.protocol.baseline_messages import Reveal, Revealed
from grader.protocol.requests import Recipe, Show
from grader.record.causes import Cause
from grader.sandbox.session import Session
from grader.speed.baseline_process import BaselineProcess
from grader.text import clean

# How far sums under random signs may differ, in parts of a piece's norm, before the oracle is asked. Roundings of
# bfloat16 make a thousandth; one missing or invented element in a hundred makes this.
_LOOSE = 0.05
# The oracle checks so many stretches of so many elements of every output; more of a doubtful one.
_STRETCHES, _DOUBTFUL_STRETCHES = (4, 1 << 16), (64, 1 << 18)
# How many operators or inputs a verdict names.
_MOST_NAMED = 5
_CHANCE = random.SystemRandom()


class CannotBeTimed(Exception):
    """The submission cannot be timed; `failure` is the verdict."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.cause.rationale)
        self.failure = failure


def are_alike(own: Sampled, other: Sampled) -> bool:
    """Return whether the outputs of two samples on the same inputs are about the same, in every piece."""
    lengths = [[len(one) for one in sums] for sums in (own.projections, own.scales, other.projections, other.scales)]
    if any(one != lengths[0] for one in lengths):
        return False
    pairs = (zip(_flatten(sums.projections), _flatten(sums.scales), strict=True) for sums in (own, other))
    return all(_is_near(mine, theirs) for mine, theirs in zip(*pairs, strict=True))


def _is_near(own: tuple[float, float], other: tuple[float, float]) -> bool:
    """Return whether a piece's (projection, scale) is near another's; a non-finite other decides nothing."""
    (mine, my_scale), (theirs, scale) = own, other
    return scale < 0 or (my_scale >= 0 and abs(mine - theirs) <= _LOOSE * scale)


def _flatten(pieces: Sequence[Sequence[float]]) -> list[float]:
    return [one for of_output in pieces for one in of_output]


def compare_with_oracle(
    replayer: Session, baseline_process: BaselineProcess, part: Part, case: Case, recipe: Recipe, *, whole: bool
) -> None:
    """Compare stretches of the latest sample's outputs with the truth of its inputs. Raises CannotBeTimed.

    whole: as many stretches as it takes to see all of an output, up to a bound; else of a portion drawn by chance.
    """
    chance = None if whole else _CHANCE.random()
    for place, name in enumerate((*part.outputs, *part.mutates)):
        about, *_ = baseline_process.reveal(Reveal(recipe, place, 0, 0, chance))
        dtype = _dtype_of(about)
        for first, count in _stretches(about.elements, whole=whole):
            raw = replayer.show(Show(place, (about.start + first) * dtype.itemsize, count * dtype.itemsize))
            if raw is None:
                raise CannotBeTimed(
                    _failure("wrong_form", "A timed call returned something else", case, f"{name} was missing")
                )
            _, values, allowed = baseline_process.reveal(Reveal(recipe, place, first, count, chance))
            got = torch.frombuffer(bytearray(raw), dtype=dtype)
            _require_true(got, name, dtype, values, allowed, case)


def _stretches(elements: int, *, whole: bool) -> Iterator[tuple[int, int]]:
    """Yield (first element, how many): from the start on where that shows everything, else drawn by chance."""
    most, longest = _DOUBTFUL_STRETCHES if whole else _STRETCHES
    count = min(elements, longest)
    if elements <= most * longest:
        starts = range(0, elements, max(count, 1))
        yield from ((first, min(count, elements - first)) for first in starts)
        return
    yield from ((_CHANCE.randrange(elements - count + 1), count) for _ in range(most))


def _dtype_of(form: Revealed) -> torch.dtype:
    found = getattr(torch, form.dtype)
    assert isinstance(found, torch.dtype)
    return found


def _require_true(got: Tensor, name: str, dtype: torch.dtype, values: bytes, allowed: bytes, case: Case) -> None:
    comparison = compare(got, Expected(name, _to_doubles(values), dtype, _to_doubles(allowed)))
    if not comparison.agrees:
        said = f"{int(comparison.wrong.sum())} of {got.numel()} elements looked at were outside the tolerance"
        raise CannotBeTimed(_failure("wrong_when_timed", "The answer was wrong while it was timed", case, said))


def _to_doubles(raw: bytes) -> Tensor:
    return torch.frombuffer(bytearray(raw), dtype=torch.float64) if raw else torch.empty(0, dtype=torch.float64)


# -- verdicts --------------------------------------------------------------------------------------------------------

_HELP = "Every timed call gets inputs of its own and must compute all of its output."


def at_size(case: Case, failure: Failure) -> Failure:
    """Return a failure with the timed size at which it occurred."""
    cause = failure.cause
    return replace(failure, cause=replace(cause, rationale=f"For {case.words()}, timed: {cause.rationale}"))


def computed_failure(case: Case, outside_work: Sequence[str]) -> Failure:
    """Return the verdict on a call at a timed size in which something else than kernels computes."""
    said = f"For {case.words()}, timed, these ran beside your kernels: {_first_names(outside_work)}."
    return _policy("library_call", "Something besides your kernels computed", said)


def no_launch_failure(case: Case) -> Failure:
    """Return the verdict on a call at a timed size that launches no kernel."""
    return _policy("no_kernel", "No kernel was launched", f"For {case.words()}, timed, none of yours ran.")


def changed_failure(case: Case, names: Sequence[str]) -> Failure:
    """Return the verdict on a call at a timed size that changes an input."""
    said = f"it changed {_first_names(names)}"
    return _failure("input_changed", "An input was changed", case, said)


def aliased_failure(case: Case, name: str) -> Failure:
    """Return the verdict on a call at a timed size that returns memory of its inputs."""
    return _failure(
        "alias", "The result lies in an argument's memory", case, f"it returned memory of {clean(name, 40)}"
    )


def hidden_note(claimed_us: float, hidden_us: float) -> str:
    """Return the note for a size at which the grader's own clock saw more time pass than the events say."""
    counted = claimed_us + hidden_us
    return f"the GPU's events say {claimed_us:.1f} µs, the grader's own clock at least {counted:.1f} µs: that counts"


def impossible_failure(case: Case, time_us: float, floor_us: float) -> Failure:
    """Return the verdict on a time that is less than the GPU needs to move the bytes and do the arithmetic."""
    return _policy(
        "impossible_time",
        "Faster than this GPU can be",
        f"For {case.words()} the call took {time_us:.1f} µs; moving the bytes and doing the arithmetic takes this GPU "
        f"at least {floor_us:.1f} µs.",
    )


def _first_names(names: Sequence[str]) -> str:
    return listed([clean(one, 80) for one in names], _MOST_NAMED)


def _failure(kind: str, title: str, case: Case, said: str) -> Failure:
    return Failure("fail", Cause(kind, title, f"For {case.words()} {said}.", _HELP))


def _policy(kind: str, title: str, rationale: str) -> Failure:
    return Failure("policy", Cause(kind, title, rationale, "What is timed must be what was judged."))
