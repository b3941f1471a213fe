"""One thing at a time on a thread of its own; the newest wins, and what it replaces is called off."""

from __future__ import annotations

import threading
from collections.abc import Callable

from grader.sandbox.cancellation import Cancelled, CancelToken

Errand = Callable[[CancelToken], None]

# What is called off ends within moments, unless it waits for something that is on no leash.
_MOMENT_S = 1.0
_END_S = 20.0


class LatestTask:
    """Runs errands. Use as a context manager: on exit nothing runs any more.

    `broke` hears, on the lane's thread, of an exception that an errand ended with; `stuck` is called when one that was
    called off has not ended after a moment.
    """

    def __init__(self, broke: Callable[[Exception], None], stuck: Callable[[], None] = lambda: None) -> None:
        self._broke = broke
        self._stuck = stuck
        self._news = threading.Condition()
        self._next: Errand | None = None
        self._consent = CancelToken()
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
        self.call_off()
        self._thread.join(_END_S)

    def start(self, errand: Errand) -> None:
        """Call off what runs, and run this as soon as that has ended; of several that wait, the last one runs."""
        self.call_off()
        with self._news:
            self._next = errand
            self._news.notify_all()

    def call_off(self) -> None:
        """End what runs, and forget what waits."""
        with self._news:
            self._next = None
            self._consent.withdraw()
            if self._busy:
                threading.Thread(target=self._insist, args=(self._consent,), daemon=True).start()

    def _insist(self, consent: CancelToken) -> None:
        with self._news:
            over = self._news.wait_for(lambda: not self._busy or self._consent is not consent, _MOMENT_S)
        if not over:
            self._stuck()

    def _run(self) -> None:
        while True:
            with self._news:
                self._busy = False
                self._news.notify_all()
                self._news.wait_for(lambda: self._closed or self._next is not None)
                errand, self._next = self._next, None
                if self._closed or errand is None:
                    return
                self._busy, self._consent = True, CancelToken()
                consent = self._consent
            try:
                errand(consent)
            except Cancelled:
                continue
            except Exception as fault:
                # Whatever an errand ran into, the loop goes on and says so.
                if not consent.withdrawn:
                    self._broke(fault)
