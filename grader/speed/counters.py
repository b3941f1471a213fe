"""Count on the GPU with Nsight Compute while a part runs once. For `grade profile`; nothing is judged by it.

The call is recorded, and replayed under ncu in a process that is confined like any other. The report is untrusted: the
process below ncu could have written such text too. Renderers clean the names in it.
"""

from __future__ import annotations

import csv
import math
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from grader.errors import GradeError
from grader.exercise.cases import Case
from grader.exercise.model import Part
from grader.protocol.answers import Raised
from grader.protocol.requests import Recipe
from grader.sandbox.answering import Answered, answer
from grader.sandbox.outcome import Finished, Outcome
from grader.sandbox.pair import paired
from grader.sandbox.process_spec import ProcessSpec
from grader.sandbox.session import Session
from grader.sandbox.tool_server import ToolServer
from grader.text import clean, sha256_of

TIME = "gpu__time_duration.sum"
READ = "dram__bytes_read.sum"
WRITTEN = "dram__bytes_write.sum"
DRAM = "dram__throughput.avg.pct_of_peak_sustained_elapsed"
SM = "sm__throughput.avg.pct_of_peak_sustained_elapsed"
TENSOR = "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed"
TENSOR_INSTRUCTIONS = "smsp__inst_executed_pipe_tensor.sum"
METRICS = (TIME, READ, WRITTEN, DRAM, SM, TENSOR, TENSOR_INSTRUCTIONS)

HOW_TO_GET = (
    "it comes with the CUDA toolkit (in /usr/local/cuda/bin), and alone as apt's nsight-compute-… of NVIDIA's "
    "repository or conda's nsight-compute"
)
_PLACES = ("/usr/local/cuda/bin", *map(str, sorted(Path("/opt/nvidia/nsight-compute").glob("*"), reverse=True)))
# Every kernel runs several times.
_CALL_S = 300.0
_MOST_KERNELS = 64
# Some versions of ncu ignore the request for base units.
_BYTES = {"byte": 1.0, "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9, "Tbyte": 1e12}
_NANOSECONDS = {"usecond": 1e3, "us": 1e3, "msecond": 1e6, "ms": 1e6, "second": 1e9, "s": 1e9}
_UNITS = _BYTES | _NANOSECONDS


@dataclass(frozen=True)
class LaunchCounters:
    """One launch. metrics: the counts, by ncu's names; bytes, nanoseconds, per cent, instructions."""

    kernel: str
    metrics: dict[str, float] = field(default_factory=dict)

    @property
    def dram_bytes(self) -> float | None:
        """Return the bytes read and written together, if both are known."""
        both = [self.metrics[name] for name in (READ, WRITTEN) if name in self.metrics]
        return sum(both) if len(both) == 2 else None

    @property
    def time_us(self) -> float | None:
        """Return the running time in microseconds, if it is known."""
        return self.metrics[TIME] / 1e3 if TIME in self.metrics else None


@dataclass(frozen=True)
class Counters:
    """One call of a part.

    why: the reason for missing counters, or ''. unreplayed: the reason why the submission's own process made the call
    and no replay did, or ''.
    """

    part: str
    words: str
    launches: tuple[LaunchCounters, ...] = ()
    why: str = ""
    unreplayed: str = ""


# -- the tool --------------------------------------------------------------------------------------------------------


def find(environment: Mapping[str, str] = os.environ) -> str | None:
    """Return the path of ncu, or None. Looks in $PATH, and where NVIDIA's packages put it."""
    places = os.pathsep.join([*filter(None, [environment.get("PATH")]), *_PLACES])
    found = shutil.which("ncu", path=places)
    return str(Path(found).absolute()) if found else None


def command(executable: str, metrics: Sequence[str] = METRICS) -> tuple[str, ...]:
    """Return the command line; the caller adds the program to watch.

    Counting waits until the program asks for it. Clocks stay as they are: a time at base clocks tells nothing. Each
    kernel starts with empty caches, as the inputs of a timed call do.
    """
    words = [executable, "--csv", "--print-units", "base", "--metrics", ",".join(metrics)]
    words += ["--profile-from-start", "off", "--target-processes", "all"]
    return (*words, "--clock-control", "none", "--cache-control", "all")


# -- its report ------------------------------------------------------------------------------------------------------


def parse(text: str) -> tuple[LaunchCounters, ...]:
    """Return the launches that ncu reports in CSV, with one metric a row or all in one; other lines are skipped.

    A value that is no number ("n/a") is left out.
    """
    lines = text.splitlines()
    start = next((i for i, line in enumerate(lines) if line.startswith('"ID",')), None)
    if start is None:
        return ()
    try:
        # Messages begin with bars of equal signs, CSV lines with a quote.
        rows = list(csv.reader(line for line in lines[start:] if line.startswith('"')))
    except csv.Error:
        return ()
    header, body = rows[0], [row for row in rows[1:] if len(row) == len(rows[0]) and row[0] != "ID"]
    if "Metric Name" in header:
        return _by_metric(header, body)
    return _by_kernel(header, body)


def _by_metric(header: Sequence[str], body: Sequence[Sequence[str]]) -> tuple[LaunchCounters, ...]:
    kernels: dict[tuple[str, str], str] = {}
    metrics: dict[tuple[str, str], dict[str, float]] = {}
    for row in body:
        one = dict(zip(header, row, strict=True))
        launch = one.get("Process ID", ""), one["ID"]
        kernels.setdefault(launch, _bare_name(one.get("Kernel Name", "")))
        value = _number_of(one.get("Metric Value", ""), one.get("Metric Unit", ""))
        if value is not None:
            metrics.setdefault(launch, {})[one["Metric Name"]] = value
    return tuple(LaunchCounters(kernel, metrics.get(launch, {})) for launch, kernel in kernels.items())


def _by_kernel(header: Sequence[str], body: Sequence[Sequence[str]]) -> tuple[LaunchCounters, ...]:
    # The first row holds the units.
    if not body or body[0][0]:
        return ()
    units = dict(zip(header, body[0], strict=True))
    launches = []
    for row in body[1:]:
        one = dict(zip(header, row, strict=True))
        values = {name: _number_of(one[name], units[name]) for name in header if "__" in name}
        metrics = {name: value for name, value in values.items() if value is not None}
        launches.append(LaunchCounters(_bare_name(one.get("Kernel Name", "")), metrics))
    return tuple(launches)


def _bare_name(kernel: str) -> str:
    """Return a kernel's name without its parameters, cleaned."""
    return clean(kernel.partition("(")[0].strip() or kernel.strip(), 120)


def _number_of(text: str, unit: str) -> float | None:
    """Return a number as ncu writes it ("1,234.5"), in base units; None if it is none."""
    try:
        value = float(text.replace(",", "")) * _UNITS.get(unit.strip(), 1.0)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


_TRACEBACK = "Traceback (most recent call last):"
_MESSAGE = re.compile(r"^==(?:ERROR|WARNING)==\s*(.+)$", re.MULTILINE)
_KNOWN = {
    "ERR_NVGPUCTRPERM": "the driver lets only administrators read the GPU's counters (ERR_NVGPUCTRPERM): load its "
    "module with NVreg_RestrictProfilingToAdminUsers=0, or start the container with --cap-add=SYS_ADMIN",
    "LibraryNotLoaded": "the driver offers no counters here (LibraryNotLoaded), as in some containers and virtual "
    "machines",
    "InterprocessLockFailed": "another user's ncu left its lock file behind (/tmp/nsight-compute-lock)",
    "ResourceUnavailable": "another program, such as DCGM, holds the GPU's counters",
    "No kernels were profiled": "no kernel ran in the call",
}


def why_no_launches(text: str, otherwise: str = "") -> str:
    """Return why a report holds no launches, if it gives a reason."""
    messages = _MESSAGE.findall(text)
    for sign, why in _KNOWN.items():
        if any(sign in message for message in messages):
            return why
    if error := _python_error(text):
        return f"the process under ncu stopped: {clean(error, 300)}"
    if messages:
        return f"ncu says: {clean(messages[-1], 300)}"
    return otherwise or "ncu reported no launch"


def _python_error(text: str) -> str:
    """Return the last line of the last traceback in a report, or ''."""
    _, there, rest = text.rpartition(_TRACEBACK)
    lines = [line for line in rest.splitlines() if line and not line.startswith((" ", "=="))]
    return lines[0] if there and lines else ""


def unknown_metrics(text: str, metrics: Sequence[str] = METRICS) -> tuple[str, ...]:
    """Return the metrics that this GPU or this version of ncu complains about."""
    messages = _MESSAGE.findall(text)
    return tuple(name for name in metrics if any(name in message for message in messages))


# -- a run -----------------------------------------------------------------------------------------------------------


def count(spec: ProcessSpec, executable: str, calls: Sequence[tuple[Part, Case, int]]) -> Iterator[Counters]:
    """Count each part of a submission once, on its case, in a process of its own under ncu.

    The seed of the counted call follows from the trace.
    """
    for part, case, seed in calls:
        found, text = _count_call(spec, command(executable), part, case, seed)
        missing = unknown_metrics(text)
        if not found.launches and missing:
            known_metrics = [name for name in METRICS if name not in missing]
            found, _ = _count_call(spec, command(executable, known_metrics), part, case, seed)
        yield found


def _count_call(spec: ProcessSpec, tool: tuple[str, ...], part: Part, case: Case, seed: int) -> tuple[Counters, str]:
    """Return the counters of one call, and all that ncu wrote."""
    words = case.words()
    answered: Answered | None = None
    why = ""
    watched = ToolServer(spec.server, tool, "grader.child.counter_worker")
    slow = watched.under_tool(spec, _CALL_S)
    call = part.call(Recipe(part.name, dict(case), seed))
    salt = sha256_of(spec.start.submission)
    try:
        with (
            Session(spec) as session,
            paired(slow, session, inputs="timed") as pair,
            Session(slow) as own,
        ):
            answered = answer(pair, call, salt, own, is_replayed=part.is_replayed)
    except GradeError as failed:
        why = clean(str(failed), 300)
    # ncu writes it when the process has ended.
    text = watched.report.text.decode(errors="replace")
    launches = parse(text)[:_MOST_KERNELS]
    why = "" if launches else _why_no_return(answered.outcome if answered else None) or why_no_launches(text, why)
    return Counters(part.name, words, launches, why, clean(answered.why, 200) if answered else ""), text


def _why_no_return(outcome: Outcome | None) -> str:
    """Return the failure of a call that did not return; '' for one that did, or that was never made."""
    match outcome:
        case None | Finished():
            return ""
        case Raised(kind=kind, message=message):
            return clean(f"the call raised {kind}: {message}", 300)
        case _:
            return f"the call did not finish: {type(outcome).__name__}"
