"""Asks a compiler whether the target GPU of a call refuses one configuration of its autotuned kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from grader.exercise.gpus import USUAL
from grader.exercise.model import Limits
from grader.protocol.messages import Precompile, Raised, Start
from grader.sandbox.pair import RecordedAnswer
from grader.sandbox.server import Spawner
from grader.sandbox.session import Session

# One kernel, on cores that others use as well.
_COMPILE_S = 60.0


@contextmanager
def refusals(
    server: Callable[[], Spawner], start: Start, limits: Limits
) -> Iterator[Callable[[RecordedAnswer, int], str]]:
    """Yield a function that returns the reason for which a configuration does not compile or fit, or an empty text.

    server: gives the server of mode "compile"; called with the first question.
    """
    sessions: list[Session] = []

    def refusal(recorded: RecordedAnswer, place: int) -> str:
        if not sessions:
            sessions.append(Session(server(), replace(start, role="replay", target=USUAL.capability), limits))
        answer = sessions[0].precompile(Precompile(recorded.call, recorded.message, place), _COMPILE_S)
        # A configuration that ends the process may still work elsewhere.
        return f"{answer.kind}: {answer.message}".partition("\n")[0][:300] if isinstance(answer, Raised) else ""

    try:
        yield refusal
    finally:
        for session in sessions:
            session.__exit__()
