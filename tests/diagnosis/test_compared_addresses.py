"""A mask that compares an address with a length lets only the first program through, and the card says so."""

from __future__ import annotations

import pytest

from grader.diagnosis.edits.compared_addresses import compared_address_clue
from grader.diagnosis.edits.edited import Edited
from grader.diagnosis.edits.edits import scopes_of
from grader.diagnosis.edits.repairs import kernels_in
from grader.exercise.cases import Case
from grader.exercise.catalogue import Entry
from grader.sandbox.server import ForkServer
from tests.benches import bench_of

pytestmark = pytest.mark.process

CASE = Case({"M": 3, "N": 40, "dtype": "float32", "values": "normal", "stride": 0})
SOURCE = """import torch
import triton
import triton.language as tl


@triton.jit
def rows(x_ptr, p_ptr, stride, n, total, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    lanes = tl.arange(0, BLOCK)
    offsets = row * stride + lanes
    mask = INDEX
    tl.store(p_ptr + offsets, tl.load(x_ptr + offsets, mask=mask), mask=mask)


def row_softmax(x):
    p = torch.empty_like(x)
    rows[(x.shape[0],)](x, p, x.stride(0), x.shape[1], x.numel(), BLOCK=triton.next_power_of_2(x.shape[1]))
    return p
"""


@pytest.mark.parametrize(
    ("mask", "is_told"),
    [("offsets < n", True), ("row * n + lanes < n", True), ("lanes < n", False), ("offsets < total", False)],
)
def test_a_length_of_one_row_is_no_bound_of_an_address(
    server: ForkServer, ex_15: Entry, mask: str, *, is_told: bool
) -> None:
    source = SOURCE.replace("INDEX", mask)
    with bench_of(server, ex_15, source, "row_softmax") as bench:
        failure = bench.try_case(CASE, 5).failure
        assert failure
        assert failure.wrong_call
        recorded = Edited.of(bench, failure.wrong_call.recipe).recorded
    assert recorded
    clue = compared_address_clue(scopes_of(source, kernels_in(recorded.trace), "row_softmax"))
    assert (clue is not None) is is_told
    if clue is not None:
        assert f"`{mask}`" in clue.evidence
