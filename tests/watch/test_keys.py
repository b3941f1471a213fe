"""Keys from a terminal: one by one, without Enter, and the terminal as it was afterwards."""

from __future__ import annotations

import os
import pty
import termios

import pytest

from grader.watch.keys import Keyboard, keys_in


@pytest.mark.parametrize(
    ("data", "keys"),
    [
        (b"h", ("h",)),
        (b"Q", ("q",)),
        (b"hh", ("h", "h")),
        (b"\x1b[A", ()),
        (b"\x1bOP", ()),
        (b"\n", ()),
        (b"y\n", ("y",)),
        (b"\xc3\xa9", ()),
        (b"quit now", ()),
    ],
)
def test_letters_are_keys_and_arrows_pastes_and_controls_are_not(data: bytes, keys: tuple[str, ...]) -> None:
    assert keys_in(data) == keys


def local_modes(fd: int) -> int:
    return int(termios.tcgetattr(fd)[3])


def test_a_terminal_gives_single_keys_and_is_restored_whatever_happens() -> None:
    ours, theirs = pty.openpty()
    before = termios.tcgetattr(theirs)

    def interrupted() -> None:
        with Keyboard(theirs, theirs) as keyboard:
            assert not local_modes(theirs) & (termios.ICANON | termios.ECHO)
            assert local_modes(theirs) & termios.ISIG
            os.write(ours, b"h")
            assert keyboard.read() == ("h",)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert termios.tcgetattr(theirs) == before
    written = b""
    while len(written) < 12:
        written += os.read(ours, 100)
    assert written == b"\x1b[?25l\x1b[?25h"
    os.close(ours)
    os.close(theirs)


def test_a_terminal_that_is_gone_gives_no_keys_and_can_be_left() -> None:
    ours, theirs = pty.openpty()
    with Keyboard(theirs) as keyboard:
        os.close(ours)
        assert keyboard.read() is None
    os.close(theirs)
