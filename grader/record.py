"""The record of one grading, `grade/result/v1`: everything that any renderer or exporter shows.

Documented field by field in docs/result.md. Records are frozen, hold only JSON values, and survive a round trip
through `to_json` and `from_json`. Text that came from a submission is cleaned when it is put in (grader.text).
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from grader.exercise.model import Curves as Curves  # noqa: PLC0414  for the reports, which import the record alone
from grader.phrases import all_of, counted
from grader.protocol.decode import DecodeError, decode
from grader.protocol.footprint import Footprint
from grader.text import as_json, one_line
from grader.timeline import Stretch

Schema = Literal["grade/result/v1"]
SCHEMA: Schema = "grade/result/v1"

Status = Literal[
    "pass",
    "fail",
    "not_implemented",
    "compile_error",
    "crash",
    "timeout",
    "oom",
    "policy",
    "invalid_submission",
    "skipped_dependency",
    "skipped_environment",
    "inconclusive",
    "grader_error",
]

# Statuses that are nobody's fault: their points are neither given nor lost.
UNJUDGED: frozenset[Status] = frozenset({"skipped_environment", "inconclusive", "grader_error"})

# A finite number, or "inf", "-inf", "nan": JSON has no other way to say these.
Number = float | str


@dataclass(frozen=True)
class Tool:
    """The program that graded."""

    name: str
    version: str


@dataclass(frozen=True)
class ExerciseInfo:
    """The exercise of a grading: id ("ex_15"), name ("ex_15_triton_basics"), and a hash of spec, inputs and oracle."""

    id: str
    name: str
    title: str
    version: str
    spec_sha256: str


@dataclass(frozen=True)
class SubmissionInfo:
    """The file that was graded: absolute path, and SHA-256 of its text in UTF-8."""

    path: str
    sha256: str
    student: str = ""


@dataclass(frozen=True)
class Environment:
    """The machine of a grading.

    mode: "gpu" (compiled kernels) or "interpret" (TRITON_INTERPRET=1 on the CPU).
    """

    mode: Literal["gpu", "interpret"]
    gpu: str
    driver: str
    capability: str
    python: str
    torch: str
    triton: str
    numpy: str
    isolation: tuple[str, ...]


@dataclass(frozen=True)
class Difference:
    """One wrong element: its index, the oracle's value, the submission's value, and the allowed error."""

    index: tuple[int, ...]
    expected: Number
    got: Number
    allowed: Number


@dataclass(frozen=True)
class Neighbour:
    """An element beside the worst one, or the worst one itself.

    inputs: the values of input tensors at the same place, by the argument's name.
    """

    index: tuple[int, ...]
    expected: Number
    got: Number
    is_wrong: bool
    inputs: dict[str, Number] = field(default_factory=dict)


@dataclass(frozen=True)
class Picture:
    """The wrong places of an output as a small grid: each cell 0 (all right) … 9 (all wrong).

    `rows_per_cell` and `columns_per_cell` say how many elements one cell covers; if an output has more than two axes,
    all but the last count as rows. `tile_rows` and `tile_columns` say how many elements one program's tile covers; 0
    if the launch does not tell.
    """

    cells: tuple[tuple[int, ...], ...]
    rows_per_cell: int
    columns_per_cell: int
    shape: tuple[int, ...]
    tile_rows: int = 0
    tile_columns: int = 0


@dataclass(frozen=True)
class Mismatch:
    """The difference between an output and the oracle.

    `pattern` names the wrong places: all, tail, head, rows, columns, scattered. `around`: the worst element and those
    beside it along the last axis.
    """

    output: str
    count: int
    total: int
    max_abs: Number
    max_rel: Number
    worst_index: tuple[int, ...]
    pattern: str
    first: tuple[Difference, ...]
    tile: str = ""
    picture: Picture | None = None
    around: tuple[Neighbour, ...] = ()


@dataclass(frozen=True)
class Suspect:
    """A possible cause of a failure: a kind for programs, a title, the evidence, and where to look.

    `confirmed`: values or a probe leave no doubt; otherwise it is a guess, and says so.
    """

    kind: str
    title: str
    evidence: str
    help: str
    confirmed: bool = False


@dataclass(frozen=True)
class Excerpt:
    """A line of the submission with its neighbours. line: its number. first: the number of the first of `lines`.

    words: what the line does, '' if the cause's sentence names it.
    """

    line: int
    first: int
    lines: tuple[str, ...]
    words: str = ""


@dataclass(frozen=True)
class Cause:
    """The reason why a check did not pass: a kind for programs, a title, one sentence, and what to do next.

    `case` names, in words, the case of the sentence and the numbers. `suspects` are the possible causes, the likeliest
    first; `title` and `help` are those of the first. `excerpt` shows the line that the sentence names. `inputs`: the
    arguments of the call, in words.
    """

    kind: str
    title: str
    rationale: str
    help: str = ""
    expected: str = ""
    actual: str = ""
    traceback: str = ""
    mismatch: Mismatch | None = None
    case: str = ""
    suspects: tuple[Suspect, ...] = ()
    excerpt: Excerpt | None = None
    inputs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Counterexample:
    """The smallest failing case found, and what happens there.

    `passes` is a neighbouring case that passes, in words. `tried` counts the cases that were run to find it. `replay`
    is the token that runs it again.
    """

    case: dict[str, int | float | bool | str]
    words: str
    replay: str
    rationale: str = ""
    passes: str = ""
    tried: int = 0


@dataclass(frozen=True)
class Ceilings:
    """The best rates that this GPU reached, measured once: streams in TB/s, matrix products in TFLOP/s by dtype."""

    copy_tbps: float
    read_tbps: float
    tflops: dict[str, float]


@dataclass(frozen=True)
class Span:
    """The lowest and the highest reading."""

    low: float
    high: float


@dataclass(frozen=True)
class GpuState:
    """The GPU while kernels were timed, and the driver's reasons for slowing it down."""

    sm_mhz: Span
    memory_mhz: Span
    temperature_c: Span
    power_w: Span
    throttled: tuple[str, ...]
    samples: int


@dataclass(frozen=True)
class Contender:
    """One contender's measurements at one size. Times are medians with their 95 % intervals, in microseconds.

    name: "submission", or a baseline's name. ratio: the time of the band's baseline over this one's, with its 95 %
    interval. tbps, tflops: the compulsory bytes and operations over the time. roofline_share: the time that the
    measured ceilings allow over the time taken, 0 … 1. peak_bytes: the most device memory that a call held beyond its
    inputs (-1: not known).
    """

    name: str
    median_us: float
    low_us: float
    high_us: float
    ratio: float
    ratio_low: float
    ratio_high: float
    tbps: float
    tflops: float
    roofline_share: float
    peak_bytes: int = -1


@dataclass(frozen=True)
class Configuration:
    """One configuration of an autotuned kernel: its distinguishing settings, and its time in microseconds.

    -1: it does not work. -2: it was not tried, because compiling it would have taken too long.
    """

    words: str
    time_us: float
    chosen: bool = False


@dataclass(frozen=True)
class Tuned:
    """The configurations of an autotuned launch, with the line of the submission that it stands in."""

    kernel: str
    line: int
    configurations: tuple[Configuration, ...]


@dataclass(frozen=True)
class SizeTiming:
    """One size of a suite.

    method: "stream" (launched step by step) or "graph" (CUDA-graph replay), the same for all contenders. judged:
    whether the size counts; `reason` says why it does not. share: the part of the points that the ratio earns, 0 … 1.
    rounds: how often each contender ran. outside_us: the submission's median by the grader's own clock, which may be
    off by clock_us. floor_us: the least time that the measured ceilings allow; bound: which ceiling sets it ("memory"
    or "compute"). notes: findings about the measurement. tuned: the choices of autotuners. kernels: the names of what
    the timed call launches.
    """

    case: dict[str, int | float | bool | str]
    words: str
    method: Literal["stream", "graph"]
    judged: bool
    reason: str
    share: float
    rounds: int
    outside_us: float
    clock_us: float
    floor_us: float
    bound: Literal["memory", "compute"]
    contenders: tuple[Contender, ...]
    notes: tuple[str, ...] = ()
    tuned: tuple[Tuned, ...] = ()
    kernels: tuple[str, ...] = ()

    @property
    def submission(self) -> Contender:
        """Return the submission's own row."""
        return next(one for one in self.contenders if one.name == "submission")


@dataclass(frozen=True)
class Baseline:
    """A computation that the submission is compared with; `missing` says why it could not run here."""

    name: str
    title: str
    missing: str = ""


@dataclass(frozen=True)
class Speed:
    """A speed check's measurements. ratio: geometric mean over the judged sizes, with its 95 % interval.

    baseline: the one that decides the points; baselines: this one, and all that are shown beside it. fallback: why it
    is not the specification's first choice, or ''. curves: the specification's.
    """

    baseline: str
    floor: float
    full: float
    ratio: Number
    ratio_low: Number
    ratio_high: Number
    sizes: tuple[SizeTiming, ...]
    baselines: tuple[Baseline, ...]
    note: str = ""
    ceilings: Ceilings | None = None
    gpu: GpuState | None = None
    curves: Curves | None = None
    fallback: str = ""


@dataclass(frozen=True)
class Work:
    """The bytes that one call moved in the interpreter, and the limits on them; and what it computed.

    loaded and stored count every access; unique_bytes counts every byte of a launch once, and unique_stored_bytes (-1:
    not known) every stored byte once. model_bytes: the bytes that a good kernel moves, by the specification's formula.
    extra_bytes: the most memory that tensors took up beyond inputs and results. Moved bytes, unique stored bytes and
    extra memory each have two limits: the most bytes that earn all points (allowed) and the fewest that earn none; -1
    if there is no limit. configuration: the one that was counted, for autotuned kernels; '' for others. flops are those
    of tl.dot, and dots how many there were; exponentials, operations: elements that special functions and all other
    operations computed. models_size: the case is a small copy of a timed size, and was counted to predict times alone.
    kernels: the names of what was launched. copied_bytes: what PyTorch reads and writes to copy and cast tensors,
    where kernels must do the copying; they are moved, too. sector_ratio: the sectors that programs touch over the bytes
    that they use of them, 1 unless lanes lie apart in memory, at apart_line most of all (0: nowhere).
    """

    case: dict[str, int | float | bool | str]
    words: str
    loaded_bytes: int
    stored_bytes: int
    unique_bytes: int
    launches: int
    flops: int
    model_bytes: int
    allowed_bytes: int
    extra_bytes: int
    extra_allowed_bytes: int = -1
    configuration: str = ""
    none_bytes: int = -1
    extra_none_bytes: int = -1
    unique_stored_bytes: int = -1
    stored_allowed_bytes: int = -1
    stored_none_bytes: int = -1
    dots: int = 0
    exponentials: int = 0
    operations: int = 0
    models_size: bool = False
    kernels: tuple[str, ...] = ()
    copied_bytes: int = 0
    sector_ratio: float = 1.0
    apart_line: int = 0

    @property
    def moved_bytes(self) -> int:
        """Return the bytes that kernels load and store, and those that PyTorch reads and writes to copy."""
        return self.loaded_bytes + self.stored_bytes + self.copied_bytes


@dataclass(frozen=True)
class Prediction:
    """The time that one size should take on a GPU: a roofline over what was counted in the interpreter.

    bound: the longest term: "memory", "compute", or "launch". bytes, flops: what a call moves between DRAM and the
    chip, and computes. ceilings: "published" (the maker's figures less an assumed loss) or "measured" on the GPU.
    measured_us: the time that the size took there (-1: not timed). programs: of the largest launch at this size (-1:
    not known). remarks: what makes the call slow, or the prediction a lower bound.
    """

    gpu: str
    case: dict[str, int | float | bool | str]
    words: str
    time_us: float
    bound: Literal["memory", "compute", "launch"]
    bytes: int
    flops: int
    ceilings: Literal["published", "measured"]
    measured_us: float = -1.0
    programs: int = -1
    remarks: tuple[str, ...] = ()


# The evidence of a check on choices that names the cases in which they cost most.
DEAREST_GROUP = "dearest group"


@dataclass(frozen=True)
class Selection:
    """The choices of a part that chooses, and what each possible choice costs.

    ratios: costs by case and thing, each over its case's least (-1: not known). chosen: the index of the choice in
    every case, -1 if the choice was not offered. source: where the costs come from.
    """

    cases: tuple[str, ...]
    things: tuple[str, ...]
    ratios: tuple[tuple[float, ...], ...]
    chosen: tuple[int, ...]
    source: str = ""


@dataclass(frozen=True)
class CheckResult:
    """One line of the scorecard.

    `reason` is a sentence for every status but pass; `notes` say what was left out.
    """

    id: str
    part: str
    title: str
    objective: str
    status: Status
    points: float
    max_points: float
    duration_s: float = 0.0
    reason: str = ""
    notes: tuple[str, ...] = ()
    cause: Cause | None = None
    counterexample: Counterexample | None = None
    evidence: dict[str, str] = field(default_factory=dict)
    metrics: dict[str, Number] = field(default_factory=dict)
    speed: Speed | None = None
    work: tuple[Work, ...] = ()
    predictions: tuple[Prediction, ...] = ()
    selection: Selection | None = None

    @property
    def passed_in_part(self) -> bool:
        """Return whether it passed without earning all its points."""
        return self.status == "pass" and self.points < self.max_points

    @property
    def judged_work(self) -> tuple[Work, ...]:
        """Return the counted cases without those that only serve predictions."""
        return tuple(work for work in self.work if not work.models_size)


@dataclass(frozen=True)
class Occupancy:
    """The number of programs of a kernel that fit a multiprocessor at the same time.

    share: the part of the multiprocessor's warps that they fill. limited_by: the resource that admits no more.
    """

    programs: int
    share: float
    limited_by: str


@dataclass(frozen=True)
class KernelFinding:
    """A fault that a compiler's output shows: a kind for programs, a sentence, and the submission's line.

    line is 0 if no single line is meant.
    """

    kind: str
    text: str
    line: int = 0


@dataclass(frozen=True)
class CompiledKernel:
    """The compiler's result for one launched kernel on one GPU. Without occupancy, it did not compile.

    Instructions are counted in the PTX, where those of a loop stand once. case: the case of the launch. configurations:
    how many an autotuner chooses from. registers (0: unknown), spills and stack: of one thread. loads, stores:
    instructions for global memory, by the bytes that each moves.
    """

    kernel: str
    line: int
    target: str
    case: str
    constants: dict[str, int | bool]
    configurations: int
    num_warps: int
    num_stages: int
    registers: int
    stack_bytes: int
    spill_store_bytes: int
    spill_load_bytes: int
    shared_bytes: int
    tensor_memory_columns: int
    occupancy: Occupancy | None
    dots: tuple[str, ...]
    tensor_cores: dict[str, int]
    copies: dict[str, int]
    loads: dict[str, int]
    stores: dict[str, int]
    compile_s: float
    findings: tuple[KernelFinding, ...] = ()


@dataclass(frozen=True)
class CoveringLaunch:
    """One launch of a call in the interpreter: its kernel, its grid, and what its programs touch."""

    kernel: str
    grid: tuple[int, ...]
    footprint: Footprint


@dataclass(frozen=True)
class Coverage:
    """The elements that the programs of one small call touch, launch by launch.

    words: the case. check: the check that failed there, "" for a right call. lacking: elements that no program writes
    are among the wrong ones. more: launches that are left out.
    """

    words: str
    launches: tuple[CoveringLaunch, ...]
    check: str = ""
    lacking: bool = False
    more: int = 0


@dataclass(frozen=True)
class Grid:
    """The largest launch of a call at a timed size, as the submission's process recorded it; no kernel ran.

    multiprocessors: as many as the launch code was told of.
    """

    case: dict[str, int | float | bool | str]
    programs: int
    multiprocessors: int


@dataclass(frozen=True)
class PartInfo:
    """A part's heading on the scorecard, the compiled forms of its kernels, and what their programs touch.

    uncompiled: the reason why kernels are missing, by GPU. coverage: of a call that shows it well. grids: of the timed
    sizes that could be recorded.
    """

    name: str
    title: str
    kernels: tuple[CompiledKernel, ...] = ()
    uncompiled: dict[str, str] = field(default_factory=dict)
    coverage: Coverage | None = None
    grids: tuple[Grid, ...] = ()


@dataclass(frozen=True)
class PrintedOutput:
    """The submission's printed text, both ends of it; `cut_bytes` counts the bytes left out in between."""

    text: str = ""
    total_bytes: int = 0
    cut_bytes: int = 0


@dataclass(frozen=True)
class Sighting:
    """A place in a submission's text that a person may want to look at (grader.grading.source_scan).

    It decides nothing.
    """

    line: int
    what: str


@dataclass(frozen=True)
class Feedback:
    """A person's comment on a submission, and the points that they give instead of those earned (None: no points).

    part: '' for the whole exercise.
    """

    part: str
    comment: str
    author: str
    points: float | None = None


@dataclass(frozen=True)
class Record:
    """One grading of one submission against one exercise."""

    schema: Schema
    tool: Tool
    exercise: ExerciseInfo
    submission: SubmissionInfo
    env: Environment
    seed: str
    command: str
    verdict: Status
    score: float
    judged_score: float
    max_score: float
    parts: tuple[PartInfo, ...]
    checks: tuple[CheckResult, ...]
    printed: PrintedOutput
    graded_at: str
    duration_s: float
    submitted_at: str = ""
    sightings: tuple[Sighting, ...] = ()
    feedback: tuple[Feedback, ...] = ()
    timeline: tuple[Stretch, ...] = ()


def points_that_count(checks: Iterable[CheckResult], given: Mapping[str, float]) -> tuple[float, float]:
    """Return the points of the checks, and of how many, with points given by hand instead: by part, '' for all."""
    listed = list(checks)
    most = sum(check.max_points for check in listed)
    if "" in given:
        return given[""], most
    own = [check for check in listed if check.part not in given]
    handed = [check for check in listed if check.part in given]
    judged = sum(check.max_points for check in (*handed, *(one for one in own if one.status not in UNJUDGED)))
    earned = sum(check.points for check in own)
    return earned + sum(given[part] for part in dict.fromkeys(check.part for check in handed)), judged


def given_by_hand(record: Record) -> dict[str, float]:
    """Return the points that a person gave, by part; '' for the whole exercise."""
    return {one.part: one.points for one in record.feedback if one.points is not None}


def verdict_of(checks: tuple[CheckResult, ...]) -> Status:
    """Return the status of a whole grading: the worst of its checks, and no pass if a whole part was left out."""
    worst = worst_of(checks)
    return "skipped_environment" if worst == "pass" and parts_left_out(checks) else worst


def parts_left_out(checks: Iterable[CheckResult]) -> dict[str, str]:
    """Return the parts without any judged check on this machine, each with the reason.

    A record does not distinguish a missing package from a missing GPU: both leave a part out alike.
    """
    parts: dict[str, list[CheckResult]] = {}
    for check in checks:
        parts.setdefault(check.part, []).append(check)
    left_out = {name: own for name, own in parts.items() if all(one.status == "skipped_environment" for one in own)}
    return {name: own[0].reason for name, own in left_out.items()}


def left_out_in_words(checks: Iterable[CheckResult]) -> str:
    """Return which parts were left out and why: "nothing of gemm was judged (…)"; '' if no part was."""
    by_reason: dict[str, list[str]] = {}
    for part, reason in parts_left_out(checks).items():
        by_reason.setdefault(one_line(reason, 200), []).append(one_line(part, 60))
    said = [(f"nothing of {all_of(parts)} was judged", reason) for reason, parts in by_reason.items()]
    return "; ".join(f"{text} ({reason})" if reason else text for text, reason in said)


def worst_of(checks: Iterable[CheckResult]) -> Status:
    """Return the worst status among some checks, unjudged ones aside."""
    statuses: set[Status] = {check.status for check in checks}
    order: tuple[Status, ...] = (
        "invalid_submission",
        "timeout",
        "oom",
        "crash",
        "compile_error",
        "policy",
        "fail",
        "grader_error",
        "not_implemented",
        "skipped_dependency",
        "pass",
        "inconclusive",
        "skipped_environment",
    )
    return next((status for status in order if status in statuses), "skipped_environment")


def headline(record: Record) -> str:
    """Return one sentence on what was judged and what was not; it never claims more than was run."""
    passed = sum(check.status == "pass" for check in record.checks)
    in_part = sum(check.passed_in_part for check in record.checks)
    unjudged = [check for check in record.checks if check.status in UNJUDGED]
    judged = len(record.checks) - len(unjudged)
    text = f"{two_decimals(record.score)} of {two_decimals(record.judged_score)} points that could be judged here"
    text += f" ({passed} of {judged} checks passed{f', {in_part} of them in part' if in_part else ''})"
    if unjudged:
        missing = record.max_score - record.judged_score
        points = "1 more point is" if missing == 1 else f"{two_decimals(missing)} more points are"
        text += f"; {points} open: {counted(len(unjudged), 'check was', 'checks were')} not judged"
    # If nothing was judged, the checks say why.
    if judged and (left_out := left_out_in_words(record.checks)):
        text += f"; {left_out}"
    return text + "."


def two_decimals(value: float) -> str:
    """Return a number with at most two decimals: 4, 2.5, 0.33."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def number(value: float) -> Number:
    """Return a float in the form that JSON can hold."""
    return value if math.isfinite(value) else str(value)


def to_json(record: Record) -> str:
    """Return the record as a JSON document. Raises ValueError if a number is not finite."""
    return as_json(dataclasses.asdict(record))


def from_json(text: str) -> Record:
    """Return the record in a JSON document. Raises ValueError (DecodeError) that names the wrong field."""
    try:
        return decode(Record, json.loads(text), "record")
    except RecursionError:
        raise DecodeError("record must not be nested without end") from None


def worst_code(codes: Collection[int]) -> int:
    """Return the one exit code for several gradings: the first of 5, 2, 1, 3 and 4 that occurs, else 0."""
    return min(codes, key=(5, 2, 1, 3, 4, 0).index, default=0)


def exit_code(verdict: Status) -> int:
    """Return the command line's exit code for a verdict.

    0: all judged checks pass. 1: some fail. 3: the submission holds nothing to judge. 4: at least one whole part could
    not be judged on this machine. 5: the grader failed.
    """
    match verdict:
        case "pass":
            return 0
        case "not_implemented" | "invalid_submission":
            return 3
        case "skipped_environment" | "inconclusive":
            return 4
        case "grader_error":
            return 5
        case _:
            return 1
