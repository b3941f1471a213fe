"""Operands of products whose indices do not fit are transposed first; those of honest kernels are not."""

from __future__ import annotations

import pytest

from grader.diagnosis.edits.edit_scope import MOST
from grader.diagnosis.edits.edits import edits_of

SOURCE = """import triton
import triton.language as tl


@triton.jit
def attention(q_ptr, k_ptr, v_ptr, do_ptr, o_ptr, dv_ptr, n, D: tl.constexpr, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    keys = tl.arange(0, BLOCK)
    dims = tl.arange(0, D)
    q = tl.load(q_ptr + rows[:, None] * D + dims[None, :], mask=rows[:, None] < n, other=0.0)
    k = tl.load(k_ptr + keys[:, None] * D + dims[None, :], mask=keys[:, None] < n, other=0.0)
    v_ptrs = v_ptr + keys[:, None] * D + dims[None, :]
    v = tl.load(v_ptrs)
    do = tl.load(do_ptr + rows[:, None] * D + dims[None, :])
    s = tl.dot(q, tl.trans(k))
    p = tl.exp(s - tl.max(s, 1)[:, None])
    acc = tl.zeros((BLOCK, D), tl.float32)
    acc += tl.dot(p.to(v.dtype), v)
    dv = tl.dot(tl.trans(p), do)
    tl.store(o_ptr + rows[:, None] * D + dims[None, :], acc)
    tl.store(dv_ptr + keys[:, None] * D + dims[None, :], dv)


def attend(x):
    attention[(1,)](x, x, x, x, x, x, 16, D=16, BLOCK=16)
"""


def likely(source: str) -> list[tuple[str, str]]:
    """Return the likely edits that transpose an operand: what they replace, and by what."""
    found = edits_of(source, {("attention", 5): ((), {"n": 16, "D": 16, "BLOCK": 16})}, "attend")
    return [(one.before, one.after) for one in found if "operand_transposed" in one.kinds and one.weight >= MOST]


def test_products_whose_indices_fit_keep_their_operands() -> None:
    assert likely(SOURCE) == []


@pytest.mark.parametrize(
    ("right", "wrong", "edit"),
    [
        ("tl.dot(q, tl.trans(k))", "tl.dot(q, k)", ("k", "tl.trans(k)")),
        ("tl.dot(tl.trans(p), do)", "tl.dot(p, do)", ("p", "tl.trans(p)")),
        ("tl.dot(p.to(v.dtype), v)", "tl.dot(p.to(v.dtype), tl.trans(v))", ("tl.trans(v)", "v")),
    ],
)
def test_an_operand_whose_rows_are_columns_of_the_product_is_transposed(
    right: str, wrong: str, edit: tuple[str, str]
) -> None:
    assert right in SOURCE
    assert edit in likely(SOURCE.replace(right, wrong))


def test_names_that_double_what_they_are_made_of_are_followed_once() -> None:
    doubled = "\n    ".join(f"b{place} = b{place - 1} + b{place - 1}" for place in range(1, 27))
    assert likely(SOURCE.replace("    s = tl.dot", f"    b0 = k\n    {doubled}\n    k = b26\n    s = tl.dot")) == []


def test_an_operand_beside_one_of_another_function_is_known_by_its_own_indices() -> None:
    source = SOURCE.replace("tl.dot(q, tl.trans(k))", "tl.dot(given, k)")
    source = source.replace("tl.exp(s", "tl.exp(tl.where(keys[None, :] < n, s, 0.0)")
    assert ("k", "tl.trans(k)") in likely(source)
