"""Run a kernel of the grader's own as a submission's kernel would run, and compare its result.

If the result is wrong, nobody is judged on this machine: failures there are not the submission's fault.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Literal

from grader import machine
from grader.errors import GradeError
from grader.exercise.model import Limits
from grader.protocol.answers import Loaded, Raised
from grader.protocol.requests import Call, Recipe, Slot, Start
from grader.sandbox.kernel_cache import cache_entry_for
from grader.sandbox.outcome import Finished, Outcome
from grader.sandbox.process_spec import ProcessSpec
from grader.sandbox.scratch import Scratch
from grader.sandbox.server import Mode, Spawner
from grader.sandbox.session import Session

_LENGTH = 100
_INPUTS = "import torch\ndef double(case, generator):\n    return (torch.arange(case['N'], dtype=torch.float32),)\n"
_CALL = Call(Recipe("double", {"N": _LENGTH}, 1), ("x",), (), (Slot("float32", (_LENGTH,), 0, 4 * _LENGTH),))
# The first call on a GPU that others use takes long: it makes a context, and compiles.
_LIMITS = Limits(call_s=60.0)
_EXPECTED = array("f", (2.0 * place for place in range(_LENGTH))).tobytes()


@dataclass(frozen=True)
class SelfTestResult:
    """The outcome of the grader's own kernel.

    mark: "ok", "WRONG" (other values) or "BROKEN" (no values). words: the reason. isolation: the layers that confined
    its process.
    """

    mark: Literal["ok", "WRONG", "BROKEN"]
    words: str
    isolation: tuple[str, ...] = ()


def try_kernel(server: Spawner) -> SelfTestResult:
    """Run the kernel in a confined child of this server. Raises nothing."""
    source = resources.files("grader.child").joinpath("warmup.py").read_text(encoding="utf-8")
    try:
        start = Start("own_kernel.py", source, _INPUTS, ("double",))
        with (
            Scratch(_kernel_cache(source, server.mode)) as scratch,
            Session(ProcessSpec(server, start, _LIMITS), scratch) as session,
        ):
            loaded = session.load()
            outcome = session.call(_CALL) if isinstance(loaded, Loaded) else loaded
            isolation = session.ready.isolation if session.ready else ()
    except GradeError as refused:
        return SelfTestResult("BROKEN", str(refused))
    if not isinstance(outcome, Finished) or outcome.outputs[0] is None:
        return SelfTestResult("BROKEN", _why(outcome), isolation)
    right = outcome.outputs[0] == _EXPECTED
    return SelfTestResult("ok", "right", isolation) if right else SelfTestResult("WRONG", "wrong values", isolation)


def _kernel_cache(source: str, mode: Mode) -> Path | None:
    """Return the folder that keeps the compiled kernel from one grading to the next."""
    return cache_entry_for("", source, (machine.version("triton"), machine.version("torch"))) if mode == "gpu" else None


def require_right(tried: SelfTestResult, mode: Mode) -> None:
    """Raise GradeError, in the words of `grade doctor`, unless the kernel came out right."""
    if tried.mark != "ok":
        raise GradeError(
            f"nothing was judged: the grader's own Triton kernel in mode {mode} must come out right, got "
            f"{tried.words}; to see what this machine lacks: grade doctor"
        )


def _why(outcome: Outcome) -> str:
    match outcome:
        case Raised():
            return f"{outcome.kind}: {outcome.message[:300]}"
        case Finished(answer):
            return f"an output of another form: {', '.join(form.kind for form in answer.outputs) or 'none'}"
        case _:
            return str(outcome)
