"""Number the lanes of a block: the same lane of blocks of one size is held by the same thread."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True, eq=False)
class Places:
    """The lanes of a block to which the offsets of an operation belong.

    size: the lanes of the block in one program. lit: a bit for each lane, 1 where it took part; None: all did. times:
    so many programs did the same. picked: the ones, among all those, that the operation keeps; None: all.
    """

    size: int
    lit: npt.NDArray[np.uint8] | None = None
    times: int = 1
    picked: npt.NDArray[np.int64] | None = None

    def only(self, chosen: npt.NDArray[Any]) -> Places:
        """Return these places, thinned like the offsets of the operation: by flags or by numbers."""
        kept = np.flatnonzero(chosen) if chosen.dtype == np.bool_ else chosen
        return replace(self, picked=kept if self.picked is None else self.picked[kept])

    def lanes(self) -> npt.NDArray[np.int64]:
        """Return the lane of each offset, counted in its own program."""
        one = np.arange(self.size) if self.lit is None else np.flatnonzero(np.unpackbits(self.lit)) % self.size
        every = one if self.times == 1 else np.tile(one, self.times)
        return every if self.picked is None else every[self.picked]
