"""Recognises usual mistakes: wrong values that are just what a mistake foreseen by the oracle leads to."""

from __future__ import annotations

from dataclasses import replace

import torch

from grader.judge.bench import Bench, Trial
from grader.judge.causes import Failure
from grader.judge.compare import compare, tensor_of
from grader.judge.truth import Expected, Foreseen
from grader.sandbox.outcome import Finished

# So many of the elements must be what the mistake gives; the others may be wrong for a reason of their own.
_SHARE = 0.95
# How much nearer to the mistake's value than to the true one a wrong element must lie.
_NEARER = 0.25
# How far from the mistake's exact values its rounding may lie, in eps of the dtype and of the row's largest value.
_ROUNDINGS = 4.0
# More than two causes are none.
_MOST = 2
_SPECIFIC = frozenset({"zeros", "copy_of_input"})


def recognised(bench: Bench, trial: Trial) -> list[Foreseen]:
    """The foreseen mistakes whose values a call returned where its answer is wrong, at most two."""
    wrong_values = trial.failure is not None and trial.failure.cause.mismatch is not None
    if not isinstance(trial.outcome, Finished) or not wrong_values:
        return []
    for i, (raw, output) in enumerate(zip(trial.outcome.outputs, trial.expected, strict=True)):
        if raw is None:
            return []
        compared = compare(tensor_of(raw, output), output)
        if not compared.agrees:
            likely = (
                one
                for one in bench.truth.foreseen(bench.part, trial.recipe)
                if _explains(one.outputs[i], compared.got, compared.wrong, output)
            )
            return [one for one, _ in zip(likely, range(_MOST), strict=False)]
    return []


def _explains(value: torch.Tensor, got: torch.Tensor, wrong: torch.Tensor, output: Expected) -> bool:
    """Whether the answer is the mistake's, but for rounding: where it is wrong, and nearly everywhere else as well.

    A wrong element must also lie nearer to the mistake than to the truth: small errors are near to either.
    """
    wide, truth = got.double(), output.value
    size = value.nan_to_num(0.0, 0.0, 0.0).abs()
    size = size.amax(-1, keepdim=True) if size.dim() else size
    allowed = torch.where(truth.isfinite(), output.allowed, 0.0)
    off = (wide - value).abs()
    near = off <= allowed + _ROUNDINGS * torch.finfo(output.dtype).eps * size
    # What is not finite must be so in both, and with the same sign.
    near |= (wide == value.to(output.dtype).double()) | (wide.isnan() & value.isnan())
    nearer = near & ~(off > _NEARER * (wide - truth).abs())
    return bool(nearer[wrong].double().mean() >= _SHARE) and bool(near.double().mean() >= _SHARE)


def explained(failure: Failure, likely: list[Foreseen]) -> Failure:
    """The failure with the mistakes that it looks like in place of what its pattern alone suggests."""
    cause = failure.cause
    if not likely or cause.mismatch is None or cause.kind in _SPECIFIC:
        return failure
    others = [f"Or: {one.title[0].lower()}{one.title[1:]}. {one.help}" for one in likely[1:]]
    if cause.kind == "unwritten":
        others.append(f"Or: {cause.title[0].lower()}{cause.title[1:]}. {cause.help}")
    help_text = " ".join([likely[0].help, *others])
    return replace(failure, cause=replace(cause, kind="likely_mistake", title=likely[0].title, help=help_text))
