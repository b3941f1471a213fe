"""The seed that counts follows from what was recorded; and what is lost in one process is forgotten in the other."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from grader.exercise.catalogue import Entry
from grader.exercise.seeds import another, is_shared, shared
from grader.protocol.answers import Loaded
from grader.protocol.requests import Call, Recipe, Slot
from grader.protocol.trace import Recorded, Trace, fingerprint
from grader.protocol.trace_decoding import decode_trace
from grader.sandbox.pair import Pair, RecordedAnswer, decoys_of, seeds_after
from grader.sandbox.server import ForkServer
from tests.recordings import CASE, answer_in, recording


def message(*grid: int, first: int = 0) -> dict[str, Any]:
    """A trace of one launch; its storages are numbered from `first`."""
    windows = [[first, "float32", 0, [4], [1]], [first + 1, "float32", 0, [4], [1]]]
    steps = [["free", [first + 9]], ["launch", 0, [*grid], [["tensor", 1]], {}, {}, 7, False]]
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


def test_the_inputs_of_a_shared_seed_follow_from_it_alone() -> None:
    calls = [([told(b"one")], "text"), ([told(b"other")], "text"), ([told(b"one")], "another text")]
    assert len({seeds_after(*call)(shared(1)) for call in calls}) == 1
    assert len({seeds_after(*call)(1) for call in calls} | {seeds_after([], "")(shared(1))}) == 4
    assert [is_shared(another(seed)) for seed in (1, shared(1))] == [False, True]


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


class Forger:
    """A session whose process writes the traces itself: each of them, in turn."""

    starts = 1

    def __init__(self, *traces: dict[str, Any]) -> None:
        self._traces = iter(traces)

    def load(self) -> Loaded:
        return Loaded("loaded", ("vector_add",), ())

    def wake(self) -> None:
        """Nothing starts."""

    def record(self, _: object) -> tuple[Recorded, Trace]:
        trace = next(self._traces)
        return Recorded("recorded", trace), decode_trace(trace)


def forged(first: int, *storages: int, steps: list[Any]) -> dict[str, Any]:
    """A trace that shows windows of these storages."""
    windows = [[one, "float32", 0, [4], [1]] for one in storages]
    return {"arguments": {"x": first, "y": first + 1}, "windows": windows, "kernels": [], "steps": steps, "outputs": []}


@pytest.mark.parametrize("in_a_choice", [False, True])
def test_a_call_depends_on_bytes_that_an_earlier_trace_hid_in_a_storage_without_a_window(in_a_choice: bool) -> None:
    def digest(answers: str) -> tuple[bytes, frozenset[int]]:
        hidden = ["constant", 50, 16, answers]
        steps = [["free", [50]], ["choose", [[hidden]], 1] if in_a_choice else hidden]
        calls = forged(0, 50, 51, steps=[]), forged(2, 51, steps=steps), forged(4, 50, steps=[])
        session: Any = Forger(*calls)
        pair = Pair(session, [session])
        part = Call(Recipe("vector_add", CASE, 3), ("x", "y"), (), ())
        *_, last = [pair.record(part) for _ in calls]
        assert isinstance(last, RecordedAnswer)
        return last.digest, last.found

    assert digest("one")[0] != digest("other")[0]
    assert digest("one") == digest("one")
    assert digest("one")[1] == {50}


def test_a_call_depends_on_which_of_the_storages_it_finds_that_earlier_traces_left() -> None:
    def digest(found: int, *, backwards: bool = False) -> bytes:
        left = [forged(0, 50, 51, steps=[]), forged(2, 60, 61, steps=[]), forged(4, found, steps=[])]
        if backwards:
            left[0]["arguments"] = dict(reversed(left[0]["arguments"].items()))
        session: Any = Forger(*left)
        pair = Pair(session, [session])
        part = Call(Recipe("vector_add", CASE, 3), ("x", "y"), (), ())
        *_, last = [pair.record(part) for _ in left]
        assert isinstance(last, RecordedAnswer)
        assert last.found == {found}
        return last.digest

    # Two in each of two traces that do the same.
    assert len({digest(found) for found in (50, 51, 60, 61)}) == 4
    assert digest(50) == digest(50)
    # The order of the arguments does nothing, and is in no digest.
    assert digest(0) == digest(0, backwards=True)


def test_the_process_that_records_is_told_no_planned_seed(server: ForkServer, ex_15: Entry) -> None:
    """With it, a forger could change its trace until the inputs that follow suit its kernels."""
    planned = Recipe("vector_add", {**CASE, "values": "constant"}, 1234, 99)
    decoys = decoys_of(planned)
    # Nor the family of values: launch code that reads its inputs unseen cannot suit its launches to it.
    assert (decoys.part, decoys.case) == (planned.part, {**CASE, "values": "normal"})
    assert decoys.seed != 1234
    assert decoys.patch_seed not in (None, 99)
    assert decoys_of(Recipe("vector_add", dict(CASE), 1)).patch_seed is None
    with recording(server, ex_15, "def vector_add(x, y):\n    return added(x, y)\n") as one:
        asked: list[Any] = []
        ask = one.pair.session.record
        one.pair.session.record = lambda request: (asked.append(request), ask(request))[1]  # type: ignore[method-assign]
        told = one.record()
        assert [request.call.recipe for request in asked] == [decoys_of(told.call.recipe)]


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
        one.pair._replayers[0].restart()
        again = one.record()
        assert (first.afresh, again.afresh) == (True, True)
        torch.testing.assert_close(answer_in(one.replay(again)), one.wanted(), rtol=0, atol=0)
        assert not one.record().afresh


def test_nothing_runs_once_a_pair_has_ended_and_the_next_call_starts_anew(server: ForkServer, ex_15: Entry) -> None:
    with recording(server, ex_15, "vector_add = added") as one:
        one.replay(one.record())
        one.pair.end()
        assert [one.pair.session.pid, *(replayer.pid for replayer in one.pair._replayers)] == [None] * 3
        again = one.record()
        assert again.afresh
        torch.testing.assert_close(answer_in(one.replay(again)), one.wanted(), rtol=0, atol=0)


def test_calls_that_need_nothing_of_each_other_are_replayed_side_by_side(server: ForkServer, ex_15: Entry) -> None:
    with recording(server, ex_15, "vector_add = added") as one:
        together = one.pair.side_by_side()
        for place in range(5):
            one.pair.begin_isolated(together, place, one.record(), partial(one.call, 10 + place))
        # The first tells of a new process, and is replayed in order.
        assert together.outcome(0) is None
        for place in range(1, 5):
            outcome = together.outcome(place)
            assert outcome is not None
            torch.testing.assert_close(answer_in(outcome), one.wanted(10 + place), rtol=0, atol=0)
        together.close()
        # A second process is started only where the first one stays busy.
        assert all(replayer.starts <= 1 for replayer in one.pair._replayers)


KEEPING = """
kept = {}

def vector_add(x, y):
    size = x.numel()
    if size not in kept:
        kept[size] = torch.zeros_like(x)
    add[(2,)](x, y, kept[size], size, BLOCK=64)
    return kept[size].clone()
"""


def test_calls_on_memory_of_each_other_are_replayed_in_order(server: ForkServer, ex_15: Entry) -> None:
    with recording(server, ex_15, KEEPING) as one:
        together = one.pair.side_by_side()
        tolds = [one.record() for _ in range(4)]
        assert [bool(told.found) for told in tolds] == [False, True, True, True]
        for place, told in enumerate(tolds):
            one.pair.begin_isolated(together, place, told, one.call)
        assert [together.outcome(place) for place in range(4)] == [None] * 4
        together.close()


def test_memory_that_no_replayer_kept_is_told_anew(server: ForkServer, ex_15: Entry) -> None:
    other = {**CASE, "N": 70}
    elsewhere = Recipe("vector_add", other, 3)
    with recording(server, ex_15, KEEPING) as one:
        answer_in(one.replay(one.record()))
        # Two others, each with memory of its own: of these, none is kept.
        lengths = {0: Recipe("vector_add", {**CASE, "N": 50}, 3), 1: elsewhere}
        together = one.pair.side_by_side()
        for place, recipe in lengths.items():
            one.pair.begin_isolated(together, place, one.record(recipe=recipe), partial(one.call, recipe=recipe))
        assert all(together.outcome(place) is not None for place in lengths)
        together.close()
        again = one.record(recipe=elsewhere)
        assert again.afresh
        slots = (Slot("float32", (70,), 0, 280),)
        assert answer_in(one.pair.replay(again, one.call(recipe=elsewhere, slots=slots))).isfinite().all()
        assert not one.record(recipe=elsewhere).afresh


def test_what_was_not_begun_when_it_is_closed_is_not_replayed(server: ForkServer, ex_15: Entry) -> None:
    begun = Event()

    def slowly(place: int) -> Any:
        begun.wait(10)
        return one.call(10 + place)

    with recording(server, ex_15, "vector_add = added") as one:
        together = one.pair.side_by_side()
        for place in range(9):
            one.pair.begin_isolated(together, place, one.record(), partial(slowly, place))
        begun.set()
        together.close()
        outcomes = [together.outcome(place) for place in range(1, 9)]
        assert outcomes[-1] is None
        told = one.record()
        torch.testing.assert_close(answer_in(one.replay(told)), one.wanted(), rtol=0, atol=0)


def test_a_kernel_that_computes_nan_or_zeros_has_a_part_in_the_answer(server: ForkServer, ex_15: Entry) -> None:
    source = """
@triton.jit
def scaled(x_ptr, z_ptr, by, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    tl.store(z_ptr + offsets, tl.load(x_ptr + offsets, inside) * by, inside)

def vector_add(x, y):
    z = torch.empty_like(x)
    scaled[(2,)](x, z, {by}, x.numel(), BLOCK=64)
    return z
"""
    for by in ("float('nan')", "0.0"):
        with recording(server, ex_15, source.replace("{by}", by)) as one:
            assert one.pair.depends_on_kernels(one.record(), one.call())


def test_a_kernel_that_stores_nothing_new_has_no_part_in_the_answer(server: ForkServer, ex_15: Entry) -> None:
    source = """
@triton.jit
def copy(z_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    tl.store(out_ptr + offsets, tl.load(z_ptr + offsets, inside), inside)

def vector_add(x, y):
    z, out = torch.empty_like(x), torch.empty_like(x)
    copy[(2,)](z, out, x.numel(), BLOCK=64)
    return out
"""
    with recording(server, ex_15, source) as one:
        assert not one.pair.depends_on_kernels(one.record(), one.call())


def test_the_seconds_of_another_process_count_during_its_block_and_after_it() -> None:
    other: Any = SimpleNamespace(worked_s=2.0)
    own: Any = SimpleNamespace(worked_s=8.0, another=lambda text, multiprocessors: nullcontext(other))
    replayer: Any = SimpleNamespace(worked_s=1.0)
    pair = Pair(own, [replayer])

    with pair.in_new_process():
        assert pair.worked_s == 11.0
        other.worked_s = 4.0
    assert pair.worked_s == 13.0
    with pair.in_new_process():
        assert pair.worked_s == 17.0
