"""Leave out what computes only values, where only a trace is wanted.

These are torch's matrix products, random numbers, and whatever reads or writes a large tensor: a call of gigabytes is
recorded in milliseconds, and takes no memory, for no page of its tensors is touched.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map

from grader.calls.modes import LightMode
from grader.protocol.trace import span

# Contractions take minutes on a CPU, at sizes that are nothing to a GPU.
_CONTRACTIONS = frozenset({"mm", "bmm", "addmm", "baddbmm", "mv", "addmv", "convolution"})
_ATTENTION = "_scaled_dot_product"
# Drawing inputs takes longer than recording a call. Whole numbers may be sizes or places, so they are drawn.
_RANDOM = frozenset({"randn", "rand"})
_FILLED = frozenset({"zeros", "ones", "full"})
# The elements of a large tensor. Launch code reads sizes and places from smaller ones.
_LARGE = 1 << 20


class WithoutValues(LightMode):  # type: ignore[no-untyped-call]
    """A mode in which matrix products, random floats and operators on large tensors only allocate their results.

    No launch depends on these. An operator that changes a large tensor does nothing.
    """

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = kwargs or {}
        namespace, _, name = func._schema.name.partition("::")
        if namespace == "aten" and (name in _RANDOM or (name in _FILLED and prod(args[0]) > _LARGE)):
            return _blank(args[0], given.get("dtype"), given.get("device"))
        multiplies = name in _CONTRACTIONS or name.startswith(_ATTENTION)
        if namespace != "aten" or func.is_view or not (multiplies or _is_large(args)):
            return func(*args, **given)
        if func._schema.is_mutable:
            # In place; others name the tensor that they write to.
            return args[0] if name.endswith("_") and _is_large(args[:1]) else func(*args, **given)
        try:
            result = func(*tree_map(_shape_of, args), **{**tree_map(_shape_of, given), **_on_meta(given)})
        except (NotImplementedError, RuntimeError):
            if multiplies:
                raise
            # The shape of the result depends on values.
            return func(*args, **given)
        return tree_map(_allocated, result)


def _is_large(args: Any) -> bool:
    return any(isinstance(one, Tensor) and one.numel() > _LARGE for one in tree_leaves(args))


def _on_meta(given: dict[str, Any]) -> dict[str, str]:
    return {"device": "meta"} if given.get("device") is not None else {}


def _allocated(one: Any) -> Any:
    """Return memory for a result without values."""
    if not isinstance(one, Tensor):
        return one
    return _blank([span(one.shape, one.stride())], one.dtype).as_strided(one.shape, one.stride())


def _blank(size: Sequence[int], dtype: torch.dtype | None, device: object = None) -> Tensor:
    """Return a new tensor, of zeros unless it is large: those would touch its pages."""
    make: Any = torch.empty if prod(size) > _LARGE else torch.zeros
    blank: Tensor = make(size, dtype=dtype, device=device)
    return blank


def _shape_of(one: Any) -> Any:
    return one.to("meta") if isinstance(one, Tensor) else one
