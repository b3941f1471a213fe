"""A share of the work that is rounded down is rounded up by a repair, which ends at the whole length, too."""

from __future__ import annotations

import pytest

from grader.exercise.catalogue import Entry
from grader.sandbox.server import ForkServer
from tests.diagnosis.test_repairs import clues

# A kernel whose programs own a stretch each; tests put mistakes into it.
ADD = """import torch
import triton
import triton.language as tl

@triton.jit
def add(x_ptr, y_ptr, z_ptr, n, per, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    HEAD
    for at in range(BOUNDS, BLOCK):
        offsets = OFFSETS + tl.arange(0, BLOCK)
        mask = MASK
        x = tl.load(x_ptr + offsets, mask=mask)
        y = tl.load(y_ptr + offsets, mask=mask)
        tl.store(z_ptr + offsets, x + y, mask=mask)

def vector_add(x, y):
    z = torch.empty_like(x)
    n = x.numel()
    add[(3,)](x, y, z, n, n // 3, BLOCK=64)
    return z
"""


def add(head: str, bounds: str, offsets: str, mask: str) -> str:
    parts = {"HEAD": head, "BOUNDS": bounds, "OFFSETS": offsets, "MASK": mask}
    source = ADD
    for name, text in parts.items():
        source = source.replace(name, text)
    return source


ROUNDED = "`tl.cdiv(n, tl.num_programs(0))"


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (
            add(
                "share = n // tl.num_programs(0)", "pid * share, (pid + 1) * share", "at", "offsets < (pid + 1) * share"
            ),
            f"{ROUNDED}, and an end at n in line 9,` in place of `n // tl.num_programs(0)` in line 8",
        ),
        (
            add("share = n // tl.num_programs(0)", "0, share", "pid * share + at", "at + tl.arange(0, BLOCK) < share"),
            f"{ROUNDED}, and a mask at n in line 12,` in place of `n // tl.num_programs(0)` in line 8",
        ),
        (
            add("end = (pid + 1) * per", "pid * per, end", "at", "offsets < end"),
            "`n, in the last program,` in place of `end` in line 9",
        ),
    ],
    ids=["an end", "a mask", "launch code"],
)
def test_a_share_that_is_rounded_down_leaves_no_remainder(
    server: ForkServer, ex_15: Entry, source: str, words: str
) -> None:
    (clue,) = clues(server, ex_15, source)
    assert (clue.kind, clue.confirmed) == ("remainder_skipped", True)
    assert words in clue.evidence


def test_a_program_that_takes_several_blocks_starts_after_all_blocks_of_the_one_before(
    server: ForkServer, ex_15: Entry
) -> None:
    source = """import torch
import triton
import triton.language as tl

@triton.jit
def add(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr, ITEMS: tl.constexpr):
    for item in tl.static_range(ITEMS):
        offsets = tl.program_id(0) * BLOCK + item * BLOCK + tl.arange(0, BLOCK)
        mask = offsets < n
        x = tl.load(x_ptr + offsets, mask=mask)
        tl.store(z_ptr + offsets, x + tl.load(y_ptr + offsets, mask=mask), mask=mask)

def vector_add(x, y):
    z = torch.empty_like(x)
    add[(triton.cdiv(x.numel(), 64 * 4),)](x, y, z, x.numel(), BLOCK=64, ITEMS=4)
    return z
"""
    (clue,) = clues(server, ex_15, source)
    assert clue.kind == "not_all_covered"
    assert "With `(BLOCK * ITEMS)` in place of `BLOCK` in line 8" in clue.evidence
    assert clue.help == "A program takes ITEMS blocks in its loop: the next program starts after all of them."
