"""The loop as a state machine: a state and an event give the next state and the actions.

    waiting  ->  checking  ->  resting  ->  checking …
                                  |
                                asking (y/n)

It reads no clock, file or screen. Slow work (grading, replaying, grading everything) is a run with a number. A new run
replaces the old one, and later events of the old run are ignored.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from grader.progress import Progress
from grader.record.checks import CheckResult
from grader.record.record import Record
from grader.report.view import LEARNERS

Phase = Literal["waiting", "checking", "resting", "asking"]
# A run grades the learner's file, replays one case, or grades every exercise.
Kind = Literal["grade", "replay", "all"]


@dataclass(frozen=True)
class WatchedExercise:
    """The watched exercise.

    hints: three texts for every part. course: the ids of all exercises. has_solution: False in a student bundle, which
    has no model solution. is_own: whether the file is the learner's own, which counts towards progress.
    """

    id: str
    title: str
    path: str
    hints: dict[str, tuple[str, ...]]
    course: tuple[str, ...]
    has_solution: bool = True
    is_own: bool = True


@dataclass(frozen=True)
class State:
    """The loop's state.

    source: the text to grade. trouble: the reason why there is none. results: the checks that the run has decided, of
    `total`. record: the last whole grading, of the text `graded`. panel: the text that a key asked for. hint: the
    number of hints shown for the first failing part. passed: the parts that pass in the last file that could be loaded.
    just_passed: those of them that the grading before it did not pass. progress: the progress of every exercise.
    notice: one line about the last event.
    """

    subject: WatchedExercise
    progress: tuple[Progress, ...] = ()
    phase: Phase = "waiting"
    kind: Kind = "grade"
    run: int = 0
    source: str = ""
    trouble: str = ""
    total: int = 0
    results: tuple[CheckResult, ...] = ()
    record: Record | None = None
    graded: str = ""
    passed: frozenset[str] = frozenset()
    just_passed: frozenset[str] = frozenset()
    attempts: int = 0
    hint: int = 0
    panel: str = ""
    notice: str = ""
    polls: bool = False

    @property
    def is_done(self) -> bool:
        """Return whether the watched exercise is done by the learner's own file, and that is the file on the screen."""
        return self.subject.is_own and any(
            name == self.subject.id and one.is_done
            for name, one in zip(self.subject.course, self.progress, strict=False)
        )

    @property
    def first_failing(self) -> CheckResult | None:
        """Return the check that hints, the card and a replay are about."""
        blamed = [check for check in (self.record.checks if self.record else ()) if check.status in LEARNERS]
        tried = [check for check in blamed if check.status != "not_implemented"]
        return next(iter(tried or blamed), None)


# -- events ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Saved:
    """An event: the file has this text now."""

    source: str


@dataclass(frozen=True)
class Unreadable:
    """An event: there is no file, or it cannot be graded."""

    why: str


@dataclass(frozen=True)
class Polls:
    """An event: the file changed without a file-system event, so it is polled."""


@dataclass(frozen=True)
class Begun:
    """An event: a run starts with this number of checks."""

    run: int
    total: int


@dataclass(frozen=True)
class CheckDecided:
    """An event: a run decided a check."""

    run: int
    result: CheckResult


@dataclass(frozen=True)
class Graded:
    """An event: a run graded the whole file."""

    run: int
    record: Record
    attempts: int
    progress: tuple[Progress, ...]


@dataclass(frozen=True)
class TextShown:
    """An event: a run or a key has a text to show below the result."""

    run: int
    text: str
    progress: tuple[Progress, ...] | None = None


@dataclass(frozen=True)
class Broke:
    """An event: a run ended without a result, and the learner's file is not the reason."""

    run: int
    why: str


@dataclass(frozen=True)
class Pressed:
    """An event: a key was pressed."""

    key: str


@dataclass(frozen=True)
class StatusLine:
    """An event: there is one line to show."""

    text: str


Event = Saved | Unreadable | Polls | Begun | CheckDecided | Graded | TextShown | Broke | Pressed | StatusLine


# -- actions ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Grade:
    """An action: grade this text as run number `run`, the checks in `first` before the others."""

    run: int
    source: str
    first: frozenset[str] = frozenset()


@dataclass(frozen=True)
class ReplayCase:
    """An action: run one case of this text again."""

    run: int
    source: str
    token: str


@dataclass(frozen=True)
class GradeAll:
    """An action: grade every exercise."""

    run: int


@dataclass(frozen=True)
class Cancel:
    """An action: cancel the present run, if there is one."""


@dataclass(frozen=True)
class Do:
    """An action that takes no time: list exercises, restore the stub, open the card, go to the next exercise, quit."""

    what: Literal["list", "reset", "open", "next", "quit"]


Action = Grade | ReplayCase | GradeAll | Cancel | Do

NOTHING: tuple[Action, ...] = ()

_PLAIN: dict[str, Literal["list", "open", "next"]] = {"l": "list", "o": "open", "n": "next"}


def keys(state: State) -> tuple[tuple[str, str], ...]:
    """Return the keys that work now, each with a word."""
    match state.phase:
        case "checking":
            return (("q", "quit"),)
        case "asking":
            return (("y", "yes"), ("n", "no"))
        case "waiting":
            return (("l", "list"), ("c", "check all"), ("x", "reset"), ("q", "quit"))
    failing = state.first_failing
    found = [("n", "next")] if state.is_done else []
    found += [("h", "hint")] if failing is not None and state.hint < len(_hints(state)) else []
    found += [("p", "replay")] if _token(state) else []
    found += [("r", "run again"), ("c", "check all"), ("l", "list"), ("o", "open card"), ("x", "reset")]
    return (*found, ("q", "quit"))


def failing_ids(record: Record | None) -> frozenset[str]:
    """Return the checks that the submission failed; the next run grades them first."""
    return frozenset(check.id for check in record.checks if check.status in LEARNERS) if record else frozenset()


def passing_parts(record: Record | None) -> frozenset[str]:
    """Return the parts in which something passed and nothing failed."""
    checks = record.checks if record else ()
    passed = {check.part for check in checks if check.status == "pass"}
    return frozenset(passed - {check.part for check in checks if check.status in LEARNERS})


def step(state: State, event: Event) -> tuple[State, tuple[Action, ...]]:
    """Return the next state and the actions for an event."""
    match event:
        case Saved(source):
            return _saved(state, source)
        case Unreadable(why):
            lost = replace(state, phase="waiting", source="", trouble=why, run=state.run + 1, results=())
            return lost, (Cancel(),)
        case Polls():
            return replace(state, polls=True), NOTHING
        case StatusLine(text):
            return replace(state, notice=text), NOTHING
        case Pressed(key):
            return _pressed(state, key)
        case Begun(run) | CheckDecided(run) | Graded(run) | TextShown(run) | Broke(run):
            # Events of an earlier run are about an old text.
            return (_reported(state, event), NOTHING) if run == state.run else (state, NOTHING)


def _saved(state: State, source: str) -> tuple[State, tuple[Action, ...]]:
    running = state.phase == "checking" and state.kind == "grade"
    if running and source == state.source:
        return state, NOTHING
    return _grade(replace(state, source=source, trouble=""))


def _grade(state: State) -> tuple[State, tuple[Action, ...]]:
    new = _running(state, "grade")
    return new, (Grade(new.run, new.source, failing_ids(state.record)),)


def _running(state: State, kind: Kind) -> State:
    cleared = replace(state, phase="checking", kind=kind, run=state.run + 1, results=(), total=0)
    return replace(cleared, panel="")


def _reported(state: State, event: Begun | CheckDecided | Graded | TextShown | Broke) -> State:
    match event:
        case Begun(_, total):
            # Grading everything begins once for each exercise.
            return replace(state, total=state.total + total)
        case CheckDecided(_, result):
            return replace(state, results=(*state.results, result))
        case Graded(_, record, attempts, progress):
            before = state.first_failing
            # A file that does not load says nothing about its parts.
            passed = state.passed if record.verdict == "invalid_submission" else passing_parts(record)
            new = replace(
                _rested(state),
                record=record,
                graded=state.source,
                passed=passed,
                just_passed=passed - state.passed if state.record is not None else frozenset(),
                attempts=attempts,
                progress=progress,
                panel="",
            )
            after = new.first_failing
            # A hint stays on the screen while its part still fails.
            same = before is not None and after is not None and before.part == after.part
            return replace(new, hint=state.hint if same else 0)
        case TextShown(_, text, progress):
            return replace(_rested(state), panel=text, progress=state.progress if progress is None else progress)
        case Broke(_, why):
            return replace(_rested(state), notice=why)


def _rested(state: State) -> State:
    return replace(state, phase="waiting" if state.trouble else "resting", results=())


def _pressed(state: State, key: str) -> tuple[State, tuple[Action, ...]]:
    if key not in dict(keys(state)):
        # During a run, other keys are ignored.
        return (_back(state), NOTHING) if state.phase == "asking" else (state, NOTHING)
    if state.phase == "asking":
        return _back(state), (Do("reset"),) if key == "y" else NOTHING
    state = replace(state, notice="")
    match key:
        case "r":
            return _grade(state)
        case "p":
            new = _running(state, "replay")
            return new, (ReplayCase(new.run, new.source, _token(state)),)
        case "c":
            new = _running(state, "all")
            return new, (GradeAll(new.run),)
        case _:
            return _at_once(state, key)


def _at_once(state: State, key: str) -> tuple[State, tuple[Action, ...]]:
    """Handle a key that starts no run."""
    match key:
        case "h":
            return replace(state, hint=state.hint + 1, panel=""), NOTHING
        case "x":
            return replace(state, phase="asking", panel=""), NOTHING
        case "q":
            return state, (Cancel(), Do("quit"))
        case _:
            return state, (Do(_PLAIN[key]),)


def _back(state: State) -> State:
    return replace(_rested(state), notice="")


def shown_hints(state: State) -> tuple[str, ...]:
    """Return the hints on the screen, one sentence each, from vague to plain."""
    return _hints(state)[: state.hint]


def _hints(state: State) -> tuple[str, ...]:
    failing = state.first_failing
    return state.subject.hints.get(failing.part, ()) if failing is not None else ()


def _token(state: State) -> str:
    """Return the replay token of the first failing case, or ''."""
    checks = state.record.checks if state.record else ()
    failing = [check for check in checks if check.status in LEARNERS and check.counterexample is not None]
    return next((check.counterexample.replay for check in failing if check.counterexample), "")
