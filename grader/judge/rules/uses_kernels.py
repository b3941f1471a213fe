"""Judge by what ran in all calls so far whether the submission's kernels do the work of a part."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from grader.exercise.model import UsesKernels
from grader.exercise.plan import PlannedCase
from grader.judge.bench import Bench
from grader.judge.evidence import Evidence
from grader.judge.failures import Failure
from grader.judge.rules.kernels_only import by_evidence, judged_apart, policy_failure, why_untold
from grader.judge.ruling import Ruling
from grader.judge.trial import CallRequest, NotRunHere
from grader.record import Cause, clean

RULE = UsesKernels


def decide(bench: Bench, cases: Sequence[PlannedCase], rule: UsesKernels) -> Ruling:
    """Call the part on the cases, then judge what ran in all calls of the part so far."""
    for one in cases:
        trial = bench.try_case(one.case, one.seed)
        if trial.failure and trial.failure.status != "fail":
            return Ruling(trial.failure, one)
        # Other checks judge whether the case is right.
        failure = judged_apart(bench, one, trial, trial.failure) if trial.failure else None
        if failure is not None and failure.status == "fail" and _is_idle(bench, one):
            if _stores_nothing(bench, one, failure):
                # Kernels that do nothing yet are no other means.
                return Ruling(failure, one)
            failure = _idle_failure(one)
        if failure is not None and failure.status != "fail":
            break
    evidence = {"kernels": _kernels_seen(bench.evidence), "operators": _operators_seen(bench.evidence)}
    if helpers := [name for seen in bench.evidence for name in seen.helpers]:
        evidence["helpers"] = _distinct_names(helpers)
    found = by_evidence(bench.evidence, rule.allowed_operators, bench.part.bounds)
    found = found or _missing_operations(bench.evidence, rule.operations)
    unknown = [seen for seen in bench.evidence if not seen.is_replayed]
    untold = why_untold(unknown[0]) if unknown else ""
    if untold and not found:
        undecided = f"it is unknown whether kernels do the work: {untold}"
        return Ruling(None, evidence=evidence, undecided=undecided)
    refused = failure if failure is not None and failure.status != "fail" else None
    return Ruling(found or refused, evidence=evidence)


def _missing_operations(evidence: Sequence[Evidence], operations: Sequence[str]) -> Failure | None:
    for seen in evidence:
        # Operations are only known of replayed calls.
        if not seen.is_replayed:
            continue
        if missing := [name for name in operations if name not in seen.operations]:
            return Failure(
                "policy",
                Cause(
                    "other_means",
                    "Right, but without the operations that this part asks for",
                    f"For {seen.case.words()} the call did not use these operations: {', '.join(missing)}.",
                    "These are the names of traced calls: cute.make_tiled_mma keeps its name, thr_mma.partition_A "
                    "becomes cute.tiled.mma.partition.",
                ),
            )
    return None


def _is_idle(bench: Bench, one: PlannedCase) -> bool:
    """Return whether the answer is the same without its launches."""
    return not bench.kernels_matter(CallRequest(one.case, one.seed))


def _stores_nothing(bench: Bench, one: PlannedCase, failure: Failure) -> bool:
    """Return whether the launches of a wrong call store nothing, and an output is what fresh memory holds."""
    seen: Failure | None = failure
    if bench.interpreter is not None:
        # A GPU counts no bytes.
        try:
            seen = bench.interpreted().try_case(one.case, one.seed).failure
        except NotRunHere:
            return False
    if seen is None or seen.seen is None or seen.cause.kind != "unwritten":
        return False
    mismatch, launches = seen.cause.mismatch, seen.seen.outcome.answer.launches
    is_whole = mismatch is not None and mismatch.count == mismatch.total
    return is_whole and bool(launches) and all(it.traffic and not it.traffic.stored_bytes for it in launches)


def _idle_failure(one: PlannedCase) -> Failure:
    return policy_failure(
        "outside_kernels",
        "The answer does not depend on your kernels",
        f"For {one.case.words()} the function returns the same values with and without its launches.",
    )


def _kernels_seen(evidence: Sequence[Evidence]) -> str:
    return _distinct_names(name for seen in evidence for name in seen.kernels)


def _operators_seen(evidence: Sequence[Evidence]) -> str:
    return _distinct_names(name for seen in evidence for name in seen.operators)


def _distinct_names(names: Iterable[str]) -> str:
    return clean(", ".join(dict.fromkeys(names)), 2000) or "none"
