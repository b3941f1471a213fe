"""The line that makes the NaN of a result is told; infinities and NaN that reach no result are not."""

from __future__ import annotations

from pathlib import Path

import pytest

from grader.diagnosis.probes.nonfinite import nonfinite_clues
from grader.exercise.cases import Case
from grader.exercise.catalogue import resolve
from grader.sandbox.server import ForkServer
from tests.benches import bench_of

pytestmark = pytest.mark.process

ENTRY, _ = resolve(Path(__file__).resolve().parents[2], "ex_15")
SOURCE = """import torch
import triton
import triton.language as tl


@triton.jit
def softmax(x_ptr, p_ptr, N, BLOCK: tl.constexpr):
    columns = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(0) * N + columns, mask=columns < N, other=float("-inf"))
    top = tl.max(x, 0)
    m = tl.full((BLOCK,), float("-inf"), tl.float32)
    # Of lanes without an element, and so of no importance.
    unused = tl.sum(x - x, 0) * 0
    STEPS
    tl.store(p_ptr + tl.program_id(0) * N + columns, p, mask=columns < N)


def row_softmax(x):
    x = x.contiguous()
    p = torch.empty_like(x)
    softmax[(x.shape[0],)](x, p, x.shape[1], BLOCK=128)
    return p
"""
LAST = """import torch
import triton
import triton.language as tl


@triton.jit
def last(v_ptr, lengths_ptr, o_ptr, own_ptr, vb, vh, vs, Hq, group, D: tl.constexpr):
    b, h = tl.program_id(0), tl.program_id(1)
    slot = tl.load(lengths_ptr + b)
    v = tl.load(v_ptr + b * vb + h // group * vh + slot * vs + tl.arange(0, D))
    tl.store(o_ptr + (b * Hq + h) * D + tl.arange(0, D), VALUE)


def decode_attention(q, k_cache, v_cache, lengths, scale=None):
    (B, Hq, D), o = q.shape, torch.empty_like(q)
    own = torch.empty_like(o)
    last[(B, Hq)](v_cache, lengths, o, own, *v_cache.stride()[:3], Hq, Hq // v_cache.shape[1], D=D)
    return o
"""
RIGHT = "e = tl.exp(x - top); p = e / tl.sum(e, 0)"


@pytest.mark.parametrize(
    ("steps", "values", "kind", "words"),
    [
        (RIGHT, "large", "", ""),
        ("e = tl.exp(x); p = e / tl.sum(e, 0)", "shifted", "overflow", "Line 14 makes infinity: exp("),
        ("e = tl.exp(x - top); p = e / tl.sum(e * 0, 0)", "normal", "overflow", " / 0; with a number there"),
        ("e = tl.exp(x - top) * 0; p = e / tl.sum(e, 0)", "normal", "zero_divided", "Line 14 makes NaN: 0 / 0"),
        (
            "e = tl.exp(tl.where(columns < N, x - top, 200.0)) * (columns < N); p = e / tl.sum(e, 0)",
            "normal",
            "masked_by_product",
            "makes NaN: inf * 0. With 0 there, this call is right.",
        ),
        ("e = tl.exp(x - top) + (m - m); p = e / tl.sum(e, 0)", "normal", "inf_minus_inf", "makes NaN: -inf - -inf"),
        (
            "e = tl.exp(tl.where(columns < N, x - top, 200.0)); p = e / tl.sum(tl.where(columns < N, e, e / e), 0)",
            "normal",
            "padding_counted",
            "These values are all in masked lanes of a load.",
        ),
        (
            "e = tl.exp(x - top); p = (tl.where(columns < N, 1e5, 0.0) + e).to(tl.float16).to(tl.float32)",
            "normal",
            "overflow",
            "Line 14 makes infinity: 1e+05 as float16; with a number there, the result is finite.",
        ),
        (
            "e = tl.exp(x - top)\n    off = m - m\n    p = e / tl.sum(e, 0) + off + (m - m)",
            "normal",
            "inf_minus_inf",
            "Line 15 makes NaN: -inf - -inf; with a number there and in line 16, the result",
        ),
    ],
    ids=[
        "right",
        "overflow",
        "divided by zero",
        "zero by zero",
        "masked by a product",
        "infinities",
        "padding",
        "cast",
        "infinities in two lines",
    ],
)
def test_the_line_that_makes_the_nan_of_a_result_is_told(
    server: ForkServer, steps: str, values: str, kind: str, words: str
) -> None:
    case = Case({"M": 2, "N": 100, "dtype": "float32", "values": values, "stride": 0})
    with bench_of(server, ENTRY, SOURCE.replace("STEPS", steps), part="row_softmax") as bench:
        failure = bench.try_case(case, 5).failure
        assert (failure is None) == (not kind)
        clues = nonfinite_clues(bench, failure) if failure else []
        found = [one for one in clues if not one.refutes]
        assert [one.kind for one in found] == ([kind] if kind else [])
        # A line that makes NaN of 0 or of infinities overflows nowhere.
        refuted = [one.kind for one in clues if one.refutes]
        assert refuted == (["overflow"] if kind in ("zero_divided", "inf_minus_inf") else [])
        assert all(words in one.evidence for one in found), found
        # Notes of one call change no later one.
        again = bench.try_case(case, 5).failure
        assert (again is None) == (failure is None)


@pytest.mark.parametrize(
    ("value", "kinds"),
    [
        ("v", ["wrong_address", "past_length"]),
        ("v * 0 + tl.load(own_ptr)", ["wrong_address", "past_length"]),
        ("1.0", []),
    ],
    ids=["of an input", "of an input and of own memory", "none"],
)
def test_nan_that_no_line_makes_and_no_memory_of_the_calls_own_holds_comes_from_an_input(
    server: ForkServer, value: str, kinds: list[str]
) -> None:
    entry, _ = resolve(Path(__file__).resolve().parents[2], "ex_19")
    part = entry.exercise.part("decode_attention")
    assert part is not None
    (check,) = (one for one in part.checks if one.name == "ragged")
    assert check.cases is not None
    case = check.cases.space.case(B=2, S=40, unused=24, lengths="equal")
    with bench_of(server, entry, LAST.replace("VALUE", value), part="decode_attention") as bench:
        failure = bench.try_case(case, 5).failure
        assert failure
        found = nonfinite_clues(bench, failure)
    assert [one.kind for one in found] == kinds
    assert all(one.evidence.endswith("loads an element of k_cache or v_cache that is NaN.") for one in found)
