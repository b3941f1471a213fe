"""One size of a suite: the submission and the baselines take turns in random order, on the same fresh inputs.

A round's seed is drawn when it begins. Before the next one is drawn, what the submission's call left behind is checked:
its sums are those of the bytes that it shows, the bytes agree with what a baseline made of the same inputs, and now and
then with the truth itself.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from time import monotonic
from typing import Literal

from grader.judge.causes import why_not_finished
from grader.model.cases import Case
from grader.model.exercise import Part
from grader.protocol.messages import Recipe, Revealed, Timed
from grader.sandbox.outcome import Clocking
from grader.sandbox.session import Session
from grader.speed import verify
from grader.speed.anchor import Anchor, AnchorFailed
from grader.speed.clock import Lap
from grader.speed.cores import apart
from grader.speed.verify import Glance, Refused, Shown

# The first call compiles, and may try dozens of configurations.
_FIRST_CALL_S = 180.0
_CALL_S = 20.0
_WARM_UPS = 2
# Calls that take seconds are not waited for as often.
_PATIENCE_S = 20.0
_FEWEST = 5
# What a baseline beside may take of the GPU's time at one size. One too slow for the fewest rounds is left out there.
_BESIDE_US = 1.5e6
# How often the truth is asked for: of several pieces at first, then now and then.
_GLANCES_AT_FIRST = 4
_STRICT_CHANCE = 0.03
_MOST_TRUE_ELEMENTS = 1 << 16
_ALONE_LAPS = 15
_HEATING_S = 1.5

# Seeds, orders and glances come from the operating system: nothing that a submission knows foretells them.
_CHANCE = random.SystemRandom()

Method = Literal["stream", "graph"]


@dataclass(frozen=True)
class Course:
    """What is raced over: a part at one size, by one method."""

    part: Part
    case: Case
    method: Method
    cover_bytes: int

    def recipe(self, seed: int) -> Recipe:
        """The inputs of a round."""
        return Recipe(self.part.name, dict(self.case), seed)

    def timed(self, function: str) -> Timed:
        """The request for one lap; the seed follows by itself."""
        part = self.part
        return Timed(function, self.recipe(0), part.arguments, part.mutates, self.method, self.cover_bytes)


@dataclass
class Laps:
    """All laps so far: the n-th ones of all contenders were run in one round, on the same inputs.

    dropped: baselines that failed, and why.
    """

    submission: list[Lap] = field(default_factory=list)
    baselines: dict[str, list[Lap]] = field(default_factory=dict)
    dropped: dict[str, str] = field(default_factory=dict)


class NotCapturable(Exception):
    """The submission's call cannot be captured as a CUDA graph."""


@dataclass
class Race:
    """The contenders on one course.

    path: the submission's file, for messages. baseline: what the points are measured against. beside: what is shown as
    well, for `beside_rounds` rounds. witness: the baseline whose results the submission's are compared with, if one of
    them computes what the part asks for. allowed_operators: the ATen operators that the part permits, or None where it
    asks for no technique.
    """

    course: Course
    session: Session
    anchor: Anchor
    path: str
    baseline: str
    beside: tuple[str, ...] = ()
    witness: str | None = None
    allowed_operators: tuple[str, ...] | None = None
    beside_rounds: int = 20
    laps: Laps = field(default_factory=Laps)
    _forms: tuple[Revealed, ...] = ()
    _before: Clocking | None = None
    # The time that baselines beside have had: each one's calls by its own clock, and all their laps by ours.
    _had_us: dict[str, list[float]] = field(default_factory=dict)
    _beside_s: float = 0.0

    def run(
        self, enough: Callable[[Laps, float], bool], *, least: int, most: int, budget_s: float, every: int = 10
    ) -> Laps:
        """Race until `enough` says so (asked after `least` rounds and every `every` from there, and told what share of
        the budget is spent), `most` rounds were run, or `budget_s` are over, of which those beside take nothing.
        Raises Refused, NotCapturable, or AnchorFailed for the baseline itself.
        """
        for i in range(_WARM_UPS):
            self._warm_up(glances=_GLANCES_AT_FIRST if i == 0 else 0)
        started, self._beside_s = monotonic(), 0.0
        with apart([pid for pid in (self.session.pid, self.anchor.pid) if pid]):
            for count in range(1, most + 1):
                self._round()
                spent_s = monotonic() - started - self._beside_s
                asked = count >= least and (count - least) % every == 0
                if asked and (spent_s > budget_s or enough(self.laps, spent_s / budget_s)):
                    break
                if count >= _FEWEST and spent_s > budget_s + _PATIENCE_S:
                    break
        return self.laps

    def _warm_up(self, glances: int) -> None:
        """One lap each that does not count; the submission's is compared with the truth."""
        seed = _CHANCE.getrandbits(62)
        if not self._forms:
            names = (*self.course.part.outputs, *self.course.part.mutates)
            self._forms = tuple(self.anchor.reveal(self.course.recipe(seed), i, 0, 0)[0] for i in range(len(names)))
        ran = self._submission_lap(seed, _FIRST_CALL_S)
        for _ in range(glances):
            self._check_truth(self._shown_by_submission(ran, _glance()), seed)
        for name in self._running():
            self._baseline_lap(name, seed)

    def _round(self) -> None:
        """One lap each, in random order, on the inputs of one new seed."""
        seed, glance = _CHANCE.getrandbits(62), _glance()
        order = ["", *self._running()]
        _CHANCE.shuffle(order)
        laps: dict[str, Lap] = {}
        covers: set[int] = set()
        shown: Shown | None = None
        witnessed: Shown | None = None
        for name in order:
            ran = self._baseline_lap(name, seed) if name else self._submission_lap(seed, _CALL_S)
            if ran is None:
                continue
            laps[name] = Lap(ran.answer.device_us, ran.outside_us, ran.answer.peak_bytes)
            covers.add(ran.sums[-1])
            if not name:
                shown = self._shown_by_submission(ran, glance)
            elif name == self.witness:
                piece, _ = glance.piece(self._forms)
                form = ran.answer.outputs[piece.output]
                witnessed = Shown(piece, Revealed(form.dtype, form.shape), self.anchor.open(piece))
        assert shown is not None
        if len(covers) > 1:
            raise Refused(verify.tampered())
        if witnessed is not None and not verify.resembles(shown, witnessed):
            # Near zero two honest sums may look unlike; the truth knows how far they may lie.
            self._check_truth(shown, seed)
        if _CHANCE.random() < _STRICT_CHANCE:
            self._check_truth(shown, seed)
        self.laps.submission.append(laps.pop(""))
        for name, lap in laps.items():
            self.laps.baselines.setdefault(name, []).append(lap)

    def _running(self) -> list[str]:
        """The baselines that take part in the next round."""
        names = dict.fromkeys((self.baseline, *([self.witness] if self.witness else []), *self.beside))
        return [name for name in names if name not in self.laps.dropped and not self._has_had_its_time(name)]

    def _is_beside(self, name: str) -> bool:
        """Whether a baseline is shown only: neither the one that counts nor the witness."""
        return name not in (self.baseline, self.witness)

    def _has_had_its_time(self, name: str) -> bool:
        """Whether a baseline beside ran often enough, or takes too long to run a few times."""
        if not self._is_beside(name):
            return False
        had_us = self._had_us.get(name, [])
        count = len(self.laps.baselines.get(name, []))
        # A first lap may have been spent on compiling.
        too_slow = len(had_us) >= _WARM_UPS and min(had_us) * _FEWEST > _BESIDE_US
        return count >= self.beside_rounds or too_slow or (count >= _FEWEST and sum(had_us[_WARM_UPS:]) > _BESIDE_US)

    def _baseline_lap(self, name: str, seed: int) -> Clocking | None:
        started = monotonic()
        try:
            with self.session.frozen():
                ran = self.anchor.timed(self.course.timed(name), seed)
        except AnchorFailed as failed:
            if name == self.baseline:
                raise
            self.laps.dropped[name] = str(failed)
            return None
        if self._is_beside(name):
            self._had_us.setdefault(name, []).append(ran.answer.device_us)
            self._beside_s += monotonic() - started
        return ran

    def _submission_lap(self, seed: int, limit_s: float) -> Clocking:
        course = self.course
        ran = self.session.timed(course.timed(course.part.name), seed, limit_s)
        if not isinstance(ran, Clocking):
            if course.method == "graph":
                # What a failed capture leaves behind is no place to go on in.
                self.session.restart()
                raise NotCapturable
            raise Refused(why_not_finished(ran, self.path))
        verify.has_form(ran, self._forms)
        if self.allowed_operators is not None and course.method == "stream":
            verify.used_technique(ran.answer, self.allowed_operators, course.case)
        verify.is_fresh(ran, self._before, course.case)
        self._before = ran
        return ran

    def _shown_by_submission(self, ran: Clocking, glance: Glance) -> Shown:
        piece, place = glance.piece(self._forms)
        raw = self.session.open(piece)
        verify.kept_its_word(ran, self._forms, piece, place, raw, self.course.case)
        return Shown(piece, self._forms[piece.output], raw or b"")

    def _check_truth(self, shown: Shown, seed: int) -> None:
        """Some of the elements shown lie within the tolerances that answers are judged by."""
        dtype = verify.dtype_of(shown.form)
        elements = shown.elements()
        count = min(elements.numel(), _MOST_TRUE_ELEMENTS)
        skipped = _CHANCE.randrange(elements.numel() - count + 1)
        first = shown.piece.first // dtype.itemsize + skipped
        _, values, allowed = self.anchor.reveal(self.course.recipe(seed), shown.piece.output, first, count)
        name = (*self.course.part.outputs, *self.course.part.mutates)[shown.piece.output]
        verify.is_true(elements[skipped : skipped + count], name, dtype, values, allowed, self.course.case)


def alone(course: Course, anchor: Anchor, baseline: str) -> list[float]:
    """The baseline's times in microseconds when it runs by itself, with no process of a submission left."""
    laps = [anchor.timed(course.timed(baseline), _CHANCE.getrandbits(62)) for _ in range(_WARM_UPS + _ALONE_LAPS)]
    return [ran.answer.device_us for ran in laps[_WARM_UPS:]]


def heat(course: Course, anchor: Anchor, baseline: str) -> None:
    """Run the baseline by itself until the GPU is as warm as it was in the race."""
    started = monotonic()
    while monotonic() - started < _HEATING_S:
        anchor.timed(course.timed(baseline), _CHANCE.getrandbits(62))


def _glance() -> Glance:
    return Glance(_CHANCE.random(), _CHANCE.random())
