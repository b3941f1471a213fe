"""Check the answer of a call against what is expected: the form of its outputs, their values, and side effects.

Takes an outcome and the expected outputs; gives a failure with its cause in words, or None.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from grader.exercise.tensors import dtype_name
from grader.judge.access_findings import cause_of, clues_of
from grader.judge.clue import Clue, sure
from grader.judge.compare import Comparison, compare, describe, tensor_of
from grader.judge.failure import Failure
from grader.judge.truth import Expected
from grader.judge.unanswered import why_not_finished
from grader.phrases import all_of, counted
from grader.protocol.answers import Form
from grader.record.causes import Cause
from grader.sandbox.outcome import Finished, Outcome
from grader.text import clean

# Title and help for a call that wrote into memory of earlier calls: into results only, or into arguments too.
_OF_RESULTS = (
    "Results that share memory: an earlier result is overwritten",
    "Make new memory for the result at every call: return no buffer that an earlier call has returned.",
)
_OF_ARGUMENTS = (
    "Memory of an earlier call was changed",
    "Keep no tensor that a caller gave or got: let kernels store into memory that this call allocates.",
)
_NO_DIMENSIONS = "Allocate it by `torch.empty(())`: the shape [] means no dimensions, and `torch.empty(1)` has one."


def check_answer(
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
