"""Arithmetic in the corrected interpreter, against torch's: bfloat16, float8, TF32, NaN, and what must be refused.

Kernels run in a process of their own: triton must be imported with TRITON_INTERPRET=1 set. On a GPU ours compiles them.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.language.extra import libdevice
from triton.language.extra.cuda import libdevice as cuda_libdevice

from grader.exercise.triton_version import TRITON
from grader.interpreter.arithmetic import numerics
from grader.interpreter.corrections import apply_corrections

pytestmark = pytest.mark.process

BF16, FP16, FP32, FP64 = torch.bfloat16, torch.float16, torch.float32, torch.float64
E5M2, E4M3 = torch.float8_e5m2, torch.float8_e4m3fn
KINDS = {E5M2: "fp8e5", E4M3: "fp8e4nv"}

Launch = Callable[..., None]

triton.set_allocator(lambda size, _alignment, _stream: torch.empty(size, dtype=torch.int8))


@triton.jit
def binary_kernel(x_ptr, y_ptr, z_ptr, OP: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    y = tl.load(y_ptr + i)
    if OP == "add":
        z = x + y
    elif OP == "sub":
        z = x - y
    elif OP == "mul":
        z = x * y
    elif OP == "div":
        z = x / y
    elif OP == "maximum":
        z = tl.maximum(x, y)
    elif OP == "minimum":
        z = tl.minimum(x, y)
    elif OP == "propagating maximum":
        z = tl.maximum(x, y, propagate_nan=tl.PropagateNan.ALL)
    elif OP == "less":
        z = x < y
    elif OP == "equal":
        z = x == y
    elif OP == "not equal":
        z = x != y
    elif OP == "where":
        z = tl.where(x > y, x, y)
    elif OP == "count":
        z = (x > y).to(x.dtype) + (x <= y).to(x.dtype)
    elif OP == "floor div":
        z = x // y
    elif OP == "remainder":
        z = x % y
    elif OP == "shift":
        z = x >> y
    else:
        z = tl.abs(x)
    tl.store(z_ptr + i, z)


@triton.jit
def scalars_kernel(x_ptr, y_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    y = 3.3 * tl.load(x_ptr + i) + tl.full((N,), 0.1, x_ptr.dtype.element_ty) - 1
    tl.store(y_ptr + i, -y)


@triton.jit
def arguments_kernel(x_ptr, y_ptr, factor, double, N: tl.constexpr):
    i = tl.arange(0, N)
    y = tl.load(x_ptr + i) * factor
    if double:
        y += y
    tl.store(y_ptr + i, y)


@triton.jit
def fma_kernel(x_ptr, y_ptr, z_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(z_ptr + i, tl.fma(tl.load(x_ptr + i), tl.load(y_ptr + i), tl.load(z_ptr + i)))


@triton.jit
def clamp_kernel(x_ptr, y_ptr, PROPAGATE: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    nan: tl.constexpr = tl.PropagateNan.ALL if PROPAGATE else tl.PropagateNan.NONE
    tl.store(y_ptr + i, tl.clamp(tl.load(x_ptr + i), -1.0, 2.0, propagate_nan=nan))


@triton.jit
def exp_kernel(x_ptr, y_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(y_ptr + i, tl.exp(tl.load(x_ptr + i)))


@triton.jit
def cast_kernel(x_ptr, y_ptr, ROUNDING: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(y_ptr + i, tl.load(x_ptr + i).to(y_ptr.dtype.element_ty, fp_downcast_rounding=ROUNDING))


@triton.jit
def unsupported_float8_kernel(x_ptr, N: tl.constexpr):
    tl.load(x_ptr + tl.arange(0, N)).to(tl.float8e4b15)


@triton.jit
def dot_kernel(a_ptr, b_ptr, c_ptr, PRECISION: tl.constexpr, N: tl.constexpr):
    tile = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
    acc = tl.full((N, N), 1.0, tl.float32)
    acc = tl.dot(tl.load(a_ptr + tile), tl.load(b_ptr + tile), acc, input_precision=PRECISION)
    tl.store(c_ptr + tile, acc)


@triton.jit
def summed_products_kernel(a_ptr, b_ptr, c_ptr, FORM: tl.constexpr, N: tl.constexpr):
    tile = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
    a, b = tl.load(a_ptr + tile), tl.load(b_ptr + tile)
    if FORM == "axis 1":
        c = tl.sum(a[:, :, None] * b[None, :, :], axis=1)
    elif FORM == "b first":
        c = tl.sum(b[None, :, :] * a[:, :, None], axis=1)
    elif FORM == "axis 2":
        c = tl.sum(a[:, None, :] * b.trans()[None, :, :], axis=2)
    elif FORM == "reshaped":
        c = tl.sum(a.reshape((N, N, 1)) * b[None, :, :], axis=1)
    elif FORM == "every axis":
        c = a + 0.0 * tl.sum(a[:, :, None] * b[None, :, :])
    else:
        c = tl.sum(a[:, :, None] * b[None, :, :] * 2.0, axis=1) / 2.0
    tl.store(c_ptr + tile, c)


@triton.jit
def add(a, b):
    return a + b


@triton.jit
def multiply(a, b):
    return a * b


@triton.jit
def greater(a, b):
    return tl.maximum(a, b).to(tl.float32)


@triton.jit
def first(a, b):
    return a


@triton.jit
def smaller_by_branch(a, b):
    if a < b:
        return a
    return b


@triton.jit
def reduce_kernel(x_ptr, y_ptr, OP: tl.constexpr, AXIS: tl.constexpr, M: tl.constexpr, N: tl.constexpr):
    rows = tl.arange(0, M)
    x = tl.load(x_ptr + rows[:, None] * N + tl.arange(0, N)[None, :])
    if OP == "sum":
        y = tl.sum(x, AXIS)
    elif OP == "total":
        y = tl.sum(x) + tl.zeros((M,), x.dtype)
    elif OP == "max":
        y = tl.max(x, AXIS)
    elif OP == "min":
        y = tl.min(x, AXIS)
    elif OP == "argmax":
        y = tl.argmax(x, AXIS)
    elif OP == "argmin":
        y = tl.argmin(x, AXIS)
    elif OP == "add":
        y = tl.reduce(x, AXIS, add)
    elif OP == "first":
        y = tl.reduce(x, AXIS, first)
    elif OP == "branch":
        y = tl.reduce(x, AXIS, smaller_by_branch)
    else:
        y = tl.reduce(x, AXIS, greater)
    tl.store(y_ptr + rows, y)


@triton.jit
def rows_kernel(x_ptr, y_ptr, OP: tl.constexpr, M: tl.constexpr, N: tl.constexpr):
    places = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    x = tl.load(x_ptr + places)
    if OP == "cumsum":
        y = tl.cumsum(x, 1)
    elif OP == "cumsum reversed":
        y = tl.cumsum(x, 1, reverse=True)
    elif OP == "cumprod":
        y = tl.cumprod(x, 1)
    elif OP == "scan":
        y = tl.associative_scan(x, 1, multiply)
    elif OP == "scan last axis":
        y = tl.associative_scan(x, -1, multiply)
    elif OP == "sort":
        y = tl.sort(x)
    elif OP == "flip":
        y = tl.flip(x, 1)
    else:
        y = tl.gather(x, places % 3, 1)
    tl.store(y_ptr + places, y)


@triton.jit
def atomic_add_kernel(memory_ptr, places_ptr, values_ptr, old_ptr, active, N: tl.constexpr):
    i = tl.arange(0, N)
    values = tl.load(values_ptr + i)
    old = tl.atomic_add(memory_ptr + tl.load(places_ptr + i), values, mask=i < active)
    tl.store(old_ptr + i, old, mask=i < active)


@triton.jit
def scalar_atomic_kernel(memory_ptr, value_ptr, old_ptr):
    tl.store(old_ptr, tl.atomic_add(memory_ptr, tl.load(value_ptr)))
    tl.atomic_cas(memory_ptr + 1, tl.load(memory_ptr + 1), tl.load(value_ptr))


@triton.jit
def padded_kernel(x_ptr, y_ptr, N: tl.constexpr):
    descriptor = tl.make_tensor_descriptor(x_ptr, [N - 1, N], [N, 1], [N, N], padding_option="nan")
    places = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(y_ptr + places, descriptor.load([0, 0]))


@triton.jit
def loop_kernel(length_ptr, steps_ptr, K, BLOCK: tl.constexpr):
    steps = 0
    for _ in range(0, K, BLOCK):
        steps += 1
    for _ in tl.range(tl.cdiv(K, BLOCK)):
        steps += 1
    for _ in range(0, tl.load(length_ptr), BLOCK):
        steps += 1
    tl.store(steps_ptr, steps)


@triton.jit
def tuples_kernel(y_ptr):
    pair = (-7, 2)
    first, second = -7, 2
    tl.store(y_ptr, pair[0] // pair[1])
    tl.store(y_ptr + 1, first % second)


@triton.jit
def declared_kernel(y_ptr, wide: tl.int64, narrow):
    tl.store(y_ptr, wide * 3)
    tl.store(y_ptr + 1, narrow * 3)


@triton.jit
def functions_kernel(x_ptr, y_ptr, OP: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    if OP == "tanh":
        y = libdevice.tanh(x)
    elif OP == "pow":
        y = libdevice.pow(x.abs(), 1.5)
    elif OP == "rint":
        y = cuda_libdevice.rint(x * 4)
    elif OP == "isnan":
        y = libdevice.isnan(x / (x - x)).to(tl.float32)
    elif OP == "fma_rn":
        y = libdevice.fma_rn(x, x, x)
    elif OP == "methods":
        y = x.exp() + x.abs().sqrt() + x.sigmoid()
    else:
        y = libdevice.yn(2, x)
    tl.store(y_ptr + i, y)


@triton.jit
def exchange_kernel(x_ptr, y_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(y_ptr + i, tl.atomic_xchg(x_ptr + i, 2.5))


@triton.jit
def whole(number):
    return number.to(tl.int64)


@triton.jit
def counting_kernel(y_ptr, N, STEPS: tl.constexpr):
    for i in range(tl.program_id(0), N, 2):
        tl.store(y_ptr + i.to(tl.int64), i * 10)
    for i in tl.range(N, N + STEPS):
        # The numbers of a loop, and what is computed from them, are scalars of triton's.
        tl.store(y_ptr + whole(2 * i - i), (i % 4 + 1).to(tl.int32))


@triton.jit
def shift_kernel(x_ptr, y_ptr, N: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, N))
    unsigned = x.to(tl.uint32, bitcast=True)
    tl.store(y_ptr + tl.arange(0, N), (x >> unsigned) * 0 + (unsigned > 5))


@triton.jit
def truth_kernel(x_ptr, y_ptr, OP: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    if OP == "max":
        tl.store(y_ptr + i, max(x, 0.0))
    else:
        tl.store(y_ptr + i, x, mask=0 < i < 3)


# -- where kernels run -------------------------------------------------------------------------------------------------


def start_interpreter() -> None:
    """As the worker starts."""
    np.seterr(all="ignore")
    apply_corrections()


def launch(name: str, args: tuple, constants: dict) -> tuple:
    """One program of a kernel of this module, and its arguments afterwards."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        globals()[name][1,](*args, **constants)
    return args


@pytest.fixture(scope="module")
def interpret() -> Iterator[Launch]:
    """Run a kernel in the corrected interpreter: interpret(kernel, tensor, ..., CONSTANT=...)."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("TRITON_INTERPRET", "1")
        with ProcessPoolExecutor(1, mp_context=get_context("spawn"), initializer=start_interpreter) as process:

            def run(kernel, *args, **constants) -> None:
                done = process.submit(launch, kernel.fn.__name__, args, constants).result()
                for mine, theirs in zip(args, done, strict=True):
                    if isinstance(mine, Tensor):
                        mine.copy_(theirs)

            yield run


def same(got: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(got, expected, rtol=0, atol=0, equal_nan=True)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def patterns(dtype: torch.dtype, count: int, seed: int = 0) -> Tensor:
    """Numbers of every size, among them NaN, infinities and subnormals: random bits."""
    bits = torch.randint(-(1 << 63), (1 << 63) - 1, (count,), generator=generator(seed))
    numbers = bits.view(dtype)[:count].clone()
    # torch treats a signalling NaN otherwise than a quiet one, a GPU does not.
    return torch.where(numbers.isnan(), torch.nan, numbers) if dtype.is_floating_point else numbers


def every(dtype: torch.dtype) -> Tensor:
    bits = 8 * dtype.itemsize
    return torch.arange(1 << bits).to({8: torch.uint8, 16: torch.int16}[bits]).view(dtype)


# -- pure functions ----------------------------------------------------------------------------------------------------


def test_every_bfloat16_survives_the_way_to_float32_and_back():
    numbers = every(BF16)
    bits = numbers.view(torch.int16).numpy().view(np.uint16)
    widened = numerics.from_bfloat16(bits)
    same(torch.from_numpy(widened), numbers.float())
    same(torch.from_numpy(numerics.to_bfloat16(widened)).view(BF16), numbers)


def test_float32_is_rounded_to_the_nearest_bfloat16_as_torch_does():
    # Every mantissa's upper bits with ties, and random ones.
    ties = (torch.arange(1 << 17, dtype=torch.int32) << 15).view(FP32)
    for numbers in (patterns(FP32, 1 << 16), ties):
        same(torch.from_numpy(numerics.to_bfloat16(numbers.numpy())).view(BF16), numbers.to(BF16))


@pytest.mark.parametrize("number", [1 + 2**-8 + 2**-40, np.int64(2**62 + 2**54 + 1), np.uint64(2**63 + 2**55 + 1)])
def test_wide_numbers_are_rounded_once(number):
    # Just above a tie of bfloat16: float32 would round it onto the tie, and the tie to the even number below.
    tie = number.item() if isinstance(number, np.generic) else number
    below = float(numerics.from_bfloat16(numerics.to_bfloat16(np.array(tie * 0.999))))
    above = float(numerics.from_bfloat16(numerics.to_bfloat16(np.array([number])))[()].item())
    assert below < tie < above


def test_all_integers_of_eight_bits_are_bfloat16():
    numbers = np.arange(-128, 128, dtype=np.int8)
    np.testing.assert_array_equal(numerics.from_bfloat16(numerics.to_bfloat16(numbers)), numbers)


@pytest.mark.parametrize("dtype", [E5M2, E4M3])
def test_float8_is_the_nearest_of_all_256_and_saturates(dtype):
    numbers = torch.cat([patterns(FP32, 2000), every(FP16)[::7].float()])
    finite = every(dtype).double()
    finite = finite[finite.isfinite()]
    nearest = (numbers.double().nan_to_num()[:, None] - finite).abs().min(1).values
    kind = KINDS[dtype]
    got = torch.from_numpy(numerics.from_float8(numerics.to_float8(numbers.numpy(), kind), kind)).double()
    assert (got.isnan() == numbers.isnan()).all()
    same((numbers.double().nan_to_num() - got).abs()[~got.isnan()], nearest[~got.isnan()])


def test_tf32_cuts_the_lower_thirteen_bits_and_keeps_nan():
    numbers = torch.tensor([1 + 2**-10 + 2**-11, -(2 - 2**-23), 2**-126, torch.inf, torch.nan])
    numbers[-1:].view(torch.int32)[0] = 0x7F800001
    expected = torch.tensor([1 + 2**-10, -(2 - 2**-10), 2**-126, torch.inf, torch.nan])
    same(torch.from_numpy(numerics.to_tf32(numbers.numpy())), expected)


@pytest.mark.parametrize(("kind", "dtype"), [("bf16", BF16), ("fp16", FP16)])
def test_toward_zero_is_the_nearest_that_is_not_larger(kind, dtype):
    numbers = patterns(FP32, 1 << 14)
    with np.errstate(over="ignore"):
        got = torch.from_numpy(numerics.toward_zero(numbers.numpy(), kind)).view(dtype)
    known = ~numbers.isnan()
    assert (got.isnan() == ~known).all()
    assert (got.float().abs() <= numbers.abs())[known].all()
    # The next larger one would be too large.
    further = (got.view(torch.int16) + 1).view(dtype).float().abs()
    assert (further > numbers.abs())[known & ~numbers.isinf()].all()


# -- arithmetic --------------------------------------------------------------------------------------------------------

ARITHMETIC = {
    "add": torch.add,
    "sub": torch.sub,
    "mul": torch.mul,
    "div": torch.div,
    "maximum": torch.fmax,
    "minimum": torch.fmin,
    "propagating maximum": torch.maximum,
    "where": lambda x, y: torch.where(x > y, x, y),
    "count": lambda x, y: (x > y).to(x.dtype) + (x <= y).to(x.dtype),
    "abs": lambda x, y: x.abs(),
}


@pytest.mark.parametrize("dtype", [BF16, FP16, FP32])
@pytest.mark.parametrize("op", ARITHMETIC)
def test_arithmetic_agrees_with_torch_on_all_kinds_of_numbers(interpret, op, dtype):
    x, y, z = patterns(dtype, 4096), patterns(dtype, 4096, seed=1), torch.empty(4096, dtype=dtype)
    y[::7] = x[::7]
    interpret(binary_kernel, x, y, z, OP=op, N=4096)
    same(z, ARITHMETIC[op](x, y))


@pytest.mark.parametrize("dtype", [BF16, FP16, FP32])
def test_the_remainder_of_floats_has_the_sign_of_the_dividend(interpret, dtype):
    # Of like size: with a large quotient a GPU's remainder is inexact.
    x, y = (torch.randn(256, generator=generator(seed)).to(dtype) for seed in (0, 1))
    z = torch.empty(256, dtype=dtype)
    interpret(binary_kernel, x, y, z, OP="remainder", N=256)
    same(z, torch.fmod(x, y))


@pytest.mark.parametrize(("op", "expected"), [("less", torch.lt), ("equal", torch.eq), ("not equal", torch.ne)])
@pytest.mark.parametrize("stored_as", [torch.int8, torch.int32, BF16, FP32])
def test_comparisons_of_bfloat16_are_booleans_in_any_type(interpret, op, expected, stored_as):
    x, y, z = patterns(BF16, 1024), patterns(BF16, 1024, seed=1), torch.empty(1024, dtype=stored_as)
    y[::7] = x[::7]
    interpret(binary_kernel, x, y, z, OP=op, N=1024)
    same(z, expected(x, y).to(stored_as))


def test_constants_and_python_scalars_are_rounded_to_bfloat16(interpret):
    x, y = torch.randn(256, generator=generator()).to(BF16), torch.empty(256, dtype=BF16)
    interpret(scalars_kernel, x, y, N=256, enable_fp_fusion=False)
    three, tenth = torch.tensor(3.3).to(BF16), torch.tensor(0.1).to(BF16)
    same(y, -(x * three + tenth - 1))


@pytest.mark.parametrize("dtype", [BF16, FP16, FP32])
@pytest.mark.parametrize("double", [True, False])
def test_a_float_argument_is_float32_and_a_bool_is_true_or_false(interpret, dtype, double):
    x, y = torch.randn(256, generator=generator()).to(dtype), torch.empty(256)
    interpret(arguments_kernel, x, y, 0.1, double, N=256)
    same(y, x.float() * 0.1 * (2 if double else 1))


def test_the_numbers_of_a_tuple_are_those_of_c(interpret):
    y = torch.empty(2, dtype=torch.int32)
    interpret(tuples_kernel, y)
    assert y.tolist() == [-3, -1]


def test_an_integer_argument_has_the_type_that_its_parameter_declares(interpret):
    y = torch.empty(2, dtype=torch.int64)
    interpret(declared_kernel, y, 1 << 30, narrow=1 << 30)
    assert y.tolist() == [3 << 30, (3 << 30) - (1 << 32)]


@pytest.mark.parametrize(
    ("dtype", "factor", "addend", "expected"),
    [
        (FP32, 1 + 2**-12, -(1 + 2**-11), 2**-24),
        (FP16, 1 + 2**-6, -(1 + 2**-5), 2**-12),
        (BF16, 1 + 2**-4, -(1 + 2**-3), 2**-8),
        # Just above a tie; the addend is too small for the sum in float64 to show it.
        (BF16, 1 + 2**-4, 2**-100, 1 + 2**-3 + 2**-7),
        (FP32, 3.0, torch.inf, torch.inf),
    ],
)
def test_fma_rounds_once(interpret, dtype, factor, addend, expected):
    x, z = torch.full((16,), factor, dtype=dtype), torch.full((16,), addend, dtype=dtype)
    interpret(fma_kernel, x, x, z, N=16)
    same(z, torch.full((16,), expected, dtype=dtype))


@pytest.mark.parametrize("dtype", [BF16, FP16, FP32])
def test_clamp_gives_the_lower_bound_for_nan_unless_told_to_propagate(interpret, dtype):
    x, y = torch.tensor([torch.nan, -5.0, 0.5, torch.inf], dtype=dtype), torch.empty(4, dtype=dtype)
    interpret(clamp_kernel, x, y, PROPAGATE=False, N=4)
    same(y, torch.tensor([-1.0, -1.0, 0.5, 2.0], dtype=dtype))
    interpret(clamp_kernel, x, y, PROPAGATE=True, N=4)
    same(y, torch.tensor([torch.nan, -1.0, 0.5, 2.0], dtype=dtype))


def test_triton_itself_refuses_exp_of_bfloat16(interpret):
    with pytest.raises(Exception, match="Expected dtype"):
        interpret(exp_kernel, torch.ones(4, dtype=BF16), torch.ones(4, dtype=BF16), N=4)


def test_division_and_remainder_of_negative_integers_are_those_of_c(interpret):
    x, y = torch.tensor([-7, 7, -7, 7]), torch.tensor([2, 2, -2, -2])
    for op, expected in (("floor div", [-3, 3, 3, -3]), ("remainder", [-1, 1, -1, 1])):
        z = torch.empty(4, dtype=torch.int64)
        interpret(binary_kernel, x, y, z, OP=op, N=4)
        assert z.tolist() == expected


def test_division_by_zero_and_its_remainder_give_all_ones(interpret):
    x, y = torch.tensor([-7, 7, 0, 8], dtype=torch.int32), torch.tensor([0, 0, 0, 3], dtype=torch.int32)
    for op, expected in (("floor div", [-1, -1, -1, 2]), ("remainder", [-1, -1, -1, 2])):
        z = torch.empty(4, dtype=torch.int32)
        interpret(binary_kernel, x, y, z, OP=op, N=4)
        assert z.tolist() == expected


def test_a_shift_leaves_its_operands_unsigned(interpret):
    x, y = torch.tensor([-8, 1, 7, -1], dtype=torch.int32), torch.empty(4, dtype=torch.int32)
    interpret(shift_kernel, x, y, N=4)
    assert y.tolist() == [1, 0, 1, 1]


# -- conversions -------------------------------------------------------------------------------------------------------

INTEGERS = (torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8)


@pytest.mark.parametrize("source", [*INTEGERS, torch.bool, FP16, FP32, FP64])
def test_conversions_to_bfloat16_round_to_the_nearest(interpret, source):
    x = patterns(torch.uint8, 4096) > 127 if source == torch.bool else patterns(source, 4096)
    y = torch.empty(4096, dtype=BF16)
    interpret(cast_kernel, x, y, ROUNDING=None, N=4096)
    same(y, x.to(BF16))


@pytest.mark.parametrize("target", [*INTEGERS, FP16, FP32, FP64])
def test_conversions_from_bfloat16_take_its_value(interpret, target):
    # Integers in the range of them all; beyond it a GPU's result is not defined.
    floating = target.is_floating_point
    x = patterns(BF16, 4096) if floating else (128 * torch.rand(4096, generator=generator())).to(BF16).clamp(max=127)
    y = torch.empty(4096, dtype=target)
    interpret(cast_kernel, x, y, ROUNDING=None, N=4096)
    same(y, x.to(target))


OUT_OF_RANGE = torch.tensor([1e30, -1e30, torch.inf, 2.0**31, 70000.0, 300.0, -1.5, torch.nan])
_INT32, _INT64 = (1 << 31) - 1, (1 << 63) - 1
SATURATED = {
    torch.int32: [_INT32, -_INT32 - 1, _INT32, _INT32, 70000, 300, -1, 0],
    torch.int64: [_INT64, -_INT64 - 1, _INT64, 1 << 31, 70000, 300, -1, -_INT64 - 1],
    torch.int16: [32767, -32768, 32767, 32767, 32767, 300, -1, 0],
    # The lower half of 16 bits.
    torch.int8: [-1, 0, -1, -1, -1, 44, -1, 0],
    torch.uint8: [255, 0, 255, 255, 255, 44, 0, 0],
}


@pytest.mark.parametrize("target", SATURATED)
def test_numbers_that_fit_into_no_integer_saturate(interpret, target):
    y = torch.empty(8, dtype=target)
    interpret(cast_kernel, OUT_OF_RANGE, y, ROUNDING=None, N=8)
    assert y.tolist() == SATURATED[target]


@pytest.mark.parametrize("target", [E5M2, E4M3])
@pytest.mark.parametrize("source", [FP32, FP16, BF16])
def test_conversions_to_float8_round_to_the_nearest_and_saturate(interpret, source, target):
    x = patterns(FP32, 1 << 16) if source == FP32 else every(source)
    y = torch.empty(x.shape, dtype=target)
    interpret(cast_kernel, x, y, ROUNDING=None, N=len(x))
    largest = torch.finfo(target).max
    same(y.float(), x.float().clamp(-largest, largest).to(target).float())


@pytest.mark.parametrize("source", [E5M2, E4M3])
@pytest.mark.parametrize("target", [FP32, FP16, BF16])
def test_conversions_from_float8_take_every_value(interpret, source, target):
    y = torch.empty(256, dtype=target)
    interpret(cast_kernel, every(source), y, ROUNDING=None, N=256)
    same(y, every(source).float().to(target))


def test_rounding_toward_zero_ends_at_the_largest_finite_value(interpret):
    x = torch.tensor([1e9, -1e9, 1 + 2**-9, -(1 + 2**-9), torch.inf, 2.0**-25, -3.0, 0.0])
    for dtype, one in ((FP16, 1 + 2**-9), (BF16, 1.0), (E5M2, 1.0)):
        y = torch.empty(8, dtype=dtype)
        interpret(cast_kernel, x, y, ROUNDING="rtz", N=8)
        largest = 1e9 if dtype == BF16 else torch.finfo(dtype).max
        largest = torch.tensor(largest).to(dtype).item()
        tiny = 2.0**-25 if dtype == BF16 else 0.0
        same(y.double(), torch.tensor([largest, -largest, one, -one, torch.inf, tiny, -3.0, 0.0], dtype=FP64))


@pytest.mark.parametrize(
    ("source", "target", "rounding", "words"),
    [
        (FP64, E5M2, None, "fp64 to fp8e5 does not compile"),
        (E4M3, FP64, None, "fp8e4nv to fp64 does not compile"),
        (E5M2, E4M3, None, "fp8e5 to fp8e4nv does not compile"),
        (FP32, E4M3, "rtz", "fp32 rounded toward zero to fp8e4nv does not compile"),
    ],
)
def test_conversions_that_no_gpu_does_are_refused(interpret, source, target, rounding, words):
    with pytest.raises(Exception, match=words):
        interpret(cast_kernel, torch.ones(4).to(source), torch.empty(4, dtype=target), ROUNDING=rounding, N=4)


def test_other_kinds_of_float8_are_judged_on_a_gpu_only(interpret):
    with pytest.raises(Exception, match="the type fp8e4b15"):
        interpret(unsupported_float8_kernel, torch.ones(4), N=4)


@pytest.mark.parametrize("op", ["add", "less", "abs", "where"])
def test_float8_has_no_arithmetic(interpret, op):
    x = torch.ones(4).to(E5M2)
    with pytest.raises(Exception, match="fp8e5 has no arithmetic on a GPU: convert it first"):
        interpret(binary_kernel, x, x, x.clone(), OP=op, N=4)


# -- products of matrices ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [BF16, FP16, FP32, E5M2, E4M3])
def test_dot_multiplies_the_numbers_and_adds_in_float32(interpret, dtype):
    # Small integers: every sum is exact.
    a, b = (torch.randint(-3, 4, (32, 32), generator=generator(seed)).float().to(dtype) for seed in (0, 1))
    c = torch.empty(32, 32)
    interpret(dot_kernel, a, b, c, PRECISION="tf32", N=32)
    same(c, a.float() @ b.float() + 1)


def test_dot_of_bfloat16_rounds_nothing_but_the_sums(interpret):
    a, b = (torch.randn(64, 64, generator=generator(seed)).to(BF16) for seed in (0, 1))
    c = torch.empty(64, 64)
    interpret(dot_kernel, a, b, c, PRECISION=None, N=64)
    torch.testing.assert_close(c.double(), a.double() @ b.double() + 1, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [BF16, FP16, FP32])
def test_bits_of_a_dot_do_not_depend_on_the_place_in_the_tile(interpret, dtype):
    a, b = (torch.randn(64, 64, generator=generator(seed)).to(dtype) for seed in (0, 1))
    rows, columns = (torch.randperm(64, generator=generator(seed)) for seed in (2, 3))
    c, moved = torch.empty(64, 64), torch.empty(64, 64)
    interpret(dot_kernel, a, b, c, PRECISION="ieee", N=64)
    interpret(dot_kernel, a[rows], b[:, columns].contiguous(), moved, PRECISION="ieee", N=64)
    same(moved, c[rows][:, columns])


@pytest.mark.parametrize(("precision", "exact"), [(None, False), ("tf32", False), ("ieee", True), ("tf32x3", True)])
def test_dot_of_float32_drops_to_tf32_unless_told_otherwise(interpret, precision, exact):
    a = torch.randn(16, 16, generator=generator())
    c = torch.empty(16, 16)
    interpret(dot_kernel, a, torch.eye(16), c, PRECISION=precision, N=16)
    same(c, (a if exact else torch.from_numpy(numerics.to_tf32(a.numpy()))) + 1)


@pytest.mark.parametrize(("precision", "bits"), [("bf16x3", 16), ("bf16x6", 24)])
def test_dot_of_float32_in_pieces_of_bfloat16_keeps_as_many_bits_as_they_hold(interpret, precision, bits):
    a = torch.randn(16, 16, generator=generator())
    c = torch.empty(16, 16)
    interpret(dot_kernel, a, torch.eye(16), c, PRECISION=precision, N=16)
    off = (c.double() - 1 - a.double()).abs()
    # The kernel adds 1 in float32.
    assert bool((off <= a.double().abs() * 2.0**-bits + 2.0**-23).all())
    assert bool((off > a.double().abs() * 2.0**-22 + 2.0**-23).any()) == (bits == 16)


def test_infinities_in_pieces_stay_infinities(interpret):
    a, c = torch.full((16, 16), 2.0), torch.empty(16, 16)
    a[0, 0] = torch.inf
    interpret(dot_kernel, a, torch.ones(16, 16), c, PRECISION="bf16x3", N=16)
    assert bool((c[0] == torch.inf).all())
    assert bool((c[1:] == 33.0).all())


SUMMED_PRODUCTS = [
    *(("axis 1", 16, False), ("axis 1", 8, True), ("b first", 16, True), ("axis 2", 16, True)),
    *(("reshaped", 16, True), ("doubled", 16, True), ("every axis", 16, True)),
]


@pytest.mark.parametrize(("form", "side", "exact"), SUMMED_PRODUCTS)
def test_a_product_and_its_sum_drop_to_tf32_where_triton_makes_a_dot_of_them(interpret, form, side, exact):
    a, c = torch.randn(side, side, generator=generator()), torch.empty(side, side)
    interpret(summed_products_kernel, a, torch.eye(side), c, FORM=form, N=side)
    same(c, a if exact else torch.from_numpy(numerics.to_tf32(a.numpy())))


# -- reductions and scans ----------------------------------------------------------------------------------------------


def sum_in_a_tree(x: Tensor) -> Tensor:
    """Over the last axis, every addition rounded."""
    while x.shape[-1] > 1:
        half = x.shape[-1] // 2
        x = x[..., :half] + x[..., half:]
    return x[..., 0]


@pytest.mark.parametrize("dtype", [BF16, FP16])
def test_sums_are_rounded_at_every_addition_of_a_tree(interpret, dtype):
    x, y = torch.rand(8, 256, generator=generator()).to(dtype), torch.empty(8, dtype=dtype)
    interpret(reduce_kernel, x, y, OP="sum", AXIS=1, M=8, N=256)
    same(y, sum_in_a_tree(x))
    interpret(reduce_kernel, x, y, OP="total", AXIS=None, M=8, N=256)
    same(y, sum_in_a_tree(x.reshape(1, -1)).expand(8))


def test_a_combine_function_is_rounded_at_every_step_of_a_tree(interpret):
    x, y = torch.rand(4, 32, generator=generator()).to(BF16), torch.empty(4, dtype=BF16)
    interpret(reduce_kernel, x, y, OP="add", AXIS=1, M=4, N=32)
    while x.shape[1] > 1:
        x = x[:, ::2] + x[:, 1::2]
    same(y, x[:, 0])


def test_a_sum_by_a_combine_function_is_as_exact_as_on_a_gpu(interpret):
    x, y = torch.rand(2, 1 << 14, generator=generator()), torch.empty(2)
    interpret(reduce_kernel, x, y, OP="add", AXIS=1, M=2, N=1 << 14)
    exact = x.double().sum(1)
    assert ((y - exact).abs() <= 14 * torch.finfo(FP32).eps * exact).all()


def test_a_combine_function_gets_its_operands_in_order(interpret):
    x, y = torch.randn(4, 16, generator=generator()), torch.empty(4)
    interpret(reduce_kernel, x, y, OP="first", AXIS=1, M=4, N=16)
    same(y, x[:, 0])


def test_a_combine_function_may_ask_which_number_is_smaller(interpret):
    x, y = torch.randn(4, 16, generator=generator()), torch.empty(4)
    interpret(reduce_kernel, x, y, OP="branch", AXIS=1, M=4, N=16)
    same(y, x.amin(1))


@pytest.mark.parametrize("op", ["max", "min", "argmax", "argmin"])
@pytest.mark.parametrize("axis", [1, -1])
def test_extremes_of_bfloat16_agree_with_torch(interpret, op, axis):
    x = torch.randn(8, 64, generator=generator()).to(BF16)
    expected = getattr(x, {"max": "amax", "min": "amin"}.get(op, op))(1)
    y = torch.empty(8, dtype=expected.dtype)
    interpret(reduce_kernel, x, y, OP=op, AXIS=axis, M=8, N=64)
    same(y, expected)


def test_the_first_of_equal_elements_is_the_argmax(interpret):
    y = torch.empty(2, dtype=torch.int32)
    interpret(reduce_kernel, torch.tensor([[1.0, 3, 3, 0], [2, 2, 2, 2]]), y, OP="argmax", AXIS=1, M=2, N=4)
    assert y.tolist() == [1, 0]


@pytest.mark.parametrize("op", ["max", "min"])
@pytest.mark.parametrize("dtype", [FP32, FP16, BF16])
def test_extremes_pass_over_nan_and_all_nan_gives_nan_in_silence(interpret, op, dtype):
    x = torch.tensor([[torch.nan, 1, 1, torch.nan], [torch.nan] * 4], dtype=dtype)
    y = torch.empty(2, dtype=dtype)
    interpret(reduce_kernel, x, y, OP=op, AXIS=1, M=2, N=4)
    same(y, torch.tensor([1, torch.nan], dtype=dtype))


def test_a_combine_function_that_changes_the_type_is_refused(interpret):
    x = torch.ones(2, 4, dtype=BF16)
    with pytest.raises(Exception, match="a combine function must return bf16 as it is given, got fp32"):
        interpret(reduce_kernel, x, x[0], OP="greater", AXIS=1, M=2, N=4)


def in_steps(x: Tensor, combine: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """Each column with the one 1, 2, 4, ... before it, in the type of x."""
    step = 1
    while step < x.shape[1]:
        x = torch.cat([x[:, :step], combine(x[:, :-step], x[:, step:])], 1)
        step *= 2
    return x


def totals(x: Tensor, combine: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """Before 3.9 triton converts to float32 first, and the store rounds; since then it combines in the type of x."""
    return in_steps(x, combine) if TRITON >= (3, 9) else in_steps(x.float(), combine).to(x.dtype)


ROWS = {
    "cumsum": lambda x: totals(x, torch.add),
    "cumsum reversed": lambda x: totals(x.flip(1), torch.add).flip(1),
    "cumprod": lambda x: totals(x, torch.mul),
    "scan": lambda x: in_steps(x, torch.mul),
    "scan last axis": lambda x: in_steps(x, torch.mul),
    "sort": lambda x: x.sort(1).values,
    "flip": lambda x: x.flip(1),
    "gather": lambda x: x.gather(1, (torch.arange(x.numel()).view(x.shape)) % 3),
}


@pytest.mark.parametrize("op", ROWS)
def test_scans_sort_flip_and_gather_of_bfloat16(interpret, op):
    x = (torch.rand(2, 16, generator=generator()) + 0.5).to(BF16)
    y = torch.empty_like(x)
    interpret(rows_kernel, x, y, OP=op, M=2, N=16)
    same(y, ROWS[op](x))


@pytest.mark.parametrize("op", ["cumsum", "cumsum reversed"])
def test_a_running_sum_of_many_numbers_is_as_exact_as_on_a_gpu(interpret, op):
    x = torch.rand(1, 1 << 14, generator=generator())
    y = torch.empty_like(x)
    interpret(rows_kernel, x, y, OP=op, M=1, N=x.numel())
    exact = ROWS["cumsum"](x.double()) if op == "cumsum" else ROWS["cumsum"](x.double().flip(1)).flip(1)
    # One rounding for each of 14 steps; one after another, the last sums are wrong by 40 times as much.
    assert ((y - exact).abs() <= 14 * 2**-24 * exact).all()


# -- memory ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [BF16, FP16])
def test_atomic_additions_happen_lane_after_lane_and_return_what_was_there(interpret, dtype):
    places = torch.randint(0, 8, (64,), generator=generator(), dtype=torch.int32)
    values = torch.randn(64, generator=generator(1)).to(dtype)
    memory, old = torch.ones(8, dtype=dtype), torch.full((64,), -1.0, dtype=dtype)
    expected, before = memory.clone(), old.clone()
    for lane in range(50):
        before[lane] = expected[places[lane]]
        expected[places[lane]] += values[lane]
    interpret(atomic_add_kernel, memory, places, values, old, 50, N=64)
    same(memory, expected)
    same(old, before)


def test_atomics_of_one_bfloat16(interpret):
    memory, old = torch.tensor([256.0, 5.0], dtype=BF16), torch.empty(1, dtype=BF16)
    interpret(scalar_atomic_kernel, memory, torch.tensor([1.5], dtype=BF16), old)
    assert (memory.tolist(), old.tolist()) == ([258.0, 1.5], [256.0])


@pytest.mark.parametrize("dtype", [BF16, FP16, FP32])
def test_padding_with_nan_is_nan(interpret, dtype):
    y = torch.empty(16, 16, dtype=dtype)
    interpret(padded_kernel, torch.ones(16, 16, dtype=dtype), y, N=16)
    assert y[:15].eq(1).all()
    assert y[15].isnan().all()


# -- scalars and blocks ------------------------------------------------------------------------------------------------


def test_a_loop_takes_bounds_that_are_known_at_run_time_only(interpret):
    steps = torch.zeros(1, dtype=torch.int32)
    interpret(loop_kernel, torch.tensor([70], dtype=torch.int32), steps, 100, BLOCK=32)
    assert steps.tolist() == [4 + 4 + 3]


# Since 3.9 `0 < x < 1` compares elements, in the interpreter as in a compiled kernel.
@pytest.mark.parametrize("op", ["max", *(["chain"] if TRITON < (3, 9) else [])])
def test_the_truth_of_a_block_is_refused(interpret, op):
    with pytest.raises(Exception, match=r"only a scalar is true or false, got a block of shape \[8\]: write &"):
        interpret(truth_kernel, torch.ones(8), torch.zeros(8), OP=op, N=8)


# -- against a GPU -----------------------------------------------------------------------------------------------------


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [BF16, FP16, FP32])
@pytest.mark.parametrize("op", [op for op in ARITHMETIC if op != "div"])
def test_a_gpu_computes_the_same(interpret, op, dtype):
    x, y, z = patterns(dtype, 4096), patterns(dtype, 4096, seed=1), torch.empty(4096, dtype=dtype)
    interpret(binary_kernel, x, y, z, OP=op, N=4096)
    on_gpu = [one.cuda() for one in (x, y, z)]
    launch("binary_kernel", tuple(on_gpu), {"OP": op, "N": 4096})
    same(z, on_gpu[2].cpu())


@pytest.mark.gpu
@pytest.mark.parametrize("target", [BF16, E5M2, E4M3])
def test_a_gpu_converts_the_same(interpret, target):
    x, y = patterns(FP32, 1 << 16), torch.empty(1 << 16, dtype=target)
    interpret(cast_kernel, x, y, ROUNDING=None, N=1 << 16)
    on_gpu = (x.cuda(), y.cuda())
    launch("cast_kernel", on_gpu, {"ROUNDING": None, "N": 1 << 16})
    same(y.float(), on_gpu[1].cpu().float())


@pytest.mark.gpu
@pytest.mark.parametrize("side", [16, 64])
def test_a_gpu_drops_the_same_bits_to_tf32(interpret, side):
    # 16: mma.sync; 64: wgmma.
    a, c = torch.randn(side, side, generator=generator()), torch.empty(side, side)
    interpret(dot_kernel, a, torch.eye(side), c, PRECISION="tf32", N=side)
    on_gpu = (a.cuda(), torch.eye(side).cuda(), c.cuda())
    launch("dot_kernel", on_gpu, {"PRECISION": "tf32", "N": side})
    same(c, on_gpu[2].cpu())


# -- functions ---------------------------------------------------------------------------------------------------------

FUNCTIONS = {
    "tanh": torch.tanh,
    "pow": lambda x: x.abs().pow(1.5),
    "rint": lambda x: (x * 4).round(),
    "isnan": lambda x: (x == 0).float(),
    "fma_rn": lambda x: (x.double() * x.double() + x.double()).float(),
    "methods": lambda x: x.exp() + x.abs().sqrt() + x.sigmoid(),
}


@pytest.mark.parametrize("op", FUNCTIONS)
def test_libdevice_and_a_tensor_s_methods_compute_as_torch_does(interpret, op):
    x = torch.randn(64, generator=generator())
    x[3] = 0.0
    y = torch.empty_like(x)
    interpret(functions_kernel, x, y, OP=op, N=64)
    torch.testing.assert_close(y, FUNCTIONS[op](x))


def test_a_function_of_libdevice_that_nobody_wrote_here_is_named(interpret):
    with pytest.raises(Exception, match="ynf of libdevice"):
        interpret(functions_kernel, torch.ones(4), torch.ones(4), OP="yn", N=4)


def test_floats_are_exchanged_atomically(interpret):
    x = torch.randn(8, generator=generator())
    before, y = x.clone(), torch.empty(8)
    interpret(exchange_kernel, x, y, N=8)
    same(y, before)
    same(x, torch.full((8,), 2.5))


# -- loops -------------------------------------------------------------------------------------------------------------


def test_the_number_of_a_loop_is_a_scalar_of_triton_s(interpret):
    y = torch.zeros(8, dtype=torch.int32)
    interpret(counting_kernel, y, 5, STEPS=3)
    assert y.tolist() == [0, 0, 20, 0, 40, 2, 3, 4]


@pytest.mark.gpu
@pytest.mark.parametrize(("form", "side", "exact"), SUMMED_PRODUCTS)
def test_a_gpu_makes_a_dot_of_the_same_products(interpret, form, side, exact):
    a, c = torch.randn(side, side, generator=generator()), torch.empty(side, side)
    interpret(summed_products_kernel, a, torch.eye(side), c, FORM=form, N=side)
    on_gpu = (a.cuda(), torch.eye(side).cuda(), c.cuda())
    launch("summed_products_kernel", on_gpu, {"FORM": form, "N": side})
    same(c, on_gpu[2].cpu())


@pytest.mark.gpu
@pytest.mark.parametrize("target", SATURATED)
def test_a_gpu_saturates_the_same_integers(target):
    x, y = OUT_OF_RANGE.cuda(), torch.empty(8, dtype=target, device="cuda")
    launch("cast_kernel", (x, y), {"ROUNDING": None, "N": 8})
    assert y.tolist() == SATURATED[target]


@pytest.mark.gpu
def test_a_gpu_divides_by_zero_in_the_same_way():
    x, y, z = (torch.tensor(one, dtype=torch.int32, device="cuda") for one in ([-7, 7, 0, 8], [0, 0, 0, 3], [9] * 4))
    for op, expected in (("floor div", [-1, -1, -1, 2]), ("remainder", [-1, -1, -1, 2])):
        launch("binary_kernel", (x, y, z), {"OP": op, "N": 4})
        assert z.tolist() == expected
