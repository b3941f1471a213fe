"""Resolve the ATen operators that a trace may name, once each, and check their arguments against their schemas.

No part of a trace is ever looked up by name in torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor

from grader.calls.filling import run_with_filling
from grader.protocol.operators import RECORDED
from grader.protocol.trace import Operator
from grader.replay.arguments import ArgumentBuilder
from grader.replay.memory import Unreplayable

# Torch takes plain numbers for these as well, and does not check them.
_KINDS: Mapping[str, type] = {
    "dtype": torch.dtype,
    "layout": torch.layout,
    "device": torch.device,
    "memory_format": torch.memory_format,
    "rounding_mode": str,
}


@dataclass(frozen=True)
class Supporting:
    """One overload of one operator."""

    overload: Any

    def __call__(self, step: Operator, values: ArgumentBuilder) -> Any:
        """Run it on the arguments of a step. Raises Unreplayable."""
        kinds = {one.name: str(one.type) for one in self.overload._schema.arguments}
        if len(step.args) > len(kinds) or not set(step.kwargs) <= set(kinds):
            raise Unreplayable(f"{step.name} must get at most {len(kinds)} arguments, got {len(step.args)}")
        args = [
            _check_argument(*kind, values.of_operator(one)) for kind, one in zip(kinds.items(), step.args, strict=False)
        ]
        kwargs = {
            name: _check_argument(name, kinds[name], values.of_operator(one)) for name, one in step.kwargs.items()
        }
        kwargs.pop("pin_memory", None)
        return run_with_filling(self.overload, args, kwargs)


@cache
def operators() -> Mapping[str, Supporting]:
    """Return the overloads by their full names, without those that write into an `out` argument."""
    return {
        f"{name}.{overload}": Supporting(getattr(packet, overload))
        for name in RECORDED
        for packet in (getattr(torch.ops.aten, name),)
        for overload in packet.overloads()
        if "out" not in overload
    }


def _check_argument(name: str, kind: str, value: Any) -> Any:
    """Return an argument if it fits its parameter. Raises Unreplayable."""
    expected_type = _KINDS.get(name)
    right = isinstance(value, expected_type) if expected_type else all(_is_plain(kind, one) for one in _as_list(value))
    if value is None or right:
        return value
    raise Unreplayable(f"an operator cannot be given {type(value).__name__} as {name}")


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _is_plain(kind: str, value: Any) -> bool:
    if value is None:
        return "?" in kind
    # Torch accepts a number for a tensor. It also accepts a tensor of one element for a number, and then reads its
    # value.
    return "Tensor" in kind if isinstance(value, Tensor) else isinstance(value, bool | int | float)
