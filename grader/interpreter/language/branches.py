"""Note which way kernels take at their conditions, and how many turns their loops make, line by line.

Switched off, it costs nothing.
"""

from __future__ import annotations

from typing import Any

from grader.interpreter.places import running_line
from grader.protocol.observations import BranchTaken, WayTaken

# The most ways of one call that are reported.
_MOST = 256


class Branches:
    """The ways of one call's kernels, each once."""

    def __init__(self) -> None:
        self._on = False
        self._noted: dict[BranchTaken, None] = {}

    def begin(self, on: bool) -> None:
        """Start over with a call. on: note its ways."""
        self._on = on
        self._noted.clear()

    def note_condition(self, line: int, condition: Any) -> None:
        """Note how a condition turned out, for any of the programs that run at once."""
        if not self._on:
            return
        values = condition.handle.data if hasattr(condition, "handle") else condition
        holds = [bool(one) for one in getattr(values, "flat", [values])]
        if any(holds):
            self._note(line, "true")
        if not all(holds):
            self._note(line, "false")

    def note_loop(self, turns: int) -> None:
        """Note the number of turns of the loop that begins."""
        if self._on:
            self._note(running_line()[0], "no turn" if turns < 1 else "one turn" if turns == 1 else "several turns")

    def _note(self, line: int, outcome: WayTaken) -> None:
        if len(self._noted) < _MOST:
            self._noted[BranchTaken(line, outcome)] = None

    def noted(self) -> tuple[BranchTaken, ...]:
        """Return the ways since the call began, in the order in which they were first taken."""
        return tuple(self._noted)


BRANCHES = Branches()
