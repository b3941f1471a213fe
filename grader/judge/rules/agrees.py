"""Judge whether every output agrees with the oracle, on every case."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace

from grader.exercise.cases import QUICK_VOLUME, Value
from grader.exercise.model import Agrees
from grader.exercise.plan import PlannedCase
from grader.judge.bench import Bench
from grader.judge.configurations import (
    ConfigurationRuns,
    every_configuration,
    is_due_to_configuration,
    name_configuration_of,
)
from grader.judge.failures import Failure
from grader.judge.gpu_sizes import OnTheLargestGpu, on_the_usual_gpu, raises_on_few
from grader.judge.rules.kernels_only import judged_apart
from grader.judge.ruling import Ruling
from grader.judge.trial import CallRequest, NotRunHere, Trial
from grader.record.json_numbers import Number, number

RULE = Agrees

# How many failing cases to explain: the largest alone may not show the cause.
_MOST_EXPLAINED = 4

# A configuration: the first line of its kernel, and what sets it apart from the kernel's others.
_Choice = tuple[int, str]
_Choices = frozenset[_Choice]

# A failing case with one of these does not predict the next case.
_MAY_GO_ON = ("fail", "not_implemented")


def decide(bench: Bench, cases: Sequence[PlannedCase], rule: Agrees) -> Ruling:
    """Compare every output with the oracle on every case.

    An exception or the death of the process ends the check at once; so does a wrong value if the bench asks for it. If
    the rule asks for it, one case of each dtype also runs in every configuration of autotuned kernels. So does one case
    of each set of configurations that pruning leaves, here and in later checks of the part. Some cases are also
    recorded with a larger GPU shown to launch code, and so are those in which it raises an exception on a small one.
    """
    worst, run = 0.0, 0
    tuned = _tuned_cases(cases, rule)
    usual: dict[PlannedCase, Trial] = {}
    largest: dict[_Choices, tuple[PlannedCase, Trial]] = {}
    failed: list[tuple[PlannedCase, Failure]] = []
    trials_failed: dict[PlannedCase, Trial] = {}
    left_out: dict[PlannedCase, str] = {}
    largest_gpu = OnTheLargestGpu(bench)
    # Only the far ends of a star may be left out for too many programs.
    far = [rule.cases.is_far(one.case) for one in cases]
    requests = [
        CallRequest(bench.part, one.case, one.seed, may_be_left_out=is_far)
        for one, is_far in zip(cases, far, strict=True)
    ]
    with closing(_run_here(bench, requests, failed)) as trials:
        for one, trial in zip(cases, trials, strict=False):
            if trial.left_out:
                left_out[one] = trial.left_out
                if failed:
                    # It took seconds, and others may too. The failure is known.
                    break
                continue
            worst, run = max(worst, trial.worst), run + 1
            largest_gpu.note(one, trial)
            if one in tuned or trial.kept:
                usual[one] = trial
            elif rule.every_configuration or bench.findings.configurations is not None:
                _keep_largest(largest, one, trial)
            if trial.failure:
                failed.append((one, trial.failure))
                trials_failed[one] = trial
                if trial.failure.status not in _MAY_GO_ON or (bench.first_failure and trial.failure.status == "fail"):
                    break
    # Last: its calls cause the later cases to be recorded again.
    failed = _looked_into(bench, failed, trials_failed)
    if left_out and not failed and (not run or _are_too_many(len(left_out), sum(far))):
        raise NotRunHere(next(iter(left_out.values())))
    # A part counts as not implemented only if every case is.
    if len(failed) < run or any(failure.status != "not_implemented" for _, failure in failed):
        failed = [(one, _crash_if_begun(failure)) for one, failure in failed]
    metrics: dict[str, Number] = {"cases": run, "worst_error_over_allowed": number(worst)}
    if left_out:
        metrics["cases_left_out"] = len(left_out)
    notes = tuple(f"not judged here: {one.case.words()} (a GPU has to run {why})" for one, why in left_out.items())
    if not failed and (wrong := largest_gpu.first_failure()):
        failed = [wrong]
    if not failed:
        found, failing = _in_every_configuration(bench, _configured_cases(bench, rule, tuned, usual, largest), usual)
        return Ruling(found.failure, failing, evidence=found.evidence, metrics=metrics | found.metrics, notes=notes)
    metrics["cases_failed"] = len(failed)
    telling = _most_telling(failed)
    return Ruling(telling[0], failed[0][0], metrics=metrics, alike=tuple(telling[1:]), notes=notes)


def _looked_into(
    bench: Bench, failed: Sequence[tuple[PlannedCase, Failure]], trials: Mapping[PlannedCase, Trial]
) -> list[tuple[PlannedCase, Failure]]:
    """Return the failures; the first names the configuration, or the work outside kernels, that causes it.

    Only the first is examined: the others would give the same.
    """
    if not failed:
        return []
    (one, failure), *others = failed
    if is_due_to_configuration(bench, one, trials[one]):
        return [(one, name_configuration_of(trials[one], failure)) for one, failure in failed]
    return [(one, judged_apart(bench, one, trials[one], failure, briefly=True)), *others]


def _are_too_many(left_out: int, far: int) -> bool:
    """Return whether too many far ends were left out for a verdict: more than half of several.

    A file that is slow exactly where it is wrong would pass.
    """
    return far > 1 and 2 * left_out > far


def _run_here(bench: Bench, requests: Sequence[CallRequest], failed: Sequence[object]) -> Generator[Trial]:
    """Yield the trials. After a failure, a call that only a GPU can run ends them.

    Where launch code raises an exception on a small GPU, the call is tried for the usual one, and a new batch begins.
    """
    left = deque(requests)
    try:
        while left:
            with closing(bench.tries([*left])) as trials:
                for trial in trials:
                    request = left.popleft()
                    if raises_on_few(bench, trial):
                        break
                    yield trial
                else:
                    return
            yield on_the_usual_gpu(bench, request, trial)
    except NotRunHere:
        if not failed:
            raise


def _tuned_cases(cases: Sequence[PlannedCase], rule: Agrees) -> list[PlannedCase]:
    """Return the cases to run in every configuration: the largest canonical one of each dtype, largest first.

    Most tiles leave a remainder in the largest. A configuration may be wrong for one dtype alone, such as one that
    allows TF32.
    """
    named = [one for one in cases if one.case in rule.cases.named] if rule.every_configuration else []
    largest: dict[Value, PlannedCase] = {}
    for one in sorted(named, key=lambda one: one.case.volume, reverse=True):
        largest.setdefault(one.case.get("dtype", ""), one)
    return list(largest.values())


def _configured_cases(
    bench: Bench,
    rule: Agrees,
    tuned: Sequence[PlannedCase],
    usual: dict[PlannedCase, Trial],
    largest: Mapping[_Choices, tuple[PlannedCase, Trial]],
) -> list[PlannedCase]:
    """Return the cases to run in every configuration, and note their configurations in the bench.

    These are the tuned cases, and cases with configurations that no earlier case had: pruning may leave some
    configurations to certain sizes alone. The latter join the `usual` trials.
    """
    known = bench.findings.configurations
    offered = (known or set()).union(*(_choices_of(usual[one]) for one in tuned if one in usual))
    pruned = dict(found for choices, found in largest.items() if not choices <= offered)
    if rule.every_configuration or known is not None:
        bench.findings.configurations = offered.union(*largest)
    usual |= pruned
    return [*tuned, *pruned]


def _choices_of(trial: Trial) -> _Choices:
    """Return the configurations that the autotuners of a call may choose."""
    return frozenset((one.kernel_line, words) for one in trial.tuning for words in one.words)


def _keep_largest(largest: dict[_Choices, tuple[PlannedCase, Trial]], one: PlannedCase, trial: Trial) -> None:
    """Keep a case that is quick, and the largest with its set of configurations."""
    choices, volume = _choices_of(trial), one.case.volume
    known = largest[choices][0].case.volume if choices in largest else -1
    if trial.configurations > 1 and known < volume <= QUICK_VOLUME:
        largest[choices] = one, trial


def _in_every_configuration(
    bench: Bench, cases: Sequence[PlannedCase], usual: Mapping[PlannedCase, Trial]
) -> tuple[ConfigurationRuns, PlannedCase | None]:
    """Return the runs of the first case that fails, with that case; else those of the largest case, and None.

    Other cases run only in the configurations that an autotuner keeps from an earlier call.
    """
    first, before = ConfigurationRuns(), bench.interpreted().pair.worked_s
    others = [one for one in usual if one not in cases]
    for one in (*(one for one in cases if one in usual), *others):
        spent_s = bench.interpreted().pair.worked_s - before
        found = every_configuration(bench, one, usual[one], spent_s, kept=one in others)
        if found.failure:
            return found, one
        first = first if first.known else found
    return first, None


def _crash_if_begun(failure: Failure) -> Failure:
    """Return "not implemented" as a crash: the part has answered another case."""
    if failure.status != "not_implemented":
        return failure
    help_text = "The function answers other cases: write the code for this one."
    cause = replace(failure.cause, kind="crash", title="Your code leaves this case out", help=help_text)
    return replace(failure, status="crash", cause=cause)


def _most_telling(failed: Sequence[tuple[PlannedCase, Failure]]) -> list[Failure]:
    """Return the failures to explain: with the first one's status, the largest outputs first.

    Large outputs show patterns. But calls that take the oracle seconds come last, smallest first: it computes each many
    times. Outputs that take long to examine are left out; if all do, the smallest stays. Without values to compare,
    only the first failure is returned.
    """
    (first, failure), status = failed[0], failed[0][1].status
    if failure.cause.mismatch is None:
        return [_with_case(first, failure)]
    compared = [entry for entry in failed if entry[1].status == status and entry[1].cause.mismatch]
    quick = [entry for entry in compared if not (entry[1].wrong_call and entry[1].wrong_call.is_large)]
    compared = quick or [min(compared, key=lambda entry: entry[0].case.volume)]
    largest = sorted(compared, key=lambda entry: _telling_key(*entry), reverse=True)[:_MOST_EXPLAINED]
    return [_with_case(one, found) for one, found in largest]


def _with_case(one: PlannedCase, failure: Failure) -> Failure:
    return replace(failure, cause=replace(failure.cause, case=one.case.words()))


def _telling_key(one: PlannedCase, failure: Failure) -> tuple[bool, int, int]:
    """Return a key for sorting: whether the oracle is quick, the size of the output, then that of the case."""
    mismatch, volume = failure.cause.mismatch, one.case.volume
    if volume > QUICK_VOLUME:
        return False, -volume, 0
    return True, mismatch.total if mismatch else -1, volume
