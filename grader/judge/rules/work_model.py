"""Judge bytes moved and memory taken against the part's model. They are counted in the interpreter."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Literal, TypeVar

from grader.exercise.cases import Case
from grader.exercise.formula import evaluate
from grader.exercise.plan import PlannedCase
from grader.exercise.rules import Allowance, WorkModel
from grader.judge.bench import Bench
from grader.judge.clue import Clue, sure
from grader.judge.configurations import other_configurations, words_of
from grader.judge.evidence import Evidence
from grader.judge.failure import Failure
from grader.judge.ruling import Ruling
from grader.judge.trial import CallRequest, NotRunHere, Trial
from grader.judge.unplanned_cases import find_unplanned_cases
from grader.phrases import listed
from grader.protocol.observations import LaunchInfo, Traffic, Waste
from grader.record.causes import Cause
from grader.record.json_numbers import Number
from grader.record.work import Work
from grader.sandbox.outcome import Finished
from grader.text import clean

RULE = WorkModel

# A sentence is written if bytes are touched this often on average.
_AGAIN = 1.2
# Larger ratios are shown without decimals.
_MANY = 100
# The most launches that a text names.
_MOST_LAUNCHES = 4
# More than a call moves; the sums over thousands of launches are still exact in a float, which the record holds.
_MOST = 1 << 40
# A formula of more characters is not shown on a card.
_LONGEST_FORMULA = 100
_MODEL_SEED = 1

_NO_KERNEL = Failure(
    "fail",
    Cause(
        "no_kernel",
        "No kernel was launched",
        "Nothing could be counted: the function returned an answer without launching a kernel of yours.",
        "The bytes that your kernels load and store are counted.",
    ),
)


_Bytes = TypeVar("_Bytes", Traffic, Waste)


@dataclass(frozen=True)
class _Counted:
    """One launch of which everything was counted."""

    kernel: str
    traffic: Traffic
    waste: Waste


@dataclass(frozen=True)
class Weighed:
    """One call beside the model: what it used, and the share of the points for it.

    advice: on the largest share of needless bytes; "" if all points are earned. failure: set if no points are earned.
    """

    work: Work
    share: float
    advice: str = ""
    failure: Failure | None = None


def decide(bench: Bench, cases: Sequence[PlannedCase], model: WorkModel) -> Ruling:
    """Count what a call of every case uses; the worst share of the points counts.

    If the model asks for it, calls of other checks in its space count too: those that moved too much for any points are
    repeated here.
    """
    cases = [
        *cases,
        *find_unplanned_cases(
            bench.findings.evidence, cases, model.cases.space, lambda seen: _moved_too_much(seen, model)
        ),
    ]
    found: list[Weighed] = []
    for one in cases:
        trial = bench.try_case(one.case, one.seed, counts="waste")
        so_far = tuple(each.work for each in found)
        if trial.failure:
            return Ruling(trial.failure, one, work=so_far)
        if trial.unrecordable:
            return Ruling(None, one, undecided=f"the launches could not be recorded: {trial.unrecordable[0]}")
        if not trial.launches:
            return Ruling(_NO_KERNEL, one, work=so_far)
        weighed = _lightest(bench, one, model, trial)
        if isinstance(weighed, str):
            return Ruling(None, one, work=so_far, undecided=weighed)
        found.append(weighed)
        if weighed.failure:
            return Ruling(weighed.failure, one, metrics=_metrics(found), work=(*so_far, weighed.work), share=0.0)
    worst = min(found, key=lambda each: each.share)
    evidence = {"more than needed": f"{worst.work.words}: {worst.advice}"} if worst.advice else {}
    work = (*(each.work for each in found), *_count_models(bench, model))
    return Ruling(None, evidence=evidence, metrics=_metrics(found), work=work, share=worst.share)


def _count_models(bench: Bench, model: WorkModel) -> Iterator[Work]:
    """Yield what right calls on small copies of the timed sizes use."""
    returned = len(bench.part.outputs)
    for case in model.model_cases:
        with bench.findings.aside(), suppress(NotRunHere):
            (trial,) = bench.tries([CallRequest(bench.part, case, _MODEL_SEED, counts="instructions")])
            counted = _counted(trial.launches)
            if trial.failure is None and not trial.unrecordable and counted:
                yield replace(_count(trial, counted, case, returned, copies=model.copies), models_size=True)


def _moved_too_much(seen: Evidence, model: WorkModel) -> bool:
    limit = model.moved if model.everywhere else None
    return limit is not None and seen.moved_bytes >= limit.none * evaluate(limit.bytes, seen.case)


def _lightest(bench: Bench, one: PlannedCase, model: WorkModel, trial: Trial) -> Weighed | str:
    """Compare a call with the model; if it misses points, try every other configuration of its kernels.

    The best one counts: an autotuner would not choose one that moves more than another.
    """
    returned = len(bench.part.outputs)
    best = weigh(trial, one, model, returned)
    if isinstance(best, str) or best.share == 1:
        return best
    for other in other_configurations(bench, one, trial, counts="waste"):
        weighed = weigh(other, one, model, returned)
        if isinstance(weighed, str):
            continue
        is_better = (weighed.share, -weighed.work.moved_bytes) > (best.share, -best.work.moved_bytes)
        if is_better and bench.refused.fits(other):
            best = weighed
        if best.share == 1:
            break
    return best


def weigh(trial: Trial, one: PlannedCase, model: WorkModel, returned: int) -> Weighed | str:
    """Compare one call that launched kernels with the model.

    Returns a reason as text if some accesses were not counted. returned: the number of expected tensors that are new.
    """
    counted = _counted(trial.launches)
    if counted is None:
        return f"some of the bytes moved for {one.case.words()} could not be counted"
    traffic = [each.traffic for each in counted]
    work = _work_of(trial, counted, one, model, returned)
    assert isinstance(trial.outcome, Finished)
    enlarged = min(max(trial.outcome.answer.enlarged_bytes, 0), _MOST)
    limits = tuple(_limits(work, enlarged, [each.waste for each in counted], model))
    share = min(limit.share(one) for limit in limits)
    if share == 1:
        return Weighed(work, share)
    tightest = next(limit for limit in limits if limit.share(one) == share)
    if tightest.kind == "stores" and work.unique_stored_bytes < 0:
        return f"some of the bytes stored for {one.case.words()} could not be counted"
    results = sum(output.nbytes for output in trial.expected)
    wastes = _wastes(work, traffic, results)
    copied = trial.outcome.answer.copied_bytes if enlarged else 0
    copying = _copying_words(work.copied_bytes or min(max(copied, 0), _MOST), trial)
    advice = _HELP.get(tightest.kind) or _advice(work, wastes, copying)
    if share > 0:
        return Weighed(work, share, advice)
    cause = _cause(tightest, work, counted, advice, copying)
    clues: tuple[Clue, ...] = ()
    if tightest.kind == "traffic":
        clues = tuple(_clues(work, wastes, results, copying))
    elif tightest.kind == "copies":
        # These two are counted, not guessed: no mistake in values that other checks show leads here.
        clues = (sure("copied_by_torch", copying, cause.title, advice),)
    elif tightest.kind == "again":
        seen = f"{_bytes(tightest.used)} of them are loaded by a program that had them."
        clues = (sure("read_again", seen, cause.title, advice),)
    elif tightest.kind == "stores":
        clues = (_stored_clue(work, results),)
    return Weighed(work, share, advice, Failure("fail", cause, clues))


def _counted(launches: Sequence[LaunchInfo]) -> list[_Counted] | None:
    """Return the launches with possible counts: the process's claims may be anything. None: some were not counted."""
    found = [
        _Counted(one.kernel, _clamped(one.traffic), _clamped(one.waste))
        for one in launches
        if one.traffic is not None and one.waste is not None
    ]
    return found if len(found) == len(launches) else None


def _clamped(counts: _Bytes) -> _Bytes:
    clamped = {name: min(max(count, 0), _MOST) for name, count in vars(counts).items() if not isinstance(count, bool)}
    return replace(counts, **clamped)


def _work_of(trial: Trial, counted: Sequence[_Counted], one: PlannedCase, model: WorkModel, returned: int) -> Work:
    """Return what a call used, with its limits."""
    moved, stored, extra = (_bounds(limit, one) for limit in (model.moved, model.stored, model.extra))
    return replace(
        _count(trial, counted, one.case, returned, copies=model.copies),
        model_bytes=round(evaluate(model.moved.bytes, one.case)) if model.moved else -1,
        allowed_bytes=moved[0],
        none_bytes=moved[1],
        extra_allowed_bytes=extra[0],
        extra_none_bytes=extra[1],
        stored_allowed_bytes=stored[0],
        stored_none_bytes=stored[1],
    )


def _count(trial: Trial, counted: Sequence[_Counted], case: Case, returned: int, *, copies: bool) -> Work:
    """Return what a call used, without limits. copies: with what torch copies."""
    assert isinstance(trial.outcome, Finished)
    # Arguments changed in place are expected too, but not allocated.
    results = sum(output.nbytes for output in trial.expected[:returned])
    traffic = [each.traffic for each in counted]
    followed = all(each.complete for each in traffic)
    unique = sum(each.unique_loaded_bytes + each.unique_stored_bytes for each in traffic)
    copied = min(max(trial.outcome.answer.copied_bytes, 0), _MOST) if copies else 0
    return Work(
        case=dict(case),
        words=case.words(),
        loaded_bytes=sum(each.loaded_bytes for each in traffic),
        stored_bytes=sum(each.stored_bytes for each in traffic),
        unique_bytes=copied + unique if followed else 0,
        launches=len(traffic),
        flops=sum(each.dot_flops for each in traffic),
        model_bytes=-1,
        allowed_bytes=-1,
        extra_bytes=min(max(trial.outcome.answer.allocated_bytes - results, 0), _MOST),
        extra_allowed_bytes=-1,
        unique_stored_bytes=sum(each.unique_stored_bytes for each in traffic) if followed else -1,
        configuration=words_of(trial),
        dots=sum(each.dots for each in traffic),
        exponentials=sum(each.exponentials for each in traffic),
        operations=sum(each.operations for each in traffic),
        kernels=tuple(dict.fromkeys(clean(launch.kernel, 80) for launch in trial.launches)),
        copied_bytes=copied,
        sector_ratio=_sector_ratio(counted),
        apart_line=max(
            (each.waste for each in counted), key=lambda one: one.sector_bytes - one.used_bytes, default=Waste()
        ).apart_line,
    )


def _sector_ratio(counted: Sequence[_Counted]) -> float:
    """Return the bytes of the sectors that programs touch over those that they use, over all launches."""
    wasted = sum(max(each.waste.sector_bytes - each.waste.used_bytes, 0) for each in counted)
    # A launch whose lanes lie close together uses what it moves.
    used = sum(each.waste.used_bytes or each.traffic.loaded_bytes + each.traffic.stored_bytes for each in counted)
    return round(1 + wasted / max(used, 1), 3)


def _bounds(allowance: Allowance | None, one: PlannedCase) -> tuple[int, int]:
    return allowance.bounds(one.case) if allowance else (-1, -1)


def _metrics(found: Sequence[Weighed]) -> dict[str, Number]:
    works = [each.work for each in found]
    if any(work.allowed_bytes >= 0 for work in works):
        worst = max(works, key=lambda work: work.moved_bytes / max(work.allowed_bytes, 1))
        return {"cases": len(works), "bytes_moved": worst.moved_bytes, "bytes_allowed": worst.allowed_bytes}
    return {"cases": len(works)}


# -- the limits ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Limit:
    """One count beside its allowance. kind: of the cause, if the count earns no points."""

    kind: Literal["memory", "stores", "copies", "again", "traffic"]
    used: int
    allowance: Allowance

    def share(self, one: PlannedCase) -> float:
        return self.allowance.share(self.used, one.case)


def _limits(work: Work, enlarged: int, wastes: Sequence[Waste], model: WorkModel) -> Iterator[_Limit]:
    """Yield the limits of the model. The first of equally bad ones decides.

    enlarged: bytes by which copies are larger than what they copy.
    """
    if model.extra:
        yield _Limit("memory", work.extra_bytes, model.extra)
    if model.stored:
        # If not all stores were followed, the sum of stored bytes is an upper bound.
        unique = work.unique_stored_bytes
        yield _Limit("stores", unique if unique >= 0 else work.stored_bytes, model.stored)
    if model.enlarged:
        yield _Limit("copies", enlarged, model.enlarged)
    if model.again:
        yield _Limit("again", sum(each.reloaded_bytes for each in wastes), model.again)
    if model.in_a_row:
        yield _Limit("again", sum(each.in_a_row_bytes for each in wastes), model.in_a_row)
    if model.moved:
        yield _Limit("traffic", work.moved_bytes, model.moved)


def _cause(limit: _Limit, work: Work, launches: Sequence[_Counted], advice: str, copying: str) -> Cause:
    """Return the cause of a count without points, with both bounds. copying: what torch copies, in words."""
    formula = limit.allowance.bytes
    # A card cuts long texts in the middle: the numbers say more than a formula of several lines.
    bracketed = f" ({formula})" if len(formula) <= _LONGEST_FORMULA else ""
    match limit.kind:
        case "memory":
            title, full, none = "Takes too much memory", work.extra_allowed_bytes, work.extra_none_bytes
            used = f"your own tensors take up {_bytes(limit.used)} at one time, besides inputs and results."
            needed = bracketed
        case "stores":
            title, full, none = "Stores more bytes than needed", work.stored_allowed_bytes, work.stored_none_bytes
            used = f"{_bytes(limit.used)} are stored, each counted once."
            needed = f" ({limit.allowance.full:g} times {formula})" if bracketed else ""
        case "copies":
            title, (full, none) = "Copies are larger than the inputs", limit.allowance.bounds(Case(work.case))
            used = f"copies that PyTorch makes are {_bytes(limit.used)} larger than what they copy."
            needed = ""
        case "again":
            title, (full, none) = "Programs load again what they have", limit.allowance.bounds(Case(work.case))
            used = f"{_bytes(limit.used)} are loaded by programs that loaded them before, and had them still."
            needed = ""
        case "traffic":
            title, full, none = "Moves more bytes than needed", work.allowed_bytes, work.none_bytes
            moved = "loaded, stored and copied" if copying else "loaded and stored"
            used = f"{_bytes(limit.used)} are {moved}, {_ratio_words(work)} times the "
            used += f"{_bytes(work.model_bytes)} that this part needs{bracketed}."
            needed = ""
    each = "" if limit.kind in ("memory", "copies") else f" {_launch_words(launches)}"
    bounds = f"All points are earned up to {_bytes(full)}{needed}, and none from {_bytes(none)} on."
    return Cause(
        limit.kind,
        title,
        f"For {_call_words(work)}: {used} {bounds}{each}",
        advice,
        f"at most {_bytes(full)}",
        _bytes(limit.used),
    )


def _call_words(work: Work) -> str:
    return f"{work.words}, with {work.configuration}" if work.configuration else work.words


def _ratio_words(work: Work) -> str:
    times = work.moved_bytes / max(work.model_bytes, 1)
    return f"{times:.2f}" if times < _MANY else f"{times:,.0f}"


def _launch_words(launches: Sequence[_Counted]) -> str:
    moved_words = []
    for launch in launches:
        moved = f"loads {_bytes(launch.traffic.loaded_bytes)} and stores {_bytes(launch.traffic.stored_bytes)}"
        moved_words.append(f"{clean(launch.kernel, 80)} {moved}")
    return f"{listed(moved_words, _MOST_LAUNCHES, '; ')}."


def _copying_words(copied: int, trial: Trial) -> str:
    """Return what torch copies in a call; "" if it copies nothing."""
    assert isinstance(trial.outcome, Finished)
    if not copied:
        return ""
    line = trial.outcome.answer.copying_line
    where = f", most of them in line {line}" if line > 0 else ""
    return f"PyTorch reads and writes {_bytes(copied)} to copy or cast tensors{where}."


# -- where the bytes went --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Wastes:
    """Bytes of one call that were not needed.

    again: loaded more than once by one launch, beyond the room in the model. restored: stored more than once by one
    launch; as many are loaded in between, and not counted in `again`. handed: stored beside the results and loaded
    again. loaded_times, stored_times: how often a launch loads and stores a byte, on average. counted: each byte was
    followed; otherwise loads beyond the model count as loaded again.
    """

    again: int
    restored: int
    handed: int
    loaded_times: float
    stored_times: float
    counted: bool = True

    @property
    def through(self) -> int:
        """Bytes that go through memory and could stay in registers."""
        return 2 * self.restored + self.handed

    @property
    def is_read_again(self) -> bool:
        """Reading again costs most."""
        return self.again > self.through and self.loaded_times >= _AGAIN


def _wastes(work: Work, traffic: Sequence[Traffic], results: int) -> _Wastes:
    loaded_once = sum(each.unique_loaded_bytes for each in traffic)
    stored_once = sum(each.unique_stored_bytes for each in traffic)
    if not all(each.complete for each in traffic):
        # Without unique bytes, only the bytes stored beside the results and those beyond the model are known.
        model = max(work.model_bytes, 1)
        again, handed = work.loaded_bytes - model, 2 * max(work.stored_bytes - results, 0)
        return _Wastes(max(again, 0), 0, handed, work.loaded_bytes / model, 1.0, counted=False)
    room = max(work.model_bytes - loaded_once - stored_once, 0)
    restored = work.stored_bytes - stored_once
    return _Wastes(
        again=max(work.loaded_bytes - loaded_once - room - restored, 0),
        restored=restored,
        handed=2 * max(stored_once - results, 0),
        loaded_times=work.loaded_bytes / max(loaded_once, 1),
        stored_times=work.stored_bytes / max(stored_once, 1),
    )


_HELP = {
    "memory": "Which tensor of yours is so large? Keep one tile of an intermediate in registers at a time, and read an "
    "input by its strides, without a copy.",
    "copies": "Which `.to()`, `.float()`, `repeat()` or `repeat_interleave()` makes an input larger? The kernel can "
    "convert it in registers, and read it again where it is used again.",
    "again": "Which tile does a program load at two places, or in two passes over its inputs? Keep what you loaded, "
    "and let one pass do: a new maximum rescales what was summed up so far.",
    "stores": "Which values are stored besides the results? Keep them in registers, tile by tile, and use them there.",
}


def _advice(work: Work, wastes: _Wastes, copying: str) -> str:
    """Return advice about what costs most bytes. copying: what torch copies, in words."""
    if _is_copied(work, wastes):
        return f"{copying} Read an input by its strides in the kernel, without a copy."
    if wastes.is_read_again:
        often = f"each byte {wastes.loaded_times:.1f} times on average" if wastes.counted else "some bytes many times"
        return (
            f"A launch loads {often}: load it once, and use it more often (larger tiles, or a row kept in registers)."
        )
    if wastes.restored > wastes.handed and wastes.stored_times >= _AGAIN:
        return (
            f"A launch stores each byte {wastes.stored_times:.1f} times on average: keep a value in registers until it "
            "is final, and store it once."
        )
    if work.launches > 1:
        return (
            f"The {work.launches} launches pass their results on through memory: do the steps in one kernel, and keep "
            "the values between them in registers."
        )
    return (
        "The kernel loads or stores values that are not inputs and not results: keep intermediate values in registers."
    )


def _is_copied(work: Work, wastes: _Wastes) -> bool:
    """Return whether torch's copies cost most."""
    return work.copied_bytes > max(wastes.again, wastes.through)


def _clues(work: Work, wastes: _Wastes, results: int, copying: str) -> Iterator[Clue]:
    """Yield what moves the bytes, the largest part first. copying: what torch copies, in words.

    Torch copies them, values go through memory, inputs are loaded again, or bytes are not needed.
    """
    if _is_copied(work, wastes):
        yield Clue("copied_by_torch", 0.9, copying)
        return
    read = f"Each loaded byte is loaded {wastes.loaded_times:.1f} times on average."
    if not wastes.counted:
        read = f"{_bytes(work.loaded_bytes)} are loaded, {wastes.loaded_times:.1f} times what this part needs."
    needed_once = 0 <= work.unique_stored_bytes <= _AGAIN * results and work.unique_bytes <= work.allowed_bytes
    if needed_once and min(wastes.loaded_times, wastes.stored_times) >= _AGAIN:
        seen = f"Each byte is loaded {wastes.loaded_times:.1f} times and stored "
        yield Clue("done_again", 0.85, f"{seen}{wastes.stored_times:.1f} times, and every byte is needed.")
        yield Clue("read_again", 0.4)
    elif wastes.is_read_again:
        yield Clue("read_again", 0.85, read)
        if work.stored_bytes > _AGAIN * results:
            yield Clue("through_memory", 0.5, _stored_beside(work.stored_bytes, results))
    elif work.stored_bytes > _AGAIN * results:
        yield Clue("through_memory", 0.8, _stored_beside(work.stored_bytes, results))
        if wastes.again and wastes.loaded_times >= _AGAIN:
            yield Clue("read_again", 0.5, read)
        if work.launches > 1:
            yield Clue("several_launches", 0.5, f"{work.launches} launches pass their results on.")
    elif work.launches > 1:
        yield Clue("through_memory", 0.6, f"{_bytes(work.loaded_bytes)} are loaded by {work.launches} launches.")
        yield Clue("several_launches", 0.55, f"{work.launches} launches pass their results on.")
    else:
        seen = "No byte is loaded twice, and only results are stored"
        if work.extra_bytes > results:
            # Memory without stores by kernels, as large as the loads beyond the model.
            filled = f"{_bytes(work.extra_bytes)} besides arguments and results were not filled by a kernel."
            yield Clue("work_outside_kernels", 0.85, f"{seen}. {filled}")
        yield Clue("moves_unneeded", 0.75, f"{seen}: some loads are not needed.")
        yield Clue("through_memory", 0.3, "")


def _stored_clue(work: Work, results: int) -> Clue:
    """Return the clue of too many stored bytes. Values go through memory only if there is memory for them."""
    if work.extra_bytes:
        return Clue("through_memory", 0.8, _stored_beside(work.unique_stored_bytes, results))
    stored = f"{_bytes(work.unique_stored_bytes)} are stored, each counted once"
    seen = f"{stored}, and the call has no memory besides its arguments and results: it stores values that stay equal."
    return Clue("moves_unneeded", 0.8, seen)


def _stored_beside(stored: int, results: int) -> str:
    return f"{_bytes(stored)} are stored, and the results are {_bytes(results)}."


def _bytes(count: int) -> str:
    return f"{count:,} bytes"
