"""Say why a call gave no answer, or why a file could not be called: a failure in words for the learner."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from grader.judge.access_findings import cause_of
from grader.judge.clue import Clue, sure
from grader.judge.failure import Failure
from grader.judge.wording import in_words
from grader.protocol.answers import Frame, Raised
from grader.record.causes import Cause
from grader.record.statuses import Status
from grader.sandbox.outcome import (
    CompiledTooLong,
    Died,
    Garbled,
    OutOfMemory,
    OutOfSpace,
    OutOfTime,
    TimedOut,
    Unanswered,
)
from grader.text import clean

_MOST_FRAMES = 6


def why_not_finished(outcome: Raised | Unanswered, path: str) -> Failure:  # noqa: PLR0911  one return for each
    """Return the failure behind an outcome without an answer.

    path: the learner's file, for the traceback.
    """
    match outcome:
        case Raised():
            return _raised_failure(outcome, path)
        case TimedOut(limit_s):
            return _failure_of_status(
                "timeout",
                "No answer in time",
                f"The call did not return within {limit_s:g} s and was ended.",
                "Look for a loop that never reaches its bound, a grid with far too many programs, or a loop in Python "
                "that launches thousands of kernels.",
            )
        case CompiledTooLong(kernel, limit_s, altogether):
            said = f"`{clean(kernel, 80)}` was ended: {'all kernels together' if altogether else 'a kernel'} may take "
            return _failure_of_status(
                "timeout",
                "Compiling takes too long",
                f"Compiling {said}{limit_s:g} s to compile, and it took more.",
                "Unrolled loops (tl.static_range) and very large blocks take longest. Compile time does not count as "
                "part of a call's time.",
            )
        case OutOfTime(limit_s):
            return _failure_of_status(
                "timeout",
                "Too slow, all calls together",
                f"The calls of this part took more than the {limit_s:g} s that they may take together.",
                "Look for a grid with far too many programs: the interpreter runs one after another.",
            )
        case OutOfMemory(limit_bytes, peak_bytes):
            return _failure_of_status(
                "oom",
                "Too much memory",
                f"The process grew to {_gib(peak_bytes)}; {_gib(limit_bytes)} beyond its start are allowed.",
                "Which temporary is larger than the inputs and outputs together?",
            )
        case OutOfSpace(limit_bytes):
            said = f"The files in the submission's folder grew beyond {_gib(limit_bytes)}, or became too many."
            help_text = "Write no files: a kernel needs none."
            return Failure("oom", Cause("disk", "Too much on the disk", said, help_text))
        case Died(how):
            return _failure_of_status(
                "crash",
                "The process ended",
                f"The submission's process {how}.",
                "Nothing that it printed counts as an answer; the grader went on in a fresh process.",
            )
        case Garbled(why):
            return _failure_of_status(
                "crash",
                "No answer",
                f"The submission's process sent an invalid answer: {clean(why, 200)}.",
                "",
            )


def why_not_loaded(outcome: Raised | Unanswered, path: str) -> Failure:
    """Return the failure of a file that raised or ended before it was loaded."""
    failure = why_not_finished(outcome, path)
    if isinstance(outcome, Raised):
        return failure
    rationale = f"While the file was loaded, before any call: {failure.cause.rationale}"
    help_text = "Code outside functions runs when the file is loaded: keep only definitions there."
    return replace(failure, cause=replace(failure.cause, title=_UNLOADED, rationale=rationale, help=help_text))


def _failure_of_status(status: Status, title: str, rationale: str, help_text: str) -> Failure:
    return Failure(status, Cause(status, title, rationale, help_text))


def _gib(size: int) -> str:
    return f"{size / 2**30:.1f} GiB"


_UNLOADED = "The file does not load"
_RAISED_TITLES: dict[str, tuple[str, str]] = {
    "not_implemented": ("Not implemented yet", "Replace the `raise NotImplementedError` by your own code."),
    "invalid_submission": (
        _UNLOADED,
        "Fix this line first: nothing else could be judged. This costs no attempt.",
    ),
    "compile_error": ("The kernel does not compile", "The line that is shown is where the compiler stopped."),
    "oom": ("Out of memory", "Which temporary is larger than the inputs and outputs together?"),
    "crash": ("Your code raised an exception", ""),
}


def _raised_failure(raised: Raised, path: str) -> Failure:
    title, help_text = _RAISED_TITLES[raised.verdict]
    message = _message_of(raised)
    last = raised.frames[-1] if raised.frames else None
    summary = _summary_line(message)
    place = clean(path, 300)
    trace = [_in_trace(frame, place) for frame in raised.frames[-_MOST_FRAMES:]]
    text = "\n".join([*trace, f"{clean(raised.kind, 80)}: {message}"])
    rationale = raised_words(raised)
    clues: tuple[Clue, ...] = ()
    if words := in_words(raised.kind, message, raised.frames):
        # The title of a file that does not load: nothing else of it could be judged.
        title = title if raised.verdict == "invalid_submission" else words.title or title
        help_text, rationale = words.help, f"{_at_line(last)}{words.rule}" if words.rule else rationale
        clues = (sure(words.kind, summary, title, help_text),) if words.kind else ()
    if found := cause_of(raised.findings):
        help_text = f"{help_text if words else ''} Before that: {found.rationale} {found.help}".strip()
    return Failure(raised.verdict, Cause(raised.verdict, title, rationale, help_text, traceback=text), clues)


def raised_words(raised: Raised) -> str:
    """Return an exception in one line: its kind, the line that raised it, and what it says."""
    where = f" (line {raised.frames[-1].line})" if raised.frames else ""
    return f"{clean(raised.kind, 80)}{where}: {_summary_line(_message_of(raised))}"


def _message_of(raised: Raised) -> str:
    return _A_COPY.sub("", clean(raised.message, 1200).strip())


def _in_trace(frame: Frame, place: str) -> str:
    # A launch, or a line in its kernel, may have no known function.
    function = f", in {clean(frame.function, 80)}" if frame.function else ""
    return f'  File "{place}", line {frame.line}{function}\n    {clean(frame.code, 200)}'


def _at_line(frame: Frame | None) -> str:
    return f"Line {frame.line}: " if frame else ""


# Python ends the message of a syntax error with the file name, which is that of the grader's copy.
_A_COPY = re.compile(r" \([\w.-]+\.py, line \d+\)\Z")
# A compiler's message begins with a place in the kernel; the fault stands at its end.
_A_PLACE = re.compile(r"at \d+:\d+:\s*\Z")


def _summary_line(message: str) -> str:
    lines = message.splitlines() or ["no message"]
    return f"{lines[0].strip()} {lines[-1].strip()}" if _A_PLACE.match(lines[0]) and len(lines) > 1 else lines[0]


def missing_function(name: str, others: Sequence[str]) -> Failure:
    """Return the failure of a file without a function of this name."""
    listed = clean(", ".join(others), 400) or "no function of another name"
    cause = Cause(
        "missing_function",
        "The function is missing",
        f"The file must define `{name}`; it defines {listed}.",
        "Keep the stub's function names and argument order: the grader calls them.",
        expected=name,
        actual=listed,
    )
    return Failure("not_implemented", cause)


def unloadable(said: str) -> Failure:
    """Return the failure of a file that does not load. said: why."""
    title, help_text = _RAISED_TITLES["invalid_submission"]
    return Failure("invalid_submission", Cause("invalid_submission", title, said, help_text))
