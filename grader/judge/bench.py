"""Where a part is put to the test: runs calls, examines them, and keeps the evidence of all of them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Literal

from grader.judge.causes import Failure, Seen, check_device, examine
from grader.judge.clues import sure
from grader.judge.compare import compare, tensor_of
from grader.judge.contrast import Tried
from grader.judge.truth import Expected, Truth, slots_for
from grader.model.cases import Case
from grader.model.exercise import Part
from grader.plan import PlannedCase
from grader.protocol.messages import Call, Launch, Recipe, Returned, Slot
from grader.record import clean
from grader.sandbox.outcome import Finished, Outcome, OutOfTime
from grader.sandbox.session import Session

# So many right answers are remembered, and so many elements tell that one comes again.
_RECENT = 6
_TELLING = 4


@dataclass(frozen=True)
class Trial:
    """One call and what is wrong with it (None: nothing). `worst` is its error in units of the allowed one."""

    recipe: Recipe
    outcome: Outcome
    expected: tuple[Expected, ...]
    failure: Failure | None
    worst: float

    @property
    def launches(self) -> tuple[Launch, ...]:
        """The kernels that the call launched."""
        return self.outcome.answer.launches if isinstance(self.outcome, Finished) else ()


@dataclass(frozen=True)
class Evidence:
    """What one returned call did: the kernels that it launched and the operations in them, the operators that it ran.

    Names alone: that of all calls is kept, and the answers themselves may be as large as a frame.
    """

    case: Case
    kernels: tuple[str, ...]
    operations: frozenset[str]
    operators: tuple[str, ...]


def _evidence(case: Case, answer: Returned) -> Evidence:
    return Evidence(
        case,
        tuple(dict.fromkeys(clean(launch.kernel, 80) for launch in answer.launches)),
        frozenset(clean(name, 80) for launch in answer.launches for name in launch.constants),
        tuple(dict.fromkeys(clean(name, 80) for name in answer.operators)),
    )


def _is_answer_to(seen: Seen, earlier: tuple[Expected, ...]) -> bool:
    """Whether what was returned is right for `earlier`, to the last element of more than a few."""
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
    """One part of one submission: a session with its process, and the truth.

    `evidence` is of every call; `tried` says which cases failed, and `recent` what right answers were; `passed` are
    cases of the checks that passed, a few of each; `salt`, a number that follows from the submission's text, chooses
    among them what nobody can know while writing that text. `calls_s` is how long all calls took, of at most `most_s`.
    """

    session: Session
    truth: Truth
    part: Part
    path: str
    device: str
    salt: int
    evidence: list[Evidence] = field(default_factory=list)
    passed: list[PlannedCase] = field(default_factory=list)
    tried: list[Tried] = field(default_factory=list)
    recent: list[tuple[Expected, ...]] = field(default_factory=list)
    most_s: float = math.inf
    calls_s: float = 0.0

    @contextmanager
    def aside(self) -> Iterator[None]:
        """What runs inside is no evidence of how the part works on the planned cases, and none of them."""
        evidence, passed, tried = list(self.evidence), list(self.passed), list(self.tried)
        try:
            yield
        finally:
            self.evidence[:], self.passed[:], self.tried[:] = evidence, passed, tried

    def try_case(
        self,
        case: Case,
        seed: int,
        *,
        patch_seed: int | None = None,
        storage: Literal["new", "same"] = "new",
        decoy_seed: int | None = None,
        carries: tuple[str, ...] = (),
        part: Part | None = None,
    ) -> Trial:
        """Run the part's function on one case and examine what it returned.

        With `decoy_seed` the call is sealed: only kernels see the inputs' values (grader.child.sealing). Arguments in
        `carries` stay as the call before left them. A call of another `part` is no evidence of how this one works.
        """
        part = part or self.part
        recipe = Recipe(part.name, dict(case), seed, patch_seed)
        expected = self.truth.expect(part, recipe)
        outcome = self.call(recipe, slots_for(expected), storage, decoy_seed, carries=carries, part=part)
        if isinstance(outcome, Finished) and part is self.part:
            self.evidence.append(_evidence(case, outcome.answer))
        failure, worst = examine(outcome, expected, self.truth.inputs(recipe), self.path)
        device = "cpu" if part.on == "cpu" else self.device
        failure = check_device(outcome, device) or failure
        if failure and isinstance(outcome, Finished):
            failure = self._seen(failure, Seen(recipe, outcome, expected))
        elif part is self.part:
            self.recent[:] = [*self.recent[1 - _RECENT :], expected]
        if part is self.part and patch_seed is None and storage == "new" and decoy_seed is None:
            self.tried.append(Tried(case, failure is not None, seed))
        return Trial(recipe, outcome, expected, failure, worst)

    def _seen(self, failure: Failure, seen: Seen) -> Failure:
        """The failure with what was seen; and whether it is the right answer to another call, of not long ago."""
        clues = failure.clues
        if failure.cause.mismatch is not None and any(_is_answer_to(seen, earlier) for earlier in self.recent):
            clues = (*clues, sure("remembered_result", "This is the right answer to an earlier call, on other inputs."))
        return replace(failure, seen=seen, clues=clues)

    def call(
        self,
        recipe: Recipe,
        slots: tuple[Slot, ...],
        storage: Literal["new", "same"] = "new",
        decoy_seed: int | None = None,
        *,
        carries: tuple[str, ...] = (),
        part: Part | None = None,
    ) -> Outcome:
        """Run the part's function once, the way the part is called."""
        part = part or self.part
        if self.calls_s > self.most_s:
            return OutOfTime(self.most_s)
        call = Call(
            recipe,
            part.arguments,
            part.mutates,
            slots,
            storage,
            decoy_seed,
            carries,
            on_cpu=part.on == "cpu",
            tensors=part.tensors,
            chooses=part.chooses,
        )
        before_s = self.session.worked_s
        outcome = self.session.call(call)
        self.calls_s += self.session.worked_s - before_s
        return outcome
