"""Follow one file: call a function with its text after every change.

It listens to the events of the file's folder and also polls the file. Some file systems have no events (network shares,
folders of another system), and some saves cause none. It watches the folder, because editors replace the file.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from grader.errors import UsageError
from grader.watch.state import Event, Polls, Saved, Unreadable

# The period of polling: short enough to feel like an event.
_LOOK_S = 0.3
# A save may take several writes, and a rename leaves no file for a moment.
_SETTLE_S = 0.02
_MOST_SETTLING = 25

Signature = tuple[int, int, int, int] | None


class Follower:
    """Calls `on_event`, on its own thread, with every text that the file gets, starting with the present one.

    `read` returns the text of the file or raises UsageError. Use as a context manager.
    """

    def __init__(self, path: Path, read: Callable[[Path], str], on_event: Callable[[Event], None]) -> None:
        self._path = path
        self._read = read
        self._on_event = on_event
        self._stop = threading.Event()
        self._seen: Signature = (0, 0, 0, 0)
        self._thread = threading.Thread(target=self._follow, daemon=True)

    def __enter__(self) -> Follower:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(5)

    def _follow(self) -> None:
        self._look()
        owed = has_reported = False
        for by_event in self._ticks():
            changed = self._look()
            # An event may come just after the poll that found its change.
            if owed and not by_event and not has_reported:
                has_reported = True
                self._on_event(Polls())
            owed = changed and not by_event

    def _ticks(self) -> Iterator[bool]:
        """Yield whenever it is time to look at the file: True after an event, False after a timeout."""
        while not self._stop.is_set():
            # A folder that cannot be watched (it is gone, or there are no more watches) is polled.
            with suppress(ImportError, OSError, RuntimeError):
                yield from self._events()
            if not self._stop.wait(_LOOK_S):
                yield False

    def _events(self) -> Iterator[bool]:
        import watchfiles

        folders = {self._path.parent, self._path.resolve().parent}
        for changes in watchfiles.watch(
            *sorted(folders),
            watch_filter=None,
            debounce=100,
            step=10,
            stop_event=self._stop,
            rust_timeout=int(1000 * _LOOK_S),
            yield_on_timeout=True,
            raise_interrupt=False,
            recursive=False,
        ):
            yield bool(changes)

    def _look(self) -> bool:
        """Report the file if it has changed. Return whether it has."""
        if signature(self._path) == self._seen:
            return False
        self._seen = self._settled()
        try:
            self._on_event(Saved(self._read(self._path)))
        except UsageError as refused:
            self._on_event(Unreadable(str(refused)))
        return True

    def _settled(self) -> Signature:
        """Return the file's signature once it is stable.

        An empty or a missing file gets time to change, because a save may take several writes.
        """
        before = signature(self._path)
        for _ in range(_MOST_SETTLING):
            if self._stop.wait(_SETTLE_S):
                break
            now = signature(self._path)
            if now == before and now is not None and now[1]:
                break
            before = now
        return before


def signature(path: Path) -> Signature:
    """Return numbers that change when the file changes, or None if there is no file."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino, found.st_dev
