"""Programs that meet at an address run in the opposite order as well: what depends on their order shows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from grader.exercise.catalogue import Entry
from grader.judge.trial import CallRequest
from grader.protocol import answers
from grader.protocol.answers import Raised
from grader.protocol.requests import ANY
from grader.sandbox.outcome import Finished
from grader.sandbox.server import ForkServer
from tests.benches import bench_of
from tests.conftest import SHORT, limited
from tests.recordings import HEAD, answer_in, recording


@pytest.fixture(scope="module")
def ex_15() -> Entry:
    """With a limit that no slow machine comes near: programs that wait for each other take seconds."""
    return limited(replace(SHORT, call_s=60.0))


# Every program leaves its block in memory; one of them stores all blocks.
SOURCE = """
@triton.jit
def shared(x_ptr, y_ptr, kept_ptr, count_ptr, z_ptr, n, programs, BLOCK: tl.constexpr, ALL: tl.constexpr):
    pid = tl.program_id(0)
    mine = pid * BLOCK + tl.arange(0, BLOCK)
    inside = mine < n
    tl.store(kept_ptr + mine, tl.load(x_ptr + mine, inside) + tl.load(y_ptr + mine, inside), inside)
{middle}
    if last:
        every = tl.arange(0, ALL)
        tl.store(z_ptr + every, tl.load(kept_ptr + every, every < n{how}), every < n)

def vector_add(x, y):
    z, kept, count = torch.empty_like(x), torch.empty_like(x), torch.zeros(1, dtype=torch.int32, device=x.device)
    shared[(4,)](x, y, kept, count, z, x.numel(), 4, BLOCK=32, ALL=128)
    return z
"""
LAST = "    last = pid == programs - 1"
# More lanes than are recorded, by all four programs together.
FLOOD = "    for i in range(5):\n        tl.store(count_ptr + 1 + (tl.arange(0, 1048576) + i) % 16, pid)"
OWN = "    for _ in range(70):\n        tl.load(kept_ptr + mine, inside)"
HIDDEN = {
    "a ticket that decides nothing": (
        "    ticket = tl.atomic_add(count_ptr, 1)\n    last = (pid == programs - 1) & (ticket > -1)",
        "",
    ),
    "a comparison that waits for nothing": (f"    tl.atomic_cas(count_ptr, 0, 0)\n{LAST}", ""),
    "volatile loads": (LAST, ", volatile=True"),
    "the cache modifier of volatile loads": (LAST, ', cache_modifier=".cv"'),
    "more lanes than are recorded": (f"{FLOOD}\n{LAST}", ""),
    "many loads of the program that stored": (f"{OWN}\n{LAST}", ""),
}
TICKET = "    last = tl.atomic_add(count_ptr, 1) == programs - 1"
WAITS = """
    tl.atomic_add(count_ptr, 1)
    last = pid == programs - 1
    if last:
        while tl.atomic_add(count_ptr, 0) < programs:
            pass
"""


WAITS_FOR_ONE = """
    if pid == {awaited}:
        tl.atomic_add(count_ptr, 1)
    last = pid == programs - 1
    if last:
        while tl.atomic_add(count_ptr, 0) == 0:
            {meanwhile}
        tl.store(kept_ptr + mine, tl.load(x_ptr + mine, inside) + tl.load(y_ptr + mine, inside), inside)
"""
# The others wait for the last program to begin, and it waits for them, if it comes first.
IN_TURN = """
    last = pid == programs - 1
    if last:
        if tl.atomic_add(count_ptr, 100) < programs - 1:
            while tl.atomic_add(count_ptr, 0) < 1000:
                pass
    elif tl.atomic_add(count_ptr, 1) >= 100:
        while tl.atomic_add(count_ptr, 0) < 1000:
            pass
"""


@pytest.mark.parametrize(("middle", "how"), HIDDEN.values(), ids=HIDDEN.keys())
def test_programs_that_wait_for_nobody_are_found_out(middle: str, how: str, server: ForkServer, ex_15: Entry) -> None:
    source = SOURCE.format(middle=middle, how=how).replace("torch.zeros(1,", "torch.zeros(17,")
    with recording(server, ex_15, source) as one:
        told = one.record()
        outcome = one.replay(told)
        torch.testing.assert_close(answer_in(outcome), one.wanted(), rtol=0, atol=0)
        assert isinstance(outcome, Finished)
        assert outcome.answer.meets
        other = one.pair.replay_backwards(told, one.call(5), ANY)
        assert isinstance(other, Finished)
        assert other.answer.findings or not torch.equal(answer_in(other), one.wanted())


def test_the_program_that_draws_the_last_number_is_right_in_both_orders(server: ForkServer, ex_15: Entry) -> None:
    with recording(server, ex_15, SOURCE.format(middle=TICKET, how="")) as one:
        told = one.record()
        outcome, other = one.replay(told), one.pair.replay_backwards(told, one.call(5), ANY)
        for each in (outcome, other):
            torch.testing.assert_close(answer_in(each), one.wanted(), rtol=0, atol=0)
            assert isinstance(each, Finished)
            assert each.answer.meets
            assert not each.answer.findings
        # The next call runs in its own order again.
        torch.testing.assert_close(answer_in(one.replay(told)), one.wanted(), rtol=0, atol=0)


UPDATES = {
    "two atomics": "    old = tl.atomic_add(count_ptr, 0)\n    tl.atomic_xchg(count_ptr, old + 1)",
    "a load and a store": "    old = tl.load(count_ptr, volatile=True)\n    tl.store(count_ptr, old + 1)",
}


@pytest.mark.parametrize("update", UPDATES.values(), ids=UPDATES.keys())
@pytest.mark.parametrize("loads", [0, 4, 16, 100])
def test_an_update_in_two_steps_is_lost_where_another_program_runs_between_them(
    loads: int, update: str, server: ForkServer, ex_15: Entry
) -> None:
    """A loop of volatile loads before it hides it from nobody."""
    before = f"    for _ in range({loads}):\n        tl.load(x_ptr, volatile=True)\n" if loads else ""
    middle = f"{before}{update}\n    last = old == programs - 1"
    source = SOURCE.format(middle=middle, how=", volatile=True").replace("BLOCK=32", "BLOCK=4")
    source = source.replace("(4,)", "(32,)").replace("x.numel(), 4,", "x.numel(), 32,")
    with recording(server, ex_15, source) as one:
        told = one.record()
        outcome, whole = one.replay(told), one.pair.replay_backwards(told, one.call(5), ANY)
        assert isinstance(outcome, Finished)
        pauses = outcome.answer.pauses
        interrupted = one.pair.replay_backwards(told, one.call(5), ANY, pauses, interrupted="most")
        assert outcome.answer.meets
        torch.testing.assert_close(answer_in(whole), one.wanted(), rtol=0, atol=0)
        assert not torch.equal(answer_in(interrupted), one.wanted())


ORDERED = {
    "exchanges": "tl.atomic_xchg(kept_ptr, pid * 1.0)",
    "updates of two kinds": "tl.atomic_add(kept_ptr, 1.0)\n    tl.atomic_max(kept_ptr, 2.0 * pid)",
    "sums": "tl.atomic_add(kept_ptr, 1.0)",
    "maxima": "tl.atomic_max(count_ptr, pid)",
}


@pytest.mark.parametrize(
    ("what", "meets"), [("exchanges", True), ("updates of two kinds", True), ("sums", False), ("maxima", False)]
)
def test_atomics_whose_order_decides_what_stays_make_programs_meet(
    what: str, *, meets: bool, server: ForkServer, ex_15: Entry
) -> None:
    head, rest = SOURCE.split("    mine = pid")
    middle = f"    {ORDERED[what]}\n    mine = pid{rest.split('    tl.store(kept_ptr')[0]}"
    last = "    tl.store(z_ptr + mine, tl.load(x_ptr + mine, inside), inside)\n\ndef vector_add"
    source = f"{head}{middle}{last}{rest.split('def vector_add')[1]}"
    with recording(server, ex_15, source) as one:
        outcome = one.replay(one.record())
    assert isinstance(outcome, Finished)
    assert outcome.answer.meets == meets


def test_a_ticket_is_right_where_another_program_runs_behind_it(server: ForkServer, ex_15: Entry) -> None:
    with recording(server, ex_15, SOURCE.format(middle=TICKET, how="")) as one:
        told = one.record()
        outcome = one.replay(told)
        assert isinstance(outcome, Finished)
        interrupted = one.pair.replay_backwards(told, one.call(5), ANY, outcome.answer.pauses, interrupted="most")
        torch.testing.assert_close(answer_in(interrupted), one.wanted(), rtol=0, atol=0)
        assert isinstance(interrupted, Finished)
        assert not interrupted.answer.findings


@pytest.mark.parametrize(
    "middle", [f"{TICKET}\n    if last:\n        tl.store(count_ptr, 0)", HIDDEN["volatile loads"][0]]
)
def test_it_finds_the_memory_that_the_replay_in_its_own_order_found(
    middle: str, server: ForkServer, ex_15: Entry
) -> None:
    source = SOURCE.format(middle=middle, how="")
    made = "torch.empty_like(x), torch.empty_like(x), torch.zeros(1, dtype=torch.int32, device=x.device)"
    kept = f"torch.empty_like(x), *(memory or memory.extend(({made[21:]})) or memory)"
    source = source.replace(made, kept)
    with recording(server, ex_15, f"memory = []\n{source}") as one:
        for _ in range(3):
            told = one.record()
            outcome, other = one.replay(told), one.pair.replay_backwards(told, one.call(5), ANY)
            assert isinstance(other, Finished)
            right = torch.equal(answer_in(other), one.wanted()) and not other.answer.findings
            assert right == ("atomic" in middle)
            torch.testing.assert_close(answer_in(outcome), one.wanted(), rtol=0, atol=0)
        assert told.found


# The call also changes x, which the next one carries on.
CHANGES = "    tl.store(x_ptr + mine, 1.0 + tl.load(x_ptr + mine, inside), inside)\n"
CARRIED = SOURCE.replace("    if last:", f"{CHANGES}    if last:")


@pytest.mark.parametrize(("middle", "is_right"), [(TICKET, True), (HIDDEN["volatile loads"][0], False)])
def test_it_finds_the_arguments_that_a_call_carries_on_as_they_were_before_it(
    middle: str, *, is_right: bool, server: ForkServer, ex_15: Entry
) -> None:
    with recording(server, ex_15, CARRIED.format(middle=middle, how=", volatile=True")) as one:
        (x, y), carries = one.inputs(), tuple[str, ...]()
        for step in range(3):
            how: dict[str, Any] = {"carries": carries, "storage": "same" if carries else "new"}
            told = one.record(**how)
            answer = answer_in(one.replay(told, **how))
            torch.testing.assert_close(answer, x + step + y)
            other = one.pair.replay_backwards(told, one.call(5, **how), ANY)
            assert torch.equal(answer_in(other), answer) == is_right
            carries = ("x",)


def test_a_program_that_waits_for_all_others_is_right_in_any_order(server: ForkServer, ex_15: Entry) -> None:
    with recording(server, ex_15, SOURCE.format(middle=WAITS, how="")) as one:
        told = one.record()
        for outcome in (one.replay(told), one.pair.replay_backwards(told, one.call(5), ANY)):
            torch.testing.assert_close(answer_in(outcome), one.wanted(), rtol=0, atol=0)


@pytest.mark.parametrize("meanwhile", ["pass", "tl.store(kept_ptr + mine, 0.0)"], ids=["waits", "stores meanwhile"])
@pytest.mark.parametrize("awaited", [0, 1, 2])
def test_a_program_that_waits_for_one_of_all_is_found_out(
    awaited: int, meanwhile: str, server: ForkServer, ex_15: Entry
) -> None:
    waits = WAITS_FOR_ONE.format(awaited=awaited, meanwhile=meanwhile)
    source = SOURCE.format(middle=waits, how=", volatile=True").replace("BLOCK=32", "BLOCK=4").replace("(4,)", "(32,)")
    with recording(server, ex_15, source.replace("x.numel(), 4,", "x.numel(), 32,")) as one:
        told = one.record()
        torch.testing.assert_close(answer_in(one.replay(told)), one.wanted(), rtol=0, atol=0)
        other = one.pair.replay_backwards(told, one.call(5), ANY)
        assert isinstance(other, Finished)
        assert not torch.equal(answer_in(other), one.wanted())


def test_programs_that_wait_for_one_another_in_turn_are_left_to_a_gpu(server: ForkServer, ex_15: Entry) -> None:
    with recording(server, ex_15, SOURCE.format(middle=IN_TURN, how="")) as one:
        told = one.record()
        torch.testing.assert_close(answer_in(one.replay(told)), one.wanted(), rtol=0, atol=0)
        other = one.pair.replay_backwards(told, one.call(5), ANY)
        assert isinstance(other, Raised)
        assert other.kind == answers.WAITS


def test_programs_that_do_not_meet_need_no_second_order(server: ForkServer, ex_15: Entry) -> None:
    with recording(server, ex_15, "vector_add = added") as one:
        outcome = one.replay(one.record())
    assert isinstance(outcome, Finished)
    assert not outcome.answer.meets


def test_races_are_sought_until_another_mistake_shows(
    server: ForkServer, ex_15: Entry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A check that has failed needs no second replay of each right case."""
    source = SOURCE.format(middle=TICKET, how="").replace("y_ptr + mine, inside)", "y_ptr + mine, inside) + (n == 100)")
    with bench_of(server, ex_15, HEAD + source) as bench:
        asked: list[object] = []
        replay = bench.pair.replay_backwards
        monkeypatch.setattr(
            bench.pair, "replay_backwards", lambda *given, **how: (asked.append(given), replay(*given, **how))[1]
        )
        space = bench.part.checks[1].cases.space  # type: ignore[union-attr]
        for lengths, right, times in ((90, 91), [True, True], 2), ((100, 90, 91), [False, True, True], 0):
            asked.clear()
            trials = [*bench.tries([CallRequest(bench.part, space.case(N=length), 1) for length in lengths])]
            assert [trial.failure is None for trial in trials] == right
            assert len(asked) == times
