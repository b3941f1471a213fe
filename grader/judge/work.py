"""The work check: bytes moved and memory taken, counted in the interpreter, against the part's model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import floor

from grader.judge.bench import Bench, Trial
from grader.judge.causes import Failure
from grader.judge.clues import Clue
from grader.judge.configurations import others, words_of
from grader.judge.ruling import Ruling
from grader.model.exercise import WorkModel
from grader.model.formula import evaluate
from grader.plan import PlannedCase
from grader.protocol.messages import Launch, Traffic
from grader.record import Cause, Number, Work, clean
from grader.sandbox.outcome import Finished

# So often must bytes be touched again before it is worth saying.
_AGAIN = 1.2
# Beyond this, nobody wants to know a ratio's digits.
_MANY = 100
# More than any machine moves.
_MOST = 1 << 60

_NO_KERNEL = Failure(
    "fail",
    Cause(
        "no_kernel",
        "No kernel was launched",
        "There is nothing to count: the answer came about without any kernel of yours being launched.",
        "Bytes are counted where your kernels load and store them.",
    ),
)


def works(bench: Bench, cases: Sequence[PlannedCase], model: WorkModel) -> Ruling:
    """No call moves more bytes, or takes more memory, than the model allows."""
    found: list[Work] = []
    for one in cases:
        trial = bench.try_case(one.case, one.seed)
        if trial.failure:
            return Ruling(trial.failure, one, work=tuple(found))
        if trial.untold:
            return Ruling(None, one, undecided=f"the launches could not be recorded: {trial.untold[0]}")
        if not trial.launches:
            return Ruling(_NO_KERNEL, one, work=tuple(found))
        work, failure = _weighed(bench, one, model, trial)
        if failure:
            # An autotuner would not have chosen a configuration that moves more than another one.
            work, failure = _least(
                (work, failure), (_weighed(bench, one, model, each) for each in others(bench, one, trial))
            )
        if isinstance(work, str):
            return Ruling(None, one, work=tuple(found), undecided=work)
        found.append(work)
        if failure:
            return Ruling(failure, one, metrics=_metrics(found), work=tuple(found))
    return Ruling(None, metrics=_metrics(found), work=tuple(found))


def _weighed(bench: Bench, one: PlannedCase, model: WorkModel, trial: Trial) -> tuple[Work | str, Failure | None]:
    """What a call moved and what is wrong with that; or why it is not known."""
    launches = [_plausible(launch) for launch in trial.launches]
    work = _counted(trial, launches, one, model, len(bench.part.outputs))
    if isinstance(work, str):
        return work, None
    return work, _too_much(work, model, launches, sum(output.nbytes for output in trial.expected))


def _least(
    first: tuple[Work | str, Failure | None], rest: Iterator[tuple[Work | str, Failure | None]]
) -> tuple[Work | str, Failure | None]:
    """The call with which nothing is wrong, or the one that moves least."""
    best = first
    for each in rest:
        work, failure = each
        if isinstance(work, Work) and isinstance(best[0], Work) and work.moved_bytes < best[0].moved_bytes:
            best = each
        if isinstance(work, Work) and failure is None:
            return each
    return best


def _plausible(launch: Launch) -> Launch:
    """A launch with counts that can be: what the child says may be anything."""
    if launch.traffic is None:
        return launch
    counts = {name: min(max(count, 0), _MOST) for name, count in vars(launch.traffic).items()}
    return replace(launch, traffic=Traffic(**{**counts, "complete": launch.traffic.complete}))


def _counted(trial: Trial, launches: Sequence[Launch], one: PlannedCase, model: WorkModel, returned: int) -> Work | str:
    """What the call moved, or why that is not known; the first `returned` of what is expected are new tensors."""
    assert isinstance(trial.outcome, Finished)
    traffic = [launch.traffic for launch in launches if launch.traffic is not None]
    if len(traffic) < len(launches):
        return f"not all that was moved for {one.case.words()} could be followed"
    needed = evaluate(model.bytes, one.case)
    # What is changed in place is expected as well, but nobody allocates it.
    results = sum(output.nbytes for output in trial.expected[:returned])
    followed = all(each.complete for each in traffic)
    return Work(
        case=dict(one.case),
        words=one.case.words(),
        loaded_bytes=sum(each.loaded_bytes for each in traffic),
        stored_bytes=sum(each.stored_bytes for each in traffic),
        unique_bytes=sum(each.unique_loaded_bytes + each.unique_stored_bytes for each in traffic) if followed else 0,
        launches=len(traffic),
        flops=sum(each.dot_flops for each in traffic),
        model_bytes=round(needed),
        allowed_bytes=floor(model.slack * needed),
        extra_bytes=min(max(trial.outcome.answer.allocated_bytes - results, 0), _MOST),
        extra_allowed_bytes=floor(evaluate(model.extra_bytes, one.case)) if model.extra_bytes else -1,
        configuration=words_of(trial),
    )


def _metrics(found: Sequence[Work]) -> dict[str, Number]:
    worst = max(found, key=lambda work: work.moved_bytes / max(work.allowed_bytes, 1))
    return {"cases": len(found), "bytes_moved": worst.moved_bytes, "bytes_allowed": worst.allowed_bytes}


def _too_much(work: Work, model: WorkModel, launches: Sequence[Launch], going: int) -> Failure | None:
    """`going`: the bytes of the results."""
    if 0 <= work.extra_allowed_bytes < work.extra_bytes:
        return Failure(
            "fail",
            Cause(
                "memory",
                "Takes too much memory",
                f"For {_call(work)}: tensors of your own take up {_bytes(work.extra_bytes)} at one time, beside inputs "
                f"and results; {_bytes(work.extra_allowed_bytes)} are allowed ({model.extra_bytes}).",
                "Which tensor grows faster than the inputs do? Keep its tiles in registers, and never all of it.",
                f"at most {_bytes(work.extra_allowed_bytes)}",
                _bytes(work.extra_bytes),
            ),
        )
    if work.moved_bytes <= work.allowed_bytes:
        return None
    slack = "" if model.slack == 1 else f"; {model.slack:g} times that is allowed"
    return Failure(
        "fail",
        Cause(
            "traffic",
            "Moves more bytes than needed",
            f"For {_call(work)}: {_bytes(work.moved_bytes)} are loaded and stored, {_times(work)} times the "
            f"{_bytes(work.model_bytes)} that this part needs ({model.bytes}){slack}. {_each(launches)}",
            _why(work, [launch.traffic for launch in launches if launch.traffic]),
            f"at most {_bytes(work.allowed_bytes)}",
            _bytes(work.moved_bytes),
        ),
        tuple(_clues(work, [launch.traffic for launch in launches if launch.traffic], going)),
    )


def _call(work: Work) -> str:
    return f"{work.words}, with {work.configuration}" if work.configuration else work.words


def _times(work: Work) -> str:
    times = work.moved_bytes / max(work.model_bytes, 1)
    return f"{times:.2f}" if times < _MANY else f"{times:,.0f}"


def _each(launches: Sequence[Launch]) -> str:
    told = []
    for launch in launches[:4]:
        if launch.traffic:
            moved = f"loads {_bytes(launch.traffic.loaded_bytes)} and stores {_bytes(launch.traffic.stored_bytes)}"
            told.append(f"{clean(launch.kernel, 80)} {moved}")
    more = f"; and {len(launches) - 4} more launches" if len(launches) > 4 else ""
    return f"{'; '.join(told)}{more}."


def _why(work: Work, traffic: Sequence[Traffic]) -> str:
    loaded, loaded_once = work.loaded_bytes, sum(each.unique_loaded_bytes for each in traffic)
    stored, stored_once = work.stored_bytes, sum(each.unique_stored_bytes for each in traffic)
    followed = all(each.complete for each in traffic)
    if followed and stored - stored_once > loaded - loaded_once and stored >= _AGAIN * stored_once:
        return (
            f"What a launch stores is stored {stored / max(stored_once, 1):.1f} times on average: keep a value in "
            "registers until it is final, and store it once."
        )
    if followed and loaded >= _AGAIN * loaded_once:
        return (
            f"What a launch loads is loaded {loaded / max(loaded_once, 1):.1f} times on average: load it once, and use "
            "it for more before letting go of it (larger tiles, or a row kept in registers)."
        )
    if work.launches > 1:
        return (
            f"The {work.launches} launches hand their results on through memory: do the steps in one kernel, and what "
            "the next step needs never leaves the registers."
        )
    return (
        "Something is loaded or stored that is neither an input nor a result: an intermediate value that is kept in "
        "registers is not moved at all."
    )


def _clues(work: Work, traffic: Sequence[Traffic], going: int) -> Iterator[Clue]:
    """What moves the bytes: values that go through memory, inputs that are loaded again, bytes that nobody needs."""
    stored, loaded = work.stored_bytes, work.loaded_bytes
    stored_once = sum(each.unique_stored_bytes for each in traffic)
    loaded_once = sum(each.unique_loaded_bytes for each in traffic)
    followed = all(each.complete for each in traffic)
    needed_once = followed and loaded_once + stored_once <= work.allowed_bytes and stored_once <= _AGAIN * going
    if needed_once and stored >= _AGAIN * stored_once and loaded >= _AGAIN * loaded_once:
        seen = f"Each byte is loaded {loaded / max(loaded_once, 1):.1f} times and stored "
        yield Clue("done_again", 0.85, f"{seen}{stored / max(stored_once, 1):.1f} times, and none that is not needed.")
        yield Clue("read_again", 0.4)
    elif stored > _AGAIN * going:
        seen = f"{_bytes(stored)} are stored, and the results are {_bytes(going)}."
        yield Clue("through_memory", 0.8, seen)
        if work.launches > 1:
            yield Clue("several_launches", 0.5, f"{work.launches} launches hand their results on.")
    elif followed and loaded >= _AGAIN * loaded_once:
        yield Clue("read_again", 0.85, f"What is loaded is loaded {loaded / max(loaded_once, 1):.1f} times on average.")
        if stored_once and stored >= _AGAIN * stored_once:
            yield Clue("through_memory", 0.5, "What is stored is stored more than once.")
    elif work.launches > 1:
        yield Clue("through_memory", 0.6, f"{_bytes(loaded)} are loaded by {work.launches} launches.")
        yield Clue("several_launches", 0.55, f"{work.launches} launches hand their results on.")
    else:
        yield Clue(
            "reads_unneeded", 0.75, "No byte is loaded twice, and none but results is stored: some are not needed."
        )
        yield Clue("through_memory", 0.3, "")


def _bytes(count: int) -> str:
    return f"{count:,} bytes"
