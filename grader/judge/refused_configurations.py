"""Remember which configurations of autotuned kernels an autotuner would pass over, and why."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from grader.judge.trial import Trial
from grader.protocol.answers import PASSED_OVER, Raised
from grader.sandbox.outcome import Finished, Outcome
from grader.sandbox.pair import RecordedAnswer


class _Configuration(NamedTuple):
    """One configuration of a part's autotuned kernels that was tried.

    total: number of configurations. was_right: whether its answer was right; it may be wrong for another case.
    """

    part: str
    total: int
    place: int
    was_right: bool


class RefusedConfigurations:
    """The configurations that a compiler was asked about.

    refusal: returns why the GPU that a call is meant for refuses a configuration; "" if it takes it.
    """

    def __init__(self, refusal: Callable[[RecordedAnswer, int], str]) -> None:
        self._refusal = refusal
        self._reasons: dict[_Configuration, str] = {}

    def wrong_ones(self, part: str, count: int) -> Mapping[int, str]:
        """Return the refused configurations that were wrong in the interpreter, with reasons."""
        return {
            one.place: why
            for one, why in self._reasons.items()
            if why and not one.was_right and (one.part, one.total) == (part, count)
        }

    def forget_wrong_ones(self, part: str, count: int) -> None:
        """Count their failures again: all configurations are refused."""
        for place in self.wrong_ones(part, count):
            del self._reasons[_Configuration(part, count, place, was_right=False)]

    def is_taken(self, part: str, count: int, place: int) -> bool:
        """Return whether the GPU is known to take a configuration that was wrong."""
        return self._reasons.get(_Configuration(part, count, place, was_right=False)) == ""

    def why(self, recorded: RecordedAnswer, place: int, outcome: Outcome) -> str:
        """Return why an autotuner passes over a configuration that was wrong; "" if it does not."""
        if isinstance(outcome, Raised) and outcome.kind in PASSED_OVER:
            return outcome.message.partition("\n")[0][:200] or outcome.kind
        if isinstance(outcome, Finished | Raised):
            return self._ask(recorded, place, was_right=False)
        return self._reasons.get(_key(recorded, place, was_right=False), "")

    def fits(self, trial: Trial) -> bool:
        """Return whether the GPU takes the configuration of a call that was right in the interpreter."""
        recorded, place = trial.recorded, trial.configuration
        return recorded is None or place < 0 or not self._ask(recorded, place, was_right=True)

    def _ask(self, recorded: RecordedAnswer, place: int, *, was_right: bool) -> str:
        key = _key(recorded, place, was_right=was_right)
        if key not in self._reasons:
            self._reasons[key] = self._refusal(recorded, place)
        return self._reasons[key]


def _key(recorded: RecordedAnswer, place: int, *, was_right: bool) -> _Configuration:
    return _Configuration(recorded.call.recipe.part, recorded.configurations, place, was_right)
