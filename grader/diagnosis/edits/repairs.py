"""Search for a small edit of a submission that makes its failing calls right.

Takes failing calls, makes them with edited texts in the processes that ran the submission, and gives a clue: the line,
what stands there, and what would be right there. An edit counts if it makes all failing calls right that are looked
at, and leaves passing ones right, some of every kind. What the bench says of the submission stays as it is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cache, partial
from itertools import islice, takewhile

from grader.diagnosis.edits.edit_scope import Edit, Launched
from grader.diagnosis.edits.edited import Edited
from grader.diagnosis.edits.edits import edits_of
from grader.diagnosis.edits.influence import outputs_of_lines
from grader.diagnosis.edits.loops import RETURN, WRONG_BRANCH
from grader.diagnosis.edits.precision import OF_DTYPES
from grader.diagnosis.edits.slips import SLIP
from grader.diagnosis.kinds import GENERAL
from grader.diagnosis.known_mistakes import passing_like
from grader.exercise.cases import QUICK_VOLUME, Case
from grader.judge.bench import Bench
from grader.judge.clue import Clue, sure
from grader.phrases import cut
from grader.protocol.messages import Recipe
from grader.protocol.trace import ConstexprValue, DtypeValue, Launch, TensorValue, Trace, launches_in

# The search for one part takes at most so many seconds of work, and one edited call so many. Starting a process for
# edited launch code counts as so many.
_MOST_S, _CALL_S, _START_S = 8.0, 1.0, 0.1
# A call that is not quick and takes longer leaves no time for the likely edits; one of a larger case is not made.
_EACH_S, _LARGEST = 0.4, 16 * QUICK_VOLUME
# At most so many of these seconds for launch code: each of its edits takes as long as twenty of a kernel's.
_IN_LAUNCH_S = 2.5
# A failing call that is not quick may take so many seconds with an edit that all others stand; so many are made.
_LARGE_S, _LARGE = 4.0, 2
# The numbers of other failing calls and of passing calls that an edit must stand.
_FAILING, _PASSING = 4, 2
# The number of further passing calls that an edit must stand once it has stood these: of every kind of input.
_KINDS = 8
# The factors of edits that take back a suspected kind of mistake, of edits in lines that lead to right outputs as well,
# and of edits in lines that lead to right outputs alone.
_SUSPECTED, _SHARED_LINE, _SPARED_LINE = 3.0, 0.5, 0.02
# The factor of edits in lines where failing calls part from passing ones, and of edits of a condition there.
_PARTING, _PARTING_CONDITION = 2.0, 30.0
# The factor of edits of launch code, where that is suspected.
_IN_LAUNCH = 50.0
# Names of dtypes in a kernel's text, by the language's own.
_DTYPES = {"fp16": "float16", "bf16": "bfloat16", "fp32": "float32", "fp64": "float64"}
# Longer texts are cut, and of a beginning that two texts share, so many letters are shown.
_LONGEST, _SHARED = 80, 20


def repair_clues(
    bench: Bench,
    text: str,
    failing: Sequence[Recipe],
    suspected: Sequence[str],
    known: Collection[str] = GENERAL,
    *,
    in_launch: bool = False,
    parting: Collection[int] = (),
    among: Collection[str] = (),
) -> list[Clue]:
    """Return the clue of the likeliest edit that makes a part right, if one is found in time.

    failing: failing calls; the smallest is made with every edit. suspected: kinds of mistakes that were found
    otherwise, the likeliest first. known: the kinds that the exercise has. in_launch: launch code is suspected, such as
    a grid. parting: lines that run in failing calls alone, or in passing ones. among: the kinds whose edits are tried;
    all without one.
    """
    until_s = bench.pair.worked_s + _MOST_S
    smallest, *others = _by_volume(failing)
    volume = Case(smallest.case).volume
    if volume > _LARGEST:
        return []
    with bench.findings.aside(), closing(bench.pair.side_by_side()) as together:
        again = partial(Edited.of, bench)
        call = again(smallest)
        if call.recorded is None or call.recorded.trace.programs:
            # Programs of CuTe take seconds to trace again.
            return []
        edits = edits_of(text, kernels_in(call.recorded.trace), bench.part.name)
        edits = [one for one in edits if not among or one.kinds[0] in among]
        began_s = bench.pair.worked_s
        is_right = call.is_right(text, _CALL_S, in_kernel=True)
        if is_right or (volume > QUICK_VOLUME and bench.pair.worked_s - began_s > _EACH_S):
            # Alone it is right: memory of earlier calls made it wrong, and any edit would seem to mend it.
            return []
        by_line = _by_line(call.wrong_outputs(text, _CALL_S), text, call.recorded.trace)
        fits = {one: _SUSPECTED if {*one.kinds} & {*suspected} else 1.0 for one in edits}
        if in_launch:
            fits |= {one: _IN_LAUNCH for one in edits if {*one.kinds} & {*suspected} and not one.in_kernel}
        # What a line leads to tells nothing of a further name that an edit assigns there, nor of what a return skips.
        elsewhere = {one for one in edits if one.adds_a_statement or RETURN in one.kinds}
        leads = {one: 1.0 if one in elsewhere else by_line.get(one.line, 1.0) for one in edits}
        leads |= {
            one: leads[one] * (_PARTING_CONDITION if WRONG_BRANCH in one.kinds else _PARTING)
            for one in edits
            if one.line in parting
        }
        edits.sort(key=lambda one: -one.weight * fits[one] * leads[one])
        witnesses = [*map(again, _witnesses(bench, others))]
        large = [one for one in others if Case(one.case).volume > QUICK_VOLUME][:_LARGE]
        # Recorded only if an edit stands the first ones, and once.
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


@dataclass
class _LaunchCode:
    """The trials of edited launch code, which needs a process each, within their share of the time.

    started_s: seconds that starting these processes counts as.
    """

    bench: Bench
    started_s: float = 0.0
    _spent_s: float = 0.0

    def is_right(self, call: Edited, edited: str) -> bool:
        """Return whether a call is right with edited launch code; False once the time is spent."""
        if self._spent_s > _IN_LAUNCH_S:
            return False
        began_s = self.bench.pair.worked_s
        found = call.is_right(edited, _CALL_S, in_kernel=False)
        self.started_s += _START_S
        self._spent_s += _START_S + self.bench.pair.worked_s - began_s
        return found


def _by_line(stored: Sequence[tuple[int, bool]], text: str, trace: Trace) -> dict[int, float]:
    """Return the factor of edits in a line, where some outputs of a call are wrong and others right.

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
    """Yield other calls that an edit must make right: the largest quick ones that failed, and a few that passed.

    The smaller of them come first, for most edits fail the first one.
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

    also: further calls that did.
    """
    tried = (Recipe(bench.part.name, dict(one.case), one.seed) for one in bench.findings.tried if one.failed == failed)
    different = {repr((one.case, one.seed)): one for one in (*also, *tried)}
    return _by_volume([one for one in different.values() if Case(one.case).volume <= QUICK_VOLUME])


def _clue(edit: Edit, suspected: Sequence[str], known: Collection[str]) -> Clue:
    """Return the clue of an edit. Its kind is the exercise's own, or else a suspected one that fits.

    An edit that fits no suspicion, and that several kinds of mistakes could need, is a slip. One that clears
    memory, or rounds a count up, shows one kind, whatever was suspected.
    """
    fitting = [one for one in edit.kinds if one in known] or [SLIP]
    kind = next((one for one in suspected if one in fitting), fitting[0])
    kind = edit.kinds[0] if GENERAL[edit.kinds[0]].by_edit else kind
    if not edit.in_kernel and not _may_be_in_launch_code(kind) and kind not in suspected:
        kind = SLIP
    if kind != SLIP and not GENERAL[edit.kinds[0]].by_edit:
        kind = next((one for one in (*suspected[:1], *fitting[:1]) if _is_particular(one)), kind)
    after, before = edit.shown or _shown(edit.after, edit.before)
    others = " and each like it" if edit.twins else ""
    words = f"`{after}` in place of `{before}` in line {edit.line}{others}"
    evidence = f"With {words}, every failing call that was made again is right."
    return sure(kind, evidence, help_text=edit.help if kind in OF_DTYPES else "")


def _is_particular(kind: str) -> bool:
    """Return whether a kind is the exercise's own, or names a step of one formula."""
    return kind not in GENERAL or GENERAL[kind].particular


def _may_be_in_launch_code(kind: str) -> bool:
    return kind not in GENERAL or GENERAL[kind].in_launch_code


def _shown(*texts: str) -> Iterator[str]:
    """Yield texts in one line each, without a long beginning that they share."""
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
    """Return the value of a number or a text, and of a tensor a text that stands for it; None for anything else."""
    inner = value.value if isinstance(value, ConstexprValue) else value
    if isinstance(inner, TensorValue):
        return f"tensor {inner.index}"
    if isinstance(inner, DtypeValue):
        return f"tl.{_DTYPES.get(inner.name, inner.name)}"
    return inner if isinstance(inner, bool | int | float | str) else None
