"""Compute the least time that a size needs by the GPU's measured ceilings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from grader.protocol.baseline_messages import Gauged

# A measured ceiling is no law of nature; nothing exceeds it by this much.
_FLOOR_SLACK = 1.15


@dataclass(frozen=True)
class RooflineWork:
    """The compulsory bytes and operations of a size, and the GPU's time for them in microseconds."""

    nbytes: float
    flops: float
    gauged: Gauged
    dtype: str

    @property
    def memory_us(self) -> float:
        """Return the time for the bytes, at the measured copy bandwidth."""
        return self.nbytes / (self.gauged.copy_tbps * 1e6)

    @property
    def compute_us(self) -> float:
        """Return the time for the operations, at the rate measured with this dtype."""
        rate = self.gauged.tflops.get(self.dtype) or max(self.gauged.tflops.values(), default=0.0)
        return self.flops / (rate * 1e6) if rate else 0.0

    @property
    def bound(self) -> Literal["memory", "compute"]:
        """Return which of the two takes longer."""
        return "memory" if self.memory_us >= self.compute_us else "compute"

    @property
    def floor_us(self) -> float:
        """Return a time that no call can beat: results may stay in the L2 cache, and ceilings are given some room."""
        stream = max(0.0, self.nbytes - self.gauged.l2_bytes) / (self.gauged.read_tbps * 1e6)
        return max(stream, self.compute_us) / _FLOOR_SLACK
