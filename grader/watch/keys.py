"""Read single keys from a terminal, without Enter and without echo, and restore the terminal on every exit."""

from __future__ import annotations

import contextlib
import os
import signal
import termios
import tty
from collections.abc import Callable, Iterator
from types import FrameType

# More bytes at once were not typed: they were pasted, or they are a terminal's answer.
_MOST_AT_ONCE = 3
_SHOW_CURSOR, _HIDE_CURSOR = b"\x1b[?25h", b"\x1b[?25l"


def keys_in(data: bytes) -> tuple[str, ...]:
    """Return the letters in bytes that were read at once.

    Escape sequences, such as those of arrow keys, give no letters.
    """
    if len(data) > _MOST_AT_ONCE or b"\x1b" in data:
        return ()
    return tuple(letter for letter in data.decode("ascii", "ignore").lower() if letter.isalpha())


class Keyboard:
    """A terminal that is read key by key. Use as a context manager.

    screen_fd: the terminal whose cursor is hidden meanwhile; -1 for none.
    resumed: called after the user stopped the program (Ctrl-Z) and continued it.
    """

    def __init__(self, fd: int, screen_fd: int = -1, resumed: Callable[[], None] = lambda: None) -> None:
        self.fd = fd
        self._screen_fd = screen_fd
        self._resumed = resumed
        self._before = termios.tcgetattr(fd)
        self._handlers = contextlib.ExitStack()

    def __enter__(self) -> Keyboard:
        self._handlers.enter_context(_handling(signal.SIGTSTP, self._pause))
        self._enter()
        return self

    def __exit__(self, *_: object) -> None:
        self._handlers.close()
        self._leave()

    def read(self) -> tuple[str, ...] | None:
        """Return the keys pressed since the last call, or None if the terminal is gone."""
        try:
            data = os.read(self.fd, 1024)
        except OSError:
            return None
        return keys_in(data) if data else None

    def _enter(self) -> None:
        with contextlib.suppress(termios.error):
            tty.setcbreak(self.fd)
        self._write(_HIDE_CURSOR)

    def _leave(self) -> None:
        self._write(_SHOW_CURSOR)
        # Unread keys were meant for us, not for the shell. The terminal may be gone by now.
        with contextlib.suppress(termios.error):
            termios.tcsetattr(self.fd, termios.TCSAFLUSH, self._before)

    def _write(self, data: bytes) -> None:
        if self._screen_fd >= 0:
            with contextlib.suppress(OSError):
                os.write(self._screen_fd, data)

    def _pause(self, *_: object) -> None:
        self._leave()
        with _handling(signal.SIGTSTP, signal.SIG_DFL):
            # Sent to this thread, so that it stops here and not some lines later.
            signal.raise_signal(signal.SIGTSTP)
        self._enter()
        self._resumed()


@contextlib.contextmanager
def _handling(
    number: signal.Signals, handler: Callable[[int, FrameType | None], object] | signal.Handlers
) -> Iterator[None]:
    before = signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, before)
