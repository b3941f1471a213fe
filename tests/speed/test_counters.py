"""Nsight Compute's counters: its command line, its CSV as several versions write it, and why there may be none."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grader.exercise.cases import Case
from grader.exercise.catalogue import Entry
from grader.protocol.requests import Start
from grader.sandbox.process_spec import ProcessSpec
from grader.sandbox.server import ForkServer
from grader.speed import counters
from grader.speed.counters import (
    Counters,
    LaunchCounters,
    command,
    count,
    find,
    parse,
    unknown_metrics,
    why_no_launches,
)
from tests.conftest import ROOT

# -- the command line ------------------------------------------------------------------------------------------------


def test_the_command_counts_only_when_asked_in_base_units_and_leaves_the_clocks_alone() -> None:
    words = command("/usr/local/cuda/bin/ncu", ("gpu__time_duration.sum", "dram__bytes_read.sum"))
    assert words == (
        *("/usr/local/cuda/bin/ncu", "--csv", "--print-units", "base"),
        *("--metrics", "gpu__time_duration.sum,dram__bytes_read.sum"),
        *("--profile-from-start", "off", "--target-processes", "all"),
        *("--clock-control", "none", "--cache-control", "all"),
    )


def test_all_that_is_shown_is_asked_for() -> None:
    assert ",".join(counters.METRICS) in command("ncu")
    for name in ("gpu__time_duration", "dram__bytes_read", "dram__bytes_write", "sm__throughput", "pipe_tensor"):
        assert any(name in metric for metric in counters.METRICS)


def test_ncu_is_found_in_the_path_or_nowhere(tmp_path: Path) -> None:
    tool = tmp_path / "ncu"
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    assert find({"PATH": str(tmp_path)}) == str(tool)


# -- reading its report ----------------------------------------------------------------------------------------------

LONG = """\
==PROF== Connected to process 4711 (/usr/bin/python3.12)
==PROF== Profiling "matmul_kernel" - 0: 0%....50%....100% - 3 passes
==PROF== Disconnected from process 4711
"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device","CC",\
"Section Name","Metric Name","Metric Unit","Metric Value"
"0","4711","python3.12","127.0.0.1","matmul_kernel","1","7","(256, 1, 1)","(132, 1, 1)","0","9.0",\
"Command line profiler metrics","dram__bytes_read.sum","byte","268,500,992"
"0","4711","python3.12","127.0.0.1","matmul_kernel","1","7","(256, 1, 1)","(132, 1, 1)","0","9.0",\
"Command line profiler metrics","dram__bytes_write.sum","byte","134,217,728"
"0","4711","python3.12","127.0.0.1","matmul_kernel","1","7","(256, 1, 1)","(132, 1, 1)","0","9.0",\
"Command line profiler metrics","gpu__time_duration.sum","nsecond","1,420,544"
"0","4711","python3.12","127.0.0.1","matmul_kernel","1","7","(256, 1, 1)","(132, 1, 1)","0","9.0",\
"Command line profiler metrics","sm__throughput.avg.pct_of_peak_sustained_elapsed","%","91.27"
"1","4711","python3.12","127.0.0.1","void at::native::fill<4, at::F(float, int)>(int, T2)","1","7","(128, 1, 1)",\
"(1, 1, 1)","0","9.0","Command line profiler metrics","gpu__time_duration.sum","nsecond","2,016"
"1","4711","python3.12","127.0.0.1","void at::native::fill<4, at::F(float, int)>(int, T2)","1","7","(128, 1, 1)",\
"(1, 1, 1)","0","9.0","Command line profiler metrics","dram__bytes_read.sum","byte","n/a"
"""

WIDE = """\
==PROF== Connected to process 12
"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device","CC",\
"dram__bytes_read.sum","dram__bytes_write.sum","gpu__time_duration.sum"
"","","","","","","","","","","","Mbyte","Kbyte","usecond"
"0","12","python","127.0.0.1","add_kernel(float*, float*, int)","1","7","(128, 1, 1)","(8, 1, 1)","0","8.0",\
"8.39","2.5","12.10"
==PROF== Disconnected from process 12
"""


def test_a_report_with_one_metric_a_row_gives_one_launch_for_each_id() -> None:
    first, second = parse(LONG)

    assert first.kernel == "matmul_kernel"
    assert first.metrics[counters.READ] == 268_500_992
    assert first.metrics[counters.SM] == 91.27
    assert first.dram_bytes == 402_718_720
    assert first.time_us == 1420.544
    assert second == LaunchCounters("void at::native::fill<4, at::F", {counters.TIME: 2016.0})
    assert second.dram_bytes is None


def test_a_report_with_one_launch_a_row_has_its_units_in_a_row_of_their_own() -> None:
    (launch,) = parse(WIDE)

    assert launch == LaunchCounters(
        "add_kernel", {counters.READ: 8.39e6, counters.WRITTEN: 2500.0, counters.TIME: 12_100.0}
    )
    assert launch.time_us == pytest.approx(12.1)


def test_processes_of_one_report_count_their_launches_apart() -> None:
    row = '"0","{0}","add_kernel","gpu__time_duration.sum","nsecond","{0}"\n'
    text = '"ID","Process ID","Kernel Name","Metric Name","Metric Unit","Metric Value"\n' + "".join(
        row.format(process) for process in (7, 8)
    )
    assert [launch.metrics[counters.TIME] for launch in parse(text)] == [7, 8]


@pytest.mark.parametrize(
    "text",
    ["", "==PROF== Connected to process 1\n", '"ID"\n', '"ID","Kernel Name"\n', '"ID","Metric Name"\n"0"\n', "ID,x"],
)
def test_a_report_without_launches_gives_none(text: str) -> None:
    assert parse(text) == ()


@given(st.text(st.sampled_from('"ID,=\n0PROF a%'), max_size=200))
def test_no_text_breaks_the_reader(text: str) -> None:
    parse(f'"ID","Kernel Name","Metric Name","Metric Unit","Metric Value"\n{text}')
    parse(f'"ID","Kernel Name","dram__bytes_read.sum"\n{text}')
    assert why_no_launches(text)


def test_a_kernel_s_name_is_cleaned() -> None:
    text = LONG.replace("matmul_kernel", "a\x1b[31m::error")
    assert parse(text)[0].kernel == "a::error"


# -- why there are none ----------------------------------------------------------------------------------------------

NO_CUDA = """\
==PROF== Connected to process 878 (/usr/bin/python3.12)
Traceback (most recent call last):
  File "<string>", line 8, in <module>
RuntimeError: Error 304: OS call failed
==PROF== Disconnected from process 878
==ERROR== The application returned an error code (1).
"""
REFUSED = """\
==PROF== Connected to process 21 (/usr/bin/python3.12)
==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters on the target \
device 0. For instructions on enabling permissions and to get more information see https://developer.nvidia.com/ERR
==PROF== Disconnected from process 21
==WARNING== No kernels were profiled.
"""


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (REFUSED, "the driver lets only administrators read the GPU's counters (ERR_NVGPUCTRPERM)"),
        ("==ERROR== Failed to initialize the profiler: LibraryNotLoaded\n", "the driver offers no counters here"),
        ("==ERROR== InterprocessLockFailed\n", "another user's ncu left its lock file behind"),
        ("==ERROR== Unknown Error on device 0: ResourceUnavailable\n", "another program, such as DCGM, holds"),
        ("==WARNING== No kernels were profiled.\n", "no kernel ran in the call"),
        (NO_CUDA, "the process under ncu stopped: RuntimeError: Error 304: OS call failed"),
        ("==ERROR== Something new.\n", "ncu says: Something new."),
        ("", "ncu reported no launch"),
    ],
)
def test_what_kept_ncu_from_counting_is_said_in_words(text: str, words: str) -> None:
    assert why_no_launches(text).startswith(words)


def test_metrics_that_a_gpu_does_not_know_are_named() -> None:
    text = f"==ERROR== Failed to find metric {counters.TENSOR_INSTRUCTIONS}\n==PROF== {counters.TIME}\n"
    assert unknown_metrics(text) == (counters.TENSOR_INSTRUCTIONS,)


# -- a run, with a stand-in that runs the program and then reports ---------------------------------------------------

STAND_IN = """#!/bin/sh
case "$*" in *{refuses}*) echo "==ERROR== Failed to find metric {refuses}"; exit 1;; esac
while [ "$1" != "{python}" ]; do shift; done
UNDER_A_TOOL=1 "$@"
{says}
"""
ROW = """cat <<'END'
"ID","Kernel Name","Metric Name","Metric Unit","Metric Value"
"0","vector_add_kernel","gpu__time_duration.sum","nsecond","2,016"
END"""


@pytest.fixture
def stand_in() -> Iterator[Callable[..., str]]:
    """Something that is called as ncu is; anybody may run it."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)

    def make(says: str, refuses: str) -> str:
        tool = folder / "ncu"
        tool.write_text(STAND_IN.format(python=sys.executable, says=says, refuses=refuses))
        tool.chmod(0o755)
        return str(tool)

    yield make
    shutil.rmtree(folder)


@pytest.fixture
def counted(server: ForkServer, ex_15: Entry, stand_in: Callable[..., str]) -> Callable[..., Counters]:
    """Count one small addition in the interpreter, under the stand-in."""

    def run(says: str, source: str = "", refuses: str = "nothing") -> Counters:
        part = ex_15.exercise.parts[0]
        text = source or (ROOT / "reference" / ex_15.name / "solution.py").read_text(encoding="utf-8")
        start = Start("ex_15.py", text, ex_15.source("inputs.py"), (part.name,))
        case = next(check for check in part.checks if check.cases).cases.named_cases[0]  # type: ignore[union-attr]
        (found,) = count(ProcessSpec(server, start, ex_15.exercise.limits), stand_in(says, refuses), [(part, case, 7)])
        return found

    return run


def test_a_call_is_counted_under_the_tool_and_what_a_gpu_cannot_count_is_not_asked_for_again(
    counted: Callable[..., Counters],
) -> None:
    found = counted(ROW, refuses=counters.TENSOR_INSTRUCTIONS)

    assert (found.why, found.part) == ("", "vector_add")
    assert found.launches == (LaunchCounters("vector_add_kernel", {counters.TIME: 2016.0}),)


def test_a_tool_that_refuses_everything_is_quoted(counted: Callable[..., Counters]) -> None:
    assert counted("true", refuses="--csv").why == "ncu says: Failed to find metric --csv"


SHY = """
import os

if "UNDER_A_TOOL" in os.environ:
    raise RuntimeError("somebody is looking")
"""


def test_no_line_of_the_submission_runs_under_a_tool_that_may_not_count_where_its_call_is_replayed(
    counted: Callable[..., Counters], ex_15: Entry
) -> None:
    refused = "echo '==ERROR== ERR_NVGPUCTRPERM - The user does not have permission'"
    found = counted(refused, SHY + ex_15.solution.read_text(encoding="utf-8"))

    assert (found.launches, found.unreplayed) == ((), "")
    assert "NVreg_RestrictProfilingToAdminUsers=0" in found.why


def test_a_call_that_cannot_be_replayed_is_counted_in_the_submission_s_process_and_it_is_said(
    counted: Callable[..., Counters],
) -> None:
    found = counted("true", f"{SHY}\ndef vector_add(x, y):\n    return x + y\n")

    assert found.unreplayed == "aten.add"
    assert found.why == "the call raised RuntimeError: somebody is looking"


# -- on a GPU --------------------------------------------------------------------------------------------------------


@pytest.mark.gpu
@pytest.mark.skipif(find() is None, reason="ncu is not installed")
def test_a_gpu_counts_the_bytes_that_an_addition_must_move(ex_15: Entry) -> None:
    part = ex_15.exercise.parts[0]
    start = Start("ex_15.py", ex_15.solution.read_text(encoding="utf-8"), ex_15.source("inputs.py"), (part.name,))
    case = Case({"N": 1 << 26, "dtype": "float32", "values": "normal", "offset": 0})
    with closing(ForkServer("gpu")) as gpu:
        (found,) = count(ProcessSpec(gpu, start, ex_15.exercise.limits), str(find()), [(part, case, 7)])
    if not found.launches:
        pytest.skip(found.why)

    assert found.unreplayed == ""
    (launch,) = found.launches
    assert launch.metrics[counters.READ] == pytest.approx(2 * 4 * (1 << 26), rel=0.05)
    # What was stored last may still lie in the L2 cache.
    assert launch.metrics[counters.WRITTEN] <= 1.05 * 4 * (1 << 26)
    assert launch.time_us is not None
