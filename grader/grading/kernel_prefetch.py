"""Compile kernels of later checks on a GPU while earlier checks are judged. No check then waits for a compiler.

One more process of the submission records the planned cases, and others compile them. This judges nothing: the result
is compiled kernels in the folder that the replayers share.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from queue import SimpleQueue
from threading import Event, Thread

from grader.exercise.plan import Plan, PlannedCase, PlannedCheck
from grader.protocol.configurations import lightest, likeness
from grader.protocol.requests import Precompile
from grader.sandbox.joining import Joining
from grader.sandbox.pair import Pair, RecordedAnswer
from grader.sandbox.session import Session

# For one kernel; compiling itself does not count.
_COMPILE_S = 60.0
# If this many kernels are compiled already, an earlier grading compiled the others too.
_ENOUGH = 4


@contextmanager
def prefetching(session: Session, compilers: Sequence[Session], plan: Plan) -> Iterator[Callable[[], None]]:
    """Compile the kernels of the plan's cases while the block runs. All processes have ended after it.

    session: another one like it records. Without compilers nothing happens. Yields a function that begins to end the
    processes early, while the block goes on.
    """
    if not compilers:
        yield lambda: None
        return
    with session.another() as recorder:
        prefetch = _Prefetch(recorder, compilers, plan)
        running = Thread(target=prefetch.run, name="prefetch", daemon=True)
        ending = Thread(target=prefetch.stop, name="end of prefetch", daemon=True)
        running.start()
        try:
            yield ending.start
        finally:
            if ending.ident is None:
                ending.start()
            ending.join()
            running.join()


class _Prefetch:
    def __init__(self, session: Session, compilers: Sequence[Session], plan: Plan) -> None:
        self._session = session
        self._compilers = compilers
        self._plan = plan
        self._stopped = Event()
        self._waiting: SimpleQueue[RecordedAnswer | None] = SimpleQueue()
        self._joining = Joining()

    def run(self) -> None:
        """Record and compile until all is done, or `stop` is called."""
        with ThreadPoolExecutor(len(self._compilers), "prefetch") as pool:
            for compiler in self._compilers:
                pool.submit(self._compile, compiler)
            with suppress(Exception):
                self._record()
            for _ in self._compilers:
                self._waiting.put(None)
            self._joining.open(len(self._compilers))

    def stop(self) -> None:
        """Stop everything, running compilations included."""
        self._stopped.set()
        for session in (self._session, *self._compilers):
            with suppress(Exception):
                session.restart()

    def _record(self) -> None:
        """Record the planned cases; pass on those that launch something new."""
        pair = Pair(self._session, self._compilers)
        seen: set[object] = set()
        for planned, one in _later_cases(self._plan):
            if self._stopped.is_set() or self._is_needless():
                return
            recorded = pair.record(planned.part.call(one.recipe(planned.part)))
            if not isinstance(recorded, RecordedAnswer) or not recorded.is_replayable:
                continue
            kind = likeness(recorded.trace, lightest(recorded.trace))
            if kind not in seen:
                seen.add(kind)
                self._waiting.put(recorded)

    def _is_needless(self) -> bool:
        """Return whether an earlier grading compiled all kernels up to now."""
        return self._joining.steps >= _ENOUGH and not self._joining.has_long

    def _compile(self, compiler: Session) -> None:
        self._joining.join()
        while (recorded := self._waiting.get()) is not None and not self._stopped.is_set():
            request = Precompile(recorded.call, recorded.message, lightest(recorded.trace))
            with suppress(Exception):
                compiler.wake()
                self._joining.step(partial(compiler.precompile, request, _COMPILE_S))


def _later_cases(plan: Plan) -> Iterator[tuple[PlannedCheck, PlannedCase]]:
    """Yield the cases of all checks but the first, whose kernels are needed at once."""
    for planned in plan.checks[1:]:
        if planned.part.is_replayed and planned.part.on != "cpu":
            for one in planned.cases:
                yield planned, one
