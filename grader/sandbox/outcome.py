"""What can come of asking a submission's process for something: an answer, an exception, or none of both."""

from __future__ import annotations

from dataclasses import dataclass

from grader.protocol.messages import Raised, Returned


@dataclass(frozen=True)
class Finished:
    """The call returned. `outputs` holds a private copy of each slot's bytes, None where the form did not fit."""

    answer: Returned
    outputs: tuple[bytes | None, ...]


@dataclass(frozen=True)
class Died:
    """The process ended before it answered; `how` says by which signal or exit status."""

    how: str
    signal: int = 0


@dataclass(frozen=True)
class TimedOut:
    """No answer within the limit."""

    limit_s: float


@dataclass(frozen=True)
class CompiledTooLong:
    """A kernel, or with `altogether` all kernels, took more than the limit to compile. kernel: as the process says."""

    kernel: str
    limit_s: float
    altogether: bool = False


@dataclass(frozen=True)
class OutOfTime:
    """The call was not made: those before it have taken all the time that a part's calls may take together."""

    limit_s: float


@dataclass(frozen=True)
class OutOfMemory:
    """The process grew beyond the limit and was ended."""

    limit_bytes: int
    peak_bytes: int


@dataclass(frozen=True)
class OutOfSpace:
    """The submission's files grew beyond the limit; its processes were ended, and its files removed."""

    limit_bytes: int


@dataclass(frozen=True)
class Garbled:
    """The process sent something that is no answer."""

    why: str


Unanswered = Died | TimedOut | CompiledTooLong | OutOfTime | OutOfMemory | OutOfSpace | Garbled
Outcome = Finished | Raised | Unanswered
