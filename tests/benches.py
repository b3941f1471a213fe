"""A submission on its bench: calls in a process of its own, examined beside the truth, with no grading around them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from grader.exercise.catalogue import Entry
from grader.exercise.model import Limits
from grader.judge.bench import Bench
from grader.judge.oracle_prefetch import OraclePrefetch
from grader.judge.truth import Truth
from grader.sandbox.pair import paired
from grader.sandbox.process_spec import ProcessSpec
from grader.sandbox.server import ForkServer
from tests.racing import session_of

# A correct submission for ex_15, whose last block is masked; tests put mistakes into it.
VECTOR_ADD = """import torch
import triton
import triton.language as tl

@triton.jit
def add(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(z_ptr + offsets, x + y, mask=mask)

def vector_add(x, y):
    z = torch.empty_like(x)
    add[(triton.cdiv(x.numel(), 64),)](x, y, z, x.numel(), BLOCK=64)
    return z
"""


@contextmanager
def bench_of(
    server: ForkServer, entry: Entry, source: str | Path, part: str = "vector_add", limits: Limits | None = None
) -> Iterator[Bench]:
    """The bench of one part of a submission, whose file is loaded. limits: those of the exercise, or others."""
    found = entry.exercise.part(part)
    assert found is not None
    text = source.read_text(encoding="utf-8") if isinstance(source, Path) else source
    truth, spec = Truth.of(entry), ProcessSpec.of(server, entry, text)
    spec = replace(spec, limits=limits or spec.limits)
    with (
        session_of(server, entry, text) as session,
        paired(spec, session) as pair,
        OraclePrefetch(truth) as prefetch,
    ):
        session.load()
        yield Bench(pair, truth, found, "x.py", "cpu", "", prefetch)
