"""Judge the compiled kernels of a call, for GPUs that need not be there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from torch import Tensor

from grader.compile.outcome_cache import UNKNOWN, CompileOutcome, RecordedForm
from grader.exercise.cases import Case
from grader.exercise.model import Part
from grader.exercise.rules import Compiles
from grader.exercise.tensors import dtype_name
from grader.judge.answer_check import check_forms
from grader.judge.clue import Clue, sure
from grader.judge.evidence import with_line
from grader.judge.failure import Failure
from grader.judge.kernel_policy import library_failure
from grader.judge.ruling import Ruling
from grader.judge.truth import Expected, Truth
from grader.judge.unanswered import unloadable
from grader.judge.wording import in_words
from grader.phrases import all_of
from grader.protocol.answers import Form
from grader.record.causes import Cause
from grader.record.json_numbers import Number
from grader.record.kernels import CompiledKernel

RULE = Compiles

# Findings that fail a kernel; others only cost speed.
_TOO_LARGE = ("shared_memory", "tensor_memory")
_REFUSED = ("compile_error", "other_branch")
_FATAL = (*_REFUSED, *_TOO_LARGE, "spills", "array_in_loop")
_TITLES = {
    "compile_error": "The kernel does not compile",
    "array_in_loop": "The main loop works in memory, not in registers",
}

_BRANCH = (
    "The compiler decides this condition before the kernel runs, and leaves the other branch out. Ask for the values "
    "of arguments and of tl.constexpr only, not for what the interpreter makes of them."
)
_OTHER_CODE = (
    "Code for one kind of GPU needs other code for the others: torch.cuda.get_device_capability(x.device) tells on "
    "which GPU the tensors of a call are."
)


# Told with points that were earned without a GPU.
COMPILED_ONLY = (
    "no kernel was run: wrong steps of a loop, tiles that no block computes and missing masks show on a GPU only"
)
# Of the dtypes of 16 bits, tensor cores multiply each exactly as itself only.
_HALVES = {"float16": "bfloat16", "bfloat16": "float16"}


def decide_compiled(outcomes: Sequence[CompileOutcome], rule: Compiles, part: Part, truth: Truth) -> Ruling:
    """Pass when every kernel compiles for every target, fits there, and keeps its numbers in registers.

    The calls must return what the part's contract says, their launches must get every tensor and the result, and
    nothing besides them may compute.
    """
    metrics: dict[str, Number] = {}
    for outcome in outcomes:
        if outcome.state in ("not_implemented", "unloadable"):
            return Ruling(_nothing_to_call(outcome))
        if outcome.state in UNKNOWN:
            return Ruling(None, undecided=f"{outcome.target}: {outcome.why}")
        failure = (_breach(outcome, outcome.form, part, truth) if outcome.form else None) or _refused(outcome)
        if failure := failure or next(filter(None, (_unfit(one, case=outcome.case) for one in outcome.kernels)), None):
            return Ruling(failure, metrics=metrics)
        if outcome.state == "recorded":
            continue
        if rule.tensor_cores and not any(sum(kernel.tensor_cores.values()) for kernel in outcome.kernels):
            return Ruling(_no_tensor_cores(outcome), metrics=metrics)
        if rule.tensor_cores and (failure := _other_products(outcome)):
            return Ruling(failure, metrics=metrics)
        for name, of_kernels in (
            ("registers", [kernel.registers for kernel in outcome.kernels]),
            ("shared_bytes", [kernel.shared_bytes for kernel in outcome.kernels]),
        ):
            metric = f"{outcome.target}_{name}"
            metrics[metric] = max(*of_kernels, metrics.get(metric, 0))
    return Ruling(None, metrics=metrics)


def _breach(outcome: CompileOutcome, form: RecordedForm, part: Part, truth: Truth) -> Failure | None:
    """Return the failure of a recorded call that cannot keep the part's contract, whatever its kernels compute."""
    if outcome.state not in ("compiled", "recorded"):
        return None
    expected = truth.expect(part, form.recipe)
    inputs = dict(zip(part.arguments, truth.inputs(form.recipe), strict=True))
    where = f"For {outcome.target}, in the call with {Case(form.recipe.case).words()}"
    # Arguments that are changed in place are not returned.
    returned = [one for one in expected if not one.mutated]
    changed = [Form("tensor", dtype_name(one.dtype), tuple(one.value.shape)) for one in expected if one.mutated]
    for place, owner in enumerate(form.owners):
        if owner and owner not in part.mutates and len(form.outputs) == len(returned):
            return _returns_argument(where, owner, returned[place], inputs)
    if failure := check_forms((*form.outputs, *changed), expected):
        rationale = f"{where}: {_small(failure.cause.rationale)}"
        help_text = failure.cause.help
        for given, wanted in zip(form.outputs, returned, strict=False):
            if failure.cause.kind in ("wrong_shape", "wrong_dtype") and not _has_form(given, wanted):
                help_text = _transposed_words(given, wanted) or _allocation_words(wanted, inputs)
                break
        return replace(failure, cause=replace(failure.cause, rationale=rationale, help=help_text))
    unread = [name for name in form.unread if name not in part.mutates and _has_elements(inputs[name])]
    if unread:
        return _unread(where, unread)
    if form.unwritten:
        return _unwritten(where, returned[form.unwritten[0]].name)
    allowed = [name for check in part.checks for name in check.rule.allowed_operators]
    return library_failure(where, [with_line(one.name, one.line) for one in form.beside], allowed)


def _returns_argument(where: str, owner: str, wanted: Expected, inputs: Mapping[str, object]) -> Failure:
    title = "The result lies in an argument's memory"
    rationale = f"{where}: the function returns memory of `{owner}`, where {wanted.name} must be new memory."
    help_text = f"{_allocation_words(wanted, inputs)} Let a kernel store to it, and return it."
    clue = sure("copies_input", f"The function returns memory of `{owner}`.", title, help_text)
    return Failure("fail", Cause("alias", title, rationale, help_text), (clue,))


def _unread(where: str, names: Sequence[str]) -> Failure:
    listed = all_of([f"`{name}`" for name in names])
    title = f"No kernel gets {listed}"
    rationale = f"{where}: no launch gets {listed}, nor a copy. The result cannot depend on what no kernel gets."
    is_one = len(names) == 1
    how = "as it is, as a view, or as a copy" if is_one else "as they are, as views, or as copies"
    help_text = f"Which tensors does your launch code hand to the kernel? Give it {listed} too: {how}."
    clue = sure("operand_mixed_up", f"No launch gets {listed}.", title, help_text)
    return Failure("fail", Cause("input_unread", title, rationale, help_text), (clue,))


def _unwritten(where: str, name: str) -> Failure:
    title = f"No kernel gets the memory of {name}"
    rationale = f"{where}: the function returns memory that no launch gets, and that is no copy of such memory."
    help_text = f"Return the tensor that the kernel stores to: give `{name}` to the launch, and return it."
    clue = sure("work_outside_kernels", f"No launch gets the memory of {name}.", title, help_text)
    return Failure("fail", Cause("result_unwritten", title, rationale, help_text), (clue,))


def _allocation_words(wanted: Expected, inputs: Mapping[str, object]) -> str:
    """Return how to allocate an output, by the sizes and the dtype of the arguments."""
    given = {name: one for name, one in inputs.items() if isinstance(one, Tensor)}
    shape = tuple(wanted.value.shape)
    sizes = [_size_words(size, place, given) for place, size in enumerate(shape)]
    like = next((name for name, one in given.items() if one.dtype == wanted.dtype), "")
    if not all(sizes) or not like:
        return ""
    shape_words = f"({', '.join(sizes)}{',' if len(sizes) == 1 else ''})"
    return f"Allocate it as `{wanted.name} = torch.empty({shape_words}, dtype={like}.dtype, device={like}.device)`."


def _size_words(size: int, place: int, given: Mapping[str, Tensor]) -> str:
    """Return the argument's axis of this size, one at the same place if there is one: "a.shape[0]"; "" for none."""
    axes = [(name, axis) for name, one in given.items() for axis in range(one.dim()) if one.shape[axis] == size]
    axes.sort(key=lambda one: one[1] != place)
    return "{}.shape[{}]".format(*axes[0]) if axes else ""


def _transposed_words(given: Form, wanted: Expected) -> str:
    shape = tuple(wanted.value.shape)
    if len(shape) == 2 and shape[0] != shape[1] and given.shape == shape[::-1]:
        return f"It is the transpose: return `{wanted.name}` and not `{wanted.name}.T`, or exchange the two sizes."
    return ""


def _has_form(given: Form, wanted: Expected) -> bool:
    return given.shape == tuple(wanted.value.shape) and given.dtype == dtype_name(wanted.dtype)


def _has_elements(value: object) -> bool:
    return isinstance(value, Tensor) and value.numel() > 0


def _small(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:]


def compiles_nowhere(outcomes: Sequence[CompileOutcome]) -> Failure | None:
    """Return the failure of a part that runs in the interpreter and that no GPU would launch; or None."""
    errors = [_error_of(outcome) for outcome in outcomes]
    if not errors or errors[0] is None or not all(errors):
        return None
    cause = errors[0].cause
    if cause.kind == "other_branch":
        return errors[0]
    title, help_text = (
        "The kernel compiles for no GPU",
        "The interpreter runs it, but Triton compiles it for no NVIDIA GPU.",
    )
    if cause.kind in _TOO_LARGE:
        title, help_text = (
            "The kernel fits on no GPU",
            "The interpreter runs it, but no NVIDIA GPU can launch it: take smaller blocks, or fewer stages.",
        )
    return replace(errors[0], cause=replace(cause, title=title, help=f"{help_text} {cause.help}".rstrip()))


def late_words(outcomes: Sequence[CompileOutcome]) -> str:
    """Return that the compiler did not end in time, so that nobody knows whether a GPU runs a call's kernels; or ''."""
    late = next((one for one in outcomes if one.state == "late"), None)
    return f"it is unknown whether a GPU runs the kernels: for {late.target} {late.why}" if late else ""


def _nothing_to_call(outcome: CompileOutcome) -> Failure:
    if outcome.state == "unloadable":
        return unloadable(outcome.why)
    return Failure("not_implemented", Cause("not_implemented", "Not implemented yet", outcome.why))


def _refused(outcome: CompileOutcome) -> Failure | None:
    if outcome.state in ("compiled", "recorded"):
        return None
    if any(finding.kind == "compile_error" for kernel in outcome.kernels for finding in kernel.findings):
        # The kernel's error is clearer than the launch that it ended.
        return None
    if outcome.case:
        # Another case compiles for this GPU.
        help_text = "Which dtype, or which size, does your code write down that is right for some calls only?"
        cause = Cause("compile_error", "Not every case compiles", f"{_where(outcome)}: {outcome.why}.", help_text)
        return Failure("compile_error", cause, (Clue("size_assumed", 0.5),))
    help_text = "The call gets tensors that claim to be on that GPU; only the compiler runs, and no kernel."
    clues: tuple[Clue, ...] = ()
    if outcome.state == "no_kernel":
        clues = (Clue("work_outside_kernels", 0.8, "The call ended without a launch."),)
    else:
        help_text += f" {_OTHER_CODE}"
    return Failure(
        "compile_error",
        Cause("compile_error", "No kernel was compiled", f"{_where(outcome)} {outcome.why}.", help_text),
        clues,
    )


def _error_of(outcome: CompileOutcome) -> Failure | None:
    if outcome.state == "gave_up":
        cause = Cause("compile_error", "The kernel does not compile", f"For {outcome.target} {outcome.why}.", "")
        return Failure("compile_error", cause)
    # An autotuner skips a configuration that is too large.
    found = (_unfit(one, (*_REFUSED, *(() if one.configurations else _TOO_LARGE))) for one in outcome.kernels)
    return next(filter(None, found), None)


def _where(outcome: CompileOutcome) -> str:
    return f"For {outcome.target}{f', in the call with {outcome.case},' if outcome.case else ''}"


def _unfit(kernel: CompiledKernel, fatal: Sequence[str] = _FATAL, *, case: str = "") -> Failure | None:
    """Return the failure of a kernel with one of these findings. case: in words, where it must be named."""
    for finding in kernel.findings:
        if finding.kind in fatal:
            line = finding.line or kernel.line
            where = f" (line {line})" if line else ""
            if finding.kind == "other_branch":
                cause = Cause(
                    finding.kind, "A GPU takes another branch", f"In {kernel.kernel}, {finding.text}.", _BRANCH
                )
                return Failure("policy", cause)
            words = in_words("CompilationError", finding.text, ()) if finding.kind == "compile_error" else None
            return Failure(
                "compile_error" if finding.kind == "compile_error" else "fail",
                Cause(
                    finding.kind,
                    _TITLES.get(finding.kind, "The kernel does not fit"),
                    f"For {kernel.target} {kernel.kernel}{where} {finding.text.rstrip('.')}{_with(kernel, case)}.",
                    f"{words.rule} {words.help}".strip() if words else "",
                ),
            )
    return None


def _with(kernel: CompiledKernel, case: str) -> str:
    """Return the case that must be named, or for which a kernel is too large: for another dtype it may fit."""
    too_large = any(finding.kind in _TOO_LARGE for finding in kernel.findings)
    named = case or (kernel.case if too_large else "")
    return f", in the call with {named}" if named else ""


def _other_products(outcome: CompileOutcome) -> Failure | None:
    """Return the failure of kernels that multiply a call's 16-bit numbers as those of the other 16-bit dtype."""
    multiplied = {name for kernel in outcome.kernels for name in kernel.dots}
    other = _HALVES.get(outcome.dtype, "")
    if multiplied != {other}:
        return None
    title = f"The tensor cores multiply {other} where the inputs are {outcome.dtype}"
    rationale = (
        f"For {outcome.target}, in the call with dtype={outcome.dtype}, every tensor-core instruction takes {other}."
    )
    help_text = (
        "Take the dtype of the MMA atom from the operand, as `mA.element_type`, and compile the kernel once for each "
        "dtype."
    )
    cause = Cause("other_products", title, rationale, help_text, outcome.dtype, other)
    return Failure("fail", cause, (sure("size_assumed", f"No instruction takes {outcome.dtype}.", title, help_text),))


def _no_tensor_cores(outcome: CompileOutcome) -> Failure:
    names = ", ".join(kernel.kernel for kernel in outcome.kernels)
    return Failure(
        "fail",
        Cause(
            "no_tensor_cores",
            "The tensor cores are idle",
            f"{_where(outcome)} the kernels have no tensor-core instruction: {names}.",
            "Which operation does the MMA atom use? The universal one is a multiply-add of a single thread.",
            "mma.sync or wgmma",
            "none",
        ),
    )
