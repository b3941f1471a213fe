"""Some cases are judged as launch code makes them on a GPU with more multiprocessors."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

import pytest

from grader.exercise.cases import Case, Cases, Choice, Size, Space
from grader.exercise.catalogue import Entry
from grader.exercise.plan import PlannedCase
from grader.exercise.rules import Agrees
from grader.judge.bench import Bench
from grader.judge.rules.agrees import decide
from grader.judge.ruling import Ruling
from grader.judge.trial import CallRequest, Trial
from grader.sandbox.server import ForkServer
from tests.benches import VECTOR_ADD, bench_of

SPACE = Space(
    {"N": Size(1, 99999), "dtype": Choice(("float32",)), "values": Choice(("normal",)), "offset": Choice((0,))}
)
RULE = Agrees(Cases(SPACE, ({"N": 65},), generated=0))
LONG = Case({"N": 64 * 140, "dtype": "float32", "values": "normal", "offset": 0})

PERSISTENT = """
import torch
import triton
import triton.language as tl

def count():
    return torch.cuda.get_device_properties(0).multi_processor_count

AT_FIRST = count()

@triton.jit
def add(x_ptr, y_ptr, z_ptr, n, TILES: tl.constexpr, BLOCK: tl.constexpr):
    for tile in range(tl.program_id(0), tl.cdiv(n, BLOCK), TILES):
        offsets = tile * BLOCK + tl.arange(0, BLOCK)
        mask = offsets < n
        tl.store(z_ptr + offsets, tl.load(x_ptr + offsets, mask=mask) + tl.load(y_ptr + offsets, mask=mask), mask=mask)

def vector_add(x, y):
    z = torch.empty_like(x)
    add[(min(count(), MOST),)](x, y, z, x.numel(), TILES=count(), BLOCK=64)
    return z
"""


def ruled(server: ForkServer, entry: Entry, source: str, *cases: Case) -> Ruling:
    with bench_of(server, entry, source) as bench:
        return decide(bench, [PlannedCase(case, 3) for case in cases], RULE)


def test_a_kernel_that_is_wrong_on_a_larger_gpu_alone_fails_and_the_failure_says_so(
    server: ForkServer, ex_15: Entry
) -> None:
    ruling = ruled(server, ex_15, PERSISTENT.replace("MOST", "128"), LONG)
    assert ruling.failure is not None
    assert ruling.failure.cause.title.endswith("on a GPU with 192 multiprocessors")
    assert "With 28 the same call is right." in ruling.failure.cause.rationale
    assert ruling.failing == PlannedCase(LONG, 3)


@pytest.mark.parametrize(
    "source",
    [
        PERSISTENT.replace("MOST", "count()"),
        PERSISTENT.replace("MOST", "count()").replace("    z =", "    assert count() == AT_FIRST\n    z ="),
    ],
    ids=["asks at every call", "asks at first, too"],
)
def test_a_kernel_that_is_right_on_both_passes_whenever_it_asks(source: str, server: ForkServer, ex_15: Entry) -> None:
    assert ruled(server, ex_15, source, LONG).failure is None


def test_a_kernel_that_is_wrong_on_both_fails_as_usual(server: ForkServer, ex_15: Entry) -> None:
    ruling = ruled(server, ex_15, PERSISTENT.replace("MOST", "27"), LONG)
    assert ruling.failure is not None
    assert "multiprocessors" not in ruling.failure.cause.title


# A share of the multiprocessors for every block: 0 on a GPU that has fewer of them than there are blocks.
SHARES = PERSISTENT.replace("MOST", "count()").replace(
    "    z =", "    x.numel() // (count() // (x.numel() // 64))\n    z ="
)


@pytest.mark.parametrize(("blocks", "status"), [((100, 2), None), ((140, 2), "crash"), ((100, 140), "crash")])
def test_launch_code_may_raise_on_a_gpu_with_few_multiprocessors_but_not_on_the_usual_one(
    blocks: tuple[int, ...], status: str | None, server: ForkServer, ex_15: Entry
) -> None:
    ruling = ruled(server, ex_15, SHARES, *(LONG.changed(N=64 * number) for number in blocks))
    assert (ruling.failure.status if ruling.failure else None) == status
    assert ruling.metrics["cases"] == (len(blocks) if blocks[0] == 100 else 1)


def test_an_exception_that_comes_on_every_gpu_is_told_as_usual(server: ForkServer, ex_15: Entry) -> None:
    ruling = ruled(server, ex_15, PERSISTENT.replace("MOST", "1 // 0"), LONG)
    assert ruling.failure is not None
    assert "ZeroDivisionError" in ruling.failure.cause.rationale
    assert "multiprocessors" not in ruling.failure.cause.rationale


def test_smaller_cases_are_judged_on_the_larger_gpu_after_a_failure_there(server: ForkServer, ex_15: Entry) -> None:
    others = [LONG.changed(N=64 * blocks) for blocks in range(133, 139)]
    with bench_of(server, ex_15, PERSISTENT.replace("MOST", "128")) as bench:
        decide(bench, [PlannedCase(LONG, 3)], RULE)
        assert all(decide(bench, [PlannedCase(case, 3)], RULE).failure for case in others)


def test_a_case_where_the_size_changes_no_launch_is_not_replayed_again(
    server: ForkServer, ex_15: Entry, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries, tried = Bench.tries, list[Case]()

    def noted(bench: Bench, requests: Sequence[CallRequest], **how: Any) -> Generator[Trial]:
        tried.extend(one.case for one in requests)
        return tries(bench, requests, **how)

    monkeypatch.setattr(Bench, "tries", noted)
    assert ruled(server, ex_15, VECTOR_ADD, LONG).failure is None
    assert tried == [LONG]
    assert ruled(server, ex_15, PERSISTENT.replace("MOST", "count()"), LONG).failure is None
    assert tried == 3 * [LONG]
