"""Search for an edit of the submission's text that makes a part right, and note what it shows of the part's checks.

Take the notes of a grading, and a bench that interprets. Add clues to the notes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from grader.diagnosis.edits.brackets import brackets_clue
from grader.diagnosis.edits.compared_addresses import compared_address_clue
from grader.diagnosis.edits.edit_scope import SLIP
from grader.diagnosis.edits.edited import Edited
from grader.diagnosis.edits.edits import scopes_of
from grader.diagnosis.edits.idle_axes import idle_axis_clue
from grader.diagnosis.edits.limits import UNSHARED, limit_clue
from grader.diagnosis.edits.repairs import kernels_in, repair_clues
from grader.diagnosis.edits.unmasked import unmasked_clue
from grader.diagnosis.edits.unread import unread_clue
from grader.diagnosis.edits.unstored import KIND as UNWRITTEN
from grader.diagnosis.edits.unstored import unstored_clue
from grader.diagnosis.kinds import of_family
from grader.diagnosis.notebook import Notebook, doubted
from grader.diagnosis.probes.branches import divergences_of
from grader.exercise.plan import PlannedCheck
from grader.judge.bench import Bench
from grader.judge.clue import Clue
from grader.protocol.requests import Recipe
from grader.syntax import is_readable

# The weight of the line of a kind of too few bits: its values confirm the kind without the line.
_LINE = 0.9
# From this weight on, a known mistake says more than an edit that has no name.
_SAYS_MORE_THAN_A_SLIP = 0.8


class RepairSearch:
    """The search for a repair of one part.

    notebook: gets the clues. bench: interprets. planned: the checks of the part. text: the submission's.
    """

    def __init__(self, notebook: Notebook, bench: Bench, planned: Sequence[PlannedCheck], text: str) -> None:
        self._notebook = notebook
        self._bench = bench
        self._planned = planned
        self._text = text
        wrong = {one.id: notebook.checks[one.id].wrong for one in planned}
        # The first wrong calls of the checks that have one, by the checks' names.
        self._failed = {name: call for name, call in wrong.items() if call is not None}

    def run(self) -> None:
        """Search.

        If a cause of the first failure is confirmed, search only for its line: the one with too few bits, the one of a
        known mistake, or the one that prevents a store.
        """
        if not self._failed or not is_readable(self._text):
            return
        first = next(one for one in self._planned if one.id in self._failed)
        if known := [clue.kind for clue in self._notebook.clues(first.id) if clue.confirmed]:
            self._name_line(known)
            with self._notebook.noting_faults(*self._failed):
                self._name_unmasked_index()
            self._name_what_is_not_stored()
            return
        with self._notebook.noting_faults(*self._failed):
            self._name_unmasked_index()
            self._name_limit()
            self._name_what_stands_there(first)
            self._name_edit(first)

    def _name_edit(self, first: PlannedCheck) -> None:
        """Add the edit that makes the part right to each check. first: the first check that failed."""
        own = self._notebook.clues(first.id)
        suspected = [one.kind for one in self._notebook.suspects(first, own)]
        in_launch = any(clue.in_launch for clue in own)
        clues = [clue for one in self._planned for clue in self._notebook.clues(one.id)]
        is_named = any(clue.by_known_mistake and clue.weight >= _SAYS_MORE_THAN_A_SLIP for clue in clues)
        calls, bench = self._failing_calls(), self._with_all_tried()
        with bench.findings.aside():
            divergences, diverging = divergences_of(bench, self._text, calls)
        if diverging is not None:
            self._notebook.add([first.id], diverging)
        lines = {line for one in divergences for line in one.lines}
        kinds = self._notebook.kinds[bench.part.name]
        for clue in repair_clues(bench, self._text, calls, suspected, kinds, in_launch=in_launch, diverging=lines):
            # The values of a known mistake say more than a slip.
            found = doubted(clue) if clue.kind == SLIP and is_named else clue
            for one in self._failed:
                # A mistake that the edit does not take back gives these values by chance.
                others = [doubted(each) if each.by_known_mistake else each for each in self._notebook.clues(one)]
                self._notebook.checks[one].clues = [*others, found]

    def _with_all_tried(self) -> Bench:
        """Return the bench with the cases that ran: on a GPU those that ran there, as the interpreter has tried few."""
        findings, tried = self._bench.findings, self._notebook.parts[self._bench.part.name].tried
        return replace(self._bench, findings=replace(findings, tried=list(findings.tried if tried is None else tried)))

    def _failing_calls(self) -> list[Recipe]:
        """Return the failing calls of checks, then the smallest ones."""
        smallest = [found for one in self._failed if (found := self._notebook.checks[one].smallest) is not None]
        return [*(one.recipe for one in self._failed.values()), *smallest]

    def _name_line(self, known: Sequence[str]) -> None:
        """Add the line that makes a part wrong to a kind that values have confirmed: of too few bits, or of a mistake.

        known: the confirmed kinds of the first failure.
        """
        kind, few_bits = known[0], of_family("few bits")
        naming = {one: [clue for clue in self._notebook.clues(one) if clue.kind == kind] for one in self._failed}
        confirming = [one for one, clues in naming.items() if any(clue.confirmed for clue in clues)]
        by_mistake = any(clue.by_known_mistake for one in confirming for clue in naming[one])
        if not by_mistake and not set(known) <= set(few_bits):
            return
        with self._notebook.noting_faults(*self._failed):
            among = few_bits if kind in few_bits else (kind,)
            calls = [self._failed[one].recipe for one in confirming] if by_mistake else self._failing_calls()
            for clue in repair_clues(self._bench, self._text, calls, [kind], self._notebook.known, among=among):
                self._notebook.add(confirming, replace(clue, kind=kind, weight=_LINE))

    def _name_unmasked_index(self) -> None:
        """Add the index on which a mask has no condition, to each check in which an access left a tensor by it."""
        told: dict[int, Clue | None] = {}
        for one, wrong_call in self._failed.items():
            for found in wrong_call.outcome.answer.findings[:1]:
                if found.line not in told:
                    told[found.line] = unmasked_clue(self._bench, self._text, wrong_call)
                if clue := told[found.line]:
                    self._notebook.add([one], clue)

    def _name_what_stands_there(self, first: PlannedCheck) -> None:
        """Add what the text and the trace of the first failing call show, to each check.

        An edit may not prove it: beside a second mistake the part stays wrong. first: the first check that failed.
        """
        wrong_call, part = self._failed[first.id], self._bench.part.name
        clues = [idle_axis_clue(self._text, wrong_call)]
        with self._bench.findings.aside():
            recorded = Edited.of(self._bench, wrong_call.recipe).recorded
        if recorded is not None and not recorded.trace.programs:
            scopes = scopes_of(self._text, kernels_in(recorded.trace), part)
            clues += [brackets_clue(scopes), compared_address_clue(scopes), unread_clue(recorded.trace)]
        for clue in filter(None, clues):
            self._notebook.add(self._failed, clue)

    def _name_limit(self) -> None:
        """Add the limit of a grid to the first check in which elements were never stored to."""
        for one, wrong_call in self._failed.items():
            if any(clue.kind == UNSHARED for clue in self._notebook.clues(one)):
                if clue := limit_clue(self._bench, self._text, wrong_call):
                    self._notebook.add([one], clue)
                return

    def _name_what_is_not_stored(self) -> None:
        """Name the line that prevents a store, if a confirmed cause is memory that nobody wrote."""
        reading = [one for one in self._failed if any(map(_is_unwritten, self._notebook.clues(one)))]
        if not reading:
            return
        with self._notebook.noting_faults(*reading):
            found = unstored_clue(self._bench, self._text, self._failed[reading[0]].recipe)
            if found is None:
                return
            for one in reading:
                clues = self._notebook.clues(one)
                self._notebook.checks[one].clues = [found if _is_unwritten(clue) else clue for clue in clues]


def _is_unwritten(clue: Clue) -> bool:
    """Return whether a clue proves that memory was read that nobody wrote."""
    return clue.confirmed and clue.kind == UNWRITTEN and not clue.title
