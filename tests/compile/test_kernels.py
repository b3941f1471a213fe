"""Kernels compiled for GPUs that are not there: what the compiler says of them, and what launch code may do.

Ranges and words, never exact numbers of registers: they differ between versions of the compiler.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from grader.compile.findings import described
from grader.compile.values import WithoutValues
from grader.gpus import ARCHITECTURES, USUAL
from grader.protocol.answers import Binary, Compiled, Narrow, Raised
from grader.sandbox.outcome import TimedOut
from grader.sandbox.server import ForkServer
from tests.compiled_kernels import COPY, DOT, LAUNCH_COPY, binaries_of, compiled_in, line_of

pytestmark = pytest.mark.process


def only(binaries: tuple[Binary, ...]) -> Binary:
    (binary,) = binaries
    assert not binary.error, binary.error
    return binary


def only_refused(binaries: tuple[Binary, ...]) -> Binary:
    (binary,) = binaries
    assert binary.error
    return binary


def kinds_of(binary: Binary, capability: int = 90) -> list[str]:
    kernel = described(binary, ARCHITECTURES[capability], "")
    assert kernel is not None
    return [finding.kind for finding in kernel.findings]


# -- what the compiler made ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("capability", sorted(ARCHITECTURES))
def test_a_good_copy_has_nothing_against_it_on_any_gpu(compiler: ForkServer, capability: int) -> None:
    text = COPY + LAUNCH_COPY
    binary = only(binaries_of(compiler, text, capability))
    assert (binary.kernel, binary.line) == ("copy_kernel", line_of(text, "def copy_kernel"))
    assert binary.constants == {"BLOCK": 1024}
    assert (binary.num_warps, binary.threads) == (4, 128)
    assert 8 <= binary.registers <= 64
    assert binary.loads.keys() == binary.stores.keys() == {"16"}
    assert binary.tensor_cores == {}
    assert 0 < binary.seconds < 60
    assert kinds_of(binary, capability) == []


@pytest.mark.parametrize(
    ("capability", "instruction"),
    [
        (80, "mma.sync"),
        (86, "mma.sync"),
        (89, "mma.sync"),
        (90, "wgmma.mma_async"),
        (100, "tcgen05.mma"),
        (120, "mma.sync"),
    ],
)
def test_a_dot_runs_on_the_tensor_cores_of_each_gpu(compiler: ForkServer, capability: int, instruction: str) -> None:
    text = f"{DOT}\ndef launch(x):\n    dot_kernel[(1,)](x, 128, 64, 64)\n"
    binary = only(binaries_of(compiler, text, capability, dtype="float16"))
    assert binary.dots == ("float16",)
    assert list(binary.tensor_cores) == [instruction]
    assert binary.tensor_cores[instruction] > 0
    assert binary.copies["cp.async"] > 0
    assert 0 < binary.shared_bytes <= ARCHITECTURES[capability].shared_bytes_per_program
    assert "no_tensor_cores" not in kinds_of(binary, capability)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_before_sm_80_triton_compiles_a_dot_and_uses_no_tensor_core(compiler: ForkServer, dtype: str) -> None:
    text = f"{DOT}\ndef launch(x):\n    dot_kernel[(1,)](x, 32, 32, 32)\n"
    binary = only(binaries_of(compiler, text, 75, dtype=dtype))
    assert (binary.dots, binary.tensor_cores, binary.copies) == ((dtype,), {}, {})
    assert binary.shared_bytes <= ARCHITECTURES[75].shared_bytes_per_program
    assert "no_tensor_cores" in kinds_of(binary, 75)


def test_a_dot_of_exact_float32_runs_on_no_tensor_core(compiler: ForkServer) -> None:
    text = f"{DOT}\ndef launch(x):\n    dot_kernel[(1,)](x, 64, 64, 32)\n"
    binary = only(binaries_of(compiler, text))
    assert (binary.dots, binary.tensor_cores) == (("float32 (ieee)",), {})
    assert kinds_of(binary) == ["no_tensor_cores"]


def test_a_dot_of_tf32_does(compiler: ForkServer) -> None:
    text = f"{DOT}\ndef launch(x):\n    dot_kernel[(1,)](x, 64, 64, 32, 'tf32')\n"
    assert sum(only(binaries_of(compiler, text)).tensor_cores.values()) > 0


def test_a_tile_too_large_for_its_warps_spills_and_serialises_the_tensor_cores(compiler: ForkServer) -> None:
    text = f"{DOT}\ndef launch(x):\n    dot_kernel[(1,)](x, 128, 256, 64, num_warps=4)\n"
    binary = only(binaries_of(compiler, text, dtype="float16"))
    assert binary.registers >= 200
    assert binary.spill_store_bytes > 100
    assert kinds_of(binary) == ["spills", "serialised"]


def test_more_stages_than_shared_memory_holds_will_not_launch(compiler: ForkServer) -> None:
    text = f"{DOT}\ndef launch(x):\n    dot_kernel[(1,)](x, 128, 256, 128, num_warps=8, num_stages=4)\n"
    binary = only(binaries_of(compiler, text, dtype="float16"))
    assert binary.shared_bytes > ARCHITECTURES[90].shared_bytes_per_program
    assert "shared_memory" in kinds_of(binary)


def test_an_address_that_is_not_aligned_is_loaded_element_by_element(compiler: ForkServer) -> None:
    text = COPY + LAUNCH_COPY
    binary = only(binaries_of(compiler, text, offset=1))
    assert binary.narrow == (Narrow(line_of(text, "tl.store"), "load", 4, 16),)
    assert binary.loads.keys() == {"4"}
    assert binary.stores.keys() == {"16"}


def test_a_strided_tile_is_loaded_element_by_element(compiler: ForkServer) -> None:
    text = """
@triton.jit
def strided_kernel(x_ptr, y_ptr, stride, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets * stride)
    tl.store(y_ptr + offsets, x)

def launch(x):
    strided_kernel[(1,)](x, x.new_empty(1024), 7, BLOCK=1024)
"""
    assert only(binaries_of(compiler, text)).narrow == (Narrow(line_of(text, "x = tl.load"), "load", 4, 16),)


def test_kernels_that_do_not_compile_are_told_with_their_line_and_the_others_are_compiled(compiler: ForkServer) -> None:
    text = f"""{COPY}
@triton.jit
def odd_kernel(x_ptr):
    i = tl.arange(0, 100)
    tl.store(x_ptr + i, 0.0)

@triton.jit
def helper(x):
    return x + undefined_name

@triton.jit
def calling_kernel(x_ptr):
    tl.store(x_ptr, helper(tl.load(x_ptr)))

def maker():
    @triton.jit
    def asserting_kernel(x_ptr):
        tl.static_assert(False, "never")
    return asserting_kernel

@triton.jit
def assembling_kernel(x_ptr):
    i = tl.arange(0, 128)
    x = tl.load(x_ptr + i)
    x = tl.inline_asm_elementwise("garbage.f32 $0, $1;", "=f,f", [x], tl.float32, True, 1)
    tl.store(x_ptr + i, x)

def launch(x):
    odd_kernel[(1,)](x)
    odd_kernel[(1,)](x)
    calling_kernel[(1,)](x)
    maker()[(1,)](x)
    assembling_kernel[(1,)](x)
    copy_kernel[(1,)](x, x, 64, BLOCK=1024, num_ctas=2)
    copy_kernel[(1,)](x, x, 64, BLOCK=1024)
"""
    found = binaries_of(compiler, text, 80)
    assert [(one.kernel, one.error_line) for one in found] == [
        ("odd_kernel", line_of(text, "tl.arange(0, 100)")),
        ("calling_kernel", line_of(text, "undefined_name")),
        ("asserting_kernel", line_of(text, "static_assert")),
        ("assembling_kernel", line_of(text, "garbage")),
        ("copy_kernel", 0),
        ("copy_kernel", 0),
    ]
    words = [
        "power of 2",
        "`undefined_name`: no line of the file defines it",
        "never",
        "garbage",
        "num_ctas > 1 requires NVIDIA SM90+",
    ]
    assert all(word in one.error for word, one in zip(words, found, strict=False)), found
    assert not found[-1].error


def test_an_option_of_no_compiler_of_triton_s_is_told_with_the_line_of_the_launch(compiler: ForkServer) -> None:
    text = f"{COPY}\ndef launch(x):\n    copy_kernel[(1,)](x, x, 64, BLOCK=1024, no_option=2)\n"
    answer, _ = compiled_in(compiler, text, 80)
    assert isinstance(answer, Raised)
    assert answer.frames[-1].line == line_of(text, "copy_kernel[(1,)]")
    assert "has no parameter no_option" in answer.message


def test_the_front_end_alone_says_which_kernels_it_refuses(compiler: ForkServer) -> None:
    text = f"""{COPY}
@triton.jit
def odd_kernel(x_ptr):
    tl.store(x_ptr + tl.arange(0, 100), 0.0)

def launch(x):
    copy_kernel[(1,)](x, x, 64, BLOCK=1024)
    odd_kernel[(1,)](x)
"""
    binary = only_refused(binaries_of(compiler, text, until="read"))
    assert (binary.kernel, binary.error_line) == ("odd_kernel", line_of(text, "tl.arange(0, 100)"))


def test_a_kernel_that_does_not_fit_is_known_before_it_is_compiled_to_the_end(compiler: ForkServer) -> None:
    text = f"""{DOT}
def launch(x):
    for K in (32, 128):
        dot_kernel[(1,)](x, M=128, N=256, K=K, num_stages=3, num_warps=8)
"""
    (binary,) = binaries_of(compiler, text, until="fit")
    assert (binary.constants["K"], binary.registers, binary.error) == (128, 0, "")
    assert binary.shared_bytes > USUAL.shared_bytes_per_program


# -- what launch code may do -----------------------------------------------------------------------------------------

TUNED = f"""
@triton.autotune(
    configs=[triton.Config({{"K": k}}, num_stages=stages, num_warps=8) for k, stages in ((256, 4), (64, 3), (32, 3))],
    key=["M"],
)
@triton.heuristics({{"PRECISION": lambda given: "tf32" if given["K"] > 32 else "ieee"}})
{DOT.strip()}

def launch(x):
    for _ in range(2):
        dot_kernel[lambda given: (4096 // given["K"],)](x, M=128, N=128)
"""


def test_of_an_autotuned_kernel_the_first_configuration_that_fits_is_compiled(compiler: ForkServer) -> None:
    binary = only(binaries_of(compiler, TUNED, dtype="float16"))
    assert (binary.constants["K"], binary.configurations) == (64, 3)


def test_or_every_configuration_where_that_is_asked_for(compiler: ForkServer) -> None:
    found = binaries_of(compiler, TUNED, dtype="float16", every=True)
    assert [(one.constants["K"], one.configurations) for one in found] == [(256, 3), (64, 3), (32, 3)]
    assert [kinds_of(one) for one in found] == [["shared_memory"], [], []]
    kernel = described(found[0], ARCHITECTURES[90], "")
    assert kernel is not None
    assert kernel.findings[0].text.endswith("an autotuner passes over it")


@pytest.mark.parametrize(("capability", "bulk"), [(80, False), (90, True)])
def test_tensor_descriptors_of_the_host_and_of_the_device(compiler: ForkServer, capability: int, bulk: bool) -> None:
    text = """
from triton.tools.tensor_descriptor import TensorDescriptor

@triton.jit
def host_kernel(x_desc, y_desc, M: tl.constexpr):
    y_desc.store([tl.program_id(0) * M, 0], x_desc.load([tl.program_id(0) * M, 0]) + 1)

@triton.jit
def device_kernel(x_ptr, y_ptr, m, n, M: tl.constexpr):
    x_desc = tl.make_tensor_descriptor(x_ptr, [m, n], [n, 1], [M, M])
    y_desc = tl.make_tensor_descriptor(y_ptr, [m, n], [n, 1], [M, M])
    y_desc.store([tl.program_id(0) * M, 0], x_desc.load([tl.program_id(0) * M, 0]))

def launch(x):
    x = x.view(256, 256)
    y = torch.empty_like(x)
    host_kernel[(4,)](TensorDescriptor.from_tensor(x, [64, 64]), TensorDescriptor.from_tensor(y, [64, 64]), M=64)
    triton.set_allocator(lambda size, align, stream: torch.empty(size, device="cuda", dtype=torch.int8))
    device_kernel[(4,)](x, y, 256, 256, M=64)
"""
    found = binaries_of(compiler, text, capability)
    assert [one.kernel for one in found] == ["host_kernel", "device_kernel"]
    assert [one.error for one in found] == ["", ""]
    assert all(("cp.async.bulk.tensor" in one.copies) is bulk for one in found)


def test_launch_code_finds_the_gpu_that_it_is_compiled_for(compiler: ForkServer) -> None:
    text = f"""{COPY}
DEVICE = triton.runtime.driver.active.get_active_torch_device()
PROPERTIES = triton.runtime.driver.active.utils.get_device_properties(DEVICE.index)
SMS = torch.cuda.get_device_properties("cuda").multi_processor_count
BLOCK = 512 if torch.cuda.get_device_capability()[0] >= 9 else 1024

def launch(x):
    assert torch.cuda.is_available() and x.is_cuda and x.device == DEVICE and x.device.type == "cuda"
    assert triton.runtime.driver.active.get_current_target().backend == "cuda"
    assert SMS == PROPERTIES["multiprocessor_count"] > 100
    y = torch.zeros(x.shape, device="cuda", dtype=x.dtype)
    z = torch.empty(8, device=x.device).to("cuda").cuda()
    with torch.cuda.device(x.device):
        copy_kernel[(SMS,)](x, y, x.numel(), BLOCK=BLOCK)
    torch.cuda.synchronize()
    return y
"""
    assert [only(binaries_of(compiler, text, one)).constants["BLOCK"] for one in (80, 90)] == [1024, 512]


def test_a_kernel_is_compiled_once_however_it_is_launched(compiler: ForkServer) -> None:
    text = f"""{COPY}
def launch(x):
    kernel = copy_kernel.warmup(x, x, x.numel(), BLOCK=1024, grid=(1,))
    kernel._init_handles()
    assert kernel.n_regs == 64
    kernel[(4, 1, 1)](x, x, x.numel(), 1024)
    copy_kernel[4, 1](x, x, x.numel(), 1024)
    copy_kernel[lambda given: (triton.cdiv(x.numel(), given["BLOCK"]),)](x, x, x.numel(), BLOCK=1024)
    copy_kernel[(4,)](x, x, 7, BLOCK=1024)
"""
    found = binaries_of(compiler, text)
    # A length that is no multiple of 16 makes it another kernel: its mask may cut a piece of 16 bytes.
    assert [list(one.loads) for one in found] == [["16"], ["4"]]


def test_nothing_is_launched(compiler: ForkServer) -> None:
    text = f"""{COPY}
def launch(x):
    y = torch.full_like(x, 3.0)
    copy_kernel[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), BLOCK=1024)
    assert bool((y == 3.0).all())
"""
    only(binaries_of(compiler, text))


def test_an_autotuner_s_own_benchmark_is_not_run(compiler: ForkServer) -> None:
    decorator = '@triton.autotune([triton.Config({"BLOCK": b}) for b in (512, 1024)], ["n"], do_bench=print, '
    text = f"""
{decorator}restore_value=["y_ptr"], prune_configs_by={{"early_config_prune": lambda configs, *_, **__: configs[1:]}})
{COPY.strip()}
def launch(x):
    copy_kernel[(1,)](x, x, x.numel())
"""
    assert only(binaries_of(compiler, text)).constants == {"BLOCK": 1024}


def test_more_kernels_than_are_listed_are_counted(compiler: ForkServer) -> None:
    text = """
@triton.jit
def tiny_kernel(x_ptr, VALUE: tl.constexpr):
    tl.store(x_ptr, VALUE)
def launch(x):
    for value in range(18):
        tiny_kernel[(1,)](x, value + 1000)
"""
    answer, _ = compiled_in(compiler, text)
    assert isinstance(answer, Compiled)
    assert (len(answer.binaries), answer.cut) == (16, 2)


# -- what else may happen --------------------------------------------------------------------------------------------


def test_an_exception_before_any_launch_is_told_with_its_line(compiler: ForkServer) -> None:
    text = "def launch(x):\n    return [][1]\n"
    answer, _ = compiled_in(compiler, text)
    assert isinstance(answer, Raised)
    assert (answer.verdict, answer.kind, answer.frames[-1].line) == ("crash", "IndexError", line_of(text, "[][1]"))


def test_a_stub_is_not_implemented(compiler: ForkServer) -> None:
    answer, _ = compiled_in(compiler, "def launch(x):\n    raise NotImplementedError\n")
    assert isinstance(answer, Raised)
    assert answer.verdict == "not_implemented"


def test_without_a_launch_there_is_nothing(compiler: ForkServer) -> None:
    assert compiled_in(compiler, "def launch(x):\n    return x + x\n")[0] == Compiled("compiled", (), 0, "")


def test_a_compiler_that_does_not_finish_is_told_with_the_kernel(compiler: ForkServer) -> None:
    text = f"""{COPY}
@triton.jit
def endless_kernel(x_ptr):
    for _ in tl.static_range(1 << 30):
        tl.store(x_ptr, 1.0)
def launch(x):
    copy_kernel[(1,)](x, x, 64, BLOCK=1024)
    endless_kernel[(1,)](x)
"""
    answer, announced = compiled_in(compiler, text, limit_s=2.0)
    assert answer == TimedOut(2.0)
    assert announced == f"endless_kernel, line {line_of(text, 'def endless_kernel')}"


def test_launch_code_without_end_is_ended(compiler: ForkServer) -> None:
    answer, announced = compiled_in(compiler, "def launch(x):\n    while True: pass\n", limit_s=1.0)
    assert (answer, announced) == (TimedOut(1.0), "")


def test_a_file_that_does_not_load_is_told(compiler: ForkServer) -> None:
    answer, _ = compiled_in(compiler, "def launch(x:\n")
    assert isinstance(answer, Raised)
    assert answer.verdict == "invalid_submission"


# -- what torch would compute ------------------------------------------------------------------------------------------


class Computed(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes the devices on which something is computed."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.devices: set[str] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if "empty" not in func._schema.name and not func.is_view and func._schema.name != "aten::_to_copy":
            self.devices |= {one.device.type for one in args if isinstance(one, Tensor)}
        return result


@pytest.mark.parametrize(
    "multiply",
    [
        lambda a: a @ a,
        lambda a: torch.einsum("ij,kj->ik", a, a),
        lambda a: torch.nn.functional.linear(a, a, a[0]),
        lambda a: torch.nn.functional.scaled_dot_product_attention(*[a.reshape(1, 4, 16, 64)] * 3),
    ],
)
def test_products_of_torch_are_allocated_and_not_computed(multiply: Callable[[Tensor], Tensor]) -> None:
    a = torch.ones(64, 64, dtype=torch.bfloat16)
    expected = multiply(a)
    with Computed() as computed, WithoutValues():
        result = multiply(a)
    assert computed.devices == {"meta"}
    assert (result.shape, result.dtype, result.device) == (expected.shape, expected.dtype, expected.device)
    with WithoutValues():
        assert torch.equal(a + a, 2 * a)


def test_random_floats_are_allocated_and_not_drawn_and_whole_numbers_are_drawn() -> None:
    generator = torch.Generator().manual_seed(3)
    with WithoutValues():
        drawn = torch.randn((2, 3), generator=generator, dtype=torch.bfloat16)
        places = torch.randperm(100, generator=generator)
    assert torch.equal(drawn, torch.zeros(2, 3, dtype=torch.bfloat16))
    assert torch.equal(places, torch.randperm(100, generator=torch.Generator().manual_seed(3)))


def test_operators_on_large_tensors_touch_no_page_of_them() -> None:
    before = resident_bytes()
    with WithoutValues():
        large = torch.zeros(1 << 28, dtype=torch.float32)
        large.fill_(1.0)
        halves = (large.to(torch.float16) + 1).reshape(1 << 14, -1).t().contiguous()
        few = halves[:2, :4].sum()
    assert (halves.shape, halves.dtype, halves.stride()) == ((1 << 14, 1 << 14), torch.float16, (1 << 14, 1))
    assert few.shape == ()
    assert resident_bytes() - before < 100 << 20


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096
