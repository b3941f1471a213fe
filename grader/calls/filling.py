"""Let memory that torch allocates without a value hold NaN, so that an element that nobody wrote shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from grader.calls.modes import LightMode


def fill_uninitialised_memory(*, on: bool) -> None:
    """Let torch.empty and its relatives return NaN, so that an element that the submission never wrote shows."""
    # The public switch imports torch's compiler, which costs more than everything else that a child does.
    torch._C._set_deterministic_algorithms(on, warn_only=True)


def run_with_filling(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Run an operator; fill the memory that it allocates, unless torch has no NaN for the dtype, as of 4 bits."""
    try:
        return func(*args, **kwargs)
    except NotImplementedError:
        if not torch.are_deterministic_algorithms_enabled():
            raise
        fill_uninitialised_memory(on=False)
        try:
            return func(*args, **kwargs)
        finally:
            fill_uninitialised_memory(on=True)


class Filling(LightMode):  # type: ignore[no-untyped-call]
    """Runs operators with `run_with_filling`: a dtype that torch cannot fill is no error of the call."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return run_with_filling(func, args, kwargs or {})
