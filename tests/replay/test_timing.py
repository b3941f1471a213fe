"""The replayer's part in timing, through real processes: what is prepared, what a sample is of, what it shows.

Kernels are interpreted, so no time here means anything, and none is looked at.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import pytest
import torch
from torch import Tensor

from grader.calls.filling import fill_uninitialised_memory
from grader.exercise.catalogue import Entry
from grader.protocol.answers import Form, Precompiled, Prepared, Raised, Sampled
from grader.protocol.requests import Call, Precompile, Prepare, Sample, Show
from grader.protocol.trace import Choose, Constant
from grader.replay.timing import TraceTimer
from grader.sandbox.pair import RecordedAnswer
from grader.sandbox.server import ForkServer
from grader.sandbox.session import Session
from tests.recordings import CASE, Recording, recording

LIMIT_S = 60.0
COVER_BYTES = 1 << 16
SIZE = 2500
SIZED = {**CASE, "N": SIZE}


class Timed:
    """A submission's call that was recorded for timing, and the replayer that times it."""

    def __init__(self, one: Recording, tolds: Sequence[RecordedAnswer], replayer: Session) -> None:
        self._one = one
        self.tolds = tuple(tolds)
        self.replayer = replayer

    def ask(self, method: Any = "stream") -> Prepare:
        messages = tuple(told.message for told in self.tolds)
        return Prepare(self.tolds[-1].call, messages, method, COVER_BYTES)

    def prepared(self) -> Prepared:
        answer = self.replayer.prepare(self.ask(), LIMIT_S)
        assert isinstance(answer, Prepared), answer
        return answer

    def sample(self, seed: int, *, examines: bool = False) -> Sampled:
        answer = self.replayer.sample(Sample(seed, examines=examines), LIMIT_S)
        assert isinstance(answer, Sampled), answer
        return answer

    def shown(self, first: int = 0, count: int = SIZE, output: int = 0) -> Tensor:
        """Elements of an output of the latest sample."""
        raw = self.replayer.show(Show(output, 4 * first, 4 * count))
        assert raw is not None
        return torch.frombuffer(bytearray(raw), dtype=torch.float32)

    def wanted(self, seed: int) -> Tensor:
        """The right answer to the inputs of a sample."""
        return self._one.wanted(seed)

    def check(self, seeds: Sequence[int] = (11, 12, 13, 11)) -> None:
        """Take samples, and see that each is right for its own seed."""
        for seed in seeds:
            self.sample(seed)
            torch.testing.assert_close(self.shown(), self.wanted(seed), rtol=0, atol=0)


def call_of(one: Recording) -> Call:
    return one.call(slots=())


@contextmanager
def timed(server: ForkServer, entry: Entry, source: str) -> Iterator[Timed]:
    """A submission whose call was recorded, with its own process gone."""
    with recording(server, entry, source, case=SIZED) as one:
        tolds = one.pair.record_timed(call_of(one))
        assert isinstance(tolds, tuple), tolds
        assert all(told.is_replayable for told in tolds), tolds
        yield Timed(one, tolds, one.pair.end_all_but_one())


# -- samples ---------------------------------------------------------------------------------------------------------


def test_every_sample_is_of_fresh_inputs(server: ForkServer, ex_15: Entry) -> None:
    with timed(server, ex_15, "vector_add = added") as one:
        assert len(one.tolds) == 1
        prepared = one.prepared()
        assert prepared.outputs == (Form("tensor", "float32", (SIZE,), "cpu"),)
        assert (prepared.choices, prepared.launches) == ((), 1)
        one.check()


def test_the_same_seed_gives_the_same_sums_and_another_one_others(server: ForkServer, ex_15: Entry) -> None:
    with timed(server, ex_15, "vector_add = added") as one:
        one.prepared()
        first, other, again = (one.sample(seed) for seed in (11, 12, 11))
    assert (first.projections, first.scales) == (again.projections, again.scales)
    assert first.projections != other.projections
    assert first.scales != other.scales
    # One output, in two pieces.
    assert [len(sums) for sums in first.projections] == [2]


# z is alive when w is made, which nobody writes; in the next sample w may lie where z lay.
LEAVING = """
def vector_add(x, y):
    z = added(x, y)
    w = torch.empty_like(x)
    add[(0,)](x, z, w, x.numel(), BLOCK=64)
    return w
"""


def test_no_sample_finds_what_an_earlier_one_computed(server: ForkServer, ex_15: Entry) -> None:
    with timed(server, ex_15, LEAVING) as one:
        one.prepared()
        for _ in range(5):
            one.sample(11)
            # By chance some few may be equal.
            assert int((one.shown() == one.wanted(11)).sum()) < SIZE // 100


COPYING = """
def vector_add(x, y):
    z = torch.empty_like(x)
    z.copy_(x)
    return z
"""


class NoLibrary:
    """There is nothing to launch."""


@pytest.fixture
def timing() -> Iterator[TraceTimer]:
    """The clock's part of a replayer, in this process."""
    yield TraceTimer(torch.device("cpu"), NoLibrary())  # type: ignore[arg-type]
    fill_uninitialised_memory(on=False)


def test_what_a_sample_made_is_overwritten_before_the_next(
    server: ForkServer, ex_15: Entry, timing: TraceTimer
) -> None:
    with timed(server, ex_15, COPYING) as one:
        asked, traces = one.ask(), [told.trace for told in one.tolds]

    def build(seed: int) -> tuple[object, ...]:
        return torch.full((SIZE,), float(seed)), torch.zeros(SIZE)

    timing.prepare(asked, traces, build)
    timing.sample(Sample(5))
    (held,) = timing._outputs
    assert isinstance(held, Tensor)
    assert (held == 5.0).all()
    timing.sample(Sample(6))
    # Whoever gets this memory next must find nothing there.
    assert held.isnan().all()
    (found,) = timing._outputs
    assert isinstance(found, Tensor)
    assert (found == 6.0).all()


@pytest.mark.parametrize("fails", [False, True])
def test_while_a_sample_is_taken_nothing_is_filled_that_the_submission_did_not_ask_for(
    server: ForkServer, ex_15: Entry, timing: TraceTimer, fails: bool
) -> None:
    filled: list[bool] = []
    with timed(server, ex_15, COPYING) as one:
        asked, traces = one.ask(), [told.trace for told in one.tolds]

    def build(seed: int) -> tuple[object, ...]:
        filled.append(torch.are_deterministic_algorithms_enabled())
        if fails and seed == 5:
            raise ZeroDivisionError
        return torch.zeros(SIZE), torch.zeros(SIZE)

    fill_uninitialised_memory(on=True)
    timing.prepare(asked, traces, build)
    with pytest.raises(ZeroDivisionError) if fails else nullcontext():
        timing.sample(Sample(5))
    assert set(filled) == {False}
    # What is replayed afterwards is filled as ever.
    assert torch.are_deterministic_algorithms_enabled()


KEEPING = """
kept = []

def vector_add(x, y):
    z = torch.empty_like(x)
    if not kept:
        kept.append(torch.full_like(x, 0.25))
    grid = (triton.cdiv(x.numel(), 64),)
    add[grid](x, y, z, x.numel(), BLOCK=64)
    add[grid](z, kept[0], z, x.numel(), BLOCK=64)
    return z
"""


def test_a_workspace_that_an_earlier_call_made_is_found_by_every_sample(server: ForkServer, ex_15: Entry) -> None:
    with timed(server, ex_15, KEEPING) as one:
        first, second = one.tolds
        assert (first.found, bool(second.found)) == (frozenset(), True)
        assert one.prepared().launches == 2
        for seed in (11, 12, 11):
            one.sample(seed)
            torch.testing.assert_close(one.shown(), one.wanted(seed) + 0.25, rtol=0, atol=0)


REPEATED = {
    "allocates and lets go": """
def vector_add(x, y):
    for _ in range(3):
        z = added(x, y)
    return z
""",
    "copies": """
def vector_add(x, y):
    z = torch.empty(2 * x.numel(), device=x.device)[: x.numel()]
    z.copy_(added(x.clone(), y.contiguous()))
    return z.clone()
""",
    "zeroes": """
def vector_add(x, y):
    z = torch.zeros_like(x)
    w = torch.full_like(x, 7.0)
    add[(triton.cdiv(x.numel(), 64),)](x, y, w, x.numel(), BLOCK=64)
    return added(z.zero_(), w)
""",
    "holds a constant": """
ZEROS = torch.tensor([0.0] * 64)

def vector_add(x, y):
    z = added(x, y)
    add[(1,)](z, ZEROS.to(x.device), z, 64, BLOCK=64)
    return z
""",
}


@pytest.mark.parametrize("source", REPEATED.values(), ids=REPEATED.keys())
def test_a_trace_may_be_sampled_many_times(source: str, server: ForkServer, ex_15: Entry) -> None:
    with timed(server, ex_15, source) as one:
        one.prepared()
        one.check(seeds=(11, 12, 13, 14, 15, 11))


def test_an_input_that_is_changed_and_must_not_be_is_named_where_that_is_asked_for(
    server: ForkServer, ex_15: Entry
) -> None:
    source = """
def vector_add(x, y):
    z = added(x, y)
    add[(1,)](x, x, y, 64, BLOCK=64)
    return z
"""
    with timed(server, ex_15, source) as one:
        one.prepared()
        assert one.sample(11).changed == ()
        assert one.sample(12, examines=True).changed == ("y",)
        # The next sample has inputs that nobody has touched.
        torch.testing.assert_close(one.shown(), one.wanted(12), rtol=0, atol=0)
        one.check()


def test_a_call_that_changes_nothing_is_found_to_change_nothing(server: ForkServer, ex_15: Entry) -> None:
    with timed(server, ex_15, "vector_add = added") as one:
        one.prepared()
        assert one.sample(11, examines=True).changed == ()


# -- what is shown ---------------------------------------------------------------------------------------------------


def test_bytes_of_an_output_are_shown_from_anywhere_within_it(server: ForkServer, ex_15: Entry) -> None:
    with timed(server, ex_15, "vector_add = added") as one:
        one.prepared()
        one.sample(11)
        for first, count in ((0, SIZE), (0, 1), (SIZE - 1, 1), (700, 63)):
            shown = one.shown(first, count)
            torch.testing.assert_close(shown, one.wanted(11)[first : first + count], rtol=0, atol=0)


def test_an_output_that_does_not_lie_in_one_piece_is_shown_in_its_elements_order(
    server: ForkServer, ex_15: Entry
) -> None:
    with timed(server, ex_15, "def vector_add(x, y):\n    return added(x, y).view(50, 50).t()\n") as one:
        one.prepared()
        one.sample(11)
        wanted = one.wanted(11).view(50, 50).t().reshape(-1)
        torch.testing.assert_close(one.shown(), wanted, rtol=0, atol=0)


@pytest.mark.parametrize(
    "wanted",
    [Show(0, 4 * SIZE, 4), Show(0, 4 * SIZE - 4, 8), Show(0, 0, 4 * SIZE + 1), Show(1, 0, 4)],
    ids=["behind the end", "across the end", "more than there is", "another output"],
)
def test_nothing_is_shown_beyond_the_end(wanted: Show, server: ForkServer, ex_15: Entry) -> None:
    with timed(server, ex_15, "vector_add = added") as one:
        one.prepared()
        one.sample(11)
        assert one.replayer.show(wanted) is None
        one.check(seeds=(12,))


def test_nothing_is_shown_before_there_is_a_sample(server: ForkServer, ex_15: Entry) -> None:
    with timed(server, ex_15, "vector_add = added") as one:
        one.prepared()
        assert one.replayer.show(Show(0, 0, 4)) is None
        one.sample(11)
        one.prepared()
        assert one.replayer.show(Show(0, 0, 4)) is None


def test_what_is_no_tensor_is_not_shown(server: ForkServer, ex_15: Entry) -> None:
    with timed(server, ex_15, 'def vector_add(x, y):\n    added(x, y)\n    return "a sum"\n') as one:
        assert [form.kind for form in one.prepared().outputs] == ["str"]
        assert one.sample(11).projections == ((),)
        assert one.replayer.show(Show(0, 0, 1)) is None


# -- what goes wrong -------------------------------------------------------------------------------------------------


def test_a_sample_before_anything_is_prepared_is_an_error_and_the_process_goes_on(
    server: ForkServer, ex_15: Entry
) -> None:
    with timed(server, ex_15, "vector_add = added") as one:
        one.replayer.load()
        before = one.replayer.pid
        answer = one.replayer.sample(Sample(11), LIMIT_S)
        assert isinstance(answer, Raised), answer
        assert (answer.kind, answer.fatal) == ("ValueError", False)
        assert "a sample must be of something prepared" in answer.message
        one.prepared()
        one.check()
        assert one.replayer.pid == before


def test_a_kernel_that_fails_when_it_is_prepared_is_told_with_its_line_and_is_not_sampled(
    server: ForkServer, ex_15: Entry
) -> None:
    source = """
@triton.jit
def failing(x_ptr, BLOCK: tl.constexpr):
    assert BLOCK < 64, "too large"
    tl.store(x_ptr, 0.0)

def vector_add(x, y):
    z = added(x, y)
    failing[(1,)](z, BLOCK=64)
    return z
"""
    with recording(server, ex_15, source, case=SIZED) as recorded:
        tolds = recorded.pair.record_timed(call_of(recorded))
        assert isinstance(tolds, tuple)
        one = Timed(recorded, tolds, recorded.pair.end_all_but_one())
        answer = one.replayer.prepare(one.ask(), LIMIT_S)
        assert isinstance(answer, Raised), answer
        assert "too large" in answer.message
        assert recorded.line_of("assert BLOCK") in [frame.line for frame in answer.frames]
        assert isinstance(one.replayer.sample(Sample(11), LIMIT_S), Raised)


# -- autotuned -------------------------------------------------------------------------------------------------------

TUNED = """
@triton.autotune([triton.Config({"BLOCK": size}) for size in SIZES], key=["n"])
@triton.jit
def tuned(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    tl.static_assert(BLOCK < 1024, "BLOCK must stay below 1024")
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    tl.store(z_ptr + offsets, tl.load(x_ptr + offsets, inside) + tl.load(y_ptr + offsets, inside), inside)

def vector_add(x, y):
    z = torch.empty_like(x)
    tuned[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, y, z, x.numel())
    return z
"""


def tuned(*sizes: int) -> str:
    return TUNED.replace("SIZES", str(sizes))


def test_every_configuration_has_a_time_and_the_fastest_that_works_is_chosen(server: ForkServer, ex_15: Entry) -> None:
    with timed(server, ex_15, tuned(4096, 64, 1024, 512)) as one:
        prepared = one.prepared()
        (choice,) = prepared.choices
        (step,) = [step for step in one.tolds[0].trace.steps if isinstance(step, Choose)]
        assert choice.line == step.line
        assert [time >= 0 for time in choice.times_us] == [False, True, False, True]
        assert {time for time in choice.times_us if time < 0} == {-1.0}
        assert choice.chosen == min((1, 3), key=lambda place: choice.times_us[place])
        # What was tried is none of the call's launches.
        assert prepared.launches == 1
        one.check()


def test_where_no_configuration_works_the_reason_is_raised(server: ForkServer, ex_15: Entry) -> None:
    with timed(server, ex_15, tuned(4096, 1024)) as one:
        answer = one.replayer.prepare(one.ask(), LIMIT_S)
        assert isinstance(answer, Raised), answer
        assert "BLOCK must stay below 1024" in answer.message


def test_only_the_trace_that_is_timed_is_tuned(server: ForkServer, ex_15: Entry) -> None:
    source = (
        tuned(1024, 64, 128)
        + """
kept = []

def vector_add(x, y, tuned_add=vector_add):
    if not kept:
        kept.append(torch.zeros_like(x))
    return tuned_add(tuned_add(x, kept[0]), y)
"""
    )
    with timed(server, ex_15, source) as one:
        assert len(one.tolds) == 2
        # Two launches, each of which chooses for itself.
        assert [len(choice.times_us) for choice in one.prepared().choices] == [3, 3]
        one.check()


# -- compiled before -------------------------------------------------------------------------------------------------

FORBIDDING = """
@triton.jit
def forbidding(x_ptr, BLOCK: tl.constexpr):
    assert BLOCK < 0, "this was run"

def vector_add(x, y):
    z = added(x, y)
    forbidding[(1,)](z, BLOCK=64)
    return added(x, z)
"""


@pytest.mark.parametrize(
    ("source", "launches"),
    [("vector_add = added", 1), (FORBIDDING, 3), (tuned(4096, 64, 1024, 512), 4)],
    ids=["one", "three, one of which cannot be run", "every configuration"],
)
def test_all_launches_are_compiled_and_none_is_run(
    source: str, launches: int, server: ForkServer, ex_15: Entry
) -> None:
    with timed(server, ex_15, source) as one:
        assert compiled(one, 0) == Precompiled("precompiled", launches)


def compiled(one: Timed, place: int) -> object:
    """What becomes of compiling what one of the recorded calls launches."""
    told = one.tolds[place]
    return one.replayer.precompile(Precompile(told.call, told.message), LIMIT_S)


def test_a_call_on_memory_of_an_earlier_one_is_compiled_as_well(server: ForkServer, ex_15: Entry) -> None:
    with timed(server, ex_15, KEEPING) as one:
        assert [compiled(one, place) for place in (0, 1)] == [Precompiled("precompiled", 2)] * 2


def test_a_call_is_timed_by_the_process_that_compiled_it(server: ForkServer, ex_15: Entry) -> None:
    with recording(server, ex_15, "vector_add = added", case=SIZED) as recorded:
        tolds = recorded.pair.record_timed(call_of(recorded))
        assert isinstance(tolds, tuple)
        recorded.pair.precompile(tolds)
        others = [recorded.pair.session, *recorded.pair._replayers[1:]]
        one = Timed(recorded, tolds, recorded.pair.end_all_but_one())
        assert [session.pid for session in others] == [None] * len(others)
        before = one.replayer.pid
        one.prepared()
        one.check()
        assert one.replayer.pid == before is not None


# -- what is recorded ------------------------------------------------------------------------------------------------

REMEMBERING = """
kept = {}

def vector_add(x, y):
    if x.numel() not in kept:
        kept[x.numel()] = torch.zeros_like(x)
    return added(added(x, kept[x.numel()]), y)
"""


def test_a_process_that_remembers_something_is_replaced_before_its_call_is_recorded(
    server: ForkServer, ex_15: Entry
) -> None:
    with recording(server, ex_15, REMEMBERING, case=SIZED) as recorded:
        recorded.record()
        told = recorded.record(slots=())
        assert told.found, "the process remembers what the first call made"
        tolds = recorded.pair.record_timed(call_of(recorded))
        assert isinstance(tolds, tuple)
        assert recorded.pair.session.starts == 2
        assert not any(isinstance(step, Constant) for told in tolds for step in told.trace.steps)
        assert all(told.is_replayable for told in tolds)
        one = Timed(recorded, tolds, recorded.pair.end_all_but_one())
        one.prepared()
        one.check()


def unknown_in(told: RecordedAnswer) -> bool:
    """Whether something in a trace could not be told."""
    return "unknown" in json.dumps(told.message["steps"])


def test_even_what_is_too_large_to_be_told_is_made_anew(server: ForkServer, ex_15: Entry) -> None:
    source = REMEMBERING.replace("torch.zeros_like(x)", "x.clone()")
    with recording(server, ex_15, source, case={**CASE, "N": 1 << 20}) as recorded:
        recorded.record(slots=())
        recorded.pair.skip()
        assert unknown_in(recorded.record(slots=())), "decoys are no text that gets short"
        tolds = recorded.pair.record_timed(call_of(recorded))
        assert isinstance(tolds, tuple)
        assert recorded.pair.session.starts == 2
        assert not any(unknown_in(told) for told in tolds)


def test_a_process_that_remembers_nothing_is_not_replaced(server: ForkServer, ex_15: Entry) -> None:
    with recording(server, ex_15, "vector_add = added", case=SIZED) as recorded:
        recorded.record()
        recorded.pair.record_timed(call_of(recorded))
        assert recorded.pair.session.starts == 1
