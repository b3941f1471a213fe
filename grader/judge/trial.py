"""Hold the request of one call, and its result."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Literal

from grader.exercise.cases import Case
from grader.exercise.model import Part
from grader.judge.failures import Failure
from grader.judge.truth import Expected
from grader.protocol.configurations import Configurations
from grader.protocol.messages import ANY, LaunchInfo, Recipe, Wanted
from grader.sandbox.outcome import Finished, Outcome
from grader.sandbox.pair import RecordedAnswer


class NotRunHere(Exception):
    """Raised for a call that only a GPU can run. The message names what in it needs the GPU."""


@dataclass(frozen=True)
class TriedCase:
    """A case that ran, with the seed of its inputs, and whether it failed."""

    case: Case
    failed: bool
    seed: int = 0


@dataclass(frozen=True)
class CallRequest:
    """A call to make.

    seed, patch_seed: as planned. carries: arguments that stay as the previous call left them. part: the part to call
    (None: that of the bench). wanted: configurations of autotuned kernels; without places, all that are not skipped.
    instructions: count element-wise operations in the interpreter. may_be_left_out: a call with too many programs for
    the interpreter gives a trial with `left_out` instead of raising NotRunHere. is_further: if this chained call
    repeats an earlier one in memory of its own, it gives no trial.
    """

    case: Case
    seed: int
    patch_seed: int | None = None
    storage: Literal["new", "same"] = "new"
    carries: tuple[str, ...] = ()
    part: Part | None = None
    wanted: Wanted = ANY
    instructions: bool = False
    may_be_left_out: bool = False
    is_further: bool = False

    @property
    def is_plain(self) -> bool:
        """The call does not depend on another call."""
        return self.patch_seed is None and self.storage == "new" and not self.carries


@dataclass(frozen=True)
class Trial:
    """One call and its failure (None: it is right).

    worst: its largest error in units of the allowed one. untold: what could not be recorded; the values then come from
    a call in the submission's own process. recorded: the recorded answer. tuning: configurations of its autotuned
    launches. left_out: why the call was not finished and nothing is judged by it.
    """

    recipe: Recipe
    outcome: Outcome
    expected: tuple[Expected, ...]
    failure: Failure | None
    worst: float
    untold: tuple[str, ...] = ()
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
