"""What can be told of a launch from outside: its kernel, its grid, its block sizes, and what no clock says of it."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Sequence
from typing import Any

# Block sizes and switches; of what does not fit into a message nothing follows.
_LARGEST_CONSTANT = 1 << 63


def bound(kernel: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The kernel's parameters by name, defaults included, as a grid function gets them."""
    given = dict(zip(getattr(kernel, "arg_names", ()), args, strict=False)) | kwargs
    return _defaults(kernel.fn) | given


def _defaults(function: Any) -> dict[str, Any]:
    parameters = inspect.signature(function).parameters.values()
    return {one.name: one.default for one in parameters if one.default is not inspect.Parameter.empty}


def sizes(grid: Any) -> tuple[int, ...]:
    """How many programs a grid has along each of its axes."""
    return tuple(operator.index(size) for size in (grid if isinstance(grid, tuple | list) else (grid,)))


def constant_names(kernel: Any) -> frozenset[str]:
    """Return the names of a kernel's compile-time arguments."""
    hints = getattr(kernel.fn, "__annotations__", {})
    return frozenset(name for name, hint in hints.items() if "constexpr" in str(hint))


def constants(kernel: Any, bound: dict[str, Any]) -> dict[str, int]:
    """The integers among a launch's compile-time arguments: block sizes."""
    known = constant_names(kernel)
    plain = {name: getattr(value, "value", value) for name, value in bound.items()}
    return {
        name: value
        for name, value in plain.items()
        if isinstance(value, int) and not isinstance(value, bool) and name in known
        if abs(value) < _LARGEST_CONSTANT
    }


def name_of(kernel: Any) -> str:
    """The kernel's name, cut to what a message holds."""
    name = getattr(kernel, "__name__", None) or getattr(kernel, "name", None)
    return str(name or "kernel")[:80]


def equal_times(
    *, quantiles: Sequence[float] | None = None, return_mode: str = "mean", **_: object
) -> float | list[float]:
    """Return what triton.testing.do_bench would of a call that always takes a millisecond: the first of equals wins."""
    several = return_mode == "all" if quantiles is None else len(quantiles) != 1
    return [1.0] * (1 if quantiles is None else len(quantiles)) if several else 1.0
