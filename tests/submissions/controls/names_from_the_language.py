"""Names taken out of triton.language, functions and loops too, a kernel whose text speaks of definitions, and modes
that are texts.
"""

import enum
import logging
import sys

import torch
import triton
from triton.language import arange, constexpr, load, program_id, static_range, store
from triton.language import where as choose


class Mode(str, enum.Enum):
    """How the result is written."""

    WHOLE = "whole"
    MASKED = "masked"


@triton.jit
def _vector_add(x_ptr, y_ptr, z_ptr, n, MODE: constexpr, BLOCK: constexpr):
    """One block.

    def is how a definition begins, here as everywhere.
    """
    offsets = program_id(0) * BLOCK + arange(0, BLOCK)
    inside = offsets < n
    total = load(x_ptr + offsets, mask=inside, other=0.0)
    for _ in static_range(1):
        total += load(y_ptr + offsets, mask=inside, other=0.0)
    if MODE == "masked":
        total = choose(inside, total, 0.0)
    store(z_ptr + offsets, total, mask=inside)


def vector_add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    z = torch.empty_like(x)
    _vector_add[(triton.cdiv(x.numel(), 1024),)](x, y, z, x.numel(), Mode.MASKED, BLOCK=1024)
    return z


def _told(kind, fault, trace):
    logging.getLogger(__name__).error("%s: %s", kind.__name__, fault)


sys.excepthook = _told
logging.captureWarnings(True)
