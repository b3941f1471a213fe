"""Tell which promises of the sandbox do not hold with the isolation layers of this machine.

The layers' names are those of `env.isolation` in a record (docs/trust-model.md).
"""

from __future__ import annotations

from collections.abc import Sequence

# From this version on, Landlock blocks signals to processes outside the sandbox.
LANDLOCK_WITH_SIGNALS = 6

FILES = "files: it can read and write all that the grader's user can"
NETWORK = "network: it can reach all that this machine can"
PROCESSES = "other processes: it can stop those of the grader's user"


def missing(layers: Sequence[str]) -> tuple[str, ...]:
    """Return the promises that do not hold, as words: on files, on the network, on other processes."""
    landlock = landlock_version(layers)
    network = any(layer.startswith("own network") or layer == "seccomp" for layer in layers)
    processes = landlock >= LANDLOCK_WITH_SIGNALS or any(layer.startswith("own user") for layer in layers)
    broken = ((not landlock, FILES), (not network, NETWORK), (not processes, PROCESSES))
    return tuple(words for is_broken, words in broken if is_broken)


def landlock_version(layers: Sequence[str]) -> int:
    """Return the version of Landlock among the layers; 0 without it."""
    return max((_version(layer) for layer in layers), default=0)


def _version(layer: str) -> int:
    name, _, number = layer.partition(" ")
    return int(number) if name == "Landlock" and number.isdecimal() else 0
