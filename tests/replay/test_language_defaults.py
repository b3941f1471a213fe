"""Launch code may set what `tl.dot` does with float32 for all kernels: the replay of a launch does the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from grader.exercise.cases import Case
from grader.exercise.catalogue import resolve
from grader.sandbox.server import ForkServer
from tests.benches import bench_of

pytestmark = pytest.mark.process

ENTRY, _ = resolve(Path(__file__).resolve().parents[2], "ex_16")
CASE = Case({"M": 16, "N": 16, "K": 64, "dtype": "float32", "values": "normal", "a_layout": "rows", "b_layout": "rows"})
SOURCE = """import os

import torch
import triton
import triton.language as tl


@triton.jit
def product(a_ptr, b_ptr, c_ptr, K: tl.constexpr):
    rows, depth = tl.arange(0, 16)[:, None], tl.arange(0, K)
    a = tl.load(a_ptr + rows * K + depth[None, :])
    b = tl.load(b_ptr + depth[:, None] * 16 + tl.arange(0, 16)[None, :])
    tl.store(c_ptr + rows * 16 + tl.arange(0, 16)[None, :], tl.dot(a, b))


def matmul(a, b):
    c = torch.empty((16, 16), device=a.device, dtype=a.dtype)
    LAUNCH
    return c
"""
SCOPED = "with triton.knobs.language.scope():\n        triton.knobs.language.fp32_default = 'ieee'\n        "
LAUNCH = "product[(1,)](a, b, c, K=64)"


@pytest.mark.parametrize(
    ("launch", "is_right"),
    [
        (LAUNCH, False),
        (f"{SCOPED}{LAUNCH}", True),
        (f"triton.knobs.language.fp32_default = 'tf32x3'; {LAUNCH}", True),
        (f"os.environ['TRITON_F32_DEFAULT'] = 'ieee'; {LAUNCH}", True),
        (f"os.environ['TRITON_F32_DEFAULT'] = 'tf32'; {LAUNCH}", False),
        # One launch after the other, each with its own.
        (f"{LAUNCH}; triton.knobs.language.fp32_default = 'ieee'; {LAUNCH}", True),
    ],
)
def test_a_launch_multiplies_float32_as_its_launch_code_has_set_it(
    server: ForkServer, launch: str, is_right: bool
) -> None:
    with bench_of(server, ENTRY, SOURCE.replace("LAUNCH", launch), part="matmul") as bench:
        assert (bench.try_case(CASE, 1).failure is None) == is_right
