"""The rules that decide a check: each takes the part's bench and the planned cases, and gives a Ruling."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from math import prod
from types import MappingProxyType

from grader.exercise.cases import Size, Space, Value
from grader.exercise.model import Agrees, Fresh, Launches, Regret, Stateful, UsesKernels, WorkModel
from grader.exercise.plan import PlannedCase, PlannedCheck
from grader.judge.bench import Bench, CallRequest, Evidence, NotRunHere, Trial
from grader.judge.clue import Clue
from grader.judge.compare import compare, tensor_of
from grader.judge.configurations import ConfigurationRuns, every_configuration, others
from grader.judge.failures import Failure
from grader.judge.meant import meant_as_well
from grader.judge.regret import regrets
from grader.judge.ruling import Ruling
from grader.judge.stateful import stateful
from grader.judge.work import works
from grader.protocol.messages import LaunchInfo
from grader.protocol.operators import READING
from grader.record import Cause, Number, clean, number
from grader.sandbox.outcome import Finished

# Failing cases that are looked at closely: what is behind them may not show in the largest one, or not alone.
_MOST_EXPLAINED = 4
# Calls after which results are still looked for in earlier ones' memory: more than a ring of buffers is long.
_MORE = 13
# The same after those of the last case, which is the largest: some rings are for large results.
_FEW = 4


def decide(bench: Bench, planned: PlannedCheck) -> Ruling:
    """Run the check's rule on its planned cases. What kernels did not do earns nothing, be it right."""
    before = len(bench.evidence)
    try:
        ruling = _ruled(bench, planned)
    except NotRunHere as call:
        return Ruling(None, unfit=f"a GPU has to run this: {call}")
    if ruling.failure is None and bench.part.is_replayed and not isinstance(planned.check.rule, UsesKernels):
        allowed = [name for check in bench.part.checks for name in _allowed(check.rule)]
        seen = bench.evidence[before:]
        if failure := by_evidence(seen, allowed, bench.part.bounds):
            return replace(ruling, failure=_right_but(failure), failing=planned.cases[0])
        if untold := next((_why_untold(one) for one in seen if not one.is_replayed), ""):
            return replace(ruling, undecided=f"the values are right, but who computes them is not known: {untold}")
    return ruling


def _why_untold(seen: Evidence) -> str:
    return seen.untold[0] if seen.untold else "a call was not replayed"


def _allowed(rule: object) -> Sequence[str]:
    return rule.allowed_operators if isinstance(rule, UsesKernels) else ()


def _right_but(failure: Failure) -> Failure:
    """The same failure, where everything that was returned is right."""
    cause = failure.cause
    return replace(failure, cause=replace(cause, rationale=f"The values are right, but: {cause.rationale}"))


def _ruled(bench: Bench, planned: PlannedCheck) -> Ruling:  # noqa: PLR0911  one return for every rule
    match planned.check.rule:
        case Agrees() as rule:
            return agrees(bench, planned.cases, rule)
        case Stateful() as rule:
            return stateful(bench, planned.cases, rule)
        case Fresh():
            return _first_failure(planned.cases, lambda one: fresh(bench, one, more=_more(planned.cases, one)))
        case UsesKernels(allowed_operators=allowed, operations=operations):
            return uses_kernels(bench, planned.cases, allowed, operations)
        case Launches(most=most):
            return launches(bench, planned.cases, most, planned.check.rule.cases.space)
        case WorkModel() as model:
            return works(bench, planned.cases, model)
        case Regret() as band:
            return regrets(bench, planned.cases, band)
        case other:
            raise TypeError(f"a rule must run cases, got {other}")


def failure_of(bench: Bench, planned: PlannedCheck, one: PlannedCase) -> Failure | None:
    """What the check's rule says of a single case: what shrinking and replaying ask again and again."""
    return decide(bench, replace(planned, cases=(one,))).failure


def agrees(bench: Bench, cases: Sequence[PlannedCase], rule: Agrees) -> Ruling:
    """Every output agrees with the oracle on every case; an exception or a death ends the check at once.

    Where the rule says so, one case is run in every configuration of autotuned kernels as well.
    """
    worst, run = 0.0, 0
    tuned = _tuned_cases(cases, rule)
    usual: dict[PlannedCase, Trial] = {}
    failed: list[tuple[PlannedCase, Failure]] = []
    left_out: dict[PlannedCase, str] = {}
    # Only the far ends of a star may have too many programs for the interpreter.
    far = [not rule.cases.space.holds(one.case) for one in cases]
    requests = [CallRequest(one.case, one.seed, may_be_left_out=is_far) for one, is_far in zip(cases, far, strict=True)]
    trials = bench.tries(requests)
    for one, trial in zip(cases, trials, strict=False):
        if trial.left_out:
            left_out[one] = trial.left_out
            continue
        worst, run = max(worst, trial.worst), run + 1
        if one in tuned:
            usual[one] = trial
        if trial.failure:
            # Once: it would be the same for the others.
            judged = trial.failure if failed else judged_apart(bench, one, trial, trial.failure)
            failed.append((one, judged))
            if failed[-1][1].status not in ("fail", "not_implemented"):
                break
    trials.close()
    if left_out and not run:
        raise NotRunHere(next(iter(left_out.values())))
    # Only what is left out everywhere is not begun.
    if len(failed) < run or any(failure.status != "not_implemented" for _, failure in failed):
        failed = [(one, _begun(failure)) for one, failure in failed]
    metrics: dict[str, Number] = {"cases": run, "worst_error_over_allowed": number(worst)}
    if left_out:
        metrics["cases_left_out"] = len(left_out)
    notes = tuple(f"not judged here: {one.case.words()} (a GPU has to run {why})" for one, why in left_out.items())
    if not failed:
        found, failing = _in_every_configuration(bench, [one for one in tuned if one in usual], usual)
        return Ruling(found.failure, failing, evidence=found.evidence, metrics=metrics | found.metrics, notes=notes)
    metrics["cases_failed"] = len(failed)
    telling = _most_telling(failed)
    return Ruling(telling[0], failed[0][0], metrics=metrics, alike=tuple(telling[1:]), notes=notes)


def _tuned_cases(cases: Sequence[PlannedCase], rule: Agrees) -> list[PlannedCase]:
    """The cases that are run in every configuration: of each dtype the largest canonical one, largest first.

    The largest is that whose lengths have the largest product. Most tiles do not fill it; and a configuration may be
    wrong for one dtype alone: one that allows TF32, say.
    """
    lengths = [name for name, domain in rule.cases.space.axes.items() if isinstance(domain, Size)]

    def volume(one: PlannedCase) -> int:
        return prod(max(1, int(one.case[name])) for name in lengths)

    named = [one for one in cases if one.case in rule.cases.named] if rule.every_configuration else []
    largest: dict[Value, PlannedCase] = {}
    for one in sorted(named, key=volume, reverse=True):
        largest.setdefault(one.case.get("dtype", ""), one)
    return list(largest.values())


def _in_every_configuration(
    bench: Bench, cases: Sequence[PlannedCase], usual: Mapping[PlannedCase, Trial]
) -> tuple[ConfigurationRuns, PlannedCase | None]:
    """What came of the largest of the cases, or of the first that fails; and that one."""
    first, before = ConfigurationRuns(), bench.interpreted().pair.worked_s
    for one in cases:
        spent_s = bench.interpreted().pair.worked_s - before
        found = every_configuration(bench, one, usual[one], spent_s)
        if found.failure:
            return found, one
        first = first if first.known else found
    return first, None


def _extent(one: PlannedCase) -> int:
    return sum(value for value in one.case.values() if isinstance(value, int) and not isinstance(value, bool))


def _begun(failure: Failure) -> Failure:
    """The failure of a part that answered another case: it is begun, whatever it raises for this one."""
    if failure.status != "not_implemented":
        return failure
    help_text = "Other cases are answered: write the code for this one."
    cause = replace(failure.cause, kind="crash", title="Your code leaves this case out", help=help_text)
    return replace(failure, status="crash", cause=cause)


def judged_apart(bench: Bench, one: PlannedCase, trial: Trial, failure: Failure) -> Failure:
    """The failure of a replay, or what it comes to where the same call is right when all that it does is done."""
    replayed = bench.part.is_replayed and not trial.untold and isinstance(trial.outcome, Finished)
    how = bench.right_otherwise(trial) if replayed and failure.status == "fail" else ""
    if how == "without memory":
        seen = "The same call is right where it finds no memory of earlier calls."
        return replace(failure, clues=(*failure.clues, Clue("not_cleared", 0.7, seen)))
    if not how:
        return failure
    return _policy(
        "outside_kernels",
        "Not all of the work is done by your kernels",
        f"For {one.case.words()} the function returns the right values, but its kernels alone, launched again on other "
        f"inputs, do not: {failure.cause.rationale}",
    )


def _most_telling(failed: Sequence[tuple[PlannedCase, Failure]]) -> list[Failure]:
    """Failures of the first one's status with the largest outputs, where a pattern can be seen; or the first alone."""
    (first, failure), status = failed[0], failed[0][1].status
    if failure.cause.mismatch is None:
        return [_of(first, failure)]
    compared = [entry for entry in failed if entry[1].status == status and entry[1].cause.mismatch]
    largest = sorted(compared, key=lambda entry: _size(*entry), reverse=True)[:_MOST_EXPLAINED]
    return [_of(one, found) for one, found in largest]


def _of(one: PlannedCase, failure: Failure) -> Failure:
    return replace(failure, cause=replace(failure.cause, case=one.case.words()))


def _size(one: PlannedCase, failure: Failure) -> tuple[int, int]:
    """Of the output; where outputs are alike, of the case."""
    mismatch = failure.cause.mismatch
    return mismatch.total if mismatch else -1, _extent(one)


def _first_failure(cases: Sequence[PlannedCase], judge: Callable[[PlannedCase], Failure | None]) -> Ruling:
    metrics: dict[str, Number] = {"cases": len(cases)}
    for one in cases:
        if failure := judge(one):
            return Ruling(failure, one, metrics=metrics)
    return Ruling(None, metrics=metrics)


# -- fresh -----------------------------------------------------------------------------------------------------------


def fresh(bench: Bench, one: PlannedCase, more: int = 0) -> Failure | None:
    """Four calls that a remembered answer cannot survive, and `more` that show whether results are memory of their own.

    1. some bytes; 2. other bytes behind the same pointers and version counters; 3. the same again with only the
    middle changed, which a fingerprint of the ends does not see; 4. the first bytes again, elsewhere in memory.
    Then others, until whatever hands out a few buffers in turns comes to the first one again.
    """
    other = _other_seed(one.seed)
    requests = [
        CallRequest(one.case, one.seed),
        CallRequest(one.case, other, storage="same"),
        CallRequest(one.case, other, patch_seed=one.seed, storage="same"),
        CallRequest(one.case, one.seed),
        *(CallRequest(one.case, one.seed + place) for place in range(1, more + 1)),
    ]
    trials = list(bench.tries(requests, chained=True))
    first = trials[0]
    if first.failure:
        return judged_apart(bench, one, first, first.failure)
    if len(trials) < len(requests):
        # The last one says why there are no more.
        return trials[-1].failure
    _, second, third, fourth, *others = trials
    for trial, earlier, what in (
        (second, first, "the bytes behind the same pointers had changed"),
        (third, second, "the middle of the inputs had changed"),
        (fourth, third, "the inputs were those of an earlier call, in new memory"),
    ):
        if failure := _stale(trial, earlier, what):
            return failure
        if trial.failure:
            seen = f"The first call was right. In this one {what}, and the answer is wrong."
            return replace(trial.failure, clues=(*trial.failure.clues, Clue("remembered_input", 0.7, seen)))
    wrong = next((trial.failure for trial in others if trial.failure), None)
    return _alias(*trials) or wrong or _repeats(bench, first, fourth)


def _more(cases: Sequence[PlannedCase], one: PlannedCase) -> int:
    return _MORE if one is cases[0] else _FEW if one is cases[-1] else 0


def _other_seed(seed: int) -> int:
    return (seed * 6364136223846793005 + 1442695040888963407) % 2**63


def _stale(trial: Trial, earlier: Trial, what: str) -> Failure | None:
    """A wrong answer that is the right answer to the call before."""
    if not trial.failure or not isinstance(trial.outcome, Finished):
        return None
    answered = [
        raw is not None and compare(tensor_of(raw, output), output).agrees
        for raw, output in zip(trial.outcome.outputs, earlier.expected, strict=False)
    ]
    if not answered or not all(answered):
        return None
    return Failure(
        "fail",
        Cause(
            "stale_result",
            "An earlier answer was returned again",
            f"In this call {what}, yet the answer is that of the call before.",
            "Results must be computed from the inputs at every call; remember none by pointer, shape or content.",
        ),
    )


def _alias(*trials: Trial) -> Failure | None:
    for trial in trials:
        if not isinstance(trial.outcome, Finished):
            continue
        for form, output in zip(trial.outcome.answer.outputs, trial.expected, strict=False):
            if form.alias:
                return Failure(
                    "fail",
                    Cause(
                        "alias",
                        "A result shares memory",
                        f"{output.name} must be memory of its own, but it shares that of {clean(form.alias, 80)}.",
                        "Allocate the output in every call: the caller may still hold, or change, what it shares.",
                    ),
                )
    return None


def _repeats(bench: Bench, first: Trial, again: Trial) -> Failure | None:
    if first.launches and not again.launches:
        return Failure(
            "fail",
            Cause(
                "stale_result",
                "A call computed nothing",
                "Given the inputs of an earlier call again, the function returned without launching a kernel.",
                "Results must be computed from the inputs at every call; do not remember them by content.",
            ),
        )
    same = (
        isinstance(first.outcome, Finished)
        and isinstance(again.outcome, Finished)
        and first.outcome.outputs == again.outcome.outputs
    )
    if bench.part.deterministic and not same:
        return Failure(
            "fail",
            Cause(
                "not_repeatable",
                "Two calls on equal inputs disagree",
                "This part promises the same bits for the same inputs.",
                "Look for memory that is read before it is written, or for programs that race for one address.",
            ),
            (Clue("race", 0.5, "Two calls on equal inputs disagree."), Clue("not_cleared", 0.5)),
        )
    return None


# -- technique -------------------------------------------------------------------------------------------------------


def uses_kernels(
    bench: Bench, cases: Sequence[PlannedCase], allowed: Sequence[str], operations: Sequence[str] = ()
) -> Ruling:
    """The learner's kernels do the work: by what ran in all calls so far, replayed without anything else."""
    for one in cases:
        trial = bench.try_case(one.case, one.seed)
        if trial.failure and trial.failure.status != "fail":
            return Ruling(trial.failure, one)
        # A case that is wrong by itself is other checks' business.
        failure = judged_apart(bench, one, trial, trial.failure) if trial.failure else None
        if failure is not None and failure.status == "fail":
            failure = _idle(bench, one) or failure
        if failure is not None and failure.status != "fail":
            break
    evidence = {"kernels": _kernels_seen(bench.evidence), "operators": _operators_seen(bench.evidence)}
    if helpers := [name for seen in bench.evidence for name in seen.helpers]:
        evidence["helpers"] = _listed_once(helpers)
    found = by_evidence(bench.evidence, allowed, bench.part.bounds) or _by_operations(bench.evidence, operations)
    unknown = [seen for seen in bench.evidence if not seen.is_replayed]
    untold = _why_untold(unknown[0]) if unknown else ""
    if untold and not found:
        undecided = f"who does the work could not be recorded: {untold}"
        return Ruling(None, evidence=evidence, undecided=undecided)
    refused = failure if failure is not None and failure.status != "fail" else None
    return Ruling(found or refused, evidence=evidence)


def by_evidence(
    evidence: Sequence[Evidence], allowed: Sequence[str], bounds: Mapping[str, str] = MappingProxyType({})
) -> Failure | None:
    """Return the first call in which no kernel was launched, or something else computed, or Python read values.

    bounds: what bounds the values of arguments, in words.
    """
    for seen in evidence:
        if not (seen.kernels or seen.untold):
            return _policy(
                "no_kernel",
                "No kernel was launched",
                f"For {seen.case.words()} an answer came without any kernel of yours being launched.",
            )
        computing = [name for name in seen.operators if name.partition(" ")[0] not in allowed]
        if computing and seen.reads:
            return _reading(seen, computing, bounds)
        if computing:
            return _policy(
                "library_call",
                "Something besides your kernels computed",
                f"For {seen.case.words()} these ran beside your kernels: {_few(computing)}.",
            )
    return None


def _reading(seen: Evidence, computing: Sequence[str], bounds: Mapping[str, str]) -> Failure:
    """Say which line tells Python values of which argument, and what to do without them."""
    first = seen.reads[0]
    others = [name for name in computing if name.partition(" ")[0] not in READING]
    of = [clean(name, 40) for name in first.of]
    where = f"line {first.line} of the file" if first.line else "a line of the file"
    what = f" of {' and '.join(f'`{name}`' for name in of)}" if of else " of a tensor"
    beside = f" These ran beside your kernels: {_few(others)}." if others else ""
    how = READING[first.name]
    said = f"{where} reads values{what} into Python by `{how}`"
    if how == ".item()":
        said += ", which int(t), float(t), bool(t), `if t` and range(t) do as well"
    rule = "Launch code may use shapes, strides and dtypes, and no values: for them the CPU would wait for the GPU."
    known = [bounds[name] for name in of if name in bounds]
    by = f"Size grids, loops and buffers by shapes: {'; '.join(known)}." if known else "Size grids and loops by shapes."
    name = of[0] if of else "x"
    cause = Cause(
        "value_read",
        "Launch code reads the values of a tensor",
        f"For {seen.case.words()}: {said}. {rule}{beside}",
        f"{by} Load the value in the kernel: tl.load({name}_ptr + …).",
    )
    return Failure("policy", cause)


def _few(names: Sequence[str]) -> str:
    return ", ".join(clean(name, 160) for name in names[:5])


def _by_operations(evidence: Sequence[Evidence], wanted: Sequence[str]) -> Failure | None:
    for seen in evidence:
        # Of what was not replayed, nobody knows.
        if not seen.is_replayed:
            continue
        if missing := [name for name in wanted if name not in seen.operations]:
            return Failure(
                "policy",
                Cause(
                    "other_means",
                    "Right, but not by the means that this part is about",
                    f"For {seen.case.words()} these operations are nowhere in what ran: {', '.join(missing)}.",
                    "They are what calls become when a function is traced: cute.make_tiled_mma is called so, "
                    "thr_mma.partition_A is cute.tiled.mma.partition.",
                ),
            )
    return None


def _idle(bench: Bench, one: PlannedCase) -> Failure | None:
    """Of a wrong answer: whether the kernels have no part in it."""
    if bench.kernels_matter(CallRequest(one.case, one.seed)):
        return None
    return _policy(
        "outside_kernels",
        "Your kernels have no part in the answer",
        f"For {one.case.words()} the function returns the same with its launches and without them.",
    )


def _policy(kind: str, title: str, rationale: str) -> Failure:
    help_text = (
        "Allocation, zeros, fills, views and a final dtype cast may be torch's; the arithmetic is your kernels'."
    )
    return Failure("policy", Cause(kind, title, rationale, help_text))


def _kernels_seen(evidence: Sequence[Evidence]) -> str:
    return _listed_once(name for seen in evidence for name in seen.kernels)


def _operators_seen(evidence: Sequence[Evidence]) -> str:
    return _listed_once(name for seen in evidence for name in seen.operators)


def _listed_once(names: Iterable[str]) -> str:
    return clean(", ".join(dict.fromkeys(names)), 2000) or "none"


# -- launches --------------------------------------------------------------------------------------------------------


def launches(bench: Bench, cases: Sequence[PlannedCase], most: int, space: Space) -> Ruling:
    """No more than `most` launches in one call, and at least one; of a call that gave the right answer.

    space: calls of other checks that lie in it are meant as well: those that had too many launches are made again here.
    """
    cases = [*cases, *meant_as_well(bench.evidence, cases, space, lambda seen: seen.launches > most)]
    metrics: dict[str, Number] = {"cases": len(cases)}
    for one in cases:
        trial = bench.try_case(one.case, one.seed)
        if failure := trial.failure and judged_apart(bench, one, trial, trial.failure):
            return Ruling(failure, one, metrics=metrics)
        if trial.untold:
            return Ruling(None, one, undecided=f"the launches could not be recorded: {trial.untold[0]}")
        tried = chain([trial], (other for other in others(bench, one, trial) if bench.fits(other)))
        enough = any(1 <= len(each.launches) <= most for each in tried)
        if not enough:
            return Ruling(_wrong_number(one, trial.launches, most), one, metrics=metrics)
    return Ruling(None, metrics=metrics)


def _wrong_number(one: PlannedCase, seen: Sequence[LaunchInfo], most: int) -> Failure:
    count = len(seen)
    title = "Too many launches" if count else "No kernel was launched"
    wanted = "one launch" if most == 1 else f"at most {most} launches"
    rationale = f"For {one.case.words()} {wanted} should do, got {count}{_listed(seen)}."
    help_text = (
        "Each launch reads its inputs from memory again; keep what the next step needs in registers." if count else ""
    )
    return Failure("fail", Cause("launches", title, rationale, help_text, wanted, str(count)))


def _listed(seen: Sequence[LaunchInfo]) -> str:
    names = ", ".join(clean(launch.kernel, 80) for launch in seen[:6])
    return f" ({names})" if names else ""


def shrinkable(planned: PlannedCheck, failure: Failure) -> bool:
    """Whether smaller cases are worth trying: not for what waits for its time limit, nor where size does not matter."""
    return isinstance(planned.check.rule, Agrees) and failure.status in ("fail", "crash", "compile_error")
