"""The table of architectures: every row is whole and agrees with itself; an unknown GPU gets words and no figures."""

from __future__ import annotations

import pytest

from grader.gpus import (
    ARCHITECTURES,
    USUAL,
    Architecture,
    Gpu,
    compiled_for,
    known,
    named,
    restrictions,
    why_unknown,
)

ROWS = list(ARCHITECTURES.values())
GPUS = [(row, gpu) for row in ROWS for gpu in row.gpus]
every_row = pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
every_gpu = pytest.mark.parametrize(("row", "gpu"), GPUS, ids=[gpu.name for _, gpu in GPUS])


def test_the_gpus_that_learners_have_are_known() -> None:
    assert {75, 80, 86, 89, 90, 100, 120} <= set(ARCHITECTURES)
    assert len({gpu.name for _, gpu in GPUS}) == len(GPUS)


@pytest.mark.parametrize(
    ("capability", "threads", "programs", "shared_bytes", "shared_bytes_per_program"),
    [
        (75, 1024, 16, 65536, 65536),
        (80, 2048, 32, 167936, 166912),
        (86, 1536, 16, 102400, 101376),
        (89, 1536, 24, 102400, 101376),
        (90, 2048, 32, 233472, 232448),
        (100, 2048, 32, 233472, 232448),
        (120, 1536, 24, 102400, 101376),
    ],
)
def test_a_multiprocessor_has_what_the_programming_guide_says(
    capability: int, threads: int, programs: int, shared_bytes: int, shared_bytes_per_program: int
) -> None:
    row = ARCHITECTURES[capability]
    assert (row.threads, row.programs, row.registers) == (threads, programs, 65536)
    assert (row.shared_bytes, row.shared_bytes_per_program) == (shared_bytes, shared_bytes_per_program)


@every_gpu
def test_every_rate_is_dense_and_only_of_types_that_the_gpu_has(row: Architecture, gpu: Gpu) -> None:
    half, float32 = gpu.tflops["float16"], gpu.tflops["float32"]
    assert ("bfloat16" in gpu.tflops) == ("bfloat16" not in row.lacks)
    assert gpu.tflops.get("bfloat16", half) == half
    # A dense tensor core multiplies halves twice as fast as TF32 (2.05 times on the B200).
    assert half / gpu.tflops.get("tf32", half / 2) == pytest.approx(2, rel=0.03)
    assert float32 < half


@every_gpu
def test_clocks_that_follow_from_the_figures_are_those_of_a_gpu(row: Architecture, gpu: Gpu) -> None:
    assert 1300 < row.sm_mhz < 2600
    assert 1500 < gpu.memory_mhz < 14100


def test_clocks_are_those_that_drivers_report() -> None:
    a100, h100 = ARCHITECTURES[80].gpu, next(gpu for gpu in USUAL.gpus if gpu.name == "H100 SXM")
    assert [ARCHITECTURES[80].sm_mhz, a100.memory_mhz] == pytest.approx([1410, 1593], abs=1)
    assert [USUAL.sm_mhz, h100.memory_mhz] == pytest.approx([1980, 2619], abs=1)


def test_what_a_t4_cannot_do_is_said_in_words_and_of_others_there_is_nothing_to_say() -> None:
    assert restrictions(ARCHITECTURES[75]) == (
        "Triton uses no tensor cores there, products run as float32",
        "it has no bfloat16: such cases are left out",
    )
    assert {restrictions(row) for row in ROWS if row.capability >= 80} == {()}


# -- what is compiled for --------------------------------------------------------------------------------------------


def names(rows: tuple[Architecture, ...]) -> list[str]:
    return [row.name for row in rows]


@pytest.mark.parametrize("capability", ["", "unknown", "8.7"])
def test_without_a_known_gpu_kernels_are_compiled_for_three(capability: str) -> None:
    assert names(compiled_for(capability)) == ["sm_90", "sm_80", "sm_100"]


def test_the_gpu_that_is_here_comes_first_and_once() -> None:
    assert names(compiled_for("8.0")) == ["sm_80", "sm_90", "sm_100"]
    assert names(compiled_for("8.9")) == ["sm_89", "sm_90", "sm_80", "sm_100"]


def test_what_a_check_asks_for_is_compiled_for_as_well() -> None:
    assert names(compiled_for("", (80, 120))) == ["sm_90", "sm_80", "sm_100", "sm_120"]


# -- what is not known -----------------------------------------------------------------------------------------------


@every_row
def test_a_known_gpu_is_found_by_what_its_driver_says(row: Architecture) -> None:
    said = ".".join(map(str, divmod(row.capability, 10)))
    assert known(said) is row
    assert (named(said), why_unknown(said)) == (row.name, "")


@pytest.mark.parametrize(
    ("capability", "name", "what"),
    [
        ("8.7", "sm_87", "compute capability 8.7"),
        ("13.0", "sm_130", "compute capability 13.0"),
        ("unknown", "", "this GPU's compute capability"),
    ],
)
def test_an_unknown_gpu_has_no_row_and_a_sentence(capability: str, name: str, what: str) -> None:
    assert known(capability) is None
    assert named(capability) == name
    said = why_unknown(capability)
    assert said.startswith(f"{what} is unknown here (known are sm_75, sm_80, ")
    assert said.endswith("): nothing is compiled for it or predicted of it")


def test_no_gpu_is_no_unknown_gpu() -> None:
    assert (known(""), named(""), why_unknown("")) == (None, "", "")
