"""What the fork server makes once for all its children. Each takes its copy away before the submission is loaded, which
could reach it here.
"""

from __future__ import annotations

from typing import Generic, TypeVar

T = TypeVar("T")


class Inherited(Generic[T]):
    """One thing, left by the fork server and taken by a child."""

    def __init__(self) -> None:
        self._left: list[T] = []

    def leave(self, thing: T) -> None:
        """For the children that are forked from now on."""
        self._left[:] = [thing]

    def take(self) -> T | None:
        """What was left; None where nothing was, or where it was taken already."""
        return self._left.pop() if self._left else None
