"""Time one case in interleaved rounds: the submission's replay and the baselines take turns in random order.

A round has a seed of its own, drawn when it begins; every contender gets the inputs of that seed. In every round sums
of the submission's outputs, under random signs, are compared with those of a baseline. In one round, drawn by chance
before the first, stretches of the outputs are compared with the oracle.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import monotonic, perf_counter
from typing import NoReturn

from grader.exercise.cases import Case
from grader.exercise.model import Part
from grader.judge.unanswered import why_not_finished
from grader.protocol.answers import COMPUTED, UNRECORDABLE, Prepared, Raised, Sampled, TunedChoice
from grader.protocol.baseline_messages import PrepareBaseline
from grader.protocol.requests import Method, Prepare, Recipe, Sample
from grader.sandbox.pair import RecordedAnswer
from grader.sandbox.session import Session
from grader.speed import verify
from grader.speed.baseline_process import BaselineProcess, BaselineProcessFailed
from grader.speed.cores import separate_cores
from grader.speed.verify import CannotBeTimed
from grader.text import clean
from grader.timeline import spent

# Tuning runs every configuration several times; compiling is not counted.
_PREPARE_S = 180.0
_SAMPLE_S = 20.0
_WARM_UPS = 2
# After the least number of rounds, check after every so many rounds whether they are enough.
_EVERY = 5
# If samples take seconds, fewer rounds are enough: so many seconds beyond the budget, and so many rounds.
_PATIENCE_S = 20.0
_FEWEST = 5
# Limits for a baseline that is only shown: most rounds, least rounds, GPU time at one size.
_BESIDE_ROUNDS = 8
_BESIDE_LEAST = 3
_BESIDE_US = 3e4

# Seeds, orders and the round that the oracle checks come from the operating system: nothing can predict them.
_CHANCE = random.SystemRandom()


@dataclass(frozen=True)
class TimedCase:
    """A part at one size, timed by one method. traces: the submission's recorded calls there (grader.sandbox.pair)."""

    part: Part
    case: Case
    method: Method
    cover_bytes: int
    traces: tuple[RecordedAnswer, ...]

    def recipe(self, seed: int) -> Recipe:
        """Return the inputs of a round."""
        return Recipe(self.part.name, dict(self.case), seed)

    def prepare(self) -> Prepare:
        """Return the first message to the replayer."""
        call = self.part.call(self.recipe(0))
        traces = tuple(recorded.message for recorded in self.traces)
        untried = tuple(sorted(self.traces[-1].untried))
        return Prepare(call, traces, self.method, self.cover_bytes, untried)

    def prepare_baseline(self, name: str) -> PrepareBaseline:
        """Return the first message to the baseline process about this case."""
        part = self.part
        return PrepareBaseline(name, self.recipe(0), part.arguments, part.mutates, self.method, self.cover_bytes)


@dataclass(frozen=True)
class TimingSample:
    """One sample: microseconds on the device, and around it by the grader's own clock; and the most memory held."""

    device_us: float
    outside_us: float
    peak_bytes: int = -1


@dataclass
class Samples:
    """All samples so far: the n-th ones of all contenders were taken in one round, on the same inputs.

    dropped: baselines that failed, and why. choices: what the submission's autotuners chose.
    """

    submission: list[TimingSample] = field(default_factory=list)
    baselines: dict[str, list[TimingSample]] = field(default_factory=dict)
    dropped: dict[str, str] = field(default_factory=dict)
    choices: tuple[TunedChoice, ...] = ()


class NotCapturable(Exception):
    """The launches cannot be captured as a CUDA graph."""


class Untimed(Exception):
    """A recorded call cannot be replayed, which is not the submission's fault; the message says why."""


class Exposed(Exception):
    """The device waited for the host: the launches take longer than the cover."""


@dataclass
class Rounds:
    """The contenders at one size.

    path: the submission's file, for messages. baseline: the one that decides the points. beside: those that are shown
    as well. witness: the baseline whose outputs are compared with the submission's, if one computes what the part asks
    for.
    """

    timed: TimedCase
    replayer: Session
    baseline_process: BaselineProcess
    path: str
    baseline: str
    beside: tuple[str, ...] = ()
    witness: str | None = None
    samples: Samples = field(default_factory=Samples)

    def run(
        self,
        enough: Callable[[Samples], bool],
        *,
        least: int,
        most: int,
        budget_s: float,
        hidden: bool = True,
    ) -> Samples:
        """Take samples until there are enough, or until the budget is spent.

        hidden: a stream's launches must hide behind the cover; Exposed is raised if they do not in all warm-ups, or in
        most rounds. Raises CannotBeTimed, Untimed, NotCapturable, and BaselineProcessFailed.
        """
        must_hide = hidden and self.timed.method == "stream" and self.replayer.runs_on_gpu
        # Before cores are divided: a baseline may compile for minutes, on all of them.
        with spent("prepare what is timed, and its baselines"):
            self._prepare()
        with separate_cores([pid for pid in (self.replayer.pid, self.baseline_process.pid) if pid]):
            exposed = sum(self._take_round(self._needed_baselines(), counts=False) for _ in range(_WARM_UPS))
            if exposed == _WARM_UPS and must_hide:
                raise Exposed
            exposed = 0
            started, looked_at = monotonic(), _CHANCE.randrange(least)
            for count in range(most):
                exposed += self._take_round(self._running_baselines(), looked_at=count == looked_at)
                spent_s = monotonic() - started
                may_stop = count + 1 >= least and (count + 1 - least) % _EVERY == 0
                if may_stop and must_hide and 2 * exposed > count + 1:
                    # Warm-ups are slow for other reasons, too. A median of such rounds is the host's time.
                    raise Exposed
                if may_stop and (spent_s > budget_s or enough(self.samples)):
                    break
                if count + 1 >= max(_FEWEST, looked_at + 1) and spent_s > budget_s + _PATIENCE_S:
                    break
        return self.samples

    def _prepare(self) -> None:
        prepared = self.replayer.prepare(self.timed.prepare(), _PREPARE_S)
        if not isinstance(prepared, Prepared):
            self._raise_for(prepared)
        self.samples.choices = prepared.choices
        for name in self._baselines_left():
            try:
                self.baseline_process.prepare(self.timed.prepare_baseline(name))
            except BaselineProcessFailed as failed:
                self._drop_baseline(name, failed)

    def _raise_for(self, outcome: object) -> NoReturn:
        if self.timed.method == "graph":
            # Do not continue in the state that a failed capture leaves.
            self.replayer.restart()
            raise NotCapturable
        if isinstance(outcome, Raised) and outcome.kind == UNRECORDABLE:
            raise Untimed(clean(outcome.message, 300))
        if isinstance(outcome, Raised) and outcome.kind == COMPUTED:
            raise CannotBeTimed(verify.computed_failure(self.timed.case, (outcome.message,)))
        failure = why_not_finished(outcome, self.path)  # type: ignore[arg-type]
        raise CannotBeTimed(verify.at_size(self.timed.case, failure))

    def _drop_baseline(self, name: str, failed: BaselineProcessFailed) -> None:
        if name == self.baseline:
            if self.timed.method == "graph" and self.baseline_process.is_running:
                raise NotCapturable from failed
            raise failed
        self.samples.dropped[name] = str(failed)

    def _baselines_left(self) -> list[str]:
        """Return the baselines that are left."""
        names = dict.fromkeys((self.baseline, *([self.witness] if self.witness else []), *self.beside))
        return [name for name in names if name not in self.samples.dropped]

    def _needed_baselines(self) -> list[str]:
        """Return the baselines that the verdict needs."""
        return [name for name in self._baselines_left() if name in (self.baseline, self.witness)]

    def _running_baselines(self) -> list[str]:
        """Return the baselines that take part in the next round."""
        return [name for name in self._baselines_left() if not self._has_had_its_time(name)]

    def _has_had_its_time(self, name: str) -> bool:
        """Return whether a baseline that is only shown ran often enough, or long enough."""
        if name in (self.baseline, self.witness):
            return False
        had_us = [timing.device_us for timing in self.samples.baselines.get(name, [])]
        return len(had_us) >= _BESIDE_ROUNDS or (len(had_us) >= _BESIDE_LEAST and sum(had_us) > _BESIDE_US)

    def _take_round(self, baselines: Sequence[str], *, counts: bool = True, looked_at: bool = False) -> bool:
        """Take one sample of each in random order; return whether the device waited for the host.

        Only the submission and the deciding baseline count for that.
        """
        seed = _CHANCE.getrandbits(62)
        order = ["", *baselines]
        _CHANCE.shuffle(order)
        taken: dict[str, tuple[TimingSample, Sampled]] = {}
        for name in order:
            started = perf_counter()
            with spent("samples of baselines" if name else "samples of the submission"):
                sampled = (
                    self._sample_baseline(name, seed) if name else self._sample_submission(seed, examines=looked_at)
                )
            if sampled is not None:
                outside_us = (perf_counter() - started) * 1e6
                taken[name] = TimingSample(sampled.device_us, outside_us, sampled.peak_bytes), sampled
        self._verify(seed, taken, looked_at=looked_at)
        if counts:
            for name, (timing, _) in taken.items():
                (self.samples.baselines.setdefault(name, []) if name else self.samples.submission).append(timing)
        return any(taken[name][1].exposed for name in ("", self.baseline))

    def _sample_submission(self, seed: int, *, examines: bool) -> Sampled:
        sampled = self.replayer.sample(Sample(seed, examines=examines), _SAMPLE_S)
        if not isinstance(sampled, Sampled):
            self._raise_for(sampled)
        return sampled

    def _sample_baseline(self, name: str, seed: int) -> Sampled | None:
        try:
            return self.baseline_process.sample(Sample(seed, name))
        except BaselineProcessFailed as failed:
            self._drop_baseline(name, failed)
            return None

    def _verify(self, seed: int, taken: dict[str, tuple[TimingSample, Sampled]], *, looked_at: bool) -> None:
        """Compare the submission's outputs with a baseline's, or with the oracle. Raises CannotBeTimed."""
        own = taken[""][1]
        if own.changed:
            raise CannotBeTimed(verify.changed_failure(self.timed.case, own.changed))
        alike = verify.are_alike(own, taken[self.witness][1]) if self.witness in taken else True
        if looked_at or not alike:
            with spent("compare a timed sample with the oracle"):
                verify.compare_with_oracle(
                    self.replayer,
                    self.baseline_process,
                    self.timed.part,
                    self.timed.case,
                    self.timed.recipe(seed),
                    whole=not alike,
                )
