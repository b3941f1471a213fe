"""Makes every planned call of a submission and keeps what was seen: by the guard in the interpreter, or by
compute-sanitizer on a GPU. Answers do not matter here, so nothing is compared with anything.
"""

from __future__ import annotations

import hashlib
import shlex
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from itertools import accumulate, groupby, pairwise
from pathlib import Path

from grader import __version__
from grader.catalogue import Entry
from grader.errors import GradeError, MissingEnvironment
from grader.judge.causes import Failure, missing_function, why_not_finished
from grader.model.exercise import Part
from grader.plan import Plan, PlannedCheck, ReplayToken
from grader.protocol.messages import Call, Loaded, Raised, Recipe, Start
from grader.record import Cause, Status, Tool, clean
from grader.sandbox.outcome import Finished, Outcome
from grader.sandbox.server import ForkServer
from grader.sandbox.session import Session
from grader.sandbox.traced import TracedServer
from grader.sanitizer.command import ToolName
from grader.sanitizer.findings import SCHEMA, Called, Examination, Gathering, Means, Stopped
from grader.sanitizer.report import Accusation, Report, parse
from grader.sanitizer.words import sighting_of, sightings_of
from grader.speed.lock import GpuLock

# A part that ran out of time this often is not waited for again; nor, where a process is dear, one that died so often.
_PATIENCE = 2
# Kernels run tens of times slower under the tool, which also starts with the process and has threads of its own.
_LOAD_S, _CALL_S, _PROCESSES = 180.0, 60.0, 1024
# A report comes a little later than the answer to the call that it is about.
_QUIET_S, _MOST_QUIET_S = 0.05, 5.0
_MOST_TROUBLES = 4

Heard = Callable[[str], None]


@dataclass(frozen=True)
class Subject:
    """What is looked at.

    path is shown, source is what runs; command repeats the examination, and replay_options are those that replaying one
    of its cases needs. has_gpu: whether a replay would use one unless told otherwise.
    """

    entry: Entry
    path: str
    source: str
    plan: Plan
    command: str
    replay_options: tuple[str, ...] = ()
    has_gpu: bool = False

    @property
    def file(self) -> str:
        """The name of the file that the submission's process keeps the source in."""
        return f"{self.entry.name}.py"

    @property
    def start(self) -> Start:
        """What the submission's process is told first."""
        return self.entry.start(self.source)

    def parts(self) -> list[tuple[Part, list[_Planned]]]:
        """The planned calls of each part. Checks without cases, such as those on speed, plan none."""
        return [
            (part, [planned for check in checks for planned in self._calls(check)])
            for part, checks in groupby(self.plan.checks, key=lambda check: check.part)
        ]

    def _calls(self, check: PlannedCheck) -> Iterator[_Planned]:
        for one in check.cases:
            token = ReplayToken(self.entry.id, check.id, one.case, one.seed)
            words = ["grade", "replay", str(token), *self.replay_options]
            if self.has_gpu and not (check.space and check.space.needs_gpu(one.case)):
                words.append("--cpu")
            called = Called(check.part.name, dict(one.case), one.case.words(), shlex.join(words))
            yield _Planned(called, Recipe(check.part.name, dict(one.case), one.seed))


@dataclass(frozen=True)
class _Planned:
    called: Called
    recipe: Recipe


@dataclass(frozen=True)
class _Visit:
    """A call that was made, or was not for the reason in `failure`; outcome is None where there was no call."""

    called: Called
    outcome: Outcome | None
    failure: Failure | None

    @property
    def returned(self) -> bool:
        """Whether the call came to its end."""
        return isinstance(self.outcome, Finished)


def _unheard(line: str) -> None:
    """Nobody wants to know how far the calls are."""


def examine_by_guard(subject: Subject, server: ForkServer, heard: Heard = _unheard) -> Examination:
    """Every planned call in the interpreter: each access is compared with the tensor that its pointer came from."""
    gathering = Gathering()
    with Session(server, subject.start, subject.entry.exercise.limits) as session:
        visits = list(_visits(subject, session, heard))
    for visit in visits:
        match visit.outcome:
            case Finished(answer):
                gathering.add(visit.called, map(sighting_of, answer.findings))
            case Raised(findings=findings):
                gathering.add(visit.called, map(sighting_of, findings))
    unfollowed = sum(
        any(launch.traffic is not None and not launch.traffic.complete for launch in visit.outcome.answer.launches)
        for visit in visits
        if isinstance(visit.outcome, Finished)
    )
    return replace(_examination(subject, "guard", visits), findings=gathering.found(), unfollowed=unfollowed)


def examine_by_tool(
    subject: Subject,
    server: ForkServer,
    tool: ToolName,
    command: tuple[str, ...],
    lock: GpuLock,
    heard: Heard = _unheard,
) -> Examination:
    """Every planned call on the GPU of that lock, under compute-sanitizer, which `command` starts.

    Raises MissingEnvironment when the tool does not start, or did not look.
    """
    traced = TracedServer(server, command)
    limits = replace(subject.entry.exercise.limits, load_s=_LOAD_S, call_s=_CALL_S, processes=_PROCESSES)
    visits: list[_Visit] = []
    ends: list[int] = []
    try:
        with Session(traced, subject.start, limits) as session:
            for visit in _visits(subject, session, heard, lock):
                visits.append(visit)
                ends.append(traced.report.settle(_QUIET_S if visit.outcome else 0, _MOST_QUIET_S))
    except GradeError as failed:
        raise MissingEnvironment(str(failed)) from failed
    report, calls = _read(traced.report.text, ends, visits)
    if not report.accusations and not (report.summaries and any(visit.returned for visit in visits)):
        said = clean("; ".join(report.troubles), 300) or "nothing"
        raise MissingEnvironment(f"{Path(command[0]).name} must say what it found, got {said}")
    gathering, remarks = Gathering(), Gathering()
    for called, accusations in calls:
        for one in sightings_of(accusations, subject.file, subject.source.splitlines()):
            # Triton's own reductions race by what this tool goes by; the learner can do nothing about that.
            outside = one.kind == "race" and not one.line
            (remarks if outside else gathering).add(called, [one])
    examined = _examination(subject, tool, visits)
    notes = _notes(report, cut=traced.report.cut)
    return replace(examined, findings=gathering.found(), remarks=remarks.found(), notes=notes)


def _read(
    text: bytes, ends: Sequence[int], visits: Sequence[_Visit]
) -> tuple[Report, list[tuple[Called | None, list[Accusation]]]]:
    """The report, and its accusations by the call at whose end they had come; None for what came after the last."""
    # Counted in characters, as the accusations' offsets are.
    pieces = [text[start:end].decode(errors="replace") for start, end in pairwise([0, *ends, len(text)])]
    bounds = list(accumulate(map(len, pieces)))
    report = parse("".join(pieces))
    by_visit: dict[int, list[Accusation]] = {}
    for accusation in report.accusations:
        by_visit.setdefault(bisect_right(bounds, accusation.offset), []).append(accusation)
    called = [*(visit.called for visit in visits), None]
    return report, [(called[min(place, len(visits))], found) for place, found in sorted(by_visit.items())]


def _notes(report: Report, *, cut: bool) -> tuple[str, ...]:
    notes = [f"compute-sanitizer says: {clean(trouble, 300)}" for trouble in report.troubles[:_MOST_TROUBLES]]
    if report.unprinted or cut:
        more = f"{report.unprinted} more reports" if report.unprinted else "More reports than could be kept"
        notes.append(f"{more} are not listed: correct what is, and look again.")
    return tuple(notes)


# -- calls -----------------------------------------------------------------------------------------------------------


def _visits(subject: Subject, session: Session, heard: Heard, lock: GpuLock | None = None) -> Iterator[_Visit]:
    """Make the planned calls, part by part. Whatever becomes of one call, the next one is made."""
    broken: Failure | None = None
    for part, calls in subject.parts():
        heard(f"{part.name}: {len(calls)} calls")
        # As in a grading: each part in a process of its own, but on a GPU, where a process is dear.
        if not session.runs_on_gpu:
            session.restart()
        blocked = broken
        if blocked is None:
            loaded = session.load()
            if not isinstance(loaded, Loaded):
                blocked = broken = why_not_finished(loaded, subject.path)
            elif part.name not in loaded.functions:
                blocked = missing_function(part.name, loaded.others)
        costly = 0
        for planned in calls:
            if blocked is not None:
                yield _Visit(planned.called, None, blocked)
                continue
            with lock.shared() if lock else nullcontext():
                outcome = session.call(Call(planned.recipe, part.arguments, part.mutates, ()))
            failure = None if isinstance(outcome, Finished) else why_not_finished(outcome, subject.path)
            yield _Visit(planned.called, outcome, failure)
            died = session.runs_on_gpu and session.pid is None
            costly += died or (failure is not None and failure.status == "timeout")
            if failure is not None and failure.status == "not_implemented":
                blocked = failure
            elif costly >= _PATIENCE:
                blocked = _NOT_CALLED


_NOT_CALLED = Failure(
    "skipped_dependency",
    Cause("skipped_dependency", "Not called", "Two earlier calls of this part ran out of time, or died.", ""),
)


def _examination(subject: Subject, means: Means, visits: Sequence[_Visit]) -> Examination:
    """What can be said of the calls themselves."""
    returned = [visit.outcome for visit in visits if isinstance(visit.outcome, Finished)]
    return Examination(
        schema=SCHEMA,
        tool=Tool("grade", __version__),
        exercise=subject.entry.id,
        title=subject.entry.exercise.title,
        path=subject.path,
        sha256=hashlib.sha256(subject.source.encode()).hexdigest(),
        seed=f"{subject.plan.seed:#x}",
        command=subject.command,
        means=means,
        parts=tuple(dict.fromkeys(visit.called.part for visit in visits)),
        planned=len(visits),
        looked=len(returned),
        findings=(),
        stopped=_stopped(visits),
        silent=sum(not outcome.answer.launches for outcome in returned),
    )


def _stopped(visits: Sequence[_Visit]) -> tuple[Stopped, ...]:
    """The calls that came to no end, by part and by how they ended."""
    kinds: dict[tuple[str, Status, str], list[_Visit]] = {}
    for visit in visits:
        if visit.failure is not None:
            key = visit.called.part, visit.failure.status, visit.failure.cause.kind
            kinds.setdefault(key, []).append(visit)
    return tuple(
        Stopped(part, status, first.failure.cause.title, first.failure.cause.rationale, first.called, len(alike))
        for (part, status, _), alike in kinds.items()
        if (first := alike[0]).failure is not None
    )
