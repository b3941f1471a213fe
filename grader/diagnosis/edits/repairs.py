"""Search for a small edit of a submission that makes its failing calls right.

Make failing calls with edited texts, in the processes that ran the submission. Return a clue with the line, its text,
and the right text. An edit counts if it makes the tested failing calls right, and passing calls stay right, some of
every kind. The findings of the bench do not change.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cache, partial
from itertools import islice, takewhile

from grader.diagnosis.edits.edit_scope import SLIP, Edit, Launched
from grader.diagnosis.edits.edited import Edited
from grader.diagnosis.edits.edits import edits_of
from grader.diagnosis.edits.influence import outputs_of_lines
from grader.diagnosis.edits.loops import RETURN, WRONG_BRANCH
from grader.diagnosis.kinds import NAMEABLE
from grader.diagnosis.known_mistakes import passing_like
from grader.exercise.cases import INTERPRETED_VOLUME, QUICK_VOLUME, Case
from grader.judge.bench import Bench
from grader.judge.clue import Clue, sure
from grader.phrases import cut
from grader.protocol.requests import Recipe
from grader.protocol.trace import ConstexprValue, DtypeValue, Launch, TensorValue, Trace, launches_in

# Seconds of work for the search of one part, for one edited call, and for the start of a process with edited launch
# code.
_MOST_S, _CALL_S, _START_S = 8.0, 1.0, 0.1
# The seconds of a call that is not quick, so that there is time for the likely edits.
_EACH_S = 0.4
# The number of failing calls that are made alone, until one of them is wrong.
_ALONE = 3
# Of these seconds, those for launch code: each of its edits takes as long as twenty of a kernel.
_IN_LAUNCH_S = 2.5
# Seconds of a failing call that is not quick, for an edit that passed all quick calls, and the number of such calls.
_LARGE_S, _LARGE = 4.0, 2
# The numbers of other failing calls and of passing calls that must be right with an edit.
_FAILING, _PASSING = 4, 2
# The number of further passing calls that must be right after these: of every kind of input.
_KINDS = 8
# The factors of edits that take back a suspected kind of mistake, of edits in lines that lead to right outputs too, and
# of edits in lines that lead only to right outputs.
_SUSPECTED, _SHARED_LINE, _SPARED_LINE = 3.0, 0.5, 0.02
# The factor of edits in lines where failing calls diverge from passing ones, and of edits of a condition there.
_DIVERGING, _DIVERGING_CONDITION = 2.0, 30.0
# The factor of edits of launch code, if that is suspected.
_IN_LAUNCH = 50.0
# Names of dtypes in a kernel's text, by those in a trace.
_DTYPES = {"fp16": "float16", "bf16": "bfloat16", "fp32": "float32", "fp64": "float64"}
# The longest text on a card, and the letters shown of a beginning that two texts share.
_LONGEST, _SHARED = 80, 20


def repair_clues(
    bench: Bench,
    text: str,
    failing: Sequence[Recipe],
    suspected: Sequence[str],
    known: Collection[str] = NAMEABLE,
    *,
    in_launch: bool = False,
    diverging: Collection[int] = (),
    among: Collection[str] = (),
) -> list[Clue]:
    """Return the clue of the likeliest edit that makes a part right, if one is found in time.

    failing: failing calls; the smallest is made with every edit. suspected: kinds of other clues, the likeliest first.
    known: the kinds that the part can have. in_launch: launch code is suspected, such as a grid. diverging: lines that
    run only in failing calls, or only in passing ones. among: the kinds whose edits are tried; () for all.
    """
    until_s = bench.pair.worked_s + _MOST_S
    with bench.findings.aside(), closing(bench.pair.side_by_side()) as together:
        again = partial(Edited.of, bench)
        found = _wrong_isolated(bench, text, _by_volume(failing))
        if found is None:
            return []
        call, trace = found
        others = [one for one in _by_volume(failing) if one is not call.recipe]
        edits = edits_of(text, kernels_in(trace), bench.part.name)
        edits = [one for one in edits if not among or one.kinds[0] in among]
        by_line = _by_line(call.wrong_outputs(text, _CALL_S), text, trace)
        fits = {one: _SUSPECTED if {*one.kinds} & {*suspected} else 1.0 for one in edits}
        if in_launch:
            fits |= {one: _IN_LAUNCH for one in edits if {*one.kinds} & {*suspected} and not one.in_kernel}
        # The outputs of a line say nothing about a further name that an edit assigns there, or about an early return.
        elsewhere = {one for one in edits if one.adds_a_statement or RETURN in one.kinds}
        leads = {one: 1.0 if one in elsewhere else by_line.get(one.line, 1.0) for one in edits}
        leads |= {
            one: leads[one] * (_DIVERGING_CONDITION if WRONG_BRANCH in one.kinds else _DIVERGING)
            for one in edits
            if one.line in diverging
        }
        edits.sort(key=lambda one: -one.weight * fits[one] * leads[one])
        witnesses = [*map(again, _witnesses(bench, others))]
        large = [one for one in others if Case(one.case).volume > QUICK_VOLUME][:_LARGE]
        # Recorded once, and only if an edit passes the first ones.
        of_every_kind = cache(lambda: [*map(again, islice(_of_every_kind(bench), _KINDS))])

        def stands(edit: Edit, edited: str, calls: Sequence[Edited], most_s: float = _CALL_S) -> bool:
            return all(one.is_right(edited, most_s, in_kernel=edit.in_kernel) for one in calls)

        for place, edit in enumerate(edits):
            if edit.in_kernel:
                call.begin(together, place, partial(edit.applied, text), _CALL_S)
        launches = _LaunchCode(bench)
        for place, edit in enumerate(edits):
            if bench.pair.worked_s + launches.started_s > until_s:
                break
            edited = edit.applied(text)
            if edit.in_kernel:
                is_right = call.is_right_answer(together.outcome(place))
            else:
                is_right = launches.is_right(call, edited)
            if not is_right or not stands(edit, edited, witnesses) or not stands(edit, edited, of_every_kind()):
                continue
            if stands(edit, edited, [*map(again, large)], _LARGE_S):
                return [_clue(edit, suspected, known)]
    return []


def _wrong_isolated(bench: Bench, text: str, failing: Sequence[Recipe]) -> tuple[Edited, Trace] | None:
    """Return the first of some failing calls that is wrong alone too, with its trace; None if it takes too long.

    Any edit would seem to fix a call that is right alone: memory of earlier calls made it wrong, or other numbers in
    memory that nobody wrote.
    """
    for recipe in failing[:_ALONE]:
        volume = Case(recipe.case).volume
        if volume > INTERPRETED_VOLUME:
            return None
        call = Edited.of(bench, recipe)
        if call.recorded is None or call.recorded.trace.programs:
            # Programs of CuTe take seconds to trace again.
            return None
        began_s = bench.pair.worked_s
        if not call.is_right(text, _CALL_S, in_kernel=True):
            is_slow = volume > QUICK_VOLUME and bench.pair.worked_s - began_s > _EACH_S
            return None if is_slow else (call, call.recorded.trace)
    return None


@dataclass
class _LaunchCode:
    """The trials of edited launch code, each in a process of its own, within their share of the time.

    started_s: seconds that count for the starts of these processes.
    """

    bench: Bench
    started_s: float = 0.0
    _spent_s: float = 0.0

    def is_right(self, call: Edited, edited: str) -> bool:
        """Return whether a call is right with edited launch code; False after the time is spent."""
        if self._spent_s > _IN_LAUNCH_S:
            return False
        began_s = self.bench.pair.worked_s
        found = call.is_right(edited, _CALL_S, in_kernel=False)
        self.started_s += _START_S
        self._spent_s += _START_S + self.bench.pair.worked_s - began_s
        return found


def _by_line(stored: Sequence[tuple[int, bool]], text: str, trace: Trace) -> dict[int, float]:
    """Return the factor of edits in each line, if some outputs of a call are wrong and others right.

    stored: the storage of each output, and whether it is wrong.
    """
    wrong = {place for place, (_, is_wrong) in enumerate(stored) if is_wrong}
    if not wrong or len(wrong) == len(stored):
        return {}
    found = outputs_of_lines(text, trace, [storage for storage, _ in stored])
    return {
        line: _SPARED_LINE if not outputs & wrong else _SHARED_LINE if outputs - wrong else 1.0
        for line, outputs in found.items()
    }


def _by_volume(recipes: Sequence[Recipe]) -> list[Recipe]:
    return sorted(recipes, key=lambda one: Case(one.case).volume)


def _witnesses(bench: Bench, others: Sequence[Recipe]) -> Iterator[Recipe]:
    """Yield other calls that must be right with an edit: the largest quick ones that failed, and a few that passed.

    The smaller ones come first: most edits fail the first call.
    """
    yield from quick_calls(bench, failed=True, also=others)[-_FAILING:]
    yield from islice(passing_like(bench, None), _PASSING)


def _of_every_kind(bench: Bench) -> Iterator[Recipe]:
    """Yield quick calls that passed, with every family of values and every layout among them."""
    met: set[tuple[str, object]] = set()
    for one in quick_calls(bench, failed=False):
        kinds = {(name, value) for name, value in one.case.items() if isinstance(value, str)}
        if not kinds <= met:
            met |= kinds
            yield one


def quick_calls(bench: Bench, *, failed: bool, also: Sequence[Recipe] = ()) -> list[Recipe]:
    """Return the quick calls of the part that failed, or that passed, each once, the smallest first.

    also: further such calls.
    """
    tried = (Recipe(bench.part.name, dict(one.case), one.seed) for one in bench.findings.tried if one.failed == failed)
    different = {repr((one.case, one.seed)): one for one in (*also, *tried)}
    return _by_volume([one for one in different.values() if Case(one.case).volume <= QUICK_VOLUME])


def _clue(edit: Edit, suspected: Sequence[str], known: Collection[str]) -> Clue:
    """Return the clue of an edit. Its kind is a suspected one that fits the edit, or else the edit's first kind.

    Some edits show one kind, whatever was suspected: those that clear memory, or round a count up. For all others, a
    kind of the exercise itself comes first.
    """
    fitting = [one for one in edit.kinds if one in known] or [SLIP]
    kind = next((one for one in suspected if one in fitting), fitting[0])
    shows = NAMEABLE[edit.kinds[0]].by_edit and edit.kinds[0] in known
    kind = edit.kinds[0] if shows else kind
    if not edit.in_kernel and not _may_be_in_launch_code(kind) and kind not in suspected:
        kind = SLIP
    if kind != SLIP and not shows:
        kind = next((one for one in (*suspected[:1], *fitting[:1]) if _is_particular(one)), kind)
    after, before = edit.shown or _shown(edit.after, edit.before)
    others = " and each like it" if edit.twins else ""
    words = f"`{after}` in place of `{before}` in line {edit.line}{others}"
    evidence = f"With {words}, every failing call that was repeated is right."
    return sure(kind, evidence, help_text=edit.help if kind in edit.kinds else "")


def _is_particular(kind: str) -> bool:
    """Return whether a kind is the exercise's own, or names a step of one formula."""
    return kind not in NAMEABLE or NAMEABLE[kind].particular


def _may_be_in_launch_code(kind: str) -> bool:
    return kind not in NAMEABLE or NAMEABLE[kind].in_launch_code


def _shown(*texts: str) -> Iterator[str]:
    """Yield each text in one line, without a long beginning that they share."""
    lines = [" ".join(text.split()) for text in texts]
    alike = takewhile(lambda letters: len({*letters}) == 1, zip(*lines, strict=False))
    shared = max(0, len([*alike]) - _SHARED)
    for line in lines:
        yield cut(f"…{line[shared:]}" if shared else line, _LONGEST)


def kernels_in(trace: Trace) -> dict[tuple[str, int], Launched]:
    """Return the kernels of a trace in the submission's text, with the arguments of their last launches."""
    found: dict[tuple[str, int], Launched] = {(one.name, one.line): ((), {}) for one in trace.kernels if not one.home}
    for step in launches_in(trace.steps):
        if isinstance(step, Launch) and not (kernel := trace.kernels[step.kernel]).home:
            by_name = {name: _plain(value) for name, value in step.kwargs.items()}
            found[kernel.name, kernel.line] = [*map(_plain, step.args)], by_name
    return found


def _plain(value: object) -> object:
    """Return the value of a number or a text, and a placeholder of a tensor; None for anything else."""
    inner = value.value if isinstance(value, ConstexprValue) else value
    if isinstance(inner, TensorValue):
        return f"tensor {inner.index}"
    if isinstance(inner, DtypeValue):
        return f"tl.{_DTYPES.get(inner.name, inner.name)}"
    return inner if isinstance(inner, bool | int | float | str) else None
