"""What a kernel promises the compiler by hints is checked, along each run of neighbours."""

from __future__ import annotations

from dataclasses import replace

import pytest

from grader.exercise.catalogue import Entry
from grader.judge.trial import Trial
from grader.sandbox.server import ForkServer
from tests.benches import bench_of
from tests.judge.test_configurations import ONE

KERNEL = """
import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    loaded = offsets
    stored = offsets
    mask = offsets < n
    HINT
    x = tl.load(x_ptr + loaded, mask=mask)
    y = tl.load(y_ptr + loaded, mask=mask)
    tl.store(z_ptr + stored, x + y, mask=mask)


def vector_add(x, y):
    z = torch.empty_like(x)
    add_kernel[(triton.cdiv(x.numel(), 1024),)](x, y, z, x.numel(), BLOCK=1024)
    return z
"""
WRAPPED = "tl.max_contiguous(tl.multiple_of(offsets % n, BLOCK), BLOCK)"
EVERY = "mask = offsets >= 0"


def tried(server: ForkServer, entry: Entry, *lines: str) -> Trial:
    """Add 1500 numbers, two programs of 1024 elements, after these lines."""
    source = KERNEL.replace("HINT", "\n    ".join(lines))
    case = replace(ONE, case=ONE.case.changed(N=1500))
    with bench_of(server, entry, source) as bench:
        return bench.try_case(case.case, case.seed)


@pytest.mark.parametrize(
    "lines",
    [
        ("stored = tl.max_contiguous(tl.multiple_of(offsets, BLOCK), BLOCK)",),
        ("stored = tl.multiple_of(offsets % 256 + offsets // 256 * 256, 256)",),
        ("mask = tl.max_constancy(offsets < n, 4)",),
        ("rows = tl.multiple_of((tl.arange(0, 16) * 8)[:, None] + tl.arange(0, 4)[None, :], (1, 8))",),
        # Real code promises this of columns, and then gets rows: nothing is taken at once along the first axis.
        ("k = tl.multiple_of(x_ptr + (tl.arange(0, 16) * 5)[:, None] + tl.arange(0, 4)[None, :], (16, 1))",),
        # Real code promises this of rows that it loads: what starts again there is not stored.
        (f"loaded = {WRAPPED}",),
        # The same without a promise is stored one by one.
        ("loaded = offsets % n", "stored = offsets % n", EVERY),
        # A mask of each element keeps the accesses apart.
        (f"loaded = {WRAPPED}", "stored = offsets % n"),
    ],
)
def test_a_promise_that_holds_or_does_no_harm_is_believed(
    server: ForkServer, ex_15: Entry, lines: tuple[str, ...]
) -> None:
    assert tried(server, ex_15, *lines).failure is None


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (("stored = tl.multiple_of(offsets + 8, 16)",), "tl.multiple_of promises a multiple of 16, and here one is 8"),
        (("k = tl.multiple_of(offsets * 3, 3)", "k = tl.multiple_of(offsets * 3, 2)"), "of 2, and here one is 3"),
        (("k = tl.multiple_of(x_ptr + offsets * 5, 16)",), "this one is 4 bytes past one"),
        (
            ("k = tl.multiple_of(x_ptr + (tl.arange(0, 16) * 5)[:, None] + tl.arange(0, 4)[None, :], (1, 16))",),
            "this one is 4 bytes past one",
        ),
        (("mask = tl.max_constancy(offsets < n, 8)",), "tl.max_constancy promises that 8 neighbours are equal"),
        (("k = tl.max_contiguous(offsets * 2, 4)",), "tl.max_contiguous promises 4 neighbours, and here some are not"),
        ((f"loaded = {WRAPPED}", "stored = loaded", EVERY), "the indices of this store start again in between"),
    ],
)
def test_a_false_promise_is_told(server: ForkServer, ex_15: Entry, lines: tuple[str, ...], words: str) -> None:
    failure = tried(server, ex_15, *lines).failure
    assert failure is not None
    assert failure.cause.title == "A promise to the compiler is false"
    assert words in failure.cause.rationale


def test_what_an_earlier_launch_promised_is_forgotten(server: ForkServer, ex_15: Entry) -> None:
    lines = ("loaded = offsets % n", "stored = offsets % n", EVERY, "if HINTED:", f"    k = {WRAPPED}")
    source = KERNEL.replace("HINT\n", "\n    ".join(lines) + "\n").replace(
        "BLOCK: tl.constexpr", "BLOCK: tl.constexpr, HINTED: tl.constexpr"
    )
    launch = "    add_kernel[(triton.cdiv(x.numel(), 1024),)](x, y, z, x.numel(), BLOCK=1024"
    for hinted, told in (((True, False), "HINTED=True"), ((False, False), "")):
        launches = "\n".join(f"{launch}, HINTED={one})" for one in hinted)
        with bench_of(server, ex_15, source.replace(f"{launch})", launches)) as bench:
            failure = bench.try_case(ONE.case.changed(N=1500), ONE.seed).failure
        assert (told in failure.cause.traceback) if failure else not told
