"""Level the differences between the versions of Triton's interpreter, 3.6 to 3.9: one function or constant each.

All other modules of this room are written for the interpreter of 3.7. The text of each function here names the version
that changed it and why; the contract knows the differences of the installed version.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

_REREADS = "cv"


@dataclass(frozen=True)
class VersionDifference:
    """A change of the interpreter that this package knows.

    since: the first version with it. parameters: of changed or new methods, in order. gone: removed names, with all
    below them. computing: new functions of the compiled half that reach no memory.
    """

    since: tuple[int, int]
    reason: str
    parameters: Mapping[str, str] = field(default_factory=dict)
    gone: tuple[str, ...] = ()
    computing: tuple[str, ...] = ()


DIFFERENCES = (
    VersionDifference(
        (3, 8),
        "block pointers are made of plain pointers and masks by the language; 3.9 removes them",
        gone=(
            "BlockPointerHandle",
            "InterpreterBuilder.create_tensor_pointer_load",
            "InterpreterBuilder.create_make_block_ptr",
            "InterpreterBuilder.create_advance",
        ),
    ),
    VersionDifference(
        (3, 9),
        "cache modifier and eviction policy are one argument",
        parameters={
            "InterpreterBuilder.get_cache_policy": "self, cache_modifier, eviction_policy",
            "InterpreterBuilder.create_masked_load": "self, ptrs, mask, other, cache_policy, is_volatile",
            "InterpreterBuilder.create_masked_store": "self, ptrs, value, mask, cache_policy",
            "InterpreterBuilder.create_descriptor_load": "self, desc, indices, cache_policy",
        },
    ),
    VersionDifference(
        (3, 9),
        "descriptors can round float32 to TF32, and their mask is a handle",
        parameters={"TensorDescHandle": "base, shape, strides, block_shape, padding, round_f32_to_tf32"},
    ),
    VersionDifference(
        (3, 9),
        "a bfloat16 constant is made by the interpreter, too; ours rounds once",
        parameters={"InterpreterBuilder.get_bf16": "self, value"},
    ),
    VersionDifference(
        (3, 9), "tl.argmax, tl.argmin, tl.cumsum and tl.cumprod leave bfloat16 as it is; reductions.py widens it"
    ),
    VersionDifference(
        (3, 9),
        "tl.fma rounds once, in functions of the compiled half",
        computing=("_interpreter.fma_fp32", "_interpreter.fma_fp64"),
    ),
)


def level() -> None:
    """Patch this process's interpreter. Call it before every other patch."""
    _keep_cache_modifiers()
    _bare_masks_of_descriptors()


def rereads(how: Sequence[Any], named: Mapping[str, Any]) -> bool:
    """Return whether a load must see what other programs store: it is volatile, or its cache modifier is ".cv".

    how, named: the arguments of create_masked_load behind `other`. Since 3.9 one argument, `cache_policy`, stands for
    two; _keep_cache_modifiers makes it the modifier.
    """
    volatile = named["is_volatile"] if "is_volatile" in named else how[-1]
    return bool(volatile) or any(_name_of(one) == _REREADS for one in (*how, *named.values()))


def _name_of(option: Any) -> str:
    """Return the name of a cache modifier: a member of an enumeration, since 3.9 a text."""
    return str(getattr(option, "name", option)).lower()


def _keep_cache_modifiers() -> None:
    """Let a cache policy (since 3.9) be the cache modifier; the interpreter makes None of it."""
    from triton.runtime.interpreter import InterpreterBuilder

    if hasattr(InterpreterBuilder, "get_cache_policy"):
        InterpreterBuilder.get_cache_policy = lambda _, cache_modifier, eviction_policy: cache_modifier


def no_cache_policy() -> dict[str, None]:
    """Return the last arguments of create_masked_store for a store without a cache modifier or an eviction policy."""
    from triton.runtime.interpreter import InterpreterBuilder

    since_3_9 = hasattr(InterpreterBuilder, "get_cache_policy")
    return dict.fromkeys(("cache_policy",) if since_3_9 else ("cache_modifier", "eviction_policy"))


def _bare_masks_of_descriptors() -> None:
    """Let the mask of a descriptor's block be a bare array as before 3.9: the guard knows such an access by it."""
    from triton.runtime.interpreter import TensorDescHandle, TensorHandle

    materialize = TensorDescHandle.materialize_pointers

    def materialize_pointers(self: Any, offsets: Any) -> Any:
        pointers, mask = materialize(self, offsets)
        return pointers, mask.data if isinstance(mask, TensorHandle) else mask

    TensorDescHandle.materialize_pointers = materialize_pointers


def block_pointer_handle() -> type:
    """Return the class of block pointers; since 3.8 there is none, and nothing is one of the class returned."""
    from triton.runtime import interpreter

    return getattr(interpreter, "BlockPointerHandle", _NoBlockPointer)


class _NoBlockPointer:
    """Stands for the class of block pointers since 3.8."""


def has_block_pointers() -> bool:
    """Return whether the interpreter itself knows block pointers: before 3.8."""
    return block_pointer_handle() is not _NoBlockPointer
