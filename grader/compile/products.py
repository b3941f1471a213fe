"""Leaves out torch's matrix products where only a trace is wanted: on a CPU they take minutes."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map

from grader.calls.modes import LightMode

# At sizes that are nothing to a GPU.
_CONTRACTIONS = frozenset({"mm", "bmm", "addmm", "baddbmm", "mv", "addmv", "convolution"})
_ATTENTION = "_scaled_dot_product"


class WithoutProducts(LightMode):  # type: ignore[no-untyped-call]
    """A mode in which torch's matrix products only allocate their results: no launch depends on the values."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = kwargs or {}
        namespace, _, name = func._schema.name.partition("::")
        multiplies = name in _CONTRACTIONS or name.startswith(_ATTENTION)
        if namespace != "aten" or not multiplies or func._schema.is_mutable:
            return func(*args, **given)
        result = func(*tree_map(_shape_of, args), **tree_map(_shape_of, given))
        return tree_map(lambda one: torch.empty_like(one, device="cpu") if isinstance(one, Tensor) else one, result)


def _shape_of(one: Any) -> Any:
    return one.to("meta") if isinstance(one, Tensor) else one
