"""The possible outcomes of a question to a submission's process: an answer, an exception, or neither."""

from __future__ import annotations

from dataclasses import dataclass

from grader.protocol.answers import COMPUTED, UNRECORDABLE, Raised, Returned


@dataclass(frozen=True)
class Finished:
    """The call returned.

    outputs: a private copy of each slot's bytes; None if the form did not fit.
    """

    answer: Returned
    outputs: tuple[bytes | None, ...]


@dataclass(frozen=True)
class Died:
    """The process ended before it answered. how: the signal or exit status, in words."""

    how: str
    signal: int = 0


@dataclass(frozen=True)
class TimedOut:
    """No answer within the limit."""

    limit_s: float


@dataclass(frozen=True)
class CompiledTooLong:
    """A kernel, or with `altogether` all kernels, took too long to compile. kernel: as the process names it."""

    kernel: str
    limit_s: float
    altogether: bool = False


@dataclass(frozen=True)
class OutOfTime:
    """The call was not made: earlier calls used up the time of the part."""

    limit_s: float


@dataclass(frozen=True)
class OutOfMemory:
    """The process exceeded the memory limit and was ended."""

    limit_bytes: int
    peak_bytes: int


@dataclass(frozen=True)
class OutOfSpace:
    """The submission's files exceeded the limit; its processes were ended, and its files removed."""

    limit_bytes: int


@dataclass(frozen=True)
class Garbled:
    """The process sent a message that is no answer to the question."""

    why: str


Unanswered = Died | TimedOut | CompiledTooLong | OutOfTime | OutOfMemory | OutOfSpace | Garbled
Outcome = Finished | Raised | Unanswered


def replay_refusal(outcome: Outcome) -> Raised | None:
    """Return the exception by which a replayer says that it cannot replay a trace; None for any other outcome.

    Ask only of a replay: an exception of the submission's process may have any kind.
    """
    return outcome if isinstance(outcome, Raised) and outcome.kind in (UNRECORDABLE, COMPUTED) else None
