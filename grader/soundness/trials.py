"""List an exercise's files, and what each must show.

The solution meets every case. The honest variants of a part share them: together they meet each case once. So do the
record kernels, except on a GPU: only there they are other kernels than the solution's, and each meets every case.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path

from grader.exercise.catalogue import Entry
from grader.exercise.plan import Plan, PlannedCheck
from grader.exercise.triton_version import lacking
from grader.soundness.claims import Claim, claim_of


@dataclass(frozen=True)
class Share:
    """One variant's share of a check's cases: `turn` of `sharers`, from 0 on."""

    turn: int
    sharers: int

    def of(self, planned: PlannedCheck) -> PlannedCheck:
        """Return the check with every `sharers`-th case, from the turn on; with one case where it has no more."""
        step = min(self.sharers, max(1, len(planned.cases)))
        return replace(planned, cases=planned.cases[self.turn % step :: step])


def shares(parts_of: Sequence[frozenset[str]]) -> list[dict[str, Share]]:
    """Return each variant's shares by part, from the parts that each variant defines."""
    sharers = Counter(chain.from_iterable(parts_of))
    turns: Counter[str] = Counter()
    found = []
    for parts in parts_of:
        found.append({part: Share(turns[part], sharers[part]) for part in parts})
        turns.update(parts)
    return found


@dataclass(frozen=True)
class FileTrial:
    """A file for the gate to grade, with its text.

    parts: those to judge (None: all). claim: of a planted mistake. alone: the only check to judge; "" for all. shares:
    an honest variant's share of the cases of each part; empty for all of them.
    """

    path: Path
    text: str
    parts: frozenset[str] | None
    claim: Claim | None = None
    timed: bool = False
    alone: str = ""
    shares: Mapping[str, Share] = field(default_factory=dict)

    def of(self, plan: Plan, *, every_case: bool) -> Plan:
        """Return what the file must show of the whole plan."""
        checks = [planned for planned in plan.checks if self._judges(planned)]
        if self.shares and not every_case:
            checks = [self.shares[planned.part.name].of(planned) for planned in checks]
        return replace(plan, checks=tuple(checks))

    def _judges(self, planned: PlannedCheck) -> bool:
        return (self.parts is None or planned.part.name in self.parts) and self.alone in ("", planned.id)


def trials_of(entry: Entry) -> list[FileTrial]:
    """Return every file of the exercise, in the order of the gate."""
    trials = [FileTrial(entry.pristine_stub, text_of(entry.pristine_stub), None)]
    # An honest variant must be right, not fast; so must the bases of patches.
    trials += [FileTrial(entry.solution, text_of(entry.solution), entry.parts_in(entry.solution), timed=True)]
    variants = [path for path in (*entry.fast, *entry.honest, *entry.bases) if not lacking(text_of(path))]
    defined = [entry.parts_in(path) for path in variants]
    trials += [
        FileTrial(path, text_of(path), parts, timed=path in entry.fast, shares=share)
        for path, parts, share in zip(variants, defined, shares(defined), strict=True)
    ]
    for mistake in entry.wrong:
        claim = claim_of(mistake)
        named, _, check = claim.check.partition(".")
        timed = _is_speed(entry, named, check)
        alone = "" if timed else claim.check
        # The check that a mistake names must catch it by itself; speed is only timed after right answers.
        trials.append(FileTrial(mistake.path, mistake.text, frozenset({named}), claim, timed=timed, alone=alone))
    return trials


def text_of(path: Path) -> str:
    """Return the text of a file."""
    return path.read_text(encoding="utf-8")


def _is_speed(entry: Entry, part: str, check: str) -> bool:
    found = entry.exercise.part(part)
    rules = {one.name: one.rule for one in found.checks} if found else {}
    return check in rules and rules[check].is_timed
