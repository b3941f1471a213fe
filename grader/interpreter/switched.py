"""Put other methods into the interpreter while a call is observed, one observer at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from grader.interpreter.lowering import forget_lowered

# An owner, the name of its method, and the method without and with the observer.
Method = tuple[Any, str, Any, Any]
# The observer that is on, if one is.
_ON: list[Switched] = []


class Switched:
    """Methods that an observer puts in place of the interpreter's. Off, they cost nothing.

    methods: lists them, once, after every patch of the interpreter's builder.
    """

    def __init__(self, methods: Callable[[], Iterable[Method]]) -> None:
        self._list = methods
        self._methods: tuple[Method, ...] = ()

    def switch(self, on: bool) -> None:
        """Begin to observe, in place of any other observer, or stop."""
        if on == (self in _ON):
            return
        for observer in _ON:
            observer._put(on=False)
        _ON.clear()
        if on:
            self._methods = self._methods or tuple(self._list())
            self._put(on=True)
            _ON.append(self)
        # The cache holds the methods that were in place when it was filled.
        forget_lowered()

    def _put(self, *, on: bool) -> None:
        for owner, name, plain, observing in self._methods:
            setattr(owner, name, observing if on else plain)
