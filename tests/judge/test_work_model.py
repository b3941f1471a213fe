"""The work check: bytes are counted to the byte, memory to the byte, and what is too much is said with its numbers.

The counts of the model solutions are compared with formulas written down here, at the tiles that they launched with.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from grader.errors import SpecError
from grader.exercise.cases import Case, Cases, Size, Space
from grader.exercise.catalogue import Entry, resolve
from grader.exercise.plan import PlannedCase, default_seed
from grader.exercise.rules import Allowance, WorkModel
from grader.judge.failure import Failure
from grader.judge.part_findings import PartFindings
from grader.judge.rules.work_model import Weighed, weigh
from grader.judge.rules.work_model import decide as works
from grader.judge.ruling import Ruling
from grader.judge.trial import CallRequest, Trial
from grader.protocol.answers import Returned
from grader.protocol.observations import LaunchInfo, Traffic, Waste
from grader.protocol.requests import Counts, Recipe
from grader.record.causes import Cause
from grader.record.work import Work
from grader.sandbox.outcome import Finished
from grader.sandbox.server import ForkServer
from tests.benches import bench_of
from tests.conftest import ROOT, Grade, plan_of


def cdiv(a: int, b: int) -> int:
    return -(-a // b)


# -- the model solutions, byte for byte ------------------------------------------------------------------------------


SIZES = {"float32": 4, "float16": 2, "bfloat16": 2}


def blocks_of_a_vector(arrays: int) -> Callable[[dict[str, Any], LaunchInfo], dict[str, int]]:
    """So many vectors, each element loaded or stored once."""

    def count(case: dict[str, Any], _: LaunchInfo) -> dict[str, int]:
        size = SIZES[case["dtype"]]
        loaded, stored = (arrays - 1) * case["N"] * size, case["N"] * size
        return {"loaded": loaded, "stored": stored, "unique": loaded + stored, "flops": 0}

    return count


def softmax(case: dict[str, Any], _: LaunchInfo) -> dict[str, int]:
    """Every element is loaded once and stored once, whatever tile of rows a program takes."""
    size = SIZES[case["dtype"]] * case["M"] * case["N"]
    return {"loaded": size, "stored": size, "unique": 2 * size, "flops": 0}


def total(case: dict[str, Any], launch: LaunchInfo) -> dict[str, int]:
    """Every element is loaded once; each program's atomic loads and stores the 4 bytes of the sum."""
    size = SIZES[case["dtype"]] * case["N"]
    (programs,) = launch.grid
    assert programs == cdiv(case["N"], launch.constants["BLOCK"] * launch.constants["STEPS"])
    return {"loaded": size + 4 * programs, "stored": 4 * programs, "unique": size + 8, "flops": 0}


def product(case: dict[str, Any], launch: LaunchInfo) -> dict[str, int]:
    """A tile in row i and column j loads the rows of a that it covers and the columns of b, as far as there are any:
    all tiles of a column together all of a, all tiles of a row together all of b.
    """
    m, n, k = case["M"], case["N"], case["K"]
    size = SIZES[case["dtype"]]
    block_m, block_n, block_k = (launch.constants[f"BLOCK_{axis}"] for axis in "MNK")
    tiles_m, tiles_n = cdiv(m, block_m), cdiv(n, block_n)
    assert launch.grid == (tiles_m * tiles_n,)
    return {
        "loaded": size * (m * k * tiles_n + k * n * tiles_m),
        "stored": size * m * n,
        "unique": size * (m * k + k * n + m * n),
        # tl.dot multiplies whole tiles, what is masked as well.
        "flops": 2 * tiles_m * block_m * tiles_n * block_n * cdiv(k, block_k) * block_k,
    }


def product_with_bias(case: dict[str, Any], launch: LaunchInfo) -> dict[str, int]:
    """The same, and every tile loads its columns' biases."""
    plain = product(case, launch)
    size = SIZES[case["dtype"]]
    tile_rows = cdiv(case["M"], launch.constants["BLOCK_M"])
    return {
        **plain,
        "loaded": plain["loaded"] + size * case["N"] * tile_rows,
        "unique": plain["unique"] + size * case["N"],
    }


COUNTS = {
    ("ex_15", "vector_add"): blocks_of_a_vector(3),
    ("ex_15", "fused_multiply_add"): blocks_of_a_vector(4),
    ("ex_15", "row_softmax"): softmax,
    ("ex_15", "global_sum"): total,
    ("ex_16", "matmul"): product,
    ("ex_16", "matmul_bias_silu"): product_with_bias,
}


@pytest.mark.parametrize(("exercise", "part"), COUNTS, ids=lambda value: value)
def test_the_model_solution_moves_what_the_formula_says_to_the_byte(
    server: ForkServer, exercise: str, part: str
) -> None:
    entry, _ = resolve(ROOT, exercise)
    plan = plan_of(entry, default_seed(entry.id), gpu=False, parts=frozenset({part}))
    planned = next(check for check in plan.checks if isinstance(check.check.rule, WorkModel))
    assert isinstance(planned.check.rule, WorkModel)
    # The planned sizes, and those of several tiles in every direction, some of them in part.
    further = [
        replace(one, case=Case({**one.case, **sizes}))
        for one, sizes in zip(planned.cases * 2, MORE if exercise == "ex_16" else (), strict=False)
    ]
    assert planned.check.rule.moved is not None
    cases = [*planned.cases, *further]
    model = replace(planned.check.rule, moved=replace(planned.check.rule.moved, full=100.0, none=200.0))
    with bench_of(server, entry, entry.solution, part) as bench:
        assert works(bench, planned.cases, planned.check.rule).share == 1
        ruling = works(bench, cases, model)
        assert works(bench, cases, model).work == ruling.work
        for one, work in zip(cases, ruling.work, strict=True):
            (launch,) = bench.try_case(one.case, one.seed).launches
            wanted = COUNTS[exercise, part](dict(one.case), launch)
            got = {
                "loaded": work.loaded_bytes,
                "stored": work.stored_bytes,
                "unique": work.unique_bytes,
                "flops": work.flops,
            }
            shown = f"{part} {one.case.words()} {launch.grid} {launch.constants}"
            print(f"\n{shown}\n  counted {got}\n  formula {wanted}")
            assert got == wanted, shown


MORE = (
    {"M": 300, "N": 270, "K": 128},
    {"M": 129, "N": 257, "K": 37},
    {"M": 192, "N": 160, "K": 256},
    {"M": 65, "K": 1},
)


def test_all_parts_with_a_model_are_counted_here() -> None:
    modelled = {
        (exercise, part.name)
        for exercise in ("ex_15", "ex_16")
        for part, check in resolve(ROOT, exercise)[0].exercise.checks()
        if isinstance(check.rule, WorkModel)
    }
    assert modelled == set(COUNTS)


# -- memory of a real call -------------------------------------------------------------------------------------------

ADD = """
import torch, triton
import triton.language as tl

@triton.jit
def add_kernel(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.load(x_ptr + offsets, mask=offsets < n) + tl.load(y_ptr + offsets, mask=offsets < n)
    tl.store(z_ptr + offsets, total, mask=offsets < n)

def add(x, y, z):
    add_kernel[(triton.cdiv(x.numel(), 256),)](x, y, z, x.numel(), BLOCK=256)
    return z

def vector_add(x, y):
"""
N = 1000


@pytest.mark.parametrize(
    ("body", "extra"),
    [
        pytest.param("return add(x, y, torch.empty_like(x))", 0, id="the_result_alone"),
        pytest.param(
            "return add(x, y, torch.empty(x.shape, dtype=x.dtype, device=x.device))", 0, id="the_result_of_a_shape"
        ),
        pytest.param("t = torch.empty_like(x); return add(x, y, torch.empty_like(x))", 4 * N, id="a_temporary_kept"),
        pytest.param("t = torch.empty_like(x); del t; return add(x, y, torch.empty_like(x))", 0, id="one_freed"),
        pytest.param(
            "return add(x, y, torch.empty(2 * x.numel(), device=x.device)[: x.numel()])",
            4 * N,
            id="a_part_of_a_larger_one",
        ),
        pytest.param("return add(x.view(-1)[:], y.expand(y.shape), torch.empty_like(x))", 0, id="views"),
        pytest.param("return add(x.clone(), y, torch.empty_like(x))", 4 * N, id="a_copy_of_an_input"),
        # The old bytes are copied into the new memory.
        pytest.param("t = x.new_empty(7); return add(x, y, t.resize_(x.shape))", 28, id="a_result_that_was_resized"),
        pytest.param("return add(x, y, torch.zeros_like(x).zero_().fill_(3))", 0, id="a_result_filled_in_place"),
        pytest.param(
            "s = torch.empty(2500, dtype=torch.float64); return add(x, y, torch.empty_like(x))", 20000, id="f64"
        ),
        pytest.param(
            "q = torch.empty(x.numel(), x.numel()); return add(x, y, torch.empty_like(x))", 4 * N * N, id="quadratic"
        ),
    ],
)
def test_memory_beside_inputs_and_results_is_counted_to_the_byte(
    server: ForkServer, ex_15: Entry, body: str, extra: int
) -> None:
    model = WorkModel(CASES, extra=Allowance("4 * N", full=1.0, none=1.0001))
    with bench_of(server, ex_15, f"{ADD}    {body}\n") as bench:
        ruling = works(
            bench, [PlannedCase(Case({"N": N, "dtype": "float32", "values": "normal", "offset": 0}), 3)], model
        )
    (work,) = ruling.work
    assert (work.extra_bytes, work.extra_allowed_bytes, work.extra_none_bytes) == (extra, 4 * N, 4 * N + 1)
    assert (ruling.failure is None) == (extra <= 4 * N)
    if ruling.failure:
        assert ruling.failure.cause.kind == "memory"


@pytest.mark.parametrize(
    ("body", "share"),
    [
        pytest.param("return add(x, y, torch.empty_like(x))", 1.0, id="no_copy"),
        pytest.param("return add(x.contiguous(), y, torch.empty_like(x))", 1.0, id="contiguous_as_it_is"),
        pytest.param("return add(x.clone(), y, torch.empty_like(x))", 1.0, id="a_clone"),
        pytest.param("return add(torch.nn.functional.pad(x, (0, 9)), y, torch.empty_like(y))", 1.0, id="padded"),
        pytest.param("return add(x.repeat_interleave(3)[::3], y, torch.empty_like(x))", 0.0, id="repeated"),
        pytest.param("return add(x.half(), y, torch.empty_like(x))", 1.0, id="a_narrow_cast"),
        pytest.param("return add(x.double(), y, torch.empty_like(x))", 0.5, id="a_wide_cast"),
        pytest.param("z = add(x, y, torch.empty_like(x)); return z.clone()", 1.0, id="a_copy_of_the_result"),
    ],
)
def test_a_copy_costs_points_where_it_is_larger_than_what_it_copies(
    server: ForkServer, ex_15: Entry, body: str, share: float
) -> None:
    case = Case({"N": N, "dtype": "float32", "values": "normal", "offset": 0})
    with bench_of(server, ex_15, f"{ADD}    {body}\n") as bench:
        trial = bench.try_case(case, 3, counts="waste")
        model = WorkModel(CASES, enlarged=Allowance("8 * N / 3", full=1.0, none=2.0))
        weighed = weigh(trial, PlannedCase(case, 3), model, 1)
    assert isinstance(weighed, Weighed)
    assert weighed.share == share
    if weighed.failure is not None:
        # A fact, which no mistake in values that other checks show explains better.
        (clue,) = weighed.failure.clues
        assert (clue.kind, clue.confirmed, clue.title) == ("copied_by_torch", True, weighed.failure.cause.title)
        assert "repeat_interleave()" in clue.help


TWO_LOADS = """
import torch, triton
import triton.language as tl

@triton.jit
def kernel(x_ptr, y_ptr, z_ptr, w_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.load(x_ptr + offsets, mask=offsets < n)
    {between}
    total = 2.0 * total - tl.load(x_ptr + offsets, mask=offsets < n) + tl.load(y_ptr + offsets, mask=offsets < n)
    tl.store(z_ptr + offsets, total, mask=offsets < n)

def vector_add(x, y):
    z, w = torch.empty_like(x), torch.empty_like(x)
    kernel[(triton.cdiv(x.numel(), 256),)](x, y, z, w, x.numel(), BLOCK=256)
    return z
"""


@pytest.mark.parametrize(
    ("between", "share"),
    [
        pytest.param("pass", 0.0, id="nothing_between"),
        pytest.param("tl.store(w_ptr + offsets, total, mask=offsets < n)", 1.0, id="a_result_between"),
        pytest.param("tl.store(z_ptr + offsets, total, mask=offsets < n)", 0.0, id="a_store_that_the_last_one_covers"),
    ],
)
def test_what_a_program_loads_although_it_has_it_costs_points(
    server: ForkServer, ex_15: Entry, between: str, share: float
) -> None:
    case = Case({"N": N, "dtype": "float32", "values": "normal", "offset": 0})
    model = WorkModel(CASES, again=Allowance("N", full=1.0, none=2.0))
    with bench_of(server, ex_15, TWO_LOADS.format(between=between)) as bench:
        weighed = weigh(bench.try_case(case, 3, counts="waste"), PlannedCase(case, 3), model, 1)
    assert isinstance(weighed, Weighed)
    assert weighed.share == share
    if weighed.failure:
        assert weighed.failure.cause.title == "Programs load again what they have"
        assert "4,000 bytes are loaded by programs that loaded them before" in weighed.failure.cause.rationale


def test_launches_beyond_those_that_are_told_of_are_counted_all_the_same(server: ForkServer, ex_15: Entry) -> None:
    body = "z = torch.empty_like(x)\n    for _ in range(300): add(x, y, z)\n    return z\n"
    case = Case({"N": 7, "dtype": "float32", "values": "normal", "offset": 0})
    with bench_of(server, ex_15, f"{ADD}    {body}") as bench:
        (work,) = works(bench, [PlannedCase(case, 3)], MODEL).work
    assert work.moved_bytes == 300 * 12 * 7


def test_an_intermediate_in_memory_costs_the_points_of_the_check_and_no_other(graded: Grade, ex_15: Entry) -> None:
    record = graded(ex_15.mistake("vector_add_through_memory").text, "vector_add", cases=2)
    failed = {check.id: check for check in record.checks if check.status not in ("pass", "skipped_environment")}
    assert {*failed} == {"vector_add.traffic"}
    cause = failed["vector_add.traffic"].cause
    assert cause is not None
    assert cause.kind == "traffic"
    assert "200,000 bytes are loaded and stored, 1.67 times the 120,000 bytes" in cause.rationale


# -- the rule, and its words -----------------------------------------------------------------------------------------

CASES = Cases(Space({"N": Size(1, 1 << 20)}), ({"N": N},), generated=0)
ONE = PlannedCase(Case({"N": N}), 3)
MODEL = WorkModel(CASES, moved=Allowance("12 * N", full=1.1, none=1.5))


def moved(loaded: int, stored: int, once: tuple[int, int] | None = None, *, complete: bool = True) -> LaunchInfo:
    """A launch that moves so many bytes, of which so many are different ones."""
    first, second = once or (loaded, stored)
    traffic = Traffic(loaded, stored, first, second, 64, complete, dots=3, exponentials=50, operations=1000)
    return LaunchInfo("add_kernel", (8,), {}, traffic, waste=Waste())


def judged(
    *launches: LaunchInfo,
    model: WorkModel | None = None,
    allocated: int = 0,
    failure: Failure | None = None,
    sizes: tuple[int, ...] = (0,),
) -> Ruling:
    """The ruling on one case whose call did that; `sizes` are those of what is expected, the first one returned."""
    return judged_cases(launches, model=model, allocated=allocated, failure=failure, sizes=sizes)


def judged_cases(
    *calls: tuple[LaunchInfo, ...],
    model: WorkModel | None = None,
    allocated: int = 0,
    failure: Failure | None = None,
    sizes: tuple[int, ...] = (0,),
    planned: int = 0,
) -> Ruling:
    """The ruling on as many cases as there are calls, or on so many planned ones: the others are small copies."""
    waiting = iter(calls)
    expected = tuple(SimpleNamespace(nbytes=size) for size in sizes)

    def try_case(case: Case, seed: int, *, counts: Counts) -> Trial:
        assert counts != "bytes"
        answer = Returned("returned", (), (), (), next(waiting), (), allocated)
        return Trial(Recipe("p", dict(case), seed), Finished(answer, ()), expected, failure, 0.0)  # type: ignore[arg-type]

    def tries(requests: Sequence[CallRequest]) -> list[Trial]:
        return [try_case(one.case, one.seed, counts=one.counts) for one in requests if one.counts == "instructions"]

    part = SimpleNamespace(outputs=("z",))
    bench: Any = SimpleNamespace(try_case=try_case, tries=tries, part=part, findings=PartFindings())
    return works(bench, [ONE] * (planned or len(calls)), model or MODEL)


def cause(ruling: Ruling) -> Cause:
    assert ruling.failure is not None
    assert ruling.failure.status == "fail"
    return ruling.failure.cause


@pytest.mark.parametrize(
    ("stored", "share"),
    [(4200, 1.0), (4201, 4799 / 4800), (6600, 0.5), (8999, 1 / 4800), (9000, 0.0), (90000, 0.0)],
)
def test_points_fall_from_all_at_one_bound_to_none_at_the_other(stored: int, share: float) -> None:
    ruling = judged(moved(9000, stored))
    assert ruling.share == pytest.approx(share)
    assert (ruling.failure is None) == (share > 0)
    assert ruling.metrics == {"cases": 1, "bytes_moved": 9000 + stored, "bytes_allowed": 13200}


def test_some_of_the_points_are_earned_with_advice_on_the_rest_and_all_of_them_without() -> None:
    partly = judged(moved(12000, 4000, (8000, 4000)), sizes=(4000,))
    assert 0 < partly.share < 1
    (advice,) = partly.evidence.values()
    assert advice.startswith("N=1000: A launch loads each byte 1.5 times on average")
    assert judged(moved(8000, 4000)).evidence == {}


def test_the_worst_case_counts() -> None:
    ruling = judged_cases((moved(8000, 4000),), (moved(9000, 6600),), (moved(9000, 4201),))
    assert ruling.share == pytest.approx(0.5)
    assert len(ruling.work) == 3


def test_a_case_that_earns_nothing_ends_the_check() -> None:
    ruling = judged_cases((moved(9000, 6600),), (moved(90000, 4000),), (moved(8000, 4000),))
    assert cause(ruling).kind == "traffic"
    assert (ruling.share, ruling.failing, len(ruling.work)) == (0.0, ONE, 2)


def test_every_count_has_a_band_of_its_own_and_the_worst_share_counts() -> None:
    model = WorkModel(
        CASES, moved=Allowance("12 * N", 1.0, 2.0), stored=Allowance("4 * N", 1.0, 2.0), extra=Allowance("N", 1.0, 2.0)
    )
    assert judged(moved(8000, 4000), model=model).share == 1
    assert judged(moved(10400, 4000), model=model).share == pytest.approx(0.8)
    assert judged(moved(8000, 5600), model=model).share == pytest.approx(0.6)
    assert judged(moved(8000, 4000), model=model, allocated=1750).share == pytest.approx(0.25)
    assert judged(moved(10400, 5600), model=model, allocated=1750).share == pytest.approx(0.25)


PAIRS = WorkModel(CASES, stored=Allowance("4 * N", 1.0, 1.5), extra=Allowance("8 * N", 1.0, 1.1))


def test_what_limits_stores_and_memory_says_nothing_of_reading_again_or_storing_again() -> None:
    again = judged(moved(10**9, 10**9, (8000, 4000)), model=PAIRS, sizes=(4000,), allocated=4000)
    assert (again.failure, again.share) == (None, 1.0)


def test_what_is_stored_beside_the_results_fails_where_stores_are_limited() -> None:
    found = judged(moved(8000, 6000), model=PAIRS, sizes=(4000,), allocated=8000)
    assert found.failure is not None
    assert (cause(found).kind, cause(found).title) == ("stores", "Stores more bytes than needed")
    assert "6,000 bytes are stored, each counted once. All points are earned up to 4,000 bytes" in (
        cause(found).rationale
    )
    assert "and none from 6,000 bytes on" in cause(found).rationale
    assert [clue.kind for clue in found.failure.clues] == ["through_memory"]


def test_too_many_stores_of_a_call_without_memory_of_its_own_go_to_elements_that_stay_equal() -> None:
    found = judged(moved(8000, 6000), model=PAIRS, sizes=(4000,), allocated=4000)
    assert found.failure is not None
    assert [clue.kind for clue in found.failure.clues] == ["moves_unneeded"]


def test_stores_that_could_not_be_followed_pass_where_even_all_of_them_may_be_and_are_left_undecided_elsewhere() -> (
    None
):
    few = judged(moved(8000, 4000, (0, 0), complete=False), model=PAIRS)
    assert (few.share, few.undecided) == (1.0, "")
    many = judged(moved(8000, 9000, (0, 0), complete=False), model=PAIRS)
    assert many.failure is None
    assert many.undecided == "some of the bytes stored for N=1000 could not be counted"


def test_the_work_of_each_case_is_kept() -> None:
    (work,) = judged(moved(8000, 4000), moved(100, 0), allocated=5000, sizes=(4000, 700)).work
    assert work == Work(
        {"N": N},
        "N=1000",
        8100,
        4000,
        12100,
        2,
        128,
        12000,
        13200,
        1000,
        none_bytes=18000,
        unique_stored_bytes=4000,
        dots=6,
        exponentials=100,
        operations=2000,
        kernels=("add_kernel",),
    )


def test_small_copies_of_timed_sizes_are_counted_and_judged_by_nothing() -> None:
    model = WorkModel(CASES, moved=Allowance("12 * N", full=1.1, none=1.5), models=({"N": 7}, {"N": 9}))
    ruling = judged_cases((moved(8000, 4000),), (moved(10**9, 4),), (), model=model, planned=1)
    judged_case, copy = ruling.work

    assert (ruling.failure, ruling.share, ruling.metrics["cases"]) == (None, 1.0, 1)
    assert (judged_case.models_size, copy.models_size) == (False, True)
    assert (copy.case, copy.loaded_bytes, copy.allowed_bytes, copy.operations) == ({"N": 7}, 10**9, -1, 1000)


def test_small_copies_lie_in_the_space_of_the_cases() -> None:
    with pytest.raises(SpecError, match="name only the axes N"):
        WorkModel(CASES, moved=Allowance("12 * N", full=1.1, none=1.5), models=({"M": 7},))


def test_what_is_changed_in_place_is_nobody_s_allocation() -> None:
    model = WorkModel(CASES, extra=Allowance("999", 1.0, 1.001))
    assert judged(moved(1, 1), model=model, allocated=4999, sizes=(4000, 1 << 30)).failure is None
    assert cause(judged(moved(1, 1), model=model, allocated=5000, sizes=(4000, 1 << 30))).kind == "memory"


def test_a_call_that_fails_otherwise_fails_with_its_own_cause() -> None:
    race = Failure("fail", Cause("race", "Programs race", "…"))
    ruling = judged(moved(1, 1), failure=race)
    assert (ruling.failure, ruling.failing) == (race, ONE)


def test_without_a_kernel_there_is_nothing_to_pass() -> None:
    assert cause(judged()).kind == "no_kernel"


def test_what_could_not_be_counted_is_left_undecided() -> None:
    ruling = judged(moved(1, 1), LaunchInfo("add_kernel", (1,), {}))
    assert ruling.failure is None
    assert ruling.undecided == "some of the bytes moved for N=1000 could not be counted"


def test_a_launch_too_large_to_follow_is_judged_by_what_it_moved() -> None:
    assert judged(moved(8000, 4000, (0, 0), complete=False)).work[0].unique_bytes == 0
    assert "two" not in cause(judged(moved(80000, 4000, (0, 0), complete=False))).help


def test_too_much_traffic_is_said_with_model_bounds_and_each_launch() -> None:
    found = cause(judged(moved(16000, 4000), moved(4000, 4000)))
    assert found.title == "Moves more bytes than needed"
    assert found.rationale == (
        "For N=1000: 28,000 bytes are loaded and stored, 2.33 times the 12,000 bytes that this part needs (12 * N). "
        "All points are earned up to 13,200 bytes, and none from 18,000 bytes on. add_kernel loads 16,000 bytes and "
        "stores 4,000 bytes; add_kernel loads 4,000 bytes and stores 4,000 bytes."
    )
    assert (found.expected, found.actual) == ("at most 13,200 bytes", "28,000 bytes")


@pytest.mark.parametrize(
    ("launches", "said"),
    [
        ([moved(24000, 4000, (8000, 4000))], "loads each byte 3.0 times on average"),
        ([moved(12000, 40000, (12000, 4000))], "stores each byte 10.0 times on average"),
        ([moved(8000, 4000), moved(8000, 4000)], "The 2 launches pass their results on through memory"),
        ([moved(16000, 8000)], "not inputs and not results"),
    ],
)
def test_the_help_names_what_is_likely_behind_it(launches: list[LaunchInfo], said: str) -> None:
    assert said in cause(judged(*launches)).help


@pytest.mark.parametrize(
    ("launches", "kind"),
    [
        ([moved(24000, 12000, (8000, 4000))], "done_again"),
        # Neither is what is stored needed once only, nor what is loaded.
        ([moved(12000, 40000, (12000, 4000))], "through_memory"),
        ([moved(24000, 12000, (12000, 8000))], "through_memory"),
        ([moved(24000, 4000, (8000, 4000))], "read_again"),
    ],
)
def test_work_that_programs_do_twice_is_no_intermediate_value(launches: list[LaunchInfo], kind: str) -> None:
    failure = judged(*launches, sizes=(4000,)).failure
    assert failure is not None
    assert max(failure.clues, key=lambda clue: clue.weight).kind == kind


@pytest.mark.parametrize(
    ("launches", "said", "kinds"),
    [
        # 16,000 bytes are loaded again; 2,000 are stored beside the results and loaded again.
        ([moved(26000, 6000, (10000, 6000))], "loads each byte 2.6 times", ["read_again", "through_memory"]),
        # 4,000 bytes are loaded again; 24,000 are stored beside the results, and loaded again.
        ([moved(24000, 16000, (20000, 16000))], "not inputs and not results", ["through_memory", "read_again"]),
        # 12,000 bytes are stored again, and loaded in between: the 4,000 that are loaded again are among these.
        ([moved(24000, 16000, (20000, 4000))], "stores each byte 4.0 times", ["through_memory"]),
    ],
)
def test_what_costs_most_bytes_is_told_first(launches: list[LaunchInfo], said: str, kinds: list[str]) -> None:
    ruling = judged(*launches, sizes=(4000,))
    assert said in cause(ruling).help
    assert ruling.failure is not None
    assert [clue.kind for clue in ruling.failure.clues] == kinds


def test_what_the_model_lets_programs_read_again_is_no_waste() -> None:
    """Of 30,000 bytes that are needed, 18,000 are for reading again: what is handed on costs more."""
    model = WorkModel(CASES, moved=Allowance("30 * N", 1.1, 1.5))
    ruling = judged(moved(26000, 20000, (8000, 20000)), model=model, sizes=(4000,))
    assert "not inputs and not results" in cause(ruling).help


def test_large_ratios_and_many_launches_read_well() -> None:
    assert "12,345 times the 12,000 bytes" in cause(judged(moved(12000 * 12345, 0))).rationale
    assert cause(judged(*[moved(12000, 0)] * 9)).rationale.endswith("stores 0 bytes; and 5 more.")


def test_too_much_memory_is_said_with_its_bound() -> None:
    model = WorkModel(CASES, extra=Allowance("4 * N + 7", full=1.0, none=2.0))
    found = cause(judged(moved(8000, 4000), model=model, allocated=4_004_000, sizes=(4000,)))
    assert found.title == "Takes too much memory"
    assert found.rationale == (
        "For N=1000: your own tensors take up 4,000,000 bytes at one time, besides inputs and results. All points "
        "are earned up to 4,007 bytes (4 * N + 7), and none from 8,014 bytes on."
    )


@pytest.mark.parametrize("claimed", [-(10**30), 10**400])
def test_counts_that_cannot_be_are_no_trouble(claimed: int) -> None:
    model = WorkModel(CASES, moved=Allowance("12 * N"), extra=Allowance("0"))
    ruling = judged(moved(claimed, 4000, (0, 0)), allocated=claimed, model=model)
    assert ruling.work[0].loaded_bytes in (0, 1 << 40)
    forged = replace(moved(20000, 4000), kernel="\x1b[31madd\n::error::")
    assert "\x1b" not in cause(judged(forged)).rationale
