"""Run one task at a time on its own thread. A new task cancels the running one and replaces the waiting one."""

from __future__ import annotations

import threading
from collections.abc import Callable

from grader.sandbox.cancellation import Cancelled, CancelToken

Task = Callable[[CancelToken], None]

# A cancelled task ends within a second, unless it waits for something that no token cancels.
_MOMENT_S = 1.0
_END_S = 20.0


class LatestTask:
    """Runs tasks on one thread. Use as a context manager: after exit no task starts.

    broke: called on that thread with the exception that ended a task.
    stuck: called when a cancelled task has not ended within a second.
    """

    def __init__(self, broke: Callable[[Exception], None], stuck: Callable[[], None] = lambda: None) -> None:
        self._broke = broke
        self._stuck = stuck
        self._news = threading.Condition()
        self._next: Task | None = None
        self._token = CancelToken()
        self._busy = False
        self._closed = False
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> LatestTask:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._news:
            self._closed = True
            self._news.notify_all()
        self.cancel()
        self._thread.join(_END_S)

    def start(self, task: Task) -> None:
        """Cancel the running task, and run this one after it has ended. The last of several waiting tasks runs."""
        self.cancel()
        with self._news:
            self._next = task
            self._news.notify_all()

    def cancel(self) -> None:
        """Cancel the running task and drop the waiting one."""
        with self._news:
            self._next = None
            self._token.withdraw()
            if self._busy:
                threading.Thread(target=self._insist, args=(self._token,), daemon=True).start()

    def _insist(self, token: CancelToken) -> None:
        with self._news:
            over = self._news.wait_for(lambda: not self._busy or self._token is not token, _MOMENT_S)
        if not over:
            self._stuck()

    def _run(self) -> None:
        while True:
            with self._news:
                self._busy = False
                self._news.notify_all()
                self._news.wait_for(lambda: self._closed or self._next is not None)
                task, self._next = self._next, None
                if self._closed or task is None:
                    return
                self._busy, self._token = True, CancelToken()
                token = self._token
            try:
                task(token)
            except Cancelled:
                continue
            except Exception as fault:
                # The loop goes on after any error of a task, and reports it.
                if not token.withdrawn:
                    self._broke(fault)
