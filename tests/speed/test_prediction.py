"""What the roofline predicts from counted work: exact sums on small tables, and what was once measured on an H200."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from grader.exercise.cases import Cases, Choice, Size, Space
from grader.exercise.catalogue import Entry
from grader.exercise.rules import SpeedBand
from grader.gpus import ARCHITECTURES, USUAL
from grader.record.checks import PartInfo
from grader.record.launches import Grid
from grader.record.record import Record
from grader.record.speed import Ceilings
from grader.record.work import Prediction, Work
from grader.speed.prediction import (
    CountedPart,
    Roofs,
    Units,
    measured_roofs,
    published_roofs,
    units_of,
)
from tests.conftest import ROOT, Grade
from tests.records import samples
from tests.records.compiled import COPY
from tests.records.compiled import kernel as compiled_kernel

# A terabyte and 2 TFLOP (1 in float32) per second: a byte is 1e-6 µs, a float16 operation half of that.
ROOFS = Roofs("a toy", 1.0, {"float16": 2.0, "float32": 1.0}, "measured", launch_us=3.0)
SPACE = Space({"N": Size(1, 1 << 40), "dtype": Choice(("float32", "float16"))})


def band(*sizes: dict[str, Any], **changes: Any) -> SpeedBand:
    """3·N elements move, and N operations each are done."""
    given = {"bytes": "3 * N * itemsize", "flops": "N", "suite": Cases(SPACE, sizes or ({"N": 1000},), generated=0)}
    return SpeedBand("torch_eager", 0.5, 0.9, **{**given, **changes})


def work(
    n: int = 100, dtype: str = "float32", *, times: float = 1.0, launches: int = 1, dots: int = 0, **more: Any
) -> Work:
    """What was counted on one case: `times` as many bytes as the size needs. dots: operations of tl.dot."""
    nbytes = int(times * 3 * n * (4 if dtype == "float32" else 2))
    case: dict[str, Any] = {"N": n, "dtype": dtype}
    return Work(case, f"N={n}, dtype={dtype}", nbytes, 0, nbytes, launches, dots, nbytes, nbytes, 0, **more)


def predicted(case: dict[str, Any], *counted: Work, of: SpeedBand | None = None, roofs: Roofs = ROOFS) -> Prediction:
    found = CountedPart(of or band(), counted).predict(roofs, case, "words")
    assert found is not None
    return found


# -- arithmetic ------------------------------------------------------------------------------------------------------


def test_bytes_are_scaled_to_the_size_and_divided_by_the_bandwidth() -> None:
    one = predicted({"N": 10**6, "dtype": "float32"}, work())
    assert (one.bytes, one.flops, one.time_us, one.bound) == (12_000_000, 1_000_000, 15.0, "memory")


def test_what_moves_twice_the_bytes_takes_twice_the_bytes_time() -> None:
    one = predicted({"N": 10**6, "dtype": "float32"}, work(times=2))
    assert (one.bytes, one.time_us) == (24_000_000, 27.0)


def test_what_loads_a_byte_again_within_a_launch_loads_it_once_from_dram() -> None:
    again = dataclasses.replace(work(), loaded_bytes=10 * 1200)
    assert predicted({"N": 10**6, "dtype": "float32"}, again).bytes == 12_000_000


def test_operations_rule_where_they_take_longer_than_the_bytes() -> None:
    one = predicted({"N": 10**6, "dtype": "float16"}, work(dots=1), of=band(flops="100 * N"))
    assert (one.flops, one.time_us, one.bound) == (10**8, 53.0, "compute")


def test_every_launch_costs_and_rules_where_it_costs_most() -> None:
    one = predicted({"N": 1000, "dtype": "float32"}, work(launches=2))
    assert (one.time_us, one.bound) == (6.012, "launch")


def test_operations_outside_dots_run_on_the_ordinary_cores_whatever_their_type() -> None:
    many = band(flops="100 * N")
    assert predicted({"N": 10**6, "dtype": "float16"}, work(dots=0), of=many).time_us == 103.0
    assert predicted({"N": 10**6, "dtype": "float16"}, work(dots=1), of=many).time_us == 53.0


def test_without_a_formula_counted_operations_grow_with_the_bytes() -> None:
    one = predicted({"N": 10**6, "dtype": "float32"}, work(dots=500), of=band(flops="0"))
    assert one.flops == 500 * 10**4


def test_a_type_without_a_rate_is_no_faster_than_the_fastest() -> None:
    assert ROOFS.rate("float8_e4m3fn") == 2.0
    assert Roofs("bare", 1.0, {}, "measured").rate("float16") == 0.0


def test_the_largest_case_of_the_size_s_own_type_is_scaled() -> None:
    counted = (work(100, times=2), work(1000, times=1.5), work(10**4, "float16", times=4))
    assert predicted({"N": 10**6, "dtype": "float32"}, *counted).bytes == 18_000_000
    assert predicted({"N": 10**6, "dtype": "bfloat16"}, *counted).bytes == 24_000_000


@pytest.mark.parametrize(
    "counted",
    [(), (work(launches=0),), (dataclasses.replace(work(), unique_bytes=0),)],
    ids=["nothing", "no launch", "no byte"],
)
def test_what_was_not_counted_predicts_nothing(counted: tuple[Work, ...]) -> None:
    assert CountedPart(band(), counted).predict(ROOFS, {"N": 1000, "dtype": "float32"}, "words") is None


def test_a_counted_case_that_the_suite_s_formula_does_not_know_predicts_nothing() -> None:
    other = dataclasses.replace(work(), case={"M": 7})
    assert CountedPart(band(), (other,)).predict(ROOFS, {"N": 1000, "dtype": "float32"}, "words") is None


# -- phases ----------------------------------------------------------------------------------------------------------

# Products at 4 TFLOP/s; a thousand multiprocessor clocks in a µs, each of 2 exponentials or 8 other operations.
UNITS = Units({"float16": 4.0, "float32": 4.0}, special=2, lanes=8, dot_clocks=100, clocks=1000)
WITH_UNITS = dataclasses.replace(ROOFS, units=UNITS)


def copy(n: int = 100, dtype: str = "float16", **changes: Any) -> Work:
    """A small copy of a size: nothing but the bytes, and what is given."""
    return dataclasses.replace(work(n, dtype), models_size=True, **changes)


@pytest.mark.parametrize(
    ("counts", "phases_us"),
    [
        # Scaled 10,000 times: 4e6 operations of products at 4 TFLOP/s.
        ({"flops": 400}, 1.0),
        ({"exponentials": 4}, 20.0),
        # An exponential takes a lane as well, but its own unit longer.
        ({"exponentials": 4, "operations": 12}, 20.0),
        ({"exponentials": 4, "operations": 28}, 40.0),
        ({"dots": 3}, 3000.0),
        ({"flops": 400, "exponentials": 4, "operations": 28, "dots": 3}, 3041.0),
    ],
)
def test_the_phases_of_a_small_copy_add_up(counts: dict[str, int], phases_us: float) -> None:
    one = predicted({"N": 10**6, "dtype": "float16"}, copy(unique_stored_bytes=0, **counts), roofs=WITH_UNITS)
    # A launch, and at least the time of the bytes.
    assert one.time_us == pytest.approx(3 + max(phases_us, 6.0))


def test_what_is_stored_is_stored_after_it_was_computed() -> None:
    third = copy(unique_bytes=600, unique_stored_bytes=200, dots=3)
    one = predicted({"N": 10**6, "dtype": "float16"}, third, roofs=WITH_UNITS)
    assert (one.time_us, one.bound) == (3 + 3000 + 2, "compute")


def test_phases_that_take_less_than_the_measured_rate_allows_do_not_count() -> None:
    one = predicted({"N": 10**6, "dtype": "float16"}, copy(flops=40_000), of=band(flops="N"), roofs=WITH_UNITS)
    assert (one.flops, one.time_us) == (4 * 10**8, 3 + 200)


def test_only_a_small_copy_tells_phases_and_only_on_a_known_architecture() -> None:
    other = dataclasses.replace(copy(dots=3), models_size=False)
    assert predicted({"N": 10**6, "dtype": "float16"}, other, roofs=WITH_UNITS).time_us == 9.0
    assert predicted({"N": 10**6, "dtype": "float16"}, copy(dots=3)).time_us == 9.0
    assert measured_roofs("G", Ceilings(4.0, 5.0, {"float16": 100.0}), "4.2").units is None


def test_the_copy_that_shares_most_values_with_the_size_is_scaled() -> None:
    near, far = ({"N": 100, "dtype": "float16", "masked": masked} for masked in (1, 0))
    counted = (
        copy(case=far, dots=5),
        copy(case=near, dots=1),
        copy(1000, "float32", dots=7),
        work(10**5, "float16"),
    )
    size = {"N": 10**6, "dtype": "float16", "masked": 1}
    assert predicted(size, *counted, roofs=WITH_UNITS).time_us == pytest.approx(3 + 1000)


def test_an_h100_computes_16_exponentials_in_a_clock_of_each_multiprocessor() -> None:
    units = units_of(USUAL.gpu, USUAL)
    exponentials = copy(flops=0, exponentials=16 * 132 * 1980)
    assert units.phases_us(exponentials, "float16") == pytest.approx(1.0, rel=1e-3)
    assert measured_roofs("H100", Ceilings(4.0, 5.0, {"float16": 100.0}), "9.0").units == units


# -- roofs -----------------------------------------------------------------------------------------------------------


def test_published_peaks_are_cut_to_what_is_reached_and_measured_ceilings_are_not() -> None:
    gpu = dataclasses.replace(USUAL.gpu, name="G", dram_tbps=10.0, tflops={"float16": 100.0, "float32": 10.0})
    paper = published_roofs(gpu, USUAL)
    assert (paper.gpu, paper.ceilings) == ("G", "published")
    assert (paper.dram_tbps, paper.tflops) == (pytest.approx(9.2), pytest.approx({"float16": 80.0, "float32": 7.0}))

    real = measured_roofs("G", Ceilings(4.0, 5.0, {"float16": 100.0}))
    assert (real.dram_tbps, real.tflops, real.ceilings) == (4.0, {"float16": 100.0}, "measured")


def test_where_triton_uses_no_tensor_cores_a_product_is_expected_at_the_float32_rate() -> None:
    row = dataclasses.replace(USUAL, triton_tensor_cores=False)
    assert published_roofs(row.gpu, row).tflops == pytest.approx({"float32": 0.7 * row.gpu.tflops["float32"]})
    assert published_roofs(row.gpu, row).rate("float16") == published_roofs(row.gpu, row).rate("float32")


def test_nothing_is_predicted_in_a_type_that_the_gpu_lacks() -> None:
    roofs = dataclasses.replace(ROOFS, lacks=("float16",))
    assert CountedPart(band(), (work(),)).predict(roofs, {"N": 1000, "dtype": "float16"}, "words") is None
    assert CountedPart(band(), (work(),)).predict(roofs, {"N": 1000, "dtype": "float32"}, "words") is not None


# -- where nothing can be timed --------------------------------------------------------------------------------------


def test_a_few_sizes_are_predicted_on_every_named_gpu_from_short_to_long() -> None:
    sizes = tuple({"N": 1 << power} for power in range(20, 31))
    found = CountedPart(band(*sizes), (work(),)).on_paper()
    lengths = list(dict.fromkeys(one.case["N"] for one in found))

    gpus = [gpu.name for row in ARCHITECTURES.values() for gpu in row.gpus]
    assert len(found) == 4 * len(gpus)
    assert lengths == sorted(lengths)
    assert (lengths[0], lengths[-1]) == (1 << 20, 1 << 30)
    assert [one.gpu for one in found[: len(gpus)]] == gpus
    assert {(one.ceilings, one.measured_us) for one in found} == {("published", -1.0)}


def test_a_size_that_takes_as_long_as_another_is_left_out() -> None:
    sizes = ({"N": 1 << 30}, {"N": 1 << 31, "dtype": "float16"}, {"N": 1 << 20})
    assert {one.case["N"] for one in CountedPart(band(*sizes), (work(),)).on_paper()} == {1 << 20, 1 << 30}


def test_nothing_counted_predicts_nothing_on_paper() -> None:
    assert CountedPart(band(), ()).on_paper() == ()


# -- beside measurements ---------------------------------------------------------------------------------------------


def test_every_size_stands_beside_its_measured_time_that_of_a_graph_where_launches_ruled_the_other() -> None:
    first, second = samples.unsteady_speed().sizes
    own, *others = first.contenders
    graph = dataclasses.replace(
        first, method="graph", contenders=(dataclasses.replace(own, median_us=own.median_us - 5), *others)
    )
    timed = dataclasses.replace(samples.unsteady_speed(), sizes=(first, graph, second))
    found = CountedPart(band(), (work(),)).measured("NVIDIA H200", timed)

    assert [(one.words, one.measured_us) for one in found] == [
        (size.words, size.submission.median_us) for size in (graph, second)
    ]
    # 12 bytes an element over 4.27 TB/s, and 5 µs for the launch.
    assert found[0].time_us == pytest.approx(12 * (1 << 23) / 4.27e6 + 5, rel=1e-4)
    assert (found[0].gpu, found[0].ceilings) == ("NVIDIA H200", "measured")


def test_without_measured_ceilings_nothing_is_predicted_beside_a_measurement() -> None:
    speed = dataclasses.replace(samples.unsteady_speed(), ceilings=None)
    assert CountedPart(band(), (work(),)).measured("G", speed) == ()


def test_where_the_small_copies_ran_other_kernels_nothing_is_predicted_and_the_reason_is_told() -> None:
    speed = samples.unsteady_speed()
    timed = dataclasses.replace(
        speed, sizes=tuple(dataclasses.replace(size, kernels=("hopper",)) for size in speed.sizes)
    )
    portable, with_sum = copy(dtype="float32", kernels=("portable",)), copy(dtype="float32", kernels=("hopper", "sum"))

    assert CountedPart(band(), (portable,)).measured("G", timed) == ()
    assert CountedPart(band(), (portable,)).why_uncounted(timed) == (
        "no time is predicted: the interpreter ran portable in place of hopper"
    )
    assert len(CountedPart(band(), (portable, with_sum)).measured("G", timed)) == len(speed.sizes)
    assert CountedPart(band(), (portable, with_sum)).why_uncounted(timed) == ""
    # Bytes that were counted of another kernel are those that the size needs, or close to it.
    assert len(CountedPart(band(), (work(kernels=("portable",)),)).measured("G", timed)) == len(speed.sizes)


def test_older_records_name_no_kernels_and_get_their_predictions() -> None:
    speed = samples.unsteady_speed()
    assert len(CountedPart(band(), (copy(dtype="float32", kernels=("k",)),)).measured("G", speed)) == len(speed.sizes)


# -- how well it does ------------------------------------------------------------------------------------------------


def product(m: int, n: int, k: int, dtype: str = "float16") -> dict[str, Any]:
    return {"M": m, "N": n, "K": k, "dtype": dtype}


@pytest.mark.parametrize(
    ("size", "measured_us"),
    [
        (product(512, 512, 512), 6),
        (product(1024, 1024, 1024), 9),
        (product(2048, 2048, 2048), 28),
        (product(4096, 4096, 4096), 178),
        (product(8192, 8192, 8192), 1420),
        (product(6144, 6144, 6144, "bfloat16"), 574),
        (product(3072, 3072, 3072, "float32"), 1281),
        (product(16, 32768, 32768), 475),
        (product(2048, 2048, 49152), 506),
    ],
)
def test_on_paper_an_h200_multiplies_about_as_fast_as_cublas_did(size: dict[str, Any], measured_us: float) -> None:
    """Those of an earlier run than the one in docs/timing.md; below 10 µs they are known to a microsecond."""
    space = Space({axis: Size(1, 1 << 17) for axis in "MNK"} | {"dtype": Choice(("float16", "bfloat16", "float32"))})
    products = band(
        bytes="itemsize * (M * K + K * N + M * N)",
        flops="2 * M * N * K",
        suite=Cases(space, (product(8, 8, 8),), generated=0),
    )
    nbytes = 3 * 64 * 64 * 2
    counted = Work(product(64, 64, 64), "", nbytes, 0, nbytes, 1, 2 * 64**3, nbytes, nbytes, 0)
    one = predicted(size, counted, of=products, roofs=published_roofs(USUAL.gpu, USUAL))

    assert USUAL.gpu.name == "H200"
    assert one.time_us == pytest.approx(measured_us, rel=0.07, abs=1.4)


@pytest.mark.parametrize(
    ("tensors", "gibibytes", "measured_tbps"), [(2, 1, 4.25), (3, 1, 4.37), (4, 1, 4.43), (2, 1 / 64, 2.61)]
)
def test_on_paper_an_h200_streams_about_as_fast_as_it_did(tensors: int, gibibytes: float, measured_tbps: float) -> None:
    """A copy, x + y and x·y + z over tensors of 1 GiB and 16 MiB, measured on an H200."""
    streams = band(bytes=f"{tensors} * N * itemsize")
    size = int(gibibytes * (1 << 30)) // 4
    counted = dataclasses.replace(work(), unique_bytes=tensors * 400)
    one = predicted({"N": size, "dtype": "float32"}, counted, of=streams, roofs=published_roofs(USUAL.gpu, USUAL))

    assert one.bytes / one.time_us / 1e6 == pytest.approx(measured_tbps, rel=0.06)


# -- in a grading ----------------------------------------------------------------------------------------------------

REFERENCE = ROOT / "reference" / "ex_15_triton_basics"


def longest(record: Record, part: str) -> float:
    """The longest time that is predicted for the part on an H200, in microseconds."""
    (check,) = (check for check in record.checks if check.id == f"{part}.speed")
    return max((one.time_us for one in check.predictions if one.gpu == "H200"), default=0.0)


def test_a_chain_that_goes_through_memory_is_predicted_to_take_half_as_long_again(graded: Grade, ex_15: Entry) -> None:
    fused = graded(REFERENCE / "solution.py", "fused_multiply_add", cases=2)
    through_memory = graded(ex_15.mistake("fused_multiply_add_through_memory").text, "fused_multiply_add", cases=2)

    times = [longest(record, "fused_multiply_add") for record in (fused, through_memory)]
    assert times[1] == pytest.approx(1.5 * times[0], rel=0.01)


def test_nothing_is_predicted_for_a_part_with_wrong_answers_or_for_one_that_is_not_there(
    graded: Grade, ex_15: Entry
) -> None:
    wrong = graded(ex_15.mistake("vector_add_zeros").text, "vector_add", "global_sum", cases=2)

    assert [longest(wrong, part) for part in ("vector_add", "global_sum")] == [0, 0]


# -- programs ----------------------------------------------------------------------------------------------------------

H200 = published_roofs(USUAL.gpu, USUAL)
LARGE: dict[str, Any] = {"N": 1 << 28, "dtype": "float32"}


def with_programs(*programs: int, told: int = 132) -> PartInfo:
    """The largest launches at N = 2^28, 2^27, … of launch code that was told of so many multiprocessors."""
    sizes = ({"N": LARGE["N"] >> place, "dtype": "float32"} for place in range(len(programs)))
    return PartInfo("p", "P", grids=tuple(Grid(size, many, told) for size, many in zip(sizes, programs, strict=True)))


def predicted_with(compiled: PartInfo, roofs: Roofs = H200, size: dict[str, Any] = LARGE) -> Prediction:
    found = CountedPart(band(), [work()], compiled).predict(roofs, size, "words")
    assert found is not None
    return found


def test_one_program_gets_the_share_of_one_multiprocessor() -> None:
    one, all_of_them = predicted_with(with_programs(1)), predicted_with(PartInfo("p", "P"))
    assert one.time_us - 5 == pytest.approx(132 * (all_of_them.time_us - 5), rel=1e-3)
    assert (one.programs, all_of_them.programs) == (1, -1)
    assert one.remarks == ("1 program; the H200 has 132 multiprocessors: most of it idles",)


@pytest.mark.parametrize("programs", [67, 128, 132, 1 << 18])
def test_a_program_for_most_multiprocessors_changes_nothing(programs: int) -> None:
    found = predicted_with(with_programs(programs))
    assert (found.time_us, found.remarks) == (predicted_with(PartInfo("p", "P")).time_us, ())


def test_a_persistent_kernel_fills_larger_gpus_than_the_one_it_was_recorded_for() -> None:
    b200 = published_roofs(ARCHITECTURES[100].gpu, ARCHITECTURES[100])
    assert predicted_with(with_programs(132), b200).remarks == ()
    assert predicted_with(with_programs(74), b200).remarks == (
        "74 programs; the B200 has 148 multiprocessors: most of it idles",
    )


def test_a_size_that_was_not_recorded_takes_a_grid_that_no_size_changes() -> None:
    other = {"N": 1 << 30, "dtype": "float32"}
    assert predicted_with(with_programs(1, 1), size=other).programs == 1
    assert predicted_with(with_programs(8, 4), size=other).programs == -1
    assert predicted_with(with_programs(1), size=other).programs == -1


def test_no_multiprocessor_gets_more_than_its_link_to_the_l2_cache_carries() -> None:
    for row in ARCHITECTURES.values():
        for gpu in row.gpus:
            share = published_roofs(gpu, row).dram_tbps * 1e6 / gpu.multiprocessors
            assert share < 64 * row.sm_mhz


def test_a_kernel_that_spills_on_a_gpu_makes_its_prediction_a_lower_bound() -> None:
    kernel = compiled_kernel(COPY, 90, kernel="k", spill_store_bytes=8, spill_load_bytes=8)
    compiled = PartInfo("p", "P", (kernel,))
    assert predicted_with(compiled).remarks == ("a lower bound: k spills registers",)
    a100 = published_roofs(ARCHITECTURES[80].gpu, ARCHITECTURES[80])
    assert predicted_with(compiled, a100).remarks == ()
    tuned = dataclasses.replace(kernel, configurations=2)
    assert predicted_with(PartInfo("p", "P", (tuned,))).remarks == ()
    fits = dataclasses.replace(kernel, spill_store_bytes=0, spill_load_bytes=0)
    assert predicted_with(PartInfo("p", "P", (kernel, fits))).remarks == ()


def test_lanes_that_lie_apart_are_slowed_by_the_l2_cache_and_named() -> None:
    apart = [work(sector_ratio=8.0, apart_line=7), work(1000)]
    slow, usual = (CountedPart(band(), counted).predict(H200, LARGE, "words") for counted in (apart, [work(1000)]))
    assert slow is not None
    assert usual is not None
    assert 3 < slow.time_us / usual.time_us < 4
    assert slow.bytes == usual.bytes
    assert slow.remarks == (
        "lanes lie apart in memory in line 7: a program moves 8.0 times the bytes that it uses, in sectors of 32 bytes",
    )
