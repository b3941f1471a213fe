"""`grade trace`: what one call of a submission's function allocates, copies and launches, in words."""

from __future__ import annotations

import sys
from contextlib import closing
from pathlib import Path

from grader.cli.files import read_submission
from grader.cli.say import say
from grader.errors import SpecError, UsageError
from grader.exercise.catalogue import Entry, find_root, resolve
from grader.exercise.model import Part
from grader.exercise.plan import PlannedCase, default_seed, draw, parse_case
from grader.judge.failures import why_not_finished
from grader.protocol.messages import Call, Recipe
from grader.report.trace_lines import trace_lines
from grader.sandbox.pair import RecordedAnswer, paired
from grader.sandbox.server import ForkServer
from grader.sandbox.session import Session


def trace(exercise: str, submission: str | None, part: str | None, case: str | None) -> int:
    """Print a trace; the exit code: 0 if the call was recorded, 1 if not, 3 if the function is not written yet.

    part: the function, the first one if None. case: axes, as in "N=65,dtype=float16"; those that are not given are
    the part's first case's. Raises UsageError.
    """
    entry, path = resolve(find_root(), exercise)
    path = Path(submission) if submission is not None else path
    source = read_submission(path)
    chosen = _part_of(entry, part)
    one = _case_of(entry, chosen, case)
    start = entry.start(source)
    with (
        closing(ForkServer("interpret")) as server,
        Session(server, start, entry.exercise.limits) as session,
        paired(server, start, entry.exercise.limits, session) as pair,
    ):
        recipe = Recipe(chosen.name, dict(one.case), one.seed)
        on_cpu = chosen.on == "cpu"
        recorded = pair.record(
            Call(recipe, chosen.arguments, chosen.mutates, (), on_cpu=on_cpu, tensors=chosen.tensors)
        )
    if not isinstance(recorded, RecordedAnswer):
        failure = why_not_finished(recorded, str(path))
        say(f"{chosen.name}: {failure.cause.rationale}", sys.stderr)
        return 3 if failure.status in ("not_implemented", "invalid_submission") else 1
    say(f"{entry.id} {chosen.name} for {one.case.words()}", sys.stdout)
    for line in trace_lines(recorded.trace):
        say(line, sys.stdout)
    for deed in recorded.deeds:
        say(f"beside the kernels: {deed.name} (line {deed.line})", sys.stdout)
    for deed in recorded.untold:
        say(f"cannot be recorded: {deed.name} (line {deed.line})", sys.stdout)
    return 0


def _part_of(entry: Entry, name: str | None) -> Part:
    recorded = [part for part in entry.exercise.parts if part.is_replayed]
    known = ", ".join(part.name for part in recorded)
    if not recorded:
        raise UsageError(f"an exercise must have parts whose kernels do the work, got {entry.id}")
    for part in recorded:
        if name in (None, part.name):
            return part
    raise UsageError(f"a part must be one of {known}, got {name!r}")


def _case_of(entry: Entry, part: Part, text: str | None) -> PlannedCase:
    plan = draw(entry.exercise, default_seed(entry.id), gpu=False, parts=frozenset({part.name}))
    planned = [one for one in plan.checks if one.cases and one.space is not None]
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
