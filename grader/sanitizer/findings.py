"""An examination's findings, each line of code once. Data and pure functions."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from grader.record.record import Tool
from grader.record.statuses import Status
from grader.sanitizer.output import Kind
from grader.text import as_json

Means = Literal["guard", "memcheck", "racecheck", "initcheck", "synccheck"]
Schema = Literal["grade/sanitize/v1"]
SCHEMA: Schema = "grade/sanitize/v1"


@dataclass(frozen=True)
class Called:
    """One planned call: the part and the case, and the command that runs this one case again."""

    part: str
    case: dict[str, int | float | bool | str]
    words: str
    replay: str

    @property
    def size(self) -> int:
        """Return a size by which the smallest of several calls is chosen."""
        return sum(value for value in self.case.values() if isinstance(value, int) and not isinstance(value, bool))


@dataclass(frozen=True)
class CallFinding:
    """One call's fault in one place, in words.

    line and code are of the learner's file; if no line of it is known, line is 0 and `place` tells the place. program:
    the first with the fault. lanes: how many lanes, threads or racing bytes.
    """

    kind: Kind
    kernel: str
    line: int
    code: str
    program: tuple[int, ...]
    title: str
    text: str
    help: str = ""
    place: str = ""
    other_line: int = 0
    lanes: int = 1


@dataclass(frozen=True)
class ToolFinding:
    """One faulty place, in its smallest call, with the number of calls that showed it.

    call is None, and calls 0, if the report does not say in which call it was.
    """

    sighting: CallFinding
    call: Called | None
    calls: int


@dataclass(frozen=True)
class Stopped:
    """Calls of one part that were not examined to their end, for one reason; `call` is the first."""

    part: str
    status: Status
    title: str
    text: str
    call: Called
    calls: int


@dataclass(frozen=True)
class Examination:
    """One submission, examined by one means.

    planned, looked: how many calls were planned, and how many returned while they were watched. silent: how many of the
    returned calls launched no kernel. unfollowed: how many launched kernels too large for a search for races. remarks:
    findings outside the learner's file that are no fault of it. notes: sentences on how it was done.
    """

    schema: Schema
    tool: Tool
    exercise: str
    title: str
    path: str
    sha256: str
    seed: str
    command: str
    means: Means
    parts: tuple[str, ...]
    planned: int
    looked: int
    findings: tuple[ToolFinding, ...]
    stopped: tuple[Stopped, ...] = ()
    remarks: tuple[ToolFinding, ...] = ()
    notes: tuple[str, ...] = ()
    silent: int = 0
    unfollowed: int = 0

    @property
    def exit_code(self) -> int:
        """Return the exit code, as of a grading.

        1: a finding, or a call that died. 3: nothing there to be examined. 0: else.
        """
        statuses = {one.status for one in self.stopped}
        if self.findings or statuses - {"not_implemented", "invalid_submission"}:
            return 1
        return 3 if statuses or self.silent == self.looked else 0


@dataclass
class Gathering:
    """A collection of several calls' findings, merged by place."""

    _seen: dict[tuple[object, ...], list[tuple[Called | None, CallFinding]]] = field(default_factory=dict)

    def add(self, call: Called | None, sightings: Iterable[CallFinding]) -> None:
        """Add the findings of one call; None for findings of an unknown call."""
        for one in sightings:
            key = (one.kind, one.line) if one.line else (one.kind, one.kernel, one.place)
            self._seen.setdefault(key, []).append((call, one))

    def found(self) -> tuple[ToolFinding, ...]:
        """Return each place once, by its smallest call, in the order of the file."""
        findings = [_smallest(seen) for seen in self._seen.values()]
        return tuple(sorted(findings, key=lambda one: (one.sighting.line == 0, one.sighting.line)))


def _smallest(seen: Sequence[tuple[Called | None, CallFinding]]) -> ToolFinding:
    known = [(call, sighting) for call, sighting in seen if call is not None]
    if not known:
        return ToolFinding(seen[0][1], None, 0)
    call, sighting = min(known, key=lambda one: one[0].size)
    return ToolFinding(sighting, call, len({id(call) for call, _ in known}))


def to_json(examination: Examination) -> str:
    """Return the examination as one JSON document (docs/sanitize.md)."""
    document = {**dataclasses.asdict(examination), "exit_code": examination.exit_code}
    return as_json(document)
