"""grade: a grading harness for GPU-kernel exercises.

The names below are what a specification (`reference/<exercise>/spec.py`, and interview.py beside it) is written with.
"""

from grader.exercise.attention_kinds import ATTENTION_KINDS, CAUSAL_MASK_KINDS, LENGTH_KINDS
from grader.exercise.cases import FAR_APART, FEWEST_FAR_APART, Case, Cases, Choice, Region, Size, Space, Star, Value
from grader.exercise.causes import Contrast, Kind, Remedy
from grader.exercise.curves import Curves
from grader.exercise.interview import Figures, Question
from grader.exercise.model import Check, Exercise, Limits, Package, Part, Tolerance
from grader.exercise.rules import (
    Agrees,
    Allowance,
    Compiles,
    Fresh,
    Launches,
    Regret,
    RegretGroup,
    SpeedBand,
    Stateful,
    UsesKernels,
    WorkModel,
)

__version__ = "0.1.0"

__all__ = [
    "ATTENTION_KINDS",
    "CAUSAL_MASK_KINDS",
    "FAR_APART",
    "FEWEST_FAR_APART",
    "LENGTH_KINDS",
    "Agrees",
    "Allowance",
    "Case",
    "Cases",
    "Check",
    "Choice",
    "Compiles",
    "Contrast",
    "Curves",
    "Exercise",
    "Figures",
    "Fresh",
    "Kind",
    "Launches",
    "Limits",
    "Package",
    "Part",
    "Question",
    "Region",
    "Regret",
    "RegretGroup",
    "Remedy",
    "Size",
    "Space",
    "SpeedBand",
    "Star",
    "Stateful",
    "Tolerance",
    "UsesKernels",
    "Value",
    "WorkModel",
    "__version__",
]
