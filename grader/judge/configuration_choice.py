"""Choose the configurations of autotuned kernels that the calls of one part run.

An autotuner may choose any configuration that works, and passes over those that the GPU refuses.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from grader.exercise.cases import QUICK_VOLUME
from grader.judge.perturbed_replays import is_unfinished
from grader.judge.refused_configurations import RefusedConfigurations
from grader.judge.trial import CallRequest, number_of
from grader.protocol.answers import COMPUTED, ONLY_ON_A_GPU, TOO_SLOW, UNRECORDABLE, Raised
from grader.protocol.requests import ANY, Call, Wanted, only
from grader.sandbox.outcome import Finished, Outcome
from grader.sandbox.pair import Pair, RecordedAnswer

# On a GPU, one case in so many begins with another configuration than the first.
_ONE_IN_ON_A_GPU = 4


@dataclass
class ConfigurationChoice:
    """The configurations of a part's autotuned kernels, and what is known of them.

    pair: replays. refused: those that the compiler was asked about. interprets: there is no GPU beside the interpreter.
    only_on_a_gpu: those that only a GPU runs: the part, of how many, and which. It grows.
    """

    pair: Pair
    refused: RefusedConfigurations
    interprets: bool
    only_on_a_gpu: set[tuple[str, int, int]]

    def wanted(self, request: CallRequest, recorded: RecordedAnswer) -> Wanted:
        """Return the configurations that a call may run, the one to try first in front.

        In the interpreter each quick case begins with another one, so that together the cases try them all. A GPU
        compiles each, so there only some cases do.
        """
        if request.wanted.places:
            return request.wanted
        part, count = recorded.call.recipe.part, recorded.configurations
        if count < 2:
            return ANY
        refused = self.refused.wrong_ones(part, count)
        unable = {place for place in range(count) if (part, count, place) in self.only_on_a_gpu}
        places = tuple(place for place in range(count) if place not in refused and place not in unable)
        turns, number = divmod(number_of(request.case), _ONE_IN_ON_A_GPU)
        if places and request.is_plain and request.case.volume <= QUICK_VOLUME and (self.interprets or number == 0):
            turn = turns % len(places)
            places = (*places[turn:], *places[:turn])
        return ANY if places == tuple(range(count)) else Wanted(places)

    def finished(self, recorded: RecordedAnswer, call: Call, outcome: Outcome, wanted: Wanted) -> Outcome:
        """Return the outcome in the first configuration that the interpreter can run; else the first outcome.

        After one that is too slow, only the next is tried: each takes seconds. The check of every configuration says
        which ones only a GPU runs.
        """
        part, count = call.recipe.part, recorded.configurations
        tried, places = outcome, [*(wanted.places or range(count))]
        while len(places) > 1 and is_unfinished(tried):
            place = places.pop(0)
            if isinstance(tried, Raised) and tried.kind != TOO_SLOW:
                self.only_on_a_gpu.add((part, count, place))
            else:
                places = places[:1]
            tried = self.pair.replay_isolated(recorded, call, only(places[0]))
        return outcome if is_unfinished(tried) else tried

    def without_refused(
        self,
        recorded: RecordedAnswer,
        call: Call,
        outcome: Outcome,
        wanted: Wanted,
        is_right: Callable[[Outcome], bool],
    ) -> Outcome:
        """Return the outcome without the configurations that are wrong and that the GPU refuses.

        wanted: those that the call ran, in order.
        """
        part, count = call.recipe.part, recorded.configurations
        untried = isinstance(outcome, Raised) and outcome.kind in (*ONLY_ON_A_GPU, COMPUTED, UNRECORDABLE)
        if count < 2 or untried or is_right(outcome):
            return outcome
        if isinstance(outcome, Finished) and self.refused.is_taken(part, count, outcome.answer.configuration):
            return outcome
        known = self.refused.wrong_ones(part, count)
        # It may have run before they were known.
        any_refused = bool(known) and not (isinstance(outcome, Finished) and outcome.answer.configuration not in known)
        for place in wanted.places or range(count):
            if place in known:
                continue
            tried = self.pair.replay_isolated(recorded, call, only(place))
            if is_right(tried) or not self.refused.why(recorded, place, tried):
                return tried if any_refused else outcome
            any_refused = True
        # All are refused: the failure of the first one counts.
        self.refused.forget_wrong_ones(part, count)
        return outcome
