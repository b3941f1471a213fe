"""What ptxas, PTX and Triton's intermediate texts say, as numbers; and nothing where they say nothing."""

from __future__ import annotations

import pytest

from grader.compile import assembly
from grader.compile.assembly import (
    Instructions,
    LocalArrays,
    dots,
    instructions,
    local_arrays,
    local_bytes,
    narrow,
    products,
    registers_left,
    resources,
    source_line,
)
from grader.protocol.answers import Narrow

LOG = """ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'k' for 'sm_90a'
ptxas info    : Function properties for k
    1024 bytes stack frame, 1560 bytes spill stores, 1124 bytes spill loads
ptxas info    : (C7511) Potential Performance Loss: wgmma.mma_async instructions are serialized due to x
ptxas info    : Used 255 registers, used 1 barriers, 1024 bytes cumulative stack size
ptxas info    : Compile time = 607.171 ms
"""
PATH = "/tmp/a b/ex.py"
PTX = """
.version 8.7
.target sm_90a
.visible .entry k(
\t.param .u64 .ptr .global .align 1 k_param_0
)
.reqntid 128
.maxnreg 96
{
\t.file\t1 "/tmp/a b" "ex.py"
\t.file\t2 "/lib/standard.py"
\t.loc\t1 12 16                         // ex.py:12:16
\t// begin inline asm
\tmov.u32 %r1, %r2;
\t@%p1 ld.global.v4.b32 { %r1, %r2, %r3, %r4 }, [ %rd1 + 0 ];
\t// end inline asm
\tld.param.b32 \t%r31, [k_param_0];
\tld.shared.v4.b32 {%r1, %r2, %r3, %r4}, [%r5];
\t.loc\t1 13 20
\t@%p9 ld.global.L1::evict_last.b16 { %rs1 }, [ %rd89 + 0 ];
\t@%p9 ld.global.b16 { %rs1 }, [ %rd89 + 2 ];
\tld.global.v2.f64 { %fd1, %fd2 }, [ %rd1 + 0 ];
\tcp.async.cg.shared.global [ %r29 + 0 ], [ %rd10 + 0 ], 0x10, %r30;
\tcp.async.ca.shared.global [ %r29 + 0 ], [ %rd10 + 0 ], 4;
\tcp.async.commit_group;
\tcp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes [%r1], [%rd1, {%r2, %r3}], [%r4];
\tcp.async.bulk.commit_group;
\t.loc\t2 43 17                         // standard.py:43:17 @[ ex.py:14:3 ]
\t@%p1 st.global.v4.b32 [ %rd1 + 0 ], { %r1, %r2, %r3, %r4 };
\tred.global.add.f32 [%rd1], %f1;
\tmma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1}, {%r1}, {%r2}, {%f1};
\twgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16 {%f1}, %rd1, %rd2, %p1, 1, 1, 0, 0;
\twgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16 {%f1}, %rd1, %rd2, %p1, 1, 1, 0, 0;
\twgmma.wait_group.sync.aligned 0;
\t@%p1 tcgen05.mma.cta_group::1.kind::f16 [%r1], %rd1, %rd2, %r2, %p1;
}
"""


def test_ptxas_log_gives_registers_spills_stack_and_remarks() -> None:
    found = resources(LOG)
    assert (found.registers, found.stack_bytes) == (255, 1024)
    assert (found.spill_store_bytes, found.spill_load_bytes) == (1560, 1124)
    assert found.remarks == ("C7511: wgmma.mma_async instructions are serialized due to x",)


def test_spills_of_the_functions_that_a_kernel_calls_count_as_well() -> None:
    other = "    16 bytes stack frame, 40 bytes spill stores, 4 bytes spill loads\n"
    found = resources(LOG + other)
    assert (found.stack_bytes, found.spill_store_bytes, found.spill_load_bytes) == (1024, 1600, 1128)


@pytest.mark.parametrize("log", ["", "ptxas fatal   : out of memory", "Used many registers"])
def test_a_log_that_says_nothing_gives_zeros(log: str) -> None:
    assert resources(log) == assembly.Resources(0, 0, 0, 0, ())


def test_instructions_are_counted_by_name_and_by_bytes() -> None:
    found = instructions(PTX, PATH)
    assert (found.threads, found.most_registers) == (128, 96)
    assert found.tensor_cores == {"mma.sync": 1, "wgmma.mma_async": 2, "tcgen05.mma": 1}
    assert found.copies == {"cp.async": 2, "cp.async.bulk.tensor": 1}
    assert found.loads == {16: 3, 2: 2, 4: 1}
    assert found.stores == {16: 1}


def test_accesses_are_counted_for_the_submission_s_lines_only() -> None:
    found = instructions(PTX, PATH)
    assert found.by_place == {(12, "load"): {16: 1}, (13, "load"): {2: 2, 16: 2, 4: 1}}
    assert instructions(PTX, "/tmp/other.py").by_place == {}


def test_a_text_without_instructions_has_none() -> None:
    assert instructions("", PATH) == assembly.Instructions()


def test_a_line_of_ptx_leads_to_a_line_of_the_submission() -> None:
    lines = PTX.splitlines()
    number = next(i for i, line in enumerate(lines, 1) if "evict_last" in line)
    inlined = next(i for i, line in enumerate(lines, 1) if "st.global" in line)
    assert [source_line(PTX, line, PATH) for line in (number, inlined, 1)] == [13, 0, 0]


@pytest.mark.parametrize(
    ("ttir", "kinds"),
    [
        ("%1 = tt.dot %a, %b, %c : tensor<64x32xf16> * tensor<32x64xf16> -> tensor<64x64xf32>", ("float16",)),
        ("%1 = tt.dot %a, %b, %c : tensor<64x32xf32> * tensor<32x64xf32> -> x", ("float32 (ieee)",)),
        ("%1 = tt.dot %a, %b, %c, inputPrecision = tf32 : tensor<64x32xf32> * t", ("float32 (tf32)",)),
        ("%1 = tt.dot %a, %b, %c, inputPrecision = tf32 : tensor<64x32xbf16> * t", ("bfloat16",)),
        ("%1 = tt.dot %a, %b : tensor<64x32xf64> * t\n%2 = tt.dot %a, %b : tensor<4x4xi8> * t", ("float64", "i8")),
        ("%1 = tt.dot_scaled %a scale %s, %b lhs = e4m3 : tensor<128x64xf8E4M3FN>, t", ("float8",)),
        ("%1 = tt.load %dot : tensor<64x!tt.ptr<f32>>", ()),
    ],
)
def test_what_tl_dot_multiplies(ttir: str, kinds: tuple[str, ...]) -> None:
    assert dots(ttir) == kinds


def test_narrow_accesses_are_those_of_tiles_that_give_each_thread_more() -> None:
    ttgir = f"""#loc = loc("{PATH}":10:0)
    %1 = tt.load %p, %m : tensor<1024x!tt.ptr<f32>, #blocked> loc(#loc2)
    %2 = tt.load %p, %m : tensor<128x32x!tt.ptr<f16>, #blocked> loc(#loc3)
    %3 = tt.load %p : !tt.ptr<f32> loc(#loc3)
    tt.store %p, %1 : tensor<1024x!tt.ptr<f32>, #blocked> loc(#loc4)
#loc2 = loc("{PATH}":12:16)
#loc3 = loc("x"(#loc5))
#loc4 = loc("/lib/standard.py":14:3)
#loc5 = loc(callsite(#loc6 at #loc4))
#loc6 = loc("{PATH}":13:20)
"""
    counted = instructions(PTX.replace("ld.global.v2.f64", "ld.global.b16"), PATH)
    assert narrow(ttgir, counted, PATH, 4) == (Narrow(13, "load", 2, 16),)


@pytest.mark.parametrize(
    ("shape", "element", "possible"),
    [("1024", "f32", 16), ("512", "f32", 16), ("256", "f32", 8), ("128", "f32", 0), ("8x8x8x8x8", "i8", 8)],
)
def test_a_thread_cannot_load_more_at_a_time_than_its_share_or_an_axis_has(
    shape: str, element: str, possible: int
) -> None:
    ttgir = f'%1 = tt.load %p : tensor<{shape}x!tt.ptr<{element}>, #b> loc(#loc2)\n#loc2 = loc("{PATH}":13:16)\n'
    ptx = f'.file 1 "{PATH}"\n.loc 1 13 2\n ld.global.b{element[1:]} {{ %r1 }}, [ %rd1 ];\n'
    itemsize = int(element[1:]) // 8
    expected = (Narrow(13, "load", itemsize, possible),) if possible else ()
    assert narrow(ttgir, instructions(ptx, PATH), PATH, 4) == expected


def test_locations_that_lead_in_a_circle_lead_nowhere() -> None:
    ttgir = "%1 = tt.load %p : tensor<1024x!tt.ptr<f32>, #b> loc(#loc2)\n#loc2 = loc(#loc3)\n#loc3 = loc(#loc2)\n"
    assert narrow(ttgir, instructions(PTX, PATH), PATH, 4) == ()


def test_the_types_that_tensor_cores_multiply_are_those_of_the_left_operands() -> None:
    mixed = """
\tmma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f1}, {%r1}, {%r2}, {%f1};
\tmma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f1}, {%r1}, {%r2}, {%f1};
\tmma.sync.aligned.m16n8k32.row.col.satfinite.s32.s8.s8.s32 {%r1}, {%r1}, {%r2}, {%r1};
"""
    assert products(PTX) == ("float16",)
    assert products(mixed) == ("bfloat16", "float32 (tf32)", "s8")
    assert products("") == ()


# -- arrays in local memory ------------------------------------------------------------------------------------------

IN_TWO_LOOPS = """
	.local .align 8 .b8 	__local_depot0[64];
$L__BB0_1:
	st.local.v2.b32 	[%rd1], {%r1, %r2};
$L__BB0_2:
	mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32
	INSIDE
	@%p1 bra 	$L__BB0_2;
$L__BB0_3:
	ld.local.b32 	%r3, [%rd2];
	@%p2 bra 	$L__BB0_3;
	@%p3 bra 	$L__BB0_1;
	bra.uni 	$L__BB0_4;
$L__BB0_4:
	ret;
"""


def test_local_arrays_are_counted_by_what_loads_and_stores_them() -> None:
    found = local_arrays(IN_TWO_LOOPS)
    assert (found.nbytes, found.stored, found.loaded) == (64, 8, 4)


def test_local_loads_of_an_epilogue_are_no_part_of_a_step_even_in_a_loop_over_tiles() -> None:
    assert local_arrays(IN_TWO_LOOPS).loaded_per_step == 0


def test_local_loads_between_tensor_core_instructions_are() -> None:
    text = IN_TWO_LOOPS.replace("INSIDE", "ld.local.v4.b32 	{%r4, %r5, %r6, %r7}, [%rd2];")
    assert local_arrays(text).loaded_per_step == 16


def test_machine_code_tells_the_bytes_of_an_access_by_its_last_qualifier() -> None:
    code = "LDL R1, [R1+0x4] ; LDL.U16 R2, [R3] ; LDL.LU.64 R4, [R1] ; STL.128 [R1], R8 ; STG.E.64 [R2], R4 ;"
    assert local_bytes(code) == {"load": 4 + 2 + 8, "store": 16}


@pytest.mark.parametrize(
    ("threads", "most", "left"), [(128, 0, 255), (0, 0, 255), (384, 0, 170), (128, 96, 96), (1024, 0, 64)]
)
def test_registers_of_a_thread_are_limited_by_its_block_and_by_the_launch(threads: int, most: int, left: int) -> None:
    assert registers_left(Instructions(threads=threads, most_registers=most)) == left


def test_text_without_arrays_has_none_in_local_memory() -> None:
    assert local_arrays("	mov.b32 	%r1, 0;") == LocalArrays()
