"""Make one wrong call again with edited texts of its submission.

Take a bench, the recipe of a call and a text, and return whether the call is right with that text. Keep no evidence.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

from grader.judge.bench import Bench
from grader.judge.compare import compare, tensor_of
from grader.judge.retrials import recorded_again
from grader.protocol.observations import BranchTaken
from grader.protocol.requests import Call, Recipe, ReplayCall, Unwritten
from grader.protocol.trace import Launch, Trace, launches_in
from grader.sandbox.outcome import Finished, Outcome
from grader.sandbox.pair import RecordedAnswer
from grader.sandbox.side_by_side import SideBySide


@dataclass(frozen=True)
class Edited:
    """One call of a bench, made with edited texts of the submission. recorded: by the submission's own launch code."""

    bench: Bench
    recipe: Recipe
    recorded: RecordedAnswer | None
    call: Call

    @classmethod
    def of(cls, bench: Bench, recipe: Recipe) -> Edited:
        """Record a call again, to make it with other texts of the submission."""
        return cls(bench, recipe, *recorded_again(bench, recipe))

    def begin(self, together: SideBySide, place: int, text_of: Callable[[], str], most_s: float) -> None:
        """Begin to make the call with another text, whose launch code is the same. text_of: makes the text."""
        if self.recorded is not None:
            self.bench.pair.begin_edited(together, place, self.recorded, self.call, text_of, most_s)

    def is_right_answer(self, outcome: Outcome | None) -> bool:
        """Return whether an outcome is the right answer to the call."""
        return outcome is not None and self.bench.gives_right(self.recipe, outcome)

    def is_right(self, text: str, most_s: float, *, in_kernel: bool) -> bool:
        """Return whether the call is right with another text, by the same kernels. in_kernel: launch code is the same.

        An edit that leads to another kernel, which was right before, fixes nothing. Nor does an edit that leaves one
        program of several: a launch of one program hides races.
        """
        if in_kernel:
            return self._is_right(self.recorded, text, most_s)
        with self.bench.findings.aside(), self.bench.pair.in_new_process(text):
            recorded = recorded_again(self.bench, self.recipe)[0]
            if not recorded or not self.recorded or _kernels_of(recorded.trace) != _kernels_of(self.recorded.trace):
                return False
            if _is_of_one_program(recorded.trace) and not _is_of_one_program(self.recorded.trace):
                return False
            return self._is_right(recorded, text, most_s)

    def branches(self, most_s: float) -> tuple[BranchTaken, ...] | None:
        """Return the branches that the kernels take in the call; None if it does not return."""
        if self.recorded is None:
            return None
        outcome = self._replayed(self.recorded, most_s, branches=True)
        return outcome.answer.branches if isinstance(outcome, Finished) else None

    def outputs_with(self, text: str, most_s: float, unwritten: Unwritten) -> tuple[bytes | None, ...] | None:
        """Return the outputs by the kernels of another text; None if the call does not return.

        unwritten: the content of new memory.
        """
        if self.recorded is None:
            return None
        outcome = self._replayed(self.recorded, most_s, text=text, unwritten=unwritten)
        return outcome.outputs if isinstance(outcome, Finished) else None

    def wrong_outputs(self, text: str, most_s: float) -> tuple[tuple[int, bool], ...]:
        """Return the storage of each output, and whether its values are wrong; () if the call does not return them."""
        if self.recorded is None:
            return ()
        outcome = self._replayed(self.recorded, most_s, text=text)
        expected = self.bench.truth.expect(self.bench.part, self.recipe)
        if not isinstance(outcome, Finished) or len(outcome.outputs) != len(expected):
            return ()
        trace = self.recorded.trace
        storages = [trace.windows[one.window].storage if one.window >= 0 else -1 for one in trace.outputs]
        storages += [trace.arguments[name] for name in self.call.mutates]
        pairs = zip(outcome.outputs, expected, strict=True)
        wrong = [raw is None or not compare(tensor_of(raw, output), output).agrees for raw, output in pairs]
        return tuple(zip(storages, wrong, strict=True))

    def _is_right(self, recorded: RecordedAnswer | None, text: str, most_s: float) -> bool:
        if recorded is None:
            return False
        return self.is_right_answer(self._replayed(recorded, most_s, text=text))

    def _replayed(
        self,
        recorded: RecordedAnswer,
        most_s: float,
        *,
        text: str = "",
        branches: bool = False,
        unwritten: Unwritten = "nan",
    ) -> Outcome | None:
        request = ReplayCall(self.call, recorded.message, "isolated", text=text, branches=branches, unwritten=unwritten)
        return self.bench.pair.replay_request(recorded, request, most_s)


def _is_of_one_program(trace: Trace) -> bool:
    """Return whether every launch of a trace has one program."""
    return all(prod(one.grid) == 1 for one in launches_in(trace.steps) if isinstance(one, Launch))


def _kernels_of(trace: Trace) -> list[str]:
    """Return the names of the kernels that a call launches, in order."""
    return [trace.kernels[one.kernel].name for one in launches_in(trace.steps) if isinstance(one, Launch)]
