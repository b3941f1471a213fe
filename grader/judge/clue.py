"""Evidence for a cause: one clue says which kind it points to, how strongly, and what was seen."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Clue:
    """`weight`, 0 … 1, is how likely the kind is by this clue alone; 1 with `confirmed`, where values or a probe leave
    no doubt; `firm`, where which cases fail has no say in it. `seen` is a sentence for the learner. `title` and `help`
    replace the kind's own where a clue knows better; `foreseen` is one by the values that a mistake leads to.
    """

    kind: str
    weight: float
    seen: str = ""
    confirmed: bool = False
    title: str = ""
    help: str = ""
    firm: bool = False
    foreseen: bool = False


def sure(kind: str, seen: str = "", title: str = "", help_text: str = "") -> Clue:
    """A clue that leaves no doubt."""
    return Clue(kind, 1.0, seen, confirmed=True, title=title, help=help_text)
