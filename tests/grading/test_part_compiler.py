"""Compiling beside a grading: which case, what is told of what goes wrong, and that nothing is left behind."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from grader.compile.outcome_cache import CompileOutcome, CompileState, RecordedForm, load, place_for
from grader.errors import GradeError
from grader.exercise.cases import Value
from grader.exercise.catalogue import Entry, resolve
from grader.exercise.model import Limits, Part
from grader.exercise.plan import default_seed
from grader.exercise.rules import Agrees, Compiles, SpeedBand
from grader.gpus import why_unknown
from grader.grading import Job, grade, part_compiler, truth_of
from grader.grading.compile_outcomes import state_of
from grader.grading.part_compiler import PartCompiler
from grader.grading.target_compiler import case_for, telling_cases
from grader.judge.rules.compiles import compiles_nowhere, decide_compiled
from grader.judge.ruling import Ruling
from grader.protocol.answers import UNRECORDABLE, Form, Raised
from grader.protocol.requests import Recipe, Start
from grader.protocol.trace import TraceNote
from grader.record.checks import PartInfo
from grader.record.record import Record
from grader.sandbox.outcome import CompiledTooLong, Died, Garbled, OutOfMemory, OutOfSpace, TimedOut
from grader.sandbox.process_spec import ProcessSpec
from grader.sandbox.server import ForkServer
from tests.claims import ROOT, claim, files
from tests.compiled_kernels import COPY, HEAD, INPUTS
from tests.conftest import plan_of, shortened
from tests.racing import band_of

ANY: Any = SimpleNamespace(name="part")


def compiles(outcomes: Sequence[CompileOutcome], rule: Compiles) -> Ruling:
    """Return what the rule decides where no outcome holds a form."""
    return decide_compiled(outcomes, rule, ANY, ANY)


ALL = {"sm_80", "sm_90", "sm_100"}
LAUNCH = """
def launch(x, y):
    copy_kernel[(triton.cdiv(x.numel(), 1024),)](x, x, x.numel(), BLOCK=1024)
"""
ADD = """
def vector_add(x, y):
    copy_kernel[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), BLOCK=1024)
    return y
"""


@pytest.fixture
def part(ex_15: Entry) -> Part:
    found = ex_15.exercise.part("vector_add")
    assert found is not None
    return found


# A submission without a line.
EMPTY = Start("ex.py", "", "", ())

Finding = Callable[..., tuple[list[tuple[str, str]], dict[str, str]]]


@pytest.fixture
def finding(compiler: ForkServer, ex_15: Entry, part: Part) -> Finding:
    """(kernel and GPU of what was compiled, what is missing) in one part: finding(text, limit_s=…, capability=…)."""

    def find(text: str, limit_s: float = 60.0, capability: str = "") -> object:
        start = Start("ex.py", HEAD + text, ex_15.source("inputs.py"), (part.name,))
        limits = Limits(call_s=min(limit_s, 10.0))
        with PartCompiler(
            lambda: ProcessSpec(compiler, start, limits), [part], limit_s=limit_s, capability=capability
        ) as compiling:
            compiling.run()
        kernels, missing = compiling.kernels_of(part.name)
        return [(kernel.kernel, kernel.target) for kernel in kernels], missing

    return find  # type: ignore[return-value]


# -- which case ------------------------------------------------------------------------------------------------------


def with_sizes(part: Part, *sizes: dict[str, Value]) -> Part:
    band = band_of(part, *sizes)
    return replace(
        part, checks=tuple(replace(one, rule=band) if isinstance(one.rule, SpeedBand) else one for one in part.checks)
    )


def test_the_largest_timed_case_of_moderate_size_is_compiled(part: Part) -> None:
    sizes = [{"N": 1 << 10}, {"N": 1 << 22}, {"N": 1 << 20}, {"N": 1 << 28}]
    case = case_for(with_sizes(part, *sizes))
    assert case is not None
    assert case["N"] == 1 << 22


def test_else_the_last_named_case_of_the_first_correctness_check(part: Part) -> None:
    named = next(check.rule.cases.named_cases for check in part.checks if isinstance(check.rule, Agrees))
    untimed = replace(part, checks=tuple(one for one in part.checks if not isinstance(one.rule, SpeedBand)))
    assert case_for(with_sizes(part, {"N": 1 << 30})) == case_for(untimed) == named[-1]


def test_of_each_dtype_the_small_case_tells_most_in_which_sizes_differ() -> None:
    part = resolve(ROOT, "ex_17")[0].exercise.part("gemm")
    assert part is not None
    assert [case.words() for case in telling_cases(part)] == [
        "M=8, N=264, K=400, dtype=float16, values=normal",
        "M=128, N=136, K=64, dtype=bfloat16, values=normal",
    ]


def test_a_part_without_a_case_has_none(part: Part) -> None:
    untested = tuple(one for one in part.checks if not isinstance(one.rule, Agrees | SpeedBand))
    assert case_for(replace(part, checks=untested)) is None


# -- what comes of it ------------------------------------------------------------------------------------------------


def test_kernels_of_every_gpu_are_found(finding: Finding) -> None:
    kernels, missing = finding(COPY + ADD)
    assert kernels == [("copy_kernel", "sm_80"), ("copy_kernel", "sm_90"), ("copy_kernel", "sm_100")]
    assert missing == {}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("def vector_add(x, y):\n    return x + y\n", "no Triton kernel was launched"),
        (
            "def vector_add(x, y):\n    return x.no_such\n",
            "the launch code raised AttributeError: 'Tensor' object has no attribute 'no_such' (line 4)",
        ),
        ("def vector_add(x, y):\n    os._exit(7)\n", "the process ended with exit status 7 before it answered"),
        ("def vector_add(x, y):\n    while True: pass\n", "compiling did not finish within 0.5 s"),
        (
            COPY + ADD.replace("    return y", "    raise ValueError('no')"),
            "the launch code raised ValueError: no (line 11)",
        ),
    ],
    ids=["nothing launched", "raises", "exits", "hangs", "raises after a launch"],
)
def test_what_goes_wrong_is_told_for_every_gpu(finding: Finding, text: str, why: str) -> None:
    assert finding(text, limit_s=0.5 if "while" in text else 60.0)[1] == dict.fromkeys(ALL, why)


def test_the_kernel_that_the_compiler_does_not_finish_is_named(finding: Finding) -> None:
    endless = COPY + "    for _ in tl.static_range(1 << 30):\n        tl.store(y_ptr, 0.0)\n"
    why = "compiling did not finish within 1 s, at copy_kernel, line 5"
    assert finding(endless + ADD, limit_s=1.0)[1] == dict.fromkeys(ALL, why)


@pytest.mark.parametrize(
    "text",
    ["def vector_add(x, y):\n    raise NotImplementedError\n", "def another(x): pass\n", "1 +"],
    ids=["stub", "missing", "does not load"],
)
def test_without_a_function_nothing_is_missing(finding: Finding, text: str) -> None:
    assert finding(text) == ([], {})


def test_a_file_that_does_not_load_is_an_invalid_file() -> None:
    why = "SyntaxError (line 3): invalid syntax"
    failure = compiles([CompileOutcome("part", "sm_90", state="unloadable", why=why)], Compiles((90,))).failure
    assert failure is not None
    assert failure.status == "invalid_submission"
    assert (failure.cause.title, failure.cause.rationale) == ("The file does not load", why)


def test_the_submission_cannot_describe_a_kernel(finding: Finding) -> None:
    lying = """
import grader.compile.assembly as assembly
assembly.instructions = assembly.resources = lambda *_: None
"""
    assert finding(COPY + ADD + lying) == finding(COPY + ADD)


def test_the_gpu_that_is_here_is_among_those_that_kernels_are_compiled_for(finding: Finding) -> None:
    found, missing = finding(COPY + ADD, capability="8.9")
    assert [target for _, target in found] == ["sm_80", "sm_89", "sm_90", "sm_100"]
    assert missing == {}


def test_for_a_gpu_that_cute_s_compiler_does_not_know_a_sentence_says_so(compiler: ForkServer, part: Part) -> None:
    start = Start("ex.py", f"{HEAD}{COPY}{ADD}", INPUTS, (part.name,))
    with PartCompiler(
        lambda: ProcessSpec(compiler, start, Limits()), [replace(part, tensors="cute")], capability="7.5"
    ) as compiling:
        compiling.run()
    assert compiling.kernels_of(part.name)[1]["sm_75"] == "CuTe's compiler does not know sm_75"


def test_for_an_unknown_gpu_nothing_is_compiled_and_a_sentence_says_so(finding: Finding) -> None:
    found, missing = finding(COPY + ADD, capability="8.7")
    assert {target for _, target in found} == ALL
    assert missing == {"sm_87": why_unknown("8.7")}


def test_a_part_that_crashes_takes_no_other_with_it(compiler: ForkServer, part: Part) -> None:
    text = f"{HEAD}{COPY}{LAUNCH.replace('(x, y)', '(x)')}\ndef second(x): os._exit(1)\n"
    parts = [replace(part, name=name, arguments=("x",)) for name in ("second", "launch")]
    inputs = f"{INPUTS}\ndef _any(case, generator):\n    return (torch.zeros(1 << 12),)\nlaunch = second = _any\n"
    start = Start("ex.py", text, inputs, ("second", "launch"))
    heard: list[CompileOutcome] = []
    with PartCompiler(lambda: ProcessSpec(compiler, start, Limits()), parts) as compiling:
        compiling.run(heard.append)
    assert [(one.part, one.target, bool(one.kernels)) for one in heard][:2] == [
        ("second", "sm_90", False),
        ("launch", "sm_90", True),
    ]
    assert len(heard) == 2 * len(ALL)


@pytest.mark.parametrize(("grid", "programs"), [("(triton.cdiv(x.numel(), 1024),)", [64, 1 << 20]), ("(1,)", [1, 1])])
def test_the_grids_of_timed_sizes_are_recorded_whatever_the_size(
    compiler: ForkServer, ex_15: Entry, part: Part, grid: str, programs: list[int]
) -> None:
    first = part.speed_bands[0].suite.named_cases[0]
    small = with_sizes(part, *({**first, "N": size} for size in (1 << 16, 1 << 30)))
    text = f"{HEAD}{COPY}{ADD}".replace("(triton.cdiv(x.numel(), 1024),)", grid)
    start = Start("ex.py", text, ex_15.source("inputs.py"), ("vector_add",))
    with PartCompiler(lambda: ProcessSpec(compiler, start, Limits(memory_bytes=16 << 30)), [small]) as part_compiler:
        part_compiler.run()
        found = part_compiler.grids_of("vector_add")
    assert [(one.case["N"], one.programs, one.multiprocessors) for one in found] == [
        (size, count, 132) for size, count in zip((1 << 16, 1 << 30), programs, strict=True)
    ]


# -- beside a grading ------------------------------------------------------------------------------------------------


def test_what_is_not_done_when_it_is_recalled_is_late_and_its_process_is_gone(
    compiler: ForkServer, part: Part, ex_15: Entry
) -> None:
    endless = f"{HEAD}\ndef vector_add(x, y):\n    while True: pass\n"
    start = Start("ex.py", endless, ex_15.source("inputs.py"), ("vector_add",))
    with PartCompiler(lambda: ProcessSpec(compiler, start, Limits()), [part]) as compiling:
        compiling.send()
        deadline = time.monotonic() + 30
        while not (pid := compiling._compilers[0].pid) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert pid
        began = time.monotonic()
        compiling.recall(patience_s=0.2)
        assert time.monotonic() - began < 5
        assert not Path(f"/proc/{pid}").exists()
        assert compiling.kernels_of("vector_add") == ((), dict.fromkeys(ALL, "not compiled in time"))


def test_a_fault_of_ours_is_told_and_ends_nothing(part: Part) -> None:
    def spawn(*_: object, **__: object) -> None:
        raise GradeError("the fork server must answer, but it ended")

    broken: Any = SimpleNamespace(mode="compile", spawn=spawn)
    with PartCompiler(lambda: ProcessSpec(broken, EMPTY, Limits()), [part]) as compiling:
        compiling.send()
        compiling.recall(patience_s=20.0)
        _, missing = compiling.kernels_of("vector_add")
    assert set(missing) == ALL
    assert all(why.startswith("the grader failed: GradeError: ") for why in missing.values())


def test_what_was_compiled_is_kept_for_the_same_text_and_no_other(
    compiler: ForkServer, part: Part, ex_15: Entry, tmp_path: Path
) -> None:
    cache_file = tmp_path / "kept" / "kernels.json"
    start = Start("ex.py", HEAD + COPY + ADD, ex_15.source("inputs.py"), (part.name,))
    with PartCompiler(lambda: ProcessSpec(compiler, start, Limits()), [part], cache_file=cache_file) as first:
        first.send()
        first.recall(patience_s=120.0)
    fail = partial(pytest.fail, "there is nothing left to compile")
    with PartCompiler(fail, [part], cache_file=cache_file) as second:
        second.send()
        assert second.kernels_of(part.name) == first.kernels_of(part.name)
    versions = ("3.7", "2.13")
    other = replace(start, submission=f"{start.submission}#")
    assert place_for(start, versions) == place_for(start, versions)
    assert len({place_for(one, some) for one in (start, other) for some in (versions, ("3.6", "2.13"))}) == 4


def test_what_could_not_be_compiled_this_time_is_tried_again_the_next(part: Part, tmp_path: Path) -> None:
    cache_file = tmp_path / "kernels.json"
    broken: Any = SimpleNamespace(mode="compile", spawn=None)
    with PartCompiler(lambda: ProcessSpec(broken, EMPTY, Limits()), [part], cache_file=cache_file) as compiling:
        compiling.send()
        compiling.recall(patience_s=20.0)
    assert not cache_file.exists()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"outcomes": [{"part": 7}]}', '{"outcomes": [1]}', "[" * 100_000])
def test_a_broken_file_of_kept_kernels_is_no_kept_kernels(tmp_path: Path, text: str) -> None:
    place = tmp_path / "kernels.json"
    place.write_text(text)
    assert load(place) == ()
    assert load(tmp_path / "missing.json") == ()


def test_one_that_was_never_sent_has_nothing_to_recall(part: Part) -> None:
    fail = partial(pytest.fail, "nothing was sent")
    with PartCompiler(fail, [part]) as compiling:
        compiling.recall(patience_s=20.0)
        assert not compiling.sent


Graded = Callable[..., Record]


@pytest.fixture
def recorded(server: ForkServer, ex_15: Entry) -> Graded:
    """The record of a text's grading, with kernels: recorded(text, "vector_add", …)."""

    def run(text: str, *parts: str, compiled: bool = True) -> Record:
        plan = shortened(plan_of(ex_15, default_seed(ex_15.id), gpu=False, parts=frozenset(parts)), 2)
        path, command = "/learner/ex_15.py", "grade ex_15"
        job = Job(ex_15, path, text, plan, command, "", False, timed=False, compiled=compiled, patience_s=30.0)
        return grade(job, server)

    return run


def test_the_record_holds_the_kernels_of_the_parts_that_were_called(recorded: Graded, ex_15: Entry) -> None:
    stub = "\ndef row_softmax(x):\n    raise NotImplementedError\n"
    added, untouched = recorded(f"{HEAD}{COPY}{ADD}{stub}", "vector_add", "row_softmax").parts
    assert [(kernel.kernel, kernel.target) for kernel in added.kernels] == [
        ("copy_kernel", "sm_80"),
        ("copy_kernel", "sm_90"),
        ("copy_kernel", "sm_100"),
    ]
    assert {kernel.case for kernel in added.kernels} == {case_for(ex_15.exercise.parts[0]).words()}  # type: ignore[union-attr]
    assert added.uncompiled == {}
    assert untouched == PartInfo(untouched.name, untouched.title)


def test_a_stub_starts_no_compiler(recorded: Graded, ex_15: Entry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PartCompiler, "send", lambda *_: pytest.fail("sent"))
    text = ex_15.pristine_stub.read_text(encoding="utf-8")
    assert all(not part.kernels for part in recorded(text, "vector_add").parts)


def test_nor_does_a_grading_that_does_not_want_kernels(recorded: Graded, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PartCompiler, "send", lambda *_: pytest.fail("sent"))
    (part,) = recorded(f"{HEAD}{COPY}{ADD}", "vector_add", compiled=False).parts
    assert (part.kernels, part.uncompiled) == ((), {})


GROWING_COUNT = """
@triton.jit
def sum_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    total, blocks = tl.zeros((BLOCK,), dtype=tl.float32), tl.full((), 0, tl.int32)
    for start in range(0, n, BLOCK):
        offsets = start + tl.arange(0, BLOCK)
        total += tl.load(x_ptr + offsets, mask=offsets < n, other=0.0).to(tl.float32)
        blocks += tl.full((), 1, tl.int64)
    tl.store(out_ptr, tl.sum(total, 0) + 0 * blocks)

def global_sum(x):
    out = torch.empty((), dtype=torch.float32, device=x.device)
    sum_kernel[(1,)](x, out, x.numel(), BLOCK=1024)
    return out
"""


def test_launch_code_that_raises_for_one_gpu_is_not_taken_for_work_that_torch_does() -> None:
    raised = "the launch code raised DSLUserCodeError: expects arch to be sm_90a, but got sm_80 (line 7)"
    states: tuple[tuple[CompileState, str, list[str]], ...] = (
        ("raised", raised, []),
        ("no_kernel", "no Triton kernel was launched", ["work_outside_kernels"]),
    )
    for state, why, kinds in states:
        outcome = CompileOutcome("gemm", "sm_80", state=state, why=why)
        failure = compiles([outcome], Compiles((80, 90), tensor_cores=True)).failure
        assert failure is not None
        assert failure.cause.rationale == f"For sm_80 {why}."
        assert [clue.kind for clue in failure.clues] == kinds
        assert ("torch.cuda.get_device_capability" in failure.cause.help) == (state == "raised")


def test_a_kernel_that_only_the_interpreter_runs_is_no_kernel_that_does_the_work(recorded: Graded) -> None:
    checks = {check.id: check for check in recorded(f"{HEAD}{GROWING_COUNT}", "global_sum").checks}
    assert checks["global_sum.tail"].status == "pass"
    technique = checks["global_sum.kernels"]
    assert (technique.status, technique.points) == ("compile_error", 0)
    assert technique.cause is not None
    assert technique.cause.title == "The kernel compiles for no GPU"
    assert "Loop-carried variable blocks has initial type" in technique.reason


def test_the_same_with_types_that_stay_is_one(recorded: Graded) -> None:
    text = GROWING_COUNT.replace("tl.full((), 1, tl.int64)", "tl.full((), 1, tl.int32)")
    checks = {check.id: check for check in recorded(f"{HEAD}{text}", "global_sum").checks}
    assert checks["global_sum.kernels"].status == "pass"


@pytest.mark.parametrize("path", files("compiled"), ids=lambda path: path.stem)
def test_what_is_shown_to_the_compiler_does_not_stand_in_for_what_is_judged(
    path: Path, recorded: Graded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(part_compiler, "_CALL_S", 2.0)
    checks = {check.id: check for check in recorded(path.read_text(encoding="utf-8"), "vector_add").checks}
    technique, status = checks["vector_add.kernels"], claim(path)[0]
    # Where a GPU runs other code than was judged, its values earn nothing either.
    assert checks["vector_add.tail"].status == ("policy" if status == "policy" else "pass")
    assert (technique.status, technique.points) == (status, 0)
    assert "add_kernel" in technique.reason


def test_kernels_that_take_the_compiler_long_are_open_and_not_refused(
    recorded: Graded, monkeypatch: pytest.MonkeyPatch
) -> None:
    why = "compiling did not finish within 60 s, at sum_kernel"
    late = CompileOutcome("global_sum", "sm_90", state="late", why=why)
    monkeypatch.setattr(PartCompiler, "check", lambda *_: [late])
    # A text of its own: what the compiler has accepted once is not read again.
    text = GROWING_COUNT.replace("tl.full((), 1, tl.int64)", "tl.full((), 1, tl.int32)") + "# It takes long.\n"
    checks = {check.id: check for check in recorded(f"{HEAD}{text}", "global_sum").checks}
    technique = checks["global_sum.kernels"]
    assert (technique.status, technique.points, technique.cause) == ("inconclusive", 0, None)
    assert technique.reason.endswith("for sm_90 compiling did not finish within 60 s, at sum_kernel")
    assert checks["global_sum.tail"].status == "pass"


def test_the_verdict_on_judged_kernels_is_stored_where_they_are_accepted(
    recorded: Graded, ex_15: Entry, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = GROWING_COUNT.replace("tl.full((), 1, tl.int64)", "tl.full((), 1, tl.int32)")
    first = recorded(f"{HEAD}{text}", "global_sum")
    monkeypatch.setattr(PartCompiler, "check", lambda *_: pytest.fail("there is nothing left to check"))
    assert recorded(f"{HEAD}{text}", "global_sum").score == first.score > 0


@pytest.mark.parametrize("state", ["late", "unrecorded", "not_asked", "grader_error"])
def test_what_is_not_the_submissions_fault_leaves_a_part_that_must_compile_open(state: CompileState) -> None:
    ruling = compiles([CompileOutcome("gemm", "sm_90", state=state, why="no process")], Compiles((90,)))
    assert (ruling.failure, ruling.undecided) == (None, "sm_90: no process")


def test_a_kernel_that_did_not_compile_in_time_costs_a_part_that_must_compile_nothing(
    compiler: ForkServer, ex_15: Entry, part: Part
) -> None:
    endless = COPY + "    for _ in tl.static_range(1 << 30):\n        tl.store(y_ptr, 0.0)\n"
    start = Start("ex.py", HEAD + endless + ADD, ex_15.source("inputs.py"), (part.name,))
    with PartCompiler(lambda: ProcessSpec(compiler, start, Limits()), [part], limit_s=1.0) as compiling:
        compiling.run()
    ruling = compiles(compiling.outcomes(part.name), Compiles((80, 90)))
    assert (ruling.failure, ruling.undecided) == (
        None,
        "sm_80: compiling did not finish within 1 s, at copy_kernel, line 5",
    )


@pytest.mark.parametrize(
    ("answer", "state"),
    [
        (Raised("raised", "not_implemented", "NotImplementedError", "", ()), "not_implemented"),
        (Raised("raised", "invalid_submission", "SyntaxError", "", ()), "unloadable"),
        (Raised("raised", "crash", "ValueError", "no", ()), "raised"),
        (Raised("raised", "crash", UNRECORDABLE, "no", ()), "unrecorded"),
        (Garbled("no"), "raised"),
        (TimedOut(60.0), "late"),
        (CompiledTooLong("kernel", 60.0, False), "late"),
        (Died("was killed by SIGABRT"), "gave_up"),
        (OutOfMemory(1 << 30, 2 << 30), "gave_up"),
        (OutOfSpace(1 << 30), "gave_up"),
    ],
    ids=lambda one: type(one).__name__,
)
def test_every_answer_of_a_process_has_a_state(answer: Any, state: CompileState) -> None:
    assert state_of(answer) == state


def test_kernels_that_multiply_float16_as_bfloat16_fail_and_tf32_holds_both() -> None:
    def ruling(dtype: str, *dots: str) -> Ruling:
        kernel: Any = SimpleNamespace(
            target="sm_90", kernel="k", findings=(), registers=1, shared_bytes=0, tensor_cores={"mma": 1}, dots=dots
        )
        return compiles([CompileOutcome("gemm", "sm_90", (kernel,), dtype=dtype)], Compiles((90,), tensor_cores=True))

    for dtype, dots in (("float16", ("bfloat16",)), ("bfloat16", ("float16",))):
        failure = ruling(dtype, *dots).failure
        assert failure is not None
        assert failure.cause.kind == "other_products"
        assert failure.cause.rationale == (
            f"For sm_90, in the call with dtype={dtype}, every tensor-core instruction takes {dots[0]}."
        )
    for dtype, dots in (
        ("float16", ("float16",)),
        ("float16", ("bfloat16", "float16")),
        ("float16", ()),
        ("", ("s8",)),
    ):
        assert ruling(dtype, *dots).failure is None
    assert ruling("bfloat16", "float32 (tf32)").failure is None


def test_a_compilers_message_is_said_in_the_learners_words_too() -> None:
    text = "does not compile: AssertionError: Input shapes should have M >= 1, N >= 1 and K >= 16."
    error = SimpleNamespace(kind="compile_error", line=3, text=text)
    kernel: Any = SimpleNamespace(target="sm_90", kernel="k", line=1, findings=(error,), configurations=0)
    nowhere = compiles_nowhere([CompileOutcome("part", "sm_90", (kernel,))])
    assert nowhere is not None
    assert "Take larger blocks and mask what is too much" in nowhere.cause.help


def test_what_is_not_known_yet_of_some_gpu_costs_nothing() -> None:
    error = SimpleNamespace(kind="compile_error", line=3, text="does not compile: x")
    kernel: Any = SimpleNamespace(target="sm_90", kernel="k", line=1, findings=(error,), configurations=0)
    broken = CompileOutcome("part", "sm_90", (kernel,))
    assert compiles_nowhere([broken, broken]) is not None
    assert compiles_nowhere([broken, CompileOutcome("part", "sm_80", state="late", why="not compiled in time")]) is None
    assert compiles_nowhere([]) is None


def test_a_kernel_that_fits_on_no_gpu_fails_unless_an_autotuner_passes_over_it() -> None:
    large = SimpleNamespace(
        kind="shared_memory", line=3, text="uses 480 KiB of shared memory where a program has 227 KiB"
    )

    def compiled(target: str, *findings: SimpleNamespace, configurations: int = 0) -> CompileOutcome:
        kernel: Any = SimpleNamespace(
            target=target, kernel="k", line=1, findings=findings, configurations=configurations, case=""
        )
        return CompileOutcome("part", target, (kernel,))

    nowhere = compiles_nowhere([compiled("sm_80", large), compiled("sm_90", large)])
    assert nowhere is not None
    assert (nowhere.status, nowhere.cause.title) == ("fail", "The kernel fits on no GPU")
    assert compiles_nowhere([compiled("sm_80", large), compiled("sm_90")]) is None
    assert compiles_nowhere([compiled("sm_80", large, configurations=2)]) is None


# -- what computes beside kernels ------------------------------------------------------------------------------------


def test_work_beside_compiled_kernels_is_told_with_its_line(compiler: ForkServer, ex_15: Entry, part: Part) -> None:
    text = COPY + ADD.replace("return y", "return y.add_(x)")
    asked = replace(part, checks=(*part.checks, replace(part.checks[0], name="compiles", rule=Compiles((90,)))))
    start = Start("ex.py", HEAD + text, ex_15.source("inputs.py"), (part.name,))
    with PartCompiler(lambda: ProcessSpec(compiler, start, Limits()), [asked], for_checks=True) as compiling:
        compiling.run()
    forms = [one.form for one in compiling.judged(part.name, 90, 0.0) if one.form]
    assert [[note.name for note in form.beside] for form in forms] == [["aten.add_"]] * len(telling_cases(asked))
    assert {note.line for form in forms for note in form.beside} == {len((HEAD + text).splitlines())}


def test_kernels_beside_which_something_computes_earn_nothing() -> None:
    entry = resolve(ROOT, "ex_17")[0]
    gemm = entry.exercise.part("gemm")
    assert gemm is not None
    recipe = Recipe("gemm", {"M": 8, "N": 264, "K": 400, "dtype": "float16", "values": "normal"}, 0)
    form = RecordedForm(recipe, (Form("tensor", "float16", (8, 264)),), ("",), (), ())
    fine = CompileOutcome("gemm", "sm_90", state="recorded", form=form)
    broken = replace(fine, form=replace(form, beside=(TraceNote("aten.mm", 295),)))

    truth = truth_of(entry, on_gpu=False)
    assert decide_compiled([fine], Compiles((90,)), gemm, truth).failure is None
    failure = decide_compiled([broken], Compiles((90,)), gemm, truth).failure
    assert failure is not None
    assert (failure.status, failure.cause.kind) == ("policy", "library_call")
    assert failure.cause.rationale.endswith("these ran beside your kernels: aten.mm (line 295).")
