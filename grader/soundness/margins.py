"""Measure the room that a part's tolerance leaves between honest files and mistakes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from grader.record.checks import CheckResult


@dataclass(frozen=True)
class Margin:
    """The room that a part's tolerance leaves, in units of the allowed error.

    worst_honest: the largest error of an honest file. cheapest_cheat: the smallest error of a caught mistake; None
    where no mistake was measured. With the files.
    """

    part: str
    worst_honest: float
    honest_file: str
    cheapest_cheat: float | None
    cheat_file: str


@dataclass
class Extremes:
    """The largest error of an honest file and the smallest one of a caught mistake, of every part, with the files."""

    _honest: dict[str, tuple[float, str]] = field(default_factory=dict)
    _cheats: dict[str, tuple[float, str]] = field(default_factory=dict)

    def note_honest(self, result: CheckResult, file: str) -> None:
        """Note a check of an honest file."""
        _keep(self._honest, result, file, max)

    def note_cheat(self, result: CheckResult, file: str) -> None:
        """Note the check that a mistake names, if it is wrong.

        One that is wrong in a single configuration of an autotuner is right in all cases by themselves.
        """
        if _error(result) > 1:
            _keep(self._cheats, result, file, min)

    def margin(self, part: str) -> Margin:
        """Return the margin of a part."""
        return Margin(part, *self._honest.get(part, (0.0, "-")), *self._cheats.get(part, (None, "-")))


def _keep(
    best: dict[str, tuple[float, str]], result: CheckResult, file: str, choose: Callable[[float, float], float]
) -> None:
    """Store the part's largest or smallest error. Results without a finite error do not count."""
    error = _error(result)
    if not error:
        return
    if result.part not in best or choose(error, best[result.part][0]) != best[result.part][0]:
        best[result.part] = (error, file)


def _error(result: CheckResult) -> float:
    """Return the largest error of a check's cases in units of the allowed one; 0 where none is finite."""
    error = result.metrics.get("worst_error_over_allowed", 0.0)
    return error if isinstance(error, float) else 0.0
