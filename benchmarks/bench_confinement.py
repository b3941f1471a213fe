"""Measure the cost of confining a child: from the fork to its end, with all layers that hold here and with none."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Iterator

import pytest
import torch

from grader.confinement.confine import confine
from grader.sandbox.scratch import Scratch

_CHILDREN = 20
_LIMITS = {"address_space_bytes": 4 << 30, "processes": 64, "file_bytes": 1 << 30}


@pytest.fixture
def scratch() -> Iterator[Scratch]:
    with Scratch() as one:
        yield one


def lived(scratch: Scratch, *, confined: bool) -> float:
    """Return the milliseconds of an idle child's life. It starts with torch loaded, as in the fork server."""
    assert torch.__name__
    started = time.perf_counter()
    pid = os.fork()
    if pid == 0:
        layers = confine(str(scratch.folder), scratch.uid, _LIMITS) if confined else ("seccomp",)
        os._exit(0 if "seccomp" in layers else 1)
    assert os.waitpid(pid, 0)[1] == 0
    return 1e3 * (time.perf_counter() - started)


def bench_confinement(benchmark, scratch):
    benchmark.pedantic(lived, args=(scratch,), kwargs={"confined": True}, rounds=_CHILDREN, warmup_rounds=2)
    bare = statistics.median(lived(scratch, confined=False) for _ in range(_CHILDREN))
    cost = 1e3 * statistics.median(benchmark.stats.stats.data) - bare
    benchmark.extra_info["confinement_ms"] = cost
    print(f"\na child lives {bare:.1f} ms; confined {cost:.1f} ms longer (promised: 60)")
