"""Sum up what a call did: kernels, operations in them, and operators beside them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import prod

from grader.exercise.cases import Case
from grader.judge.idle_kernels import are_idle
from grader.judge.trial import CallRequest
from grader.protocol.observations import LaunchInfo
from grader.protocol.operators import READING
from grader.protocol.trace import TraceNote
from grader.sandbox.outcome import Finished, Outcome
from grader.sandbox.pair import RecordedAnswer
from grader.text import clean


@dataclass(frozen=True)
class Evidence:
    """The actions of one call: kernels launched, operations in them, operators beside them.

    helpers: functions of installed packages that kernels call. reads: operators that gave Python values of a tensor.
    seed: as planned. launches, moved_bytes: kernels that ran, and the bytes that they loaded and stored, in a replayed
    call; 0 where unknown. idle: the kernels get none of the call's memory. meets: their programs meet at an address.
    unordered: the line of an atomic addition whose sum depends on the order, or 0. programs: digests of CuTe's.
    Names and numbers only: the evidence of all calls stays in memory, and answers may be large.
    """

    case: Case
    kernels: tuple[str, ...]
    operations: frozenset[str]
    operators: tuple[str, ...]
    unrecordable: tuple[str, ...] = ()
    was_replayed: bool = False
    reads: tuple[TraceNote, ...] = ()
    helpers: tuple[str, ...] = ()
    seed: int = 0
    launches: int = 0
    moved_bytes: int = 0
    idle: bool = False
    meets: bool = False
    unordered: int = 0
    programs: tuple[str, ...] = ()


def kernels_of(launches: Iterable[LaunchInfo]) -> tuple[str, ...]:
    """Return the names of the kernels of launches, each once, as evidence holds them."""
    return tuple(dict.fromkeys(clean(launch.kernel, 80) for launch in launches))


def evidence_of_trace(
    request: CallRequest, recorded: RecordedAnswer, outcome: Outcome, unrecordable: tuple[str, ...]
) -> Evidence:
    """Return the evidence of a recorded call; the launches are those of its replay, if it was replayed."""
    outside_work = [with_line(note.name, note.line) for note in recorded.outside_work]
    was_replayed = recorded.is_replayable and not unrecordable
    kernels, operations, launched, moved = recorded.kernels, frozenset[str](), 0, 0
    meets, unordered, programs = False, 0, tuple[str, ...]()
    if was_replayed and isinstance(outcome, Finished):
        # A replay launched these, so they are facts.
        launches = [launch for launch in outcome.answer.launches if prod(launch.grid)]
        kernels = tuple(dict.fromkeys(launch.kernel for launch in launches))
        operations = frozenset(clean(name, 80) for launch in launches for name in launch.constants)
        programs = tuple(launch.digest for launch in launches if launch.digest)
        launched, counts = len(launches), [launch.traffic for launch in launches if launch.traffic]
        meets, unordered = outcome.answer.meets, next(iter(outcome.answer.unordered), 0)
        moved = sum(count.loaded_bytes + count.stored_bytes for count in counts)
    return Evidence(
        request.case,
        tuple(clean(name, 80) for name in kernels),
        operations,
        tuple(dict.fromkeys(outside_work)),
        unrecordable,
        was_replayed,
        _reads_in(recorded.outside_work),
        tuple(clean(text.words, 200) for text in recorded.trace.kernels if text.home),
        request.seed,
        launched,
        moved,
        are_idle(recorded.trace),
        meets,
        unordered,
        programs,
    )


def _reads_in(outside_work: Sequence[TraceNote]) -> tuple[TraceNote, ...]:
    """Return the operators that gave Python values, each with the arguments that its line used."""
    of_line: dict[int, dict[str, None]] = {}
    for note in outside_work:
        of_line.setdefault(note.line, {}).update(dict.fromkeys(note.of))
    return tuple(replace(note, of=note.of or (*of_line[note.line],)) for note in outside_work if note.name in READING)


def with_line(name: str, line: int) -> str:
    """Return a name and its line, in words."""
    text = clean(name, 200) or "something without a name"
    return f"{text} (line {line})" if line else text
