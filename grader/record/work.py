"""Define what a record tells of counted work, and of the times that are predicted from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Work:
    """The bytes that one call moved in the interpreter, and the limits on them; and what it computed.

    loaded and stored count every access; unique_bytes counts every byte of a launch once, and unique_stored_bytes (-1:
    not known) every stored byte once. model_bytes: the bytes that a good kernel moves, by the specification's formula.
    extra_bytes: the most memory that tensors took up beyond inputs and results. Moved bytes, unique stored bytes and
    extra memory each have two limits: the most bytes that earn all points (allowed) and the fewest that earn none; -1
    if there is no limit. configuration: the one that was counted, for autotuned kernels; '' for others. flops are those
    of tl.dot, and dots how many there were; exponentials, operations: elements that special functions and all other
    operations computed. models_size: the case is a small copy of a timed size, and was counted to predict times alone.
    kernels: the names of what was launched. copied_bytes: what PyTorch reads and writes to copy and cast tensors,
    where kernels must do the copying; they are moved, too. sector_ratio: the sectors that programs touch over the bytes
    that they use of them, 1 unless lanes lie apart in memory, at apart_line most of all (0: nowhere).
    """

    case: dict[str, int | float | bool | str]
    words: str
    loaded_bytes: int
    stored_bytes: int
    unique_bytes: int
    launches: int
    flops: int
    model_bytes: int
    allowed_bytes: int
    extra_bytes: int
    extra_allowed_bytes: int = -1
    configuration: str = ""
    none_bytes: int = -1
    extra_none_bytes: int = -1
    unique_stored_bytes: int = -1
    stored_allowed_bytes: int = -1
    stored_none_bytes: int = -1
    dots: int = 0
    exponentials: int = 0
    operations: int = 0
    models_size: bool = False
    kernels: tuple[str, ...] = ()
    copied_bytes: int = 0
    sector_ratio: float = 1.0
    apart_line: int = 0

    @property
    def moved_bytes(self) -> int:
        """Return the bytes that kernels load and store, and those that PyTorch reads and writes to copy."""
        return self.loaded_bytes + self.stored_bytes + self.copied_bytes


@dataclass(frozen=True)
class Prediction:
    """The time that one size should take on a GPU: a roofline over what was counted in the interpreter.

    bound: the longest term: "memory", "compute", or "launch". bytes, flops: what a call moves between DRAM and the
    chip, and computes. ceilings: "published" (the maker's figures less an assumed loss) or "measured" on the GPU.
    measured_us: the time that the size took there (-1: not timed). programs: of the largest launch at this size (-1:
    not known). remarks: what makes the call slow, or the prediction a lower bound.
    """

    gpu: str
    case: dict[str, int | float | bool | str]
    words: str
    time_us: float
    bound: Literal["memory", "compute", "launch"]
    bytes: int
    flops: int
    ceilings: Literal["published", "measured"]
    measured_us: float = -1.0
    programs: int = -1
    remarks: tuple[str, ...] = ()
