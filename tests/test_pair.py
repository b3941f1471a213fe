"""The seed that counts follows from what was recorded; and what is lost in one process is forgotten in the other."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch

from grader.catalogue import Entry
from grader.protocol.trace import fingerprint
from grader.sandbox.pair import seeds_after
from grader.sandbox.server import ForkServer
from tests.recordings import answer_in, recording


def message(*grid: int, first: int = 0) -> dict[str, Any]:
    """A trace of one launch; its storages are numbered from `first`."""
    windows = [[first, "float32", 0, [4], [1]], [first + 1, "float32", 0, [4], [1]]]
    steps = [["free", [first + 9]], ["launch", 0, [*grid], [["tensor", 1]], {}, {}, 7]]
    return {"arguments": {"x": first}, "windows": windows, "kernels": [], "steps": steps, "outputs": []}


def told(digest: bytes) -> Any:
    return SimpleNamespace(digest=digest)


def test_traces_that_do_the_same_are_equal_whatever_their_storages_are_numbered() -> None:
    assert fingerprint(message(2)) == fingerprint(message(2, first=40))
    assert fingerprint(message(2)) != fingerprint(message(3))


def test_another_trace_text_or_plan_gives_another_seed() -> None:
    one, other = told(b"one"), told(b"other")
    seeds = {
        seeds_after([one], "text")(1),
        seeds_after([other], "text")(1),
        seeds_after([one], "another text")(1),
        seeds_after([one], "text")(2),
        seeds_after([one, one], "text")(1),
    }
    assert len(seeds) == 5
    assert seeds_after([one], "text")(1) in seeds
    # Fewer bits could be searched while a call is recorded.
    assert max(seeds) > 1 << 48


def test_a_call_on_memory_of_an_earlier_one_depends_on_that_one(server: ForkServer, ex_15: Entry) -> None:
    source = """
kept = []

def vector_add(x, y):
    if not kept:
        kept.append(torch.full_like(x, float(len(open("text", "w+").read()))))
        return kept[0]
    return kept[0].clone()
"""
    with recording(server, ex_15, source) as one:
        digests = [one.record().digest for _ in range(3)]
    assert len(set(digests)) == 3


def test_a_process_that_was_replaced_is_recorded_and_replayed_afresh(server: ForkServer, ex_15: Entry) -> None:
    source = """
kept = []

def vector_add(x, y):
    if not kept:
        kept.append(torch.zeros_like(x))
    z = added(x, y)
    add[(2,)](z, kept[0], z, x.numel(), BLOCK=64)
    return z
"""
    with recording(server, ex_15, source) as one:
        first = one.record()
        answer_in(one.replay(first))
        one.pair._replayer.restart()
        again = one.record()
        assert (first.afresh, again.afresh) == (True, True)
        torch.testing.assert_close(answer_in(one.replay(again)), one.wanted(), rtol=0, atol=0)
        assert not one.record().afresh
