"""Explain failures: collect clues during a grading, and rank them when all results of a part are known.

Take failures and tried cases, and return causes with suspects. Change no status and no points. An error here costs the
learner nothing, and the check gets a note.
"""

from __future__ import annotations

import traceback
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from grader.diagnosis.case_contrast import contrasts_of
from grader.diagnosis.cross_check import explaining, shown_by
from grader.diagnosis.edits.edit_scope import SLIP
from grader.diagnosis.edits.limits import UNSHARED, limit_clue
from grader.diagnosis.edits.repairs import repair_clues
from grader.diagnosis.edits.unmasked import unmasked_clue
from grader.diagnosis.edits.unstored import KIND as UNWRITTEN
from grader.diagnosis.edits.unstored import unstored_clue
from grader.diagnosis.gathering import clues_in, gathered, has_proof, space_of
from grader.diagnosis.kinds import known_kinds, of_family
from grader.diagnosis.probes.branches import divergences_of
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
from grader.diagnosis.probes.variations import Variation, left_a_tensor, variations_of
from grader.diagnosis.ranking import PartFacts, explained, remedied, suspects_of
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
from grader.record.causes import Cause, Suspect
from grader.record.checks import CheckResult
from grader.syntax import is_readable

# Only failing calls that take less time than this are repeated for clues.
_PROBE_S = 0.5
# The weight of the line of a kind of too few bits: its values confirm the kind without the line.
_LINE = 0.9
# From this weight on, a clue names its kind: another check's proof of that kind then counts here too.
_NAMED = 0.3
# From this weight on, a known mistake says more than an edit that has no name.
_SAYS_MORE_THAN_A_SLIP = 0.8
# The largest weight of other clues after a probe has proved a cause.
_DOUBTED = 0.5
# On a GPU: how many failing cases of a part are repeated in the interpreter, and the largest of them. Larger cases take
# it a minute.
_MOST_INTERPRETED, _LARGEST_INTERPRETED = 8, 16 * QUICK_VOLUME

# A search for clues of a failure, on a bench.
_Search = Callable[[Bench, Failure], Sequence[Clue]]


@dataclass
class _CheckState:
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
class _PartState:
    """Keep what is known of one part, for all its checks.

    tried: the cases that ran; None before the first failure. varied: variations of its first failing case; None before
    they ran. unpadded: masked lanes changed nothing where a failure had a confirmed cause (True), or had none (False).
    is_alone: a call is wrong without earlier ones too. interpreted: the number of cases that were repeated in the
    interpreter, on a GPU.
    """

    tried: list[TriedCase] | None = None
    varied: list[Variation] | None = None
    unpadded: set[bool] = field(default_factory=set)
    is_alone: bool = False
    interpreted: int = 0


class Diagnosis:
    """The clues of one grading."""

    def __init__(self, exercise: Exercise, truth: Truth) -> None:
        self._exercise = exercise
        self._truth = truth
        self._known = known_kinds(exercise)
        self._kinds = {part.name: known_kinds(exercise, part) for part in exercise.parts}
        # By id, in the order of the failures.
        self._checks: defaultdict[str, _CheckState] = defaultdict(_CheckState)
        self._parts: defaultdict[str, _PartState] = defaultdict(_PartState)

    def hear(self, planned: PlannedCheck, failure: Failure) -> None:
        """Store the clues of a failure that no bench can look at again."""
        check = self._checks[planned.id]
        check.shown = shown_by(failure)
        check.clues = clues_in(failure, planned.part, self._truth)

    def look_closer(self, bench: Bench, planned: PlannedCheck, ruling: Ruling, worked_s: float) -> Failure | None:
        """Store the clues of a ruling's failure. Return the failure to show, or None if there is none.

        worked_s: seconds that all answers of the ruling took, without waits, so that a busy machine finds the same
        clues. Failing calls that are quick are repeated for more clues.
        """
        first = ruling.failure
        if first is None or first.status in NO_CAUSE:
            return first
        check = self._checks[planned.id]
        if first.wrong_call is not None and first.wrong_call.recipe.part == planned.part.name:
            check.wrong = first.wrong_call
        check.shown = shown_by(first)
        others = self._elsewhere(planned)
        self._parts[planned.part.name].tried = bench.findings.tried
        check.words, check.clues, shown = (first.lead, first.advice), [], first
        with self._noting_faults(planned.id):
            alike = (first, *ruling.alike)
            clues, told = gathered(bench, first, ruling.alike, known=any(map(has_proof, others)))
            calls = max(1, int(float(ruling.metrics.get("cases", 1))))
            check.is_slow = worked_s / calls > _PROBE_S
            by_values = has_proof(clues) and not has_proof(first.clues)
            if not check.is_slow and first.cause.mismatch is not None and by_values:
                proved = self._proved_otherwise(bench, alike)
                if proved:
                    clues, told = [*proved, *map(_doubted, clues)], first
            if first.status == "timeout":
                clues = repeated_work(bench) or clues
            if not check.is_slow:
                check.clues = self._searched(bench, planned, alike, others, clues)
            elif not has_proof(clues):
                known_padding = [clue for one in others for clue in one if clue.kind == PADDING and clue.confirmed]
                check.clues = [*clues, *padding_elsewhere(first, known_padding)]
            else:
                check.clues = clues
            shown = told
        with self._noting_faults(planned.id):
            return with_surroundings(shown, planned.part, self._truth)
        return shown

    @contextmanager
    def _noting_faults(self, *checks: str) -> Iterator[None]:
        """Note an error in the search for the causes of these checks, and continue after the block."""
        try:
            yield
        except Exception as fault:
            last = traceback.extract_tb(fault.__traceback__)[-1]
            for one in checks:
                self._checks[one].fault = f"{type(fault).__name__} in {Path(last.filename).name}, line {last.lineno}"

    def _searched(
        self,
        bench: Bench,
        planned: PlannedCheck,
        alike: Sequence[Failure],
        others: Sequence[Sequence[Clue]],
        clues: Sequence[Clue],
    ) -> list[Clue]:
        """Return the clues with those of further searches, up to the first proof.

        alike: the failures of the check, the one to show first. others: clues of other checks of the part.
        """
        searches: tuple[_Search, ...] = (
            self._padding_clues,
            contraction_clues,
            *(() if others else (again,)),
            unwritten_clues,
            nonfinite_clues,
            lambda bench, _: self._probed(bench, planned, alike, others),
        )
        return _until_proof(clues, searches, bench, alike[0])

    def _proved_otherwise(self, bench: Bench, alike: Sequence[Failure]) -> Sequence[Clue]:
        """Return the clue of a probe where the values are those of a mistake.

        A probe proves more than equal values do: what an earlier call left may be what the mistake gives, and so may
        undefined lanes. alike: the failures of the check, the one to show first.
        """
        first = alike[0]
        if first.wrong_call is None:
            return ()
        undefined = first.wrong_call.outcome.answer.undefined
        return self._remembered(bench, first.wrong_call, alike) or [
            clue for clue in (self._padding_clues(bench, first, doubting=True) if undefined else ()) if clue.confirmed
        ]

    def _remembered(self, bench: Bench, wrong_call: WrongCall, alike: Sequence[Failure]) -> Sequence[Clue]:
        """Return the clue of a call that an earlier one spoils. Stop probing a part after the first "no"."""
        part = self._parts[bench.part.name]
        if wrong_call.recipe.part != bench.part.name or part.is_alone:
            return ()
        found = remembered(bench, wrong_call.recipe, wrong_call.outcome)
        if not found:
            part.is_alone = True
        elif found[0].kind == "remembered_input" and any(
            clue.kind == LEFT_OVER for failure in alike for clue in failure.clues
        ):
            # Without the memory of earlier calls, the remembered input is missing.
            return [sure(LEFT_OVER, f"{found[0].evidence} It is right without their memory too.")]
        return found

    def _probed(
        self, bench: Bench, planned: PlannedCheck, alike: Sequence[Failure], others: Sequence[Sequence[Clue]]
    ) -> Sequence[Clue]:
        """Return the clue of a call that an earlier one spoils. Of any other call, run variations of its case.

        A cause that another check has confirmed explains this one too. alike: the failures of the check, the one to
        show first.
        """
        wrong_call = alike[0].wrong_call
        if wrong_call is None or wrong_call.recipe.part != bench.part.name:
            return ()
        known = {clue.kind for clues in others for clue in clues if clue.confirmed}
        if known.difference(of_family("earlier calls")):
            return ()
        varied = self._parts[bench.part.name].varied
        if varied is not None:
            if left_a_tensor(wrong_call) and not any(one.outside for one in varied):
                # Cases of wrong values say nothing of an access.
                self._vary(bench, planned, wrong_call, layout_only=True)
            return ()
        found = self._remembered(bench, wrong_call, alike)
        if not found:
            self._vary(bench, planned, wrong_call)
        return found

    def _vary(self, bench: Bench, planned: PlannedCheck, wrong_call: WrongCall, *, layout_only: bool = False) -> None:
        """Run variations of a failing case. layout_only: only the one in the simplest layout."""
        part, cases = planned.part.name, planned.check.cases
        if cases is not None and wrong_call.recipe.patch_seed is None:
            declared = contrasts_of(self._exercise.contrasts, part)
            found = variations_of(bench, wrong_call, declared, cases.space, layout_only=layout_only)
            self._parts[part].varied = [*(self._parts[part].varied or []), *found]

    def search_repair(self, bench: Bench, planned: Sequence[PlannedCheck], text: str) -> None:
        """Search for an edit of the submission's text that makes a part right.

        If a cause of the first failure is confirmed, search only for its line: the one with too few bits, the one of a
        known mistake, or the one that prevents a store. planned: the checks of the part. bench: interprets.
        """
        failed = {one.id: wrong for one in planned if (wrong := self._checks[one.id].wrong) is not None}
        if not failed or not is_readable(text):
            return
        first = next(one for one in planned if one.id in failed)
        if known := [clue.kind for clue in self._clues(first.id) if clue.confirmed]:
            self._name_line(bench, failed, text, known)
            with self._noting_faults(*failed):
                self._name_unmasked_index(bench, failed, text)
            self._name_what_is_not_stored(bench, failed, text)
            return
        with self._noting_faults(*failed):
            self._name_unmasked_index(bench, failed, text)
            self._name_limit(bench, failed, text)
            suspected = [one.kind for one in self._suspects(first, self._clues(first.id))]
            calls = self._failing_calls(failed)
            clues = [clue for one in planned for clue in self._clues(one.id)]
            is_named = any(clue.by_known_mistake and clue.weight >= _SAYS_MORE_THAN_A_SLIP for clue in clues)
            in_launch = any(clue.in_launch for clue in self._clues(first.id))
            # On a GPU, take the cases that passed there: the interpreter has tried few.
            tried = self._parts[bench.part.name].tried
            tried = list(bench.findings.tried if tried is None else tried)
            bench = replace(bench, findings=replace(bench.findings, tried=tried))
            with bench.findings.aside():
                divergences, diverging = divergences_of(bench, text, calls)
            if diverging is not None:
                self._add([first.id], diverging)
            lines = {line for one in divergences for line in one.lines}
            kinds = self._kinds[bench.part.name]
            for clue in repair_clues(bench, text, calls, suspected, kinds, in_launch=in_launch, diverging=lines):
                # The values of a known mistake say more than a slip.
                found = _doubted(clue) if clue.kind == SLIP and is_named else clue
                for one in failed:
                    # A mistake that the edit does not take back gives these values by chance.
                    own = [_doubted(each) if each.by_known_mistake else each for each in self._clues(one)]
                    self._checks[one].clues = [*own, found]

    def _failing_calls(self, failed: Mapping[str, WrongCall]) -> list[Recipe]:
        """Return the failing calls of checks, then the smallest ones."""
        smallest = [found for one in failed if (found := self._checks[one].smallest) is not None]
        return [*(one.recipe for one in failed.values()), *smallest]

    def _name_line(self, bench: Bench, failed: Mapping[str, WrongCall], text: str, known: Sequence[str]) -> None:
        """Add the line that makes a part wrong to a kind that values have confirmed: of too few bits, or of a mistake.

        known: the confirmed kinds of the first failure.
        """
        kind, few_bits = known[0], of_family("few bits")
        confirming = [one for one in failed if any(clue.kind == kind and clue.confirmed for clue in self._clues(one))]
        by_mistake = any(clue.kind == kind and clue.by_known_mistake for one in confirming for clue in self._clues(one))
        if not by_mistake and not set(known) <= set(few_bits):
            return
        with self._noting_faults(*failed):
            among = few_bits if kind in few_bits else (kind,)
            calls = [failed[one].recipe for one in confirming] if by_mistake else self._failing_calls(failed)
            for clue in repair_clues(bench, text, calls, [kind], self._known, among=among):
                self._add(confirming, replace(clue, kind=kind, weight=_LINE))

    def _name_unmasked_index(self, bench: Bench, failed: Mapping[str, WrongCall], text: str) -> None:
        """Add the index on which a mask has no condition, to each check in which an access left a tensor by it."""
        told: dict[int, Clue | None] = {}
        for one, wrong_call in failed.items():
            for found in wrong_call.outcome.answer.findings[:1]:
                if found.line not in told:
                    told[found.line] = unmasked_clue(bench, text, wrong_call)
                if clue := told[found.line]:
                    self._add([one], clue)

    def _name_limit(self, bench: Bench, failed: Mapping[str, WrongCall], text: str) -> None:
        """Add the limit of a grid to the first check in which elements were never stored to."""
        for one, wrong_call in failed.items():
            if any(clue.kind == UNSHARED for clue in self._clues(one)):
                if clue := limit_clue(bench, text, wrong_call):
                    self._add([one], clue)
                return

    def _name_what_is_not_stored(self, bench: Bench, failed: Mapping[str, WrongCall], text: str) -> None:
        """Name the line that prevents a store, if a confirmed cause is memory that nobody wrote."""
        reading = [one for one in failed if any(map(_is_unwritten, self._clues(one)))]
        if not reading:
            return
        with self._noting_faults(*reading):
            found = unstored_clue(bench, text, failed[reading[0]].recipe)
            if found is None:
                return
            for one in reading:
                self._checks[one].clues = [found if _is_unwritten(clue) else clue for clue in self._clues(one)]

    def look_at_smallest(self, bench: Bench, planned: PlannedCheck, failure: Failure) -> None:
        """Store the smallest call that fails, and its clues if the first failing call has no suspect.

        failure: of the smallest case.
        """
        check = self._checks[planned.id]
        if failure.wrong_call is not None and failure.wrong_call.recipe.part == planned.part.name:
            check.smallest = failure.wrong_call.recipe
        with self._noting_faults(planned.id):
            own = self._clues(planned.id)
            if failure.status in NO_CAUSE or has_proof(own):
                return
            clues: list[Clue] = []
            if not self._suspects(planned, own):
                with bench.findings.aside():
                    clues, _ = gathered(bench, failure, (), known=False)
            if check.is_slow:
                clues += nonfinite_clues(bench, failure)
            check.clues = [*own, *clues]

    def look_in_interpreter(self, bench: Bench, planned: PlannedCheck, failure: Failure, one: PlannedCase) -> Failure:
        """Repeat a case that failed on a GPU in the interpreter. Return the failure to show.

        bench: of the GPU.
        """
        check, part, interpreted = self._checks[planned.id], self._parts[planned.part.name], bench.interpreted()
        ended = {clue.kind for clue in self._clues(planned.id) if clue.confirmed}
        known = ended.difference(of_family("ending"))
        if known or failure.status not in EXPLAINED or part.interpreted >= _MOST_INTERPRETED:
            return failure
        if one.case.volume > _LARGEST_INTERPRETED:
            return failure
        part.interpreted += 1
        with self._noting_faults(planned.id):
            ruling = ruling_of(interpreted, planned, one)
            repeated = ruling.failure
            told_nothing = ended if repeated is None else repeated.status not in EXPLAINED
            if ruling.unfit or ruling.undecided or told_nothing:
                return failure
            if repeated is None:
                worst = float(ruling.metrics.get("worst_error_over_allowed", 0.0))
                check.clues = [
                    remembered_there(interpreted, planned, one)
                    or right_in_interpreter(failure, worst, partial(is_right_relaunched, bench, one.case, one.seed))
                ]
                return failure
            if repeated.wrong_call is not None and repeated.wrong_call.recipe.part == planned.part.name:
                # The search for a repair begins with it.
                check.smallest = repeated.wrong_call.recipe
            clues, _ = gathered(interpreted, repeated, (), known=False)
            searches = (self._padding_clues, contraction_clues, nonfinite_clues)
            clues = _until_proof(clues, searches, interpreted, repeated)
            shown = with_access(failure, repeated)
            if ended and shown is failure:
                clues = self._clues(planned.id)
            check.clues, check.shown, check.words = clues, shown_by(shown), (shown.lead, shown.advice)
            return shown
        return failure

    def _padding_clues(self, bench: Bench, failure: Failure, *, doubting: bool = False) -> list[Clue]:
        """Return the clues of masked lanes. Stop probing a part after a failure in which they changed nothing.

        doubting: the failure has a confirmed cause. Failures with one say nothing about those without, and the reverse.
        """
        unpadded = self._parts[bench.part.name].unpadded
        if doubting in unpadded or not masks_lanes(failure):
            return []
        found = padding_clues(bench, failure)
        if not found:
            unpadded.add(doubting)
        return found

    def explained(self, planned: PlannedCheck, result: CheckResult) -> CheckResult:
        """Return the result of the check with the suspects behind its failure, by all that is known of the part."""
        if result.cause is None or result.status in NO_CAUSE:
            return result
        check = self._checks[result.id]
        own = check.clues
        if own is None:
            failure = Failure(result.status, result.cause)
            check.shown = shown_by(failure)
            own = clues_in(failure, planned.part, self._truth)
        with self._noting_faults(planned.id):
            suspects = self._suspects(planned, own)
            cause = explained(result.cause, suspects, *check.words)
            result = replace(
                result, cause=cause if suspects or cause.help else self._pointing_elsewhere(planned, cause)
            )
        if check.fault:
            note = f"the search for the cause ended early ({check.fault}): a fault of the grader, which costs no points"
            result = replace(result, notes=(*result.notes, note))
        return result

    def _pointing_elsewhere(self, planned: PlannedCheck, cause: Cause) -> Cause:
        """Return a cause without help, with help that names the first check of the part whose card has a suspect."""
        for check in planned.part.checks:
            other = replace(planned, check=check)
            clues = self._checks[other.id].clues if other.id in self._checks else None
            if other.id != planned.id and clues and self._suspects(other, clues):
                return replace(
                    cause, help=f"“{check.title}” fails too, and its card names a cause: mend that one first."
                )
        return cause

    def _suspects(self, planned: PlannedCheck, own: Sequence[Clue]) -> tuple[Suspect, ...]:
        """Return what may be behind the failure of a check, by its own clues and by all that is known of the part."""
        # Keep what a replay proved: a kernel may reduce although its part does not.
        proved = {clue.kind: self._known[clue.kind] for clue in own if clue.confirmed and clue.kind in self._known}
        kinds = {**self._kinds[planned.part.name], **proved}
        part = self._parts[planned.part.name]
        tried = part.tried or []
        # How a case of wrong values depends on its axes says nothing of an access outside a tensor.
        by_access = left_a_tensor(self._checks[planned.id].wrong)
        varied = [one for one in part.varied or [] if one.outside or not by_access]
        declared = contrasts_of(self._exercise.contrasts, planned.part.name)
        elsewhere = [clue for clues in self._elsewhere(planned, own) for clue in clues]
        suspects = suspects_of(own, elsewhere, PartFacts(kinds, tried, space_of(planned.part), declared, varied))
        return remedied(suspects, tried, self._exercise.remedies, planned.part.name)

    def _elsewhere(self, planned: PlannedCheck, own: Sequence[Clue] = ()) -> list[list[Clue]]:
        """Return the clues of the part's other failed checks, in the order of the failures.

        A confirmed clue is left out if it cannot lead to what this check shows. own: the clues of this check.
        """
        siblings = {check_id(planned.part, check) for check in planned.part.checks} - {planned.id}
        shown = self._checks[planned.id].shown
        failed = [(one.clues, one.shown) for name, one in self._checks.items() if name in siblings]
        named = {clue.kind for clue in own if clue.weight >= _NAMED}
        return [list(explaining(clues, told_by, shown, named)) for clues, told_by in failed if clues is not None]

    def _clues(self, check: str) -> list[Clue]:
        """Return the clues of a check; none before it failed."""
        return self._checks[check].clues or []

    def _add(self, checks: Iterable[str], clue: Clue) -> None:
        """Add a clue to these checks."""
        for one in checks:
            self._checks[one].clues = [*self._clues(one), clue]


def _until_proof(clues: Sequence[Clue], searches: Iterable[_Search], bench: Bench, failure: Failure) -> list[Clue]:
    """Return the clues with those of each search, up to the first proof."""
    found = list(clues)
    for search in searches:
        if has_proof(found):
            break
        found += search(bench, failure)
    return found


def _is_unwritten(clue: Clue) -> bool:
    """Return whether a clue proves that memory was read that nobody wrote."""
    return clue.confirmed and clue.kind == UNWRITTEN and not clue.title


def _doubted(clue: Clue) -> Clue:
    """Return a clue by values beside a probe that proves another cause."""
    return replace(clue, confirmed=False, weight=min(clue.weight, _DOUBTED))
