"""Compile recorded calls in a clean process, for GPUs that need not be there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from grader.gpus import USUAL
from grader.protocol.answers import Compiled, Raised
from grader.protocol.observations import StaticCondition
from grader.protocol.requests import Call, Compile, CompileUntil, Precompile
from grader.sandbox.outcome import Unanswered
from grader.sandbox.pair import RecordedAnswer
from grader.sandbox.process_spec import ProcessSpec
from grader.sandbox.session import Session

# One kernel, on cores that others use as well.
_COMPILE_S = 60.0


class CleanCompiler:
    """A process that compiles traces and runs no line of the submission. Use as a context manager.

    spec: returns how a process of mode "compile" is started; called with the first question. Threads take turns.
    """

    def __init__(self, spec: Callable[[], ProcessSpec]) -> None:
        self._spec = spec
        self._session: Session | None = None

    def __enter__(self) -> CleanCompiler:
        return self

    def __exit__(self, *_: object) -> None:
        if self._session is not None:
            self._session.__exit__()

    def _begun(self) -> Session:
        if self._session is None:
            self._session = Session(self._spec().replaying().targeting(USUAL.capability))
        return self._session

    def compile(
        self,
        call: Call,
        trace: Mapping[str, Any],
        target: int,
        *,
        every: bool = False,
        until: CompileUntil = "end",
        conditions: tuple[StaticCondition, ...] = (),
        limit_s: float = _COMPILE_S,
    ) -> tuple[Compiled | Raised | Unanswered, str]:
        """Compile the launches of a trace for a GPU; every, until, conditions: as in requests.Compile.

        Returns the answer, and the kernel that was being compiled when the process ended.
        """
        return self._begun().compile(Compile(call, trace, target, every, until, conditions), limit_s)

    def refusal(self, recorded: RecordedAnswer, place: int) -> str:
        """Return why a configuration of a call's autotuner does not compile or fit the usual GPU; "" if it does."""
        answer = self._begun().precompile(Precompile(recorded.call, recorded.message, place), _COMPILE_S)
        # A configuration that ends the process may still work elsewhere.
        return f"{answer.kind}: {answer.message}".partition("\n")[0][:300] if isinstance(answer, Raised) else ""

    def restart(self) -> None:
        """End the process; the next question gets a fresh one."""
        if self._session is not None:
            self._session.restart()
