"""What a call did is told as plain data, whatever style its launch code is written in; what computes is told too."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from grader.exercise.catalogue import Entry
from grader.protocol.answers import COMPUTED, NEEDS_GPU, Raised
from grader.recorder.storages import Storages
from grader.report.text.trace_lines import trace_lines
from grader.sandbox.outcome import Finished
from grader.sandbox.server import ForkServer
from tests.recordings import CASE, HEAD, answer_in, recording

STYLES = {
    "a plain launch": "vector_add = added",
    "an operator of its own": """
@torch.library.custom_op("mine::plus", mutates_args=())
def plus(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return added(x, y)

def vector_add(x, y):
    return plus(x, y)
""",
    "an autograd function": """
class Add(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        return added(x, y)

    @staticmethod
    def backward(ctx, grad):
        return grad, grad

def vector_add(x, y):
    return Add.apply(x, y)
""",
    "a launcher that torch compiles": """
@torch.compile(dynamic=True)
def vector_add(x, y):
    return added(x, y)
""",
    "a launcher that is an operator of torch's": """
@torch.library.triton_op("grade_tests::vector_add", mutates_args={})
def operator(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    z = torch.empty_like(x)
    torch.library.wrap_triton(add)[(triton.cdiv(x.numel(), 64),)](x, y, z, x.numel(), BLOCK=64)
    return z

def vector_add(x, y):
    return operator(x, y)
""",
    "a default that is computed": """
limits = torch.finfo(torch.float16)

@triton.jit
def clamped(v, LOW: tl.constexpr = limits.min, HIGH: tl.constexpr = limits.max * 2 - limits.max):
    return tl.clamp(v, LOW, HIGH)

@triton.jit
def kernel(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr = 8 * 8):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    tl.store(z_ptr + offsets, clamped(tl.load(x_ptr + offsets, inside) + tl.load(y_ptr + offsets, inside)), inside)

def vector_add(x, y):
    z = torch.empty_like(x)
    kernel[(triton.cdiv(x.numel(), 64),)](x, y, z, x.numel())
    return z
""",
    "a thread that launches": """
from concurrent.futures import ThreadPoolExecutor

def vector_add(x, y):
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(added, x, y).result()
""",
    "views, a fill and a copy": """
def vector_add(x, y):
    padded = torch.zeros(2, 128, device=x.device)
    padded[0, : x.numel()] = x
    padded[1].narrow(0, 0, y.numel()).copy_(y)
    z = added(padded[0], padded[1])
    return z[: x.numel()].clone()
""",
    "a buffer that grows": """
def vector_add(x, y):
    z = torch.empty(0, device=x.device)
    z.resize_(x.shape)
    add[(2,)](x, y, z, x.numel(), BLOCK=64)
    return z
""",
    "a handle from a warm-up": """
def vector_add(x, y):
    z = torch.empty_like(x)
    kernel = add.warmup(x, y, z, x.numel(), BLOCK=64, grid=(1,))
    kernel._init_handles()
    assert kernel.n_regs > 0 and kernel.metadata.shared >= 0
    kernel[(2, 1, 1)](x, y, z, x.numel())
    return z
""",
    "an autotuner that prunes": """
configs = [triton.Config({"BLOCK": size}) for size in (16, 32, 64)]
tuned = triton.autotune(configs, key=["n"], prune_configs_by={"early_config_prune": lambda c, n, **k: c[1:]})(add)

def vector_add(x, y):
    z = torch.empty_like(x)
    tuned[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, y, z, x.numel())
    return z
""",
    "a kernel made by a function": """
def made(step: int):
    FACTOR = tl.constexpr(step)

    @triton.jit
    def kernel(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
        offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK) * FACTOR
        inside = offsets < n
        tl.store(z_ptr + offsets, tl.load(x_ptr + offsets, inside) + tl.load(y_ptr + offsets, inside), inside)

    return kernel

KERNEL = made(1)

def vector_add(x, y):
    z = torch.empty_like(x)
    KERNEL[(2,)](x, y, z, x.numel(), BLOCK=64)
    return z
""",
    "a kernel of a class that reads the class as a constant": """
class Add:
    @staticmethod
    @triton.jit
    def plus(x, y):
        return x + y

    @staticmethod
    @triton.jit
    def forward(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
        offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        inside = offsets < n
        sums = TOOLS.value.plus(tl.load(x_ptr + offsets, inside), tl.load(y_ptr + offsets, inside))
        tl.store(z_ptr + offsets, sums, inside)

TOOLS = tl.constexpr(Add)

def vector_add(x, y):
    z = torch.empty_like(x)
    Add.forward[(2,)](x, y, z, x.numel(), BLOCK=64)
    return z
""",
    "functions of constants that read what holds them": """
class Tiling:
    BLOCK = 32

    def __init__(self, block):
        self.block = block

    @staticmethod
    @triton.constexpr_function
    def block():
        return Tiling.BLOCK * TABLE["factor"]

Tiling.regular = Tiling(64)
Tiling.again = Tiling
TABLE = {"factor": 2, "block": Tiling.block}
TABLE["again"] = TABLE
block = Tiling.block

@triton.jit
def kernel(x_ptr, y_ptr, z_ptr, n):
    offsets = tl.program_id(0) * block() + tl.arange(0, block())
    inside = offsets < n
    tl.store(z_ptr + offsets, tl.load(x_ptr + offsets, inside) + tl.load(y_ptr + offsets, inside), inside)

def vector_add(x, y):
    z = torch.empty_like(x)
    kernel[(2,)](x, y, z, x.numel())
    return z
""",
    "something for a GPU only": """
def vector_add(x, y):
    assert x.is_cuda and x.device.type == "cuda" and torch.cuda.is_available()
    assert torch.cuda.get_device_properties(x.device).multi_processor_count > 1
    z = torch.empty(x.shape, device="cuda", dtype=x.dtype)
    with torch.cuda.device(x.device):
        add[(2,)](x, y, z, x.numel(), BLOCK=64)
    return z
""",
}


PERSISTENT = """
def vector_add(x, y):
    z = torch.empty_like(x)
    programs = torch.cuda.get_device_properties(x.device).multi_processor_count
    assert programs == triton.runtime.driver.active.utils.get_device_properties(0)["multiprocessor_count"]
    add[(min(programs, triton.cdiv(x.numel(), 64)),)](x, y, z, x.numel(), BLOCK=64)
    return z
"""


def test_a_persistent_kernel_has_more_tiles_than_programs_in_a_small_case(server: ForkServer, ex_15: Entry) -> None:
    with recording(server, ex_15, PERSISTENT, case={**CASE, "N": 64 * 30}) as one:
        assert any("on a grid of [28]" in line for line in trace_lines(one.record().trace))


@pytest.mark.parametrize("source", STYLES.values(), ids=STYLES.keys())
def test_what_is_recorded_on_decoys_is_right_when_it_is_replayed_on_other_inputs(
    source: str, server: ForkServer, ex_15: Entry
) -> None:
    with recording(server, ex_15, source) as one:
        told = one.record()
        assert (told.outside_work, told.unrecordable) == ((), ())
        answer = answer_in(one.replay(told))
        torch.testing.assert_close(answer, one.wanted(), rtol=0, atol=0)


OWN_TUNER = """
class Tuner(triton.KernelInterface):
    def __init__(self, fn, configs):
        self.fn, self.configs, self.cache = fn, configs, {}

    def timed(self, *args, config, **kwargs):
        def call():
            self.fn.run(*args, num_warps=config.num_warps, **config.kwargs, **kwargs)

        return triton.testing.do_bench(call, quantiles=(0.5, 0.2, 0.8))

    def run(self, *args, **kwargs):
        n = args[3]
        if n not in self.cache:
            times = {config: self.timed(*args, config=config, **kwargs) for config in self.configs}
            self.cache[n] = min(times, key=times.get)
        config = self.cache[n]
        return self.fn.run(*args, num_warps=config.num_warps, **config.kwargs, **kwargs)

tuned = Tuner(add, [triton.Config({"BLOCK": size}) for size in (16, 32, 64)])

def vector_add(x, y):
    z = torch.empty_like(x)
    tuned[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, y, z, x.numel())
    return z
"""


def test_what_a_tuner_of_the_submission_s_own_launches_to_time_it_is_not_told(server: ForkServer, ex_15: Entry) -> None:
    with recording(server, ex_15, OWN_TUNER) as one:
        told = one.record()
        launches = [line.strip() for line in trace_lines(told.trace) if "launch" in line]
        assert launches == [f"2. launch add on a grid of [7], 7 programs  (line {one.line_of('return self.fn.run')})"]
        torch.testing.assert_close(answer_in(one.replay(told)), one.wanted(), rtol=0, atol=0)


OUTSIDE_WORK = {
    "aten.add": "def vector_add(x, y):\n    return x + y\n",
    "aten.mul": "@torch.compile\ndef vector_add(x, y):\n    return added(x * 1.0, y)\n",
    "aten._local_scalar_dense": "def vector_add(x, y):\n    x[0].item()\n    return added(x, y)\n",
    "Tensor.tolist": "def vector_add(x, y):\n    x.tolist()\n    return added(x, y)\n",
    "a write to x": """
import ctypes

def vector_add(x, y):
    ctypes.memset(x.data_ptr(), 0, 8)
    return added(x, y)
""",
}


@pytest.mark.parametrize(("note", "source"), OUTSIDE_WORK.items(), ids=OUTSIDE_WORK.keys())
def test_what_computes_beside_kernels_is_named_with_its_line(
    note: str, source: str, server: ForkServer, ex_15: Entry
) -> None:
    with recording(server, ex_15, source) as one:
        (found,) = one.record().outside_work
    assert found.name == note
    assert found.line >= 19 or note.startswith("a write")


SELF_REFERENCES = {
    "a class that holds the kernel": ("Add", "class Add:\n    kernel = staticmethod(kernel)\n"),
    "a class that holds itself": ("Add", "class Add:\n    ONE = 1\nAdd.again, Add.regular = Add, Add()\n"),
    "two classes that hold each other": ("A", "class A:\n    ONE = 1\nclass B:\n    a = A\nA.b = B\n"),
    "a field that cannot be told": ("Add", "class Add:\n    load = staticmethod(kernel)\n"),
    "a dictionary that holds itself": ("TABLE", "TABLE = {'ONE': 1, 'kernel': kernel}\nTABLE['again'] = TABLE\n"),
    "a list that holds itself": ("TABLE", "TABLE = [kernel]\nTABLE.append(TABLE)\n"),
}


@pytest.mark.parametrize(("name", "source"), SELF_REFERENCES.values(), ids=SELF_REFERENCES.keys())
def test_a_kernel_that_reads_what_leads_back_to_it_is_refused_as_by_triton(
    server: ForkServer, ex_15: Entry, name: str, source: str
) -> None:
    reads = {"TABLE": "TABLE[0]"}.get(name, f"{name}.ONE")
    kernel = f"""
@triton.jit
def kernel(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(z_ptr + offsets, tl.load(x_ptr + offsets) + {reads})

{source}

def vector_add(x, y):
    z = torch.empty_like(x)
    kernel[(1,)](x, y, z, x.numel(), BLOCK=64)
    return z
"""
    with recording(server, ex_15, kernel) as one:
        outcome = one.replay(one.record())
        line = one.line_of(reads)
    assert isinstance(outcome, Raised)
    assert (outcome.verdict, outcome.frames[-1].line) == ("compile_error", line)
    assert f"`{name}` is " in outcome.message
    assert "a kernel reads constants alone" in outcome.message


def test_a_kernel_of_another_file_cannot_be_told(server: ForkServer, ex_15: Entry) -> None:
    source = """
space = {}
exec(compile('''
import triton, triton.language as tl
def late(z_ptr):
    tl.store(z_ptr, 1.0)
''', "elsewhere.py", "exec"), space)
late = triton.runtime.interpreter.InterpretedFunction(space["late"])

def vector_add(x, y):
    z = torch.empty_like(x)
    late[(1,)](z)
    return z
"""
    with recording(server, ex_15, source) as one:
        (unrecordable,) = one.record().unrecordable
    copied = "copy the text of the function, and of what it calls, into the file"
    assert unrecordable.name == f"the kernel late of elsewhere.py: {copied}"
    assert unrecordable.line > 20


@pytest.mark.parametrize(
    "arguments", ["x.data_ptr()", "(1, x[5:].data_ptr())", "torch.tensor([1, z.data_ptr()], device=x.device)"]
)
def test_an_address_that_is_passed_as_a_number_is_judged_nowhere_and_costs_nothing(
    server: ForkServer, ex_15: Entry, arguments: str
) -> None:
    source = f"""
@triton.jit
def kernel(address, n, BLOCK: tl.constexpr):
    pass

def vector_add(x, y):
    z = torch.empty_like(x)
    kernel[(1,)]({arguments}, x.numel(), BLOCK=64)
    return z
"""
    with recording(server, ex_15, source) as one:
        recorded = one.record()
        outcome = one.replay(recorded)
        line = one.line_of("kernel[(1,)]")
    assert recorded.unrecordable == ()
    assert isinstance(outcome, Raised)
    assert (outcome.kind, outcome.frames[-1].line) == (NEEDS_GPU, line)
    assert outcome.message == "an address that is passed as a number: give the kernel the tensor"


@pytest.mark.parametrize(
    ("pointer", "is_refused"),
    [
        ("address + at", True),
        (
            "tl.make_block_ptr(base=address, shape=(n,), strides=(1,), offsets=(0,), block_shape=(64,), order=(0,))",
            True,
        ),
        ("address.to(tl.pointer_type(tl.float32)) + at", False),
        ("other + at", False),
    ],
)
def test_an_address_that_an_access_follows_as_it_is_fails_on_every_machine(
    server: ForkServer, ex_15: Entry, pointer: str, *, is_refused: bool
) -> None:
    source = f"""
@triton.jit
def kernel(address, other, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store({pointer}, 1.0, mask=at < n)

def vector_add(x, y):
    z = torch.empty_like(x)
    kernel[(1,)](z.data_ptr(), z, x.numel(), BLOCK=64)
    return z
"""
    with recording(server, ex_15, source) as one:
        outcome = one.replay(one.record())
    assert isinstance(outcome, Raised)
    assert (outcome.kind != NEEDS_GPU) is is_refused
    assert ("`address` gets an address that is passed as a number" in outcome.message) is is_refused


class Pair(tuple[object, ...]):
    def __iter__(self) -> Iterator[object]:
        raise AssertionError("called")


def test_the_search_for_addresses_ends_and_calls_nothing_of_the_submission() -> None:
    endless: list[object] = [1]
    endless.append(endless)
    storages, held = Storages(), torch.zeros(4)
    storages.add(held)
    assert not storages.has_address_in([endless, Pair((2, held))])
    assert storages.has_address_in(Pair((2, held[1:].data_ptr())))


def test_a_cuda_graph_is_refused_with_what_to_write(server: ForkServer, ex_15: Entry) -> None:
    source = """
def vector_add(x, y):
    torch.cuda.CUDAGraph()
"""
    with recording(server, ex_15, source) as one:
        told = one.pair.record(one.call())
    assert isinstance(told, Raised)
    assert told.message.endswith("launch the kernels in every call")


def test_a_call_may_take_thousands_of_views(server: ForkServer, ex_15: Entry) -> None:
    source = """
@triton.jit
def clear(a_ptr, b_ptr, c_ptr, d_ptr, e_ptr):
    tl.store(a_ptr, 0.0)

def vector_add(x, y):
    z = torch.empty(5000, dtype=x.dtype, device=x.device)
    for first in range(0, 4500, 5):
        clear[(1,)](*(z[first + i:] for i in range(5)))
    return z
"""
    with recording(server, ex_15, source) as one:
        assert one.record().unrecordable == ()


def test_a_call_of_too_many_steps_is_told(server: ForkServer, ex_15: Entry) -> None:
    source = """
def vector_add(x, y):
    z, unused = torch.empty_like(x), torch.empty_like(x)
    for _ in range(4092 if x.numel() == 100 else 4093):
        add[(1,)](x, y, z, 1, 16)
    return z
"""
    with recording(server, ex_15, source) as one:
        # The second call counts its own steps alone.
        for length, unrecordable in ((101, ["more than 4096 steps"]), (100, [])):
            assert [each.name for each in one.at(N=length).record().unrecordable] == unrecordable


def test_memory_that_is_freed_between_launches_counts_among_the_steps(server: ForkServer, ex_15: Entry) -> None:
    source = """
def vector_add(x, y):
    for _ in range(1364 if x.numel() == 100 else 1366):
        z = torch.empty_like(x)
        add[(1,)](x, y, z, 1, 16)
    return z
"""
    with recording(server, ex_15, source) as one:
        for length, unrecordable in ((100, []), (101, ["more than 4096 steps"])):
            assert [each.name for each in one.at(N=length).record().unrecordable] == unrecordable


def test_what_a_launch_lacks_is_told_as_triton_would(server: ForkServer, ex_15: Entry) -> None:
    source = "def vector_add(x, y):\n    add[(1,)](x, y, x)\n    return x\n"
    with recording(server, ex_15, source) as one:
        raised = one.pair.record(one.call())
    assert isinstance(raised, Raised)
    assert raised.message == "add must get all of its arguments, got none for n, BLOCK"


@pytest.mark.parametrize(
    ("launch", "message"),
    [
        ("add(x, y, x, 7, 64)", "add is a kernel, and was called without a grid"),
        ("add[2](x, y, x, 7, 64)", "a grid must be a tuple, as in add[(programs,)](…), got 2"),
        ("add[(1,)](x, y, x, 7, BLOCKS=64)", "add has no parameter BLOCKS, only x_ptr, y_ptr, z_ptr, n, BLOCK, "),
        (
            "add[(1,)](x, y, x, 7, 64, num_warp=4)",
            "add has no parameter num_warp, only x_ptr, y_ptr, z_ptr, n, BLOCK, ",
        ),
        ("tl.cdiv(x.numel(), 64)", "cdiv of Triton's language was called outside a kernel"),
    ],
)
def test_a_launch_that_triton_would_refuse_is_refused(
    server: ForkServer, ex_15: Entry, launch: str, message: str
) -> None:
    with recording(server, ex_15, f"def vector_add(x, y):\n    {launch}\n    return x\n") as one:
        raised = one.pair.record(one.call())
    assert isinstance(raised, Raised)
    assert raised.message.startswith(message)


def test_an_autotuner_on_an_autotuner_fails_in_triton_s_words(server: ForkServer, ex_15: Entry) -> None:
    source = """
one = triton.autotune([triton.Config({}, num_warps=4)], key=["n"])
two = triton.autotune([triton.Config({"BLOCK": 64}, num_warps=4)], key=["n"])
tuned = two(one(add))

def vector_add(x, y):
    tuned[(2,)](x, y, torch.empty_like(x), x.numel())
"""
    with recording(server, ex_15, source) as one:
        raised = one.pair.record(one.call())
    assert isinstance(raised, Raised)
    assert raised.message.startswith("triton.runtime.")
    assert raised.message.endswith("run() got multiple values for keyword argument 'num_warps'")


@pytest.mark.parametrize(
    ("result", "kind"),
    [
        ("torch.empty(x.shape, layout=torch.sparse_coo)", "tensor with layout torch.sparse_coo"),
        ("added(x, y).to_sparse()", "tensor with layout torch.sparse_coo"),
        ("added(x, y).to_mkldnn()", "tensor with layout torch._mkldnn"),
        ("torch.nested.nested_tensor([added(x, y)])", "nested tensor"),
    ],
)
def test_a_result_without_a_storage_of_its_own_is_of_the_wrong_type(
    server: ForkServer, ex_15: Entry, result: str, kind: str
) -> None:
    with recording(server, ex_15, f"def vector_add(x, y):\n    return {result}\n") as one:
        told = one.record()
    assert [output.form.kind for output in told.trace.outputs] == [kind]


@pytest.mark.parametrize("dtype", ["uint4", "int1", "float4_e2m1fn_x2", "bits8"])
def test_a_result_of_a_dtype_that_torch_cannot_fill_is_of_the_wrong_dtype(
    server: ForkServer, ex_15: Entry, dtype: str
) -> None:
    source = f"def vector_add(x, y):\n    return torch.empty(x.shape, dtype=torch.{dtype}, device=x.device)\n"
    with recording(server, ex_15, source) as one:
        outcome = one.replay(one.record())
    assert isinstance(outcome, Finished)
    assert [form.dtype for form in outcome.answer.outputs] == [dtype]


def test_kernels_are_not_run_while_they_are_recorded(server: ForkServer, ex_15: Entry) -> None:
    source = """
import ctypes

def vector_add(x, y):
    z = torch.zeros_like(x)
    add[(2,)](x, y, z, x.numel(), BLOCK=64)
    assert ctypes.string_at(z.data_ptr(), 4 * z.numel()) == bytes(4 * z.numel())
    return z
"""
    with recording(server, ex_15, source) as one:
        assert one.record().kernels == ("add",)


def test_memory_that_is_kept_from_call_to_call_is_the_same_in_the_replay(server: ForkServer, ex_15: Entry) -> None:
    source = """
kept = []

def vector_add(x, y):
    if not kept:
        kept.append(torch.zeros_like(x))
    add[(2,)](x, y, kept[0], x.numel(), BLOCK=64)
    z = torch.empty_like(x)
    z.copy_(kept[0])
    return z
"""
    with recording(server, ex_15, source) as one:
        for seed in (11, 12):
            answer = answer_in(one.replay(one.record(), seed))
            torch.testing.assert_close(answer, one.wanted(seed), rtol=0, atol=0)


def test_an_answer_that_is_remembered_is_that_of_the_earlier_inputs(server: ForkServer, ex_15: Entry) -> None:
    source = """
kept = {}

def vector_add(x, y):
    if x.data_ptr() not in kept:
        kept[x.data_ptr()] = added(x, y)
    return kept[x.data_ptr()]
"""
    with recording(server, ex_15, source) as one:
        first = answer_in(one.replay(one.record(), 11))
        again = answer_in(one.replay(one.record(storage="same"), 12, storage="same"))
        assert torch.equal(first, again)
        assert not torch.equal(again, one.wanted(12))


def test_after_a_call_that_was_not_replayed_kept_memory_is_told_anew(server: ForkServer, ex_15: Entry) -> None:
    source = """
table = torch.arange(128, dtype=torch.float32)

def vector_add(x, y):
    z = added(x, y)
    add[(1,)](z, table[:0], z, 0, BLOCK=64)
    return z
"""
    with recording(server, ex_15, source) as one:
        one.record()
        one.pair.skip()
        answer = answer_in(one.replay(one.record()))
        torch.testing.assert_close(answer, one.wanted(), rtol=0, atol=0)


def test_a_trace_is_told_in_words(server: ForkServer, ex_15: Entry) -> None:
    with recording(server, ex_15, "vector_add = added") as one:
        lines = trace_lines(one.record().trace)
    assert lines == [
        "  1. t1 [100] float32 = empty_like(x [100] float32)  (line 15)",
        "  2. launch add on a grid of [2], 2 programs  (line 16)",
        "     arguments: x [100] float32, y [100] float32, t1 [100] float32, 100, BLOCK=64",
        "     returns t1 [100] float32",
    ]


@pytest.mark.parametrize(
    ("switch", "works"), [("", False), ("triton.knobs.compilation.allow_non_constexpr_globals = True", True)]
)
def test_a_kernel_reads_global_variables_where_the_file_tells_triton_so(
    server: ForkServer, ex_15: Entry, switch: str, works: bool
) -> None:
    head = HEAD.replace("tl.store(z_ptr + offsets, ", "tl.store(z_ptr + offsets, ONE * ")
    source = f"{switch}\nONE = 1\n\ndef vector_add(x, y):\n    return added(x, y)\n"
    with recording(server, ex_15, source, head=head) as one:
        outcome = one.replay(one.record())
        if works:
            assert torch.equal(answer_in(outcome), one.wanted())
        else:
            assert isinstance(outcome, Raised)
            assert outcome.verdict == "compile_error"
            assert outcome.message.startswith("`ONE` is a global variable")


def test_a_constant_computes_with_tensors_on_either_side(server: ForkServer, ex_15: Entry) -> None:
    stored = "tl.load(x_ptr + offsets, inside) + tl.load(y_ptr + offsets, inside)"
    chosen = f"ONE * tl.where(TWO > tl.load(x_ptr + offsets, inside) * 0, {stored}, 0.0)"
    head = HEAD.replace(stored, chosen)
    source = "ONE, TWO = tl.constexpr(1), tl.constexpr(2)\n\ndef vector_add(x, y):\n    return added(x, y)\n"
    with recording(server, ex_15, source, head=head) as one:
        assert torch.equal(answer_in(one.replay(one.record())), one.wanted())


# Torch brings kernels of its own.
PACKAGE = "torch._inductor.runtime.triton_helpers"


# Imports, and the names by which a kernel calls the helper then: one file, for the package loads for seconds.
HELPERS = {
    f"from {PACKAGE} import maximum": "maximum",
    f"from {PACKAGE} import maximum as larger": "larger",
    "from torch._inductor.runtime import triton_helpers": "triton_helpers.maximum",
    f"import {PACKAGE} as helpers": "helpers.maximum",
}


def test_a_kernel_may_compute_with_a_helper_of_a_package(server: ForkServer, ex_15: Entry) -> None:
    loaded = shown = "tl.load(x_ptr + offsets, inside)"
    for helper in HELPERS.values():
        shown = f"{helper}({shown}, 0.0)"
    # The module has an `exp` too, and this one is Triton's.
    head = "\n".join([*HELPERS, HEAD.replace(loaded, f"{shown} * tl.exp(0.0)")])
    with recording(server, ex_15, "vector_add = added\n", head=head) as one:
        told = one.record()
        helpers = [text.words for text in told.trace.kernels if text.home]
        # It calls a helper in its turn.
        assert helpers == [f"{name} of {PACKAGE}" for name in ("maximum", "is_floating", "promote_to_tensor")]
        x, y = one.inputs()
        assert torch.equal(answer_in(one.replay(told)), x.clamp(min=0) + y)


def test_a_kernel_of_a_package_does_not_do_the_work(server: ForkServer, ex_15: Entry) -> None:
    launching = f"from {PACKAGE} import promote_to_tensor\n{HEAD}"
    source = "def vector_add(x, y):\n    promote_to_tensor[(1,)](1)\n    return added(x, y)\n"
    with recording(server, ex_15, source, head=launching) as one:
        outcome = one.replay(one.record())
        assert isinstance(outcome, Raised)
        assert (outcome.kind, outcome.message) == (
            COMPUTED,
            f"the kernel promote_to_tensor of {PACKAGE}: write it in your file",
        )


def test_a_helper_of_a_package_that_works_on_memory_does_the_work(server: ForkServer, ex_15: Entry) -> None:
    waiting = HEAD.replace("    inside = ", "    x_grid_barrier(z_ptr)\n    inside = ")
    head = f"from {PACKAGE} import x_grid_barrier\n{waiting}"
    with recording(server, ex_15, "vector_add = added\n", head=head) as one:
        outcome = one.replay(one.record())
        assert isinstance(outcome, Raised)
        assert outcome.kind == COMPUTED
        assert outcome.message == f"x_grid_barrier of {PACKAGE}, which has tl.atomic_add: write it in your file"
