"""Give Python's max and min in kernels the meaning that they have for the compiler: tl.maximum and tl.minimum.

So they compare blocks lane by lane, and scalars in their common type.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from typing import Any


def larger(*values: Any) -> Any:
    """Return the largest of constants as Python does; if one is a tensor, tl.maximum of all."""
    return reduce(_language().maximum, values) if _hold_tensor(values) else max(*values)


def smaller(*values: Any) -> Any:
    """Return the smallest of constants as Python does; if one is a tensor, tl.minimum of all."""
    return reduce(_language().minimum, values) if _hold_tensor(values) else min(*values)


EXTREMES: Mapping[str, Any] = {"max": larger, "min": smaller}


def _hold_tensor(values: tuple[Any, ...]) -> bool:
    return any(isinstance(one, _language().tensor) for one in values)


def _language() -> Any:
    import triton.language

    return triton.language
