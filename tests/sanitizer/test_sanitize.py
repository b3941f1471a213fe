"""`grade sanitize`: what the guard finds over all cases, what compute-sanitizer's reports say, and the command line."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from grader import machine
from grader.calls.arguments import PlacedArguments
from grader.cli.main import dispatch
from grader.errors import MissingEnvironment
from grader.exercise import plan
from grader.exercise.abilities import WHOLE_CPU
from grader.exercise.catalogue import Entry, resolve
from grader.exercise.replay_token import parse_token, replay_plan
from grader.sandbox.process_spec import ProcessSpec
from grader.sandbox.server import ForkServer
from grader.sandbox.session import Session
from grader.sandbox.tool_server import ToolServer
from grader.sanitizer.command import TOOLS, ToolName, command, find
from grader.sanitizer.findings import Called, CallFinding, Examination, Gathering, to_json
from grader.sanitizer.output import Accusation, CodePlace, parse, place
from grader.sanitizer.run import SanitizeTarget, examine_by_guard, examine_by_tool
from grader.sanitizer.text import render
from grader.sanitizer.words import sightings_of
from grader.speed.lock import GpuLock
from grader.text import clean
from tests.claims import SUBMISSIONS
from tests.conftest import ROOT, Lent, plan_of, shortened
from tests.records import flat

TROUBLES = SUBMISSIONS / "sanitize" / "a_trouble_in_each_part.py"
PATH = "/learner/ex_15_triton_basics.py"

Look = Callable[..., Examination]


def subject(entry: Entry, source: str | Path, *checks: str) -> SanitizeTarget:
    """A submission with the planned cases of the named checks."""
    text = source.read_text(encoding="utf-8") if isinstance(source, Path) else source
    drawn = plan_of(entry, plan.default_seed(entry.id), gpu=False)
    kept = tuple(planned for planned in drawn.checks if planned.id in checks)
    return SanitizeTarget(
        entry, PATH, text, replace(drawn, checks=kept), "grade sanitize ex_15", ("--submission", "my.py")
    )


@pytest.fixture
def look(server: ForkServer, ex_15: Entry) -> Look:
    """Examine a submission by the guard: look(source, "vector_add.tail", …) -> Examination."""
    return lambda source, *checks: examine_by_guard(subject(ex_15, source, *checks), server)


# -- the guard -------------------------------------------------------------------------------------------------------


def test_a_clean_solution_is_told_so_with_the_number_of_calls(look: Look, ex_15: Entry) -> None:
    examined = look(ex_15.solution, "vector_add.tail", "row_softmax.tail", "global_sum.tail")
    assert examined.exit_code == 0
    assert examined.findings == examined.stopped == ()
    assert examined.looked == examined.planned > 20
    assert f"No access outside a tensor and no race in {examined.planned} calls." in render(examined)


def test_a_tail_without_a_mask_is_one_finding_at_the_smallest_of_its_cases(look: Look) -> None:
    examined = look(TROUBLES, "vector_add.full_blocks", "vector_add.tail")
    (found,) = examined.findings
    assert (found.sighting.kind, found.sighting.kernel, found.sighting.line) == ("load", "_add", 16)
    assert found.sighting.code == "x = tl.load(x_ptr + offsets)"
    assert found.call is not None
    assert found.call.case["N"] == 1
    assert 0 < found.calls < examined.looked == examined.planned
    assert examined.exit_code == 1
    shown = flat(render(examined))
    assert "1. A load outside x_ptr" in shown
    assert f"In {found.calls} of {examined.planned} calls; the smallest is vector_add, N=1, " in shown


def test_the_replay_command_names_the_case_and_the_file(look: Look, ex_15: Entry) -> None:
    (found,) = look(TROUBLES, "vector_add.tail").findings
    assert found.call is not None
    grade, replay, token, *options = found.call.replay.split()
    assert (grade, replay, options) == ("grade", "replay", ["--submission", "my.py"])
    (again,) = replay_plan(ex_15.exercise, parse_token(token), WHOLE_CPU).checks
    assert dict(again.cases[0].case) == found.call.case


def test_programs_that_race_are_found_at_their_lines(look: Look) -> None:
    examined = look(TROUBLES, "global_sum.tail")
    assert {one.sighting.kind for one in examined.findings} == {"race"}
    assert {one.sighting.line for one in examined.findings} <= {52, 53}
    assert "Programs race for s_ptr" in render(examined)


def test_a_crash_in_one_part_does_not_keep_another_from_being_looked_at(look: Look) -> None:
    examined = look(TROUBLES, "vector_add.launches", "fused_multiply_add.launches", "row_softmax.tail")
    (stopped,) = examined.stopped
    assert (stopped.part, stopped.status, stopped.calls) == ("fused_multiply_add", "crash", 1)
    assert "exit status 7" in stopped.text
    assert examined.looked == examined.planned - 1
    assert [one.sighting.line for one in examined.findings] == [16]
    assert "fused_multiply_add, 1 call (first: N=3000, " in flat(render(examined))


def test_an_exception_alone_is_no_clean_bill(look: Look) -> None:
    examined = look("def vector_add(x, y):\n    raise KeyError('x')\n", "vector_add.launches")
    assert examined.exit_code == 1
    assert "KeyError (line 2)" in render(examined)


def test_a_stub_is_not_implemented_and_nothing_is_claimed(look: Look, ex_15: Entry) -> None:
    examined = look(ex_15.pristine_stub, "vector_add.tail", "row_softmax.tail")
    assert {(one.part, one.status) for one in examined.stopped} == {
        ("vector_add", "not_implemented"),
        ("row_softmax", "not_implemented"),
    }
    assert examined.exit_code == 3
    shown = render(examined)
    assert "Not implemented yet" in shown
    assert "Nothing was looked at" in shown
    assert "No access" not in shown


TAIL = """
import torch, triton, triton.language as tl

@triton.jit
def _add(x_ptr, y_ptr, z_ptr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(z_ptr + at, tl.load(x_ptr + at))

def vector_add(x, y):
    z = torch.empty_like(x)
    _add[(triton.cdiv(x.numel(), 256),)](x, y, z, BLOCK=256)
    return z
"""


@pytest.mark.parametrize(
    ("source", "why"),
    [
        (TAIL, ""),
        (TAIL.replace("return z", "return z + y"), "aten.add (line 12)"),
        (
            TAIL.replace("    at =", "    tl.static_assert(BLOCK > 0, f'{BLOCK:>4}')\n    at ="),
            "an f-string in a kernel has no format after the colon: leave it out (line 6)",
        ),
    ],
    ids=["replayed", "torch computes", "the replayer refuses"],
)
def test_a_call_that_is_not_replayed_loses_no_finding_and_it_is_said(look: Look, source: str, why: str) -> None:
    examined = look(source, "vector_add.tail")
    line = next(number for number, text in enumerate(source.splitlines(), 1) if "tl.store" in text)
    assert {(one.sighting.kind, one.sighting.line) for one in examined.findings} == {("load", line), ("store", line)}
    made = f"{examined.planned} calls were made in the submission's own process and not replayed: {why}."
    assert examined.notes == ((f"vector_add: {made}",) if why else ())
    assert examined.looked == examined.planned


def test_the_guard_looks_where_no_line_of_the_submission_runs(look: Look) -> None:
    """What the file makes of Triton's loads and stores, it makes in its own process alone."""
    blind = "tl.load = tl.store = lambda *_, **__: 0.0\n"
    assert {one.sighting.line for one in look(TAIL + blind, "vector_add.tail").findings} == {7}


def test_a_file_that_does_not_load_is_said_for_every_part(look: Look) -> None:
    examined = look("import nothing_of_that_name\n", "vector_add.tail", "row_softmax.tail")
    assert [one.status for one in examined.stopped] == ["invalid_submission", "invalid_submission"]
    assert examined.exit_code == 3


def test_calls_without_a_kernel_are_not_called_clean(look: Look) -> None:
    examined = look("def vector_add(x, y):\n    return x + y\n", "vector_add.launches")
    assert examined.exit_code == 3
    assert "no kernel of yours was launched" in render(examined)


def test_a_part_that_runs_out_of_time_is_not_waited_for_again_and_again(server: ForkServer, ex_15: Entry) -> None:
    limits = replace(ex_15.exercise.limits, call_s=0.3)
    hurried = Entry(ex_15.root, ex_15.name)
    hurried.__dict__["exercise"] = replace(ex_15.exercise, limits=limits)
    examined = examine_by_guard(
        subject(hurried, "def vector_add(x, y):\n    while True: pass\n", "vector_add.tail"), server
    )
    ended, left_out = examined.stopped
    assert (ended.status, ended.calls, left_out.status) == ("timeout", 2, "skipped_dependency")
    assert examined.exit_code == 1


# -- findings --------------------------------------------------------------------------------------------------------


def sighting(line: int, kind: str = "load", kernel: str = "k") -> CallFinding:
    return CallFinding(kind, kernel, line, "", (0,), "title", f"in line {line}")  # type: ignore[arg-type]


def called(size: int) -> Called:
    return Called("part", {"N": size, "causal": True, "dtype": "float32"}, f"N={size}", f"grade replay {size}")


def test_each_line_is_listed_once_by_its_smallest_call_in_the_order_of_the_file() -> None:
    gathering = Gathering()
    for size in (700, 3, 50):
        gathering.add(called(size), [sighting(9), sighting(4)])
    gathering.add(called(1), [sighting(9, "store")])
    gathering.add(None, [sighting(0)])
    found = gathering.found()
    assert [(one.sighting.line, one.sighting.kind, one.calls) for one in found] == [
        (4, "load", 3),
        (9, "load", 3),
        (9, "store", 1),
        (0, "load", 0),
    ]
    assert [one.call and one.call.words for one in found] == ["N=3", "N=3", "N=1", None]


def test_a_launch_too_large_to_follow_is_not_called_free_of_races(look: Look, ex_15: Entry) -> None:
    examined = replace(look(ex_15.solution, "vector_add.launches"), unfollowed=1)
    assert "In 1 call a launch was too large to follow whole" in flat(render(examined))


def test_a_line_of_a_submission_is_no_command_to_a_ci_service(look: Look, ex_15: Entry) -> None:
    examined = look(ex_15.solution, "vector_add.launches")
    shown = render(replace(examined, notes=("::error::all is well", "##[error]all is well")))
    assert "all is well" in shown
    assert not any(line.lstrip().startswith("::") for line in shown.splitlines())
    assert "##[" not in shown


# -- reports of compute-sanitizer ------------------------------------------------------------------------------------

MEMCHECK = """\
========= COMPUTE-SANITIZER
something that the program printed
========= Invalid __global__ read of size 16 bytes
=========     at _add+0xc0 in /tmp/grade-x/ex_15_triton_basics.py:16
=========     by thread (122,0,0) in block (3,0,0)
=========     Address 0x7d750ca00fa0 is out of bounds
=========     and is 1 bytes after the nearest allocation at 0x7d750ca00000 of size 4,000 bytes
=========
========= Invalid __global__ read of size 16 bytes
=========     at _add+0xc0 in /tmp/grade-x/ex_15_triton_basics.py:16
=========     by thread (123,0,0) in block (3,0,0)
=========     Access to 0x7d750ca00fb0 is out of bounds
=========     and is 17 bytes after the nearest allocation at 0x7d750ca00000 of size 4,000 bytes
=========
========= Invalid __global__ write of size 4 bytes
=========     at 0xda0 in /old/ex_15_triton_basics.py:53:_sum
=========     by thread (0,0,0) in block (44,1,0)
=========     Address 0x763995f9f001 is misaligned
=========     Saved host backtrace up to driver entry point at kernel launch time
=========     Host Frame: [0x2f26f0]
=========                in /usr/lib/x86_64-linux-gnu/libcuda.so.1
=========
========= Program hit cudaErrorLaunchFailure (error 719) due to "unspecified launch failure" on CUDA API call.
=========     Saved host backtrace up to driver entry point at error
========= Error: process didn't terminate successfully
========= Target application returned an error
========= ERROR SUMMARY: 132 errors
========= ERROR SUMMARY: 32 errors were not printed. Use --print-limit option to adjust the number of printed errors
"""

RACECHECK = """\
========= COMPUTE-SANITIZER
========= Error: Race reported between Write access at _softmax+0x5ad20 in ex_15_triton_basics.py:36
=========     and Read access at _softmax+0x5ae40 in ex_15_triton_basics.py:37 [508 hazards]
=========     and Write access at _softmax+0x5ae60 in /usr/lib/python3/triton/language/standard.py:237 [4 hazards]
=========
========= Warning: Race reported between Write access at _sum+0x1b0 in standard.py:290
=========     and Write access at _sum+0x1b0 in standard.py:290 [6,136 hazards]
=========
========= RACECHECK SUMMARY: 2 hazards displayed (1 error, 1 warning)
"""

HAZARD = """\
========= Error: Potential WAW hazard detected at __shared__ 0x404 in block (2,0,0) :
=========     Write Thread (23,0,0) at _sum+0x1a0 in ex_15_triton_basics.py:51
=========     Write Thread (24,0,0) at _sum+0x1c0 in ex_15_triton_basics.py:53
=========     Current Value : 2, Incoming Value : 3
=========
========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)
"""

INITCHECK = """\
========= COMPUTE-SANITIZER
========= Uninitialized __global__ memory read of size 4 bytes
=========     at _sum+0x70 in ex_15_triton_basics.py:52
=========     by thread (0,0,0) in block (1,0,0)
=========     Address 0x7f3c7ec000fc
=========
========= Host API memory access error at host access to 0x7f7fcdc01200 of size 400 bytes
=========     Uninitialized access at 0x7f7fcdc01300 on access by cudaMemcpy source
=========
========= ERROR SUMMARY: 2 errors
"""

SYNCCHECK = """\
========= COMPUTE-SANITIZER
========= Barrier error detected. Divergent thread(s) in block.
=========     at barrier_of_triton()+0x11f0 in barrier.py:42
=========     by thread (32,0,0) in block (0,0,0)
=========         Device Frame: _add+0xe40 in ex_15_triton_basics.py:17
=========
========= ERROR SUMMARY: 1 error
"""


def test_memcheck_s_reports_are_read_in_the_forms_of_its_versions() -> None:
    report = parse(MEMCHECK)
    first, second, third = report.accusations
    assert (first.kind, first.memory, first.bytes) == ("load", "global", 16)
    assert first.place == CodePlace("_add", "/tmp/grade-x/ex_15_triton_basics.py", 16)
    assert (first.thread, first.block) == ((122, 0, 0), (3, 0, 0))
    assert first.how.startswith("is out of bounds, and is 1 bytes after the nearest allocation at 0x7d750ca00000")
    assert second.how.startswith("is out of bounds, and is 17 bytes after")
    assert (third.kind, third.place.kernel, third.place.line, third.how) == ("store", "_sum", 53, "is misaligned")
    assert (report.summaries, report.unprinted) == (1, 32)
    assert MEMCHECK[first.offset :].startswith("========= Invalid __global__ read")


def test_racecheck_s_reports_are_read_with_all_places_that_race() -> None:
    report = parse(RACECHECK)
    ours, theirs = report.accusations
    assert (ours.kind, ours.place.line, ours.hazards) == ("race", 36, 512)
    assert [one.line for one in ours.others] == [37, 237]
    assert (theirs.place, theirs.hazards) == (CodePlace("_sum", "standard.py", 290), 6136)
    assert report.summaries == 1


def test_a_hazard_report_names_both_threads_places() -> None:
    (hazard,) = parse(HAZARD).accusations
    assert (hazard.kind, hazard.memory, hazard.block) == ("race", "shared", (2, 0, 0))
    assert (hazard.place.line, [one.line for one in hazard.others]) == (51, [53])


def test_initcheck_s_reports_are_read_for_kernels_and_for_copies() -> None:
    load, copy = parse(INITCHECK).accusations
    assert (load.kind, load.place.line, load.bytes, load.block) == ("uninitialised", 52, 4, (1, 0, 0))
    assert (copy.kind, copy.place) == ("uninitialised", CodePlace())


def test_synccheck_s_reports_lead_to_the_learner_s_line_through_the_callers() -> None:
    (barrier,) = parse(SYNCCHECK).accusations
    assert barrier.kind == "barrier"
    assert barrier.line_in("ex_15_triton_basics.py") == 17


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("kernel+0xec0 in matmul.py:43", CodePlace("kernel", "matmul.py", 43)),
        ("unaligned_kernel():0x160 in memcheck_demo.cu:6", CodePlace("unaligned_kernel", "memcheck_demo.cu", 6)),
        ("WAW()+0x2f0 in raceWAW.cu:20(void)", CodePlace("WAW", "raceWAW.cu", 20)),
        ("sumKernel(int *, int *)+0x90 in /a b/c.cu:41", CodePlace("sumKernel", "/a b/c.cu", 41)),
        ("0xda0 in /opt/fused_moe.py:175:fused_moe_kernel", CodePlace("fused_moe_kernel", "/opt/fused_moe.py", 175)),
        ("0x3b0 in void bootstrap<unsigned long>(int)", CodePlace("void bootstrap<unsigned long>")),
        ("copy_range(unsigned char *, int)+0x120", CodePlace("copy_range")),
        ("0x79d8", CodePlace()),
        ("matmul_kernel [0x25700]", CodePlace("matmul_kernel")),
    ],
)
def test_a_place_is_read_in_every_form(text: str, read: CodePlace) -> None:
    assert place(text) == read


@pytest.mark.parametrize(
    ("text", "troubles"),
    [
        (
            "========= Error: No attachable process found. compute-sanitizer timed-out.\n"
            "========= Default timeout can be adjusted with --launch-timeout. Awaiting target completion.\n",
            ("No attachable process found. compute-sanitizer timed-out.",),
        ),
        (
            "========= Internal Sanitizer Error: The Sanitizer encountered an error while launching k\n",
            ("The Sanitizer encountered an error while launching k",),
        ),
        ("========= Target application returned an error\n========= ERROR SUMMARY: 0 errors\n", ()),
        ("==== not a tool\n========\nno bar at all\n", ()),
    ],
)
def test_what_the_tool_says_of_itself_is_no_finding(text: str, troubles: tuple[str, ...]) -> None:
    report = parse(text)
    assert report.accusations == ()
    assert report.troubles == troubles


def told(text: str) -> list[CallFinding]:
    source = TROUBLES.read_text(encoding="utf-8").splitlines()
    return list(sightings_of(parse(text).accusations, "ex_15_triton_basics.py", source))


SCRAPS = st.sampled_from(
    [
        *("Invalid __global__ read of size ", "Race reported between Write access at ", "and Read access at ", "at "),
        *("by thread (", ") in block (", "Uninitialized __shared__ memory read of size ", "ERROR SUMMARY: ", "Error: "),
        *(
            " errors were not printed",
            "Device Frame: ",
            "k+0x30 in ",
            "a.py:",
            "[",
            " hazards]",
            "Address 0x7f",
            "(",
            ")",
        ),
        *(
            "7",
            "9" * 5000,
            ",",
            "," * 40,
            "-1",
            "\u0663",
            "1,234",
            " ",
            " " * 3000,
            "\x1b[31m",
            "\x00",
            "\u2028",
            "::error::x",
        ),
        *("Potential RAW hazard detected at __shared__ 0x0 in block (", "Write Thread (", ") at ", "and is "),
    ]
)
LINES = st.builds(
    lambda bar, indent, scraps: bar + indent + "".join(scraps),
    st.sampled_from(["=========", "=", ""]),
    st.sampled_from([" ", "     ", ""]),
    st.lists(SCRAPS, max_size=6),
)


@given(st.lists(LINES, max_size=8).map("\n".join))
@example("========= Invalid __global__ read of size ,")
@example("========= Invalid __global__ read of size " + "9" * 5000)
@example("========= Invalid __global__ read of size 4\n=========     at k+0x30 in a.py:" + "9" * 5000)
@example("========= ERROR SUMMARY: , errors were not printed")
def test_whatever_a_submission_writes_into_the_report_is_read_without_an_error(text: str) -> None:
    """It prints into the same pipe as the tool."""
    report = parse(text)
    for one in sightings_of(report.accusations, "a.py", ["code"]):
        said = "".join((one.kernel, one.code, one.title, one.text, one.help, one.place))
        assert len(said) < 4000
        assert said == clean(said)


@pytest.mark.parametrize("scrap", ["x  ", "[", "[1", "k+0x0 in a:", "(", "at "])
def test_a_line_without_an_end_takes_no_time(scrap: str) -> None:
    started = time.process_time()
    report = parse(f"========= Race reported between Write access at {scrap * 200_000}\n" * 3)
    assert len(report.accusations) == 3
    assert time.process_time() - started < 2


def test_more_reports_than_anybody_reads_are_counted_only() -> None:
    report = parse("========= Invalid __global__ read of size 4\n" * 10_007)
    assert (len(report.accusations), report.unprinted) == (10_000, 7)


def test_threads_that_do_the_same_are_one_sighting_with_the_line_of_code() -> None:
    load, store = told(MEMCHECK)
    assert load.text == (
        "Line 16, `x = tl.load(x_ptr + offsets)`: program (3, 0, 0) of _add loads 16 bytes at an address that is out "
        "of bounds, and is 1 bytes after the nearest allocation of size 4,000 bytes; 2 threads in all."
    )
    assert (load.title, load.lanes, load.program) == ("A load outside an allocation", 2, (3, 0, 0))
    assert store.title == "A store at a misaligned address"


def test_an_atomic_has_its_article() -> None:
    (atomic,) = sightings_of([Accusation(0, "atomic", "Invalid __global__ atomic of size 4 bytes")], "x.py", [])
    assert atomic.title == "An atomic outside an allocation"


def test_races_in_triton_s_own_code_have_no_line_of_the_learner_s() -> None:
    theirs, ours = sorted(told(RACECHECK), key=lambda one: one.line)
    assert (theirs.line, theirs.place) == (0, "line 290 of standard.py")
    assert ours.text.startswith("Line 36, ")
    assert "line 37 of ex_15_triton_basics.py and line 237 of standard.py; 512 bytes are concerned." in ours.text


def test_unwritten_memory_and_barriers_are_told_in_words() -> None:
    load, copy = sorted(told(INITCHECK), key=lambda one: -one.line)
    assert "program (1, 0, 0) of _sum loads 4 bytes that nothing has written." in load.text
    assert copy.line == 0
    (barrier,) = told(SYNCCHECK)
    assert (barrier.line, barrier.kernel) == (17, "_add")
    assert "Divergent thread(s) in block" in barrier.text


# -- under the tool --------------------------------------------------------------------------------------------------


def test_the_command_line_goes_on_after_an_error_and_keeps_overruns_apart() -> None:
    assert command("/usr/local/cuda/bin/compute-sanitizer", "memcheck") == (
        *("/usr/local/cuda/bin/compute-sanitizer", "--tool", "memcheck", "--target-processes", "all"),
        *("--launch-timeout", "150", "--destroy-on-device-error", "kernel", "--show-backtrace", "device"),
        *("--print-limit", "10000", "--report-api-errors", "no", "--padding", "65536", "--"),
    )
    for tool in ("racecheck", "initcheck", "synccheck"):
        words = command("compute-sanitizer", tool)
        assert words[2] == tool
        assert words[-1] == "--"
        assert "--padding" not in words


def test_the_tool_is_found_in_the_path(tmp_path: Path) -> None:
    executable = tmp_path / "compute-sanitizer"
    executable.write_text("#!/bin/sh\n")
    executable.chmod(0o755)
    assert find({"PATH": str(tmp_path)}) == str(executable)


# Starts what it is to watch, and passes on what that leaves in report.txt: a tool whose findings are known beforehand.
# What it watches is made to report loads of tensors of an odd length; with 1023 elements, a replay ends its process.
STAND_IN = """
import pathlib, subprocess, sys, time
print("========= COMPUTE-SANITIZER", flush=True)
watched = sys.argv[sys.argv.index("--") + 1 :]
place = watched.index("-c") + 1
begins = "importlib.import_module(module)"
watched[place] = watched[place].replace(begins, pathlib.Path(sys.argv[1]).read_text() + begins)
watched = subprocess.Popen(watched)
report, said = pathlib.Path("report.txt"), 0
while True:
    over = watched.poll() is not None
    text = report.read_text() if report.exists() else ""
    print(text[said:], end="", flush=True)
    said = len(text)
    if over:
        break
    time.sleep(0.005)
print("========= ERROR SUMMARY: 1 error")
"""
SEES = '''
import os
os.environ["UNDER_A_TOOL"] = "1"
from grader.calls.arguments import PlacedArguments
from grader.child.tool_worker import ToolWorker
from grader.replay.replayer import Replayer

def accusing(process, called, told):
    def call(self, *args):
        placed = []
        place = PlacedArguments.place
        PlacedArguments.place = lambda *given: placed.append(place(*given)) or placed[-1]
        try:
            answer = called(self, *args)
        finally:
            PlacedArguments.place = place
        if placed[0][0].numel() % 2:
            with open("report.txt", "a") as report:
                report.write(f"""\\
========= Invalid __global__ read of size 4 bytes
=========     at _touch+0x30 in ex_15_triton_basics.py:{told}
=========     by thread (3,0,0) in block (1,0,0)
""")
        if placed[0][0].numel() == 1023:
            os._exit(9)
        return answer
    return call

Replayer._run_trace = accusing(Replayer, Replayer._run_trace, 6)
ToolWorker.call = accusing(ToolWorker, ToolWorker.call, 9)
'''
TOUCHES = """
import triton, triton.language as tl

@triton.jit
def _touch(x_ptr):
    tl.load(x_ptr)

def vector_add(x, y):
    _touch[(1,)](x)
    return x
"""


@pytest.fixture
def stand_in(tmp_path: Path) -> Iterator[tuple[str, ...]]:
    """The command line of the stand-in, readable for whoever it watches."""
    with tempfile.TemporaryDirectory() as folder:
        tool, sees = Path(folder, "stand-in"), Path(folder, "sees.py")
        tool.write_text(f"#!{sys.executable}\n{STAND_IN}")
        sees.write_text(SEES)
        for path in (Path(folder), tool):
            path.chmod(0o755)
        sees.chmod(0o644)
        yield str(tool), str(sees), "--"


def test_each_report_is_laid_to_the_call_that_it_came_with_and_deaths_are_survived(
    server: ForkServer, ex_15: Entry, tmp_path: Path, stand_in: tuple[str, ...]
) -> None:
    looked_at = subject(ex_15, TOUCHES, "vector_add.tail")
    examined = examine_by_tool(looked_at, server, "memcheck", stand_in, GpuLock("none", tmp_path))
    lengths = [one.case["N"] for check in looked_at.plan.checks for one in check.cases]
    (found,) = examined.findings
    assert (found.sighting.line, found.sighting.code, found.sighting.program) == (6, "tl.load(x_ptr)", (1, 0, 0))
    assert found.calls == sum(int(length) % 2 for length in lengths)
    assert found.call is not None
    assert found.call.case["N"] == 1
    assert [(one.status, one.calls) for one in examined.stopped] == [("crash", 1)]
    assert examined.looked == len(lengths) - 1
    assert examined.notes == ()
    assert "compute-sanitizer's memcheck" in render(examined)


SHY = """
import os, triton, triton.language as tl

if "UNDER_A_TOOL" in os.environ:
    raise RuntimeError("somebody is looking")
"""


def test_no_line_of_the_submission_runs_under_the_tool_where_its_calls_are_replayed(
    server: ForkServer, ex_15: Entry, tmp_path: Path, stand_in: tuple[str, ...]
) -> None:
    looked_at = subject(ex_15, SHY + TOUCHES, "vector_add.launches")
    examined = examine_by_tool(looked_at, server, "memcheck", stand_in, GpuLock("none", tmp_path))
    assert (examined.stopped, examined.looked, examined.exit_code) == ((), 1, 0)


def test_a_call_that_cannot_be_replayed_is_made_under_the_tool_and_it_is_said(
    server: ForkServer, ex_15: Entry, tmp_path: Path, stand_in: tuple[str, ...]
) -> None:
    source = TOUCHES.replace("    return x\n", "    return x + y\n")
    looked_at = subject(ex_15, source, "vector_add.tail")
    (tail,) = looked_at.plan.checks
    smallest = replace(tail, cases=tuple(one for one in tail.cases if one.case["N"] == 1))
    looked_at = replace(looked_at, plan=replace(looked_at.plan, checks=(smallest,)))
    examined = examine_by_tool(looked_at, server, "memcheck", stand_in, GpuLock("none", tmp_path))
    assert [(one.sighting.line, one.calls) for one in examined.findings] == [(9, 1)]
    made = "1 call was made in the submission's own process and not replayed: aten.add (line 10)."
    assert examined.notes == (f"vector_add: {made}",)


def test_what_runs_under_a_tool_is_confined_by_every_layer(
    server: ForkServer, ex_15: Entry, stand_in: tuple[str, ...]
) -> None:
    spec = ProcessSpec.of(server, ex_15, "")
    watched = ToolServer(server, stand_in)
    with Session(spec) as plain, Session(spec.on(watched)) as under_a_tool:
        plain.load()
        under_a_tool.load()
        assert plain.ready is not None
        assert under_a_tool.ready is not None
        assert under_a_tool.ready.isolation == plain.ready.isolation


@pytest.mark.parametrize(
    ("tool", "said"),
    [
        ((sys.executable, "-c", "print('========= Error: Device not supported')"), "got 'Error: Device not supported'"),
        ((sys.executable, "-c", "pass"), "got nothing but its end"),
        (("/nowhere/compute-sanitizer",), "compute-sanitizer must start what it is to watch, got .*No such file"),
    ],
)
def test_a_tool_that_does_not_work_is_said_in_words(
    tool: tuple[str, ...], said: str, server: ForkServer, tmp_path: Path, ex_15: Entry
) -> None:
    looked_at = subject(ex_15, ex_15.solution, "vector_add.launches")
    with pytest.raises(MissingEnvironment, match=said):
        examine_by_tool(looked_at, server, "memcheck", (*tool, "--"), GpuLock("none", tmp_path))


@pytest.mark.parametrize(
    "tensor",
    [
        torch.arange(7.0),
        torch.arange(7.0)[3:],
        torch.arange(12.0).reshape(3, 4).t(),
        torch.arange(12.0).reshape(3, 4)[:, :3],
        torch.arange(3.0).expand(5, 3),
        torch.zeros(0, 4),
        torch.tensor(2),
    ],
)
def test_a_tensor_under_the_tool_ends_where_its_memory_ends(tensor: torch.Tensor) -> None:
    (placed,) = PlacedArguments(torch.device("cpu"), guarded=False).place(("x",), (tensor,), "new")
    assert isinstance(placed, torch.Tensor)
    assert torch.equal(placed, tensor)
    assert placed.stride() == tensor.stride()
    assert placed.storage_offset() == tensor.storage_offset()
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    elements = placed.storage_offset() + last + 1 if tensor.numel() else 0
    assert placed.untyped_storage().nbytes() == elements * tensor.element_size()


# -- the command line ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["ex_51"], "grade: the exercise must be one of "),
        (["ex_15", "--part", "gelu"], "grade: a part must be one of vector_add, "),
        (["ex_15", "--seed", "many"], "grade: a seed must be a number such as 17 or 0x5f, got 'many'"),
        (
            ["ex_15", "--tool", "leakcheck"],
            "grade: a tool must be one of memcheck, racecheck, initcheck, synccheck, got",
        ),
        (["ex_15", "--tool", "memcheck", "--cpu"], "grade: --tool is for GPUs: it must not be given with --cpu"),
        (["ex_15", "--submission", "gone.py"], "grade: a submission must exist, got gone.py"),
        (["ex_15", "--json", "/proc/out.json"], "grade: an output must be writable, got /proc/out.json"),
        ([], "grade: grade sanitize must get EXERCISE"),
    ],
)
def test_a_bad_command_line_is_refused_in_one_line(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert dispatch(["sanitize", *arguments]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith(said)
    assert shown.err.count("\n") == 1


@pytest.fixture
def grade_sanitize(server: ForkServer, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Run the command in this process, on two cases a check: grade_sanitize("--part", …) -> exit code.

    The server of all tests stands for one of any mode: no tool of these tests asks it for a process.
    """
    draw = plan.draw
    monkeypatch.setattr(plan, "draw", lambda *args, **named: shortened(draw(*args, **named), 2))
    monkeypatch.setattr("grader.cli.sanitize.ForkServer", lambda mode: Lent(server))
    return lambda *arguments: dispatch(["sanitize", "ex_15", *arguments])


SOLUTION = str(ROOT / "reference" / "ex_15_triton_basics" / "solution.py")
CLEAN = "No access outside a tensor and no race in "


def test_the_json_goes_to_stdout_alone_and_says_what_the_text_says(
    grade_sanitize: Callable[..., int], capfd: pytest.CaptureFixture[str]
) -> None:
    assert grade_sanitize("--submission", str(TROUBLES), "--part", "vector_add", "--json", "-", "--cpu") == 1
    shown = capfd.readouterr()
    document = json.loads(shown.out)
    assert document["schema"] == "grade/sanitize/v1"
    assert (document["means"], document["exit_code"], document["parts"]) == ("guard", 1, ["vector_add"])
    (found,) = document["findings"]
    assert (found["sighting"]["line"], found["call"]["case"]["N"]) == (16, 1)
    assert f"--submission {TROUBLES}" in found["call"]["replay"]
    assert document["command"] == f"grade sanitize ex_15 --submission {TROUBLES} --part vector_add --cpu"
    assert "1. A load outside x_ptr" in shown.err


def test_without_a_gpu_a_tool_is_named_as_missing_and_the_guard_looks(
    grade_sanitize: Callable[..., int], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(machine, "has_gpu", lambda: False)
    assert grade_sanitize("--submission", SOLUTION, "--part", "row_softmax", "--tool", "racecheck", "-q") == 0
    shown = capfd.readouterr()
    assert CLEAN in shown.out
    assert "racecheck is one of compute-sanitizer's tools and needs a GPU" in flat(shown.out)
    assert shown.err == ""


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (None, "compute-sanitizer is not installed: it comes with the CUDA toolkit"),
        ("/nowhere/compute-sanitizer", "compute-sanitizer must start what it is to watch, got "),
    ],
)
def test_on_a_gpu_where_the_tool_does_not_work_the_guard_looks_and_it_is_said_why(
    found: str | None,
    why: str,
    grade_sanitize: Callable[..., int],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(machine, "has_gpu", lambda: True)
    monkeypatch.setattr("grader.cli.sanitize.find", lambda: found)
    assert grade_sanitize("--submission", SOLUTION, "--part", "global_sum", "-q") == 0
    shown = flat(capfd.readouterr().out)
    assert CLEAN in shown
    assert why in shown
    assert shown.endswith("The guard in Triton's interpreter looked instead.")


def test_an_examination_is_one_json_document(look: Look, ex_15: Entry) -> None:
    document = json.loads(to_json(look(ex_15.solution, "vector_add.launches")))
    assert document["findings"] == []
    assert document["exit_code"] == 0


def test_an_accusation_without_a_place_still_has_words() -> None:
    (plain,) = sightings_of([Accusation(0, "other", "Invalid __shared__ ? of size 2048 bytes")], "x.py", [])
    assert plain.text.startswith("In a kernel: the kernel: Invalid __shared__ ?")


# -- on a GPU --------------------------------------------------------------------------------------------------------


@pytest.fixture
def look_with(gpu_server: ForkServer, tmp_path: Path) -> Look:
    """Examine a submission by compute-sanitizer: look_with("memcheck", source, "vector_add.tail", …)."""
    executable = find()
    if executable is None:
        pytest.skip("compute-sanitizer is not installed")
    entry, _ = resolve(ROOT, "ex_15")

    def look(tool: ToolName, source: str | Path, *checks: str) -> Examination:
        looked_at = subject(entry, source, *checks)
        return examine_by_tool(looked_at, gpu_server, tool, command(executable, tool), GpuLock("none", tmp_path))

    return look


@pytest.mark.gpu
def test_memcheck_finds_the_tail_without_a_mask_at_its_line_and_its_cases(look_with: Look) -> None:
    examined = look_with("memcheck", TROUBLES, "vector_add.tail", "fused_multiply_add.launches", "row_softmax.launches")
    (found,) = examined.findings
    assert (found.sighting.kind, found.sighting.kernel, found.sighting.line) == ("load", "_add", 16)
    assert found.call is not None
    assert (found.call.part, found.call.case["N"]) == ("vector_add", 1)
    assert [(one.part, one.status) for one in examined.stopped] == [("fused_multiply_add", "crash")]
    assert examined.looked == examined.planned - 1


@pytest.mark.gpu
@pytest.mark.parametrize("tool", TOOLS)
def test_the_model_solution_is_clean_under_every_tool(tool: ToolName, look_with: Look, ex_15: Entry) -> None:
    checks = [f"{part.name}.launches" for part in ex_15.exercise.parts]
    examined = look_with(tool, ex_15.solution, *checks)
    assert examined.findings == (), render(examined)
    assert examined.exit_code == 0
    assert examined.looked == examined.planned == len(checks)


@pytest.mark.gpu
@pytest.mark.skipif(find() is None, reason="compute-sanitizer is not installed")
def test_calls_whose_inputs_no_gpu_can_draw_are_looked_at_too(gpu_server: ForkServer, tmp_path: Path) -> None:
    # On a GPU, o and lse come from a kernel that takes no tensor at an odd address.
    entry, _ = resolve(ROOT, "ex_18")
    looked_at = subject(entry, entry.solution, "attention_backward.strides")
    told = command(str(find()), "memcheck")
    examined = examine_by_tool(looked_at, gpu_server, "memcheck", told, GpuLock("none", tmp_path))
    assert examined.stopped == (), render(examined)
    assert examined.findings == (), render(examined)
    assert examined.looked == examined.planned


UNWRITTEN = """
import torch, triton, triton.language as tl

@triton.jit
def _add(x_ptr, s_ptr):
    so_far = tl.load(s_ptr)
    tl.store(s_ptr, so_far + tl.load(x_ptr))

def global_sum(x):
    s = torch.empty((), dtype=torch.float32, device=x.device)
    _add[(1,)](x, s)
    return s
"""


@pytest.mark.gpu
def test_initcheck_finds_what_is_loaded_before_anything_was_stored(look_with: Look) -> None:
    (found,) = look_with("initcheck", UNWRITTEN, "global_sum.launches").findings
    assert (found.sighting.kind, found.sighting.kernel, found.sighting.line) == ("uninitialised", "_add", 6)


@pytest.mark.gpu
@pytest.mark.skipif(find() is None, reason="compute-sanitizer is not installed")
@pytest.mark.parametrize("role", ["replay", "submission"])
def test_what_runs_under_compute_sanitizer_is_confined_by_every_layer(
    role: Literal["replay", "submission"], gpu_server: ForkServer, ex_15: Entry
) -> None:
    limits = replace(ex_15.exercise.limits, load_s=180.0, processes=1024)
    spec = ProcessSpec(gpu_server, replace(ex_15.start(""), role=role), limits)
    watched = ToolServer(gpu_server, command(str(find()), "memcheck"))
    with Session(spec) as plain, Session(spec.on(watched)) as under_a_tool:
        plain.load()
        under_a_tool.load()
        assert plain.ready is not None
        assert under_a_tool.ready is not None
        assert under_a_tool.ready.isolation == plain.ready.isolation
