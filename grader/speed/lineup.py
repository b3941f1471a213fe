"""Choose the baseline that a speed check is measured against on this machine, and those shown beside it. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from grader.exercise.cases import Case
from grader.exercise.formula import evaluate
from grader.exercise.rules import SpeedBand
from grader.speed.baselines import SLOW, title_of

_LEFT_OUT = "not timed: takes seconds to compile (grade … --baseline {} times it)"


@dataclass(frozen=True)
class Lineup:
    """The baselines of one speed check on this machine.

    baseline: the one that decides the points, '' if nothing of its chain can run. beside: the others that run. missing:
    by name, in the order of the card, the reason why a baseline does not run; '' for those that do. note: a sentence if
    the baseline is not the specification's first choice, or if there is none.
    """

    baseline: str
    beside: tuple[str, ...]
    missing: Mapping[str, str]
    note: str

    def apply(self, band: SpeedBand) -> SpeedBand:
        """Return the band as it is measured here: against the chosen baseline, with all others beside it."""
        baseline = self.baseline or band.baseline
        beside = tuple(name for name in self.missing if name != baseline)
        return replace(band, baseline=baseline, fallbacks=(), shown_beside=beside)


def candidates(band: SpeedBand) -> tuple[str, ...]:
    """Return the baselines that may take part, each once."""
    return tuple(dict.fromkeys((band.baseline, *band.fallbacks, *band.shown_beside)))


def smallest(band: SpeedBand) -> Case:
    """Return the timed size that moves the fewest bytes: baselines are tried on it."""
    return min(band.suite.named_cases, key=lambda case: evaluate(band.bytes, case))


def lineup(band: SpeedBand, missing: Mapping[str, str], *, slow: Collection[str] = ()) -> Lineup:
    """Choose among the `candidates`.

    missing: why each cannot run, '' for those that can. slow: those that are timed beside the others although they take
    seconds to compile.
    """
    chain = (band.baseline, *band.fallbacks)
    place = next((place for place, name in enumerate(chain) if not missing[name]), None)
    tried = chain if place is None else chain[: place + 1]
    left_out = {name: _LEFT_OUT.format(name) for name in SLOW if name not in slow}
    known = {name: missing[name] for name in tried}
    known |= {name: missing[name] or left_out.get(name, "") for name in band.shown_beside}
    chosen = "" if place is None else chain[place]
    beside = tuple(name for name, why in known.items() if not why and name != chosen)
    return Lineup(chosen, beside, known, _note([name for name in tried if missing[name]], missing, chosen))


def _note(lacking: list[str], missing: Mapping[str, str], chosen: str) -> str:
    if not lacking:
        return ""
    reasons = "; ".join(f"{title_of(name)} cannot run here: {missing[name]}" for name in lacking)
    return f"Measured against {title_of(chosen)}, because {reasons}" if chosen else reasons
