"""Autotuned kernels: every configuration is run once, a wrong one is named, and the lightest one is weighed.

The kernels stand in submissions/tuning/. A file with a wrong configuration says in its first line which one.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from grader.exercise.cases import Case, Cases, Choice, Size, Space
from grader.exercise.catalogue import Entry, resolve
from grader.exercise.model import Limits
from grader.exercise.plan import PlannedCase, default_seed
from grader.exercise.rules import Agrees, WorkModel
from grader.judge.bench import Bench
from grader.judge.configurations import ConfigurationRuns, every_configuration
from grader.judge.rules import decide
from grader.judge.rules.agrees import _tuned_cases
from grader.judge.rules.agrees import decide as agree
from grader.judge.rules.work_model import decide as works
from grader.judge.ruling import Ruling
from grader.judge.trial import CallRequest, NotRunHere, Trial
from grader.protocol.requests import Wanted
from grader.sandbox.clean_compiler import CleanCompiler
from grader.sandbox.process_spec import ProcessSpec
from grader.sandbox.server import ForkServer
from tests.benches import VECTOR_ADD, bench_of
from tests.claims import ROOT, SUBMISSIONS
from tests.conftest import plan_of

FOLDER = SUBMISSIONS / "tuning"
# No block size divides it.
ONE = PlannedCase(Case({"N": 4097, "dtype": "float32", "values": "normal", "offset": 0}), 3)


def found_in(bench: Bench) -> ConfigurationRuns:
    """What comes of every configuration of a case that is right as it is usually run."""
    usual = bench.try_case(ONE.case, ONE.seed)
    assert usual.failure is None
    return every_configuration(bench, ONE, usual)


def found_in_file(server: ForkServer, entry: Entry, name: str) -> ConfigurationRuns:
    path = FOLDER / f"{name}.py"
    text = path.read_text(encoding="utf-8")
    with (
        bench_of(server, entry, path) as bench,
        CleanCompiler(lambda: ProcessSpec.of(server.beside("compile"), entry, text)) as compiler,
    ):
        return found_in(replace(bench, refusal=compiler.refusal))


def test_a_wrong_configuration_is_found_and_named(server: ForkServer, ex_15: Entry) -> None:
    found = found_in_file(server, ex_15, "wrong_seventh")
    assert found.failure is not None
    assert "BLOCK=512, PER_PROGRAM=5, num_warps=8, WHOLE=True" in found.failure.cause.title
    assert "add_kernel (line 14, launched in line 27)" in found.failure.cause.rationale
    assert found.metrics == {"configurations": 8, "configurations_run": 7, "configurations_passed_over": 0}


def test_the_ragged_check_of_a_part_fails_with_it(server: ForkServer, ex_15: Entry) -> None:
    plan = plan_of(ex_15, default_seed(ex_15.id), gpu=False)
    planned = next(one for one in plan.checks if one.id == "vector_add.tail")
    with bench_of(server, ex_15, FOLDER / "wrong_seventh.py") as bench:
        ruling = decide(bench, planned)
    assert ruling.failure is not None
    assert ruling.failing is not None
    assert "num_warps=8" in ruling.failure.cause.title


def test_what_fails_a_static_assertion_is_passed_over_and_named(server: ForkServer, ex_15: Entry) -> None:
    with bench_of(server, ex_15, FOLDER / "failing_static_assert.py") as bench:
        found = found_in(bench)
    assert found.failure is None
    assert (found.known, found.run) == (4, 2)
    assert [one.partition(":")[0] for one in found.refused] == ["BLOCK=32", "BLOCK=16"]
    assert "BLOCK=16" in found.evidence["passed_over"]


def test_what_crashes_and_would_not_compile_is_passed_over(server: ForkServer, ex_15: Entry) -> None:
    found = found_in_file(server, ex_15, "crashing_where_no_compiler_goes")
    assert found.failure is None
    assert (found.known, found.run) == (2, 1)
    (refused,) = found.refused
    assert refused.startswith("OTHER=128: CompilationError")


def test_what_crashes_and_would_compile_counts(server: ForkServer, ex_15: Entry) -> None:
    # Without a compiler to ask, nothing is known against it.
    with bench_of(server, ex_15, FOLDER / "crashing_where_no_compiler_goes.py") as bench:
        trial = bench.try_case(ONE.case, ONE.seed)
    assert trial.failure is not None
    assert trial.failure.status == "crash"


def test_a_call_may_try_some_configurations_in_an_order(server: ForkServer, ex_15: Entry) -> None:
    with bench_of(server, ex_15, FOLDER / "failing_static_assert.py") as bench:
        orders = [(1, 2, 0), (0,), (6,)]
        trials = list(
            bench.tries([CallRequest(bench.part, ONE.case, ONE.seed, wanted=Wanted(order)) for order in orders])
        )
    # The second fails its assertion; a number beyond the last counts on from the first.
    assert [trial.configuration for trial in trials] == [2, 0, 2]


def judged_work(server: ForkServer, entry: Entry, source: str | Path) -> Ruling:
    part = entry.exercise.part("vector_add")
    assert part is not None
    model = next(check.rule for check in part.checks if isinstance(check.rule, WorkModel))
    with bench_of(server, entry, source) as bench:
        return works(bench, [ONE], model)


def test_bytes_are_those_of_the_configuration_that_moves_least(server: ForkServer, ex_15: Entry) -> None:
    ruling = judged_work(server, ex_15, FOLDER / "first_reads_twice.py")
    assert ruling.failure is None
    assert ruling.work[0].configuration == "TIMES=1, num_warps=8"


def test_where_all_read_too_often_the_best_of_them_is_told(server: ForkServer, ex_15: Entry) -> None:
    source = (
        (FOLDER / "first_reads_twice.py").read_text(encoding="utf-8").replace("((2, 4), (1, 8))", "((3, 4), (2, 8))")
    )
    ruling = judged_work(server, ex_15, source)
    assert ruling.failure is not None
    assert ruling.failure.cause.kind == "traffic"
    assert "TIMES=2, num_warps=8" in ruling.failure.cause.rationale
    assert ruling.work[0].configuration == "TIMES=2, num_warps=8"


MODELS = """
def model(**named):
    import pynvml
    pynvml.nvmlInit()
    return pynvml.nvmlDeviceGetCount()

def clocks(**named):
    from triton.testing import get_dram_gbps
    return get_dram_gbps() / named["BLOCK"]

def first_two(configs, named, **others):
    yield from configs[:2]

def none(configs, named, **others):
    return iter(())
"""


@pytest.mark.parametrize(
    ("pruning", "left"),
    [
        ("'perf_model': model, 'top_k': 1", 3),
        ("'perf_model': clocks, 'top_k': 2", 2),
        ("'early_config_prune': first_two, 'perf_model': model, 'top_k': 1", 2),
        ("'early_config_prune': first_two", 2),
    ],
    ids=["a model that asks a driver", "a model that asks Triton", "after other pruning", "a generator"],
)
def test_pruning_without_a_gpu_keeps_what_only_a_gpu_could_judge(
    server: ForkServer, ex_15: Entry, pruning: str, left: int
) -> None:
    source = tuned_with(f"prune_configs_by={{{pruning}}}")
    with bench_of(server, ex_15, source) as bench:
        found = found_in(bench)
    assert (found.known, found.run, found.failure) == (left, left, None)


def test_a_pruner_that_leaves_nothing_is_the_learner_s_mistake(server: ForkServer, ex_15: Entry) -> None:
    source = tuned_with("prune_configs_by={'early_config_prune': none}")
    with bench_of(server, ex_15, source) as bench:
        trial = bench.try_case(ONE.case, ONE.seed)
    assert trial.failure is not None
    assert "must leave a configuration" in trial.failure.cause.rationale


ADDS_TO_A_SUM = """
import torch
import triton
import triton.language as tl

CONFIGS = [triton.Config({"BLOCK": block}) for block in (512, 1024)]


@triton.autotune(CONFIGS, key=["n"])
@triton.jit
def add_kernel(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    total = tl.load(x_ptr + offsets, mask=inside) + tl.load(y_ptr + offsets, mask=inside)
    tl.atomic_add(z_ptr + offsets, total, mask=inside)


def vector_add(x, y):
    z = torch.zeros_like(x)
    add_kernel[lambda config: (triton.cdiv(x.numel(), config["BLOCK"]),)](x, y, z, x.numel())
    return z
"""


def test_what_the_trials_of_an_autotuner_leave_in_the_tensors_is_wrong(server: ForkServer, ex_15: Entry) -> None:
    with bench_of(server, ex_15, ADDS_TO_A_SUM) as bench:
        found = found_in(bench)
    assert found.failure is not None
    assert found.failure.cause.title.endswith(": after autotuning")
    assert "With BLOCK=512 the last launch finds what the trials left there" in found.failure.cause.rationale
    assert "reset_to_zero" in found.failure.cause.help


def test_a_result_that_is_returned_again_is_told_as_one_and_not_as_a_remembered_input(
    server: ForkServer, ex_15: Entry
) -> None:
    kept = "z = kept.setdefault(x.shape, torch.zeros_like(x))"
    source = ADDS_TO_A_SUM.replace("z = torch.zeros_like(x)", kept).replace("tl.atomic_add", "tl.store")
    assert kept in source
    with bench_of(server, ex_15, f"kept = {{}}\n{source}") as bench:
        found = found_in(bench)
    assert found.failure is not None
    assert found.failure.cause.title == "Results that share memory: an earlier result is overwritten"
    assert [clue.kind for clue in found.failure.clues if clue.confirmed] == ["reused_output"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('key=["n"])', 'key=["n"], reset_to_zero=["z_ptr"])'),
        ('key=["n"])', 'key=["n"], restore_value=["z_ptr"])'),
        ('{"BLOCK": block})', '{"BLOCK": block}, pre_hook=lambda named: named["z_ptr"].zero_())'),
        # Nobody knows what a hook of one's own would do after a trial.
        ('key=["n"])', 'key=["n"], pre_hook=lambda named, reset_only=False: named["z_ptr"].zero_())'),
        ("for block in (512, 1024)", "for block in (512,)"),
    ],
    ids=["cleared", "put back", "cleared by a configuration", "cleared by a hook", "nothing to choose"],
)
def test_an_autotuner_that_renews_what_its_kernel_changes_is_right(
    server: ForkServer, ex_15: Entry, before: str, after: str
) -> None:
    assert before in ADDS_TO_A_SUM
    with bench_of(server, ex_15, ADDS_TO_A_SUM.replace(before, after)) as bench:
        found = found_in(bench)
    assert found.failure is None


NARROW_KEY = """
import torch
import triton
import triton.language as tl

CONFIGS = [triton.Config({"BLOCK": 1024, "MASKED": masked}) for masked in (False, True)]


def fitting(configs, named, **others):
    return [one for one in configs if one.kwargs["MASKED"] == bool(named["n"] % 1024)]


@triton.autotune(CONFIGS, key=[], prune_configs_by={"early_config_prune": fitting})
@triton.jit
def add_kernel(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr, MASKED: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = (offsets < n) | (not MASKED)
    total = tl.load(x_ptr + offsets, mask=inside) + tl.load(y_ptr + offsets, mask=inside)
    tl.store(z_ptr + offsets, total, mask=inside)


def vector_add(x, y):
    z = torch.empty_like(x)
    add_kernel[(triton.cdiv(x.numel(), 1024),)](x, y, z, x.numel())
    return z
"""


@pytest.mark.parametrize(("key", "status"), [("key=[]", "fail"), ("key=['n']", None)])
def test_a_configuration_that_an_earlier_call_left_for_the_key_is_run_too(
    server: ForkServer, ex_15: Entry, key: str, status: str | None
) -> None:
    rule = Agrees(Cases(Space({**dict.fromkeys(ONE.case, Choice(("-",))), "N": Size(1, 9999)}), generated=1))
    cases = [PlannedCase(ONE.case.changed(N=length), 3) for length in (2048, 2047)]
    with bench_of(server, ex_15, NARROW_KEY.replace("key=[]", key)) as bench:
        ruling = agree(bench, cases, rule)
    assert (ruling.failure and ruling.failure.status) == status
    assert ruling.failing == (cases[1] if status else None)


PRUNED_BY_SIZE = """
import torch
import triton
import triton.language as tl

CONFIGS = [triton.Config({"BLOCK": block}) for block in (512, 256, 128)]


def fitting(configs, named, **others):
    return configs if named["n"] < 3000 else configs[:2]


@triton.autotune(CONFIGS, key=["n"], prune_configs_by={"early_config_prune": fitting})
@triton.jit
def add_kernel(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    total = tl.load(x_ptr + offsets, mask=inside) + tl.load(y_ptr + offsets, mask=inside)
    tl.store(z_ptr + offsets, total if BLOCK > 128 else total * 2, mask=inside)


def vector_add(x, y):
    z = torch.empty_like(x)
    add_kernel[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, y, z, x.numel())
    return z
"""


def test_a_configuration_that_pruning_leaves_to_small_sizes_alone_is_run_too(server: ForkServer, ex_15: Entry) -> None:
    space = Space({**{name: Choice((value,)) for name, value in ONE.case.items()}, "N": Size(1, 9999)})
    cases = Cases(space, ({"N": 4097},), generated=1)
    planned = [PlannedCase(ONE.case.changed(N=length), 3) for length in (4097, 100, 2047, 5000)]
    with bench_of(server, ex_15, PRUNED_BY_SIZE) as bench:
        ruling = agree(bench, planned, Agrees(cases, every_configuration=True))
    assert ruling.failure is not None
    assert ruling.failure.cause.title.endswith("with BLOCK=128")
    assert ruling.failing == planned[2]


SMALL_ALONE = PRUNED_BY_SIZE.replace(
    "\n\ndef vector_add",
    """

@triton.jit
def plain_kernel(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    total = tl.load(x_ptr + offsets, mask=inside) + tl.load(y_ptr + offsets, mask=inside)
    tl.store(z_ptr + offsets, total, mask=inside)


def vector_add""",
).replace(
    "    add_kernel[",
    """    if x.numel() > 3000:
        plain_kernel[(triton.cdiv(x.numel(), 512),)](x, y, z, x.numel(), BLOCK=512)
        return z
    add_kernel[""",
)


@pytest.mark.parametrize("source", [PRUNED_BY_SIZE, SMALL_ALONE], ids=["pruned", "another kernel for large sizes"])
def test_so_is_one_that_is_left_to_a_later_check_of_the_part(server: ForkServer, ex_15: Entry, source: str) -> None:
    space = Space({**{name: Choice((value,)) for name, value in ONE.case.items()}, "N": Size(1, 9999)})
    large, *small = (PlannedCase(ONE.case.changed(N=length), 3) for length in (4097, *range(2047, 2000, -1)))
    first = Agrees(Cases(space, ({"N": 4097},), generated=0), every_configuration=True)
    later = Agrees(Cases(space, ({"N": 2047},), generated=0))
    with bench_of(server, ex_15, source) as bench:
        # Every case begins with a configuration of its own; this one with the right one.
        one = next(one for one in small if agree(bench, [one], later).failure is None)
        rulings = agree(bench, [large], first), agree(bench, [one], later)
    # A check that asks for every configuration tells which ones the others need not run.
    assert rulings[0].failure is None
    assert rulings[1].failure is not None
    assert rulings[1].failure.cause.title.endswith("with BLOCK=128")


def test_each_case_of_any_check_begins_with_a_configuration_of_its_own(server: ForkServer, ex_15: Entry) -> None:
    """A configuration may be wrong for unusual values alone."""
    space = Space({name: Choice((value,)) for name, value in ONE.case.items()} | {"N": Size(1, 9999)})
    cases = [PlannedCase(ONE.case.changed(N=length), 3) for length in range(2000, 2008)]
    with bench_of(server, ex_15, PRUNED_BY_SIZE) as bench:
        ruling = agree(bench, cases, Agrees(Cases(space, ({"N": 2000},), generated=0)))
    assert ruling.failure is not None
    assert ruling.failure.cause.title.endswith("with BLOCK=128")


@pytest.mark.parametrize(
    "option",
    [
        "reset_to_zero=['z_ptr']",
        "restore_value=['z_ptr']",
        "use_cuda_graph=True",
        "cache_results=True",
        "do_bench=print",
    ],
)
def test_options_that_only_tuning_needs_change_nothing(server: ForkServer, ex_15: Entry, option: str) -> None:
    with bench_of(server, ex_15, tuned_with(option)) as bench:
        found = found_in(bench)
    assert (found.known, found.run, found.failure) == (3, 3, None)


def tuned_with(option: str) -> str:
    """An autotuned addition of three configurations, one of which has every option that a configuration may have."""
    text = (FOLDER / "failing_static_assert.py").read_text(encoding="utf-8")
    configs = "CONFIGS = [triton.Config({'BLOCK': 64 * size}, num_warps=size) for size in (1, 2)]\n"
    configs += "CONFIGS.append(triton.Config({'BLOCK': 512}, num_warps=8, num_stages=2, num_ctas=1, maxnreg=64))\n"
    head, _, rest = text.partition("CONFIGS = ")
    kept = rest.partition("\n")[2].replace('key=["n"]', f'key=["n"], {option}')
    return f"{head}{MODELS}{configs}{kept}"


def test_the_case_is_the_one_whose_lengths_have_the_largest_product_whatever_its_other_numbers() -> None:
    space = Space({"M": Size(1, 500), "N": Size(1, 500), "unused": Size(0, 9), "D": Choice((16, 999))})
    cases = Cases(space, ({"M": 400, "N": 2}, {"M": 60, "N": 70}, {"M": 1, "N": 30, "D": 999}), generated=1)
    drawn = PlannedCase(space.case(M=500, N=500), 0)
    planned = [drawn, *(PlannedCase(case, 0) for case in cases.named_cases)]
    assert _tuned_cases(planned, Agrees(cases, every_configuration=True)) == [planned[2]]
    assert _tuned_cases(planned, Agrees(cases)) == []


@pytest.mark.parametrize("exercise", ["ex_15", "ex_16", "ex_18", "ex_19"])
def test_every_part_with_kernels_has_a_case_for_it(exercise: str) -> None:
    entry, _ = resolve(ROOT, exercise)
    for part in entry.exercise.parts:
        rules = [check.rule for check in part.checks if isinstance(check.rule, Agrees)]
        assert any(rule.every_configuration for rule in rules) == part.is_replayed, part.name


CUT_IN_ONE_CONFIGURATION = """
import torch
import triton
import triton.language as tl

CONFIGS = [triton.Config({"BLOCK": 1024, "CUT": False}), triton.Config({"BLOCK": 512, "CUT": True})]


@triton.autotune(configs=CONFIGS, key=[])
@triton.jit
def add_kernel(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr, CUT: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    if CUT:
        x = x.to(DTYPE).to(x.dtype)
    tl.store(z_ptr + offsets, x + tl.load(y_ptr + offsets, mask=offsets < n), mask=offsets < n)


def vector_add(x, y):
    z = torch.empty_like(x)
    add_kernel[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, y, z, x.numel())
    return z
"""


@pytest.mark.parametrize("dtype", ["tl.float16", "tl.bfloat16"])
def test_a_configuration_that_is_wrong_for_one_dtype_alone_is_found(
    server: ForkServer, ex_15: Entry, dtype: str
) -> None:
    plan = plan_of(ex_15, default_seed(ex_15.id), gpu=False)
    planned = next(one for one in plan.checks if one.id == "vector_add.tail")
    with bench_of(server, ex_15, CUT_IN_ONE_CONFIGURATION.replace("DTYPE", dtype)) as bench:
        ruling = decide(bench, planned)
    assert ruling.failure is not None
    assert "CUT=True" in ruling.failure.cause.title
    assert ruling.failing is not None


TWO_CONFIGURATIONS = """
import torch
import triton
import triton.language as tl


@triton.autotune(configs=[triton.Config({"PLACE": place}, num_warps=warps) for place, warps in WARPS], key=[])
@triton.jit
def add_kernel(x_ptr, y_ptr, z_ptr, n, WIDTH: tl.constexpr, PLACE: tl.constexpr):
    offsets = tl.program_id(0) * 1024 + tl.arange(0, 1024)
    mask = offsets < n
BODY
    tl.store(z_ptr + offsets, tl.load(x_ptr + offsets, mask=mask) + tl.load(y_ptr + offsets, mask=mask), mask=mask)


def vector_add(x, y):
    z = torch.empty_like(x)
    add_kernel[(triton.cdiv(x.numel(), 1024),)](x, y, z, x.numel(), x.element_size())
    return z
"""


def two_configurations(*body: str, warps: tuple[int, int] = (4, 4)) -> str:
    lines = "\n".join(f"    {line}" for line in body)
    return TWO_CONFIGURATIONS.replace("WARPS", str([*enumerate(warps)])).replace("BODY", lines)


def test_each_call_takes_the_configuration_that_works_for_it(server: ForkServer, ex_15: Entry) -> None:
    text = two_configurations("tl.static_assert(WIDTH == 4 - 2 * PLACE)")
    with bench_of(server, ex_15, text) as bench:
        for dtype in ("float32", "float16", "float32", "float16"):
            case = Case({"N": 4097, "dtype": dtype, "values": "normal", "offset": 0})
            assert bench.try_case(case, 3).failure is None


def test_a_configuration_of_more_threads_than_a_gpu_has_answers_nothing(server: ForkServer, ex_15: Entry) -> None:
    text = two_configurations("if PLACE == 1:", "    mask &= offsets < 5", warps=(64, 4))
    with bench_of(server, ex_15, text) as bench:
        assert bench.try_case(ONE.case, ONE.seed).failure is not None


def test_a_configuration_that_never_ends_is_wrong(server: ForkServer, ex_15: Entry) -> None:
    text = two_configurations("done = 1 - PLACE", "while done < 1:", "    done += 0")
    with bench_of(server, ex_15, text, limits=Limits(call_s=1.0)) as bench:
        found = every_configuration(bench, ONE, bench.try_case(ONE.case, ONE.seed))
    assert found.failure is not None
    assert found.failure.status == "timeout"
    assert "PLACE=1" in found.failure.cause.title


TABLE = """import torch
import triton
import triton.language as tl

ONES = torch.ones(1)

@triton.autotune([triton.Config({'BLOCK': block}) for block in (64, 128, 256)], key=['n'])
@triton.jit
def add(x_ptr, y_ptr, z_ptr, ones_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n) * tl.load(ones_ptr)
    tl.store(z_ptr + offsets, x + tl.load(y_ptr + offsets, mask=offsets < n), mask=offsets < n)

def vector_add(x, y):
    z = torch.empty_like(x)
    add[lambda chosen: (triton.cdiv(x.numel(), chosen['BLOCK']),)](x, y, z, ONES, x.numel())
    return z
"""


def test_a_table_of_the_file_is_there_for_every_configuration(server: ForkServer, ex_15: Entry) -> None:
    with bench_of(server, ex_15, TABLE) as bench:
        for place in range(3):
            # All memory is told anew.
            bench.pair.skip()
            (trial,) = bench.tries([CallRequest(bench.part, ONE.case, ONE.seed, wanted=Wanted((place,)))])
            assert trial.failure is None


IN_ASSEMBLY = CUT_IN_ONE_CONFIGURATION.replace(
    "x.to(DTYPE).to(x.dtype)",
    'tl.inline_asm_elementwise("mov.b32 $0, $1;", "=r,r", [x], dtype=x.dtype, is_pure=True, pack=1)',
)


def test_a_configuration_that_only_a_gpu_runs_leaves_its_check_open_and_others_judged(
    server: ForkServer, ex_15: Entry
) -> None:
    """Nobody knows here whether it is right, and an autotuner may take it."""
    cases = [PlannedCase(ONE.case.changed(N=length), 3) for length in range(2000, 2008)]
    space = Space({name: Choice((value,)) for name, value in ONE.case.items()} | {"N": Size(1, 9999)})
    with bench_of(server, ex_15, IN_ASSEMBLY) as bench:
        assert agree(bench, cases, Agrees(Cases(space, ({"N": 2000},), generated=0))).failure is None
        with pytest.raises(NotRunHere, match=r"inline assembly .*, with BLOCK=512, CUT=True"):
            found_in(bench)


@pytest.mark.parametrize(("far", "is_open"), [((20000, 30000), True), ((20000,), False)])
def test_a_check_is_open_where_most_of_its_far_ends_are_left_out(
    far: tuple[int, ...], *, is_open: bool, server: ForkServer, ex_15: Entry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that is slow where it is wrong earns nothing by it."""
    space = Space({name: Choice((value,)) for name, value in ONE.case.items()} | {"N": Size(1, 9999)})
    cases = [PlannedCase(ONE.case.changed(N=length), 3) for length in (100, *far)]
    with bench_of(server, ex_15, VECTOR_ADD) as bench:
        tries = bench.tries

        def slow(requests: Sequence[CallRequest]) -> Generator[Trial]:
            for request, trial in zip(requests, tries(requests), strict=True):
                yield replace(trial, left_out="too many programs" if request.may_be_left_out else "")

        monkeypatch.setattr(bench, "tries", slow)
        with pytest.raises(NotRunHere) if is_open else nullcontext():
            assert agree(bench, cases, Agrees(Cases(space, ({"N": 100},), generated=0))).failure is None
