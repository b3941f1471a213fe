"""What an examination found, put together: each line of code once. Data and pure functions."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from grader.record import Status, Tool
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
        """By which the smallest of several calls is chosen."""
        return sum(value for value in self.case.values() if isinstance(value, int) and not isinstance(value, bool))


@dataclass(frozen=True)
class CallFinding:
    """What one call did in one place, in words.

    line and code are of the learner's file; where no line of it is known, line is 0 and `place` says what is. program:
    the first that did it. lanes: how many lanes, threads or racing bytes.
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
    """One place, as it showed in its smallest call, and in how many calls it showed.

    call is None, and calls 0, where the report does not say in which call it was.
    """

    sighting: CallFinding
    call: Called | None
    calls: int


@dataclass(frozen=True)
class Stopped:
    """Calls of one part that could not be looked at to their end, for one reason; `call` is the first."""

    part: str
    status: Status
    title: str
    text: str
    call: Called
    calls: int


@dataclass(frozen=True)
class Examination:
    """One submission, looked at by one means.

    planned, looked: how many calls were to be made, and how many returned while they were looked at. silent: of those,
    how many launched no kernel. unfollowed: how many launched kernels too large for races to be looked for. remarks:
    what lies outside the learner's file and is no fault of it. notes: sentences on how it was done.
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
        """As of a grading: 1 for a finding or a call that died, 3 where something is not there to be looked at."""
        statuses = {one.status for one in self.stopped}
        if self.findings or statuses - {"not_implemented", "invalid_submission"}:
            return 1
        return 3 if statuses or self.silent == self.looked else 0


@dataclass
class Gathering:
    """Sightings of several calls, to become findings."""

    _seen: dict[tuple[object, ...], list[tuple[Called | None, CallFinding]]] = field(default_factory=dict)

    def add(self, call: Called | None, sightings: Iterable[CallFinding]) -> None:
        """What one call did; None where nobody knows which."""
        for one in sightings:
            key = (one.kind, one.line) if one.line else (one.kind, one.kernel, one.place)
            self._seen.setdefault(key, []).append((call, one))

    def found(self) -> tuple[ToolFinding, ...]:
        """Each place once, by its smallest call, in the order of the file."""
        findings = [_smallest(seen) for seen in self._seen.values()]
        return tuple(sorted(findings, key=lambda one: (one.sighting.line == 0, one.sighting.line)))


def _smallest(seen: Sequence[tuple[Called | None, CallFinding]]) -> ToolFinding:
    known = [(call, sighting) for call, sighting in seen if call is not None]
    if not known:
        return ToolFinding(seen[0][1], None, 0)
    call, sighting = min(known, key=lambda one: one[0].size)
    return ToolFinding(sighting, call, len({id(call) for call, _ in known}))


def to_json(examination: Examination) -> str:
    """The examination as one JSON document (docs/sanitize.md)."""
    document = {**dataclasses.asdict(examination), "exit_code": examination.exit_code}
    return as_json(document)
