"""Evidence for a cause: its kind, its weight, and what was observed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Clue:
    """Evidence for one kind of cause.

    weight: 0 … 1, how likely the kind is by this clue alone; 1 with `confirmed`, where values or a probe leave no
    doubt. firm: the pattern of failing cases does not change this weight. evidence: a sentence for the learner. title,
    help: replace those of the kind. by_known_mistake: found by the values of a known mistake, or of altered inputs.
    of_inputs: of the latter. in_launch: launch code is to blame, such as a grid. refutes: a probe speaks against the
    kind, so that no guess at it counts.
    """

    kind: str
    weight: float
    evidence: str = ""
    confirmed: bool = False
    title: str = ""
    help: str = ""
    firm: bool = False
    by_known_mistake: bool = False
    of_inputs: bool = False
    in_launch: bool = False
    refutes: bool = False


def sure(kind: str, evidence: str = "", title: str = "", help_text: str = "") -> Clue:
    """Return a confirmed clue, of weight 1."""
    return Clue(kind, 1.0, evidence, confirmed=True, title=title, help=help_text)
