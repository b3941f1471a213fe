"""`grade trace`: what one call of a submission's function allocates, copies and launches, in words."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager

from grader.cli.files import chosen_file
from grader.cli.say import say
from grader.cli.terminal import terminal_of
from grader.errors import SpecError, UsageError
from grader.exercise.abilities import WHOLE_CPU
from grader.exercise.cases import Value
from grader.exercise.catalogue import Entry, meant
from grader.exercise.model import Part
from grader.exercise.plan import PlannedCase, PlannedCheck, default_seed, draw
from grader.exercise.replay_token import parse_case
from grader.judge.access_findings import cause_of
from grader.judge.coverage import coverage_of, more_telling
from grader.judge.failure import Failure
from grader.judge.unanswered import why_not_finished
from grader.record.launches import Coverage
from grader.report.text import terminal
from grader.report.text.trace_lines import trace_lines
from grader.sandbox.outcome import Finished
from grader.sandbox.pair import Pair, RecordedAnswer, paired
from grader.sandbox.process_spec import ProcessSpec
from grader.sandbox.server import ForkServer
from grader.sandbox.session import Session

# The calls that are replayed to find one to draw.
_MOST_DRAWN = 12
_ONLY_RECORDED = "No kernel ran: a kernel that crashes or is wrong shows with --picture, and when you grade."


def trace(exercise: str, submission: str | None, part: str | None, case: str | None, *, picture: bool = False) -> int:
    """Print a trace. Return the exit code: 0 recorded, 1 not, or a crash, 3 not written or a file that does not load.

    part: the function, the first one if None. case: axes, as in "N=65,dtype=float16"; the others are those of the
    part's first case. picture: replay the call, and draw what its programs touch instead; without a case, draw the
    planned call that shows it best. Raises UsageError.
    """
    entry, path, source = chosen_file(exercise, submission)
    chosen = _part_of(entry, part)
    with closing(ForkServer("interpret")) as server, _pair(ProcessSpec.of(server, entry, source)) as pair:
        if picture:
            cases = [_case_of(entry, chosen, case)] if case else _cases_to_draw(entry, chosen)
            return _draw(entry, chosen, pair, cases, str(path))
        one = _case_of(entry, chosen, case)
        recorded = pair.record(chosen.call(one.recipe(chosen)))
    if not isinstance(recorded, RecordedAnswer):
        return _tell(chosen, why_not_finished(recorded, str(path)))
    say(f"{entry.id} {chosen.name} for {one.case.words()}", sys.stdout)
    for line in trace_lines(recorded.trace):
        say(line, sys.stdout)
    for note in recorded.outside_work:
        say(f"beside the kernels: {note.name} (line {note.line})", sys.stdout)
    for note in recorded.unrecordable:
        say(f"cannot be recorded: {note.name} (line {note.line})", sys.stdout)
    say(_ONLY_RECORDED, sys.stderr)
    return 0


@contextmanager
def _pair(spec: ProcessSpec) -> Iterator[Pair]:
    """Yield the submission's process and its replayers."""
    with Session(spec) as session, paired(spec, session) as pair:
        yield pair


def _draw(entry: Entry, part: Part, pair: Pair, cases: Sequence[PlannedCase], path: str) -> int:
    """Replay the cases, and print the picture of the one that shows most; return the exit code as for a trace.

    A call that crashes is told beside the picture of another one, and so is an access outside a tensor.
    """
    best: Coverage | None = None
    crashed: tuple[str, Failure] | None = None
    for one in cases:
        call = part.call(one.recipe(part))
        recorded = pair.record(call)
        outcome = pair.replay(recorded, call) if isinstance(recorded, RecordedAnswer) else recorded
        if isinstance(outcome, Finished):
            best = more_telling(best, coverage_of(one.case.words(), outcome.answer.launches))
            outside = cause_of(outcome.answer.findings)
            failure = Failure("fail", outside) if outside else None
        else:
            failure = why_not_finished(outcome, path)
        if failure is not None and crashed is None:
            crashed = one.case.words(), failure
    if best is None and crashed is None:
        say(f"{part.name}: the interpreter ran no kernel, so there is nothing to draw", sys.stderr)
        return 1
    if best is not None:
        colour, ascii_only, width = terminal_of(sys.stdout)
        say(f"{entry.id} {part.name} for {best.words}", sys.stdout)
        print(terminal.render_coverage(best, width=width, colour=colour, ascii_only=ascii_only), end="")
    return _tell(part, crashed[1], f" for {crashed[0]}" if best else "") if crashed else 0


def _tell(part: Part, failure: Failure, where: str = "") -> int:
    """Print why a call failed; return the exit code. where: the words of its case."""
    say(f"{part.name}{where}: {failure.cause.rationale}", sys.stderr)
    return 3 if failure.status in ("not_implemented", "invalid_submission") else 1


def _part_of(entry: Entry, name: str | None) -> Part:
    recorded = [part for part in entry.exercise.parts if part.is_replayed]
    known = [part.name for part in recorded]
    if not recorded:
        raise UsageError(f"an exercise must have parts whose kernels do the work, got {entry.id}")
    for part in recorded:
        if name in (None, part.name):
            return part
    raise UsageError(f"a part must be one of {', '.join(known)}, got {name!r}{meant(name or '', known)}")


def _cases_to_draw(entry: Entry, part: Part) -> list[PlannedCase]:
    """Return the part's first cases, one for all sizes."""
    found: dict[tuple[Value, ...], PlannedCase] = {}
    for one in (one for check in _planned(entry, part) for one in check.cases or ()):
        found.setdefault(tuple(value for value in one.case.values() if type(value) is int), one)
    return [*found.values()][:_MOST_DRAWN]


def _planned(entry: Entry, part: Part) -> list[PlannedCheck]:
    plan = draw(entry.exercise, default_seed(entry.id), WHOLE_CPU, parts=frozenset({part.name}))
    return [one for one in plan.checks if one.cases and one.space is not None]


def _case_of(entry: Entry, part: Part, text: str | None) -> PlannedCase:
    planned = _planned(entry, part)
    assert planned[0].cases
    first = planned[0].cases[0]
    if text is None:
        return first
    refused: SpecError | None = None
    for one in planned:
        assert one.space is not None
        try:
            return PlannedCase(one.space.case(**{**one.cases[0].case, **parse_case(one.space, text)}), first.seed)
        except SpecError as outside:
            refused = refused or outside
    raise UsageError(f"{part.name} must have a check with such a case: {refused}")
