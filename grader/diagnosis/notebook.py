"""Keep what a grading has shown of failed checks and of their parts: clues, faults of the search, suspects."""

from __future__ import annotations

import traceback
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from grader.diagnosis.case_contrast import contrasts_of
from grader.diagnosis.cross_check import explaining
from grader.diagnosis.gathering import space_of
from grader.diagnosis.kinds import known_kinds
from grader.diagnosis.known_mistakes import changed_by
from grader.diagnosis.probes.variations import Variation, left_a_tensor
from grader.diagnosis.ranking import PartFacts, remedied, suspects_of
from grader.exercise.cases import Case
from grader.exercise.causes import Shown
from grader.exercise.model import Exercise, check_id
from grader.exercise.plan import PlannedCheck
from grader.judge.clue import Clue
from grader.judge.failure import WrongCall
from grader.judge.trial import TriedCase
from grader.judge.truth import Truth
from grader.protocol.requests import Recipe
from grader.record.causes import Suspect

# From this weight on, a clue names its kind: another check's proof of that kind then counts here too.
_NAMED = 0.3
# The largest weight of other clues after a probe has proved a cause.
_DOUBTED = 0.5
# What large errors show.
_LARGE = (Shown.FAR, Shown.NOT_FINITE, Shown.ACCESS)


@dataclass
class CheckNotes:
    """Keep what is known of the failure of one check.

    clues: None before it failed. words: lead and advice on its card. wrong: its first wrong call. smallest: the
    smallest call found that fails as it does. is_slow: its failing calls take too long to be repeated. fault: an error
    in the search for its cause.
    """

    clues: list[Clue] | None = None
    shown: Shown = Shown.BESIDE
    words: tuple[str, str] = ("", "")
    wrong: WrongCall | None = None
    smallest: Recipe | None = None
    is_slow: bool = False
    fault: str = ""


@dataclass
class PartNotes:
    """Keep what is known of one part, for all its checks.

    tried: the cases that ran; None before the first failure. varied: variations of its first failing case; None before
    they ran. unpadded: masked lanes changed nothing where a failure had a confirmed cause (True), or had none (False).
    fails_as_first_call: a call is wrong without earlier ones too. On a GPU: interpreted, anew: the number of cases
    that were repeated in the interpreter, and in a new process.
    """

    tried: list[TriedCase] | None = None
    varied: list[Variation] | None = None
    unpadded: set[bool] = field(default_factory=set)
    fails_as_first_call: bool = False
    interpreted: int = 0
    anew: int = 0


class Notebook:
    """The notes of one grading.

    checks: by id, in the order of the failures. parts: by name. kinds: those that a part can have, by its name. known:
    the kinds of the exercise.
    """

    def __init__(self, exercise: Exercise, truth: Truth) -> None:
        self._exercise = exercise
        self._truth = truth
        self._changed: dict[tuple[str, str, str], bool] = {}
        self.known = known_kinds(exercise)
        self.kinds = {part.name: known_kinds(exercise, part) for part in exercise.parts}
        self.checks: defaultdict[str, CheckNotes] = defaultdict(CheckNotes)
        self.parts: defaultdict[str, PartNotes] = defaultdict(PartNotes)

    def clues(self, check: str) -> list[Clue]:
        """Return the clues of a check; none before it failed."""
        return self.checks[check].clues or []

    def add(self, checks: Iterable[str], clue: Clue) -> None:
        """Add a clue to these checks."""
        for one in checks:
            self.checks[one].clues = [*self.clues(one), clue]

    @contextmanager
    def noting_faults(self, *checks: str) -> Iterator[None]:
        """Note an error in the search for the causes of these checks, and continue after the block."""
        try:
            yield
        except Exception as fault:
            last = traceback.extract_tb(fault.__traceback__)[-1]
            for one in checks:
                self.checks[one].fault = f"{type(fault).__name__} in {Path(last.filename).name}, line {last.lineno}"

    def suspects(self, planned: PlannedCheck, own: Sequence[Clue]) -> tuple[Suspect, ...]:
        """Return what may be behind the failure of a check, by its own clues and by all that is known of the part."""
        # Keep what a replay proved: a kernel may reduce although its part does not.
        proved = {clue.kind: self.known[clue.kind] for clue in own if clue.confirmed and clue.kind in self.known}
        kinds = {**self.kinds[planned.part.name], **proved}
        part = self.parts[planned.part.name]
        tried = _by_large_errors(part.tried or []) if self.checks[planned.id].shown in _LARGE else part.tried or []
        # How a case of wrong values depends on its axes says nothing of an access outside a tensor.
        wrong = self.checks[planned.id].wrong
        by_access = left_a_tensor(wrong)
        varied = [one for one in part.varied or [] if one.outside or not by_access]
        if wrong is not None:
            varied = [one for one in varied if one.speaks_of(Case(wrong.recipe.case))]
        declared = contrasts_of(self._exercise.contrasts, planned.part.name)
        elsewhere = [clue for clues in self.elsewhere(planned, own) for clue in clues]
        suspects = suspects_of(own, elsewhere, PartFacts(kinds, tried, space_of(planned.part), declared, varied))
        return remedied(suspects, tried, self._exercise.remedies, planned.part.name)

    def elsewhere(self, planned: PlannedCheck, own: Sequence[Clue] = ()) -> list[list[Clue]]:
        """Return the clues of the part's other failed checks, in the order of the failures.

        A confirmed clue is left out if it cannot lead to what this check shows, or leaves its first wrong call right.
        own: the clues of this check.
        """
        siblings = {check_id(planned.part, check) for check in planned.part.checks} - {planned.id}
        shown = self.checks[planned.id].shown
        failed = [(one.clues, one.shown) for name, one in self.checks.items() if name in siblings]
        named = {clue.kind for clue in own if clue.weight >= _NAMED}
        told = [explaining(clues, told_by, shown, named) for clues, told_by in failed if clues is not None]
        return [[clue for clue in clues if not self._spares(clue, planned)] for clues in told]

    def _spares(self, clue: Clue, planned: PlannedCheck) -> bool:
        """Return whether a mistake that another check has confirmed leaves the first wrong call of this one right."""
        wrong = self.checks[planned.id].wrong
        if wrong is None or not clue.by_known_mistake or clue.of_inputs or not (clue.confirmed and clue.title):
            return False
        key = planned.id, clue.kind, clue.title
        if key not in self._changed:
            self._changed[key] = changed_by(self._truth, planned.part, wrong.recipe, clue.kind, clue.title)
        return not self._changed[key]


def _by_large_errors(tried: Sequence[TriedCase]) -> list[TriedCase]:
    """Return the cases without failures as rounding makes them: these have another cause than large errors."""
    return [replace(one, failed=False) if one.slightly else one for one in tried]


def doubted(clue: Clue) -> Clue:
    """Return a clue by values beside a probe that proves another cause."""
    return replace(clue, confirmed=False, weight=min(clue.weight, _DOUBTED))
