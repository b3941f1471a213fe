"""Where a part is put to the test: runs calls, examines them, and keeps the evidence of all of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

from grader.judge.causes import Failure, check_device, examine
from grader.judge.truth import Expected, Truth, slots_for
from grader.model.cases import Case
from grader.model.exercise import Part
from grader.plan import PlannedCase
from grader.protocol.messages import Call, Launch, Recipe, Returned, Slot
from grader.record import clean
from grader.sandbox.outcome import Finished, Outcome
from grader.sandbox.session import Session


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


@dataclass
class Bench:
    """One part of one submission: a session with its process, and the truth.

    `evidence` is of every call; `passed` are cases of the checks that passed, a few of each; `salt`, a number that
    follows from the submission's text, chooses among them what nobody can know while writing that text.
    """

    session: Session
    truth: Truth
    part: Part
    path: str
    device: str
    salt: int
    evidence: list[Evidence] = field(default_factory=list)
    passed: list[PlannedCase] = field(default_factory=list)

    @contextmanager
    def aside(self) -> Iterator[None]:
        """What runs inside is no evidence of how the part works on the planned cases, and none of them."""
        evidence, passed = list(self.evidence), list(self.passed)
        try:
            yield
        finally:
            self.evidence[:], self.passed[:] = evidence, passed

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
        return Trial(recipe, outcome, expected, check_device(outcome, device) or failure, worst)

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
        return self.session.call(
            Call(
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
        )
