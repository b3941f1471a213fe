"""Judge some calls a second time, as launch code makes them on a GPU with more multiprocessors.

Launch code sees a GPU with few multiprocessors. A number of programs that follows from it may be right only there. Or
it follows from a whole GPU, and launch code raises an exception where there are so few.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

from grader.exercise.cases import QUICK_VOLUME
from grader.exercise.plan import PlannedCase
from grader.gpus import LENT_MULTIPROCESSORS, MOST_MULTIPROCESSORS, USUAL
from grader.judge.bench import Bench
from grader.judge.failure import Failure
from grader.judge.retrials import records_alike
from grader.judge.trial import CallRequest, NotRunHere, Trial, number_of
from grader.protocol.answers import Raised
from grader.protocol.trace import fingerprint
from grader.sandbox.outcome import Finished

# One case in so many is also recorded for a large GPU.
_ONE_IN = 4


def raises_on_few(bench: Bench, trial: Trial) -> bool:
    """Return whether a call raised an exception, and the file had asked for the GPU's properties."""
    if not isinstance(trial.outcome, Raised) or trial.failure is None or trial.failure.status != "crash":
        return False
    # A replayer raises it too, and it is the recorded launch code that asks.
    asked = trial.outcome.asked or (trial.recorded is not None and trial.recorded.asked)
    return asked and _pretends(bench)


def on_the_usual_gpu(bench: Bench, request: CallRequest, raised: Trial) -> Trial:
    """Return the trial of a call for the usual GPU if it is right there, else the one that raised an exception.

    An exception misleads nobody who has a smaller GPU, where a wrong value would. So the call is judged by what it does
    on the GPU that the file has to run on.
    """
    try:
        with (
            bench.findings.aside(),
            bench.findings.kernel_groups.unchanged(),
            bench.pair.in_new_process(multiprocessors=USUAL.gpu.multiprocessors),
        ):
            there = bench.try_case(request.case, request.seed)
    except NotRunHere:
        return raised
    return raised if there.failure else there


def _pretends(bench: Bench) -> bool:
    """Return whether launch code is told of a GPU that is not there."""
    return bench.device == "cpu" and bench.interpreter is None


class OnTheLargestGpu:
    """The cases of a check that are recorded again in a process that sees a GPU with the most multiprocessors.

    Only for a file that asked for the GPU's properties. The case decides whether it is chosen; a part's first case
    always is, since it is the only case in which a failure is replayed. After a failure all are chosen, since smaller
    cases are tried then. A trace that does the same as the known one is not replayed. On a real GPU, launch code sees
    the size of that GPU.
    """

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._known: dict[PlannedCase, bytes] = {}

    def note(self, one: PlannedCase, trial: Trial) -> None:
        """Note what a case launched, if it is one of those to record again."""
        recorded = trial.recorded
        if (
            trial.failure
            or not _pretends(self._bench)
            or recorded is None
            or not (recorded.is_replayable and recorded.asked)
        ):
            return
        if one.case.volume <= QUICK_VOLUME and self._is_chosen(one):
            self._known[one] = fingerprint(recorded.message)

    def _is_chosen(self, one: PlannedCase) -> bool:
        is_first = all(known.case == one.case for known in self._bench.findings.tried)
        number = number_of(one.case, "multiprocessors")
        return self._bench.findings.depends_on_size or is_first or number % _ONE_IN == 0

    def first_failure(self) -> tuple[PlannedCase, Failure] | None:
        """Return the first case that is wrong on the largest GPU, with its failure, or None.

        A case that only a GPU can run there decides nothing, and ends the search.
        """
        for one, trial in self._tried():
            if trial.failure and isinstance(trial.outcome, Finished | Raised):
                usual = self._bench.repeat(trial.recipe).failure
                self._bench.findings.depends_on_size = usual is None
                return one, usual or _only_there(trial.failure)
        return None

    def _tried(self) -> Iterator[tuple[PlannedCase, Trial]]:
        """Return the trials on the largest GPU, up to the first failure."""
        bench, found = self._bench, list[tuple[PlannedCase, Trial]]()
        if not self._known:
            return iter(found)
        try:
            with (
                bench.findings.aside(),
                bench.findings.kernel_groups.unchanged(),
                bench.pair.in_new_process(multiprocessors=MOST_MULTIPROCESSORS),
            ):
                requests = {one: CallRequest(bench.part, one.case, one.seed) for one in self._known}
                other = [one for one in requests if not records_alike(bench, requests[one], self._known[one])]
                with closing(bench.tries([requests[one] for one in other])) as trials:
                    for one, trial in zip(other, trials, strict=False):
                        found.append((one, trial))
                        if trial.failure:
                            break
        except NotRunHere:
            pass
        return iter(found)


def _only_there(failure: Failure) -> Failure:
    """Return the failure of a call that is wrong only on the largest GPU."""
    cause = failure.cause
    told = f"For this call, launch code is told of {MOST_MULTIPROCESSORS} multiprocessors, and this goes wrong"
    return replace(
        failure,
        cause=replace(
            cause,
            title=f"{cause.title}: on a GPU with {MOST_MULTIPROCESSORS} multiprocessors",
            rationale=f"{told}. {cause.rationale} With {LENT_MULTIPROCESSORS} the same call is right.",
            help="How many programs do you launch there, and what in the file has room for fewer? Let every size that "
            f"depends on the number of programs follow from it. {cause.help}".rstrip(),
            mismatch=None,
        ),
        clues=(),
        wrong_call=None,
    )
