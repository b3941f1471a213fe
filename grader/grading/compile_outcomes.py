"""Turn the answers of a recording and a compiling process into outcomes, with the reasons in words.

Takes answers; gives CompileOutcome and its parts. Pure: it starts nothing and decides no check.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from grader.compile.findings import MOST_KERNELS, described
from grader.compile.outcome_cache import CompileOutcome, CompileState
from grader.exercise.cases import Case
from grader.gpus import Architecture
from grader.judge.unanswered import raised_words
from grader.phrases import counted
from grader.protocol.answers import UNRECORDABLE, Compiled, Raised
from grader.protocol.trace import TraceNote
from grader.record.kernels import CompiledKernel
from grader.sandbox.outcome import CompiledTooLong, Died, Garbled, OutOfMemory, OutOfSpace, TimedOut, Unanswered
from grader.text import one_line

_UNRECORDED = "not compiled, because it cannot be recorded"
# The exception of cuda.pathfinder where the driver's library is missing.
_NO_DRIVER = "DynamicLibNotFoundError"


def late(part: str, target: str) -> CompileOutcome:
    """Return the outcome of a part that is not compiled yet."""
    return CompileOutcome(part, target, state="late", why="not compiled in time")


def described_kernels(answer: Compiled, target: Architecture, case: Case) -> tuple[CompiledKernel, ...]:
    """Return the kernels of an answer as the record shows them."""
    described_ones = (described(binary, target, case.words()) for binary in answer.binaries[:MOST_KERNELS])
    return tuple(kernel for kernel in described_ones if kernel is not None)


def compiled_outcome(
    outcome: CompileOutcome, answer: Compiled, target: Architecture, case: Case, unrecordable: Sequence[TraceNote]
) -> CompileOutcome:
    """Return the outcome of a compiled call. unrecordable: what could not be recorded of it."""
    kernels = described_kernels(answer, target, case)
    state, why = _state_and_lack(answer, len(kernels), unrecordable)
    return replace(outcome, kernels=kernels, state=state, why=why)


def recorded_outcome(outcome: CompileOutcome, unrecordable: Sequence[TraceNote]) -> CompileOutcome:
    """Return the outcome of a call that is recorded only."""
    if unrecordable:
        return replace(outcome, state="unrecorded", why=_unrecordable_words(unrecordable))
    return replace(outcome, state="recorded")


def not_compiled(outcome: CompileOutcome, answer: Raised | Unanswered, announced: str = "") -> CompileOutcome:
    """Return the outcome of a call that was not recorded, or whose kernels were not compiled.

    announced: the kernel that was being compiled when the process ended.
    """
    state = state_of(answer)
    match answer:
        case Raised(verdict="not_implemented"):
            why = "not implemented yet"
        case Raised(verdict="invalid_submission"):
            why = raised_words(answer)
        case _:
            why = _why_not_compiled(answer, one_line(announced, 120))
    return replace(outcome, state=state, why=why)


def state_of(answer: Raised | Unanswered) -> CompileState:
    """Return the state of an outcome by the answer of a process that recorded or compiled."""
    match answer:
        case Raised(verdict="not_implemented"):
            return "not_implemented"
        case Raised(verdict="invalid_submission"):
            return "unloadable"
        case Raised():
            return "unrecorded" if answer.kind in (UNRECORDABLE, _NO_DRIVER) else "raised"
        case TimedOut() | CompiledTooLong():
            return "late"
        case Garbled():
            return "raised"
    return "gave_up"


def _state_and_lack(answer: Compiled, listed: int, unrecordable: Sequence[TraceNote]) -> tuple[CompileState, str]:
    """Return the state of a compiled call, and what it lacks, in words.

    listed: the kernels that are shown. unrecordable: what could not be recorded.
    """
    if unrecordable:
        return "unrecorded", _unrecordable_words(unrecordable)
    if answer.stopped:
        return "raised", f"the launch code raised {one_line(answer.stopped, 300)}"
    beyond = len(answer.binaries) + max(answer.cut, 0) - listed
    if beyond:
        return "cut", f"{counted(beyond, 'more kernel was', 'more kernels were')} launched than are listed"
    return ("compiled", "") if listed else ("no_kernel", "no Triton kernel was launched")


def _unrecordable_words(unrecordable: Sequence[TraceNote]) -> str:
    return f"{_UNRECORDED}: {one_line(unrecordable[0].name, 300)} (line {unrecordable[0].line})"


def _why_not_compiled(answer: object, announced: str) -> str:
    during = f" while compiling {announced}" if announced else ""
    match answer:
        case Raised():
            return _why_raised(answer)
        case TimedOut() | CompiledTooLong():
            at = f", at {announced}" if announced else ""
            return f"compiling did not finish within {answer.limit_s:g} s{at}"
        case Died():
            return f"the process {answer.how}{during}"
        case OutOfMemory():
            return f"more than {answer.limit_bytes >> 20} MiB of memory were used{during}"
        case OutOfSpace():
            return f"more than {answer.limit_bytes >> 20} MiB of files were written{during}"
        case Garbled():
            return "the process sent an invalid answer"
    raise AssertionError(f"an outcome must be one of {Unanswered}, got {answer}")


def _why_raised(answer: Raised) -> str:
    if answer.kind == _NO_DRIVER:
        return f"the launch code asks NVIDIA's driver, which is not installed here (line {answer.line})"
    how = f"{_UNRECORDED}:" if answer.kind == UNRECORDABLE else "the launch code raised"
    return f"{how} {_raised_words(answer)}"


def _raised_words(answer: Raised) -> str:
    place = f" (line {answer.line})" if answer.frames else ""
    return f"{one_line(answer.kind, 80)}: {one_line(answer.message, 300)}{place}"
