"""Hold the request of one call, and its result."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, replace
from typing import Literal

from grader.exercise.cases import Case, Value
from grader.exercise.model import Part
from grader.judge.failure import Failure
from grader.judge.truth import Expected
from grader.protocol.configurations import Configurations
from grader.protocol.observations import LaunchInfo
from grader.protocol.requests import ANY, Call, Counts, Recipe, Slot, Wanted
from grader.sandbox.outcome import Finished, Outcome
from grader.sandbox.pair import RecordedAnswer


class NotRunHere(Exception):
    """Raised for a call that only a GPU can run. The message names what in it needs the GPU."""


@dataclass(frozen=True)
class TriedCase:
    """A case that ran, with the seed of its inputs, and whether it failed. slightly: as rounding makes it."""

    case: Case
    failed: bool
    seed: int = 0
    slightly: bool = False

    @classmethod
    def of(cls, case: Case, seed: int, failure: Failure | None) -> TriedCase:
        """Return a case that ran with this failure, or with none."""
        return cls(case, failure is not None, seed, failure is not None and failure.is_slight)


@dataclass(frozen=True)
class CallRequest:
    """A call to make: the part, the case, and the planned seeds of its inputs.

    seed, patch_seed: as planned. carries: arguments that stay as the previous call left them. wanted: configurations of
    autotuned kernels; without places, all that are not skipped. counts: of each launch in the interpreter.
    may_be_left_out: a call with too many programs for the interpreter gives a trial with `left_out`
    instead of raising NotRunHere. is_further: if this chained call repeats an earlier one in memory of its own, it
    gives no trial.
    """

    part: Part
    case: Case
    seed: int
    patch_seed: int | None = None
    storage: Literal["new", "same"] = "new"
    carries: tuple[str, ...] = ()
    wanted: Wanted = ANY
    counts: Counts = "bytes"
    may_be_left_out: bool = False
    is_further: bool = False

    @property
    def is_plain(self) -> bool:
        """The call does not depend on another call."""
        return self.patch_seed is None and self.storage == "new" and not self.carries

    @property
    def recipe(self) -> Recipe:
        """The recipe of the inputs, with the planned seeds."""
        return Recipe(self.part.name, dict(self.case), self.seed, self.patch_seed)

    def call(self, recipe: Recipe, slots: tuple[Slot, ...] = ()) -> Call:
        """Return the call on the inputs of a recipe. slots: room for its outputs."""
        call = self.part.call(recipe)
        defaults = omitted_arguments(self.part, recipe)
        return replace(call, slots=slots, storage=self.storage, carries=self.carries, defaults=defaults)


def repeating(part: Part, recipe: Recipe, wanted: Wanted = ANY) -> CallRequest:
    """Return the request of an earlier call."""
    return CallRequest(part, Case(recipe.case), recipe.seed, wanted=wanted)


@dataclass(frozen=True)
class Trial:
    """One call and its failure (None: it is right).

    worst: its largest error in units of the allowed one. unrecordable: what could not be recorded; the values then
    come from a call in the submission's own process. recorded: the recorded answer. tuning: configurations of its
    autotuned launches. left_out: why the call was not finished and nothing is judged by it.
    """

    recipe: Recipe
    outcome: Outcome
    expected: tuple[Expected, ...]
    failure: Failure | None
    worst: float
    unrecordable: tuple[str, ...] = ()
    recorded: RecordedAnswer | None = None
    tuning: tuple[Configurations, ...] = ()
    left_out: str = ""

    @property
    def configuration(self) -> int:
        """Index of the configuration that the first autotuner took; -1 without autotuner."""
        taken = self.outcome.answer.configuration if isinstance(self.outcome, Finished) else -1
        return taken if 0 <= taken < self.configurations else -1

    @property
    def configurations(self) -> int:
        """Number of configurations of the largest autotuner; 0 where nothing is autotuned."""
        return max((len(one.words) for one in self.tuning), default=0)

    @property
    def kept(self) -> range:
        """Places of the configurations that an autotuner has from an earlier call alone."""
        count = self.configurations
        return range(count - self.recorded.kept if self.recorded else count, count)

    @property
    def launches(self) -> tuple[LaunchInfo, ...]:
        """Kernels that the call launched."""
        return self.outcome.answer.launches if isinstance(self.outcome, Finished) else ()


def number_of(case: Case, about: str = "configuration") -> int:
    """Return a number that depends only on a case and on the subject of the choice."""
    return zlib.crc32(f"{about}: {case.words()}".encode())


def omitted_arguments(part: Part, recipe: Recipe) -> dict[str, Value | None]:
    """Return the last arguments that a call leaves out if they have these values: none, one, … or all.

    The case decides, not the seed: the same case is always called in the same way.
    """
    if not part.defaults:
        return {}
    count = number_of(Case(recipe.case), part.name) % (len(part.defaults) + 1)
    return dict([*part.defaults.items()][len(part.defaults) - count :])
