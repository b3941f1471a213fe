"""benchmarks/records.py: the table of model solutions and record kernels beside their peers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import limits
from benchmarks.predictions import predicted, section
from benchmarks.records import files_of, mean, page, rows
from grader.exercise.catalogue import resolve
from grader.record.record import Record
from grader.speed.counters import DRAM, SM, TENSOR, TIME, Counters, LaunchCounters
from tests.records import samples

ROOT = Path(__file__).resolve().parents[2]
FILE = "ex_16_triton_gemm/solution.py"


@pytest.fixture
def record() -> Record:
    check = samples.check("matmul.speed", "Speed", "pass", 7, 7, speed=samples.gemm_speed())
    return samples.record((check,), (samples.SOFTMAX,), env=samples.H200)


def test_the_best_peer_is_the_fastest_that_is_no_kernel_of_ours_and_no_copy(record: Record) -> None:
    found = {row.words: row for row in rows(FILE, record)}
    assert found["M=N=512, K=16384"].peer.name == "cublas"
    assert found["M=N=K=8192"].ratio == pytest.approx(1636 / 1610)
    low, high = found["M=N=K=8192"].interval
    assert low < 1636 / 1610 < high


def test_sizes_that_are_not_judged_are_left_out(record: Record) -> None:
    assert not {"M=N=K=512", "M=N=K=1024"} & {row.words for row in rows(FILE, record)}


def test_the_mean_is_geometric(record: Record) -> None:
    fast, slow = (next(row for row in rows(FILE, record) if row.words == f"M=N=K={side}") for side in (8192, 4096))
    assert mean([fast, slow]) == pytest.approx((fast.ratio * slow.ratio) ** 0.5)


def test_the_page_has_a_summary_a_table_for_each_file_and_the_peers_that_did_not_run(record: Record) -> None:
    text = page([(FILE, record)])
    assert "| ex_16_triton_gemm/solution.py | matmul | 7 | **0.808** | 0.459 | 1.016 |" in text
    assert "| matmul | M=N=K=2048 | 28.9 µs | cuBLAS | 28.0 µs | 0.969 [0.961, 0.977] | 83 % (compute) |" in text
    assert text.endswith("- XLA: jax is not installed\n")


def test_the_record_kernels_of_an_exercise_are_measured_after_its_solution() -> None:
    entry, _ = resolve(ROOT, "ex_18")
    assert files_of(entry) == (entry.solution, *entry.fast)
    assert entry.fast


def test_the_page_tells_how_far_predictions_are_off() -> None:
    record = samples.foretold()
    (one,) = predicted("ex_15_triton_basics/solution.py", record)
    assert [*one.errors.values()] == pytest.approx([-0.2, 0.05, 0.0])
    assert one.median == pytest.approx(0.05)
    assert (
        "| ex_15_triton_basics/solution.py | vector_add | 3 | **5.0 %** | -20 % (N=2^20) | +5 % (N=2^24) |"
    ) in section([("ex_15_triton_basics/solution.py", record)])


def test_a_part_without_predictions_has_the_reason_in_the_table(record: Record) -> None:
    assert f"| {FILE} | matmul | 0 | – | not counted |  |" in section([(FILE, record)])
    (check,) = record.checks
    noted = replace(record, checks=(replace(check, notes=("no time is predicted for k: …",)),))
    assert f"| {FILE} | matmul | 0 | – | no time is predicted for k: … |  |" in section([(FILE, noted)])


def test_the_longest_judged_size_of_each_part_is_counted(record: Record) -> None:
    assert {part: one.words for part, one in limits.longest(record).items()} == {"matmul": "M=N=K=8192"}


def test_a_kernel_has_one_row_with_the_shares_of_its_longest_launch(record: Record) -> None:
    def launch(us: float, tensor: float) -> LaunchCounters:
        return LaunchCounters("tile_kernel", {TIME: us * 1e3, DRAM: 12.4, SM: 80.0, TENSOR: tensor})

    text = page([(FILE, record)], [(FILE, Counters("matmul", "M=N=K=64", (launch(9.0, 91.0), launch(2.0, 50.0))))])
    assert f"| {FILE} | matmul | M=N=K=64 | tile_kernel | 9.00 µs | 12% | 80% | 91% |" in text
    assert "50%" not in text


def test_what_could_not_be_counted_has_its_reason_on_the_page() -> None:
    uncounted = Counters("matmul", "", why="ncu is not installed")
    assert f"- {FILE}, matmul: ncu is not installed" in limits.section([(FILE, uncounted)])
