"""Records to render: one that passes, one that fails in many ways, and one whose every text is hostile."""

from __future__ import annotations

import dataclasses
from typing import Any, cast

from grader.record import (
    UNJUDGED,
    Cause,
    CheckResult,
    Counterexample,
    Difference,
    Environment,
    ExerciseInfo,
    Mismatch,
    PartInfo,
    Picture,
    PrintedOutput,
    Record,
    Status,
    SubmissionInfo,
    Tool,
    verdict_of,
)

WRITES = "writes Triton kernels"
BANDWIDTH = "reasons about memory bandwidth"
PROFILES = "profiles kernels against cuBLAS / FlashAttention"

HOSTILE = (
    "<script>alert(1)</script> <img src=x onerror=alert(2)> ' onmouseover=alert(3) \" & {{ 7 * 7 }} [bold red]x[/] "
    "\x1b[31mred\x1b[0m \x1b]0;title\x07 \x9b2J \x00\x08\u202eREVERSED\u2066 \ud800 \uffff ]]> -->\n"
    "::error file=a,line=1::owned\n  ##[error]owned\n::stop-commands::x\r\n"
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
        env=Environment(
            "interpret", "", "", "", "3.11.9", "2.9.1+cpu", "3.5.1", "2.3.4", ("landlock", "seccomp", "no network")
        ),
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

H200 = Environment(
    "gpu",
    "NVIDIA H200",
    "570.124.06",
    "9.0",
    "3.11.9",
    "2.9.1+cu128",
    "3.5.1",
    "2.3.4",
    ("landlock", "seccomp", "no network"),
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
        )
        for number, status in enumerate(
            cast(tuple[Status, ...], ("fail", "crash", "not_implemented", "skipped_environment", "pass"))
        )
    )
    return record(
        checks,
        (PartInfo("part", text),),
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
