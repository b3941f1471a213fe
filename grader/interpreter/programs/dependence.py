"""Report to the hooks on memory that a program waits for earlier launches, as by `gdc_wait`."""

from __future__ import annotations

from collections.abc import Callable

# The listener: the hooks of this process, once they are installed.
_hears: list[Callable[[], None]] = []


def hear_of_waits(listener: Callable[[], None]) -> None:
    """Report every wait from now on to this listener, and to no other."""
    _hears[:] = [listener]


def wait_for_launches_before() -> None:
    """Report that the running program waits. Every earlier launch has ended."""
    for listener in _hears:
        listener()
