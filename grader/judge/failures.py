"""Translate outcomes into failures: a status, and the cause in words for the learner."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite

import torch
from torch import Tensor

from grader.exercise.tensors import dtype_name
from grader.judge.access_findings import cause_of, clues_of
from grader.judge.clue import Clue, sure
from grader.judge.compare import Comparison, compare, describe, tensor_of
from grader.judge.truth import Expected
from grader.judge.wording import in_words
from grader.phrases import all_of, counted, lines_named
from grader.protocol.messages import Form, Frame, Raised, Recipe
from grader.record.causes import Cause
from grader.record.statuses import UNJUDGED, Status
from grader.sandbox.outcome import (
    CompiledTooLong,
    Died,
    Finished,
    Garbled,
    Outcome,
    OutOfMemory,
    OutOfSpace,
    OutOfTime,
    TimedOut,
    Unanswered,
)
from grader.text import clean

_MOST_FRAMES = 6
# Errors of rounding stay below this share of the values.
_SLIGHT = 0.05
# With more wrong values, the search for causes takes seconds.
_MOST_VALUES = 1 << 18
# Title and help for a call that wrote into memory of earlier calls: into results only, or into arguments too.
_OF_RESULTS = (
    "Results that share memory: an earlier result is overwritten",
    "Make new memory for the result at every call: return no buffer that an earlier call has returned.",
)
_OF_ARGUMENTS = (
    "Memory of an earlier call was changed",
    "Keep no tensor that a caller gave or got: let kernels store into memory that this call allocates.",
)
# Statuses that need no explanation: the learner did nothing wrong, or nothing yet.
NO_CAUSE = (*UNJUDGED, "not_implemented", "invalid_submission", "skipped_dependency")


@dataclass(frozen=True, eq=False)
class WrongCall:
    """A call with a wrong answer, and its expected outputs."""

    recipe: Recipe
    outcome: Finished
    expected: tuple[Expected, ...]

    @property
    def is_large(self) -> bool:
        """Return whether the outputs are so large that the search for causes takes seconds."""
        return sum(output.value.numel() for output in self.expected) > _MOST_VALUES

    def answers(self) -> Iterator[tuple[Tensor, Tensor, Expected]]:
        """Yield every output that came back: its values, the marks of wrong ones, and the expected output."""
        for raw, output in zip(self.outcome.outputs, self.expected, strict=False):
            if raw is not None:
                compared = compare(tensor_of(raw, output), output)
                yield compared.got, compared.wrong, output


@dataclass(frozen=True)
class Failure:
    """A status other than pass, with its cause.

    clues: point to possible causes. wrong_call: the call, if it answered. lead, advice: words before a suspect's title
    and help.
    """

    status: Status
    cause: Cause
    clues: tuple[Clue, ...] = field(default=(), compare=False)
    wrong_call: WrongCall | None = field(default=None, compare=False, repr=False)
    lead: str = field(default="", compare=False)
    advice: str = field(default="", compare=False)

    @property
    def is_slight(self) -> bool:
        """The largest error is small beside the values around it, as rounding makes it."""
        wrong = self.cause.mismatch
        if wrong is None:
            return False
        expected = [abs(float(one.expected)) for one in wrong.first]
        return float(wrong.max_abs) <= _SLIGHT * max(filter(isfinite, expected), default=0.0)


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


_NO_DIMENSIONS = "Allocate it by `torch.empty(())`, for [] is a tensor without dimensions; `torch.empty(1)` has one."
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


def wrong_in_opposite_order(failure: Failure, words: str) -> Failure:
    """Return the failure of a call that fails only if its programs run in the opposite order. words: of its case."""
    if failure.cause.kind == "race":
        return failure
    seen = "In the order of the grid the result is right, in the opposite order it is not."
    return Failure(
        "fail",
        Cause(
            "race",
            "Right in one order of the programs only",
            f"For {words}, where the programs of each launch run in the opposite order, and some between two "
            f"atomics of another: {failure.cause.rationale}",
            "A GPU runs programs in any order. Which of them reads what others store? Let the one do it that draws the "
            "last number of an atomic counter, or use a second launch. Update a value by one atomic: between two of "
            "them another program may run.",
        ),
        (sure("race", seen),),
    )


def wrong_with_other_lanes(failure: Failure, lines: Sequence[int], words: str) -> Failure:
    """Return the failure of a call that is right only if the last lane of a store wins. words: of its case."""
    where = lines_named(lines)
    title = "Right only while the last lane of a store wins"
    help_text = (
        "On a GPU, any of these lanes may store last. Mask the lanes that have no element of their own; do not move "
        "them to the element of another lane."
    )
    cause = Cause(
        "race",
        title,
        f"For {words}, lanes of one program store different values to one element ({where}). Where another of them "
        f"stays than the last: {failure.cause.rationale}",
        help_text,
    )
    seen = f"It is right only where the last lane of {where} stays."
    return Failure("fail", cause, (sure("stores_collide", seen, title, help_text),))


def wrong_with_other_garbage(
    failure: Failure, lines: Sequence[int], filling: str, *, unstored: bool = False
) -> Failure:
    """Return the failure of a call that is right only while unwritten memory holds NaN.

    filling: the numbers there instead. lines: of loads that mask lanes without `other`. unstored: the kernels store
    fewer elements than the results have.
    """
    seen = f"With NaN there the result is right, with {filling} it is not."
    if unstored and not lines:
        rationale = f"With {filling} in memory that nobody wrote: {failure.cause.rationale}"
        cause = Cause("undefined", "Elements of the result that no program stores", rationale, "")
        seen = f"Fresh memory holds NaN here, which is the right value there; with {filling} the result is wrong."
        return Failure("fail", cause, (sure("not_all_covered", seen),))
    lanes = f"in masked lanes without `other=` ({lines_named(lines)}) and " if lines else ""
    what = "Masked lanes of a load without `other=` reach" if lines else "Memory that nobody wrote reaches"
    help_text = (
        "A maximum, a minimum and a comparison pass over NaN, which stands for such numbers elsewhere. On a GPU they "
        f"can be any. {'Give these lanes a value by `other=`.' if lines else 'Write this memory before you read it.'}"
    )
    cause = Cause(
        "undefined",
        f"{what} the result",
        f"With {filling} {lanes}in memory that nobody wrote: {failure.cause.rationale}",
        help_text,
    )
    kind = "padding_counted" if lines else "not_cleared"
    return Failure("fail", cause, (sure(kind, seen, cause.title, help_text),))


def examine(
    outcome: Outcome, expected: Sequence[Expected], inputs: Callable[[], Sequence[object]], path: str
) -> tuple[Failure | None, float]:
    """Return the first failure of a call (or None), and its largest error in units of the allowed one.

    The order is the one to learn them in: no answer, wrong form, findings of the guard, wrong values, side effects.
    """
    if not isinstance(outcome, Finished):
        return why_not_finished(outcome, path), 0.0
    if failure := check_forms(outcome.answer.outputs, expected):
        return failure, 0.0
    # An access outside a tensor, or a race, is reported first.
    if found := cause_of(outcome.answer.findings):
        return Failure("fail", found, tuple(clues_of(outcome.answer.findings))), 0.0
    worst = 0.0
    for raw, output in zip(outcome.outputs, expected, strict=True):
        if raw is None:
            return _wrong_form("bytes", f"{output.nbytes} bytes", "none", f"{output.name}'s data"), 0.0
        comparison = compare(tensor_of(raw, output), output)
        worst = max(worst, comparison.worst)
        if not comparison.agrees:
            return _wrong_values(comparison, output, inputs(), outcome), worst
    return _side_effect(outcome), worst


def check_forms(forms: Sequence[Form], expected: Sequence[Expected]) -> Failure | None:
    """Return the failure of a call that returned something else than it must; or None."""
    if len(forms) != len(expected):
        return _wrong_count(forms, expected)
    found = (_check_form(form, output) for form, output in zip(forms, expected, strict=True))
    return next((failure for failure in found if failure), None)


def _wrong_count(forms: Sequence[Form], expected: Sequence[Expected]) -> Failure:
    # Arguments that are changed in place come last; they are not returned.
    changed = [output.name for output in expected if output.mutated]
    names = [output.name for output in expected if not output.mutated]
    forms = forms[: max(0, len(forms) - len(changed))]
    form = f" ({_form_word(forms[0])})" if len(forms) == 1 else ""
    if not names:
        verb = "is" if len(changed) == 1 else "are"
        help_text = f"Delete what stands behind `return`: {' and '.join(changed)} {verb} changed in place."
        return _wrong_form("count", "nothing", f"{counted(len(forms), 'output')}{form}", "what is returned", help_text)
    help_text = f"Return a tuple of {len(names)} tensors, in this order." if len(names) > 1 else ""
    if not forms:
        help_text = f"End the function with `return {', '.join(names)}`."
    wanted = f"{len(names)} ({', '.join(names)})"
    return _wrong_form("count", wanted, f"{len(forms)}{form}", "number of outputs", help_text)


def _check_form(form: Form, output: Expected) -> Failure | None:
    if form.kind != "tensor":
        holds = form.kind.startswith(("a tuple of", "a list of"))
        help_text = f"Return the tensor itself: `{output.name}`, without brackets or a comma after it." if holds else ""
        if form.kind == "Handle":
            help_text = "A launch returns no tensor: return the one that you allocated and passed to the kernel."
        return _wrong_form("type", "torch.Tensor", clean(form.kind, 80), f"the type of {output.name}", help_text)
    wanted_shape, wanted_dtype = list(output.value.shape), dtype_name(output.dtype)
    if list(form.shape) != wanted_shape:
        help_text = "" if wanted_shape else _NO_DIMENSIONS
        got = clean(str(list(form.shape)), 200)
        return _wrong_form("shape", str(wanted_shape), got, f"the shape of {output.name}", help_text)
    if form.dtype != wanted_dtype:
        return _wrong_form("dtype", wanted_dtype, clean(form.dtype, 80), f"the dtype of {output.name}")
    return None


def check_device(outcome: Outcome, device: str) -> Failure | None:
    """Return the failure of an output outside `device`, where the inputs are; or None."""
    if isinstance(outcome, Finished):
        for form in outcome.answer.outputs:
            if form.kind == "tensor" and form.device != device:
                return _wrong_form("device", device, clean(form.device, 80), "the device of an output")
    return None


def _form_word(form: Form) -> str:
    return "one tensor" if form.kind == "tensor" else clean(form.kind, 80)


def _wrong_form(kind: str, expected: str, actual: str, what: str, help_text: str = "") -> Failure:
    title = "Nothing was returned" if kind == "count" and actual == "0" else f"Wrong {kind}"
    rationale = f"{what[0].upper()}{what[1:]} must be {expected}, got {actual}."
    return Failure("fail", Cause(f"wrong_{kind}", title, rationale, help_text, expected, actual))


def _wrong_values(comparison: Comparison, output: Expected, inputs: Sequence[object], outcome: Finished) -> Failure:
    mismatch = describe(comparison, output, outcome.answer.launches)
    kind, title, help_text = _recognise(comparison, output, inputs, mismatch.pattern)
    share = "every element" if mismatch.count == mismatch.total else f"{mismatch.count} of {mismatch.total} elements"
    worst = mismatch.worst_index
    rationale = f"{output.name}: {share} wrong"
    if worst:
        rationale += f"; the worst is {output.name}{list(worst)}"
    expected, actual = _distinct_texts(output.value[worst], comparison.got[worst])
    rationale += f", expected {expected}, got {actual}."
    return Failure("fail", Cause(kind, title, rationale, help_text, expected, actual, mismatch=mismatch))


def _distinct_texts(expected: Tensor, got: Tensor) -> tuple[str, str]:
    """Return two values with enough digits to show that they differ."""
    if not got.is_floating_point():
        return str(expected.item()), str(got.item())
    texts = "", ""
    for digits in (6, 9, 17):
        texts = f"{float(expected):.{digits}g}", f"{float(got):.{digits}g}"
        if texts[0] != texts[1]:
            break
    return texts


def _recognise(
    comparison: Comparison, output: Expected, inputs: Sequence[object], pattern: str
) -> tuple[str, str, str]:
    """Return kind, title and help of a mismatch by its pattern."""
    got, wrong = comparison.got, comparison.wrong
    if output.dtype.is_floating_point and bool((got.isnan() | ~wrong).all()):
        return (
            "unwritten",
            "Looks like unwritten memory, or a read beyond an input",
            "Memory starts out as NaN here: these elements were not stored to, or NaN was read from beyond an input.",
        )
    if not bool(got.any()):
        return "zeros", "The output is all zeros", "It looks as if the store never ran, or stored nothing but zeros."
    for number, value in enumerate(inputs, 1):
        if (
            isinstance(value, Tensor)
            and value.shape == got.shape
            and value.dtype == got.dtype
            and torch.equal(value, got)
        ):
            which = f"argument {number} of {len(inputs)}"
            return "copy_of_input", "The output is one of the inputs", f"It equals {which} bit for bit."
    if pattern.startswith("tail"):
        return (
            "tail",
            "Only the end is wrong",
            "Compute one of these elements by hand. Which program, step and lane computes it, and does a count, a "
            "bound or a mask leave it out?",
        )
    return "mismatch", "Wrong values", ""


def _side_effect(outcome: Finished) -> Failure | None:
    answer = outcome.answer
    if answer.changed:
        names = clean(all_of(answer.changed), 200)
        cause = Cause(
            "input_changed", "An input was changed", f"The call must leave its inputs alone, but it changed {names}."
        )
        return Failure("fail", cause)
    if answer.spoiled:
        what = clean(all_of(answer.spoiled), 200)
        title, help_text = _OF_RESULTS if answer.spoiled == ("a result",) else _OF_ARGUMENTS
        rationale = f"The call wrote into {what} of an earlier call, which the caller may still hold."
        cause = Cause("alias", title, rationale, help_text)
        seen = f"After the call, {what} of an earlier call has other values."
        return Failure("fail", cause, (sure("reused_output", seen, cause.title, cause.help),))
    if answer.overrun:
        where = clean(answer.overrun[0], 200)
        cause = Cause(
            "out_of_bounds",
            "A store outside the tensors",
            f"The call wrote {where}.",
            "Every store needs a mask for the lanes of the last tile that have no element.",
        )
        return Failure("fail", cause)
    if answer.reached_beyond:
        where = clean(all_of(answer.reached_beyond), 200)
        help_text = "Every load needs a predicate for what lies outside, also if nothing that is stored depends on it."
        cause = Cause(
            "out_of_bounds", "A load outside the tensors", f"The call read beyond the end of {where}.", help_text
        )
        seen = f"Memory behind {where} was made untouchable, and the program touched it."
        return Failure("fail", cause, (Clue("missing_mask", 0.9, seen, help=help_text, firm=True),))
    if answer.outside:
        cause = Cause(
            "out_of_bounds",
            "A view beyond an argument",
            f"The call made a view of an argument that reaches beyond it: {clean(answer.outside[0], 200)}.",
            "Let a view end where its tensor ends, and mask the lanes of the last tile that have no element. "
            "as_strided counts storage_offset from the start of the memory, not from the tensor's first element.",
        )
        return Failure("fail", cause)
    return None
