"""Hold what the gate finds, line by line."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from grader.soundness.margins import Margin


@dataclass(frozen=True)
class GateLine:
    """One finding of the gate.

    subject: what was tried. outcome: in words. holds: whether it is as it must be (None: not judged here).
    """

    subject: str
    holds: bool | None
    outcome: str


@dataclass
class Gate:
    """The findings and margins of one run of the gate."""

    findings: list[GateLine] = field(default_factory=list)
    margins: list[Margin] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        """Nothing that could be judged here came out wrong."""
        return all(finding.holds is not False for finding in self.findings)


def named(path: Path) -> str:
    """Return the name of a file of an exercise, as findings give it."""
    return path.stem if path.parent.name not in ("wrong", "honest") else f"{path.parent.name}/{path.stem}"
