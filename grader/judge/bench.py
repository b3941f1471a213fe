"""Have the calls of one part recorded, and replayed and examined in the order that their memory allows.

request -> recorded on decoys -> seed -> replayed on the true inputs -> compared with the oracle

Takes requests and gives trials: the examiner replays and judges each. It decides no check: the rules do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial

import torch

from grader.exercise.cases import Case
from grader.exercise.model import Part
from grader.judge.configuration_choice import ConfigurationChoice
from grader.judge.distinct_inputs import draw_distinct
from grader.judge.examination import Examiner
from grader.judge.oracle_prefetch import OraclePrefetch
from grader.judge.part_findings import PartFindings
from grader.judge.prepared_call import PreparedCall, Recording
from grader.judge.refused_configurations import RefusedConfigurations
from grader.judge.trial import CallRequest, Trial, repeating
from grader.judge.truth import Truth
from grader.protocol.answers import Raised
from grader.protocol.requests import ANY, Counts, Recipe, Slot, Wanted
from grader.protocol.trace import fingerprint
from grader.sandbox.outcome import Outcome, OutOfTime
from grader.sandbox.pair import Pair, RecordedAnswer, decoys_of, seeds_after
from grader.sandbox.side_by_side import SideBySide


@dataclass
class Bench:
    """One part of one submission: its processes, and the truth.

    salt: derived from the submission's text; makes planned seeds into the seeds that count. findings: what the calls
    have shown. most_s: time that all calls may take together. interpreter: a pair that interprets, where `pair` does
    not. refusal: says why the GPU that a call is meant for refuses a configuration. first_failure: a comparison of
    values ends with its first failing case.
    """

    pair: Pair
    truth: Truth
    part: Part
    path: str
    device: str
    salt: str
    prefetch: OraclePrefetch
    findings: PartFindings = field(default_factory=PartFindings)
    most_s: float = math.inf
    interpreter: Pair | None = None
    refusal: Callable[[RecordedAnswer, int], str] = lambda recorded, place: ""
    first_failure: bool = False
    refused: RefusedConfigurations = field(init=False)
    _choice: ConfigurationChoice = field(init=False)
    _examiner: Examiner = field(init=False)
    _stopped: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        self.refused = RefusedConfigurations(self.refusal)
        interprets = self.interpreter is None and self.device == "cpu"
        self._choice = ConfigurationChoice(self.pair, self.refused, interprets, self.findings.only_on_a_gpu)
        self._examiner = Examiner(
            self.pair, self.truth, self.part, self.path, self.device, self.findings, self._choice, self.most_s
        )

    def interpreted(self) -> Bench:
        """Return the bench that interprets the same part: this one if it does."""
        if self.interpreter is None:
            return self
        findings = replace(self.findings, evidence=[], tried=[], wrong_in_own_process=False)
        return replace(self, pair=self.interpreter, device="cpu", findings=findings, interpreter=None)

    def try_case(self, case: Case, seed: int, *, counts: Counts = "bytes") -> Trial:
        """Call the part's function on one case and examine the answer. counts: of each launch in the interpreter."""
        with closing(self.tries([CallRequest(self.part, case, seed, counts=counts)])) as trials:
            return next(trials)

    def repeat(self, recipe: Recipe, wanted: Wanted = ANY) -> Trial:
        """Repeat the call of an earlier trial on the same inputs, with other decoys, in a wanted configuration."""
        with closing(self.tries([repeating(self.part, recipe, wanted)], known=True)) as trials:
            return next(trials)

    def tries(self, requests: Sequence[CallRequest], *, chained: bool = False, known: bool = False) -> Generator[Trial]:
        """Call the part's function for one request after another and examine the answers.

        chained: all are recorded before the first is replayed, the seeds that count depend on all traces, and equal
        seeds stay equal. Otherwise earlier requests are replayed while later ones are recorded. known: the seeds of the
        requests are those that count.

        Close or exhaust it: its end joins threads. The garbage collector may end it anywhere, also while Python holds
        the lock of its threads; the join then never returns.
        """
        waiting = list(requests)
        while waiting:
            done, stale = 0, False
            with closing(self._batch(waiting, chained=chained, known=known)) as batch:
                for trial in batch:
                    done += 1
                    recorded_anew = self.pair.recorded_anew
                    yield trial
                    # The caller may have made other calls meanwhile: these can renumber all memory.
                    stale = self._examiner.has_lost or self.pair.recorded_anew != recorded_anew
                    if stale:
                        break
            # After a replay that could not be finished, later calls are recorded anew.
            waiting = waiting[done:] if stale and not chained else []

    def _batch(self, requests: Sequence[CallRequest], *, chained: bool, known: bool) -> Generator[Trial]:
        """Record the requests, and replay them until one cannot be finished."""
        self._examiner.has_lost = False
        # A thread computes products on every core until it is asked for its number of threads.
        early = self.pair.side_by_side(prepare=torch.get_num_threads)
        calls: list[PreparedCall] = []
        left, direct = True, False
        try:
            for prepared in self._prepare_all(requests, chained=chained, known=known):
                if not chained and len(requests) > 1:
                    self._begin_isolated(early, len(calls), prepared)
                calls.append(prepared)
            left = any(one.recorded for one in calls)
            # Calls that build on each other are all made in the same process.
            direct = chained and any(one.recorded and not one.recorded.is_replayable for one in calls)
            self.prefetch.turn_to([(one.request.part, one.recipe) for one in calls])
            wrong, spared = False, frozenset[int]()
            if chained and all(one.needs_no_memory for one in calls):
                spared = _repeating(calls)
                for place, prepared in enumerate(calls):
                    if place not in spared:
                        self._begin_isolated(early, place, prepared)
            for place, prepared in enumerate(calls):
                left = any(one.recorded for one in calls[place + 1 :])
                if place in spared and prepared.recorded:
                    self.pair.leave(prepared.recorded)
                    continue
                trial = self._examiner.examine(prepared, early.outcome(place), direct=direct, in_any_order=not wrong)
                # Look for races until something else is wrong.
                wrong = wrong or (trial.failure is not None and trial.failure.cause.kind != "race")
                yield trial
        finally:
            early.close()
            if left or direct or self._examiner.has_lost:
                self.pair.skip()

    def _begin_isolated(self, early: SideBySide, place: int, prepared: PreparedCall) -> None:
        """Begin to replay a call, if it needs no memory of earlier ones."""
        if recorded := prepared.given_anew:
            call_of = partial(self._examiner.call_with_slots, replace(prepared.request, storage="new"), prepared.recipe)
            wanted = self._choice.wanted(prepared.request, recorded)
            self.pair.begin_isolated(early, place, recorded, call_of, wanted, counts=prepared.request.counts)

    def _prepare_all(self, requests: Sequence[CallRequest], *, chained: bool, known: bool) -> Iterator[PreparedCall]:
        """Record the requests and yield each with the recipe that counts; chained ones after all are recorded."""
        planned = (PreparedCall(one, self.record(one), one.recipe) for one in self._until_one_fails(requests))
        for group in [[*planned]] if chained else ([one] for one in planned):
            yield from group if known else self._with_true_recipes(group)

    def _with_true_recipes(self, calls: Sequence[PreparedCall]) -> Sequence[PreparedCall]:
        """Return calls whose recipes have the planned seeds, with the seeds that count."""
        answers = [one.recorded for one in calls if one.recorded]
        planned = [one.recipe for one in calls]
        if not answers:
            return calls

        def drawn(draw: int) -> list[Recipe]:
            seed = seeds_after(answers, self.salt, draw)
            return [_seeded(recipe, seed) for recipe in planned]

        carries = any(one.request.carries for one in calls)
        if any(map(self.truth.has_whole_numbers, planned)) and not carries:
            recipes = draw_distinct(drawn, [*map(decoys_of, planned)], self.truth.whole_numbers)
        else:
            recipes = drawn(0)
        return [replace(one, recipe=recipe) for one, recipe in zip(calls, recipes, strict=True)]

    def _until_one_fails(self, requests: Sequence[CallRequest]) -> Iterator[CallRequest]:
        """Yield the requests until a call cannot be recorded."""
        self._stopped = False
        for request in requests:
            if self._stopped:
                return
            yield request

    def record(self, request: CallRequest) -> Recording:
        """Have a call recorded on decoys."""
        if not request.part.is_replayed:
            return None
        call = request.call(request.recipe)
        result = OutOfTime(self.most_s) if self.is_late else self.pair.record(call)
        # A case that is not implemented stops nothing: the part may be written for others.
        left_out = isinstance(result, Raised) and result.verdict == "not_implemented"
        self._stopped = not isinstance(result, RecordedAnswer) and not left_out
        return result

    def true_recipe(self, case: Case, seed: int) -> Recipe:
        """Record a call again, and return its recipe with the seed that counts. seed: the planned one."""
        with self.findings.aside():
            (prepared,) = self._prepare_all([CallRequest(self.part, case, seed)], chained=False, known=False)
            self.pair.skip()
            return prepared.recipe

    def gives_right(self, recipe: Recipe, outcome: Outcome) -> bool:
        """Return whether an outcome is the right answer to a call of the part."""
        return self._examiner.is_right(outcome, self.truth.expect(self.part, recipe), recipe)

    def ask(self, recipe: Recipe, slots: tuple[Slot, ...]) -> Outcome:
        """Call the part's function once in the submission's own process."""
        return self._examiner.call(repeating(self.part, recipe).call(recipe, slots))

    @property
    def is_late(self) -> bool:
        """The calls of the part have used up the time that they may take together."""
        return self._examiner.is_late


def _repeating(calls: Sequence[PreparedCall]) -> frozenset[int]:
    """Return the places of further calls that do what an earlier call did: they need no replay."""
    seen, repeating = set[bytes](), set[int]()
    for place, one in enumerate(calls):
        assert one.recorded is not None
        done = fingerprint(one.recorded.message)
        if one.request.is_further and done in seen:
            repeating.add(place)
        seen.add(done)
    return frozenset(repeating)


def _seeded(recipe: Recipe, seed: Callable[[int], int]) -> Recipe:
    """Return the recipe with the seeds that count."""
    patch = None if recipe.patch_seed is None else seed(recipe.patch_seed)
    return replace(recipe, seed=seed(recipe.seed), patch_seed=patch)
