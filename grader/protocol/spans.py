"""How the bytes of an output are cut into pieces that can be committed to, and opened, one by one.

Right after a timed call the process sends one 64-bit sum per piece; only then is it told which pieces to show. What it
shows must have the sums that it committed to, so an answer cannot be computed later than it was timed.
"""

from __future__ import annotations

PIECES = 1024
WORD_BYTES = 8
# Of the 16 outputs that a call may have, and the cover.
MOST_SUMS = 16 * (PIECES + 2) + 1


def cut(nbytes: int) -> tuple[int, int]:
    """(bytes of each of the 1024 equal runs of 8-byte words, bytes of the whole words behind them)."""
    run = nbytes // WORD_BYTES // PIECES * WORD_BYTES
    return run, (nbytes - PIECES * run) // WORD_BYTES * WORD_BYTES


def spans(nbytes: int) -> tuple[tuple[int, int], ...]:
    """The pieces of an output as (first byte, number of bytes): 1024 equal runs of 8-byte words, then what is left."""
    run, words = cut(nbytes)
    found = [(place * run, run) for place in range(PIECES if run else 0)]
    first = PIECES * run
    if words:
        found.append((first, words))
    if nbytes > first + words:
        found.append((first + words, nbytes - first - words))
    return tuple(found)


def word_sum(raw: bytes) -> int:
    """The sum that commits to a piece: its 8-byte words as signed integers, modulo 2**64; an incomplete word is filled
    up with zeros.
    """
    padded = raw + bytes(-len(raw) % WORD_BYTES)
    total = sum(memoryview(padded).cast("q")) if len(padded) < 1 << 16 else _fast_sum(padded)
    return (total + 2**63) % 2**64 - 2**63


def _fast_sum(padded: bytes) -> int:
    import numpy as np

    return int(np.frombuffer(padded, np.int64).sum())
