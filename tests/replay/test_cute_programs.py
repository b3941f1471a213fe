"""Programs of CuTe's, traced in one process and run in another: checked against a list, and compiled to the same."""

from __future__ import annotations

import base64
import ctypes
import hashlib
import importlib.util
import json
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import pytest
import torch

from grader.protocol.trace import CuteProgram
from grader.replay import cute_checking
from grader.replay.cute_arguments import check_types, packed
from grader.replay.cute_programs import prepare, text_of
from grader.replay.memory import Unreplayable
from grader.replay.values import RefusedFunction

# Found and not imported: that takes a second, and every worker collects this file.
pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(importlib.util.find_spec("cutlass") is None, reason="CUTLASS is not installed"),
]

# What tracing writes for a function that does nothing to four numbers.
FUNCTION = """
module attributes {gpu.container_module} {
  func.func @cutlass_f(%x: !cute.memref<f32, generic, "(4):(1)">, %n: i32) -> i32 attributes {llvm.emit_c_interface} {
    BODY
    %zero = arith.constant 0 : i32
    return %zero : i32
  }
}
"""
STORES = """
    %where = cute.make_coord(%n) : (i32) -> !cute.coord<"?">
    %one = arith.constant 1.0 : f32
    cute.memref.store(%x, %where, %one) : (!cute.memref<f32, generic, "(4):(1)">, !cute.coord<"?">, f32) -> ()
"""
KERNEL = """
  gpu.module @kernels {
    cuda.kernel @kernel_f(%n: i32) attributes {gpu.kernel} {
      BODY
      cuda.return
    }
  }
"""


def function(body: str = "", before: str = "") -> str:
    """A program of one function; before: what stands in front of it."""
    return FUNCTION.replace("BODY", body).replace("  func.func", f"{before}\n  func.func", 1)


def with_kernel(body: str = "", kernel: str = "") -> str:
    return function(body, KERNEL.replace("BODY", kernel))


# -- the list --------------------------------------------------------------------------------------------------------


def test_a_program_stores_where_its_arguments_say() -> None:
    x = torch.zeros(4)
    program = prepare("f", function(STORES))
    bound = program.bind([x, 2])
    bound.run()
    assert x.tolist() == [0.0, 0.0, 1.0, 0.0]
    x.zero_()
    bound.run()
    assert x.tolist() == [0.0, 0.0, 1.0, 0.0]
    assert program.operations["cute.memref.store"] == 1


def test_two_programs_that_do_the_same_have_one_digest_whatever_they_are_called() -> None:
    idle = '%tile = cute.make_coord(%n) : (i32) -> !cute.coord<"?">'
    program = prepare("f", function(STORES))
    assert prepare("g", function(idle + STORES).replace("@cutlass_f", "@cutlass_g_8")).digest == program.digest
    assert prepare("f", function(STORES.replace("1.0", "2.0"))).digest != program.digest


POINTER = "%p = cute.inttoptr(%a) : i64 to !cute.ptr<i8, generic>"
HOSTILE: dict[str, tuple[str, str]] = {
    "no MLIR": ("module {", "text that MLIR reads"),
    "an unknown dialect": (function('"os.system"() : () -> ()'), "text that MLIR reads"),
    "data beside the operations": (function() + "{-# external_resources: {} #-}", "must hold no {-#"),
    "a resource": (function("// dense_resource"), "must hold no dense_resource"),
    "places that carry data": (function(STORES.replace("-> ()", '-> () loc("x":1:1)')), "must hold no  loc"),
    "too many brackets": (function("//" + "(" * 300), "at most 256 brackets"),
    "no function": ("module {}", "one function, got 0"),
    "two functions": (
        function(before="func.func @cutlass_g() -> i32 { %z = arith.constant 0 : i32 return %z : i32 }"),
        "one function, got 2",
    ),
    "a declaration": (function(before="llvm.func @system(!llvm.ptr) -> i32"), "functions and kernels, got llvm.func"),
    "a declaration of a function": ("module { func.func private @cutlass_f() -> i32 }", "attributes of the list"),
    "a function that runs first": (
        function(before="llvm.mlir.global_ctors ctors = [], priorities = [], data = []"),
        "functions and kernels, got llvm.mlir.global_ctors",
    ),
    "a linker's option": (function(before='llvm.linker_options ["-lm"]'), "got llvm.linker_options"),
    "a name of the C library": (function().replace("@cutlass_f", "@malloc"), "name must be that of a traced function"),
    "an attribute of the module": (
        function().replace("gpu.container_module", 'llvm.data_layout = "e"'),
        "attributes of the list",
    ),
    "an attribute of the function": (
        function().replace("llvm.emit_c_interface", "llvm.emit_c_interface, llvm.foo"),
        "attributes of the list",
    ),
    "an attribute that a pass may read": (function("%c = arith.constant {llvm.foo} 1 : i32"), "its own attributes"),
    **{
        f"fields of shared memory: {fields}": (
            function(f"%c = arith.constant {{smem.struct_fields = {fields}}} 1 : i32"),
            "fields of shared memory must be names and numbers",
        )
        for fields in (
            '"a:4:0"',
            "[]",
            "[@exit]",
            '["a:4:0", @exit]',
            '["a b:4:0"]',
            '["a:4:0\\0A"]',
            "1 : i32",
            "[[]]",
        )
    },
    "a symbol": (function("%c = arith.constant {a = @exit} 1 : i32"), "must name no symbol"),
    "a text": (function('%c = arith.constant {a = "b"} 1 : i32'), "must hold no text"),
    "a pointer out of a number": (function("%a = arith.constant 64 : i64\n" + POINTER), "got cute.inttoptr"),
    "a pointer of LLVM's": (
        function("%a = llvm.mlir.zero : !llvm.ptr"),
        "a number, a layout or a tensor, got !llvm.ptr",
    ),
    "assembly": (function('llvm.inline_asm "nop", "" : () -> ()'), "got llvm.inline_asm"),
    "a call": (
        function('%a = func.call @cutlass_f(%x, %n) : (!cute.memref<f32, generic, "(4):(1)">, i32) -> i32'),
        "got func.call",
    ),
    "a cast of anything": (
        function("%a = builtin.unrealized_conversion_cast %n : i32 to i64"),
        "got builtin.unrealized_conversion_cast",
    ),
    "an address of a format": (function('cute.print("%n", %n) : i32'), "must hold {} and no %"),
    "memory of its own": (function("%m = memref.alloc() : memref<4xf32>"), "MLIR reads|number, a layout or a tensor"),
    "what only a program of CUDA needs": (
        function('%e = "cuda.profiler.start"() : () -> !cuda.result'),
        "operations of the list, got cuda.profiler.start",
    ),
    "a launch of nothing": (
        function("%c = arith.constant 0 : i64\n%e = cute.kernel_smem_size @f::@g : i64"),
        "MLIR|own",
    ),
    "memory, where kernels are launched": (
        with_kernel(STORES),
        "a function that launches must .*got cute.memref.store",
    ),
    "a stream out of a number": (with_kernel("%s = cuda.cast %n : i32 -> !cuda.stream"), "MLIR reads|make a number"),
    "kernels of another name": (with_kernel().replace("@kernels", "@other"), "must be called kernels"),
    "a target with libraries": (
        with_kernel().replace("@kernels", '@kernels [#nvvm.target<link = ["/lib/x.bc"]>]'),
        "attributes of the list",
    ),
    "an attribute of a kernel": (
        with_kernel().replace("{gpu.kernel}", "{gpu.kernel, llvm.foo}"),
        "attributes of the list",
    ),
    "a kernel of another name": (with_kernel().replace("@kernel_f", "@printf"), "that of a traced function"),
    "a call in a kernel": (
        with_kernel(kernel="%r = func.call @g(%n) : (i32) -> i32").replace(
            "cuda.kernel", "func.func private @g(i32) -> i32\n cuda.kernel"
        ),
        "must hold kernels, got func.func",
    ),
    "a table beside kernels": (
        with_kernel().replace("cuda.kernel", "llvm.mlir.global internal @t(0 : i32) : i32\n cuda.kernel"),
        "must hold kernels, got llvm.mlir.global",
    ),
    "other results": (
        function()
        .replace("-> i32 attr", "-> (i32, i32) attr")
        .replace("return %zero : i32", "return %zero, %zero : i32, i32"),
        "must return its error code",
    ),
    "an argument of its own": (function().replace("%n: i32", "%n: vector<4xf32>"), "a tensor, a number or a stream"),
    "too deep a loop": (
        function("scf.if %t {\n" * 70 + "}" * 70).replace("    scf", "%t = arith.constant true\nscf", 1),
        "at most 64 levels",
    ),
}


@pytest.mark.parametrize(("text", "why"), HOSTILE.values(), ids=HOSTILE.keys())
def test_what_is_not_on_the_list_is_refused_with_a_sentence(text: str, why: str) -> None:
    with pytest.raises(RefusedFunction, match=why):
        prepare("f", text)


def test_a_function_that_launches_computes_layouts_and_a_kernel_may_hold_assembly() -> None:
    kernel = 'llvm.inline_asm has_side_effects "nanosleep.u32 1;", "" : () -> ()'
    layout = '%s = cute.make_shape() : () -> !cute.shape<"(4,4)">'
    program = prepare("f", with_kernel(layout, kernel), "sm_90a")
    assert program.types == ('!cute.memref<f32, generic, "(4):(1)">', "i32")


def test_a_kernel_may_name_the_fields_of_a_struct_in_shared_memory() -> None:
    fields = '%one = arith.constant {smem.struct_fields = ["full_1:64:0", "sA:32768:1024"]} 1 : i32'
    assert prepare("f", with_kernel("", fields), "sm_90a").types[1] == "i32"


class _Operation:
    """Stands for an operation of a lowered program."""

    def __init__(self, name: str, symbol: str = "", body: tuple[_Operation, ...] = (), callee: str = "") -> None:
        self.name, self.operation, self.operations = name, self, body
        self.sym_name = type("Name", (), {"value": symbol})
        self.attributes = {"callee": callee} if callee else {}
        self.body = type("Block", (), {"operations": body})
        self.regions = [type("Region", (), {"blocks": [self.body]})] if body else []


@pytest.mark.parametrize(
    ("inside", "why"),
    [
        (_Operation("llvm.call", callee="@system"), "DSL's runtime, got @system"),
        (_Operation("llvm.call"), "DSL's runtime, got an address"),
        (_Operation("llvm.inline_asm"), "no llvm.inline_asm"),
    ],
    ids=["another function", "a pointer", "assembly"],
)
def test_what_lowering_makes_of_a_function_is_looked_at_once_more(inside: _Operation, why: str) -> None:
    allowed = _Operation("llvm.call", callee="@printf")
    cute_checking.check_lowered(_Operation("module", body=(_Operation("llvm.func", "cutlass_f", (allowed,)),)))
    with pytest.raises(RefusedFunction, match=why):
        cute_checking.check_lowered(_Operation("module", body=(_Operation("llvm.func", "cutlass_f", (inside,)),)))


@pytest.mark.parametrize("symbol", ["system", "dlopen", "mprotect"])
def test_a_lowered_program_declares_nothing_but_the_runtime(symbol: str) -> None:
    with pytest.raises(RefusedFunction, match=f"got {symbol}"):
        cute_checking.check_lowered(_Operation("module", body=(_Operation("llvm.func", symbol),)))


# -- the text on its way ---------------------------------------------------------------------------------------------


def program(text: str, nbytes: int | None = None) -> CuteProgram:
    raw = text.encode()
    data = base64.b64encode(zlib.compress(raw)).decode()
    return CuteProgram("f", len(raw) if nbytes is None else nbytes, data)


@pytest.mark.parametrize(
    ("told", "why"),
    [
        (CuteProgram("f", 4, "no base64!"), "compressed text"),
        (CuteProgram("f", 4, base64.b64encode(b"plain").decode()), "compressed text"),
        (program("module {}", 4), "must hold 4 bytes"),
        (program("x" * (1 << 24), 9), "must hold 9 bytes, got 10"),
        (program("modül {}"), "compressed text"),
    ],
    ids=["no base64", "not compressed", "longer than told", "much longer than told", "not ASCII"],
)
def test_what_is_no_text_of_the_size_that_is_told_is_not_read(told: CuteProgram, why: str) -> None:
    with pytest.raises(Unreplayable, match=why):
        text_of(told)


def test_a_text_comes_back_as_it_was() -> None:
    assert text_of(program(function())) == function()


# -- arguments -------------------------------------------------------------------------------------------------------


def tensors() -> list[Any]:
    """Tensors of CuTe's in every kind of layout, static and open, each with the one that it was made of."""
    from cutlass.cute.runtime import from_dlpack

    plain, deep = torch.randn(17, 24), torch.randn(5, 7, 9)
    column, gap = torch.randn(6).as_strided((6, 1), (1, 6)), torch.randn(9, 12)[:, :8]
    return [
        *((from_dlpack(one), one) for one in (plain, plain.T, deep, column, gap, torch.tensor(3.0))),
        *((from_dlpack(one).mark_layout_dynamic(), one) for one in (plain, plain.T, deep, gap)),
        (from_dlpack(plain, use_32bit_stride=True).mark_layout_dynamic(), plain),
        (from_dlpack(deep).mark_compact_shape_dynamic(mode=1, stride_order=(0, 1, 2), divisibility=7), deep),
        (from_dlpack(deep).mark_compact_shape_dynamic(mode=0, stride_order=(0, 1, 2)), deep),
        (from_dlpack(plain, assumed_align=16).mark_layout_dynamic(leading_dim=1), plain),
        (from_dlpack(torch.ones(4, dtype=torch.bfloat16)), torch.ones(4, dtype=torch.bfloat16)),
    ]


def test_a_tensor_is_described_as_the_dsl_describes_it() -> None:
    from cutlass._mlir import ir

    for tensor, source in tensors():
        with ir.Context(), ir.Location.unknown():
            kind = str(tensor.mlir_type)
        ours = packed(kind, source)
        last = getattr(type(ours.memory), ours.memory._fields_[-1][0])
        size = last.offset + last.size
        theirs = ctypes.string_at(int(tensor.__c_pointers__()[0]), size)
        # The address is the tensor's own.
        assert bytes(ours.memory)[8:size] == theirs[8:], kind
        assert ours.memory.address == source.data_ptr()


F32 = '!cute.memref<f32, generic, "{}">'
UNLIKE: dict[str, tuple[str, object, str]] = {
    "another size": (F32.format("(5):(1)"), torch.ones(4), "the size 5, got 4"),
    "another stride": (F32.format("(4):(2)"), torch.ones(4), "the stride 2, got 1"),
    "another rank": (F32.format("(2,2):(2,1)"), torch.ones(4), "have 2 axes, got 1"),
    "another dtype": (F32.format("(4):(1)"), torch.ones(4, dtype=torch.float16), "elements of f32"),
    "another device": (F32.format("(4):(1)").replace("generic", "gmem"), torch.ones(4), "memory of the kind gmem"),
    "no multiple": (F32.format("(?{div=8}):(1)"), torch.ones(4), "a multiple of 8, got 4"),
    "a number": (F32.format("(4):(1)"), 4, "got a int"),
    "a tensor for a number": ("i32", torch.ones(4), "got a tensor"),
    "a text": ("i32", "4", "got a str"),
}


@pytest.mark.parametrize(("kind", "value", "why"), UNLIKE.values(), ids=UNLIKE.keys())
def test_an_argument_of_another_form_is_refused(kind: str, value: object, why: str) -> None:
    with pytest.raises(RefusedFunction, match=why):
        packed(kind, value)


@pytest.mark.parametrize("kind", ["!llvm.ptr", "!cute.ptr<f32, gmem>", '!cute.memref<f32, smem, "(4):(1)">', "index"])
def test_a_function_takes_tensors_numbers_and_streams_alone(kind: str) -> None:
    with pytest.raises(RefusedFunction, match="a tensor, a number or a stream"):
        check_types([kind])


def test_numbers_are_stored_as_their_types_say() -> None:
    assert bytes(packed("i64", -2).memory) == (-2).to_bytes(8, "little", signed=True)
    assert bytes(packed("f16", 1.5).memory) == b"\x00\x3e"
    assert bytes(packed("bf16", 1.5).memory) == b"\xc0\x3f"
    assert bytes(packed("i1", True).memory) == b"\x01"


# -- from one process to another -------------------------------------------------------------------------------------

SUBMISSION = """
import cutlass
import cutlass.cute as cute
import torch
from cutlass.cute.runtime import from_dlpack

@cute.kernel
def kernel(x: cute.Tensor, y: cute.Tensor, scale: cutlass.Float32):
    i, _, _ = cute.arch.thread_idx()
    if i < cute.size(x):
        y[i] = x[i] * scale

@cute.jit
def launch(x: cute.Tensor, y: cute.Tensor, scale: cutlass.Float32, stream):
    kernel(x, y, scale).launch(grid=(1, 1, 1), block=(64, 1, 1), stream=stream)

@cute.jit
def double(x: cute.Tensor, y: cute.Tensor):
    for i in range(cute.size(x)):
        y[i] = x[i] * 2.0
"""
RECORDS = """
import hashlib, importlib.util, json, sys
import torch
import cuda.bindings.driver as cuda
from grader.compile import cute as cutecompiling, disguise
from grader.gpus import USUAL
from grader.recorder import cute as recorder

class Log:
    is_on = True
    kept = []
    def program(self, program, arguments):
        self.kept.append((program, arguments))
    def note_unrecordable(self, what):
        raise AssertionError(what)

import cutlass
recorder.install(Log())
cutecompiling.trace_for(USUAL)
spec = importlib.util.spec_from_file_location("submission", sys.argv[1])
submission = importlib.util.module_from_spec(spec)
spec.loader.exec_module(submission)
disguise.pretend(USUAL)
with disguise.Disguise():
    x, y = torch.zeros(40, device="cuda"), torch.zeros(40, device="cuda")
    given = submission.from_dlpack(x).mark_layout_dynamic(), submission.from_dlpack(y).mark_layout_dynamic()
    stream = cuda.CUstream(0)
    compiled = submission.cute.compile(submission.launch, *given, submission.cutlass.Float32(2.5), stream)
    assert compiled(*given, submission.cutlass.Float32(2.5), stream) == 0
(program, arguments), = Log.kept
told = ["x" if one is x else "y" if one is y else type(one).__name__ if one is not None else "" for one in arguments]
lowered = str(compiled._traced.compile_function().ir_module)
a, b = torch.ones(4), torch.zeros(4)
submission.double(submission.from_dlpack(a), submission.from_dlpack(b))
assert len(Log.kept) == 2 and not b.any()
Log.is_on = False
submission.double(submission.from_dlpack(a), submission.from_dlpack(b))
assert len(Log.kept) == 2 and b.tolist() == [2.0] * 4
print(json.dumps([program.text, told, arguments[2], hashlib.sha256(lowered.encode()).hexdigest()]))
"""


def test_what_is_recorded_is_not_run_and_a_fresh_process_compiles_its_text_to_the_same_code(tmp_path: Path) -> None:
    path = tmp_path / "submission.py"
    path.write_text(SUBMISSION)
    done = subprocess.run(
        [sys.executable, "-c", RECORDS, str(path)], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    text, told, scale, digest = json.loads(done.stdout.splitlines()[-1])
    assert told == ["x", "y", "float", "Stream"]
    assert scale == 2.5
    found = prepare("launch", text, "sm_90a")
    lowered = str(found.executor.ir_module)
    assert "@kernels_binary" in lowered
    assert hashlib.sha256(lowered.encode()).hexdigest() == digest
