"""Questions that an exercise prepares for, as frozen data: an answer in words, and sentences on the learner's figures.

They stand in the exercise's interview.py, decide no grade, and are handed out to students.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from string import Formatter

from grader.errors import require

# Places that a sentence may have in braces, beside `values` and a contender's time, {time_cublas}. Bytes and FLOP are
# of one call.
PLACES = frozenset(
    {
        # of a check that counts bytes: the call that moved most
        *("case", "moved", "loaded", "stored", "model", "extra", "launches"),
        # of a check on speed: the size that takes longest, timed here or predicted
        *("size", "gpu", "time", "bound", "intensity", "ratio", "baseline", "tbps", "roofline"),
        # of the part's first kernel, compiled for this machine's GPU or the usual one
        *("kernel", "target", "registers", "loads"),
        # of a check on choices
        *("choices", "best"),
    }
)
TIME = "time_"


@dataclass(frozen=True)
class Figures:
    """A sentence on the learner's own figures; it is left out where one of them is not known.

    check: the check that holds them, "part.check", or "ex_2:part.check" of another exercise. text: the
    sentence, with places in braces. values: further places, each a formula for bytes (grader.exercise.formula) over the
    axes of the check's case.
    """

    check: str
    text: str
    values: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        require(self.check.count(".") == 1, "Figures.check", 'be "part.check" or "ex_2:part.check"', self.check)
        for place in self.places:
            known = place in PLACES or place in self.values or place.startswith(TIME)
            require(known, "Figures.text", f"name places among {', '.join(sorted(PLACES))}", place)
        require(set(self.values) <= set(self.places), "Figures.values", "stand in the text", tuple(self.values))

    @property
    def places(self) -> tuple[str, ...]:
        """Return the names in braces."""
        return tuple(name for _, name, _, _ in Formatter().parse(self.text) if name is not None)

    @property
    def exercise(self) -> str:
        """Return the id of the exercise that the check is of; '' for the own one."""
        return self.check.rpartition(":")[0]

    @property
    def check_id(self) -> str:
        """Return the check's id within its exercise."""
        return self.check.rpartition(":")[2]


@dataclass(frozen=True)
class Question:
    """A question, its answer (paragraphs apart by an empty line), and what the learner measured on it."""

    question: str
    answer: str
    figures: tuple[Figures, ...] = ()

    def __post_init__(self) -> None:
        require(self.question.rstrip().endswith(("?", ".")), "Question.question", "be a sentence", self.question)
        require(bool(self.answer.strip()), "Question.answer", "be a text", self.answer)
