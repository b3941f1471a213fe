"""A launch is replayed with the arguments that it was recorded with."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor as OfGluon
from triton.tools.tensor_descriptor import TensorDescriptor

from grader.protocol.trace import Launch
from grader.protocol.trace_decoding import decode_trace
from grader.recorder.encoding import ValueEncoder
from grader.replay.arguments import ArgumentBuilder

TENSOR = torch.zeros(4, 64, dtype=torch.float16)
LAYOUT = gl.NVMMASharedLayout(swizzle_byte_width=128, element_bitwidth=16, rank=2)


@pytest.mark.parametrize(
    "descriptor",
    [
        TensorDescriptor(TENSOR, [4, 64], [64, 1], [2, 64]),
        OfGluon(TENSOR, [4, 64], [64, 1], [2, 64], LAYOUT),
    ],
    ids=["triton", "gluon"],
)
def test_a_descriptor_comes_back_as_it_was(descriptor: Any) -> None:
    told = ValueEncoder(window=lambda _: 0, kernel=lambda _: 0).encode(descriptor)
    (launch,) = decode_trace(
        {
            "arguments": {},
            "windows": [[0, "float16", 0, [4, 64], [64, 1]]],
            "kernels": [{"name": "kernel", "line": 3, "kind": "gluon", "names": {}, "options": {}}],
            "steps": [["launch", 0, [1], [told], {}, {}, 9, False]],
            "outputs": [],
        }
    ).steps
    assert isinstance(launch, Launch)
    build = ArgumentBuilder(lambda _: TENSOR, lambda _: None, TENSOR.device)
    built = build.of_launch(launch.args[0])
    # Field by field, and by identity first: from Python 3.13 on, `==` of descriptors compares their tensors' elements.
    assert (type(built), vars(built)) == (type(descriptor), vars(descriptor))
