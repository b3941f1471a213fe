"""Records to render: one that passes, one that fails in many ways, and one whose every text is hostile."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, cast

from grader.protocol.footprint import Footprint, TensorFootprint
from grader.record.causes import Cause, Counterexample, Difference, Mismatch, Picture
from grader.record.checks import CheckResult, PartInfo
from grader.record.launches import Coverage, CoveringLaunch
from grader.record.record import Environment, ExerciseInfo, PrintedOutput, Record, SubmissionInfo, Tool
from grader.record.speed import Baseline, Ceilings, Configuration, Contender, GpuState, SizeTiming, Span, Speed, Tuned
from grader.record.statuses import UNJUDGED, Status
from grader.record.verdicts import verdict_of
from grader.record.work import Prediction, Work

WRITES = "writes Triton kernels"
BANDWIDTH = "reasons about memory bandwidth"
PROFILES = "profiles kernels against cuBLAS / FlashAttention"

HOSTILE = (
    "<script>alert(1)</script> <img src=x onerror=alert(2)> ' onmouseover=alert(3) \" & {{ 7 * 7 }} [bold red]x[/] "
    "\x1b[31mred\x1b[0m \x1b]0;title\x07 \x9b2J \x00\x08\u202eREVERSED\u2066 \ud800 \uffff ]]> -->\n"
    "::error file=a,line=1::owned\n  ##[error]owned\n::stop-commands::x\r\n"
)

# What a machine that keeps all its promises reports (grader/report/isolation.py).
CONFINED = (
    "process group",
    "private scratch",
    "rlimits",
    "own network and IPC, by a user namespace",
    "no new privileges",
    "Landlock 7",
    "seccomp",
)

NO_GPU = "Needs a CUDA device; this machine has none."


def check(
    check_id: str, title: str, status: Status = "pass", points: float = 0.0, most: float = 1.0, **more: Any
) -> CheckResult:
    """One check; its part is what stands before the dot of its id."""
    objective = more.pop("objective", WRITES)
    return CheckResult(
        check_id, check_id.split(".")[0], title, objective, status, points, most, duration_s=0.31, **more
    )


def record(checks: tuple[CheckResult, ...], parts: tuple[PartInfo, ...], **changes: Any) -> Record:
    """A record of these checks, with the sums and the verdict that follow from them."""
    judged = [entry for entry in checks if entry.status not in UNJUDGED]
    base = Record(
        schema="grade/result/v1",
        tool=Tool("grade", "0.1.0"),
        exercise=ExerciseInfo("ex_15", "ex_15_triton_basics", "Triton basics", "1", "9c" * 32),
        submission=SubmissionInfo(
            "/home/ada/course/exercises/ex_15_triton_basics.py", "51ab12cd34ef" + "0" * 52, "ada"
        ),
        env=Environment("interpret", "", "", "", "3.11.9", "2.9.1+cpu", "3.5.1", "2.3.4", CONFINED),
        seed="0x5f3759df",
        command="grade ex_15",
        verdict=verdict_of(checks),
        score=sum(entry.points for entry in judged),
        judged_score=sum(entry.max_points for entry in judged),
        max_score=sum(entry.max_points for entry in checks),
        parts=parts,
        checks=checks,
        printed=PrintedOutput(),
        graded_at="2026-11-02T09:00:00Z",
        duration_s=12.4,
        submitted_at="2026-11-02T08:15:00Z",
    )
    return dataclasses.replace(base, **changes)


VECTOR_ADD = PartInfo("vector_add", "Vector addition")
CHAIN = PartInfo("fused_multiply_add", "A fused chain: x·y + z")
SOFTMAX = PartInfo("row_softmax", "Softmax over rows")
SUM = PartInfo("global_sum", "Sum of all elements")
PRODUCT = PartInfo("product", "Matrix product")

H200 = Environment(
    "gpu",
    "NVIDIA H200",
    "570.124.06",
    "9.0",
    "3.11.9",
    "2.9.1+cu128",
    "3.5.1",
    "2.3.4",
    CONFINED,
)


def passing() -> Record:
    """Everything passes on a GPU."""
    metrics: dict[str, float | str] = {
        "ratio": 0.978,
        "ratio_low": 0.961,
        "ratio_high": 0.994,
        "median_us": 412.5,
        "share_of_copy": 0.93,
    }
    checks = (
        check(
            "vector_add.full_blocks",
            "Right for lengths that fill every block",
            points=4,
            most=4,
            evidence={"cases": "3"},
        ),
        check(
            "vector_add.tail",
            "Right for lengths that do not fill the last block",
            points=6,
            most=6,
            evidence={"cases": "10"},
        ),
        check(
            "vector_add.kernels",
            "Triton kernels do the work",
            points=4,
            most=4,
            evidence={"kernels": "add_kernel (1 launch)"},
        ),
        check(
            "vector_add.speed",
            "Speed relative to torch's addition",
            points=6,
            most=6,
            objective=PROFILES,
            metrics=metrics,
        ),
    )
    return record(checks, (VECTOR_ADD,), env=H200)


def tail_mismatch() -> Cause:
    """Wrong in one row's ragged end, with a picture."""
    cells = tuple(tuple([0] * 11 + [9 if row % 4 else 4]) for row in range(8))
    return Cause(
        kind="missing_mask",
        title="wrong only in the last, partly filled tile",
        rationale="Every full tile is right; the elements behind the last multiple of BLOCK are not.",
        help="Which lanes of the last program have no data? Compare the mask with the row's length, not with BLOCK.",
        expected="0.25",
        actual="1.75",
        mismatch=Mismatch(
            output="p",
            count=120,
            total=24600,
            max_abs=1.5,
            max_rel=6.0,
            worst_index=(3, 1024),
            pattern="tail",
            first=(
                Difference((0, 1024), 0.25, 1.75, 1.19e-7),
                Difference((1, 1024), 0.00097560979, 0.00097560988, 5.8e-11),
                Difference((2, 1024), 0.5, "nan", 1.19e-7),
                Difference((3, 1024), -3.25, "-inf", 1.19e-7),
            ),
            tile="BLOCK=1024",
            picture=Picture(cells, 3, 88, (24, 1025)),
        ),
    )


def vector_mismatch() -> Cause:
    """One wrong element at the end of a vector."""
    return Cause(
        kind="missing_mask",
        title="wrong only in the last, partly filled tile",
        rationale="Elements 0 to 63 agree; element 64 does not.",
        help="Which lanes of the last program have no data?",
        mismatch=Mismatch(
            "z",
            1,
            65,
            1.5,
            6.0,
            (64,),
            "tail",
            (Difference((64,), 0.25, 1.75, 1.19e-7),),
            "BLOCK=64",
            Picture(((0,) * 16 + (9,),), 1, 4, (65,)),
        ),
    )


TRACEBACK = """Traceback (most recent call last):
  File "ex_15_triton_basics.py", line 88, in row_softmax
    _softmax_kernel[(rows,)](x, out, x.stride(0), columns, BLOCK=triton.next_power_of_2(columns))
  File "triton/runtime/jit.py", line 419, in <lambda>
    return lambda *args, **kwargs: self.run(grid=grid, warmup=False, *args, **kwargs)
  File "ex_15_triton_basics.py", line 61, in _softmax_kernel
    x = tl.load(x_ptr + row * stride + cols, mask=cols < n, other=-inf)
NameError: name 'inf' is not defined"""


def failing() -> Record:
    """A mismatch with a picture, a crash with a traceback, parts not written, checks that need a GPU."""
    todo = Cause(
        "not_implemented",
        "not written yet",
        "global_sum raises NotImplementedError: there is nothing to judge.",
        "Start from the hint.",
    )
    crash = Cause(
        "raised",
        "your code raised NameError",
        "The call raised NameError: name 'inf' is not defined.",
        "Names inside a kernel must be constants.",
        traceback=TRACEBACK,
    )
    note = "bfloat16 is not judged by the interpreter"
    example = Counterexample(
        {"M": 24, "N": 1025},
        "M=24, N=1025, float32",
        "ex_15:row_softmax.tail:0x5f",
        rationale="p: 24 of 24600 elements wrong.",
        passes="M=24, N=1024",
        tried=31,
    )
    checks = (
        check("vector_add.full_blocks", "Right for lengths that fill every block", points=2, most=2, notes=(note,)),
        check("vector_add.tail", "Right for lengths that do not fill the last block", points=4, most=4, notes=(note,)),
        check("vector_add.kernels", "Triton kernels do the work", points=2, most=2),
        check(
            "vector_add.traffic",
            "Moves no more than 3·N elements",
            "skipped_environment",
            most=2,
            reason=NO_GPU,
            objective=BANDWIDTH,
        ),
        check(
            "vector_add.speed",
            "Speed relative to torch's addition",
            "skipped_environment",
            most=5,
            reason=NO_GPU,
            objective=PROFILES,
        ),
        check("row_softmax.powers_of_two", "Right for rows as long as a block", points=3, most=3, notes=(note,)),
        check(
            "row_softmax.tail",
            "Right for rows that do not fill a block",
            "fail",
            most=5,
            reason="Wrong only in the last, partly filled tile.",
            cause=tail_mismatch(),
            counterexample=example,
            evidence={"cases": "9, of which 4 failed", "seed": "0x5f3759df"},
        ),
        check(
            "row_softmax.values",
            "Stable for large scores, shifted rows and entries of -inf",
            "crash",
            most=6,
            reason="NameError",
            cause=crash,
        ),
        check(
            "row_softmax.launches",
            "One kernel launch does it all",
            "skipped_dependency",
            most=2,
            reason="Not run: “Right for rows as long as a block” must pass first.",
            objective=BANDWIDTH,
        ),
        check(
            "row_softmax.traffic",
            "Moves no more than 2·M·N elements",
            "inconclusive",
            most=2,
            reason="The intervals overlap the limit.",
            objective=BANDWIDTH,
            metrics={"moved": 1.04},
        ),
        check(
            "global_sum.full_blocks",
            "Right for lengths that fill every block",
            "not_implemented",
            most=2,
            reason=todo.rationale,
            cause=todo,
        ),
        check(
            "global_sum.tail",
            "Right for lengths that do not fill the last block",
            "not_implemented",
            most=4,
            reason=todo.rationale,
            cause=todo,
        ),
        check(
            "global_sum.kernels",
            "Triton kernels do the work",
            "not_implemented",
            most=2,
            reason=todo.rationale,
            cause=todo,
        ),
    )
    printed = PrintedOutput(
        "\n".join(f"row {row}: max=1.25" for row in range(40)), total_bytes=98_000, cut_bytes=94_000
    )
    return record(checks, (VECTOR_ADD, SOFTMAX, SUM), printed=printed)


def footprint(length: int, block: int, programs: int, *, idle: int = 0) -> Footprint:
    """The footprint of a vector kernel of one tile for each element: it reads x_ptr and writes z_ptr."""
    owners = [tuple(range(one * block, min(length, (one + 1) * block))) for one in range(programs)]

    def tensor(argument: str, digit: str) -> TensorFootprint:
        written = min(length, block * programs) if digit == "2" else 0
        rows = tuple("".join(digit if place in own else "0" for place in range(length)) for own in owners)
        return TensorFootprint(
            argument=argument,
            shape=(length,),
            elements=length,
            loaded=0 if written else min(length, block * programs),
            written=written,
            updated=0,
            writers=programs if written else 0,
            most=min(block, length) if written else 0,
            fewer=int(bool(written and length < block * programs)),
            shared=0,
            missing=((written, length - 1),) if 0 < written < length else (),
            tile=(1, 1),
            cells=(*rows, *["0" * length] * idle),
            gaps="".join("2" if 0 < written <= place else "0" for place in range(length)),
        )

    return Footprint(programs + idle, idle, 1, (tensor("x_ptr", "1"), tensor("z_ptr", "2")))


def product_footprint() -> Footprint:
    """The footprint of a matrix product in four stripes of 2 × 8, of which two programs write the last one."""
    stripes = tuple("".join("2" if place // 4 == own else "0" for place in range(16)) for own in (0, 1, 2, 3, 3))
    shared = (*stripes[:3], *(row.replace("2", "a") for row in stripes[3:]))
    numbers = {"elements": 64, "loaded": 0, "written": 64, "updated": 0, "writers": 5, "most": 16, "fewer": 0}
    product = TensorFootprint(
        **numbers, argument="c_ptr", shape=(8, 8), shared=16, missing=(), tile=(2, 2), cells=shared, gaps="0" * 16
    )
    return Footprint(5, 0, 1, (product,))


def covering(*footprints: Footprint, check: str = "", lacking: bool = False) -> Coverage:
    """What the programs of a call's launches touch. check: the one that failed there."""
    launches = tuple(CoveringLaunch("add_kernel", (one.programs,), one) for one in footprints)
    return Coverage("N=10, float32", launches, check, lacking)


def covered() -> Record:
    """Parts with pictures: one passes, one leaves a remainder out, one stores twice, one has a grid too large."""
    whole, short = footprint(10, 4, 3), footprint(10, 4, 2)
    wasteful = footprint(10, 4, 3, idle=20)
    parts = (
        dataclasses.replace(VECTOR_ADD, coverage=covering(whole)),
        dataclasses.replace(CHAIN, coverage=covering(short, check="fused_multiply_add.tail", lacking=True)),
        dataclasses.replace(PRODUCT, coverage=covering(product_footprint(), whole, check="product.tail")),
        dataclasses.replace(SUM, coverage=covering(wasteful)),
    )
    checks = (
        check("vector_add.tail", "Right for any length", points=3, most=3),
        check("fused_multiply_add.tail", "Right for any length", "fail", most=3, cause=tail_mismatch()),
        check("product.tail", "Right for any shape", "fail", most=3, cause=tail_mismatch()),
        check("global_sum.tail", "Right for any length", points=3, most=3),
    )
    return record(checks, parts)


NO_DSL = "dsl is not installed: pip install dsl"


def without_parts() -> Record:
    """Nothing failed, but two of three parts could not be judged at all: a package is not installed."""
    checks = (
        *(check(f"{part}.{name}", name, "skipped_environment", reason=NO_DSL) for part in ("f", "g") for name in "ab"),
        check("h.values", "Right", points=1),
        check("h.speed", "Fast", "skipped_environment", reason=NO_GPU),
    )
    return record(checks, (PartInfo("f", "First"), PartInfo("g", "Second"), PartInfo("h", "Third")))


def untouched() -> Record:
    """The stub as it was handed out."""
    parts = (VECTOR_ADD, CHAIN, SOFTMAX, SUM)
    checks = tuple(
        check(
            f"{part.name}.{name}", title, "not_implemented", most=5, reason=f"{part.name} raises NotImplementedError."
        )
        for part in parts
        for name, title in (
            ("full_blocks", "Right for full blocks"),
            ("tail", "Right for tails"),
            ("kernels", "Triton kernels do the work"),
        )
    )
    return record(checks, parts)


def every_status() -> Record:
    """One check per status."""
    statuses = cast(tuple[Status, ...], Status.__args__)  # type: ignore[attr-defined]
    checks = tuple(
        check(
            f"vector_add.{status}",
            f"Case of {status}",
            status,
            points=float(status == "pass"),
            reason="" if status == "pass" else f"Because of {status}.",
        )
        for status in statuses
    )
    return record(checks, (VECTOR_ADD,))


# -- speed: figures as measured on one H200 --------------------------------------------------------------------------

CEILINGS = Ceilings(4.27, 4.46, {"float32": 51.2, "bfloat16": 713.0, "float16": 716.0})
GPU_STATE = GpuState(
    Span(1755.0, 1980.0), Span(3201.0, 3201.0), Span(41.0, 63.0), Span(318.0, 694.0), ("software power cap",), 48
)
COOL = dataclasses.replace(GPU_STATE, power_w=Span(212.0, 431.0), throttled=())


def size(
    case: dict[str, int | float | bool | str],
    times_us: dict[str, float],
    *,
    moved: float,
    operations: float,
    noise: float = 0.008,
    band: tuple[str, float, float] = ("cublas", 0.3, 0.9),
    **more: Any,
) -> SizeTiming:
    """One size from the contenders' medians; all else follows from them. `band`: baseline, floor, full."""
    baseline, floor, full = band
    roof = CEILINGS.tflops[str(case["dtype"])]
    memory_us, compute_us = moved / CEILINGS.copy_tbps / 1e6, operations / roof / 1e6
    floor_us = max(memory_us, compute_us)

    def contender(name: str, median: float) -> Contender:
        ratio, spread = times_us[baseline] / median, 0.0 if name == baseline else noise
        return Contender(
            name,
            median,
            median * (1 - noise / 2),
            median * (1 + noise / 2),
            ratio,
            ratio * (1 - spread),
            ratio * (1 + spread),
            moved / median / 1e6,
            operations / median / 1e6,
            min(1.0, floor_us / median),
        )

    contenders = tuple(contender(name, median) for name, median in times_us.items())
    timing = SizeTiming(
        case=case,
        words=", ".join(f"{name}={value}" for name, value in case.items()),
        method="stream",
        judged=True,
        reason="",
        share=min(1.0, max(0.0, (contenders[0].ratio - floor) / (full - floor))),
        rounds=60,
        outside_us=times_us["submission"] + 1.5,
        clock_us=2000.0,
        floor_us=floor_us,
        bound="memory" if memory_us > compute_us else "compute",
        contenders=contenders,
    )
    return dataclasses.replace(timing, **more)


def speed_of(sizes: tuple[SizeTiming, ...], band: tuple[str, float, float], **more: Any) -> Speed:
    """A speed result over these sizes: the geometric mean of the judged ones."""
    own = [next(one for one in each.contenders if one.name == "submission") for each in sizes if each.judged]

    def mean(values: list[float]) -> float | str:
        return math.exp(sum(map(math.log, values)) / len(values)) if values else "nan"

    ratio, low, high = (mean([getattr(one, name) for one in own]) for name in ("ratio", "ratio_low", "ratio_high"))
    return Speed(band[0], band[1], band[2], ratio, low, high, sizes, **{"ceilings": CEILINGS, **more})


def gemm_speed() -> Speed:
    """Nine products against cuBLAS: two too short to judge, one of them replayed as a graph; XLA is not installed."""
    short = "too short: the baseline takes 9.2 µs, and 10 are needed"

    def product(m: int, n: int, k: int, own: float, cublas: float, compiled: float, **more: Any) -> SizeTiming:
        case: dict[str, int | float | bool | str] = {"M": m, "N": n, "K": k, "dtype": "bfloat16", "values": "normal"}
        times = {"submission": own, "cublas": cublas, "torch_compile": compiled}
        return size(case, times, moved=2.0 * (m * k + k * n + m * n), operations=2.0 * m * n * k, **more)

    sizes = (
        product(512, 512, 512, 7.4, 6.9, 12.4, judged=False, reason=short, method="graph", noise=0.04),
        product(1024, 1024, 1024, 9.5, 9.2, 14.1, judged=False, reason=short, noise=0.03),
        product(2048, 2048, 2048, 28.9, 28.0, 79.5),
        product(4096, 4096, 4096, 219.0, 193.0, 232.0),
        product(8192, 8192, 8192, 1610.0, 1636.0, 1768.0, noise=0.016),
        product(16, 4096, 4096, 21.8, 15.1, 24.6),
        product(
            512,
            512,
            16384,
            68.0,
            31.2,
            44.0,
            notes=("the GPU's events say 61 µs, the grader's own clock at least 68 µs: that counts",),
        ),
        product(4095, 4097, 4093, 330.0, 284.0, 402.0),
        product(3072, 3072, 3072, 93.0, 88.4, 118.0),
    )
    baselines = (
        Baseline("cublas", "cuBLAS"),
        Baseline("torch_compile", "torch.compile, max-autotune"),
        Baseline("xla", "XLA", "jax is not installed"),
    )
    return speed_of(sizes, ("cublas", 0.3, 0.9), baselines=baselines, gpu=GPU_STATE)


def tuned_launch(kernel: str, line: int, best_us: float, count: int = 30, chosen: int = 7) -> Tuned:
    """An autotuned launch: the configuration `chosen` is the fastest, and every tenth one does not work."""

    def time_us(place: int) -> float:
        return -1.0 if place % 10 == 9 else best_us * (1 + abs(place - chosen) / 16)

    tiles = [
        f"BLOCK_M={32 << place // 6}, BLOCK_N={32 << place // 2 % 3}, num_warps={4 << place % 2}"
        for place in range(count)
    ]
    rows = (Configuration(words, time_us(place), chosen=place == chosen) for place, words in enumerate(tiles))
    return Tuned(kernel, line, tuple(rows))


def tuned_speed() -> Speed:
    """The nine products again, by an autotuned kernel; a small one that adds up is launched at the deep one alone."""
    speed = gemm_speed()

    def launches(place: int, each: SizeTiming) -> tuple[Tuned, ...]:
        product = tuned_launch("matmul_kernel", 57, each.submission.median_us, chosen=4 if place < 3 else 7)
        added = tuned_launch("add_up_kernel", 91, 4.0, count=3, chosen=1)
        return (product, added) if "16384" in each.words else (product,)

    sizes = tuple(dataclasses.replace(each, tuned=launches(place, each)) for place, each in enumerate(speed.sizes))
    return dataclasses.replace(speed, sizes=sizes)


def softmax_speed(scale: float = 1.0) -> Speed:
    """Rows of many lengths against a device copy of the same bytes; `scale` slows the submission down."""
    band = ("copy_roofline", 0.2, 0.85)

    def rows(m: int, n: int, dtype: str, own: float, copy: float, torch: float, **more: Any) -> SizeTiming:
        moved = 2.0 * m * n * (4 if dtype == "float32" else 2)
        times = {"submission": own * scale, "copy_roofline": copy, "torch_eager": torch, "torch_compile": torch * 0.99}
        case: dict[str, int | float | bool | str] = {"M": m, "N": n, "dtype": dtype, "values": "normal", "stride": 0}
        return size(case, times, moved=moved, operations=5.0 * m * n, band=band, noise=0.004, **more)

    short = "too short: the baseline takes 4.4 µs, and 10 are needed"
    sizes = (
        rows(512, 1024, "float32", 5.1, 4.4, 6.0, judged=False, reason=short),
        rows(262144, 256, "float32", 141.0, 126.0, 240.0),
        rows(65536, 1024, "float32", 137.0, 126.0, 205.0),
        rows(16384, 4096, "float32", 139.0, 126.0, 420.0),
        rows(4096, 16384, "float32", 147.0, 126.0, 415.0),
        rows(16384, 4096, "float16", 71.0, 63.0, 210.0),
    )
    baselines = (
        Baseline("copy_roofline", "a device copy"),
        Baseline("torch_eager", "torch.softmax"),
        Baseline("torch_compile", "torch.compile"),
    )
    return speed_of(sizes, band, baselines=baselines, gpu=COOL)


def unsteady_speed() -> Speed:
    """Intervals that never became narrow enough."""
    band = ("torch_eager", 0.5, 0.95)
    unsure = "too noisy: the ratio lies between 0.41 and 1.08"

    def addition(n: int, own: float, eager: float, **more: Any) -> SizeTiming:
        times = {"submission": own, "torch_eager": eager, "torch_compile": eager * 1.05}
        case: dict[str, int | float | bool | str] = {"N": n, "dtype": "float32", "values": "normal"}
        return size(case, times, moved=12.0 * n, operations=float(n), band=band, noise=0.45, rounds=400, **more)

    sizes = (addition(1 << 23, 35.0, 26.0, reason=unsure), addition(1 << 26, 268.0, 189.0, reason=unsure))
    baselines = (
        Baseline("torch_eager", "torch's addition"),
        Baseline("torch_compile", "torch.compile"),
        Baseline("cuda_cpp", "a CUDA C++ kernel", "no nvrtc in this environment"),
    )
    return speed_of(sizes, band, baselines=baselines, gpu=GPU_STATE)


def unit_speed(text: str = HOSTILE) -> Speed:
    """One size without ceilings, GPU state or operations; every text of it is `text`."""
    one = Contender("submission", 10.0, 9.0, 11.0, 0.9, 0.8, 1.0, 2.0, 0.0, 0.5)
    other = dataclasses.replace(one, name=text)
    only = SizeTiming({text: text}, text, "graph", False, text, 0.5, 3, 10.0, 1.0, 5.0, "memory", (one, other), (text,))
    return Speed(text, 0.5, 0.9, text, text, text, (only,), (Baseline(text, text), Baseline("b", text, text)), text)


def hostile_speed(text: str = HOSTILE) -> Speed:
    """Every text set to `text`, and numbers that no measurement gives: zero, negative, huge, tiny."""
    odd = (0.0, -1.0, 1e300, 1e-300, 3.0)

    def contenders(number: int) -> tuple[Contender, ...]:
        values = [odd[(number + i) % len(odd)] for i in range(9)]
        names = ("submission", text, f"${number}$ {text}", r"$\frac{1}{$")
        return tuple(Contender(name, *values[i:], *values[:i]) for i, name in enumerate(names))

    sizes = tuple(
        SizeTiming(
            {text: number, "dtype": text},
            text,
            "graph",
            number % 2 == 0,
            text,
            odd[number],
            -1,
            odd[number],
            odd[-number],
            odd[number],
            "compute" if number % 2 else "memory",
            contenders(number),
            (text, text),
            tuple(Tuned(text, number, tuple(Configuration(text, time) for time in odd)) for _ in range(2)),
        )
        for number in range(len(odd))
    )
    # A size that nobody ran, and one without the submission.
    sizes += (
        dataclasses.replace(sizes[0], contenders=()),
        dataclasses.replace(sizes[0], contenders=sizes[0].contenders[1:]),
    )
    state = GpuState(Span(-1e300, 1e300), Span(0, 0), Span(-40, 0), Span(0, 1e9), (text,), 0)
    baselines = (Baseline(text, text), Baseline("x", text, text))
    ceilings = Ceilings(0.001, -1.0, {text: 1e300, "$x^2$": 3.0})
    return Speed(text, -1.0, 1e300, text, -2.0, 0.0, sizes, baselines, text, ceilings, state)


def timed() -> Record:
    """On a GPU: full marks for one part, some of the points for another, and one that could not be decided."""
    slower, gemm = softmax_speed(1.6), gemm_speed()

    def earned(speed: Speed, most: float) -> float:
        judged = [each.share for each in speed.sizes if each.judged]
        return round(most * sum(judged) / len(judged), 2)

    speeds = (
        ("product", "Speed relative to cuBLAS", "pass", 7, gemm, ""),
        ("row_softmax", "Share of the measured copy bandwidth", "pass", 7, slower, ""),
        (
            "vector_add",
            "Speed relative to torch's addition",
            "inconclusive",
            5,
            unsteady_speed(),
            "The intervals stayed too wide to decide.",
        ),
    )
    checks: tuple[CheckResult, ...] = ()
    for part, title, status, most, speed, reason in speeds:
        points = earned(speed, most) if status == "pass" else 0.0
        checks += (
            check(f"{part}.full", "Right for full blocks", points=4, most=4, evidence={"cases": "3"}),
            check(f"{part}.tail", "Right for tails", points=6, most=6, evidence={"cases": "10"}),
            check(
                f"{part}.speed",
                title,
                cast(Status, status),
                points,
                most,
                objective=PROFILES,
                speed=speed,
                reason=reason,
            ),
        )
    return record(checks, (PRODUCT, SOFTMAX, VECTOR_ADD), env=H200)


def fast() -> Record:
    """Full marks for speed, and nothing else to say."""
    checks = (
        check("row_softmax.full", "Right for full blocks", points=4, most=4),
        check(
            "row_softmax.speed",
            "Share of the measured copy bandwidth",
            points=7,
            most=7,
            objective=PROFILES,
            speed=softmax_speed(),
        ),
    )
    return record(checks, (SOFTMAX,), env=H200)


# -- counted work, and the times that follow from it -----------------------------------------------------------------


def counted(n: int, dtype: str = "float32", *, factor: float = 1.0, extra: tuple[int, int] = (0, -1)) -> Work:
    """An addition of N elements that moves `factor` times the bytes of its model; 1.1 times are allowed."""
    model = 3 * n * (4 if dtype == "float32" else 2)
    moved = round(factor * model)
    case: dict[str, int | float | bool | str] = {"N": n, "dtype": dtype, "values": "normal", "offset": 0}
    words = ", ".join(f"{name}={value}" for name, value in case.items())
    return Work(case, words, moved - moved // 3, moved // 3, moved, 1, 0, model, model * 11 // 10, *extra)


def prediction(n: int, gpu: str, time_us: float, **more: Any) -> Prediction:
    """How long an addition of N elements should take."""
    case: dict[str, int | float | bool | str] = {"N": n, "dtype": "float32", "values": "normal", "offset": 0}
    words = ", ".join(f"{name}={value}" for name, value in case.items())
    given = {"bound": "memory", "bytes": 12 * n, "flops": n, "ceilings": "published", **more}
    return Prediction(gpu, case, words, time_us, **given)


def on_paper() -> Record:
    """Without a GPU: what was moved, the memory taken, and predicted times on two GPUs."""
    predictions = (
        prediction(1 << 20, "H200", 7.85, bound="launch"),
        prediction(1 << 20, "B200", 6.78, bound="launch"),
        prediction(1 << 28, "H200", 734.4),
        prediction(1 << 28, "B200", 459.7),
    )
    works = (counted(10000, extra=(0, 4096)), counted(10000, "float16", factor=1.05, extra=(4000, 4096)))
    checks = (
        check("vector_add.tail", "Right for tails", points=4, most=4),
        check("vector_add.traffic", "Moves no more than 3·N elements", points=2, most=2, work=works),
        check(
            "vector_add.speed",
            "Speed relative to torch's addition",
            "skipped_environment",
            most=5,
            reason=NO_GPU,
            predictions=predictions,
        ),
    )
    return record(checks, (VECTOR_ADD,))


def foretold() -> Record:
    """On a GPU: predictions beside measured times, 20 % too short, 5 % too long and right."""
    times = ((1 << 20, 8.0, 10.0), (1 << 24, 52.5, 50.0), (1 << 28, 760.0, 760.0))
    predictions = tuple(
        prediction(n, "NVIDIA H200", time_us, ceilings="measured", measured_us=measured_us)
        for n, time_us, measured_us in times
    )
    one = check("vector_add.speed", "Speed", points=7, most=7, speed=softmax_speed(), predictions=predictions)
    return record((one,), (VECTOR_ADD,), env=H200)


def hostile_work(text: str) -> tuple[tuple[Work, ...], tuple[Prediction, ...]]:
    """Every text set to `text`, and numbers that no count and no clock gives."""
    odd = (0, -1, 10**400, 3)
    works = tuple(Work({text: one}, text, one, one, one, one, one, one, one, one, one) for one in odd)
    predictions = tuple(
        Prediction(text, {text: time_us}, text, time_us, "compute", -1, 10**400, ceilings, measured_us)
        for time_us, measured_us in ((0.0, 1.0), (-1.0, -1.0), (1e300, 1e-300), (1e-300, 1e300), (3.0, 2.0))
        for ceilings in ("published", "measured")
    )
    return works, cast(tuple[Prediction, ...], predictions)


def hostile_coverage(text: str) -> Coverage:
    """Every text set to `text`, matrices that are none, and numbers that no launch gives."""
    good = footprint(10, 4, 3)
    odd = (0, -1, 10**400, 3)
    tensors = [
        dataclasses.replace(good.tensors[0], argument=text),
        dataclasses.replace(good.tensors[1], argument=text, cells=(text,)),
        dataclasses.replace(good.tensors[1], argument=text, gaps=text),
        dataclasses.replace(good.tensors[1], cells=good.tensors[1].cells[:1]),
        dataclasses.replace(good.tensors[1], missing=((1,), (3, 10**400), (-1, -5, 7))),
        *(dataclasses.replace(good.tensors[1], shape=(one, one), tile=(one, one), written=one) for one in odd),
    ]
    launches = [CoveringLaunch(text, (one, one), Footprint(one, one, one, tuple(tensors))) for one in odd]
    return Coverage(text, (*launches, CoveringLaunch(text, (), Footprint(1, 0, 0, ()))), text, lacking=True, more=-1)


def hostile(text: str = HOSTILE) -> Record:
    """Every text that a submission could influence, and then all others, set to `text`."""
    cause = Cause(
        text,
        text,
        text,
        text,
        text,
        text,
        text,
        Mismatch(text, 1, 2, text, "nan", (1,), text, (Difference((1,), text, "inf", text),), text),
    )
    example = Counterexample({text: text}, text, text, text, text, 3)
    checks = tuple(
        CheckResult(
            f"part.{number}",
            "part",
            text,
            text,
            status,
            0,
            1,
            0.1,
            text,
            (text,),
            cause,
            example,
            {text: text},
            {text: text},
            hostile_speed(text) if status in ("pass", "inconclusive") else None,
            *hostile_work(text),
        )
        for number, status in enumerate(
            cast(
                tuple[Status, ...],
                ("fail", "crash", "not_implemented", "skipped_environment", "pass", "inconclusive"),
            )
        )
    )
    return record(
        checks,
        (PartInfo("part", text, coverage=hostile_coverage(text)),),
        exercise=ExerciseInfo(text, text, text, text, text),
        submission=SubmissionInfo(text, text, text),
        env=Environment("gpu", text, text, text, text, text, text, text, (text,)),
        tool=Tool(text, text),
        seed=text,
        command=text,
        printed=PrintedOutput(text, 10**6, 10**5),
        graded_at=text,
        submitted_at=text,
    )
