"""Explain failures: collect clues during a grading, and rank them when all results of a part are known.

Take failures and tried cases, and return causes with suspects. Change no status and no points. An error here costs the
learner nothing, and the check gets a note.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial

from grader.diagnosis.case_contrast import contrasts_of
from grader.diagnosis.cross_check import shown_by
from grader.diagnosis.gathering import clues_in, gathered, has_proof
from grader.diagnosis.kinds import of_family
from grader.diagnosis.notebook import Notebook, doubted
from grader.diagnosis.probes.barriers import missing_barrier
from grader.diagnosis.probes.contraction import contraction_clues
from grader.diagnosis.probes.interpreted import (
    EXPLAINED,
    is_right_relaunched,
    remembered_there,
    right_in_interpreter,
    right_in_new_process,
    with_access,
)
from grader.diagnosis.probes.nonfinite import nonfinite_clues
from grader.diagnosis.probes.padding import KIND as PADDING
from grader.diagnosis.probes.padding import masks_lanes, padding_clues, padding_elsewhere
from grader.diagnosis.probes.repeats import again, repeated_work
from grader.diagnosis.probes.unwritten import unwritten_clues
from grader.diagnosis.probes.variations import left_a_tensor, variations_of
from grader.diagnosis.ranking import explained
from grader.diagnosis.repair_search import RepairSearch
from grader.diagnosis.surroundings import with_surroundings
from grader.exercise.cases import INTERPRETED_VOLUME
from grader.exercise.model import Exercise
from grader.exercise.plan import PlannedCase, PlannedCheck
from grader.judge.bench import Bench
from grader.judge.clue import Clue, sure
from grader.judge.failure import NO_CAUSE, Failure, WrongCall
from grader.judge.kernel_policy import LEFT_OVER
from grader.judge.retrials import remembered
from grader.judge.rules import ruling_of
from grader.judge.ruling import Ruling
from grader.judge.truth import Truth
from grader.record.causes import Cause
from grader.record.checks import CheckResult

# Only failing calls that take less time than this are repeated for clues.
_PROBE_S = 0.5
# On a GPU: how many failing cases of a part are repeated in the interpreter, and how many in a new process, which takes
# seconds with a GPU.
_MOST_INTERPRETED, _MOST_ANEW = 8, 3
# The weight of a mistake that only the smallest failing case proves.
_IN_SMALLEST = 0.5

# A search for clues of a failure, on a bench.
_Search = Callable[[Bench, Failure], Sequence[Clue]]


class Diagnosis:
    """The clues of one grading. text: the submission's."""

    def __init__(self, exercise: Exercise, truth: Truth, text: str) -> None:
        self._exercise = exercise
        self._truth = truth
        self._text = text
        self._notebook = Notebook(exercise, truth)

    def hear(self, planned: PlannedCheck, failure: Failure) -> None:
        """Store the clues of a failure that no bench can look at again."""
        check = self._notebook.checks[planned.id]
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
        check = self._notebook.checks[planned.id]
        if first.wrong_call is not None and first.wrong_call.recipe.part == planned.part.name:
            check.wrong = first.wrong_call
        check.shown = shown_by(first)
        others = self._notebook.elsewhere(planned)
        self._notebook.parts[planned.part.name].tried = bench.findings.tried
        check.words, check.clues, shown = (first.lead, first.advice), [], first
        with self._notebook.noting_faults(planned.id):
            alike = (first, *ruling.alike)
            clues, told = gathered(bench, first, ruling.alike, known=any(map(has_proof, others)))
            calls = max(1, int(float(ruling.metrics.get("cases", 1))))
            check.is_slow = worked_s / calls > _PROBE_S
            by_values = has_proof(clues) and not has_proof(first.clues)
            if not check.is_slow and first.cause.mismatch is not None and by_values:
                proved = self._proved_otherwise(bench, alike)
                if proved:
                    clues, told = [*proved, *map(doubted, clues)], first
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
        with self._notebook.noting_faults(planned.id):
            return with_surroundings(shown, planned.part, self._truth)
        return shown

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
        """Return the clue of a call that an earlier one spoils. Stop probing a part after the first "no".

        Not on a GPU, where a new process takes seconds: `look_in_interpreter` looks at few cases.
        """
        part = self._notebook.parts[bench.part.name]
        if wrong_call.recipe.part != bench.part.name or part.fails_as_first_call or bench.pair.session.runs_on_gpu:
            return ()
        found = remembered(bench, wrong_call.recipe, wrong_call.outcome)
        if not found:
            part.fails_as_first_call = True
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
        varied = self._notebook.parts[bench.part.name].varied
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
            self._notebook.parts[part].varied = [*(self._notebook.parts[part].varied or []), *found]

    def search_repair(self, bench: Bench, planned: Sequence[PlannedCheck]) -> None:
        """Search for an edit of the submission's text that makes a part right.

        planned: the checks of the part. bench: interprets.
        """
        RepairSearch(self._notebook, bench, planned, self._text).run()

    def look_at_smallest(self, bench: Bench, planned: PlannedCheck, failure: Failure) -> None:
        """Store the smallest call that fails, and its clues if the first failing call has no suspect.

        If that one has suspects and no proof, two mistakes may meet in it. The smallest call often has only one, and
        its mistake is stored. failure: of the smallest case.
        """
        check = self._notebook.checks[planned.id]
        if failure.wrong_call is not None and failure.wrong_call.recipe.part == planned.part.name:
            check.smallest = failure.wrong_call.recipe
        with self._notebook.noting_faults(planned.id):
            own = self._notebook.clues(planned.id)
            if failure.status in NO_CAUSE or has_proof(own):
                return
            with bench.findings.aside():
                clues, _ = gathered(bench, failure, (), known=False)
            if self._notebook.suspects(planned, own):
                clues = _by_one_mistake(clues)
            if check.is_slow:
                clues += [*unwritten_clues(bench, failure), *nonfinite_clues(bench, failure)]
            check.clues = [*own, *clues]

    def look_in_interpreter(self, bench: Bench, planned: PlannedCheck, failure: Failure, one: PlannedCase) -> Failure:
        """Repeat a case that failed on a GPU in the interpreter. Return the failure to show.

        bench: of the GPU.
        """
        check, part = self._notebook.checks[planned.id], self._notebook.parts[planned.part.name]
        interpreted = bench.interpreted()
        ended = {clue.kind for clue in self._notebook.clues(planned.id) if clue.confirmed}
        known = ended.difference(of_family("ending"))
        if known or failure.status not in EXPLAINED or part.interpreted >= _MOST_INTERPRETED:
            return failure
        if one.case.volume > INTERPRETED_VOLUME:
            return failure
        part.interpreted += 1
        with self._notebook.noting_faults(planned.id):
            ruling = ruling_of(interpreted, planned, one)
            repeated = ruling.failure
            if ruling.unfit or ruling.undecided or (repeated is not None and repeated.status not in EXPLAINED):
                return failure
            if repeated is None:
                found = remembered_there(interpreted, planned, one) or self._remembered_anew(bench, planned, one)
                if found is None and not ended and not self._remembers_elsewhere(planned):
                    worst = float(ruling.metrics.get("worst_error_over_allowed", 0.0))
                    found = self._of_the_gpu(bench, failure, one, worst)
                check.clues = [found] if found else check.clues
                return failure
            if repeated.wrong_call is not None and repeated.wrong_call.recipe.part == planned.part.name:
                # The search for a repair begins with it.
                check.smallest = repeated.wrong_call.recipe
            clues, _ = gathered(interpreted, repeated, (), known=False)
            searches: tuple[_Search, ...] = (
                lambda bench, _: [*filter(None, [self._remembered_anew(bench, planned, one)])],
                self._padding_clues,
                contraction_clues,
                nonfinite_clues,
            )
            clues = _until_proof(clues, searches, interpreted, repeated)
            shown = with_access(failure, repeated)
            if ended and shown is failure:
                clues = self._notebook.clues(planned.id)
            check.clues, check.shown, check.words = clues, shown_by(shown), (shown.lead, shown.advice)
            return shown
        return failure

    def _of_the_gpu(self, bench: Bench, failure: Failure, one: PlannedCase, worst: float) -> Clue:
        """Return the clue of a case that fails on the GPU only. worst: its error elsewhere over the allowed one."""
        if failure.cause.mismatch is not None:
            found = missing_barrier(bench, bench.true_recipe(one.case, one.seed), self._text)
            if found is not None:
                return found
        return right_in_interpreter(failure, worst, partial(is_right_relaunched, bench, one.case, one.seed))

    def _remembers_elsewhere(self, planned: PlannedCheck) -> bool:
        """Return whether another check of the part has proved that earlier calls spoil a call."""
        others = self._notebook.elsewhere(planned)
        return any(clue.confirmed and clue.kind in of_family("earlier calls") for one in others for clue in one)

    def _remembered_anew(self, bench: Bench, planned: PlannedCheck, one: PlannedCase) -> Clue | None:
        """Return the clue of a GPU's failing case that earlier calls spoil. Stop probing a part after the first "no".

        bench: of the GPU or of the interpreter.
        """
        part = self._notebook.parts[planned.part.name]
        if part.fails_as_first_call or part.anew >= _MOST_ANEW:
            return None
        part.anew += 1
        found = right_in_new_process(bench, planned, one)
        part.fails_as_first_call = found is None
        return found

    def _padding_clues(self, bench: Bench, failure: Failure, *, doubting: bool = False) -> list[Clue]:
        """Return the clues of masked lanes. Stop probing a part after a failure in which they changed nothing.

        doubting: the failure has a confirmed cause. Failures with one say nothing about those without, and the reverse.
        """
        unpadded = self._notebook.parts[bench.part.name].unpadded
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
        check = self._notebook.checks[result.id]
        own = check.clues
        if own is None:
            failure = Failure(result.status, result.cause)
            check.shown = shown_by(failure)
            own = clues_in(failure, planned.part, self._truth)
        with self._notebook.noting_faults(planned.id):
            suspects = self._notebook.suspects(planned, own)
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
            clues = self._notebook.checks[other.id].clues if other.id in self._notebook.checks else None
            if other.id != planned.id and clues and self._notebook.suspects(other, clues):
                return replace(
                    cause, help=f"“{check.title}” fails too, and its card names a cause: mend that one first."
                )
        return cause


def _by_one_mistake(clues: Sequence[Clue]) -> list[Clue]:
    """Return the known mistake that the smallest failing call proves; none if several mistakes give its values.

    It is likely, and no more: in a small call, one mistake may give the values of another.
    """
    proofs = [clue for clue in clues if clue.confirmed and clue.by_known_mistake and clue.evidence]
    said = "In the smallest failing case, {}"
    return [
        replace(
            clue,
            weight=_IN_SMALLEST,
            confirmed=False,
            firm=True,
            evidence=said.format(f"{clue.evidence[0].lower()}{clue.evidence[1:]}"),
        )
        for clue in proofs
        if len(proofs) == 1
    ]


def _until_proof(clues: Sequence[Clue], searches: Iterable[_Search], bench: Bench, failure: Failure) -> list[Clue]:
    """Return the clues with those of each search, up to the first proof."""
    found = list(clues)
    for search in searches:
        if has_proof(found):
            break
        found += search(bench, failure)
    return found
