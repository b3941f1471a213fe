"""What a kernel computes element by element is counted, whatever was computed before."""

from __future__ import annotations

import json

import pytest

from tests.interpreter.test_contract import python

pytestmark = pytest.mark.process

SCRIPT = """
import json
from grader.interpreter.corrections import apply_corrections
apply_corrections()
from grader.interpreter.memory import MemoryWatch
from grader.interpreter.once import patch_language_once
watch = MemoryWatch()
watch.install()
patch_language_once()
watch.run_in_lockstep()
import torch
from tests.interpreter.test_instructions import softmax_of_products
x, z = torch.ones(5 * 256), torch.empty(5 * 256)
for on in (False, True, True, False):
    watch.count_instructions(on)
    softmax_of_products()[(5,)](x, z, 0.5)
    one = watch.traffic
    print(json.dumps([one.dots, one.dot_flops, one.exponentials, one.operations]))
"""


def softmax_of_products() -> object:
    """Return a kernel whose programs each multiply a tile of 16 x 16 with itself, and normalize its rows."""
    import triton
    import triton.language as tl

    @triton.jit
    def kernel(x_ptr, z_ptr, scale):  # type: ignore[no-untyped-def]
        rows, columns = tl.arange(0, 16)[:, None], tl.arange(0, 16)[None, :]
        # 16 multiplications; then 256 additions, and additions to a pointer, for each load and store.
        places = tl.program_id(0) * 256 + (rows * 16 + columns)
        x = tl.load(x_ptr + places)
        s = tl.dot(x, x, input_precision="ieee") * scale
        p = tl.exp(s - tl.max(s, 1)[:, None])
        tl.store(z_ptr + places, p / tl.sum(p, 1)[:, None])

    return kernel


def test_an_element_counts_once_for_each_operation_and_numbers_of_all_threads_for_none() -> None:
    ran = python(SCRIPT)
    counted = [json.loads(line) for line in ran.stdout.splitlines() if line.startswith("[")]
    products = [5, 5 * 2 * 16**3]
    without = [*products, 0, 0]
    # places twice, pointers twice, scale, difference; max and sum read each element once.
    with_all = [*products, 5 * 2 * 256, 5 * (16 + 8 * 256)]
    assert counted == [without, with_all, with_all, without], ran.stderr
