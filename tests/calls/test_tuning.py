"""Autotuned kernels: the first configuration that works answers, timed calls tune, and no clock counts compiling."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any

import pytest
import triton
from triton.compiler.errors import CompileTimeAssertionFailure
from triton.runtime.autotuner import Autotuner
from triton.runtime.errors import OutOfResources

from grader.calls.tuning import Tuning
from grader.exercise.catalogue import Entry
from grader.exercise.model import Limits, check_id
from grader.protocol.answers import Loaded
from grader.protocol.requests import Start
from grader.record.record import Record
from grader.sandbox import clock, usage
from grader.sandbox.clock import CallClock, CompileBudget, CompilesTooLong
from grader.sandbox.outcome import CompiledTooLong, TimedOut
from grader.sandbox.process_spec import ProcessSpec
from grader.sandbox.server import ForkServer, Mode, Spawner
from grader.sandbox.session import Session
from tests.conftest import answered, plan_with

# -- which configuration --------------------------------------------------------------------------------------------

CONFIGS = [triton.Config({"BLOCK": size}) for size in (512, 256, 128)]


class Kernel:
    """Stands for a compiled kernel: notes its launches, and refuses some block sizes."""

    def __init__(self, refused: dict[int, Exception] | None = None) -> None:
        self.refused = refused or {}
        self.launched: list[int] = []

    def run(self, n: int, *, BLOCK: int, **_: object) -> int:
        if BLOCK in self.refused:
            raise self.refused[BLOCK]
        self.launched.append(BLOCK)
        return BLOCK


class Uncounted:
    def noted(self) -> int:
        return 0

    def forget_from(self, count: int) -> None: ...


TOO_LARGE = OutOfResources(300, 200, "shared memory")


@pytest.fixture
def tuning(monkeypatch: pytest.MonkeyPatch) -> Tuning:
    for name in ("run", "_bench", "prune_configs", "do_bench"):
        monkeypatch.setattr(Autotuner, name, Autotuner.__dict__[name])
    tuning = Tuning(Uncounted())
    tuning.install()
    return tuning


def tuner_of(kernel: Kernel, times: dict[int, float]) -> tuple[Any, list[int]]:
    """An autotuner whose clock shows these times, and the block sizes that it timed."""
    timed: list[int] = []

    def bench(kernel_call: Any, quantiles: Any = None) -> list[float]:
        kernel_call()
        timed.append(kernel.launched.pop())
        return [times[timed[-1]]] * 3

    def function(n: int, BLOCK: int) -> None: ...

    tuner = Autotuner(function, ["n", "BLOCK"], CONFIGS, ["n"], None, None, do_bench=bench)
    tuner.fn = kernel
    return tuner, timed


FASTEST_LAST = {512: 3.0, 256: 2.0, 128: 1.0}


def test_an_answer_takes_the_first_configuration_and_times_none(tuning: Tuning) -> None:
    tuner, timed = tuner_of(Kernel(), FASTEST_LAST)
    assert [tuner.run(1), tuner.run(2), tuner.run(1)] == [512, 512, 512]
    assert timed == []


def test_a_timed_call_tunes_even_where_an_answer_took_a_configuration_before(tuning: Tuning) -> None:
    tuner, timed = tuner_of(Kernel(), FASTEST_LAST)
    tuner.run(1)
    with tuning.by_timing():
        assert [tuner.run(1), tuner.run(1)] == [128, 128]
    assert timed == [512, 256, 128]
    assert tuner.run(1) == 128


@pytest.mark.parametrize(
    "refused", [TOO_LARGE, CompileTimeAssertionFailure("x = 1", None, "no")], ids=["resources", "assertion"]
)
def test_a_configuration_that_an_autotuner_passes_over_is_passed_over(tuning: Tuning, refused: Exception) -> None:
    kernel = Kernel({512: refused})
    tuner, _ = tuner_of(kernel, FASTEST_LAST)
    assert [tuner.run(1), tuner.run(1)] == [256, 256]
    assert kernel.launched == [256, 256]


def test_where_all_fail_the_first_ones_reason_is_raised(tuning: Tuning) -> None:
    reasons = {size: OutOfResources(size, 100, "shared memory") for size in (512, 256, 128)}
    tuner, _ = tuner_of(Kernel(reasons), FASTEST_LAST)
    with pytest.raises(OutOfResources) as raised:
        tuner.run(1)
    assert raised.value is reasons[512]


def test_any_other_exception_is_the_kernels_own(tuning: Tuning) -> None:
    tuner, _ = tuner_of(Kernel({512: TypeError("no such argument")}), FASTEST_LAST)
    with pytest.raises(TypeError, match="no such argument"):
        tuner.run(1)


def test_a_benchmark_can_be_set_after_the_kernel_was_made(tuning: Tuning) -> None:
    tuner, _ = tuner_of(Kernel(), FASTEST_LAST)
    tuner.do_bench = lambda kernel_call, quantiles=None: [0.0] * 3
    with tuning.by_timing():
        assert tuner.run(1) == 512


def test_a_key_that_was_good_once_is_not_changed_by_a_later_failure(tuning: Tuning) -> None:
    kernel = Kernel()
    tuner, _ = tuner_of(kernel, FASTEST_LAST)
    tuner.run(1)
    kernel.refused = {512: TOO_LARGE}
    with pytest.raises(OutOfResources):
        tuner.run(1)


# -- in the interpreter ---------------------------------------------------------------------------------------------

TUNED = """
import torch, triton
import triton.language as tl

@triton.autotune([triton.Config({{"BLOCK": size}}) for size in {sizes}], key=["n"])
@triton.jit
def add_kernel(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    {check}
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    tl.store(z_ptr + offsets, tl.load(x_ptr + offsets, inside) + tl.load(y_ptr + offsets, inside), inside)

def vector_add(x, y):
    z = torch.empty_like(x)
    add_kernel[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, y, z, x.numel())
    return z
"""


@pytest.fixture
def graded(server: ForkServer, ex_15: Entry) -> Callable[[str], Record]:
    """Grade vector_add by a case of each of its checks."""
    checks = [check_id(part, check) for part, check in ex_15.exercise.checks() if part.name == "vector_add"]
    return lambda source: answered(server, ex_15, source, plan_with(ex_15, *checks, cases=1))


STATIC = 'tl.static_assert(BLOCK < 1024, "BLOCK must stay below 1024")'


def test_configurations_whose_static_assert_fails_are_skipped(graded: Callable[[str], Record]) -> None:
    record = graded(TUNED.format(sizes=[4096, 1024, 512], check=STATIC))
    statuses = {check.status for check in record.checks}
    assert statuses == {"pass", "skipped_environment"}, [check.cause for check in record.checks]


def test_where_every_static_assert_fails_the_kernel_does_not_compile_and_says_why(
    graded: Callable[[str], Record],
) -> None:
    record = graded(TUNED.format(sizes=[4096, 1024], check=STATIC))
    assert record.verdict == "compile_error"
    cause = record.checks[0].cause
    assert cause is not None
    assert "BLOCK must stay below 1024" in cause.rationale
    assert "(line 8)" in cause.rationale


# As many people write a pruner: it makes its configurations anew.
PRUNED = """
def anew(configs, named, **_):
    return [triton.Config(dict(one.kwargs), num_warps=one.num_warps) for one in configs]
"""


def test_a_pruner_that_makes_new_configurations_is_asked_once_a_call(graded: Callable[[str], Record]) -> None:
    text = TUNED.format(sizes=[4096, 1024, 512], check=STATIC)
    pruned = text.replace('key=["n"])', 'key=["n"], prune_configs_by={"early_config_prune": anew})')
    assert pruned != text
    record = graded(pruned.replace("\n@triton.autotune", f"{PRUNED}\n@triton.autotune"))
    assert {check.status for check in record.checks} == {"pass", "skipped_environment"}


# Every call is the first of its kernel, those with sealed inputs too.
MADE_ANEW = """
import torch, triton
import triton.language as tl

def vector_add(x, y):
    @triton.autotune([triton.Config({{"BLOCK": size}}) for size in (4096, 512)], key=["n"])
    @triton.jit
    def add_kernel(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
        {before}
        offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        inside = offsets < n
        z = tl.load(x_ptr + offsets, inside) + tl.load(y_ptr + offsets, inside)
        {after}
        tl.store(z_ptr + offsets, z, inside)

    z = torch.empty_like(x)
    add_kernel[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, y, z, x.numel())
    return z
"""


def test_a_configuration_may_fail_while_only_kernels_see_the_inputs(graded: Callable[[str], Record]) -> None:
    record = graded(MADE_ANEW.format(before=STATIC, after=""))
    assert {check.status for check in record.checks} == {"pass", "skipped_environment"}


def test_a_plain_assert_is_no_reason_to_pass_over_a_configuration(graded: Callable[[str], Record]) -> None:
    record = graded(TUNED.format(sizes=[4096, 512], check="assert BLOCK < 1024"))
    assert record.verdict == "crash"


# -- the clock ------------------------------------------------------------------------------------------------------


class Said:
    """A notice whose text a test sets."""

    text = ""


@pytest.fixture
def ticking(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, as a list of one number; no process ever waits for a core."""
    monkeypatch.setattr(clock.usage, "waited_s", lambda pid: 0.0)
    return [0.0]


def test_time_in_which_a_process_compiles_is_not_counted(ticking: list[float]) -> None:
    said, budget = Said(), CompileBudget()
    call = CallClock(1, said, budget, lambda: ticking[0])  # type: ignore[arg-type]
    for seconds, text in ((1.0, ""), (30.0, "1 matmul"), (31.0, "2 matmul"), (2.0, "")):
        said.text, ticking[0] = text, ticking[0] + seconds
        call.look()
    assert call.worked_s == 3.0
    assert budget.left_s == clock.ALL_KERNELS_S - 61.0


def test_one_kernel_may_take_a_minute_and_its_name_is_told(ticking: list[float]) -> None:
    said = Said()
    call = CallClock(1, said, CompileBudget(), lambda: ticking[0])  # type: ignore[arg-type]
    said.text = "1 matmul"
    call.look()
    ticking[0] = 61.0
    with pytest.raises(CompilesTooLong) as raised:
        call.look()
    assert (raised.value.kernel, raised.value.limit_s, raised.value.altogether) == ("matmul", 60.0, False)


def test_all_kernels_together_may_take_as_long_as_the_budget(ticking: list[float]) -> None:
    said, budget = Said(), CompileBudget(left_s=10.0)
    call = CallClock(1, said, budget, lambda: ticking[0])  # type: ignore[arg-type]
    for count in range(3):
        said.text, ticking[0] = f"{count} matmul", ticking[0] + 4.0
        if count < 2:
            call.look()
    with pytest.raises(CompilesTooLong) as raised:
        call.look()
    assert raised.value.altogether


# What a submission does that says so itself: it gains time, and no more than the budget.
CLAIMS = """
import gc, time
from grader.compile.announcing import Announcer
announcer = next(one for one in gc.get_objects() if isinstance(one, Announcer))
announcer("my_kernel")
time.sleep(1.5)
announcer("")
"""


class OnGpu:
    """A server whose children are taken for those that compile and launch."""

    mode: Mode = "gpu"

    def __init__(self, server: ForkServer) -> None:
        self.spawn = server.spawn
        self.reap = server.reap


def claiming(server: Spawner) -> Session:
    return Session(ProcessSpec(server, Start("ex.py", CLAIMS, "", ()), Limits(load_s=0.7)))


def test_a_process_that_compiles_is_waited_for_beyond_the_limit_of_a_call(server: ForkServer) -> None:
    with claiming(OnGpu(server)) as session:
        assert isinstance(session.load(), Loaded)
        assert session.worked_s < 1.0


def test_and_is_ended_when_its_budget_is_spent(server: ForkServer) -> None:
    with claiming(OnGpu(server)) as session:
        session._compile_budget.kernel_s = 0.3
        assert session.load() == CompiledTooLong("my_kernel", 0.3)


def test_where_nothing_is_compiled_the_claim_gains_no_time(server: ForkServer) -> None:
    with claiming(server) as session:
        assert session.load() == TimedOut(0.7)


def test_waits_that_other_tasks_of_the_submission_cause_are_counted(
    monkeypatch: pytest.MonkeyPatch, ticking: list[float]
) -> None:
    waited = [0.0]
    monkeypatch.setattr(usage, "waited_s", lambda pid: waited[0])
    call = CallClock(1, None, CompileBudget(), lambda: ticking[0])
    # In each second it waits for 0.9 s; its others used 30 s before, and then 0.5 s and 9 s.
    counted: list[float] = []
    for others in (30.0, 30.5, 39.5, 39.5):
        ticking[0], waited[0] = ticking[0] + 1.0, waited[0] + 0.9
        call.look()
        assert call.has_waited
        call.charge(others)
        assert not call.has_waited
        counted.append(round(call.worked_s, 3))
    assert counted == [0.1, 0.7, 1.7, 1.8]


def test_what_the_other_tasks_of_a_process_used_is_known() -> None:
    before = usage.others_s(os.getpid(), [os.getpid()])
    spin = threading.Thread(target=lambda: [sum(range(1000)) for _ in range(20_000)])
    spin.start()
    spin.join()
    assert usage.others_s(os.getpid(), [os.getpid(), 1 << 30]) - before > 0.02
