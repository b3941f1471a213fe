"""The CuTe DSL in a submission's process: its errors in words, its launches, its kernels compiled without a GPU."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from grader.calls import cutedsl
from grader.compile.cute import _dynamic_shared_bytes, on_gpu
from grader.exercise.abilities import WHOLE_CPU
from grader.exercise.plan import draw
from grader.grading import Job, grade
from grader.judge.rules.compiles import COMPILED_ONLY
from grader.record.record import Record
from grader.sandbox.server import ForkServer

pytestmark = pytest.mark.process

ENTRY_FILES = {
    "spec.py": """
from grader import Agrees, Cases, Check, Choice, Compiles, Exercise, Package, Part, Size, Space, Tolerance, UsesKernels

SIZES = Space({"N": Size(1, 40)})
ONE = Cases(SIZES, ({"N": 7},), generated=0)
CUTLASS = (Package("cutlass", "pip install cutlass"), Package("cuda", "pip install cutlass"))
TWICE = Part(
    name="twice", title="Twice", arguments=("x", "y"), outputs=(), mutates=("y",), on="cpu", tensors="cute",
    needs=CUTLASS, tolerance=Tolerance(), hints=("a", "b", "c"),
    checks=(Check("values", "Right", 40, "layouts", Agrees(ONE)),
            Check("means", "By copies", 20, "layouts", UsesKernels(ONE, operations=("cute.make_identity_tensor",)))),
)
ON_GPU = Part(
    name="on_gpu", title="Twice, on a GPU", arguments=("x",), outputs=("y",), on="gpu", needs=CUTLASS,
    tolerance=Tolerance(), hints=("a", "b", "c"),
    checks=(Check("compiles", "Compiles", 20, "kernels", Compiles((80, 90))),
            Check("values", "Right", 10, "kernels", Agrees(ONE))),
)
PLAIN = Part(
    name="plain", title="Twice, in torch", arguments=("x",), outputs=("y",), on="cpu", tolerance=Tolerance(),
    hints=("a", "b", "c"), checks=(Check("values", "Right", 10, "torch", Agrees(ONE)),),
)
EXERCISE = Exercise(title="Twice", version="1", parts=(TWICE, ON_GPU, PLAIN))
""",
    "inputs.py": """
import torch

def plain(case, generator):
    return (torch.randn(case["N"], generator=generator),)

def twice(case, generator):
    return *plain(case, generator), torch.full((case["N"],), torch.nan)

on_gpu = plain
""",
    "oracle.py": """
def twice(x, y):
    return 2 * x

def plain(x):
    return 2 * x

def twice_honest(x, y):
    yield 2 * x

def plain_honest(x):
    yield 2 * x

on_gpu, on_gpu_honest = plain, plain_honest
""",
}
HEAD = """
import cuda.bindings.driver as cuda
import cutlass
import cutlass.cute as cute
import torch
from cutlass.cute.runtime import from_dlpack

def plain(x):
    return x + x

"""
RIGHT = (
    HEAD
    + """
@cute.jit
def twice(x: cute.Tensor, y: cute.Tensor):
    where = cute.make_identity_tensor(x.shape)
    for i in range(cute.size(x)):
        if cute.elem_less(where[i], x.shape):
            y[i] = x[i] * 2.0

@cute.kernel
def kernel(x: cute.Tensor, y: cute.Tensor):
    i, _, _ = cute.arch.thread_idx()
    if i < cute.size(x):
        y[i] = x[i] * 2.0

@cute.jit
def launch(x: cute.Tensor, y: cute.Tensor, stream):
    kernel(x, y).launch(grid=(1, 1, 1), block=(64, 1, 1), stream=stream)

def on_gpu(x):
    y = torch.empty_like(x)
    launch(from_dlpack(x), from_dlpack(y), cuda.CUstream(torch.cuda.current_stream().cuda_stream))
    return y
"""
)


def graded(server: ForkServer, folder: Path, source: str, *parts: str) -> Record:
    from grader.exercise.catalogue import Entry

    place = folder / "reference" / "ex_92_twice"
    place.mkdir(parents=True)
    for name, text in ENTRY_FILES.items():
        (place / name).write_text(text)
    entry = Entry(folder, "ex_92_twice")
    plan = draw(entry.exercise, 1, WHOLE_CPU, parts=frozenset(parts) or None)
    return grade(Job(entry, "x.py", source, plan, "", "", shrink=False, patience_s=60), server)


def statuses(record: Record) -> dict[str, str]:
    return {check.id: check.status for check in record.checks}


@pytest.fixture
def _installed() -> None:
    pytest.importorskip("cutlass")


installed = pytest.mark.usefixtures("_installed")


CALL = """    launch(from_dlpack(x), from_dlpack(y), cuda.CUstream(torch.cuda.current_stream().cuda_stream))
    return y
"""


def compiles_with(body: str, server: ForkServer, folder: Path) -> Any:
    """Return the check on compiled kernels of a submission whose launch code is this."""
    source = RIGHT[: RIGHT.index("def on_gpu(x):")] + f"def on_gpu(x):\n{body}"
    (check,) = (one for one in graded(server, folder, source, "on_gpu").checks if one.id == "on_gpu.compiles")
    return check


@installed
@pytest.mark.parametrize(
    "body",
    [
        "    x = x.clone()\n    y = torch.empty_like(x)\n" + CALL,
        "    padded = torch.zeros(64)\n    padded[: x.numel()].copy_(x)\n    x = padded[: x.numel()]\n"
        "    y = torch.empty_like(x)\n" + CALL,
        "    y = torch.empty_like(x)\n" + CALL.replace("return y", "return y.to(torch.float16).to(x.dtype)"),
        "    y = torch.empty_like(x)\n"
        + CALL.replace("return y", "z = torch.empty_like(x)\n    z.copy_(y)\n    return z"),
    ],
    ids=["copies its input", "copies into a window", "casts its result", "copies its result"],
)
def test_launch_code_that_copies_and_casts_compiles(body: str, server: ForkServer, tmp_path: Path) -> None:
    check = compiles_with(body, server, tmp_path)
    assert check.status == "pass", check.cause
    assert check.notes == (COMPILED_ONLY,)


@installed
def test_launch_code_may_ask_the_dsl_about_the_gpu_where_there_is_none(server: ForkServer, tmp_path: Path) -> None:
    asks = """    about = cutlass.utils.HardwareInfo()
    assert about.get_max_active_clusters(2) == about.get_device_multiprocessor_count() // 2 > 0
    assert about.get_l2_cache_size_in_bytes() > 1 << 20
    y = torch.empty_like(x)
"""
    check = compiles_with(asks + CALL, server, tmp_path)
    assert check.status == "pass", check.cause


@installed
@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without NVIDIA's driver")
def test_launch_code_that_asks_the_driver_is_not_judged_where_there_is_none(server: ForkServer, tmp_path: Path) -> None:
    check = compiles_with("    cuda.cuInit(0)\n    y = torch.empty_like(x)\n" + CALL, server, tmp_path)
    assert check.status == "inconclusive"
    assert "asks NVIDIA's driver, which is not installed here (line " in check.reason


@installed
@pytest.mark.parametrize(
    ("body", "kind", "words"),
    [
        ("    y = torch.empty_like(x)\n" + CALL.replace("return y", "return x"), "alias", "returns memory of `x`"),
        (
            "    y = torch.empty_like(x)\n" + CALL.replace("return y", "return y[:1]"),
            "wrong_shape",
            "the shape of y must be [7], got [1]",
        ),
        (
            "    y = torch.empty_like(x)\n" + CALL.replace("return y", "return y.to(torch.float16)"),
            "wrong_dtype",
            "the dtype of y must be float32, got float16",
        ),
        (
            "    y = torch.empty_like(x)\n" + CALL.replace("return y", "return y, y"),
            "wrong_count",
            "number of outputs must be 1 (y), got 2",
        ),
        (
            "    y = torch.empty_like(x)\n" + CALL.replace("from_dlpack(x)", "from_dlpack(y)"),
            "input_unread",
            "no launch gets `x`",
        ),
        (
            "    y = torch.empty_like(x)\n" + CALL.replace("return y", "return torch.empty_like(x)"),
            "result_unwritten",
            "memory that no launch gets",
        ),
    ],
    ids=["an argument", "another shape", "another dtype", "two", "input unread", "result unwritten"],
)
def test_a_compiled_call_that_cannot_keep_its_contract_fails(
    body: str, kind: str, words: str, server: ForkServer, tmp_path: Path
) -> None:
    check = compiles_with(body, server, tmp_path)
    assert (check.status, check.points, check.cause and check.cause.kind) == ("fail", 0, kind), check.reason
    assert words in check.cause.rationale
    assert "in the call with N=7" in check.cause.rationale


@installed
def test_a_right_submission_is_run_on_the_cpu_and_compiled_for_the_gpus(server: ForkServer, tmp_path: Path) -> None:
    record = graded(server, tmp_path, RIGHT)
    assert statuses(record) == {
        "twice.values": "pass",
        "twice.means": "pass",
        "on_gpu.compiles": "pass",
        "on_gpu.values": "skipped_environment",
        "plain.values": "pass",
    }
    kernels = {kernel.target: kernel for part in record.parts for kernel in part.kernels}
    assert 0 < kernels["sm_80"].registers < 64
    assert kernels["sm_90"].shared_bytes == 0


BODIES = {
    "a type that changes": ("total = 0\n    for i in range(4):\n        total = total + x[i]", "same type", 14),
    "a coordinate of too high rank": ("tile = cute.local_tile(x, (4,), (0, 0))", "coordinate", 13),
    "an invalid store": ("y[0, 0, 0] = 1.0", "weakly congruent", 13),
    "an early exit": ("for i in range(3):\n        if x[i] > 0:\n            return", "return", 15),
}


@installed
@pytest.mark.parametrize("body", BODIES)
def test_what_the_dsl_refuses_is_a_compile_error_with_the_learners_line(
    server: ForkServer, tmp_path: Path, body: str
) -> None:
    text, said, line = BODIES[body]
    source = f"{HEAD}@cute.jit\ndef twice(x: cute.Tensor, y: cute.Tensor):\n    {text}\n"
    check = graded(server, tmp_path, source, "twice").checks[0]
    assert check.status == "compile_error"
    assert said in check.reason
    assert f"(line {line})" in check.reason
    assert "\x1b" not in check.reason


@installed
def test_a_compiled_function_may_be_kept_and_called_again(server: ForkServer, tmp_path: Path) -> None:
    source = RIGHT.replace("@cute.jit\ndef twice(", "@cute.jit\ndef doubled(") + (
        "\nkept = {}\n\n"
        "def twice(x, y):\n"
        "    if x.shape not in kept:\n"
        "        kept[x.shape] = cute.compile(doubled, x, y)\n"
        "    kept[x.shape](x, y)\n"
    )
    assert statuses(graded(server, tmp_path, source, "twice")) == {"twice.values": "pass", "twice.means": "pass"}


@installed
def test_options_of_the_compiler_leave_the_check_open_and_say_what_to_write(server: ForkServer, tmp_path: Path) -> None:
    source = RIGHT.replace("@cute.jit\ndef twice(", "@cute.jit\ndef doubled(") + (
        "\ndef twice(x, y):\n    cute.compile(doubled, x, y, options='--opt-level 1')(x, y)\n"
    )
    check = graded(server, tmp_path, source, "twice").checks[0]
    assert check.status == "inconclusive"
    assert "leave them out" in check.reason


@installed
def test_a_print_with_a_format_of_cs_leaves_the_check_open(server: ForkServer, tmp_path: Path) -> None:
    source = RIGHT.replace("    where = cute", '    cute.printf("%f", x[0])\n    where = cute')
    check = graded(server, tmp_path, source, "twice").checks[0]
    assert check.status == "inconclusive"
    assert "must hold {} and no %" in check.reason


@installed
def test_a_print_does_no_harm(server: ForkServer, tmp_path: Path) -> None:
    source = RIGHT.replace("    where = cute", '    cute.printf("{}", x[0])\n    where = cute')
    assert statuses(graded(server, tmp_path, source, "twice"))["twice.values"] == "pass"


@installed
def test_torch_behind_the_tensors_is_no_compiled_function(server: ForkServer, tmp_path: Path) -> None:
    source = (
        f"{HEAD}def twice(x, y):\n    torch.from_dlpack(y._dlpack_data).copy_(torch.from_dlpack(x._dlpack_data) * 2)\n"
    )
    assert statuses(graded(server, tmp_path, source, "twice"))["twice.means"] == "policy"


@installed
def test_an_answer_without_the_operations_that_are_asked_for_breaks_a_rule(server: ForkServer, tmp_path: Path) -> None:
    source = RIGHT.replace("cute.make_identity_tensor(x.shape)", "y").replace(
        "cute.elem_less(where[i], x.shape)", "i < 40"
    )
    assert statuses(graded(server, tmp_path, source, "twice")) == {"twice.values": "pass", "twice.means": "policy"}


@installed
def test_launch_code_may_use_streams_and_events_of_its_own(server: ForkServer, tmp_path: Path) -> None:
    streams = RIGHT.replace(
        "def on_gpu(x):\n",
        "def on_gpu(x):\n"
        "    mine, ready = torch.cuda.Stream(), torch.cuda.Event(enable_timing=True)\n"
        "    ready.record(torch.cuda.default_stream())\n"
        "    mine.wait_event(ready)\n"
        "    with torch.cuda.stream(mine), torch.cuda.device_of(x):\n"
        "        assert min(torch.cuda.mem_get_info()) > 0\n",
    )
    assert graded(server, tmp_path, streams, "on_gpu").checks[0].status == "pass"


@installed
def test_a_kernel_that_does_not_compile_says_so_with_its_line(server: ForkServer, tmp_path: Path) -> None:
    source = RIGHT.replace(
        "        y[i] = x[i] * 2.0\n\n@cute.jit\ndef launch", "        y[i, 0] = x[i]\n\n@cute.jit\ndef launch"
    )
    check = graded(server, tmp_path, source, "on_gpu").checks[0]
    assert check.status == "compile_error"
    assert "line" in check.reason


@installed
def test_nothing_launched_is_nothing_to_look_at(server: ForkServer, tmp_path: Path) -> None:
    check = graded(server, tmp_path, f"{HEAD}def on_gpu(x):\n    return x + x\n", "on_gpu").checks[0]
    assert check.status == "compile_error"


# -- without the package ---------------------------------------------------------------------------------------------


@pytest.fixture
def _nothing() -> Iterator[None]:
    before = list(sys.meta_path), set(sys.modules)
    yield
    sys.meta_path[:] = before[0]
    for name in set(sys.modules) - before[1]:
        del sys.modules[name]


@pytest.mark.usefixtures("_nothing")
def test_a_missing_package_stands_for_nothing_so_that_the_file_loads() -> None:
    cutedsl.stand_in_for_missing(("no_such_dsl",))
    found: dict[str, object] = {}
    exec(
        "import no_such_dsl.deep as deep\n"
        "from no_such_dsl.deep.down import thing\n"
        "class Kind(deep.Base): pass\n"
        "@deep.jit\n"
        "def f(x: deep.Tensor, y: deep.Constexpr[int] = thing(3, a=4)):\n"
        "    return 5\n",
        found,
    )
    assert found["f"](1) == 5  # type: ignore[operator]


def test_a_part_whose_package_is_missing_is_not_run_and_says_what_mends_it(
    server: ForkServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in ENTRY_FILES.items():
        monkeypatch.setitem(
            ENTRY_FILES, name, text.replace('"cutlass"', '"no_such_dsl"').replace('"cuda"', '"no_such_driver"')
        )
    record = graded(
        server, tmp_path, RIGHT.replace("cutlass", "no_such_dsl").replace("import cuda.", "import no_such_driver.")
    )
    assert statuses(record)["twice.values"] == "skipped_environment"
    assert statuses(record)["plain.values"] == "pass"
    assert record.checks[0].reason == "no_such_dsl is not installed: pip install cutlass"
    assert (record.verdict, record.score, record.judged_score) == ("skipped_environment", 10, 10)


@installed
def test_packages_find_a_temporary_folder_wherever_the_grader_keeps_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    server = ForkServer("compile")
    try:
        assert graded(server, tmp_path / "exercises", RIGHT, "plain").checks[0].status == "pass"
    finally:
        server.close()


# -- details ---------------------------------------------------------------------------------------------------------


def test_a_capsule_can_say_that_its_memory_is_a_gpus() -> None:
    import ctypes

    capsule = on_gpu(torch.zeros(3).__dlpack__())
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    address = pointer(capsule, b"dltensor")
    assert ctypes.c_int32.from_address(address + 8).value == 2


def test_the_shared_memory_of_a_launch_is_read_from_the_host_code() -> None:
    config = "!llvm.ptr, !llvm.struct<(array<3 x i32>, array<3 x i32>, i64, ptr, ptr, i32)>"
    code = (
        "%8 = llvm.mlir.constant(65536 : i64) : i64\n"
        f"%35 = llvm.getelementptr %29[0, 2] : (!llvm.ptr) -> {config}\n"
        "llvm.store %8, %35 : i64, !llvm.ptr\n"
    )
    assert _dynamic_shared_bytes(code) == 65536
    assert _dynamic_shared_bytes("nothing") == 0
