"""Refuse a descriptor that a kernel makes where launch code has lent no memory: a compiled kernel keeps it there."""

from __future__ import annotations

from typing import Any

from grader.interpreter.once import replace_in_language


def ask_before_descriptors() -> None:
    """Patch this process's interpreter. Call it before the submission is loaded."""
    from triton.runtime.interpreter import interpreter_semantic, tl

    make = tl.core.make_tensor_descriptor

    def make_tensor_descriptor(*args: Any, **named: Any) -> Any:
        _ask_for_workspace()
        return make(*args, **{**named, "_semantic": interpreter_semantic})

    # A descriptor of the host goes into a kernel another way.
    replace_in_language({"make_tensor_descriptor": make_tensor_descriptor})


def _ask_for_workspace() -> None:
    """Raise RuntimeError if this launch has no allocator, as Triton does on a GPU."""
    from triton.runtime._allocation import NullAllocator, _allocator

    is_lent = not isinstance(_allocator.get(), NullAllocator)
    if not is_lent:
        raise RuntimeError(
            "a kernel that makes a descriptor must be lent memory on the GPU, got no allocator: write "
            'triton.set_allocator(lambda size, alignment, stream: torch.empty(size, dtype=torch.int8, device="cuda")) '
            "before the launch"
        )
