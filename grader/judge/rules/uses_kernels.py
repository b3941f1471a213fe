"""Judge whether the submission's kernels do the work of a part, by what ran in all calls so far."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from grader.exercise.cases import Case, Value
from grader.exercise.plan import PlannedCase
from grader.exercise.rules import UsesKernels
from grader.judge.bench import Bench
from grader.judge.evidence import Evidence
from grader.judge.failure import Failure
from grader.judge.kernel_policy import by_evidence, policy_failure, why_unrecorded
from grader.judge.retrials import interpreted_trial, kernels_matter
from grader.judge.ruling import Ruling
from grader.judge.trial import CallRequest
from grader.judge.wrong_replay import explain_wrong_replay
from grader.phrases import all_of
from grader.record.causes import Cause
from grader.text import clean

RULE = UsesKernels


def decide(bench: Bench, cases: Sequence[PlannedCase], rule: UsesKernels) -> Ruling:
    """Call the part on the cases, then judge what ran in all calls of the part so far."""
    refused: Failure | None = None
    for one in cases:
        trial = bench.try_case(one.case, one.seed)
        if trial.failure and trial.failure.status != "fail":
            return Ruling(trial.failure, one)
        # Other checks judge whether the case is right.
        refused = _refused(bench, one, trial.failure and explain_wrong_replay(bench, one, trial, trial.failure))
        if refused:
            break
    evidence = {
        "kernels": _kernels_seen(bench.findings.evidence),
        "operators": _operators_seen(bench.findings.evidence),
    }
    if helpers := [name for seen in bench.findings.evidence for name in seen.helpers]:
        evidence["helpers"] = _distinct_names(helpers)
    found = by_evidence(bench.findings.evidence, rule.allowed_operators, bench.part.bounds)
    found = found or _missing_operations(bench.findings.evidence, rule.operations)
    found = found or (_other_products(bench.findings.evidence) if rule.products_by_cute else None)
    found = found or _same_program(bench.findings.evidence, cases, rule.program_axes)
    # Here the kernels may be right by luck, where a call of another check told their work from the rest.
    found = found or refused or next(iter(bench.findings.outside_kernels), None)
    unknown = [seen for seen in bench.findings.evidence if not seen.was_replayed]
    unrecordable = why_unrecorded(unknown[0]) if unknown else ""
    if unrecordable and not found:
        undecided = f"it is unknown whether kernels do the work: {unrecordable}"
        return Ruling(None, evidence=evidence, undecided=undecided)
    return Ruling(found, evidence=evidence)


def _missing_operations(evidence: Sequence[Evidence], operations: Sequence[str]) -> Failure | None:
    for seen in evidence:
        # Operations are only known of replayed calls.
        if not seen.was_replayed:
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


def _other_products(evidence: Sequence[Evidence]) -> Failure | None:
    """Return the failure of a call whose program may multiply without CuTe's operations."""
    for seen in evidence:
        if others := sorted(name for name in seen.operations if not name.startswith("cute.")):
            return Failure(
                "policy",
                Cause(
                    "other_means",
                    "Products that cute.gemm does not compute",
                    f"For {seen.case.words()} the program multiplies or converts fractions by {', '.join(others)}.",
                    "Copy a thread's parts of A and B into fragments, and let cute.gemm multiply these.",
                ),
            )
    return None


def _same_program(evidence: Sequence[Evidence], cases: Sequence[PlannedCase], axes: Sequence[str]) -> Failure | None:
    """Return the failure of two calls that run the same program on the same numbers, and differ in these axes alone.

    They are calls of any check, on problems of these cases: on others, such as those smaller than any tile, a program
    need not show what it is asked for.
    """
    known: dict[tuple[tuple[str, Value], ...], list[Evidence]] = {_without(one.case, axes): [] for one in cases}
    for seen in evidence if axes else ():
        alike = known.get(_without(seen.case, axes))
        if alike is None or not (seen.was_replayed and seen.programs):
            continue
        for other in alike:
            differing = [axis for axis in axes if seen.case.get(axis) != other.case.get(axis)]
            if differing and seen.programs == other.programs:
                return Failure(
                    "policy",
                    Cause(
                        "other_means",
                        "The same program, whatever it is asked for",
                        f"For {other.case.words()} the same program runs as with "
                        f"{all_of([f'{axis}={seen.case[axis]}' for axis in differing])}.",
                        "Which arguments does the code not use? If it keeps compiled functions: are all arguments in "
                        "the key?",
                    ),
                )
        alike.append(seen)
    return None


def _without(case: Case, axes: Sequence[str]) -> tuple[tuple[str, Value], ...]:
    return tuple((axis, value) for axis, value in case.items() if axis not in axes)


def _refused(bench: Bench, one: PlannedCase, failure: Failure | None) -> Failure | None:
    """Return the failure of a wrong call if other means computed it, or if its kernels do nothing yet."""
    # Values of what is no tensor cannot be compared.
    if failure is None or failure.status != "fail" or failure.cause.kind == "wrong_type":
        return failure
    if kernels_matter(bench, CallRequest(bench.part, one.case, one.seed)):
        return None
    # A GPU counts no bytes.
    counted = interpreted_trial(bench, one)
    return failure if _stored_nothing(counted.failure if counted else failure) else _idle_failure(one)


def _stored_nothing(failure: Failure | None) -> bool:
    """Return whether the launches stored nothing, and an output still equals fresh memory."""
    if failure is None or failure.wrong_call is None or failure.cause.kind != "unwritten":
        return False
    mismatch, launches = failure.cause.mismatch, failure.wrong_call.outcome.answer.launches
    is_whole = mismatch is not None and mismatch.count == mismatch.total
    return is_whole and bool(launches) and all(one.traffic and not one.traffic.stored_bytes for one in launches)


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
