"""Hold what a machine can judge: with a GPU or without, and which values of a case's axes it lacks."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Abilities:
    """Say what a machine can judge. gpu: kernels run on a GPU. lacks: values of a case's axes that it cannot judge."""

    gpu: bool
    lacks: tuple[str, ...]


# A machine that lacks nothing, for plans that are not run, or that must not depend on this one.
WHOLE_CPU = Abilities(gpu=False, lacks=())
WHOLE_GPU = Abilities(gpu=True, lacks=())
