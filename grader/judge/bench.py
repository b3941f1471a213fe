"""Have the calls of one part recorded and replayed, examine them, and collect evidence.

request -> recorded on decoys -> seed -> replayed on the true inputs -> compared with the oracle

Takes requests and gives trials. It decides no check: the rules do.
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
from grader.judge.clue import sure
from grader.judge.compare import compare, tensor_of
from grader.judge.configuration_choice import ConfigurationChoice
from grader.judge.distinct_inputs import draw_distinct
from grader.judge.evidence import evidence_of_answer, evidence_of_trace, with_line
from grader.judge.failures import (
    Failure,
    WrongCall,
    check_device,
    examine,
)
from grader.judge.oracle_prefetch import OraclePrefetch
from grader.judge.part_findings import PartFindings
from grader.judge.perturbed_replays import RightCall, perturbed_failure
from grader.judge.refused_configurations import RefusedConfigurations
from grader.judge.trial import CallRequest, NotRunHere, Trial, TriedCase, repeating
from grader.judge.truth import Expected, Truth, slots_for
from grader.phrases import all_of
from grader.protocol.configurations import configurations_in
from grader.protocol.messages import (
    ANY,
    COMPUTED,
    ONLY_ON_A_GPU,
    TOO_SLOW,
    Call,
    Raised,
    Recipe,
    Slot,
    Wanted,
)
from grader.protocol.trace import Deed, fingerprint
from grader.sandbox.outcome import Finished, Outcome, OutOfTime, Unanswered, replay_refusal
from grader.sandbox.pair import Pair, RecordedAnswer, decoys_of, seeds_after
from grader.sandbox.side_by_side import SideBySide

# How many different numbers identify an answer.
_TELLING = 4

# The outcome of recording a call; None: its part is not recorded.
_RecordResult = RecordedAnswer | Raised | Unanswered | None


@dataclass(frozen=True)
class _RecordedRequest:
    """A request, the result of recording it, and the recipe to judge it on."""

    request: CallRequest
    result: _RecordResult
    recipe: Recipe


def _is_answer_to(seen: WrongCall, earlier: tuple[Expected, ...]) -> bool:
    """Return whether the outputs are right for `earlier`. Fewer than _TELLING different numbers prove nothing."""
    if sum(torch.unique(output.value).numel() for output in earlier) < _TELLING:
        return False
    forms = [(output.value.shape, output.dtype) for output in earlier]
    if forms != [(output.value.shape, output.dtype) for output in seen.expected]:
        return False
    return all(
        raw is not None and compare(tensor_of(raw, output), output).agrees
        for raw, output in zip(seen.outcome.outputs, earlier, strict=True)
    )


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
    _stopped: bool = False
    _lost: bool = False
    _before_s: float = field(init=False)
    # Why the latest call with too many programs for the interpreter was stopped.
    _too_slow: str = field(init=False, default="")

    def __post_init__(self) -> None:
        self._before_s = self.pair.worked_s
        self.refused = RefusedConfigurations(self.refusal)
        interprets = self.interpreter is None and self.device == "cpu"
        self._choice = ConfigurationChoice(self.pair, self.refused, interprets, self.findings.only_on_a_gpu)

    def interpreted(self) -> Bench:
        """Return the bench that interprets the same part: this one if it does."""
        if self.interpreter is None:
            return self
        findings = replace(self.findings, evidence=[], tried=[], wrong_alone=False)
        return replace(self, pair=self.interpreter, device="cpu", findings=findings, interpreter=None)

    def try_case(self, case: Case, seed: int) -> Trial:
        """Call the part's function on one case and examine the answer."""
        with closing(self.tries([CallRequest(self.part, case, seed)])) as trials:
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
                    stale = self._lost or self.pair.recorded_anew != recorded_anew
                    if stale:
                        break
            # After a replay that could not be finished, later calls are recorded anew.
            waiting = waiting[done:] if stale and not chained else []

    def _batch(self, requests: Sequence[CallRequest], *, chained: bool, known: bool) -> Generator[Trial]:
        """Record the requests, and replay them until one cannot be finished."""
        self._lost = False
        # A thread computes products on every core until it is asked for its number of threads.
        early = self.pair.side_by_side(prepare=torch.get_num_threads)
        calls: list[_RecordedRequest] = []
        left, direct = True, False
        try:
            for recorded in self._record_all(requests, chained=chained, known=known):
                if not chained and len(requests) > 1:
                    self._begin_apart(early, len(calls), recorded)
                calls.append(recorded)
            left = any(isinstance(one.result, RecordedAnswer) for one in calls)
            # Calls that build on each other are all made in the same process.
            direct = chained and any(
                isinstance(one.result, RecordedAnswer) and not one.result.is_replayable for one in calls
            )
            self.prefetch.turn_to([(one.request.part, one.recipe) for one in calls])
            wrong, spared = False, frozenset[int]()
            if chained and all(map(_is_independent, calls)):
                spared = _repeating(calls)
                for place, recorded in enumerate(calls):
                    if place not in spared:
                        self._begin_apart(early, place, recorded)
            for place, recorded in enumerate(calls):
                left = any(isinstance(one.result, RecordedAnswer) for one in calls[place + 1 :])
                if place in spared and isinstance(recorded.result, RecordedAnswer):
                    self.pair.leave(recorded.result)
                    continue
                trial = self._examine(recorded, early.outcome(place), direct=direct, in_any_order=not wrong)
                # Look for races until something else is wrong.
                wrong = wrong or (trial.failure is not None and trial.failure.cause.kind != "race")
                yield trial
        finally:
            early.close()
            if left or direct or self._lost:
                self.pair.skip()

    def _begin_apart(self, early: SideBySide, place: int, recorded: _RecordedRequest) -> None:
        """Begin to replay a call, if it needs no memory of earlier ones."""
        if isinstance(recorded.result, RecordedAnswer):
            given_anew = replace(recorded.result, found=_found(recorded))
            call_of = partial(self.call_with_slots, replace(recorded.request, storage="new"), recorded.recipe)
            wanted = self._choice.wanted(recorded.request, recorded.result)
            self.pair.begin_apart(early, place, given_anew, call_of, wanted)

    def _record_all(self, requests: Sequence[CallRequest], *, chained: bool, known: bool) -> Iterator[_RecordedRequest]:
        """Record the requests and yield each with the recipe that counts; chained ones after all are recorded."""
        results: Iterator[tuple[CallRequest, _RecordResult]] = (
            (one, self.record(one)) for one in self._until_one_fails(requests)
        )
        for group in [[*results]] if chained else ([one] for one in results):
            own_requests = [request for request, _ in group]
            recorded_answers = [result for _, result in group if isinstance(result, RecordedAnswer)]
            planned = [request.recipe for request in own_requests]
            recipes = (
                self._true_recipes(planned, own_requests, recorded_answers)
                if recorded_answers and not known
                else planned
            )
            yield from (_RecordedRequest(*results, recipe) for results, recipe in zip(group, recipes, strict=True))

    def _true_recipes(
        self, planned: Sequence[Recipe], requests: Sequence[CallRequest], recorded_answers: Sequence[RecordedAnswer]
    ) -> list[Recipe]:
        """Return the recipes of calls with the seeds that count."""

        def drawn(draw: int) -> list[Recipe]:
            seed = seeds_after(recorded_answers, self.salt, draw)
            return [_seeded(recipe, seed) for recipe in planned]

        has_whole = any(map(self.truth.has_whole_numbers, planned)) and not any(one.carries for one in requests)
        return draw_distinct(drawn, [*map(decoys_of, planned)], self.truth.whole_numbers) if has_whole else drawn(0)

    def _until_one_fails(self, requests: Sequence[CallRequest]) -> Iterator[CallRequest]:
        """Yield the requests until a call cannot be recorded."""
        self._stopped = False
        for request in requests:
            if self._stopped:
                return
            yield request

    def record(self, request: CallRequest) -> _RecordResult:
        """Have a call recorded on decoys."""
        if not request.part.is_replayed:
            return None
        call = request.call(request.recipe)
        result = OutOfTime(self.most_s) if self.is_late else self.pair.record(call)
        # A case that is not implemented stops nothing: the part may be written for others.
        left_out = isinstance(result, Raised) and result.verdict == "not_implemented"
        self._stopped = not isinstance(result, RecordedAnswer) and not left_out
        return result

    def call_with_slots(self, request: CallRequest, recipe: Recipe) -> Call:
        """Return the call of a recipe, with room for its expected outputs."""
        return request.call(recipe, slots_for(self.truth.expect(request.part, recipe)))

    def _examine(
        self, recorded_request: _RecordedRequest, early: Outcome | None, *, direct: bool, in_any_order: bool = True
    ) -> Trial:
        """Replay or make a call, and examine the outcome.

        early: the outcome, if the call was replayed already. in_any_order: replay a right call with other orders and
        garbage too; it must stay right.
        """
        request, result, recipe = recorded_request.request, recorded_request.result, recorded_request.recipe
        part = request.part
        expected = self.truth.expect(part, recipe)
        call = self.call_with_slots(request, recipe)
        untold: tuple[str, ...] = ()
        is_replay = False
        if isinstance(result, RecordedAnswer):
            wanted = self._choice.wanted(request, result)
            result, outcome, untold = self._replay(
                result, call, early, wanted, direct=direct, counts=request.instructions
            )
            is_replay = result.is_replayable and not (untold or direct)
            if result.is_replayable and not (untold or request.wanted.places or result.found or request.carries):
                is_right = partial(self._is_right, expected=expected, recipe=recipe)
                outcome = self._choice.without_refused(result, call, outcome, wanted, is_right)
            if part is self.part:
                self.findings.evidence.append(evidence_of_trace(request, result, outcome, untold))
                self.findings.kernel_groups.note(result, outcome)
        elif result is None:
            outcome = self.call(call)
            if isinstance(outcome, Finished) and part is self.part:
                self.findings.evidence.append(evidence_of_answer(request.case, outcome.answer))
        else:
            outcome = result
        if words := self._why_not_run(outcome, is_replay=is_replay):
            if request.may_be_left_out and words == self._too_slow:
                return Trial(recipe, outcome, expected, None, 0.0, left_out=words)
            raise NotRunHere(words)
        failure, worst = examine(outcome, expected, lambda: self.truth.inputs(recipe), self.path)
        failure = check_device(outcome, "cpu" if part.on == "cpu" else self.device) or failure
        if not failure and is_replay and in_any_order and isinstance(outcome, Finished):
            assert isinstance(result, RecordedAnswer)
            inputs = partial(self.truth.inputs, recipe)
            failure = perturbed_failure(self.pair, RightCall(result, call, outcome, expected, inputs, self.path))
        failure = failure and self._naming_omitted(failure, call)
        if failure and isinstance(outcome, Finished):
            failure = self._with_wrong_call(failure, WrongCall(recipe, outcome, expected))
        elif part is self.part:
            launches = outcome.answer.launches if is_replay and isinstance(outcome, Finished) else ()
            self.findings.note_right(request.case, expected, launches)
        if part is self.part and request.is_plain:
            self.findings.tried.append(TriedCase(request.case, failure is not None, request.seed))
        tuning = configurations_in(result.trace) if isinstance(result, RecordedAnswer) and not untold else ()
        recorded = result if isinstance(result, RecordedAnswer) else None
        return Trial(recipe, outcome, expected, failure, worst, untold, recorded, tuning)

    def _why_not_run(self, outcome: Outcome, *, is_replay: bool) -> str:
        """Return why only a GPU can run a call; "" if that is not so.

        is_replay: the replayer answered. Exceptions of the submission's process do not count: they may have any name.
        """
        if isinstance(outcome, OutOfTime) and self.is_late:
            # The time went into calls that take a GPU a moment.
            return self._too_slow
        needs_gpu = is_replay and isinstance(outcome, Raised) and outcome.kind in ONLY_ON_A_GPU
        if self.device != "cpu" or not needs_gpu:
            return ""
        assert isinstance(outcome, Raised)
        words = with_line(outcome.message, outcome.line)
        if outcome.kind == TOO_SLOW:
            self._too_slow = words
        return words

    def _is_right(self, outcome: Outcome, expected: tuple[Expected, ...], recipe: Recipe) -> bool:
        return examine(outcome, expected, partial(self.truth.inputs, recipe), self.path)[0] is None

    def _naming_omitted(self, failure: Failure, call: Call) -> Failure:
        """Return the failure, extended by the names of the arguments that the call left out."""
        count = len(call.given(self.truth.inputs(call.recipe))) if call.defaults else len(call.arguments)
        if count == len(call.arguments):
            return failure
        names = all_of(call.arguments[count:])
        rationale = f"{failure.cause.rationale} The call left out {names}.".strip()
        return replace(failure, cause=replace(failure.cause, rationale=rationale))

    def _replay(
        self,
        recorded: RecordedAnswer,
        call: Call,
        early: Outcome | None,
        wanted: Wanted,
        *,
        direct: bool,
        counts: bool,
    ) -> tuple[RecordedAnswer, Outcome, tuple[str, ...]]:
        """Replay a call, or make it where it cannot be replayed.

        Returns what was recorded, the outcome, and what could not be recorded.
        """
        untold = tuple(with_line(deed.name, deed.line) for deed in recorded.untold)
        if recorded.is_replayable and not direct:
            outcome = early or self.pair.replay(recorded, call, wanted, instructions=counts)
            self._lost = not isinstance(outcome, Finished)
            outcome = self._choice.finished(recorded, call, outcome, wanted)
            refusal = replay_refusal(outcome)
            if refusal is None:
                return recorded, outcome, ()
            if refusal.kind == COMPUTED:
                recorded = replace(recorded, deeds=(Deed(refusal.message, refusal.line),))
            else:
                untold = (with_line(refusal.message, refusal.line),)
        elif not (untold or recorded.deeds):
            untold = ("an earlier call that it builds on could not be replayed",)
        return recorded, self.call(call), untold

    def true_recipe(self, case: Case, seed: int) -> Recipe:
        """Record a call again, and return its recipe with the seed that counts. seed: the planned one."""
        with self.findings.aside():
            (recorded,) = self._record_all([CallRequest(self.part, case, seed)], chained=False, known=False)
            self.pair.skip()
            return recorded.recipe

    def gives_right(self, recipe: Recipe, outcome: Outcome) -> bool:
        """Return whether an outcome is the right answer to a call of the part."""
        return self._is_right(outcome, self.truth.expect(self.part, recipe), recipe)

    def ask(self, recipe: Recipe, slots: tuple[Slot, ...]) -> Outcome:
        """Call the part's function once in the submission's own process."""
        return self.call(repeating(self.part, recipe).call(recipe, slots))

    def call(self, call: Call) -> Outcome:
        """Call a function once in the submission's own process."""
        return OutOfTime(self.most_s) if self.is_late else self.pair.session.call(call)

    @property
    def is_late(self) -> bool:
        """The calls of the part have used up the time that they may take together."""
        return self.pair.worked_s - self._before_s > self.most_s

    def _with_wrong_call(self, failure: Failure, wrong_call: WrongCall) -> Failure:
        """Return the failure with its call, and with a clue where a recent call had this answer."""
        clues = failure.clues
        recent = self.findings.recent if failure.cause.mismatch is not None else ()
        if any(_is_answer_to(wrong_call, earlier) for earlier in recent):
            clues = (*clues, sure("remembered_result", "This is the right answer to an earlier call, on other inputs."))
        return replace(failure, wrong_call=wrong_call, clues=clues)


def _is_independent(one: _RecordedRequest) -> bool:
    """Return whether a call can be replayed without what earlier calls left."""
    return isinstance(one.result, RecordedAnswer) and one.result.is_replayable and not _found(one)


def _found(one: _RecordedRequest) -> frozenset[int]:
    """Return the storages that a call found, without those of arguments that are written anew."""
    assert isinstance(one.result, RecordedAnswer)
    written = () if one.request.carries else one.result.trace.arguments.values()
    return one.result.found.difference(written)


def _repeating(calls: Sequence[_RecordedRequest]) -> frozenset[int]:
    """Return the places of further calls that do what an earlier call did: they need no replay."""
    seen, repeating = set[bytes](), set[int]()
    for place, one in enumerate(calls):
        assert isinstance(one.result, RecordedAnswer)
        done = fingerprint(one.result.message)
        if one.request.is_further and done in seen:
            repeating.add(place)
        seen.add(done)
    return frozenset(repeating)


def _seeded(recipe: Recipe, seed: Callable[[int], int]) -> Recipe:
    """Return the recipe with the seeds that count."""
    patch = None if recipe.patch_seed is None else seed(recipe.patch_seed)
    return replace(recipe, seed=seed(recipe.seed), patch_seed=patch)
