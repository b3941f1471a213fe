"""The loop as a machine without a clock, a file or a screen: a state and an event give the next state and what to do.

    waiting  ->  checking  ->  resting  ->  checking …
                                  |
                                asking (y/n)

Whatever takes time (grading, replaying, grading everything) is a run with a number. A new run takes the place of the
old one; what is heard of an old one counts no more.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from grader.progress import Standing
from grader.record import CheckResult, Record
from grader.report.view import LEARNERS

Phase = Literal["waiting", "checking", "resting", "asking"]
# What a run is about: the learner's file, one case of it again, or every exercise.
Kind = Literal["grade", "replay", "all"]


@dataclass(frozen=True)
class WatchedExercise:
    """The exercise that is watched. hints: three texts for every part; course: the ids of all exercises; has_solution:
    whether there is a model solution to be shown, which a student bundle lacks.
    """

    id: str
    title: str
    path: str
    hints: dict[str, tuple[str, ...]]
    course: tuple[str, ...]
    has_solution: bool = True


@dataclass(frozen=True)
class State:
    """source: the text to grade; trouble: why there is none. results: what the run has said so far, of `total` checks.
    record: the last whole grading, of `graded`. panel: what a key asked to see below it. hint: how many of the hints
    for the first failing part are shown. shelf: how far every exercise is. told: one line about what just happened.
    """

    subject: WatchedExercise
    shelf: tuple[Standing, ...] = ()
    phase: Phase = "waiting"
    kind: Kind = "grade"
    run: int = 0
    source: str = ""
    trouble: str = ""
    total: int = 0
    results: tuple[CheckResult, ...] = ()
    record: Record | None = None
    graded: str = ""
    attempts: int = 0
    hint: int = 0
    panel: str = ""
    told: str = ""
    polls: bool = False

    @property
    def is_done(self) -> bool:
        """Whether the exercise that is watched is done."""
        return any(
            name == self.subject.id and one.is_done for name, one in zip(self.subject.course, self.shelf, strict=False)
        )

    @property
    def first_failing(self) -> CheckResult | None:
        """The check that a hint, a card and a replay are about."""
        blamed = [check for check in (self.record.checks if self.record else ()) if check.status in LEARNERS]
        tried = [check for check in blamed if check.status != "not_implemented"]
        return next(iter(tried or blamed), None)


# -- what happens ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Saved:
    """The file has this text now."""

    source: str


@dataclass(frozen=True)
class Unreadable:
    """There is no file, or none that can be graded."""

    why: str


@dataclass(frozen=True)
class Polls:
    """A change came without an event: the file is looked at from time to time instead."""


@dataclass(frozen=True)
class Begun:
    """A run has so many checks before it."""

    run: int
    total: int


@dataclass(frozen=True)
class Heard:
    """A run decided a check."""

    run: int
    result: CheckResult


@dataclass(frozen=True)
class Graded:
    """A run graded the whole file."""

    run: int
    record: Record
    attempts: int
    shelf: tuple[Standing, ...]


@dataclass(frozen=True)
class TextShown:
    """A run, or a key, has something to show below the result."""

    run: int
    text: str
    shelf: tuple[Standing, ...] | None = None


@dataclass(frozen=True)
class Broke:
    """A run ended without a result, through no fault of the learner."""

    run: int
    why: str


@dataclass(frozen=True)
class Pressed:
    """A key was pressed."""

    key: str


@dataclass(frozen=True)
class StatusLine:
    """Something to say in one line."""

    text: str


Event = Saved | Unreadable | Polls | Begun | Heard | Graded | TextShown | Broke | Pressed | StatusLine


# -- what is to be done ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Grade:
    """Grade this text as run number `run`, these checks first."""

    run: int
    source: str
    first: frozenset[str] = frozenset()


@dataclass(frozen=True)
class ReplayCase:
    """Run one case of this text again."""

    run: int
    source: str
    token: str


@dataclass(frozen=True)
class GradeAll:
    """Grade every exercise."""

    run: int


@dataclass(frozen=True)
class CallOff:
    """End the run that is going on, if there is one."""


@dataclass(frozen=True)
class Do:
    """Something that takes no time: list the exercises, restore the stub, open the card, go on, leave."""

    what: Literal["list", "reset", "open", "next", "quit"]


Action = Grade | ReplayCase | GradeAll | CallOff | Do

NOTHING: tuple[Action, ...] = ()

_PLAIN: dict[str, Literal["list", "open", "next"]] = {"l": "list", "o": "open", "n": "next"}


def keys(state: State) -> tuple[tuple[str, str], ...]:
    """The keys that do something now, with a word each."""
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
    """The checks that did not pass and were the learner's: they come first the next time."""
    return frozenset(check.id for check in record.checks if check.status in LEARNERS) if record else frozenset()


def step(state: State, event: Event) -> tuple[State, tuple[Action, ...]]:
    """What an event makes of a state, and what is to be done."""
    match event:
        case Saved(source):
            return _saved(state, source)
        case Unreadable(why):
            lost = replace(state, phase="waiting", source="", trouble=why, run=state.run + 1, results=())
            return lost, (CallOff(),)
        case Polls():
            return replace(state, polls=True), NOTHING
        case StatusLine(text):
            return replace(state, told=text), NOTHING
        case Pressed(key):
            return _pressed(state, key)
        case Begun(run) | Heard(run) | Graded(run) | TextShown(run) | Broke(run):
            # What an earlier run still says is about a text that is there no more.
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


def _reported(state: State, event: Begun | Heard | Graded | TextShown | Broke) -> State:
    match event:
        case Begun(_, total):
            # Grading everything begins once for each exercise.
            return replace(state, total=state.total + total)
        case Heard(_, result):
            return replace(state, results=(*state.results, result))
        case Graded(_, record, attempts, shelf):
            before = state.first_failing
            new = replace(_rested(state), record=record, graded=state.source, attempts=attempts, shelf=shelf, panel="")
            after = new.first_failing
            # A hint stays on the screen while it is about what still fails.
            same = before is not None and after is not None and before.part == after.part
            return replace(new, hint=state.hint if same else 0)
        case TextShown(_, text, shelf):
            return replace(_rested(state), panel=text, shelf=state.shelf if shelf is None else shelf)
        case Broke(_, why):
            return replace(_rested(state), told=why)


def _rested(state: State) -> State:
    return replace(state, phase="waiting" if state.trouble else "resting", results=())


def _pressed(state: State, key: str) -> tuple[State, tuple[Action, ...]]:
    if key not in dict(keys(state)):
        # While something runs, keys are neither obeyed nor kept for later.
        return (_back(state), NOTHING) if state.phase == "asking" else (state, NOTHING)
    if state.phase == "asking":
        return _back(state), (Do("reset"),) if key == "y" else NOTHING
    state = replace(state, told="")
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
    """What a key does that starts no run."""
    match key:
        case "h":
            return replace(state, hint=state.hint + 1, panel=""), NOTHING
        case "x":
            return replace(state, phase="asking", panel=""), NOTHING
        case "q":
            return state, (CallOff(), Do("quit"))
        case _:
            return state, (Do(_PLAIN[key]),)


def _back(state: State) -> State:
    return replace(_rested(state), told="")


def shown_hints(state: State) -> tuple[str, ...]:
    """The hints on the screen, one sentence each, vague to plain."""
    return _hints(state)[: state.hint]


def _hints(state: State) -> tuple[str, ...]:
    failing = state.first_failing
    return state.subject.hints.get(failing.part, ()) if failing is not None else ()


def _token(state: State) -> str:
    """The replay token of the first failing case."""
    checks = state.record.checks if state.record else ()
    failing = [check for check in checks if check.status in LEARNERS and check.counterexample is not None]
    return next((check.counterexample.replay for check in failing if check.counterexample), "")
