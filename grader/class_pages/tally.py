"""Collect a class's numbers record by record. Only numbers that the page shows stay in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from grader.batch.gradebook import APART, Gradebook, Mark
from grader.record.checks import CheckResult
from grader.record.record import Record
from grader.record.statuses import UNJUDGED, Status
from grader.report import view
from grader.report.speed import usable

# Statuses in the order in which a bar shows them, and the tone of each.
Outcome = str
OUTCOMES: tuple[Outcome, ...] = ("passed", "passed in part", "failed", "stopped", "not started", "not judged")
_STOPPED: frozenset[Status] = frozenset({"compile_error", "crash", "timeout", "oom", "invalid_submission"})
_NOT_STARTED: frozenset[Status] = frozenset({"not_implemented", "skipped_dependency"})


@dataclass
class CheckTally:
    """One check's outcomes over all students, and the students by outcome."""

    id: str
    part: str
    title: str
    max_points: float
    students: dict[Outcome, list[str]] = field(default_factory=dict)

    @property
    def outcomes(self) -> Counter[Outcome]:
        """Return the number of students by outcome."""
        return Counter({name: len(students) for name, students in self.students.items()})

    @property
    def judged(self) -> int:
        """Return the number of students for whom the check was judged."""
        return sum(self.outcomes.values()) - self.outcomes["not judged"]

    @property
    def lost(self) -> int:
        """Return the number of students who did not pass."""
        return self.judged - self.outcomes["passed"] - self.outcomes["passed in part"]


@dataclass
class CauseTally:
    """One cause: its students, its checks, an example, and how often the same wrong values occurred."""

    title: str
    status: Status
    students: set[str] = field(default_factory=set)
    checks: Counter[str] = field(default_factory=Counter)
    example: Example | None = None
    alike: Counter[int] = field(default_factory=Counter)

    @property
    def most_alike(self) -> int:
        """Return the largest number of students with the same wrong answer."""
        return max(self.alike.values(), default=0)


@dataclass(frozen=True)
class Example:
    """A student with this cause, and the text about it."""

    student: str
    check: str
    words: str


@dataclass(frozen=True)
class StudentTiming:
    """One student's ratio in one speed check, with its 95% interval."""

    student: str
    ratio: float
    low: float
    high: float


@dataclass
class SpeedTally:
    """A speed check's ratios."""

    check: str
    part: str
    title: str
    baseline: str
    floor: float
    full: float
    timings: list[StudentTiming] = field(default_factory=list)


@dataclass
class UnjudgedTally:
    """A reason why checks were not judged: the number of checks, and the students."""

    status: Status
    reason: str
    checks: int = 0
    students: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class PartOutcome:
    """The outcome of one student's part: points, of how many judged ones, and the check that the student is stuck at.

    stuck: the first check that failed or stopped; '' if none did.
    """

    outcome: Outcome
    points: float
    judged: float
    stuck: str = ""


@dataclass
class PartTally:
    """One part's outcomes by student."""

    name: str
    title: str
    students: dict[str, PartOutcome] = field(default_factory=dict)

    @property
    def stuck(self) -> dict[str, list[str]]:
        """Return the students who are stuck, by the check that they are stuck at; most students first."""
        found: dict[str, list[str]] = {}
        for student, one in self.students.items():
            if one.stuck:
                found.setdefault(one.stuck, []).append(student)
        return dict(sorted(found.items(), key=lambda item: -len(item[1])))


@dataclass
class ExerciseTally:
    """One exercise. unread: the students whose file could not be graded, with the reason."""

    id: str
    title: str = ""
    graded: int = 0
    parts: dict[str, PartTally] = field(default_factory=dict)
    unread: dict[str, str] = field(default_factory=dict)
    checks: dict[str, CheckTally] = field(default_factory=dict)
    causes: dict[tuple[str, str], CauseTally] = field(default_factory=dict)
    speeds: dict[str, SpeedTally] = field(default_factory=dict)
    unjudged: dict[tuple[Status, str], UnjudgedTally] = field(default_factory=dict)
    devices: Counter[str] = field(default_factory=Counter)


class ClassTally:
    """All exercises. `add` takes the records one by one."""

    def __init__(self) -> None:
        self.exercises: dict[str, ExerciseTally] = {}

    def add(self, student: str, exercise: str, record: Record) -> None:
        """Add one more record."""
        tally = self.exercises.setdefault(exercise, ExerciseTally(exercise))
        tally.title = tally.title or view.line(record.exercise.title, 120)
        if record.verdict == "invalid_submission":
            # It says nothing of any check: a bar would show it as a failure of all of them.
            tally.unread[student] = next((view.why(check) for check in record.checks if view.why(check)), "")
            return
        tally.graded += 1
        tally.devices[_device(record)] += 1
        for check in record.checks:
            _add_check(tally, student, check)
        for part in view.parts_of(record):
            own = [check for check in record.checks if check.part == part.name]
            found = tally.parts.setdefault(part.name, PartTally(part.name, view.line(part.title, 120)))
            found.students[student] = _part_outcome(own)


def _part_outcome(checks: Sequence[CheckResult]) -> PartOutcome:
    """Return the outcome of a part's checks: the first of those that the student must do something about."""
    ended = [(outcome_of(check), check) for check in checks]
    stuck = next((check.id for outcome, check in ended if outcome in ("failed", "stopped")), "")
    found = {outcome for outcome, _ in ended}
    worst = ("stopped", "failed", "not started", "passed in part", "passed", "not judged")
    judged = sum(check.max_points for outcome, check in ended if outcome != "not judged")
    outcome = next((name for name in worst if name in found), "not judged")
    return PartOutcome(outcome, sum(check.points for check in checks), judged, stuck)


def _device(record: Record) -> str:
    words = view.device(record.env)
    return f"{words}, driver {view.line(record.env.driver, 40)}" if record.env.driver else words


def _add_check(tally: ExerciseTally, student: str, check: CheckResult) -> None:
    outcome = outcome_of(check)
    found = tally.checks.get(check.id)
    if found is None:
        title = view.line(check.title, 200)
        found = tally.checks[check.id] = CheckTally(check.id, check.part, title, check.max_points)
    found.students.setdefault(outcome, []).append(student)
    if check.status in UNJUDGED:
        _add_unjudged(tally, student, check)
    elif outcome not in ("passed", "passed in part"):
        _add_cause(tally, student, check)
    if check.speed is not None and check.status == "pass":
        _add_speed(tally, student, check)


def outcome_of(check: CheckResult) -> Outcome:
    """Return a check's outcome as one of the few words that a bar shows."""
    if check.status in UNJUDGED:
        return "not judged"
    if check.status == "pass":
        return "passed" if check.points >= check.max_points else "passed in part"
    if check.status in _STOPPED:
        return "stopped"
    return "not started" if check.status in _NOT_STARTED else "failed"


def _add_cause(tally: ExerciseTally, student: str, check: CheckResult) -> None:
    if check.status in _NOT_STARTED:
        return
    cause = check.cause
    title = view.line(cause.title, 120) if cause is not None else view.why(check)[:120]
    found = tally.causes.setdefault((check.status, title), CauseTally(title, check.status))
    words = view.line(cause.rationale, 300) if cause is not None else view.why(check)
    if found.example is None:
        found.example = Example(student, check.id, words)
    found.students.add(student)
    found.checks[check.id] += 1
    # Equal numbers in equal words, of a plan that is the same for all: the same wrong answer.
    if cause is not None and cause.mismatch is not None:
        found.alike[hash((check.id, words))] += 1


def _add_unjudged(tally: ExerciseTally, student: str, check: CheckResult) -> None:
    reason = view.line(view.why(check), 200)
    found = tally.unjudged.setdefault((check.status, reason), UnjudgedTally(check.status, reason))
    found.checks += 1
    found.students.add(student)


def _add_speed(tally: ExerciseTally, student: str, check: CheckResult) -> None:
    speed = check.speed
    ratio = usable(speed.ratio) if speed is not None else None
    if speed is None or ratio is None:
        return
    found = tally.speeds.get(check.id)
    if found is None:
        titles = {one.name: one.title for one in speed.baselines}
        baseline = view.line(titles.get(speed.baseline, speed.baseline), 80)
        title = view.line(check.title, 200)
        found = SpeedTally(check.id, check.part, title, baseline, speed.floor, speed.full)
        tally.speeds[check.id] = found
    low, high = usable(speed.ratio_low) or ratio, usable(speed.ratio_high) or ratio
    found.timings.append(StudentTiming(student, ratio, min(low, ratio), max(high, ratio)))


# -- points ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Points:
    """The distribution of one exercise's points.

    bins: students by tenths of their judged points; full marks are apart. shares: in order. missing: students without a
    submission. unread: students whose file could not be read. open: students of whose file nothing could be judged.
    partly: students with some points not judged. Only bins and shares count towards median and average.
    """

    bins: tuple[tuple[str, ...], ...]
    shares: tuple[float, ...]
    missing: int
    unread: int
    open: int
    partly: int


def points(book: Gradebook, exercise: str) -> Points:
    """Return the distribution of the points that count, as shares of the judged points."""
    marks = [mark for mark in book.marks if mark.exercise == exercise]
    counted = [mark for mark in marks if mark.override is not None or (mark.status not in APART and mark.judged > 0)]
    bins: list[list[str]] = [[] for _ in range(11)]
    for mark in counted:
        bins[min(10, int(share(mark) * 10 + 1e-9))].append(mark.student)
    apart = Counter(mark.status for mark in marks if mark.override is None and mark.status in APART)
    unjudged = len(marks) - len(counted) - sum(apart.values())
    partly = sum(mark.override is None and mark.judged < mark.max_points for mark in counted)
    return Points(
        tuple(map(tuple, bins)),
        tuple(sorted(map(share, counted))),
        apart["missing"],
        apart["invalid_submission"],
        unjudged,
        partly,
    )


def share(mark: Mark) -> float:
    """Return the points that count over the judged points, 0 … 1."""
    most = mark.judged if mark.override is None else mark.max_points
    return max(0.0, min(1.0, mark.points / most)) if most else 0.0


def median(values: tuple[float, ...]) -> float:
    """Return the median of ordered values."""
    middle = len(values) // 2
    return values[middle] if len(values) % 2 else (values[middle - 1] + values[middle]) / 2


def by_student(book: Gradebook) -> Mapping[str, float]:
    """Return every student's mean share over all exercises.

    A missing submission counts as zero; a file that could not be read or judged does not count.
    """
    shares: dict[str, list[float]] = {}
    for mark in book.marks:
        counts = mark.judged > 0 and mark.status != "invalid_submission"
        if mark.override is not None or mark.status == "missing" or counts:
            shares.setdefault(mark.student, []).append(share(mark))
    return {student: sum(values) / len(values) for student, values in shares.items()}
