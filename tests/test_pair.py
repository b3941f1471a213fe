"""The seed that counts follows from what was recorded; and what is lost in one process is forgotten in the other."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch

from grader.catalogue import Entry
from grader.sandbox.pair import seeds_after
from grader.sandbox.server import ForkServer
from tests.recordings import answer_in, recording


def told(*grid: int, first: int = 0) -> Any:
    """A trace of one launch; its storages are numbered from `first`."""
    windows = [[first, "float32", 0, [4], [1]], [first + 1, "float32", 0, [4], [1]]]
    steps = [["free", [first]], ["launch", 0, [*grid], [["tensor", 1]], {}, {}, 7]]
    message = {"arguments": {"x": first}, "windows": windows, "kernels": [], "steps": steps, "outputs": []}
    return SimpleNamespace(message=message)


def test_equal_traces_give_equal_seeds_whatever_their_storages_are_numbered() -> None:
    assert seeds_after([told(2)], "text")(1) == seeds_after([told(2, first=40)], "text")(1)


def test_another_trace_text_or_plan_gives_another_seed() -> None:
    seeds = {
        seeds_after([told(2)], "text")(1),
        seeds_after([told(3)], "text")(1),
        seeds_after([told(2)], "another text")(1),
        seeds_after([told(2)], "text")(2),
        seeds_after([told(2), told(2)], "text")(1),
    }
    assert len(seeds) == 5
    # Fewer bits could be searched while a call is recorded.
    assert max(seeds) > 1 << 48


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
