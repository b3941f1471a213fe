"""Judge whether every output agrees with the oracle, on every case."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace

from grader.exercise.cases import QUICK_VOLUME, Value
from grader.exercise.plan import PlannedCase
from grader.exercise.rules import Agrees
from grader.judge.bench import Bench
from grader.judge.configurations import (
    ConfigurationRuns,
    every_configuration,
    is_due_to_configuration,
    name_configuration_of,
)
from grader.judge.failure import Failure
from grader.judge.gpu_sizes import OnTheLargestGpu, on_the_usual_gpu, raises_on_few
from grader.judge.ruling import Ruling
from grader.judge.trial import CallRequest, NotRunHere, Trial
from grader.judge.wrong_replay import explain_wrong_replay
from grader.record.json_numbers import Number, number

RULE = Agrees

# How many failing cases to explain: the largest alone may not show the cause.
_MOST_EXPLAINED = 4

# A configuration: the first line of its kernel, and what sets it apart from the kernel's others.
_Choice = tuple[int, str]
_Choices = frozenset[_Choice]

# A failing case with one of these does not predict the next case.
_MAY_GO_ON = ("fail", "not_implemented")


@dataclass
class _Ran:
    """Hold what the cases of a check have shown so far.

    count, worst: of the cases that ran, and their largest error. failed: those that failed, in order. left_out: why a
    case has too many programs for the interpreter. far: how many cases may be left out. usual: the trials of cases that
    run in every configuration. largest: the largest quick case of each set of configurations.
    """

    largest_gpu: OnTheLargestGpu
    far: int
    count: int = 0
    worst: float = 0.0
    failed: list[tuple[PlannedCase, Trial]] = field(default_factory=list)
    left_out: dict[PlannedCase, str] = field(default_factory=dict)
    usual: dict[PlannedCase, Trial] = field(default_factory=dict)
    largest: dict[_Choices, tuple[PlannedCase, Trial]] = field(default_factory=dict)

    @property
    def tells_nothing(self) -> bool:
        """Return whether no case ran, or too many for a verdict were left out: more than half of several.

        A file that is slow exactly where it is wrong would pass.
        """
        return bool(self.left_out) and (not self.count or (self.far > 1 and 2 * len(self.left_out) > self.far))

    def note(self, one: PlannedCase, trial: Trial) -> None:
        """Note a case that ran."""
        self.worst, self.count = max(self.worst, trial.worst), self.count + 1
        self.largest_gpu.note(one, trial)
        if trial.failure:
            self.failed.append((one, trial))

    def keep_largest(self, one: PlannedCase, trial: Trial) -> None:
        """Keep a case that is quick, and the largest with its set of configurations."""
        choices, volume = _choices_of(trial), one.case.volume
        known = self.largest[choices][0].case.volume if choices in self.largest else -1
        if trial.configurations > 1 and known < volume <= QUICK_VOLUME:
            self.largest[choices] = one, trial

    def metrics(self) -> dict[str, Number]:
        """Return the numbers of the cases."""
        found: dict[str, Number] = {"cases": self.count, "worst_error_over_allowed": number(self.worst)}
        return found | ({"cases_left_out": len(self.left_out)} if self.left_out else {})

    def notes(self) -> tuple[str, ...]:
        """Return a note for each case that was left out."""
        return tuple(
            f"not judged here: {one.case.words()} (a GPU has to run {why})" for one, why in self.left_out.items()
        )


def decide(bench: Bench, cases: Sequence[PlannedCase], rule: Agrees) -> Ruling:
    """Compare every output with the oracle on every case.

    An exception or the death of the process ends the check at once; so does a wrong value if the bench asks for it. If
    the rule asks for it, one case of each dtype also runs in every configuration of autotuned kernels. So does one case
    of each set of configurations that pruning leaves, here and in later checks of the part. Some cases are also
    recorded with a larger GPU shown to launch code, and so are those in which it raises an exception on a small one.
    """
    tuned = _tuned_cases(cases, rule)
    ran = _run(bench, cases, rule, tuned)
    # Last: its calls cause the later cases to be recorded again.
    failed = _looked_into(bench, ran.failed)
    if not failed and ran.tells_nothing:
        raise NotRunHere(next(iter(ran.left_out.values())))
    # A part counts as not implemented only if every case is.
    if len(failed) < ran.count or any(failure.status != "not_implemented" for _, failure in failed):
        failed = [(one, _crash_if_begun(failure)) for one, failure in failed]
    if not failed and (wrong := ran.largest_gpu.first_failure()):
        failed = [wrong]
    if not failed:
        found, failing = _in_every_configuration(bench, _configured_cases(bench, rule, tuned, ran), ran.usual)
        metrics = ran.metrics() | found.metrics
        return Ruling(found.failure, failing, evidence=found.evidence, metrics=metrics, notes=ran.notes())
    metrics = ran.metrics() | {"cases_failed": len(failed)}
    telling = _most_telling(failed)
    return Ruling(telling[0], failed[0][0], metrics=metrics, alike=tuple(telling[1:]), notes=ran.notes())


def _run(bench: Bench, cases: Sequence[PlannedCase], rule: Agrees, tuned: Sequence[PlannedCase]) -> _Ran:
    """Run the cases, one after another, until a failure predicts the others. tuned: kept for every configuration."""
    # Only the far ends of a star may be left out for too many programs.
    far = [rule.cases.is_far(one.case) for one in cases]
    requests = [
        CallRequest(bench.part, one.case, one.seed, may_be_left_out=is_far)
        for one, is_far in zip(cases, far, strict=True)
    ]
    ran = _Ran(OnTheLargestGpu(bench), sum(far))
    with closing(_run_here(bench, requests, ran)) as trials:
        for one, trial in zip(cases, trials, strict=False):
            if trial.left_out:
                ran.left_out[one] = trial.left_out
                if ran.failed:
                    # It took seconds, and others may too. The failure is known.
                    break
                continue
            ran.note(one, trial)
            if one in tuned or trial.kept:
                ran.usual[one] = trial
            elif rule.every_configuration or bench.findings.configurations is not None:
                ran.keep_largest(one, trial)
            if trial.failure and _predicts_others(trial.failure, bench):
                break
    return ran


def _predicts_others(failure: Failure, bench: Bench) -> bool:
    """Return whether the other cases need not run after a failure."""
    return failure.status not in _MAY_GO_ON or (bench.first_failure and failure.status == "fail")


def _looked_into(bench: Bench, failed: Sequence[tuple[PlannedCase, Trial]]) -> list[tuple[PlannedCase, Failure]]:
    """Return the failures; the first names the configuration, or the work outside kernels, that causes it.

    Only the first is examined: the others would give the same.
    """
    failures = [(one, trial.failure) for one, trial in failed if trial.failure]
    if not failures:
        return []
    (_, trial), ((one, failure), *others) = failed[0], failures
    if is_due_to_configuration(bench, one, trial):
        return [(one, name_configuration_of(trial, failure)) for one, failure in failures]
    return [(one, explain_wrong_replay(bench, one, trial, failure, briefly=True)), *others]


def _run_here(bench: Bench, requests: Sequence[CallRequest], ran: _Ran) -> Generator[Trial]:
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
        if not ran.failed:
            raise


def _tuned_cases(cases: Sequence[PlannedCase], rule: Agrees) -> list[PlannedCase]:
    """Return the cases to run in every configuration: the largest named one of each dtype, largest first.

    Most tiles leave a remainder in the largest. A configuration may be wrong for one dtype alone, such as one that
    allows TF32.
    """
    named = [one for one in cases if one.case in rule.cases.named_cases] if rule.every_configuration else []
    largest: dict[Value, PlannedCase] = {}
    for one in sorted(named, key=lambda one: one.case.volume, reverse=True):
        largest.setdefault(one.case.get("dtype", ""), one)
    return list(largest.values())


def _configured_cases(bench: Bench, rule: Agrees, tuned: Sequence[PlannedCase], ran: _Ran) -> list[PlannedCase]:
    """Return the cases to run in every configuration, and note their configurations in the bench.

    These are the tuned cases, and cases with configurations that no earlier case had: pruning may leave some
    configurations to certain sizes alone. The latter join the `usual` trials.
    """
    known = bench.findings.configurations
    offered = (known or set()).union(*(_choices_of(ran.usual[one]) for one in tuned if one in ran.usual))
    pruned = dict(found for choices, found in ran.largest.items() if not choices <= offered)
    if rule.every_configuration or known is not None:
        bench.findings.configurations = offered.union(*ran.largest)
    ran.usual |= pruned
    return [*tuned, *pruned]


def _choices_of(trial: Trial) -> _Choices:
    """Return the configurations that the autotuners of a call may choose."""
    return frozenset((one.kernel_line, words) for one in trial.tuning for words in one.words)


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
