"""Run a case with the configurations of autotuned kernels, one by one.

An autotuner may choose any configuration that works.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

from grader.exercise.plan import PlannedCase
from grader.judge.bench import Bench
from grader.judge.clue import sure
from grader.judge.failure import Failure
from grader.judge.retrials import remembered
from grader.judge.trial import CallRequest, NotRunHere, Trial
from grader.phrases import all_of, listed
from grader.protocol.answers import Raised
from grader.protocol.configurations import Configurations
from grader.protocol.requests import Counts, Wanted
from grader.record.json_numbers import Number
from grader.sandbox.outcome import Finished

# The seconds for all configurations of a part, and how many begin at a time.
_MOST_S = 20.0
_AT_A_TIME = 8
# Findings of the interpreter that a GPU may hide.
_SEEN_IN_THE_INTERPRETER = frozenset({"out_of_bounds", "race", "undefined"})
_MOST_NAMED = 6
# The most other configurations in which a failing call is tried.
_MOST_OTHERS = 2


@dataclass(frozen=True)
class ConfigurationRuns:
    """The outcome of running every configuration of a case.

    known: number of configurations. run: number that ran. refused: reasons of those passed over.
    """

    known: int = 0
    run: int = 0
    refused: tuple[str, ...] = ()
    failure: Failure | None = None

    @property
    def metrics(self) -> dict[str, Number]:
        """Counts of known, run and passed-over configurations; empty where nothing is autotuned."""
        if not self.known:
            return {}
        return {
            "configurations": self.known,
            "configurations_run": self.run,
            "configurations_passed_over": len(self.refused),
        }

    @property
    def evidence(self) -> dict[str, str]:
        """The configurations that were passed over, with reasons."""
        return {"passed_over": listed(self.refused, _MOST_NAMED, "; ")} if self.refused else {}


def every_configuration(
    bench: Bench, one: PlannedCase, usual: Trial, spent_s: float = 0.0, *, kept: bool = False
) -> ConfigurationRuns:
    """Run a case in every configuration, in the interpreter.

    usual: the same case in the usual way. spent_s: seconds that other cases of the part have already used. kept: run
    only those that an autotuner keeps from an earlier call. Each is first tried on the call's own tensors, as an
    autotuner does; those that the GPU refuses are skipped. On a machine with a GPU, most failures count only if they
    show on it too, and configurations that only a GPU runs are tried on it. Without a GPU, these raise NotRunHere.
    """
    if usual.configurations < 2:
        return ConfigurationRuns()
    interpreted = bench.interpreted()
    if interpreted is not bench:
        try:
            usual = interpreted.try_case(one.case, one.seed)
        except NotRunHere:
            return ConfigurationRuns(known=usual.configurations)
        if usual.failure or usual.configurations < 2:
            return ConfigurationRuns(known=usual.configurations)
    found = ConfigurationRuns(known=usual.configurations)
    before, refused = interpreted.pair.worked_s - spent_s, list[str]()
    with interpreted.findings.aside():
        for first in range(usual.kept.start if kept else 0, found.known, _AT_A_TIME):
            if interpreted.pair.worked_s - before > _MOST_S:
                break
            places = range(first, min(first + _AT_A_TIME, found.known))
            for place, trial in _try_configurations(interpreted, one, places, rehearsed=True):
                words = _configuration_words(usual.tuning, place)
                if isinstance(trial, NotRunHere):
                    if failure := _failure_on_a_gpu(bench, one, usual, place, why=str(trial)):
                        return replace(found, refused=tuple(refused), failure=failure)
                    continue
                wrong = trial.failure
                why = interpreted.refused.why(trial.recorded, place, trial.outcome) if wrong and trial.recorded else ""
                if why:
                    refused.append(f"{words}: {why}")
                elif isinstance(trial.outcome, Finished | Raised) or not interpreted.is_late:
                    found = replace(found, run=found.run + 1)
                    if wrong and _failure_counts(bench, one, wrong, words):
                        failure = _with_reason(interpreted, one, replace(trial, tuning=usual.tuning), wrong, place)
                        return replace(found, refused=tuple(refused), failure=failure)
    return replace(found, refused=tuple(refused))


def _with_reason(bench: Bench, one: PlannedCase, trial: Trial, failure: Failure, place: int) -> Failure:
    """Return the failure of a configuration that was first tried on the same tensors, with its reason.

    The reason is an earlier call, the configuration itself, or what the trial left. A call that wrote into an
    earlier result needs no further reason.
    """
    if failure.cause.kind == "alias":
        return failure
    if clues := remembered(bench, trial.recipe, trial.outcome, Wanted((place,), rehearsed=True)):
        return replace(failure, clues=clues)
    plain = next((plain for _, plain in _run_configurations(bench, one, [place])), None)
    return name_configuration(
        plain.failure if plain and plain.failure else failure,
        trial.tuning,
        place,
        only_rehearsed=plain is not None and plain.failure is None,
    )


def other_configurations(bench: Bench, one: PlannedCase, trial: Trial, counts: Counts = "bytes") -> Iterator[Trial]:
    """Yield the same call in every other configuration that works, largest constants first.

    counts: of each launch in the interpreter.
    """
    if trial.configurations < 2:
        return
    taken = trial.configuration
    most = max(trial.tuning, key=lambda one: len(one.words))
    places = [place for place in most.likeliest if place != taken]
    before = bench.pair.worked_s
    with bench.findings.aside():
        for first in range(0, len(places), 2):
            if bench.pair.worked_s - before > _MOST_S:
                return
            tried = _run_configurations(bench, one, places[first : first + 2], counts=counts)
            yield from (other for _, other in tried if not other.failure)


def _failure_on_a_gpu(bench: Bench, one: PlannedCase, usual: Trial, place: int, why: str) -> Failure | None:
    """Return the failure of a configuration that only a GPU runs, under its name.

    why: what in it needs a GPU. Raises NotRunHere without a GPU.
    """
    words = _configuration_words(usual.tuning, place)
    if bench.interpreter is None:
        raise NotRunHere(f"{why}, with {words}")
    with bench.findings.aside():
        trial = next((trial for _, trial in _run_configurations(bench, one, [place], rehearsed=True)), None)
    if trial is None or trial.failure is None:
        return None
    refused = trial.recorded and bench.refused.why(trial.recorded, place, trial.outcome)
    return None if refused else name_configuration(trial.failure, usual.tuning, place)


def _run_configurations(
    bench: Bench, one: PlannedCase, places: Sequence[int], *, rehearsed: bool = False, counts: Counts = "bytes"
) -> Iterator[tuple[int, Trial]]:
    """Run a case in these configurations, and yield those that can run here, as `_try_configurations` does."""
    for place, trial in _try_configurations(bench, one, places, rehearsed=rehearsed, counts=counts):
        if isinstance(trial, Trial):
            yield place, trial


def _try_configurations(
    bench: Bench, one: PlannedCase, places: Sequence[int], *, rehearsed: bool = False, counts: Counts = "bytes"
) -> Iterator[tuple[int, Trial | NotRunHere]]:
    """Run a case in these configurations, and yield each trial, or why it cannot run here.

    rehearsed: each was tried on the same tensors before, as by an autotuner. counts: of each launch in the interpreter.
    """
    waiting = list(places)
    while waiting:
        done = 0
        try:
            requests = [
                CallRequest(bench.part, one.case, one.seed, wanted=Wanted((place,), rehearsed), counts=counts)
                for place in waiting
            ]
            with closing(bench.tries(requests)) as trials:
                for place, trial in zip(waiting, trials, strict=False):
                    done += 1
                    yield place, trial
        except NotRunHere as why:
            yield waiting[done], why
            waiting = waiting[done + 1 :]
        else:
            return


def _failure_counts(bench: Bench, one: PlannedCase, wrong: Failure, words: str) -> bool:
    """Return whether a failure in the interpreter counts.

    With a GPU it must fail there too. Accesses, races and undefined lanes are seen by the interpreter only.
    """
    if bench.interpreter is None or wrong.cause.kind in _SEEN_IN_THE_INTERPRETER:
        return True
    with bench.findings.aside():
        usual = bench.try_case(one.case, one.seed)
        places = [place for place in range(usual.configurations) if _configuration_words(usual.tuning, place) == words]
        return any(
            trial.failure and not (trial.recorded and bench.refused.why(trial.recorded, places[0], trial.outcome))
            for _, trial in _run_configurations(bench, one, places[:1], rehearsed=True)
        )


def name_configuration(
    failure: Failure, tuning: Sequence[Configurations], place: int, *, only_rehearsed: bool = False
) -> Failure:
    """Return the failure of one configuration, with the configuration in its words.

    only_rehearsed: it is right without an earlier trial on the same tensors.
    """
    words, cause = _configuration_words(tuning, place), failure.cause
    places = [f"{one.kernel} (line {one.kernel_line}, launched in line {one.line})" for one in tuning]
    where = all_of([*dict.fromkeys(places)])
    if only_rehearsed:
        return _left_by_trials(failure, words, where)
    lead = f"An autotuner may choose {words} for {where}, and with it this goes wrong. "
    return replace(
        failure,
        cause=replace(
            cause,
            title=f"{cause.title}: with {words}",
            rationale=f"{lead}{cause.rationale}",
            help=f"Fix the kernel for this configuration, or remove the configuration. {cause.help}".rstrip(),
        ),
    )


def is_due_to_configuration(bench: Bench, one: PlannedCase, trial: Trial) -> bool:
    """Return whether a call that failed is right in one of the first other configurations."""
    others = [place for place in range(trial.configurations) if place != trial.configuration][:_MOST_OTHERS]
    if trial.configuration < 0 or not others:
        return False
    with bench.findings.aside():
        return any(other.failure is None for _, other in _run_configurations(bench, one, others))


def name_configuration_of(trial: Trial, failure: Failure) -> Failure:
    """Return the failure of a call, with its configuration in its words."""
    return name_configuration(failure, trial.tuning, trial.configuration) if trial.configuration >= 0 else failure


def _left_by_trials(failure: Failure, words: str, where: str) -> Failure:
    """Return the failure of a configuration that reads what its trials left in the tensors."""
    rationale = (
        f"An autotuner times {where} on the tensors of the call, and launches it once more. With {words} the last "
        f"launch finds what the trials left there: the first call of a size is wrong. {failure.cause.rationale}"
    )
    help_text = (
        "Name what the kernel adds to in reset_to_zero=[…] of triton.autotune, and what it changes in place in "
        "restore_value=[…]; or clear it in a pre_hook of the configuration."
    )
    title = f"{failure.cause.title}: after autotuning"
    cause = replace(failure.cause, title=title, rationale=rationale, help=help_text)
    words_of_kind = "Memory that the trials of an autotuner change, and the last launch reads"
    clue = sure("not_cleared", "The trials of an autotuner remain.", words_of_kind, help_text)
    return replace(failure, cause=cause, clues=(clue,))


def _configuration_words(tuning: Sequence[Configurations], place: int) -> str:
    """Return in words what is special about the configuration at `place`, of every autotuner."""
    words = (one.words[place % len(one.words)] for one in tuning)
    return ", ".join(dict.fromkeys(filter(None, words))) or f"its configuration number {place + 1}"


def words_of(trial: Trial) -> str:
    """Return in words what is special about the configuration of a call; "" without autotuner."""
    return _configuration_words(trial.tuning, trial.configuration) if trial.configuration >= 0 and trial.tuning else ""
