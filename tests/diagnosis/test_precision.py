"""A dtype with too few bits is found in what a kernel adds up, and the card names its line."""

from __future__ import annotations

from dataclasses import replace

import pytest

from grader.diagnosis.edits.edit_scope import Edit
from grader.diagnosis.edits.edits import edits_of
from grader.exercise.catalogue import resolve
from grader.sandbox.server import ForkServer
from tests.claims import ROOT
from tests.conftest import answered, plan_with

PRODUCT = """import torch
import triton
import triton.language as tl

@triton.jit
def product(a_ptr, b_ptr, c_ptr, M, N, K, am, ak, bk, bn, cm, cn, NARROW: tl.constexpr, B: tl.constexpr):
    rows = tl.program_id(0) * B + tl.arange(0, B)[:, None]
    columns = tl.program_id(1) * B + tl.arange(0, B)[None, :]
    steps = tl.arange(0, B)
    acc = START
    for k in range(0, K, B):
        across, down = k + steps[None, :], k + steps[:, None]
        a = tl.load(a_ptr + rows * am + across * ak, mask=(rows < M) & (across < K), other=0.0)
        b = tl.load(b_ptr + down * bk + columns * bn, mask=(down < K) & (columns < N), other=0.0)
        acc = STEP
    c = acc.to(c_ptr.dtype.element_ty)
    tl.store(c_ptr + rows * cm + columns * cn, c, mask=(rows < M) & (columns < N))

def matmul(a, b):
    (M, K), N = a.shape, b.shape[1]
    c = torch.empty(M, N, dtype=a.dtype, device=a.device)
    grid = triton.cdiv(M, 32), triton.cdiv(N, 32)
    narrow = tl.float16 if a.dtype == torch.float16 else tl.float32
    product[grid](a, b, c, M, N, K, *a.stride(), *b.stride(), *c.stride(), NARROW=narrow, B=32)
    return c
"""
WIDE = "tl.zeros((B, B), dtype=tl.float32)"
EXACT = 'input_precision="ieee"'


def product(start: str, step: str) -> str:
    return PRODUCT.replace("START", start).replace("STEP", step)


def widened(source: str) -> list[Edit]:
    found = edits_of(source, {("product", 5): ((), {"NARROW": "tl.float16"})}, "matmul")
    return [one for one in found if one.kinds[0] == "low_precision_sum" and "tl.float32" in one.after and one.help]


@pytest.mark.parametrize(
    ("start", "step", "line", "words"),
    [
        (WIDE, "acc + tl.dot(a, b, out_dtype=tl.float16)", 15, "out_dtype=tl.float16"),
        (WIDE, "acc + tl.dot(a, b, out_dtype=NARROW)", 15, "out_dtype=NARROW"),
        (WIDE, "acc + tl.dot(a, b).to(tl.bfloat16)", 15, ".to(tl.bfloat16)"),
        ("tl.zeros((B, B), NARROW)", "acc + tl.dot(a, b)", 10, "NARROW"),
        ("tl.full((B, B), 0.0, dtype=tl.float16)", "acc + tl.dot(a, b)", 10, "dtype=tl.float16"),
    ],
)
def test_a_narrow_product_start_or_step_is_named_with_its_line(start: str, step: str, line: int, words: str) -> None:
    (edit,) = widened(product(start, step))
    assert edit.shown is not None
    assert (edit.line, edit.shown[1]) == (line, words)
    assert "float16" in edit.help


def test_two_narrow_dtypes_are_widened_one_by_one_and_together() -> None:
    source = product("tl.zeros((B, B), dtype=tl.float16)", "tl.dot(a, b, acc, out_dtype=tl.float16)")
    *alone, both = sorted(widened(source), key=lambda one: one.end - one.start)
    assert {one.line for one in alone} == {10, 15}
    assert "tl.float16" not in both.applied(source).split("def matmul")[0]


def test_the_operands_of_a_product_wide_dtypes_and_whole_numbers_may_stay_as_they_are() -> None:
    assert widened(product(WIDE, "acc + tl.dot(a.to(tl.float16), b, out_dtype=tl.float32)")) == []
    assert widened(product("tl.zeros((B, B), dtype=tl.int32)", "acc + tl.dot(a, b).to(tl.int32)")) == []


@pytest.mark.process
def test_the_card_of_errors_that_are_a_rounding_s_names_the_narrow_dtype(server: ForkServer) -> None:
    entry, _ = resolve(ROOT, "ex_16")
    source = product(WIDE, f"acc + tl.dot(a, b, {EXACT}, out_dtype=NARROW)")
    plan = plan_with(entry, "matmul.full_tiles")
    (planned,) = plan.checks
    half = next(one for one in planned.cases if one.case["dtype"] == "float16")
    small = replace(half, case=half.case.changed(M=64, N=64, K=96))
    record = answered(server, entry, source, replace(plan, checks=(replace(planned, cases=(small,)),)))
    (cause,) = (check.cause for check in record.checks if check.cause and check.status == "fail")
    first = cause.suspects[0]
    assert (first.kind, first.confirmed) == ("low_precision_sum", True)
    assert "`out_dtype=tl.float32` in place of `out_dtype=NARROW` in line 15" in first.evidence
    assert "tl.dot gives tl.float16 here" in first.help


def test_narrow_numbers_of_several_lines_are_shown_by_the_first_one_alone() -> None:
    source = """import triton.language as tl


def summed(x_ptr, o_ptr, n):
    acc = tl.zeros((16,), dtype=tl.float16)
    for k in range(n):
        acc += tl.load(x_ptr + k).to(tl.float16)
    tl.store(o_ptr, acc)
"""
    found = edits_of(source, {("summed", 4): ((), {})}, "none")
    assert ("tl.float32, there and in line 7,", "tl.float16") in {one.shown for one in found}
