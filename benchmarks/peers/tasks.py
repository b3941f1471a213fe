"""Tell parts of exercises as other projects tell a problem: shapes, a torch expression, and fixed sizes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

Sizes = Mapping[str, int]
# What KernelBench allows float32, as atol and as rtol. popcorn leaves it to the task, so both get the same.
TOLERANCE = 1e-4


@dataclass(frozen=True)
class Task:
    """One part. shapes: of each argument, by axis. family: torch.randn or torch.rand. truth: an expression of torch's.

    fixed: the one size of KernelBench. tests, timed: the sizes of popcorn.
    """

    exercise: str
    part: str
    shapes: Mapping[str, str]
    family: str
    truth: str
    fixed: Sizes
    tests: tuple[Sizes, ...]
    timed: tuple[Sizes, ...]

    @property
    def axes(self) -> tuple[str, ...]:
        """Return the names of the axes, in the order of the sizes."""
        return tuple(self.fixed)

    @property
    def arguments(self) -> str:
        """Return the arguments' names as a call has them."""
        return ", ".join(self.shapes)


# As in kernelbot's own vectoradd, softmax and matmul: small sizes on both sides of 128, and squares; timed sizes from
# one mebi-element on. KernelBench has one size a problem, a power of two as in its first level.
_SIDES = (127, 128, 129, 256, 512)
_VECTORS = tuple({"N": side * side} for side in _SIDES)
_LONG = ({"N": 1 << 20}, {"N": 1 << 24})
_PRODUCTS = ((64, 64, 64), (128, 128, 128), (256, 256, 256), (32, 512, 32), (64, 1024, 64))

TASKS = (
    Task("ex_15", "vector_add", {"x": "N,", "y": "N,"}, "randn", "x + y", {"N": 1 << 24}, _VECTORS, _LONG),
    Task(
        "ex_15",
        "row_softmax",
        {"x": "M, N"},
        "rand",
        "torch.softmax(x, dim=1)",
        {"M": 4096, "N": 4096},
        tuple({"M": 64, "N": side} for side in _SIDES),
        ({"M": 4096, "N": 1024}, {"M": 4096, "N": 8192}),
    ),
    Task("ex_15", "global_sum", {"x": "N,"}, "rand", "torch.sum(x)", {"N": 1 << 24}, _VECTORS, _LONG),
    Task(
        "ex_16",
        "matmul",
        {"a": "M, K", "b": "K, N"},
        "rand",
        "torch.matmul(a, b)",
        {"M": 2048, "K": 2048, "N": 2048},
        tuple({"M": m, "N": n, "K": k} for m, n, k in _PRODUCTS),
        tuple({"M": side, "N": side, "K": side} for side in (1024, 2048)),
    ),
)
