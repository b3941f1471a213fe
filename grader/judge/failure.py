"""A failure of a call: its status, its cause in words for the learner, clues, and the call with its wrong answer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import isfinite

from torch import Tensor

from grader.judge.clue import Clue
from grader.judge.compare import compare, tensor_of
from grader.judge.truth import Expected
from grader.protocol.requests import Recipe
from grader.record.causes import Cause
from grader.record.statuses import UNJUDGED, Status
from grader.sandbox.outcome import Finished

# Errors of rounding stay below this share of the values.
_SLIGHT = 0.05
# With more wrong values, the search for causes takes seconds.
_MOST_VALUES = 1 << 18
# Statuses that need no explanation: the learner did nothing wrong, or nothing yet.
NO_CAUSE = (*UNJUDGED, "not_implemented", "invalid_submission", "skipped_dependency")


@dataclass(frozen=True, eq=False)
class WrongCall:
    """A call with a wrong answer, and its expected outputs."""

    recipe: Recipe
    outcome: Finished
    expected: tuple[Expected, ...]

    @property
    def is_large(self) -> bool:
        """Return whether the outputs are so large that the search for causes takes seconds."""
        return sum(output.value.numel() for output in self.expected) > _MOST_VALUES

    def answers(self) -> Iterator[tuple[Tensor, Tensor, Expected]]:
        """Yield every output that came back: its values, the marks of wrong ones, and the expected output."""
        for raw, output in zip(self.outcome.outputs, self.expected, strict=False):
            if raw is not None:
                compared = compare(tensor_of(raw, output), output)
                yield compared.got, compared.wrong, output


@dataclass(frozen=True)
class Failure:
    """A status other than pass, with its cause.

    clues: point to possible causes. wrong_call: the call, if it answered. lead, advice: words before a suspect's title
    and help.
    """

    status: Status
    cause: Cause
    clues: tuple[Clue, ...] = field(default=(), compare=False)
    wrong_call: WrongCall | None = field(default=None, compare=False, repr=False)
    lead: str = field(default="", compare=False)
    advice: str = field(default="", compare=False)

    @property
    def is_slight(self) -> bool:
        """The largest error is small beside the values around it, as rounding makes it."""
        wrong = self.cause.mismatch
        if wrong is None:
            return False
        expected = [abs(float(one.expected)) for one in wrong.first]
        return float(wrong.max_abs) <= _SLIGHT * max(filter(isfinite, expected), default=0.0)
