"""Have the calls of one part recorded and replayed, examine them, and collect evidence.

request -> recorded on decoys -> seed -> replayed on the true inputs -> compared with the oracle

Takes requests and gives trials. It decides no check: the rules do.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from math import prod
from typing import Literal, NamedTuple

import torch

from grader.exercise.cases import Case, Value
from grader.exercise.model import Part
from grader.judge.clue import sure
from grader.judge.compare import compare, tensor_of
from grader.judge.coverage import coverage_of, more_telling
from grader.judge.failures import Failure, WrongCall, check_device, examine
from grader.judge.oracle_prefetch import OraclePrefetch
from grader.judge.truth import Expected, Truth, slots_for
from grader.judge.unlike import draw_unlike, whole_numbers
from grader.protocol.configurations import Configurations, configurations_in
from grader.protocol.messages import (
    COMPUTED,
    NEEDS_GPU,
    PASSED_OVER,
    TOO_SLOW,
    UNTOLD,
    Call,
    Filling,
    LaunchInfo,
    Raised,
    Recipe,
    Returned,
    Slot,
)
from grader.protocol.operators import READING
from grader.protocol.trace import Deed
from grader.record import Coverage, clean
from grader.sandbox.outcome import Finished, Outcome, OutOfTime, Unanswered
from grader.sandbox.pair import Pair, RecordedAnswer, seeds_after

# Number of right answers to remember, and of elements that make one recognisable.
_RECENT = 6
_TELLING = 4
# Limits of outputs that are compared with and without launches.
_MOST_COMPARED_BYTES = 64 << 20
_MOST_OUTPUTS = 16
_ITEMSIZES = {"float64": 8, "int64": 8, "float32": 4, "int32": 4, "float16": 2, "bfloat16": 2, "int16": 2, "int8": 1}

# The outcome of recording a call; None: its part is not recorded.
_RecordResult = RecordedAnswer | Raised | Unanswered | None


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

    seed, patch_seed: as planned. carries: arguments that stay as the call before left them. part: whose function is
    called (None: that of the bench). configurations: those of autotuned kernels to try, in this order, until one works;
    empty: all that are not passed over. may_be_left_out: a call with too many programs for the interpreter gives a
    trial with `left_out`, and does not raise NotRunHere.
    """

    case: Case
    seed: int
    patch_seed: int | None = None
    storage: Literal["new", "same"] = "new"
    carries: tuple[str, ...] = ()
    part: Part | None = None
    configurations: tuple[int, ...] = ()
    may_be_left_out: bool = False

    @property
    def is_plain(self) -> bool:
        """The call does not depend on another call."""
        return self.patch_seed is None and self.storage == "new" and not self.carries


class _Configuration(NamedTuple):
    """One configuration of a part's autotuned kernels that was tried.

    total: number of configurations. was_right: whether its answer was right; it may be wrong for another case.
    """

    part: str
    total: int
    place: int
    was_right: bool


@dataclass(frozen=True)
class _RecordedRequest:
    """A request, the result of recording it, and the recipe to judge it on."""

    request: CallRequest
    result: _RecordResult
    recipe: Recipe


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
    def launches(self) -> tuple[LaunchInfo, ...]:
        """Kernels that the call launched."""
        return self.outcome.answer.launches if isinstance(self.outcome, Finished) else ()


@dataclass(frozen=True)
class Evidence:
    """The actions of one call: kernels launched, operations in them, operators beside them.

    helpers: functions of installed packages that kernels call. reads: operators that gave Python values of a tensor.
    seed: as planned. launches, moved_bytes: kernels that ran, and the bytes that they loaded and stored, in a replayed
    call; 0 where unknown. Names and numbers only: the evidence of all calls stays in memory, and answers may be large.
    """

    case: Case
    kernels: tuple[str, ...]
    operations: frozenset[str]
    operators: tuple[str, ...]
    untold: tuple[str, ...] = ()
    is_replayed: bool = False
    reads: tuple[Deed, ...] = ()
    helpers: tuple[str, ...] = ()
    seed: int = 0
    launches: int = 0
    moved_bytes: int = 0


def _evidence_of_answer(case: Case, answer: Returned) -> Evidence:
    return Evidence(
        case,
        tuple(dict.fromkeys(clean(launch.kernel, 80) for launch in answer.launches)),
        frozenset(clean(name, 80) for launch in answer.launches for name in launch.constants),
        tuple(dict.fromkeys(clean(name, 80) for name in answer.operators)),
    )


def _evidence_of_trace(
    request: CallRequest, recorded: RecordedAnswer, outcome: Outcome, untold: tuple[str, ...]
) -> Evidence:
    deeds = [_with_line(deed.name, deed.line) for deed in recorded.deeds]
    is_replayed = recorded.is_replayed and not untold
    kernels, operations, launched, moved = recorded.kernels, frozenset[str](), 0, 0
    if is_replayed and isinstance(outcome, Finished):
        # A replay launched these: they are facts.
        launches = [launch for launch in outcome.answer.launches if prod(launch.grid)]
        kernels = tuple(dict.fromkeys(launch.kernel for launch in launches))
        operations = frozenset(clean(name, 80) for launch in launches for name in launch.constants)
        launched, counts = len(launches), [launch.traffic for launch in launches if launch.traffic]
        moved = sum(count.loaded_bytes + count.stored_bytes for count in counts)
    return Evidence(
        request.case,
        tuple(clean(name, 80) for name in kernels),
        operations,
        tuple(dict.fromkeys(deeds)),
        untold,
        is_replayed,
        _read_deeds(recorded.deeds),
        tuple(clean(text.words, 200) for text in recorded.trace.kernels if text.home),
        request.seed,
        launched,
        moved,
    )


def _read_deeds(deeds: Sequence[Deed]) -> tuple[Deed, ...]:
    """Return the operators that gave Python values, each with the arguments that its line used."""
    of_line: dict[int, dict[str, None]] = {}
    for deed in deeds:
        of_line.setdefault(deed.line, {}).update(dict.fromkeys(deed.of))
    return tuple(replace(deed, of=deed.of or (*of_line[deed.line],)) for deed in deeds if deed.name in READING)


def _is_answer_to(seen: WrongCall, earlier: tuple[Expected, ...]) -> bool:
    """Return whether the outputs are right for `earlier`. Fewer than _TELLING elements prove nothing."""
    if sum(output.value.numel() for output in earlier) < _TELLING:
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

    evidence: of every call. tried: the cases that ran. recent: the latest right answers. covering: of the right calls,
    the one that shows best what programs touch, if there is one. salt: derived from the
    submission's text; makes planned seeds into the seeds that count. most_s: time that all calls may take together.
    interpreter: a pair that interprets, where `pair` does not. refusal: says why the GPU that a call is meant for
    refuses a configuration. shared_inputs: traces do not decide seeds, so that other files meet the same inputs.
    """

    pair: Pair
    truth: Truth
    part: Part
    path: str
    device: str
    salt: str
    prefetch: OraclePrefetch
    evidence: list[Evidence] = field(default_factory=list)
    tried: list[TriedCase] = field(default_factory=list)
    recent: list[tuple[Expected, ...]] = field(default_factory=list)
    covering: list[Coverage] = field(default_factory=list)
    most_s: float = math.inf
    interpreter: Pair | None = None
    refusal: Callable[[RecordedAnswer, int], str] = lambda recorded, place: ""
    shared_inputs: bool = False
    _stopped: bool = False
    _lost: bool = False
    _before_s: float = field(init=False)
    # By part: whether whole-number tensors are among its arguments.
    _whole: dict[str, bool] = field(init=False, default_factory=dict)
    # Why the GPU refuses each configuration that was asked about; "": it takes it.
    _refusals: dict[_Configuration, str] = field(init=False, default_factory=dict)
    # Why the latest call with too many programs for the interpreter was stopped.
    _too_slow: str = field(init=False, default="")

    def __post_init__(self) -> None:
        self._before_s = self.pair.worked_s

    def interpreted(self) -> Bench:
        """Return the bench that interprets the same part: this one if it does."""
        if self.interpreter is None:
            return self
        return replace(self, pair=self.interpreter, device="cpu", evidence=[], tried=[], interpreter=None)

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Discard the evidence, the tried cases and the coverage of the calls in the block."""
        evidence, tried, covering = list(self.evidence), list(self.tried), list(self.covering)
        try:
            yield
        finally:
            self.evidence[:], self.tried[:], self.covering[:] = evidence, tried, covering

    def try_case(self, case: Case, seed: int) -> Trial:
        """Call the part's function on one case and examine the answer."""
        return next(iter(self.tries([CallRequest(case, seed)])))

    def repeat(self, recipe: Recipe) -> Trial:
        """Repeat the call of an earlier trial on the same inputs, with other decoys."""
        return next(iter(self.tries([CallRequest(Case(recipe.case), recipe.seed)], known=True)))

    def tries(self, requests: Sequence[CallRequest], *, chained: bool = False, known: bool = False) -> Generator[Trial]:
        """Call the part's function for one request after another and examine the answers.

        chained: all are recorded before the first is replayed, the seeds that count depend on all traces, and equal
        seeds stay equal. Otherwise earlier requests are replayed while later ones are recorded. known: the seeds of the
        requests are those that count.
        """
        waiting = list(requests)
        while waiting:
            done, stale = 0, False
            for trial in self._batch(waiting, chained=chained, known=known):
                done += 1
                recorded_anew = self.pair.recorded_anew
                yield trial
                # The caller may have made other calls meanwhile, which can renumber all memory.
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
                if isinstance(recorded.result, RecordedAnswer) and not chained and len(requests) > 1:
                    call_of = partial(self._call_with_slots, recorded.request, recorded.recipe)
                    places = self._configurations(recorded.request, recorded.result)
                    self.pair.begin_apart(early, len(calls), recorded.result, call_of, places)
                calls.append(recorded)
            left = any(isinstance(one.result, RecordedAnswer) for one in calls)
            # Calls that build on each other are all made in the same process.
            direct = chained and any(
                isinstance(one.result, RecordedAnswer) and not one.result.is_replayed for one in calls
            )
            self.prefetch.turn_to([(one.request.part or self.part, one.recipe) for one in calls])
            for place, recorded in enumerate(calls):
                left = any(isinstance(one.result, RecordedAnswer) for one in calls[place + 1 :])
                trial = self._examine(recorded, early.outcome(place), direct=direct)
                if trial.failure:
                    # Later requests need idle replayers.
                    early.close()
                yield trial
        finally:
            early.close()
            if left or direct or self._lost:
                self.pair.skip()

    def _record_all(self, requests: Sequence[CallRequest], *, chained: bool, known: bool) -> Iterator[_RecordedRequest]:
        """Record the requests and yield each with the recipe that counts; chained ones after all are recorded."""
        # Decoys that are the true inputs would let a trace hold the answer.
        decoys = [replace(one, seed=one.seed ^ 1) for one in requests] if known else requests
        decoy_pairs = zip(requests, self._until_one_fails(decoys), strict=False)
        results: Iterator[tuple[CallRequest, _RecordResult]] = (
            (one, self._record(decoy)) for one, decoy in decoy_pairs
        )
        for group in [[*results]] if chained else ([one] for one in results):
            own_requests = [request for request, _ in group]
            recorded_answers = [result for _, result in group if isinstance(result, RecordedAnswer)]
            planned = list(map(self._recipe, own_requests))
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
            seed = seeds_after(() if self.shared_inputs else recorded_answers, self.salt, draw)
            return [_seeded(recipe, seed) for recipe in planned]

        has_whole = any(map(self._has_whole_numbers, planned)) and not any(request.carries for request in requests)
        return draw_unlike(drawn, planned, self._whole_numbers) if has_whole else drawn(0)

    def _has_whole_numbers(self, recipe: Recipe) -> bool:
        if recipe.part not in self._whole:
            self._whole[recipe.part] = bool(self._whole_numbers(recipe))
        return self._whole[recipe.part]

    def _whole_numbers(self, recipe: Recipe) -> tuple[bytes, ...]:
        return whole_numbers(self.truth.inputs(recipe))

    def _until_one_fails(self, requests: Sequence[CallRequest]) -> Iterator[CallRequest]:
        """Yield the requests until a call cannot be recorded."""
        self._stopped = False
        for request in requests:
            if self._stopped:
                return
            yield request

    def _record(self, request: CallRequest) -> _RecordResult:
        part = request.part or self.part
        if not part.is_replayed:
            return None
        call = self._call(request, self._recipe(request))
        result = OutOfTime(self.most_s) if self.is_late else self.pair.record(call)
        # A case that is left out ends nothing: others may be written.
        left_out = isinstance(result, Raised) and result.verdict == "not_implemented"
        self._stopped = not isinstance(result, RecordedAnswer) and not left_out
        return result

    def _recipe(self, request: CallRequest) -> Recipe:
        return Recipe((request.part or self.part).name, dict(request.case), request.seed, request.patch_seed)

    def _call(self, request: CallRequest, recipe: Recipe, slots: tuple[Slot, ...] = ()) -> Call:
        part = request.part or self.part
        return Call(
            recipe,
            part.arguments,
            part.mutates,
            slots,
            request.storage,
            request.carries,
            on_cpu=part.on == "cpu",
            tensors=part.tensors,
            chooses=part.chooses,
            defaults=left_out(part, recipe),
        )

    def _call_with_slots(self, request: CallRequest, recipe: Recipe) -> Call:
        """Return the call of a recipe, with room for its expected outputs."""
        return self._call(request, recipe, slots_for(self.truth.expect(request.part or self.part, recipe)))

    def _examine(self, recorded_request: _RecordedRequest, early: Outcome | None, *, direct: bool) -> Trial:
        """Replay or make a call, and examine the outcome.

        early: the outcome, if the call was replayed already.
        """
        request, result, recipe = recorded_request.request, recorded_request.result, recorded_request.recipe
        part = request.part or self.part
        expected = self.truth.expect(part, recipe)
        call = self._call_with_slots(request, recipe)
        untold: tuple[str, ...] = ()
        is_replay = False
        if isinstance(result, RecordedAnswer):
            places = self._configurations(request, result)
            result, outcome, untold = self._replay(result, call, early, places, direct=direct)
            is_replay = result.is_replayed and not (untold or direct)
            if result.is_replayed and not (untold or request.configurations or result.found or request.carries):
                outcome = self._pass_over_refused(result, call, outcome, expected)
            if part is self.part:
                self.evidence.append(_evidence_of_trace(request, result, outcome, untold))
        elif result is None:
            outcome = self.call(call)
            if isinstance(outcome, Finished) and part is self.part:
                self.evidence.append(_evidence_of_answer(request.case, outcome.answer))
        else:
            outcome = result
        if words := self._why_not_run(outcome, is_replay=is_replay):
            if request.may_be_left_out and words == self._too_slow:
                return Trial(recipe, outcome, expected, None, 0.0, left_out=words)
            raise NotRunHere(words)
        failure, worst = examine(outcome, expected, lambda: self.truth.inputs(recipe), self.path)
        failure = check_device(outcome, "cpu" if part.on == "cpu" else self.device) or failure
        if failure and (names := self._omitted_arguments(call)):
            rationale = f"{failure.cause.rationale} The call left out {names}.".strip()
            failure = replace(failure, cause=replace(failure.cause, rationale=rationale))
        if failure and isinstance(outcome, Finished):
            failure = self._with_wrong_call(failure, WrongCall(recipe, outcome, expected))
        elif part is self.part:
            self.recent[:] = [*self.recent[1 - _RECENT :], expected]
            self._note_coverage(request.case, outcome, is_replay=is_replay)
        if part is self.part and request.is_plain:
            self.tried.append(TriedCase(request.case, failure is not None, request.seed))
        tuning = configurations_in(result.trace) if isinstance(result, RecordedAnswer) and not untold else ()
        recorded = result if isinstance(result, RecordedAnswer) else None
        return Trial(recipe, outcome, expected, failure, worst, untold, recorded, tuning)

    def _note_coverage(self, case: Case, outcome: Outcome, *, is_replay: bool) -> None:
        if is_replay and isinstance(outcome, Finished):
            best = more_telling(*self.covering, coverage_of(case.words(), outcome.answer.launches))
            self.covering[:] = [best] if best else []

    def _why_not_run(self, outcome: Outcome, *, is_replay: bool) -> str:
        """Return why only a GPU can run a call; "" if that is not so.

        is_replay: the replayer answered. A submission's own exceptions may have any name, so they do not count.
        """
        if isinstance(outcome, OutOfTime) and self.is_late:
            # The part's time was spent on calls that a GPU makes in a moment.
            return self._too_slow
        needs_gpu = is_replay and isinstance(outcome, Raised) and outcome.kind in (NEEDS_GPU, TOO_SLOW)
        if self.device != "cpu" or not needs_gpu:
            return ""
        assert isinstance(outcome, Raised)
        words = _with_line(outcome.message, outcome.frames[-1].line if outcome.frames else 0)
        if outcome.kind == TOO_SLOW:
            self._too_slow = words
        return words

    # -- autotuned kernels -------------------------------------------------------------------------------------------

    def refused_configurations(self, part: str, count: int) -> Mapping[int, str]:
        """Return the configurations that are passed over although the interpreter runs them, with reasons."""
        return {
            one.place: why
            for one, why in self._refusals.items()
            if why and not one.was_right and (one.part, one.total) == (part, count)
        }

    def _configurations(self, request: CallRequest, recorded: RecordedAnswer) -> tuple[int, ...]:
        """Return the configurations that a call tries; empty for all."""
        count = recorded.configurations
        refused = self.refused_configurations(recorded.call.recipe.part, count)
        usable = tuple(place for place in range(count) if place not in refused) if refused else ()
        return request.configurations or usable

    def why_refused(self, recorded: RecordedAnswer, place: int, outcome: Outcome) -> str:
        """Return why an autotuner passes over a configuration that was wrong; "" where it does not."""
        if isinstance(outcome, Raised) and outcome.kind in PASSED_OVER:
            return outcome.message.partition("\n")[0][:200] or outcome.kind
        key = _Configuration(recorded.call.recipe.part, recorded.configurations, place, was_right=False)
        if key not in self._refusals and isinstance(outcome, Finished | Raised):
            self._refusals[key] = self.refusal(recorded, place)
        return self._refusals.get(key, "")

    def fits(self, trial: Trial) -> bool:
        """Return whether the GPU takes the configuration of a call that was right in the interpreter."""
        recorded, place = trial.recorded, trial.configuration
        if recorded is None or place < 0:
            return True
        key = _Configuration(recorded.call.recipe.part, recorded.configurations, place, was_right=True)
        if key not in self._refusals:
            self._refusals[key] = self.refusal(recorded, place)
        return not self._refusals[key]

    def _pass_over_refused(
        self, recorded: RecordedAnswer, call: Call, outcome: Outcome, expected: tuple[Expected, ...]
    ) -> Outcome:
        """Return the outcome without the configurations that are wrong and that the GPU refuses."""
        part, count = call.recipe.part, recorded.configurations
        untried = isinstance(outcome, Raised) and outcome.kind in (NEEDS_GPU, TOO_SLOW, COMPUTED, UNTOLD)
        if count < 2 or untried or self._is_right(outcome, expected, call):
            return outcome
        if isinstance(outcome, Finished):
            taken = _Configuration(part, count, outcome.answer.configuration, was_right=False)
            if self._refusals.get(taken) == "":
                return outcome
        tried, refused = outcome, 0
        for place in range(count):
            if place in self.refused_configurations(part, count):
                refused += 1
                continue
            tried = self.pair.replay_alone(recorded, call, (place,))
            if self._is_right(tried, expected, call) or not self.why_refused(recorded, place, tried):
                return tried if refused else outcome
            refused += 1
        # All are refused: the failure of the first one counts.
        for place in self.refused_configurations(part, count):
            del self._refusals[_Configuration(part, count, place, was_right=False)]
        return outcome

    def _is_right(self, outcome: Outcome, expected: tuple[Expected, ...], call: Call) -> bool:
        return examine(outcome, expected, lambda: self.truth.inputs(call.recipe), self.path)[0] is None

    def _omitted_arguments(self, call: Call) -> str:
        """Return the arguments that a call leaves out, in words."""
        count = len(call.given(self.truth.inputs(call.recipe))) if call.defaults else len(call.arguments)
        return " and ".join(call.arguments[count:])

    def _replay(
        self, recorded: RecordedAnswer, call: Call, early: Outcome | None, places: tuple[int, ...], *, direct: bool
    ) -> tuple[RecordedAnswer, Outcome, tuple[str, ...]]:
        """Replay a call, or make it where it cannot be replayed.

        Returns what was recorded, the outcome, and what could not be recorded.
        """
        untold = tuple(_with_line(deed.name, deed.line) for deed in recorded.untold)
        if recorded.is_replayed and not direct:
            outcome = early or self.pair.replay(recorded, call, places)
            self._lost = not isinstance(outcome, Finished)
            if not (isinstance(outcome, Raised) and outcome.kind in (UNTOLD, COMPUTED)):
                return recorded, outcome, ()
            line = outcome.frames[-1].line if outcome.frames else 0
            if outcome.kind == COMPUTED:
                recorded = replace(recorded, deeds=(Deed(outcome.message, line),))
            else:
                untold = (_with_line(outcome.message, line),)
        elif not (untold or recorded.deeds):
            untold = ("an earlier call that it builds on could not be replayed",)
        return recorded, self.call(call), untold

    def refilled(self, seen: WrongCall) -> Callable[[tuple[int, ...], Filling], Outcome | None]:
        """Record an earlier call again, and return a function that replays it with other values in masked lanes.

        The function takes the lines of loads, and the value of their masked lanes. It returns None where the call
        cannot be replayed.
        """
        recipe, place = seen.recipe, seen.outcome.answer.configuration
        request = CallRequest(Case(recipe.case), recipe.seed)
        # Decoys that are the true inputs would let a trace hold the answer.
        recorded = self._record(replace(request, seed=recipe.seed ^ 1))
        call = self._call_with_slots(request, recipe)

        def replay(lines: tuple[int, ...], filling: Filling) -> Outcome | None:
            if not isinstance(recorded, RecordedAnswer):
                return None
            return self.pair.replay_filled(recorded, call, (place,) if place >= 0 else (), lines, filling)

        return replay

    def kernels_matter(self, request: CallRequest) -> bool:
        """Return whether a replay gives another answer when its launches are left out."""
        recorded = self.pair.record(self._call(request, self._recipe(request)))
        if not isinstance(recorded, RecordedAnswer) or not recorded.is_replayed:
            return True
        slots, offset = [], 0
        for output in recorded.trace.outputs:
            form = output.form
            nbytes = prod(form.shape) * _ITEMSIZES.get(form.dtype, 0) if output.window >= 0 else 0
            slots.append(Slot(form.dtype, form.shape, offset, nbytes))
            offset += -(-nbytes // 64) * 64
        # A call that only changes its arguments returns nothing to compare.
        if not slots or offset > _MOST_COMPARED_BYTES or len(slots) > _MOST_OUTPUTS:
            return True
        call = self._call(request, self._recipe(request), tuple(slots))
        return self.pair.depends_on_kernels(recorded, call)

    def ask(self, recipe: Recipe, slots: tuple[Slot, ...]) -> Outcome:
        """Call the part's function once in the submission's own process."""
        return self.call(self._call(CallRequest(Case(recipe.case), recipe.seed), recipe, slots))

    def call(self, call: Call) -> Outcome:
        """Call a function once in the submission's own process."""
        return OutOfTime(self.most_s) if self.is_late else self.pair.session.call(call)

    @property
    def is_late(self) -> bool:
        """The calls of the part have used up the time that they may take together."""
        return self.pair.worked_s - self._before_s > self.most_s

    def right_otherwise(self, trial: Trial) -> Literal["", "without memory", "by other means"]:
        """Return how a call is right whose replay was wrong; "" if it is not.

        without memory: the same kernels are right without memory of earlier calls. by other means: the call is right in
        the submission's own process.
        """
        with self.aside():
            self.pair.skip()
            if self.repeat(trial.recipe).failure is None:
                return "without memory"
        outcome = self.ask(trial.recipe, slots_for(trial.expected))
        inputs = partial(self.truth.inputs, trial.recipe)
        right = examine(outcome, trial.expected, inputs, self.path)[0] is None
        return "by other means" if right else ""

    def _with_wrong_call(self, failure: Failure, wrong_call: WrongCall) -> Failure:
        """Return the failure with its call, and with a clue where a recent call had this answer."""
        clues = failure.clues
        if failure.cause.mismatch is not None and any(_is_answer_to(wrong_call, earlier) for earlier in self.recent):
            clues = (*clues, sure("remembered_result", "This is the right answer to an earlier call, on other inputs."))
        return replace(failure, seen=wrong_call, clues=clues)


def _seeded(recipe: Recipe, seed: Callable[[int], int]) -> Recipe:
    """Return the recipe with the seeds that count."""
    patch = None if recipe.patch_seed is None else seed(recipe.patch_seed)
    return replace(recipe, seed=seed(recipe.seed), patch_seed=patch)


def left_out(part: Part, recipe: Recipe) -> dict[str, Value | None]:
    """Return the last arguments that a call leaves out if they have these values: none, one, … or all.

    The case decides, not the seed: the same case is always called in the same way.
    """
    if not part.defaults:
        return {}
    words = Case(recipe.case).words()
    count = zlib.crc32(f"{part.name}: {words}".encode()) % (len(part.defaults) + 1)
    return dict([*part.defaults.items()][len(part.defaults) - count :])


def _with_line(name: str, line: int) -> str:
    text = clean(name, 200) or "something without a name"
    return f"{text} (line {line})" if line else text
