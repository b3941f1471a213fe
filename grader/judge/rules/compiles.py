"""Judge the compiled kernels of a call, for GPUs that need not be there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from grader.compile.cache import UNKNOWN, CompileOutcome
from grader.exercise.model import Compiles
from grader.judge.clue import Clue
from grader.judge.failures import Failure
from grader.judge.ruling import Ruling
from grader.judge.wording import in_words
from grader.record import Cause, CompiledKernel, Number

RULE = Compiles

# Findings that fail a kernel; others only cost speed.
_TOO_LARGE = ("shared_memory", "tensor_memory")
_REFUSED = ("compile_error", "other_branch")
_FATAL = (*_REFUSED, *_TOO_LARGE, "spills")

_BRANCH = (
    "The compiler decides this condition before the kernel runs, and leaves the other branch out. Ask for the values "
    "of arguments and of tl.constexpr only, not for what the interpreter makes of them."
)
_OTHER_CODE = (
    "Code for one kind of GPU needs other code for the others: torch.cuda.get_device_capability(x.device) tells on "
    "which GPU the tensors of a call are."
)


def decide(outcomes: Sequence[CompileOutcome], rule: Compiles) -> Ruling:
    """Pass when every kernel compiles for every target, fits there, and spills no registers."""
    metrics: dict[str, Number] = {}
    for outcome in outcomes:
        if outcome.state == "not_implemented":
            return Ruling(_not_implemented(outcome))
        if outcome.state in UNKNOWN:
            return Ruling(None, undecided=f"{outcome.target}: {outcome.why}")
        if failure := _refused(outcome) or next(filter(None, map(_unfit, outcome.kernels)), None):
            return Ruling(failure, metrics=metrics)
        if rule.tensor_cores and not any(sum(kernel.tensor_cores.values()) for kernel in outcome.kernels):
            return Ruling(_no_tensor_cores(outcome), metrics=metrics)
        metrics[f"{outcome.target}_registers"] = max(kernel.registers for kernel in outcome.kernels)
        metrics[f"{outcome.target}_shared_bytes"] = max(kernel.shared_bytes for kernel in outcome.kernels)
    return Ruling(None, metrics=metrics)


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


def _not_implemented(outcome: CompileOutcome) -> Failure:
    return Failure("not_implemented", Cause("not_implemented", "Not implemented yet", outcome.why))


def _refused(outcome: CompileOutcome) -> Failure | None:
    if outcome.state == "compiled":
        return None
    if any(finding.kind == "compile_error" for kernel in outcome.kernels for finding in kernel.findings):
        # The kernel's error is clearer than the launch that it ended.
        return None
    help_text = "The call gets tensors that claim to be on that GPU; only the compiler runs, and no kernel."
    clues: tuple[Clue, ...] = ()
    if outcome.state == "no_kernel":
        clues = (Clue("work_outside_kernels", 0.8, "The call ended without a launch."),)
    else:
        help_text += f" {_OTHER_CODE}"
    return Failure(
        "compile_error",
        Cause("compile_error", "No kernel was compiled", f"For {outcome.target} {outcome.why}.", help_text),
        clues,
    )


def _error_of(outcome: CompileOutcome) -> Failure | None:
    if outcome.state == "gave_up":
        cause = Cause("compile_error", "The kernel does not compile", f"For {outcome.target} {outcome.why}.", "")
        return Failure("compile_error", cause)
    # An autotuner skips a configuration that is too large.
    found = (_unfit(one, (*_REFUSED, *(() if one.configurations else _TOO_LARGE))) for one in outcome.kernels)
    return next(filter(None, found), None)


def _unfit(kernel: CompiledKernel, fatal: Sequence[str] = _FATAL) -> Failure | None:
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
                    "The kernel does not compile" if finding.kind == "compile_error" else "The kernel does not fit",
                    f"For {kernel.target} {kernel.kernel}{where} {finding.text.rstrip('.')}{_with(kernel)}.",
                    f"{words.rule} {words.help}".strip() if words else "",
                ),
            )
    return None


def _with(kernel: CompiledKernel) -> str:
    """Return the case for which a kernel is too large: for another dtype it may fit."""
    too_large = any(finding.kind in _TOO_LARGE for finding in kernel.findings)
    return f", in the call with {kernel.case}" if too_large and kernel.case else ""


def _no_tensor_cores(outcome: CompileOutcome) -> Failure:
    names = ", ".join(kernel.kernel for kernel in outcome.kernels)
    return Failure(
        "fail",
        Cause(
            "no_tensor_cores",
            "The tensor cores are idle",
            f"For {outcome.target} the kernels have no tensor-core instruction: {names}.",
            "Which operation does the MMA atom use? The universal one is a multiply-add of a single thread.",
            "mma.sync or wgmma",
            "none",
        ),
    )
