"""Tells that a program waits for the launches before its own, as `gdc_wait` does: the hooks on memory want to know."""

from __future__ import annotations

from collections.abc import Callable

# What hears of it: the hooks of this process, once they are installed.
_hears: list[Callable[[], None]] = []


def hear_of_waits(listener: Callable[[], None]) -> None:
    """Tell this listener, and no other, of every wait from now on."""
    _hears[:] = [listener]


def wait_for_launches_before() -> None:
    """Tell that the program that runs waits. Every launch before has ended."""
    for listener in _hears:
        listener()
