"""Define what a scorecard draws of a suite of sizes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Curves:
    """Figures over one axis of a suite: the speed and the memory of every contender.

    over: the axis. apart: axes with one panel for each value; other axes may vary together with `over`. quantity: the
    unit of speed in the figure. versus: the baseline of the stated speed-up and saved memory, and versus_title its name
    there; '' for none.
    """

    over: str
    quantity: Literal["tflops", "tbps", "time"]
    apart: tuple[str, ...] = ()
    versus: str = ""
    versus_title: str = ""
