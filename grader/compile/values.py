"""Leave out what computes only values, where only a trace is wanted: torch's matrix products, and random numbers."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map

from grader.calls.modes import LightMode

# Contractions take minutes on a CPU, at sizes that are nothing to a GPU.
_CONTRACTIONS = frozenset({"mm", "bmm", "addmm", "baddbmm", "mv", "addmv", "convolution"})
_ATTENTION = "_scaled_dot_product"
# Drawing inputs takes longer than recording a call. Whole numbers may be sizes or places, so they are drawn.
_RANDOM = frozenset({"randn", "rand"})


class WithoutValues(LightMode):  # type: ignore[no-untyped-call]
    """A mode in which matrix products and random floats only allocate their results: no launch depends on them."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = kwargs or {}
        namespace, _, name = func._schema.name.partition("::")
        if namespace == "aten" and name in _RANDOM:
            return torch.zeros(args[0], dtype=given.get("dtype"), device=given.get("device"))
        multiplies = name in _CONTRACTIONS or name.startswith(_ATTENTION)
        if namespace != "aten" or not multiplies or func._schema.is_mutable:
            return func(*args, **given)
        result = func(*tree_map(_shape_of, args), **tree_map(_shape_of, given))
        return tree_map(lambda one: torch.empty_like(one, device="cpu") if isinstance(one, Tensor) else one, result)


def _shape_of(one: Any) -> Any:
    return one.to("meta") if isinstance(one, Tensor) else one
