"""Explain failures: collect clues during a grading, and rank them when all results of a part are known.

Takes failures and tried cases, and gives causes with suspects. It changes no status and no points. An error in it
costs the learner nothing, and is told as a note.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from grader.diagnosis.cross_check import explaining, shown_by
from grader.diagnosis.edits.repairs import repair_clues
from grader.diagnosis.edits.slips import SLIP
from grader.diagnosis.edits.unmasked import unmasked_clue
from grader.diagnosis.edits.unstored import KIND as UNWRITTEN
from grader.diagnosis.edits.unstored import unstored_clue
from grader.diagnosis.gathering import clues_in, gathered, space_of
from grader.diagnosis.kinds import known_kinds, of_family
from grader.diagnosis.probes.branches import partings_of
from grader.diagnosis.probes.contraction import contraction_clues
from grader.diagnosis.probes.interpreted import (
    EXPLAINED,
    is_right_relaunched,
    remembered_there,
    right_in_interpreter,
    with_access,
)
from grader.diagnosis.probes.nonfinite import nonfinite_clues
from grader.diagnosis.probes.padding import KIND as PADDING
from grader.diagnosis.probes.padding import masks_lanes, padding_clues, padding_elsewhere
from grader.diagnosis.probes.repeats import again, repeated_work
from grader.diagnosis.probes.unwritten import unwritten_clues
from grader.diagnosis.probes.variations import Variation, variations_of
from grader.diagnosis.ranking import explained, remedied, suspects_of
from grader.diagnosis.surroundings import with_surroundings
from grader.exercise.cases import QUICK_VOLUME
from grader.exercise.causes import Shown
from grader.exercise.model import Exercise, check_id
from grader.exercise.plan import PlannedCase, PlannedCheck
from grader.judge.bench import Bench
from grader.judge.clue import Clue, sure
from grader.judge.failures import NO_CAUSE, Failure, WrongCall
from grader.judge.retrials import remembered
from grader.judge.rules import ruling_of
from grader.judge.rules.kernels_only import LEFT_OVER
from grader.judge.ruling import Ruling
from grader.judge.trial import TriedCase
from grader.judge.truth import Truth
from grader.protocol.messages import Recipe
from grader.record import CheckResult, Suspect

# A failing call that takes longer is not repeated for clues.
_PROBE_S = 0.5
# The weight of the line beside a kind of too few bits, which values confirm without a line.
_LINE = 0.9
# The least weight of a clue that names a kind, so that what another check confirms of it holds here too.
_NAMED = 0.3
# From this weight on, a known mistake says more than an edit that has no name.
_TOLD = 0.8
# The largest weight of other clues once a probe has proved a cause.
_DOUBTED = 0.5
# Failing checks of a part whose case is repeated in the interpreter, on a GPU; larger cases take it a minute.
_MOST_INTERPRETED, _LARGEST_INTERPRETED = 8, 16 * QUICK_VOLUME


class Diagnosis:
    """The clues of one grading."""

    def __init__(self, exercise: Exercise, truth: Truth) -> None:
        self._exercise = exercise
        self._truth = truth
        # By check: clues of its failure, what it shows, and its words. By part: the cases that ran.
        self._clues: dict[str, list[Clue]] = {}
        self._shown: dict[str, Shown] = {}
        self._words: dict[str, tuple[str, str]] = {}
        self._tried: dict[str, list[TriedCase]] = {}
        # Parts in which masked lanes changed nothing, where the failure had a confirmed cause or where it had none.
        self._unpadded: set[tuple[str, bool]] = set()
        # Parts in which a call is wrong without earlier ones too.
        self._alone: set[str] = set()
        # By part: variations of its first failing case.
        self._varied: dict[str, list[Variation]] = {}
        # Checks whose failing calls take too long to be repeated.
        self._slow: set[str] = set()
        # By check: its first wrong call.
        self._wrong: dict[str, WrongCall] = {}
        # The smallest call found that fails as it does.
        self._smallest: dict[str, Recipe] = {}
        # By part: number of cases that were repeated in the interpreter, on a GPU.
        self._interpreted: dict[str, int] = {}
        # By check: an error in the search for its cause.
        self._faults: dict[str, str] = {}

    def hear(self, planned: PlannedCheck, failure: Failure) -> None:
        """Store the clues of a failure that no bench can look at again."""
        self._shown[planned.id] = shown_by(failure)
        self._clues[planned.id] = clues_in(failure, planned.part, self._truth)

    def look_closer(self, bench: Bench, planned: PlannedCheck, ruling: Ruling, worked_s: float) -> Failure | None:
        """Store the clues of a ruling's failure. Return the failure to show, or None where there is none.

        worked_s: seconds that all answers of the ruling took, without waits: a busy machine finds the same clues.
        Failing calls that are quick are repeated, for more clues.
        """
        first = ruling.failure
        if first is None or first.status in NO_CAUSE:
            return first
        if first.seen is not None and first.seen.recipe.part == planned.part.name:
            self._wrong[planned.id] = first.seen
        self._shown[planned.id] = shown_by(first)
        others = self._elsewhere(planned)
        known = any(clue.confirmed for clues in others for clue in clues)
        self._tried[planned.part.name] = bench.findings.tried
        self._words[planned.id] = first.lead, first.advice
        self._clues[planned.id], shown = [], first
        with self._noting_faults(planned.id):
            clues, told = gathered(bench, first, ruling.alike, known=known)
            calls = max(1, int(float(ruling.metrics.get("cases", 1))))
            is_quick = worked_s / calls <= _PROBE_S
            if not is_quick:
                self._slow.add(planned.id)
            if is_quick and first.cause.mismatch is not None and any(clue.confirmed for clue in clues):
                proved = self._proved_otherwise(bench, (first, *ruling.alike))
                if proved:
                    clues, told = [*proved, *map(_doubted, clues)], first
            if not any(clue.confirmed for clue in clues):
                known_padding = [clue for one in others for clue in one if clue.kind == PADDING and clue.confirmed]
                clues += self._padding_clues(bench, first) if is_quick else padding_elsewhere(first, known_padding)
            for search in (contraction_clues, *(() if others else (again,)), unwritten_clues, nonfinite_clues):
                if is_quick and not any(clue.confirmed for clue in clues):
                    clues += search(bench, first)
            if first.status == "timeout":
                clues = repeated_work(bench) or clues
            if is_quick and not any(clue.confirmed for clue in clues):
                clues += self._probed(bench, planned, (first, *ruling.alike), others)
            self._clues[planned.id], shown = clues, told
        with self._noting_faults(planned.id):
            return with_surroundings(shown, planned.part, self._truth)
        return shown

    @contextmanager
    def _noting_faults(self, *checks: str) -> Iterator[None]:
        """Note an error in the search for the causes of these checks, and go on behind the block."""
        try:
            yield
        except Exception as fault:
            last = traceback.extract_tb(fault.__traceback__)[-1]
            where = f"{type(fault).__name__} in {Path(last.filename).name}, line {last.lineno}"
            self._faults.update(dict.fromkeys(checks, where))

    def _proved_otherwise(self, bench: Bench, alike: Sequence[Failure]) -> Sequence[Clue]:
        """Return the clue of a probe where the values are those of a mistake.

        A probe proves more than equal values do. What an earlier call left may be what the mistake gives, and so may
        undefined lanes. alike: the failures of the check, the one to show first.
        """
        first = alike[0]
        if first.seen is None:
            return ()
        undefined = first.seen.outcome.answer.undefined
        return self._remembered(bench, first.seen, alike) or [
            clue for clue in (self._padding_clues(bench, first, doubting=True) if undefined else ()) if clue.confirmed
        ]

    def _remembered(self, bench: Bench, seen: WrongCall, alike: Sequence[Failure]) -> Sequence[Clue]:
        """Return the clue of a call that an earlier one spoils. A part is asked until the answer is no."""
        if seen.recipe.part != bench.part.name or bench.part.name in self._alone:
            return ()
        found = remembered(bench, seen.recipe, seen.outcome)
        if not found:
            self._alone.add(bench.part.name)
        elif found[0].kind == "remembered_input" and any(
            clue.kind == LEFT_OVER for failure in alike for clue in failure.clues
        ):
            # An input that is remembered is missing without the memory that holds it.
            return [sure(LEFT_OVER, f"{found[0].seen} It is right without their memory too.")]
        return found

    def _probed(
        self, bench: Bench, planned: PlannedCheck, alike: Sequence[Failure], others: Sequence[Sequence[Clue]]
    ) -> Iterable[Clue]:
        """Return the clue of a call that an earlier one spoils; run variations of the case of any other.

        A cause that another check has confirmed explains this one too. alike: the failures of the check, the one to
        show first.
        """
        seen = alike[0].seen
        if seen is None or seen.recipe.part != bench.part.name:
            return ()
        known = {clue.kind for clues in others for clue in clues if clue.confirmed}
        if known.difference(of_family("earlier calls")) or bench.part.name in self._varied:
            return ()
        found = self._remembered(bench, seen, alike)
        if not found:
            self._vary(bench, planned, seen)
        return found

    def _vary(self, bench: Bench, planned: PlannedCheck, seen: WrongCall) -> None:
        """Run variations of a failing case."""
        part, cases = planned.part.name, planned.check.cases
        if cases is not None and seen.recipe.patch_seed is None:
            declared = [one for one in self._exercise.contrasts if one.part in ("", part)]
            self._varied[part] = variations_of(bench, seen, declared, cases.space)

    def search_repair(self, bench: Bench, planned: Sequence[PlannedCheck], text: str) -> None:
        """Search for an edit of the submission's text that makes a part right.

        Where a cause of the first failure is confirmed, only its line is looked for: that of too few bits, or that
        which keeps a store from happening. planned: the checks of the part. bench: interprets.
        """
        failed = [one for one in planned if one.id in self._wrong]
        if not failed:
            return
        if known := [clue.kind for clue in self._clues.get(failed[0].id, ()) if clue.confirmed]:
            if set(known) <= set(of_family("few bits")):
                self._name_dtype(bench, failed, text, known[0])
            self._name_what_is_not_stored(bench, failed, text)
            return
        with self._noting_faults(*(one.id for one in failed)):
            self._name_unmasked_index(bench, failed, text)
            suspected = [one.kind for one in self._suspects(failed[0], self._clues[failed[0].id])]
            calls = self._failing_calls(failed)
            clues = [clue for one in planned for clue in self._clues.get(one.id, ())]
            told = any(clue.by_known_mistake and clue.weight >= _TOLD for clue in clues)
            in_launch = any(clue.in_launch for clue in self._clues[failed[0].id])
            # On a GPU, the cases that passed there: the interpreter has tried few.
            tried = list(self._tried.get(bench.part.name, bench.findings.tried))
            bench = replace(bench, findings=replace(bench.findings, tried=tried))
            with bench.findings.aside():
                partings, parting = partings_of(bench, text, calls)
            if parting is not None:
                self._clues[failed[0].id] += [parting]
            lines = {line for one in partings for line in one.lines}
            kinds = known_kinds(self._exercise)
            for clue in repair_clues(bench, text, calls, suspected, kinds, in_launch=in_launch, parting=lines):
                # The values of a mistake that has a name say more than a slip.
                found = _doubted(clue) if clue.kind == SLIP and told else clue
                for one in failed:
                    # What gives the values of another check only gives them by chance.
                    own = [_doubted(each) if each.by_known_mistake else each for each in self._clues.get(one.id, ())]
                    self._clues[one.id] = [*own, found]

    def _failing_calls(self, failed: Sequence[PlannedCheck]) -> list[Recipe]:
        """Return the failing calls of checks, then the smallest ones."""
        smallest = [self._smallest[one.id] for one in failed if one.id in self._smallest]
        return [*(self._wrong[one.id].recipe for one in failed), *smallest]

    def _name_dtype(self, bench: Bench, failed: Sequence[PlannedCheck], text: str, kind: str) -> None:
        """Add the line whose dtype makes a part wrong to what its values have confirmed: a kind of too few bits."""
        with self._noting_faults(*(one.id for one in failed)):
            calls, kinds = self._failing_calls(failed), known_kinds(self._exercise)
            found = repair_clues(bench, text, calls, [kind], kinds, among=of_family("few bits"))
            for one in failed if found else ():
                own = self._clues.get(one.id, [])
                line = replace(found[0], kind=kind, weight=_LINE)
                self._clues[one.id] = [*own, line] if any(clue.kind == kind and clue.confirmed for clue in own) else own

    def _name_unmasked_index(self, bench: Bench, failed: Sequence[PlannedCheck], text: str) -> None:
        """Add the index that a mask says nothing of, to each check in which an access left a tensor by it."""
        told: dict[int, Clue | None] = {}
        for one in failed:
            seen = self._wrong[one.id]
            for found in seen.outcome.answer.findings[:1]:
                if found.line not in told:
                    told[found.line] = unmasked_clue(bench, text, seen)
                if clue := told[found.line]:
                    self._clues[one.id] = [*self._clues.get(one.id, ()), clue]

    def _name_what_is_not_stored(self, bench: Bench, failed: Sequence[PlannedCheck], text: str) -> None:
        """Name the line that keeps a store from happening, where a confirmed cause is memory that nobody wrote."""
        reading = [one for one in failed if any(map(_is_unwritten, self._clues.get(one.id, ())))]
        if not reading:
            return
        with self._noting_faults(*(one.id for one in reading)):
            found = unstored_clue(bench, text, self._wrong[reading[0].id].recipe)
            if found is None:
                return
            for one in reading:
                self._clues[one.id] = [found if _is_unwritten(clue) else clue for clue in self._clues[one.id]]

    def look_at_smallest(self, bench: Bench, planned: PlannedCheck, failure: Failure) -> None:
        """Store the smallest call that fails, and its clues where the first one has no suspect.

        failure: of the smallest case.
        """
        if failure.seen is not None and failure.seen.recipe.part == planned.part.name:
            self._smallest[planned.id] = failure.seen.recipe
        with self._noting_faults(planned.id):
            own = self._clues.get(planned.id, ())
            if failure.status in NO_CAUSE or any(clue.confirmed for clue in own):
                return
            clues: list[Clue] = []
            if not self._suspects(planned, own):
                with bench.findings.aside():
                    clues, _ = gathered(bench, failure, (), known=False)
            if planned.id in self._slow:
                clues += nonfinite_clues(bench, failure)
            self._clues[planned.id] = [*own, *clues]

    def look_in_interpreter(self, bench: Bench, planned: PlannedCheck, failure: Failure, one: PlannedCase) -> Failure:
        """Repeat a case that failed on a GPU in the interpreter. Return the failure to show.

        bench: of the GPU.
        """
        part, interpreted = planned.part.name, bench.interpreted()
        ended = {clue.kind for clue in self._clues.get(planned.id, ()) if clue.confirmed}
        known = ended.difference(of_family("ending"))
        if known or failure.status not in EXPLAINED or self._interpreted.get(part, 0) >= _MOST_INTERPRETED:
            return failure
        if one.case.volume > _LARGEST_INTERPRETED:
            return failure
        self._interpreted[part] = self._interpreted.get(part, 0) + 1
        with self._noting_faults(planned.id):
            ruling = ruling_of(interpreted, planned, one)
            repeated = ruling.failure
            told_nothing = ended if repeated is None else repeated.status not in EXPLAINED
            if ruling.unfit or ruling.undecided or told_nothing:
                return failure
            if repeated is None:
                worst = float(ruling.metrics.get("worst_error_over_allowed", 0.0))
                self._clues[planned.id] = [
                    remembered_there(interpreted, planned, one)
                    or right_in_interpreter(failure, worst, partial(is_right_relaunched, bench, one.case, one.seed))
                ]
                return failure
            if repeated.seen is not None and repeated.seen.recipe.part == part:
                # The search for a repair begins with it.
                self._smallest[planned.id] = repeated.seen.recipe
            clues, _ = gathered(interpreted, repeated, (), known=False)
            for search in (self._padding_clues, contraction_clues, nonfinite_clues):
                if not any(clue.confirmed for clue in clues):
                    clues += search(interpreted, repeated)
            shown = with_access(failure, repeated)
            if ended and shown is failure:
                clues = list(self._clues[planned.id])
            self._clues[planned.id] = clues
            self._shown[planned.id] = shown_by(shown)
            self._words[planned.id] = shown.lead, shown.advice
            return shown
        return failure

    def _padding_clues(self, bench: Bench, failure: Failure, *, doubting: bool = False) -> list[Clue]:
        """Return the clues of masked lanes. A part where they mattered in no earlier failure is not probed again.

        doubting: the failure has a confirmed cause. One without says nothing of those with, and the reverse.
        """
        probed = bench.part.name, doubting
        if probed in self._unpadded or not masks_lanes(failure):
            return []
        found = padding_clues(bench, failure)
        if not found:
            self._unpadded.add(probed)
        return found

    def explained(self, planned: PlannedCheck, result: CheckResult) -> CheckResult:
        """Return the result of the check with the suspects behind its failure, by all that was seen of the part."""
        if result.cause is None or result.status in NO_CAUSE:
            return result
        own = self._clues.get(result.id)
        if own is None:
            failure = Failure(result.status, result.cause)
            self._shown[result.id] = shown_by(failure)
            own = clues_in(failure, planned.part, self._truth)
        with self._noting_faults(planned.id):
            suspects = self._suspects(planned, own)
            cause = explained(result.cause, suspects, *self._words.get(result.id, ()))
            result = replace(result, cause=cause)
        if fault := self._faults.get(result.id):
            note = f"the search for the cause ended early ({fault}): a fault of the grader, which costs no points"
            result = replace(result, notes=(*result.notes, note))
        return result

    def _suspects(self, planned: PlannedCheck, own: Sequence[Clue]) -> tuple[Suspect, ...]:
        """Return what may be behind the failure of a check, by its own clues and by all that was seen of the part."""
        kinds = known_kinds(self._exercise)
        if not planned.part.reduces:
            # What a replay proved stays: a kernel may reduce where its part does not.
            left_out = set(of_family("reduction")) - {clue.kind for clue in own if clue.confirmed}
            kinds = {name: kind for name, kind in kinds.items() if name not in left_out}
        tried = self._tried.get(planned.part.name, [])
        suspects = suspects_of(
            own,
            [clue for clues in self._elsewhere(planned, own) for clue in clues],
            tried,
            space_of(planned.part),
            self._exercise.contrasts,
            kinds,
            planned.part.name,
            self._varied.get(planned.part.name, []),
        )
        return remedied(suspects, tried, self._exercise.remedies, planned.part.name)

    def _elsewhere(self, planned: PlannedCheck, own: Sequence[Clue] = ()) -> list[list[Clue]]:
        """Return the clues of the part's other failed checks, in the order of the failures.

        What they confirm is left out where it cannot lead to what this check shows. own: its clues.
        """
        siblings = {check_id(planned.part, check) for check in planned.part.checks} - {planned.id}
        shown = self._shown.get(planned.id, Shown.BESIDE)
        told = [(clues, self._shown[name]) for name, clues in self._clues.items() if name in siblings]
        named = {clue.kind for clue in own if clue.weight >= _NAMED}
        return [list(explaining(clues, told_by, shown, named)) for clues, told_by in told]


def _is_unwritten(clue: Clue) -> bool:
    """Return whether a clue proves that memory was read that nobody wrote."""
    return clue.confirmed and clue.kind == UNWRITTEN and not clue.title


def _doubted(clue: Clue) -> Clue:
    """Return a clue by values beside a probe that proves another cause."""
    return replace(clue, confirmed=False, weight=min(clue.weight, _DOUBTED))
