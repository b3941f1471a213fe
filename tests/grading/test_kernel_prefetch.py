"""What is compiled ahead: what later checks launch, each kind once, and by no more processes than there is work for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from grader.protocol.answers import Precompiled, Raised
from grader.protocol.requests import Call, Precompile, Recipe
from grader.protocol.trace import Choose, KernelText, Launch, TensorValue, Trace, Window
from grader.sandbox.joining import Joining
from grader.sandbox.kernel_cache import SlowKernels
from grader.sandbox.outcome import TimedOut
from grader.sandbox.precompiling import Late, precompile

CALL = Call(Recipe("add", {}, 0), ("x",), (), ())


def launch(size: int, block: int) -> Launch:
    return Launch(0, (1,), (TensorValue(0), size), {"BLOCK": block}, {}, 3)


def told(size: int, *blocks: int) -> Any:
    """A call on so many elements; tuned where there are several blocks."""
    steps = tuple((launch(size, block),) for block in blocks)
    trace = Trace(
        arguments={"x": 0},
        windows=(Window(0, "float32", 0, (size,), (1,)),),
        kernels=(KernelText("kernel", 1, "jit", {}),),
        steps=steps[0] if len(blocks) == 1 else (Choose(steps, 3),),
        outputs=(),
    )
    return SimpleNamespace(call=CALL, trace=trace, message={"size": size})


class Compiler:
    """A process that is as slow as it is told to be."""

    def __init__(self, *, too_slow: Sequence[int] = (), broken: Sequence[int] = ()) -> None:
        self.too_slow, self.broken = too_slow, broken
        self.asked: list[tuple[int, int]] = []
        self.counted: list[bool] = []
        self.woken = 0

    def wake(self) -> None:
        self.woken += 1

    def precompile(self, wanted: Precompile, limit_s: float, *, counted: bool = False) -> Any:
        self.asked.append((cast("dict[str, int]", wanted.trace)["size"], wanted.configuration))
        self.counted.append(counted)
        if wanted.configuration in self.too_slow:
            return TimedOut(limit_s)
        if wanted.configuration in self.broken:
            return Raised("raised", "crash", "CompilationError", "no", ())
        return Precompiled("precompiled", 1)


def test_what_is_not_tuned_is_compiled_however_long_it_takes() -> None:
    one = Compiler(too_slow=[0])
    assert precompile([one], [told(1000, 64), told(2000, 64)]).places == (frozenset(), frozenset())
    assert one.counted == [False, False]


def test_the_lightest_configuration_comes_first_and_does_not_wait_for_the_clock() -> None:
    one = Compiler()
    assert precompile([one], [told(1000, 512, 64, 128)]).places == (frozenset(),)
    assert one.asked[0] == (1000, 1)
    assert sorted(one.asked) == [(1000, 0), (1000, 1), (1000, 2)]
    assert one.counted == [False, True, True]


def test_what_is_not_ready_in_time_is_not_tried_at_any_size_that_compiles_to_the_same() -> None:
    one = Compiler(too_slow=[0])
    calls = [told(1024, 512, 64, 128), told(4096, 512, 64, 128), told(4097, 512, 64, 128)]
    assert precompile([one], calls).places == (frozenset({0}),) * 3
    # Of two lengths that 16 divides the second one is not even begun; the odd one is code of its own.
    assert [size for size, place in one.asked if place == 0] == [1024, 4097]


def test_what_took_all_the_time_is_not_begun_in_the_next_grading(tmp_path: Path) -> None:
    call = told(1000, 512, 64, 128)
    kept = SlowKernels(tmp_path / "cache" / "entry")
    first, second = Compiler(too_slow=[0]), Compiler(too_slow=[0])
    late = precompile([first], [call], slow=kept.names())
    kept.add(late.slow)
    assert len(SlowKernels(tmp_path / "cache" / "entry").names()) == 1
    assert precompile([second], [call], slow=kept.names()) == Late(late.places)
    assert (1000, 0) in first.asked
    assert (1000, 0) not in second.asked


def test_without_time_only_what_must_run_is_compiled() -> None:
    one = Compiler()
    assert precompile([one], [told(1000, 512, 64)], tuning_s=0.0) == Late((frozenset({0}),))
    assert one.asked == [(1000, 1)]


def test_a_configuration_that_does_not_compile_is_left_for_the_autotuner_to_pass_over() -> None:
    assert precompile([Compiler(broken=[0])], [told(1000, 512, 64)]) == Late((frozenset(),))


def test_a_process_that_would_find_everything_compiled_is_never_started() -> None:
    some = [Compiler(), Compiler(), Compiler(), Compiler()]
    precompile(some, [told(size, 64, 128) for size in (1001, 2001, 3001)])
    assert sum(one.woken for one in some) <= 2


def test_one_more_joins_with_every_step_that_takes_long_and_all_are_let_go_at_the_end() -> None:
    joining = Joining(first=1, long_s=0.0)
    joining.join()
    # The second one is let in while the first is still at it.
    assert joining.step(lambda: joining.join() or "compiled") == "compiled"
    assert (joining.steps, joining.has_long) == (1, True)
    quick = Joining(first=1, long_s=60.0)
    quick.step(lambda: None)
    assert not quick.has_long
    quick.open(3)
    for _ in range(4):
        quick.join()


def test_several_processes_share_the_work() -> None:
    some = [Compiler(), Compiler(), Compiler()]
    calls = [told(size, 64, 128, 256) for size in (1001, 2001, 3001)]
    assert precompile(some, calls) == Late((frozenset(),) * 3)
    asked = sorted(unit for one in some for unit in one.asked)
    assert asked == sorted((size, place) for size in (1001, 2001, 3001) for place in range(3))
