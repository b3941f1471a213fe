"""Repeat an earlier call of a part, in the same way or another, to find out what its outcome depends on.

Takes a bench and the recipe of the call. It decides no check, and leaves evidence aside where its callers do.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod
from typing import Literal

from grader.exercise.cases import QUICK_VOLUME, Case
from grader.exercise.plan import PlannedCase
from grader.exercise.tensors import ITEMSIZES
from grader.judge.answer_check import check_answer
from grader.judge.bench import Bench
from grader.judge.clue import Clue, sure
from grader.judge.trial import CallRequest, NotRunHere, Trial, repeating
from grader.judge.truth import slots_for
from grader.protocol.requests import ANY, Call, Recipe, ReplayCall, Slot, Wanted, only
from grader.protocol.trace import fingerprint
from grader.sandbox.outcome import Finished, Outcome
from grader.sandbox.pair import RecordedAnswer, remembers

# The largest outputs that are compared with and without launches.
_MOST_COMPARED_BYTES = 64 << 20
_MOST_OUTPUTS = 16
# What was seen of a call that remembers something.
NO_EARLIER_CALL = (
    "As the first call of a new process, the same call is right: this one uses something of earlier calls."
)


def recorded_again(bench: Bench, recipe: Recipe) -> tuple[RecordedAnswer | None, Call]:
    """Record an earlier call. Return what was recorded, None where nothing was, and the call on its inputs."""
    request = repeating(bench.part, recipe)
    recorded = bench.record(request)
    if isinstance(recorded, RecordedAnswer) and (not recorded.needs_no_memory or _tells_earlier_memory(recorded)):
        # It uses memory of earlier calls. In a new process, this call makes that memory.
        with bench.pair.in_new_process():
            recorded = bench.record(request)
    call = request.call(recipe, slots_for(bench.truth.expect(bench.part, recipe)))
    return recorded if isinstance(recorded, RecordedAnswer) else None, call


def replaying(
    bench: Bench, recipe: Recipe, place: int
) -> Callable[[Callable[[ReplayCall], ReplayCall]], Outcome | None]:
    """Record an earlier call again, and return a function that replays it as a changed request says.

    place: the configuration that it took, -1 for the first one that works. The function returns None for a call that
    cannot be replayed, for example because it needs memory of earlier calls.
    """
    recorded, call = recorded_again(bench, recipe)

    def replay(change: Callable[[ReplayCall], ReplayCall]) -> Outcome | None:
        if recorded is None:
            return None
        usual = ReplayCall(call, recorded.message, "isolated", wanted=only(place))
        return bench.pair.replay_request(recorded, change(usual))

    return replay


def finds_memory(bench: Bench, recipe: Recipe) -> bool:
    """Return whether a call, made again, works with memory that an earlier call left."""
    # The second call finds what the first one recorded anew.
    _, recorded = [bench.record(repeating(bench.part, recipe)) for _ in range(2)]
    bench.pair.skip()
    return isinstance(recorded, RecordedAnswer) and bool(recorded.found)


def is_right_only(bench: Bench, recipe: Recipe, place: int, change: Callable[[ReplayCall], ReplayCall]) -> bool:
    """Record an earlier call again; return whether its replay is wrong, and right with the change."""
    replay = replaying(bench, recipe, place)
    changed, unchanged = replay(change), replay(lambda usual: usual)
    if changed is None or unchanged is None:
        return False
    return bench.gives_right(recipe, changed) and not bench.gives_right(recipe, unchanged)


def records_alike(bench: Bench, request: CallRequest, known: bytes) -> bool:
    """Record a call, and return whether its trace has a known fingerprint."""
    recorded = bench.record(request)
    bench.pair.skip()
    return isinstance(recorded, RecordedAnswer) and recorded.is_replayable and fingerprint(recorded.message) == known


def kernels_matter(bench: Bench, request: CallRequest) -> bool:
    """Return whether the answer of a replay changes without its launches."""
    recorded = bench.pair.record(request.call(request.recipe))
    if not isinstance(recorded, RecordedAnswer) or not recorded.is_replayable:
        return True
    slots, offset = [], 0
    for output in recorded.trace.outputs:
        form = output.form
        nbytes = prod(form.shape) * ITEMSIZES.get(form.dtype, 0) if output.window >= 0 else 0
        slots.append(Slot(form.dtype, form.shape, offset, nbytes))
        offset += -(-nbytes // 64) * 64
    # A call that only changes its arguments returns nothing to compare.
    if not slots or offset > _MOST_COMPARED_BYTES or len(slots) > _MOST_OUTPUTS:
        return True
    return bench.pair.depends_on_kernels(recorded, request.call(request.recipe, tuple(slots)))


def right_otherwise(
    bench: Bench, trial: Trial, *, briefly: bool = False
) -> Literal["", "without memory", "by other means"]:
    """Return in which other way a call is right after a wrong replay; "" if in none.

    without memory: the same kernels are right without memory of earlier calls. by other means: the call is right in the
    submission's own process. briefly: make no large call there, since the interpreter runs programs one by one there;
    and none once a call of the part was wrong there too.
    """
    with bench.findings.aside():
        bench.pair.skip()
        if bench.repeat(trial.recipe).failure is None:
            return "without memory"
    if briefly and (bench.findings.wrong_in_own_process or Case(trial.recipe.case).volume > QUICK_VOLUME):
        return ""
    outcome = bench.ask(trial.recipe, slots_for(trial.expected))
    inputs = partial(bench.truth.inputs, trial.recipe)
    bench.findings.wrong_in_own_process = check_answer(outcome, trial.expected, inputs, bench.path)[0] is not None
    return "" if bench.findings.wrong_in_own_process else "by other means"


def remembered(bench: Bench, recipe: Recipe, outcome: Outcome, wanted: Wanted = ANY) -> tuple[Clue, ...]:
    """Return the clue of a wrong call that is right as the first one of a new process, in the same configuration.

    wanted: that configuration, if the outcome does not hold it. No clue if the part's first call failed too: earlier
    calls are not the cause. Nor on a GPU: a new process takes seconds there.
    """
    if bench.pair.session.runs_on_gpu or not bench.findings.tried or bench.findings.tried[0].failed:
        return ()
    taken = outcome.answer.configuration if isinstance(outcome, Finished) else -1
    if not wanted.places and taken >= 0:
        wanted = Wanted((taken,))
    with bench.findings.aside(), bench.pair.in_new_process():
        if bench.repeat(recipe, wanted).failure is not None:
            return ()
    launches = isinstance(outcome, Finished) and outcome.answer.launches
    return (sure("remembered_input" if launches else "remembered_result", NO_EARLIER_CALL),)


def interpreted_trial(bench: Bench, one: PlannedCase) -> Trial | None:
    """Return the trial of a case in the interpreter beside a GPU; None without a GPU, or if only a GPU can run it."""
    if bench.interpreter is None:
        return None
    try:
        return bench.interpreted().try_case(one.case, one.seed)
    except NotRunHere:
        return None


def _tells_earlier_memory(recorded: RecordedAnswer) -> bool:
    """Return whether a trace may hold the bytes of memory that earlier calls left."""
    return recorded.afresh and remembers(recorded)
