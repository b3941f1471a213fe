"""Find out from the record of a file whether the file is as it must be."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from grader.exercise.catalogue import Entry
from grader.phrases import counted, listed
from grader.record.checks import CheckResult
from grader.record.record import Record
from grader.record.statuses import UNJUDGED
from grader.soundness.claims import label_fault, planted_finding
from grader.soundness.findings import GateLine, named
from grader.soundness.trials import FileTrial


def findings_of(trial: FileTrial, record: Record, entry: Entry) -> Iterator[GateLine]:
    """Yield the findings about a file from its record."""
    if trial.claim:
        yield planted_finding(trial.path, trial.claim, record)
        if unlabelled := label_fault(trial.claim, entry):
            yield GateLine(f"{named(trial.path)}, cause", False, unlabelled)
    elif trial.parts is None:
        yield _stub(record)
    else:
        yield honest_finding(trial.path, trial.parts, record)
    if trial.path == entry.solution:
        yield _compiles(record)


def _stub(record: Record) -> GateLine:
    others = [result for result in record.checks if result.status not in ("not_implemented", *UNJUDGED)]
    outcome = _sentence(others) if others else "every part not_implemented"
    return GateLine("stub", not others, outcome)


def honest_finding(path: Path, parts: frozenset[str], record: Record) -> GateLine:
    """Return whether a right file passes all checks judged here; None where none is judged."""
    judged = [result for result in record.checks if result.status not in UNJUDGED or result.status == "grader_error"]
    failed = [result for result in judged if result.status != "pass" or result.points < result.max_points]
    lacking = next((result.reason for result in record.checks if result.status == "skipped_environment"), "")
    if not judged and lacking:
        return GateLine(named(path), None, f"nothing judged here: {lacking}")
    passed = f"passes {counted(len(judged), 'check')} of {', '.join(sorted(parts)) or 'no part'}"
    outcome = _sentence(failed) if failed else passed
    return GateLine(named(path), bool(judged) and not failed, outcome)


def _compiles(record: Record) -> GateLine:
    """Find whether every kernel of the solution compiles for some GPU; not judged if time ran out."""
    kernels = [kernel for part in record.parts for kernel in part.kernels]
    good = {kernel.kernel for kernel in kernels if kernel.occupancy is not None}
    bad = {kernel.kernel for kernel in kernels} - good
    missing = {f"{part.name}: {why}" for part in record.parts for why in part.uncompiled.values()}
    if bad:
        return GateLine("solution, compiled", False, f"for no GPU: {', '.join(sorted(bad))}")
    targets = sorted({kernel.target for kernel in kernels})
    outcome = f"{counted(len(good), 'kernel')} for {', '.join(targets) or 'no GPU'}"
    return GateLine("solution, compiled", None if missing else True, "; ".join([outcome, *sorted(missing)]))


def _sentence(results: Sequence[CheckResult]) -> str:
    said = [
        f"{result.id}: {result.status}: {result.reason or f'{result.points:g} of {result.max_points:g} points'}"
        for result in results
    ]
    return listed(said, 3, "; ") or "everything passed"
