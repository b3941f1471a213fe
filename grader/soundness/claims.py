"""Read the verdict that a planted mistake must get, and compare it with the record."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from pathlib import Path

from grader.diagnosis.kinds import known_kinds
from grader.errors import SpecError
from grader.exercise.catalogue import Entry
from grader.exercise.planted import PlantedMistake
from grader.record.record import Record
from grader.record.statuses import UNJUDGED
from grader.soundness.findings import GateLine, named
from grader.syntax import tree_of

_STATUS = "partly|fail|policy|crash|timeout|oom|compile_error|skipped_environment"
_CLAIM = re.compile(rf"(?P<check>\w+\.\w+) (?P<status>{_STATUS})(?:, on a GPU (?P<on_gpu>{_STATUS}))?: (?P<why>.+)")
_CAUSE = re.compile(r"^Cause: (?P<kinds>\w+(?: or \w+)*)$", re.MULTILINE)


@dataclass(frozen=True)
class Claim:
    """The verdict that a planted mistake must get, as its docstring says.

    The first line names check and status; a line "Cause: <kind>" names the cause, or "<kind> or <kind>" for a cause
    with two names. The status "partly" means a pass with some of the points; it has no cause. on_gpu: the status on a
    GPU.
    """

    check: str
    status: str
    on_gpu: str
    why: str
    causes: tuple[str, ...] = ()


def claim_of(mistake: PlantedMistake) -> Claim:
    """Return the claim of a planted mistake. Raises SpecError."""
    first, _, rest = (ast.get_docstring(tree_of(mistake.text)) or "").partition("\n")
    match = _CLAIM.fullmatch(first)
    if match is None:
        raise SpecError(
            f"{mistake.path.name}: the text on top must begin '<part>.<check> <status>: <what is wrong>', got {first!r}"
        )
    label = _CAUSE.search(rest)
    causes = tuple(label["kinds"].split(" or ")) if label else ()
    return Claim(match["check"], match["status"], match["on_gpu"] or match["status"], match["why"], causes)


def planted_finding(path: Path, claim: Claim, record: Record) -> GateLine:
    """Return whether a planted mistake got the verdict that it claims."""
    found = next((result for result in record.checks if result.id == claim.check), None)
    if found is None:
        return GateLine(named(path), False, f"names {claim.check}, which is no check")
    if found.status in UNJUDGED:
        return GateLine(named(path), None, f"{claim.check}: {found.reason}")
    got = "partly" if found.passed_in_part else found.status
    wanted = claim.on_gpu if record.env.mode == "gpu" else claim.status
    holds = got == wanted
    outcome = f"{claim.check}: {got}"
    if not holds:
        outcome += f", must be {wanted}{f': {found.reason}' if found.reason else ''}"
    return GateLine(named(path), holds, outcome)


def passes(claim: Claim, record: Record) -> bool:
    """Return whether the check that a mistake names earns all of its points."""
    found = (result for result in record.checks if result.id == claim.check)
    return any(result.status == "pass" and not result.passed_in_part for result in found)


def label_fault(claim: Claim, entry: Entry) -> str:
    """Return what is wrong with a mistake's label; "" if nothing is."""
    if claim.status == "partly":
        return "a mistake that earns some points has no cause to name" if claim.causes else ""
    if not claim.causes:
        return "the text on top must have a line 'Cause: <kind>'"
    known = known_kinds(entry.exercise)
    unknown = [kind for kind in claim.causes if kind not in known]
    return f"a cause must be a known kind, got {', '.join(unknown)}" if unknown else ""
