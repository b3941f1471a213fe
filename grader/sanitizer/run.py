"""Record and replay every planned call of a submission, and collect what was seen.

The guard sees it in the interpreter, or compute-sanitizer on a GPU. Answers do not matter here, so nothing is compared
with anything.
"""

from __future__ import annotations

import shlex
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from itertools import accumulate, groupby, pairwise
from pathlib import Path

from grader import __version__
from grader.errors import GradeError, MissingEnvironment
from grader.exercise.catalogue import Entry
from grader.exercise.model import Part
from grader.exercise.plan import Plan, PlannedCheck
from grader.exercise.replay_token import ReplayToken
from grader.judge.failure import Failure
from grader.judge.unanswered import missing_function, why_not_finished, why_not_loaded
from grader.phrases import counted
from grader.protocol.answers import Loaded, Raised
from grader.protocol.requests import Recipe
from grader.record.causes import Cause
from grader.record.record import Tool
from grader.record.statuses import Status
from grader.sandbox.answering import Answered, answer
from grader.sandbox.outcome import Finished, Outcome
from grader.sandbox.pair import Pair, paired
from grader.sandbox.process_spec import ProcessSpec
from grader.sandbox.server import ForkServer
from grader.sandbox.session import Session
from grader.sandbox.tool_server import ToolServer
from grader.sanitizer.command import ToolName
from grader.sanitizer.findings import SCHEMA, Called, Examination, Gathering, Means, Stopped
from grader.sanitizer.output import Accusation, SanitizerReport, parse
from grader.sanitizer.words import sighting_of, sightings_of
from grader.speed.lock import GpuLock
from grader.syntax import lines_in
from grader.text import clean, sha256_of

# A part is given up after so many timeouts. Where processes are expensive, those that died count too.
_PATIENCE = 2
# Kernels run tens of times slower under the tool.
_CALL_S = 60.0
# A report comes a little later than the answer to the call that it is about.
_QUIET_S, _MOST_QUIET_S = 0.05, 5.0
_MOST_TROUBLES = 4
_MOST_REASONS = 4

OnLine = Callable[[str], None]


@dataclass(frozen=True)
class SanitizeTarget:
    """The submission to examine.

    path is shown, source runs. command repeats the examination; replay_options are the options for a replay of one of
    its cases. has_gpu: whether a replay would use a GPU unless an option says otherwise.
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
        """Return the name of the file that the submission's process holds the source in."""
        return f"{self.entry.name}.py"

    def spec(self, server: ForkServer) -> ProcessSpec:
        """Return how the submission's process is started."""
        return ProcessSpec.of(server, self.entry, self.source)

    def parts(self) -> list[tuple[Part, list[_Planned]]]:
        """Return the planned calls of each part. Checks without cases, such as those on speed, plan none."""
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
            yield _Planned(called, one.recipe(check.part))


@dataclass(frozen=True)
class _Planned:
    called: Called
    recipe: Recipe


@dataclass(frozen=True)
class _Visit:
    """A call that was made, or was not for the reason in `failure`; answered is None if there was no call."""

    called: Called
    answered: Answered | None
    failure: Failure | None

    @property
    def outcome(self) -> Outcome | None:
        """Return the outcome of the call, if it was made."""
        return self.answered.outcome if self.answered else None

    @property
    def returned(self) -> bool:
        """Return whether the call came to its end."""
        return isinstance(self.outcome, Finished)


def _ignore(line: str) -> None:
    """Ignore the messages about progress."""


def examine_by_guard(subject: SanitizeTarget, server: ForkServer, on_line: OnLine = _ignore) -> Examination:
    """Make every planned call in the interpreter, where the guard compares each access with its pointer's tensor."""
    gathering, spec = Gathering(), subject.spec(server)
    with Session(spec) as session, paired(spec, session) as pair:
        visits = list(_visits(subject, pair, session, on_line))
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
    subject: SanitizeTarget,
    server: ForkServer,
    tool: ToolName,
    command: tuple[str, ...],
    lock: GpuLock,
    on_line: OnLine = _ignore,
) -> Examination:
    """Make every planned call on the GPU of that lock, replayed under compute-sanitizer, which `command` starts.

    Raises MissingEnvironment when the tool does not start, or did not look.
    """
    spec = subject.spec(server)
    replays, calls = _Watched(ToolServer(server, command)), _Watched(ToolServer(server, command))
    visits: list[_Visit] = []
    try:
        with (
            Session(spec) as session,
            paired(replays.server.under_tool(spec, _CALL_S), session, inputs="bare") as pair,
            Session(calls.server.under_tool(spec, _CALL_S)) as own,
        ):
            for visit in _visits(subject, pair, own, on_line, lock):
                visits.append(visit)
                if visit.answered and visit.answered.source != "recorder":
                    (replays if visit.answered.source == "replayer" else calls).add(visit)
    except GradeError as failed:
        raise MissingEnvironment(str(failed)) from failed
    reports = [(watched, *watched.read()) for watched in (replays, calls)]
    if any(watched.visits for watched in (replays, calls)):
        _require_a_look([report for _, report, _ in reports], visits, Path(command[0]).name)
    gathering, remarks = Gathering(), Gathering()
    notes: dict[str, None] = {}
    for watched, report, accused in reports:
        notes |= dict.fromkeys(_notes(report, cut=watched.server.report.cut))
        for called, accusations in accused:
            for one in sightings_of(accusations, subject.file, lines_in(subject.source)):
                # This tool reports races in Triton's own reductions; the learner can do nothing about these.
                outside = one.kind == "race" and not one.line
                (remarks if outside else gathering).add(called, [one])
    examined = _examination(subject, tool, visits)
    notes = dict.fromkeys((*examined.notes, *notes))
    return replace(examined, findings=gathering.found(), remarks=remarks.found(), notes=tuple(notes))


@dataclass
class _Watched:
    """One kind of process under the tool: its calls, and the offset in the report at which each ended."""

    server: ToolServer
    visits: list[_Visit] = field(default_factory=list)
    _ends: list[int] = field(default_factory=list)

    def add(self, visit: _Visit) -> None:
        """Note a call that has just ended, and wait for its report."""
        self.visits.append(visit)
        self._ends.append(self.server.report.settle(_QUIET_S, _MOST_QUIET_S))

    def read(self) -> tuple[SanitizerReport, list[tuple[Called | None, list[Accusation]]]]:
        """Return the report, and its accusations by call."""
        return _read(self.server.report.text, self._ends, self.visits)


def _require_a_look(reports: Sequence[SanitizerReport], visits: Sequence[_Visit], tool: str) -> None:
    """Raise MissingEnvironment if the tool accused nobody, and gave no summary of calls that ended."""
    accused = any(report.accusations for report in reports)
    if accused or (any(report.summaries for report in reports) and any(visit.returned for visit in visits)):
        return
    said = clean("; ".join(trouble for report in reports for trouble in report.troubles), 300) or "nothing"
    raise MissingEnvironment(f"{tool} must say what it found, got {said}")


def _read(
    text: bytes, ends: Sequence[int], visits: Sequence[_Visit]
) -> tuple[SanitizerReport, list[tuple[Called | None, list[Accusation]]]]:
    """Return the report, and its accusations by the call after which they came; None for those after the last."""
    # Counted in characters, as the accusations' offsets are.
    pieces = [text[start:end].decode(errors="replace") for start, end in pairwise([0, *ends, len(text)])]
    bounds = list(accumulate(map(len, pieces)))
    report = parse("".join(pieces))
    by_visit: dict[int, list[Accusation]] = {}
    for accusation in report.accusations:
        by_visit.setdefault(bisect_right(bounds, accusation.offset), []).append(accusation)
    called = [*(visit.called for visit in visits), None]
    return report, [(called[min(place, len(visits))], found) for place, found in sorted(by_visit.items())]


def _notes(report: SanitizerReport, *, cut: bool) -> tuple[str, ...]:
    notes = [f"compute-sanitizer says: {clean(trouble, 300)}" for trouble in report.troubles[:_MOST_TROUBLES]]
    if report.unprinted or cut:
        some = counted(report.unprinted, "more report is", "more reports are")
        more = some if report.unprinted else "More reports than could be kept are"
        notes.append(f"{more} not listed: correct what is, and look again.")
    return tuple(notes)


# -- calls -----------------------------------------------------------------------------------------------------------


def _visits(
    subject: SanitizeTarget, pair: Pair, own: Session, on_line: OnLine, lock: GpuLock | None = None
) -> Iterator[_Visit]:
    """Make the planned calls, part by part. A failure of one call does not keep the next one from being made.

    own: makes the calls that cannot be replayed.
    """
    session, salt = pair.session, sha256_of(subject.source)
    broken: Failure | None = None
    for part, calls in subject.parts():
        on_line(f"{part.name}: {counted(len(calls), 'call')}")
        # As in a grading: each part in a process of its own, but on a GPU, where a process is dear.
        if not session.runs_on_gpu:
            session.restart()
        blocked = broken
        if blocked is None:
            loaded = session.load()
            if not isinstance(loaded, Loaded):
                blocked = broken = why_not_loaded(loaded, subject.path)
            elif part.name not in loaded.functions:
                blocked = missing_function(part.name, loaded.others)
        costly = 0
        for planned in calls:
            if blocked is not None:
                yield _Visit(planned.called, None, blocked)
                continue
            with lock.shared() if lock else nullcontext():
                answered = answer(pair, part.call(planned.recipe), salt, own, is_replayed=part.is_replayed)
            outcome = answered.outcome
            failure = None if isinstance(outcome, Finished) else why_not_finished(outcome, subject.path)
            yield _Visit(planned.called, answered, failure)
            died = session.runs_on_gpu and _has_ended(outcome)
            costly += died or (failure is not None and failure.status == "timeout")
            if failure is not None and failure.status == "not_implemented":
                blocked = failure
            elif costly >= _PATIENCE:
                blocked = _NOT_CALLED


def _has_ended(outcome: Outcome) -> bool:
    """Return whether the process that made the call is gone."""
    return outcome.fatal if isinstance(outcome, Raised) else not isinstance(outcome, Finished)


_NOT_CALLED = Failure(
    "skipped_dependency",
    Cause("skipped_dependency", "Not called", "Two earlier calls of this part ran out of time, or died.", ""),
)


def _examination(subject: SanitizeTarget, means: Means, visits: Sequence[_Visit]) -> Examination:
    """Return the examination without the findings."""
    returned = [visit.outcome for visit in visits if isinstance(visit.outcome, Finished)]
    return Examination(
        schema=SCHEMA,
        tool=Tool("grade", __version__),
        exercise=subject.entry.id,
        title=subject.entry.exercise.title,
        path=subject.path,
        sha256=sha256_of(subject.source),
        seed=f"{subject.plan.seed:#x}",
        command=subject.command,
        means=means,
        parts=tuple(dict.fromkeys(visit.called.part for visit in visits)),
        planned=len(visits),
        looked=len(returned),
        findings=(),
        stopped=_stopped(visits),
        notes=tuple(_unreplayed(visits)),
        silent=sum(not outcome.answer.launches for outcome in returned),
    )


def _unreplayed(visits: Sequence[_Visit]) -> Iterator[str]:
    """Say which calls the submission's own process made, by part and by reason."""
    reasons: dict[tuple[str, str], int] = {}
    for visit in visits:
        if visit.answered and visit.answered.source == "submission":
            why = clean(visit.answered.why, 200)
            line = f" (line {visit.answered.line})" if visit.answered.line else ""
            reasons[visit.called.part, why + line] = reasons.get((visit.called.part, why + line), 0) + 1
    for (part, why), count in list(reasons.items())[:_MOST_REASONS]:
        made = counted(count, "call was", "calls were")
        yield f"{part}: {made} made in the submission's own process and not replayed: {why}."


def _stopped(visits: Sequence[_Visit]) -> tuple[Stopped, ...]:
    """Return the calls that did not end, by part and by kind of failure."""
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
