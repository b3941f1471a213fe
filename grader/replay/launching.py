"""Guard the launches of a kernel: no launch from within, and no tensor but through a pointer."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import triton
import triton.language as tl
from triton.runtime._allocation import NullAllocator

from grader.replay.values import RefusedFunction, fields_of, is_acting

_launching: list[bool] = []


def lend_workspaces(device: torch.device | None) -> None:
    """Give later launches the workspace that they ask for; on a GPU, kernels that make descriptors need one.

    It replaces the submission's own allocator, which no trace holds. device: None if launch code had set no allocator.
    """

    def lend(size: int, _alignment: int, _stream: int | None) -> torch.Tensor:
        return torch.empty(size, dtype=torch.int8, device=device)

    triton.set_allocator(lend if device else NullAllocator())


@contextmanager
def multiplying_float32(precision: object) -> Iterator[None]:
    """Let `tl.dot` multiply float32 in a precision where a kernel names none. None: in Triton's own, which is TF32."""
    with triton.knobs.language.scope():
        triton.knobs.language.fp32_default = precision
        yield


def guarded(kernel: Any) -> Any:
    """Let a kernel launch no kernel, and reach tensors through pointers alone: else torch would compute within it."""
    names = [*inspect.signature(kernel.fn).parameters]
    constants = {name for name, one in kernel.fn.__annotations__.items() if one is tl.constexpr}

    def run(*args: Any, grid: Any, warmup: bool, **options: Any) -> Any:
        if _launching:
            raise RefusedFunction(0, "a kernel launches no kernel: call it without [grid]", python=True)
        for name, value in (*zip(names, args, strict=False), *options.items()):
            if _is_misplaced(value, constant=name in constants):
                raise RefusedFunction(
                    0, f"{name} holds a tensor that Triton makes no pointer of: pass it alone", python=True
                )
            _refuse_acting(value)
        _launching.append(True)
        try:
            return type(kernel).run(kernel, *args, grid=grid, warmup=warmup, **options)
        finally:
            _launching.pop()

    kernel.run = run
    return kernel


def _refuse_acting(value: Any) -> None:
    """Check an argument's named tuples again: those with tensors were filled late."""
    value = value.value if isinstance(value, tl.constexpr) else value
    for name, one in fields_of(value).items():
        if is_acting(name, one):
            raise RefusedFunction(0, f"a function cannot be in a field called {name}: call it otherwise", python=False)
    held = [*value.values()] if isinstance(value, dict) else [*fields_of(value).values()]
    for one in value if isinstance(value, tuple | list) else held:
        _refuse_acting(one)


def _is_misplaced(value: Any, *, constant: bool) -> bool:
    """Return whether an argument holds a tensor in anything but itself or a tuple."""
    if value is None or isinstance(value, int | float | str):
        return False
    if isinstance(value, tuple):
        return any(_is_misplaced(one, constant=constant) for one in value)
    if isinstance(value, tl.constexpr):
        return _is_misplaced(value.value, constant=True)
    held = [*value.values()] if isinstance(value, dict) else [*fields_of(value).values()]
    if isinstance(value, list) or held:
        return any(_is_misplaced(one, constant=True) for one in (value if isinstance(value, list) else held))
    return constant and (hasattr(value, "data_ptr") or hasattr(value, "block_shape"))
