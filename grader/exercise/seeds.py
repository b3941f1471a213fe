"""Mark the seeds from which alone the inputs follow. Pure: takes and gives whole numbers of 64 bits."""

from __future__ import annotations

_SHARED = 1 << 63


def shared(seed: int) -> int:
    """Return the seed, marked: whoever gets it meets the same inputs.

    The inputs of other seeds follow from the submission's text and traces too.
    """
    return seed | _SHARED


def is_shared(seed: int) -> bool:
    """Return whether a seed is marked."""
    return bool(seed & _SHARED)


def another(seed: int) -> int:
    """Return the seed of other inputs. It is marked if this one is."""
    return (seed * 6364136223846793005 + 1442695040888963407) % _SHARED | (seed & _SHARED)
