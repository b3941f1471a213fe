"""Replay or make the calls of one part, and examine their outcomes.

Takes calls that were recorded, and gives trials. Notes what the calls of the part show.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial

import torch

from grader.exercise.model import Part
from grader.judge.answer_check import check_answer, check_device
from grader.judge.clue import sure
from grader.judge.compare import compare, tensor_of
from grader.judge.configuration_choice import ConfigurationChoice
from grader.judge.evidence import evidence_of_trace, with_line
from grader.judge.failure import Failure, WrongCall
from grader.judge.part_findings import PartFindings
from grader.judge.perturbed_replays import RightCall, perturbed_failure
from grader.judge.prepared_call import PreparedCall
from grader.judge.trial import CallRequest, NotRunHere, Trial, TriedCase
from grader.judge.truth import Expected, Truth, slots_for
from grader.phrases import all_of
from grader.protocol.answers import COMPUTED, ONLY_ON_A_GPU, TOO_SLOW, Raised
from grader.protocol.configurations import configurations_in
from grader.protocol.requests import Call, Counts, Recipe, Wanted
from grader.protocol.trace import TraceNote
from grader.sandbox.outcome import Finished, Outcome, OutOfTime, replay_refusal
from grader.sandbox.pair import Pair, RecordedAnswer

# How many different numbers identify an answer.
_TELLING = 4


@dataclass(frozen=True)
class _CallOutcome:
    """The outcome of a call, and how it came about.

    recorded: None without a recording. unrecordable: what could not be recorded; the submission's own process then
    made the call.
    """

    outcome: Outcome
    recorded: RecordedAnswer | None = None
    unrecordable: tuple[str, ...] = ()

    @property
    def is_replay(self) -> bool:
        """The replayer made the call."""
        return self.recorded is not None and self.recorded.is_replayable and not self.unrecordable


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
class Examiner:
    """Replays or makes the calls of one part, and examines their outcomes.

    pair, truth, part, path, device, findings, most_s: as in Bench. choice: of the configurations that calls run.
    has_lost: the latest replay could not be finished, and what it should have left in memory is lost.
    """

    pair: Pair
    truth: Truth
    part: Part
    path: str
    device: str
    findings: PartFindings
    choice: ConfigurationChoice
    most_s: float
    has_lost: bool = field(init=False, default=False)
    _before_s: float = field(init=False)
    # Why the latest call with too many programs for the interpreter was stopped.
    _too_slow: str = field(init=False, default="")

    def __post_init__(self) -> None:
        self._before_s = self.pair.worked_s

    @property
    def is_late(self) -> bool:
        """The calls of the part have used up the time that they may take together."""
        return self.pair.worked_s - self._before_s > self.most_s

    def call(self, call: Call) -> Outcome:
        """Call a function once in the submission's own process."""
        return OutOfTime(self.most_s) if self.is_late else self.pair.session.call(call)

    def call_with_slots(self, request: CallRequest, recipe: Recipe) -> Call:
        """Return the call of a recipe, with room for its expected outputs."""
        return request.call(recipe, slots_for(self.truth.expect(request.part, recipe)))

    def is_right(self, outcome: Outcome, expected: tuple[Expected, ...], recipe: Recipe) -> bool:
        """Return whether an outcome has the expected outputs."""
        return check_answer(outcome, expected, partial(self.truth.inputs, recipe), self.path)[0] is None

    def examine(self, prepared: PreparedCall, early: Outcome | None, *, direct: bool, in_any_order: bool) -> Trial:
        """Replay or make a call, and examine the outcome. Raises NotRunHere.

        early: the outcome, if the call was replayed already. direct: make the call in the submission's own process.
        in_any_order: replay a right call with other orders and garbage too; it must stay right.
        """
        request, recipe = prepared.request, prepared.recipe
        expected = self.truth.expect(request.part, recipe)
        call = self.call_with_slots(request, recipe)
        made = self._outcome_of(prepared, call, expected, early, direct=direct)
        if words := self._why_not_run(made):
            if request.may_be_left_out and words == self._too_slow:
                return Trial(recipe, made.outcome, expected, None, 0.0, left_out=words)
            raise NotRunHere(words)
        failure, worst = self._judged(request, call, made, expected, in_any_order=in_any_order)
        recorded, unrecordable = made.recorded, made.unrecordable
        tuning = configurations_in(recorded.trace) if recorded and not unrecordable else ()
        return Trial(recipe, made.outcome, expected, failure, worst, unrecordable, recorded, tuning)

    # -- the outcome -----------------------------------------------------------------------------------------------

    def _outcome_of(
        self,
        prepared: PreparedCall,
        call: Call,
        expected: tuple[Expected, ...],
        early: Outcome | None,
        *,
        direct: bool,
    ) -> _CallOutcome:
        """Return the outcome of a call, and note the evidence of what computed it."""
        request, recording = prepared.request, prepared.recording
        if recording is None:
            return _CallOutcome(self.call(call))
        if not isinstance(recording, RecordedAnswer):
            return _CallOutcome(recording)
        wanted = self.choice.wanted(request, recording)
        made = self._replayed(recording, call, early, wanted, direct=direct, counts=request.counts)
        recorded, outcome = made.recorded, made.outcome
        assert recorded is not None
        if made.is_replay and not (request.wanted.places or recorded.found or request.carries):
            is_right = partial(self.is_right, expected=expected, recipe=call.recipe)
            outcome = self.choice.without_refused(recorded, call, outcome, wanted, is_right)
        if request.part is self.part:
            self.findings.evidence.append(evidence_of_trace(request, recorded, outcome, made.unrecordable))
            self.findings.kernel_groups.note(recorded, outcome)
        return replace(made, outcome=outcome)

    def _replayed(
        self,
        recorded: RecordedAnswer,
        call: Call,
        early: Outcome | None,
        wanted: Wanted,
        *,
        direct: bool,
        counts: Counts,
    ) -> _CallOutcome:
        """Replay a call, or make it where it cannot be replayed. counts: of each launch in the interpreter."""
        unrecordable = tuple(with_line(note.name, note.line) for note in recorded.unrecordable)
        if recorded.is_replayable and not direct:
            outcome = early or self.pair.replay(recorded, call, wanted, counts=counts)
            self.has_lost = not isinstance(outcome, Finished)
            outcome = self.choice.finished(recorded, call, outcome, wanted)
            refusal = replay_refusal(outcome)
            if refusal is None:
                return _CallOutcome(outcome, recorded)
            if refusal.kind == COMPUTED:
                recorded = replace(recorded, outside_work=(TraceNote(refusal.message, refusal.line),))
            else:
                unrecordable = (with_line(refusal.message, refusal.line),)
        elif not (unrecordable or recorded.outside_work):
            unrecordable = ("an earlier call that it builds on could not be replayed",)
        return _CallOutcome(self.call(call), recorded, unrecordable)

    def _why_not_run(self, made: _CallOutcome) -> str:
        """Return why only a GPU can run a call; "" if that is not so.

        Exceptions of the submission's process do not count: they may have any name.
        """
        outcome = made.outcome
        if isinstance(outcome, OutOfTime) and self.is_late:
            # The time went into calls that take a GPU a moment.
            return self._too_slow
        if self.device != "cpu" or not made.is_replay:
            return ""
        if not isinstance(outcome, Raised) or outcome.kind not in ONLY_ON_A_GPU:
            return ""
        words = with_line(outcome.message, outcome.line)
        if outcome.kind == TOO_SLOW:
            self._too_slow = words
        return words

    # -- the failure -----------------------------------------------------------------------------------------------

    def _judged(
        self,
        request: CallRequest,
        call: Call,
        made: _CallOutcome,
        expected: tuple[Expected, ...],
        *,
        in_any_order: bool,
    ) -> tuple[Failure | None, float]:
        """Return the failure of a call, or None, and its largest error; note whether it was right."""
        part, recipe, outcome = request.part, call.recipe, made.outcome
        inputs = partial(self.truth.inputs, recipe)
        failure, worst = check_answer(outcome, expected, inputs, self.path)
        failure = check_device(outcome, "cpu" if part.on == "cpu" else self.device) or failure
        if not failure and made.is_replay and in_any_order and isinstance(outcome, Finished):
            assert made.recorded is not None
            right = RightCall(made.recorded, call, outcome, expected, inputs, self.path)
            failure = perturbed_failure(self.pair, right)
        failure = failure and self._naming_omitted(failure, call)
        if failure and isinstance(outcome, Finished):
            failure = self._with_wrong_call(failure, WrongCall(recipe, outcome, expected))
        elif part is self.part:
            launches = outcome.answer.launches if made.is_replay and isinstance(outcome, Finished) else ()
            self.findings.note_right(request.case, expected, launches)
        if part is self.part and request.is_plain:
            self.findings.tried.append(TriedCase.of(request.case, request.seed, failure))
        return failure, worst

    def _naming_omitted(self, failure: Failure, call: Call) -> Failure:
        """Return the failure, extended by the names of the arguments that the call left out."""
        count = len(call.given(self.truth.inputs(call.recipe))) if call.defaults else len(call.arguments)
        if count == len(call.arguments):
            return failure
        names = all_of(call.arguments[count:])
        rationale = f"{failure.cause.rationale} The call left out {names}.".strip()
        return replace(failure, cause=replace(failure.cause, rationale=rationale))

    def _with_wrong_call(self, failure: Failure, wrong_call: WrongCall) -> Failure:
        """Return the failure with its call, and with a clue where a recent call had this answer."""
        clues = failure.clues
        recent = self.findings.recent if failure.cause.mismatch is not None else ()
        if any(_is_answer_to(wrong_call, earlier) for earlier in recent):
            clues = (*clues, sure("remembered_result", "This is the right answer to an earlier call, on other inputs."))
        return replace(failure, wrong_call=wrong_call, clues=clues)
