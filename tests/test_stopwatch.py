"""The stopwatch on the CPU: what a timed call commits to, what it shows, and what no two calls share."""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Generator, Tensor

from grader.child import stopwatch as stopwatches
from grader.child.stopwatch import Stopwatch, _identity
from grader.protocol.messages import Form, Launch, Open, Recipe, Timed
from grader.protocol.spans import spans, word_sum

CPU = torch.device("cpu")
COVER_BYTES = 1 << 12


@dataclass
class Noted:
    launches: list[Launch] = field(default_factory=list)
    operators: dict[str, None] = field(default_factory=dict)


@contextmanager
def unwatched() -> Iterator[Noted]:
    yield Noted()


def build(recipe: Recipe) -> tuple[Tensor, Tensor]:
    """x, y: [N]."""
    generator = Generator().manual_seed(recipe.seed)
    drawn = [torch.randn(int(recipe.case["N"]), generator=generator) for _ in range(2)]
    return drawn[0], drawn[1]


def added(x: Tensor, y: Tensor) -> Tensor:
    return x + y


def timed(n: int = 500, mutates: tuple[str, ...] = (), cover_bytes: int = COVER_BYTES) -> Timed:
    return Timed("add", Recipe("add", {"N": n}, 0), ("x", "y"), mutates, "stream", cover_bytes)


def stopwatch() -> Stopwatch:
    return Stopwatch(CPU, build)


def run(watch: Stopwatch, seed: int, function: Callable[..., Any] = added, wanted: Timed | None = None) -> list[int]:
    """The sums of one timed call."""
    prepared = watch.prepare(wanted or timed(), function, unwatched)
    return list(memoryview(watch.run(prepared, seed)).cast("q"))


def shown(watch: Stopwatch, wanted: Open) -> bytes | None:
    descriptor = os.memfd_create("shown")
    try:
        os.ftruncate(descriptor, max(wanted.count, 1))
        if not watch.show(wanted, descriptor).copied:
            return None
        with mmap.mmap(descriptor, 0) as memory:
            return memory[: wanted.count]
    finally:
        os.close(descriptor)


def raw(tensor: Tensor) -> bytes:
    return tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


# -- seeds and sums --------------------------------------------------------------------------------------------------


def test_the_same_seed_gives_the_same_sums_in_two_processes_stopwatches() -> None:
    assert run(stopwatch(), 17) == run(stopwatch(), 17)


def test_what_ran_before_changes_nothing() -> None:
    watch = stopwatch()
    first = run(watch, 17)
    run(watch, 7)
    run(watch, 63, wanted=timed(n=1000, cover_bytes=1 << 14))
    assert run(watch, 17) == first


def test_another_seed_gives_other_sums_of_output_and_cover() -> None:
    for one, other in zip(run(stopwatch(), 17), run(stopwatch(), 18), strict=True):
        assert one != other


@pytest.mark.parametrize("n", [1, 7, 63, 500, 4101, 20_000])
def test_the_sums_are_those_of_the_output_s_pieces_and_then_the_cover_s(n: int) -> None:
    expected = raw(added(*build(Recipe("add", {"N": n}, 17))))
    sums = run(stopwatch(), 17, wanted=timed(n))
    assert sums[:-1] == [word_sum(expected[first : first + count]) for first, count in spans(len(expected))]


def test_the_cover_has_the_same_sum_whatever_is_called() -> None:
    assert run(stopwatch(), 17, lambda x, y: None) == run(stopwatch(), 17)[-1:]


def test_a_captured_graph_belongs_to_one_part_whose_baselines_are_named_like_those_of_others() -> None:
    first, second = timed(), replace(timed(), recipe=replace(timed().recipe, part="multiply_add"))
    assert _identity(first) != _identity(second)


def test_a_cover_that_was_not_drawn_has_another_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = run(stopwatch(), 17)
    monkeypatch.setattr(Tensor, "random_", lambda tensor, generator: tensor)
    assert run(stopwatch(), 17)[-1] != honest[-1]


def test_inputs_of_two_laps_in_a_row_lie_elsewhere() -> None:
    addresses: list[set[int]] = []

    def noting(x: Tensor, y: Tensor) -> Tensor:
        addresses.append({x.data_ptr(), y.data_ptr()})
        return x + y

    watch = stopwatch()
    laps = []
    for seed in range(7):
        run(watch, seed, noting)
        laps.append(addresses[-1])
    assert all(not one & other for one, other in pairwise(laps))


def test_a_brief_call_is_rehearsed_on_the_inputs_of_the_last_lap_and_those_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stopwatches, "_BRIEF_US", 1e12)
    seen: list[float] = []

    def noting(x: Tensor, y: Tensor) -> Tensor:
        seen.append(float(x[0]))
        return x + y

    watch = stopwatch()
    firsts = [float(build(Recipe("add", {"N": 500}, seed))[0][0]) for seed in (17, 7)]
    run(watch, 17, noting)
    assert seen == firsts[:1]
    run(watch, 7, noting)
    assert seen == [firsts[0], firsts[0], firsts[0], firsts[1]]
    # Of another size, and by a function that has not run yet, nothing is known.
    run(watch, 63, noting, wanted=timed(n=1000))
    assert len(seen) == 5
    run(watch, 7, noting, wanted=replace(timed(n=1000), function="another"))
    assert len(seen) == 6


def test_a_call_that_takes_long_is_not_rehearsed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stopwatches, "_BRIEF_US", 0.0)
    calls: list[int] = []

    def slow(x: Tensor, y: Tensor) -> Tensor:
        calls.append(len(calls))
        return x + y

    watch = stopwatch()
    for seed in range(3):
        run(watch, seed, slow)
    assert len(calls) == 3


def test_the_garbage_collector_rests_during_the_call_and_not_after_it() -> None:
    import gc

    resting: list[bool] = []

    def looking(x: Tensor, y: Tensor) -> Tensor:
        resting.append(not gc.isenabled())
        return x

    run(stopwatch(), 17, looking)
    assert resting == [True]
    assert gc.isenabled()


def test_a_call_that_raises_wakes_the_collector_and_leaves_the_stopwatch_usable() -> None:
    import gc

    def failing(x: Tensor, y: Tensor) -> Tensor:
        raise ZeroDivisionError

    watch = stopwatch()
    with pytest.raises(ZeroDivisionError):
        run(watch, 17, failing)
    assert gc.isenabled()
    assert run(watch, 17) == run(stopwatch(), 17)


# -- what is shown ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 500, 4101])
def test_every_piece_that_is_shown_has_the_sum_that_was_committed_to(n: int) -> None:
    watch = stopwatch()
    sums = run(watch, 17, wanted=timed(n))
    for committed, (first, count) in zip(sums, spans(4 * n), strict=False):
        piece = shown(watch, Open(0, first, count))
        assert piece is not None
        assert word_sum(piece) == committed


def test_an_output_that_is_changed_afterwards_is_shown_changed() -> None:
    kept: list[Tensor] = []

    def keeping(x: Tensor, y: Tensor) -> Tensor:
        kept.append(x + y)
        return kept[0]

    watch = stopwatch()
    committed, _ = run(watch, 17, keeping)
    kept[0].add_(1)
    piece = shown(watch, Open(0, 0, 2000))
    assert piece is not None
    assert word_sum(piece) != committed


@pytest.mark.parametrize("wanted", [Open(1, 0, 8), Open(16, 0, 8), Open(0, 1996, 8), Open(0, 4000, 1)])
def test_what_there_is_not_is_not_shown(wanted: Open) -> None:
    watch = stopwatch()
    run(watch, 17)
    assert shown(watch, wanted) is None


def test_before_any_call_there_is_nothing_to_show() -> None:
    assert shown(stopwatch(), Open(0, 0, 8)) is None


# -- outputs of every kind -------------------------------------------------------------------------------------------


class Lazy(Tensor):
    """Could compute when it is looked at."""


def strided(x: Tensor, y: Tensor) -> Tensor:
    return torch.stack([x + y, x], dim=1)[:, 0]


def shifted(x: Tensor, y: Tensor) -> Tensor:
    return torch.cat([x[:1], x + y])[1:]


@pytest.mark.parametrize("function", [strided, shifted], ids=["with gaps", "at an odd address"])
def test_a_view_counts_as_its_elements(function: Callable[..., Tensor]) -> None:
    watch = stopwatch()
    assert run(watch, 17, function) == run(stopwatch(), 17)
    assert shown(watch, Open(0, 0, 2000)) == raw(added(*build(Recipe("add", {"N": 500}, 17))))
    assert watch.report().outputs == (Form("tensor", "float32", (500,), "cpu"),)


@pytest.mark.parametrize("dtype", [torch.float16, torch.int8, torch.float64, torch.bool])
def test_elements_of_any_dtype_are_bytes(dtype: torch.dtype) -> None:
    watch = stopwatch()
    sums = run(watch, 17, lambda x, y: (x + y).to(dtype))
    expected = raw(added(*build(Recipe("add", {"N": 500}, 17))).to(dtype))
    assert sums[:-1] == [word_sum(expected[first : first + count]) for first, count in spans(len(expected))]


def test_a_scalar_and_an_empty_output_are_outputs() -> None:
    watch = stopwatch()
    sums = run(watch, 17, lambda x, y: (x.sum(), x[:0]))
    assert len(sums) == 2
    assert [form.shape for form in watch.report().outputs] == [(), (0,)]


def test_arguments_that_the_call_may_change_are_outputs_after_the_returned_ones() -> None:
    def in_place(x: Tensor, y: Tensor) -> Tensor:
        y.mul_(2)
        return x

    watch = stopwatch()
    run(watch, 17, in_place, timed(mutates=("y",)))
    x, y = build(Recipe("add", {"N": 500}, 17))
    assert shown(watch, Open(0, 0, 2000)) == raw(x)
    assert shown(watch, Open(1, 0, 2000)) == raw(2 * y)


def attributed(x: Tensor, y: Tensor) -> Tensor:
    result = x + y
    result.later = lambda: None  # type: ignore[attr-defined]
    return result


@pytest.mark.parametrize(
    ("function", "kind"),
    [
        (lambda x, y: (x + y).as_subclass(Lazy), "Lazy"),
        (lambda x, y: torch.nn.Parameter(x + y), "Parameter"),
        (lambda x, y: (x + y).to_sparse(), "tensor with layout torch.sparse_coo"),
        (lambda x, y: 7.0, "float"),
        (lambda x, y: {"z": x + y}, "dict"),
    ],
)
def test_what_is_no_plain_tensor_has_no_bytes(function: Callable[..., Any], kind: str) -> None:
    watch = stopwatch()
    assert len(run(watch, 17, function)) == 1
    assert [form.kind for form in watch.report().outputs] == [kind]
    assert shown(watch, Open(0, 0, 8)) is None


def test_a_tensor_with_attributes_of_its_own_is_no_plain_tensor() -> None:
    watch = stopwatch()
    run(watch, 17, attributed)
    assert watch.report().outputs == (Form("tensor with attributes of its own"),)


def test_nothing_returned_is_no_output() -> None:
    watch = stopwatch()
    assert len(run(watch, 17, lambda x, y: None)) == 1
    assert watch.report().outputs == ()


def test_outputs_beyond_the_sixteenth_are_not_looked_at() -> None:
    watch = stopwatch()
    assert len(run(watch, 17, lambda x, y: [x] * 100)) == 17


def test_what_was_observed_is_reported() -> None:
    seen = Noted([Launch("kernel", (), {})], {"aten.add": None})

    @contextmanager
    def watching() -> Iterator[Noted]:
        yield seen

    watch = stopwatch()
    watch.run(watch.prepare(timed(), added, watching), 17)
    report = watch.report()
    assert (report.launches, report.operators) == ((Launch("kernel", (), {}),), ("aten.add",))
    assert report.device_us >= 0
