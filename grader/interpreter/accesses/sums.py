"""Find sums of atomic additions whose bits depend on the order: a GPU adds in any order, the interpreter in one.

Floating-point addition is not associative, so a sum of three numbers may have other bits in another order if additions
round. Pure: gets what was added, and touches no memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

# The most additions of a launch that are examined: the first tiles show what all tiles do.
_MOST_LANES = 1 << 14
_MOST_LINES = 16
# So many numbers have one sum in any order.
_MOST_IN_ANY_ORDER = 2

Array = npt.NDArray[Any]


class AtomicSums:
    """The atomic additions of floating-point numbers of one launch, and the lines found in all launches so far."""

    def __init__(self) -> None:
        self._lines: dict[int, None] = {}
        self._added: list[tuple[int, Array, Array, Array]] = []
        self._lanes = 0

    def note(self, line: int, addresses: Array, before: Array, values: Array) -> None:
        """Note an addition of `values` to the numbers `before` at these addresses, lane by lane. Zeros do not count."""
        if values.dtype.kind == "f" and self._lanes < _MOST_LANES and (added := values != 0).any():
            self._lanes += int(added.sum())
            self._added.append((line, addresses[added], before[added], values[added]))

    def mark(self) -> tuple[int, int]:
        """Return the present state, for `go_back`."""
        return len(self._added), self._lanes

    def go_back(self, mark: tuple[int, int]) -> None:
        """Forget the additions after a mark."""
        count, self._lanes = mark
        del self._added[count:]

    def finish_launch(self) -> None:
        """Look at the additions of the launch, and forget them."""
        of_lines: dict[tuple[int, str], list[tuple[Array, Array, Array]]] = {}
        for line, addresses, before, values in self._added:
            of_lines.setdefault((line, values.dtype.str), []).append((addresses, before, values))
        for (line, _), added in of_lines.items():
            columns = map(np.concatenate, zip(*added, strict=True))
            if len(self._lines) < _MOST_LINES and depend_on_order(*columns):
                self._lines[line] = None
        self._added.clear()
        self._lanes = 0

    def take(self) -> tuple[int, ...]:
        """Return the lines whose sums depend on the order, since the last call."""
        found = tuple(self._lines)
        self._lines.clear()
        return found


def depend_on_order(addresses: Array, before: Array, values: Array) -> bool:
    """Return whether numbers like those added at some address may have another sum in another order.

    Two numbers have one sum. Three or more have one if no addition rounds: if all are multiples of a unit, and their
    sizes add up to few enough units for the mantissa. before: the number at each address before each addition; [N],
    like the others, in the order of the additions.
    """
    if not addresses.size:
        return False
    order = np.argsort(addresses, kind="stable")
    addresses, before, values = addresses[order], before[order], values[order]
    starts = np.flatnonzero(np.concatenate(([True], addresses[1:] != addresses[:-1])))
    first = before[starts]
    terms = np.add.reduceat(values != 0, starts, dtype=np.int64) + (first != 0)
    bits = np.finfo(values.dtype).nmant + 1
    with np.errstate(all="ignore"):
        sizes = np.add.reduceat(np.abs(values), starts, dtype=np.float64) + np.abs(first, dtype=np.float64)
        units = np.minimum(np.minimum.reduceat(_unit(values, bits), starts), _unit(first, bits))
        may_round = np.isfinite(sizes) & (sizes > units * 2.0**bits)
    return bool((may_round & (terms > _MOST_IN_ANY_ORDER)).any())


def _unit(values: Array, bits: int) -> Array:
    """Return the value of the last bit that is set in each number, as float64; infinity for 0. bits: of a mantissa."""
    mantissas, exponents = np.frexp(values.astype(np.float64))
    whole = np.where(np.isfinite(mantissas), mantissas * 2.0**bits, 0).astype(np.int64)
    return np.where(whole == 0, np.inf, np.ldexp((whole & -whole).astype(np.float64), exponents - bits))
