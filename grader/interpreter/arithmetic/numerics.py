"""Correct the arithmetic of Triton's interpreter where it differs from a GPU's.

The interpreter holds bfloat16 and float8 as bit patterns, adds the patterns, and drops the carry of a rounding. Here
they are widened to float32 for an operation, and rounded to the nearest, ties to even, once per operation.

The model of a GPU is the PTX that Triton compiles for sm_90; code that does not compile there is refused here.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from grader.interpreter.arithmetic.hidden_nan import HIDDEN_NAN, largest, smallest
from grader.interpreter.basic_blocks import begin_basic_block, note_decision
from grader.interpreter.beyond import NeedsGpu
from grader.interpreter.groups import agreed, elements
from grader.interpreter.lowering import value_was_read
from grader.interpreter.versions import has_block_pointers

Array = NDArray[Any]

BFLOAT16 = "bf16"
# The kinds that an sm_90 GPU converts in hardware; Triton's own code converts all others.
FLOAT8 = {"fp8e5": torch.float8_e5m2, "fp8e4nv": torch.float8_e4m3fn}

# The NaN that PTX's instructions give.
_BFLOAT16_NAN = 0x7FFF
_FLOAT8_NAN = 0x7F
_ASKING_FOR_PRESENCE = frozenset({"triton.language.core", "triton.language.semantic"})
_TF32_BITS = np.uint32(0xFFFFE000)
# Products of float32 by tensor cores for bfloat16: the number of pieces that each operand is split into.
_BFLOAT16_PIECES = {"BF16x3": 2, "BF16x6": 3}


def correct_numerics() -> None:
    """Patch this process's interpreter. Call it before the submission is loaded."""
    _compute_with_numbers()
    _convert_to_the_nearest()
    _saturate_integers()
    _add_truth_values()
    _divide_by_zero()
    _fuse_multiply_add()
    _multiply_as_tensor_cores()
    _prefer_numbers_to_nan()
    _add_bfloat16_atomically()
    _exchange_any_bits()
    _pad_with_nan()
    _shift_copies()
    _take_scalars_as_numbers()
    _pass_scalars_as_tensors()
    _skip_overflow_checks()


# -- numbers ---------------------------------------------------------------------------------------------------------


def from_bfloat16(bits: Array) -> NDArray[np.float32]:
    """Return the numbers of bfloat16 patterns."""
    return np.asarray(np.asarray(bits).astype(np.uint32) << 16).view(np.float32)


def to_bfloat16(numbers: Array) -> NDArray[np.uint16]:
    """Return the bfloat16 patterns nearest to numbers of any type, rounded once; a NaN stays NaN."""
    single = np.asarray(_in_float32(np.asarray(numbers)))
    bits = single.view(np.uint32)
    rounded = bits + (np.uint32(0x7FFF) + (bits >> 16 & 1)) >> 16
    return np.where(np.isnan(single), _BFLOAT16_NAN, rounded).astype(np.uint16)


def from_float8(bits: Array, kind: str) -> NDArray[np.float32]:
    """Return the numbers of float8 patterns."""
    return _float8_numbers(kind)[bits]


def to_float8(numbers: Array, kind: str) -> NDArray[np.uint8]:
    """Return the float8 patterns nearest to float32 numbers, saturated at the largest finite one; a NaN stays NaN."""
    dtype = FLOAT8[kind]
    largest = torch.finfo(dtype).max
    finite = np.ascontiguousarray(np.clip(numbers, -largest, largest), np.float32)
    bits = torch.from_numpy(finite).to(dtype).view(torch.uint8).numpy().reshape(np.shape(numbers))
    return np.where(np.isnan(numbers), _FLOAT8_NAN, bits).astype(np.uint8)


def to_tf32(numbers: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return float32 as a tensor core reads it: 10 of 23 mantissa bits; the others are cut off, not rounded."""
    return np.where(np.isnan(numbers), numbers, (numbers.view(np.uint32) & _TF32_BITS).view(np.float32))


def toward_zero(numbers: NDArray[np.float32], kind: str) -> Array:
    """Return the patterns of float32 numbers rounded toward zero to "bf16", "fp16" or "fp8e5"."""
    if kind == "fp8e5":
        # As compiled code does: the upper half of a float16.
        return (toward_zero(numbers, "fp16").view(np.uint16) >> 8).astype(np.uint8)
    if kind == BFLOAT16:
        bits = to_bfloat16(numbers)
        return bits - (np.abs(from_bfloat16(bits)) > np.abs(numbers))
    nearest = np.asarray(numbers).astype(np.float16)
    bits = nearest.view(np.uint16)
    return (bits - (np.abs(nearest.astype(np.float32)) > np.abs(numbers))).astype(np.uint16).view(np.float16)


def sum_to_odd(left: NDArray[np.float64], right: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a float64 sum rounded to odd: an inexact one ends in a 1, so that a second rounding adds no error."""
    total = np.asarray(left + right)
    back = total - left
    error = (left - (total - back)) + (right - back)
    beside = np.nextafter(total, np.where(error > 0, np.inf, -np.inf))
    return np.where((np.abs(error) > 0) & (total.view(np.uint64) & 1 == 0), beside, total)


def to_integers(numbers: Array, dtype: np.dtype[Any]) -> Array:
    """Return the integers of numbers as PTX converts them: the fraction is cut off, and what does not fit saturates.

    It converts to 16 bits or more; a narrower type keeps the lower ones of these. NaN becomes 0; to 64 bits and from
    float64 the smallest signed number, or the middle of the unsigned ones.
    """
    limits = np.iinfo(f"{dtype.kind}{max(2, dtype.itemsize)}")
    # Powers of two, which every floating-point type holds.
    first, end = float(limits.min), float(limits.max + 1)
    wide = np.trunc(numbers.astype(np.float64))
    inside = (wide >= first) & (wide < end)
    whole = np.where(inside, wide, 0.0).astype(limits.dtype)
    whole = np.where(wide >= end, limits.max, np.where(wide < first, limits.min, whole)).astype(limits.dtype)
    if numbers.dtype == np.float64 or limits.bits == 64:
        missing = limits.min if dtype.kind == "i" else (limits.max >> 1) + 1
        whole = np.where(np.isnan(numbers), limits.dtype.type(missing), whole)
    return whole.astype(dtype)


def _in_float32(numbers: Array) -> Array:
    """Return numbers in float32, rounded to odd: an inexact one ends in a 1."""
    if numbers.dtype.kind in "iub":
        whole = numbers if numbers.dtype == np.uint64 else numbers.astype(np.int64)
        numbers = sum_to_odd((whole >> 32).astype(np.float64) * 2.0**32, (whole & 0xFFFFFFFF).astype(np.float64))
    if numbers.dtype != np.float64:
        return numbers.astype(np.float32, copy=False)
    nearest = np.asarray(numbers.astype(np.float32))
    toward = np.where(numbers > nearest, np.float32(np.inf), np.float32(-np.inf))
    inexact = (nearest != numbers) & (nearest.view(np.uint32) & 1 == 0)
    return np.where(inexact, np.nextafter(nearest, toward), nearest)


@functools.cache
def _float8_numbers(kind: str) -> NDArray[np.float32]:
    """Return the numbers of all 256 patterns."""
    numbers: NDArray[np.float32] = torch.arange(256, dtype=torch.uint8).view(FLOAT8[kind]).float().numpy()
    return numbers


# -- what the interpreter's handles hold -----------------------------------------------------------------------------


def _kind(handle: Any) -> str:
    """Return the name of a handle's element type."""
    return str(handle.dtype.scalar.name)


def _is_float8(kind: str) -> bool:
    return kind.startswith("fp8")


def _numbers(handle: Any) -> Array:
    """Return a handle's elements in a type that NumPy computes with."""
    kind = _kind(handle)
    if kind == BFLOAT16:
        return from_bfloat16(handle.data)
    if kind in FLOAT8:
        return from_float8(handle.data, kind)
    if _is_float8(kind):
        raise NeedsGpu(f"the type {kind}")
    return np.asarray(handle.data)


def _widened(handle: Any) -> Any:
    """Return a handle of the same numbers in a type that NumPy knows."""
    import triton.language as tl

    kind = _kind(handle)
    return type(handle)(_numbers(handle), tl.float32) if kind == BFLOAT16 or _is_float8(kind) else handle


def refuse_float8(kinds: set[str]) -> None:
    """Raise NotImplementedError where one of the kinds is a float8."""
    for kind in kinds:
        if _is_float8(kind):
            raise NotImplementedError(f"{kind} has no arithmetic on a GPU: convert it first, to float32 or float16")


# -- hooks -----------------------------------------------------------------------------------------------------------


def _compute_with_numbers() -> None:
    """Compute on bfloat16 through float32, return booleans from comparisons, refuse arithmetic on float8."""
    from triton.runtime.interpreter import InterpreterBuilder, TensorHandle, tl

    def computing(method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def with_numbers(self: Any, *operands: Any) -> Any:
            kinds = {_kind(one) for one in operands if isinstance(one, TensorHandle)}
            refuse_float8(kinds)
            if BFLOAT16 in kinds:
                operands = tuple(_widened(one) if isinstance(one, TensorHandle) else one for one in operands)
            result = method(self, *operands)
            if result.data.dtype == np.bool_:
                HIDDEN_NAN.note(*(one.data for one in operands if isinstance(one, TensorHandle)))
                # The interpreter gives a comparison its operands' type, and a later conversion trusts that.
                return TensorHandle(result.data, tl.int1)
            return TensorHandle(to_bfloat16(result.data), tl.bfloat16) if BFLOAT16 in kinds else result

        return with_numbers

    for name in ("binary_op", "unary_op", "create_clampf", "create_rsqrt", "create_erf"):
        setattr(InterpreterBuilder, name, computing(getattr(InterpreterBuilder, name)))
    fabs = InterpreterBuilder.create_fabs

    def create_fabs(self: Any, arg: Any) -> Any:
        refuse_float8({_kind(arg)})
        return fabs(self, arg)

    InterpreterBuilder.create_fabs = create_fabs


def _convert_to_the_nearest() -> None:
    """Correct conversions and constants of bfloat16 and float8; every other conversion passes through unchanged."""
    from triton.runtime.interpreter import InterpreterBuilder, TensorHandle, _ir, tl

    cast = InterpreterBuilder.cast_impl

    def cast_impl(self: Any, src: Any, dst_type: Any) -> Any:
        source, target = _kind(src), str(dst_type.scalar.name)
        if _is_float8(source) or _is_float8(target):
            _check_float8(source, target)
        if _is_float8(target):
            return TensorHandle(to_float8(_numbers(src).astype(np.float32), target), dst_type.scalar)
        if target == BFLOAT16:
            return TensorHandle(to_bfloat16(_numbers(src)), dst_type.scalar)
        return cast(self, _widened(src), dst_type)

    def create_fp_to_fp(self: Any, src: Any, dst_type: Any, rounding_mode: Any) -> Any:
        if rounding_mode != _ir.ROUNDING_MODE.RTZ:
            return self.cast_impl(src, dst_type)
        source, target = _kind(src), str(dst_type.scalar.name)
        if source != "fp32" or target not in {"fp16", BFLOAT16, "fp8e5"}:
            raise NotImplementedError(f"{source} rounded toward zero to {target} does not compile for a GPU")
        return TensorHandle(toward_zero(src.data, target), dst_type.scalar)

    bitcast = InterpreterBuilder.create_bitcast

    def create_bitcast(self: Any, src: Any, dst_type: Any) -> Any:
        if not dst_type.scalar.is_floating():
            HIDDEN_NAN.note(_numbers(src))
        return bitcast(self, src, dst_type)

    InterpreterBuilder.create_bitcast = create_bitcast
    InterpreterBuilder.cast_impl = cast_impl
    InterpreterBuilder.create_fp_to_fp = create_fp_to_fp
    InterpreterBuilder.get_bf16 = lambda self, value: TensorHandle(to_bfloat16(np.array([value])), tl.bfloat16)


def _saturate_integers() -> None:
    """Convert numbers to integers as PTX does where they do not fit; NumPy wraps some around, as an x86 CPU does."""
    from triton.runtime.interpreter import InterpreterBuilder, TensorHandle, _get_np_dtype

    def convert(_builder: Any, src: Any, dst_type: Any) -> Any:
        numbers, dtype = _numbers(src), np.dtype(_get_np_dtype(dst_type))
        HIDDEN_NAN.note(numbers)
        return TensorHandle(to_integers(numbers, dtype), dst_type.scalar)

    InterpreterBuilder.create_fp_to_si = InterpreterBuilder.create_fp_to_ui = convert


def _add_truth_values() -> None:
    """Add and subtract truth values in one bit, as a GPU does: true + true is false. NumPy takes `or`, or raises."""
    from triton.runtime.interpreter import InterpreterBuilder, TensorHandle

    def in_one_bit(method: Callable[..., Any]) -> Callable[..., Any]:
        def computed(self: Any, lhs: Any, rhs: Any) -> Any:
            if lhs.data.dtype != np.bool_ or rhs.data.dtype != np.bool_:
                return method(self, lhs, rhs)
            return TensorHandle(lhs.data ^ rhs.data, lhs.dtype.scalar)

        return computed

    for name in ("create_add", "create_sub"):
        setattr(InterpreterBuilder, name, in_one_bit(getattr(InterpreterBuilder, name)))


def _divide_by_zero() -> None:
    """Give integer division by zero, and its remainder, all ones: PTX leaves them open, an H200 gives that, NumPy 0."""
    from triton.runtime.interpreter import InterpreterBuilder, TensorHandle

    def with_zero(method: Callable[..., Any]) -> Callable[..., Any]:
        def divided(self: Any, lhs: Any, rhs: Any) -> Any:
            result = method(self, lhs, rhs)
            if rhs.data.all():
                return result
            return TensorHandle(np.where(rhs.data == 0, ~np.zeros_like(result.data), result.data), result.dtype)

        return divided

    for name in ("create_sdiv", "create_udiv", "create_srem", "create_urem"):
        setattr(InterpreterBuilder, name, with_zero(getattr(InterpreterBuilder, name)))


def _check_float8(source: str, target: str) -> None:
    """Refuse a conversion that a GPU does not make, or that cannot be made here as a GPU makes it."""
    for kind in (source, target):
        if _is_float8(kind) and kind not in FLOAT8:
            raise NeedsGpu(f"the type {kind}")
    if "fp64" in (source, target) or (_is_float8(source) and _is_float8(target)):
        raise NotImplementedError(f"{source} to {target} does not compile for a GPU: go through float32")


def _fuse_multiply_add() -> None:
    """Let tl.fma round once, except in float64, whose product NumPy cannot hold."""
    from triton.runtime.interpreter import InterpreterBuilder, TensorHandle

    fma = InterpreterBuilder.create_fma

    def create_fma(self: Any, x: Any, y: Any, z: Any) -> Any:
        refuse_float8({_kind(z)})
        if _kind(z) == "fp64":
            return fma(self, x, y, z)
        x_wide, y_wide, z_wide = (_numbers(one).astype(np.float64) for one in (x, y, z))
        # float64 holds the product of two float32 numbers exactly.
        exact = sum_to_odd(x_wide * y_wide, z_wide)
        rounded = to_bfloat16(exact) if _kind(z) == BFLOAT16 else exact.astype(z.data.dtype)
        return TensorHandle(rounded, z.dtype.scalar)

    InterpreterBuilder.create_fma = create_fma


def _multiply_as_tensor_cores() -> None:
    """Let tl.dot multiply bfloat16 and float8 exactly, and float32 as input_precision says: cut to TF32 by default.

    Sums are in float64, rounded to float32: as on a GPU, equal rows and columns give equal bits wherever in a tile they
    lie. NumPy's sums in float32 do not, and tiles that overlap would race.
    """
    from triton.backends.nvidia.compiler import CUDAOptions
    from triton.runtime.interpreter import InterpreterBuilder, TensorHandle, _ir, interpreter_builder, tl

    dot = InterpreterBuilder.create_dot
    precisions = CUDAOptions.allowed_dot_input_precisions
    interpreter_builder.options = replace(interpreter_builder.options, allowed_dot_input_precisions=precisions)

    def create_dot(self: Any, a: Any, b: Any, d: Any, input_precision: Any, max_num_imprecise_acc: Any) -> Any:
        # wgmma's .tf32 operands come as float32 from memory, with no conversion in between. "tf32x3" repairs the cut.
        if _kind(a) == "fp32" and input_precision == _ir.INPUT_PRECISION.TF32:
            a, b = (TensorHandle(to_tf32(one.data), tl.float32) for one in (a, b))
        pieces = _BFLOAT16_PIECES.get(input_precision.name, 0)
        if _kind(a) == "fp32" and pieces:
            return TensorHandle(_product_of_pieces(a.data, b.data, pieces) + d.data, d.dtype.scalar)
        a, b = _widened(a), _widened(b)
        if d.data.dtype != np.float32:
            return dot(self, a, b, d, input_precision, max_num_imprecise_acc)
        with np.errstate(over="ignore"):
            product = (a.data.astype(np.float64) @ b.data.astype(np.float64)).astype(np.float32)
        return TensorHandle(product + d.data, d.dtype.scalar)

    InterpreterBuilder.create_dot = create_dot


def _product_of_pieces(a: Array, b: Array, pieces: int) -> Array:
    """Return the product of two float32 blocks that are split into so many bfloat16 numbers each, largest first.

    Products of small pieces are left out. Of infinities only the first piece counts: what is left of them is NaN.
    """
    of_a, of_b = _in_pieces(a, pieces), _in_pieces(b, pieces)
    with np.errstate(over="ignore", invalid="ignore"):
        small = sum(of_a[i] @ of_b[j] for i in range(pieces) for j in range(pieces - i) if i or j)
        return np.asarray((of_a[0] @ of_b[0] + np.where(np.isnan(small), 0.0, small)).astype(np.float32))


def _in_pieces(numbers: Array, pieces: int) -> list[Array]:
    """Return bfloat16 numbers, in float64, whose sum is nearest to float32 numbers; of those left, each the nearest."""
    found: list[Array] = []
    left = numbers
    for _ in range(pieces):
        piece = from_bfloat16(to_bfloat16(left))
        found.append(piece.astype(np.float64))
        with np.errstate(invalid="ignore"):
            left = left - piece
    return found


def _prefer_numbers_to_nan() -> None:
    """Let tl.maximum, tl.minimum and tl.clamp return the other operand for a NaN, unless told to propagate it."""
    from triton.runtime.interpreter import InterpreterBuilder, tl

    clampf = InterpreterBuilder.create_clampf

    def create_clampf(self: Any, arg: Any, lo: Any, hi: Any, propagate_nans: Any) -> Any:
        if propagate_nans == tl.PropagateNan.ALL:
            return clampf(self, arg, lo, hi, propagate_nans)
        return self.create_minnumf(self.create_maxnumf(arg, lo), hi)

    InterpreterBuilder.create_maxnumf = lambda self, lhs, rhs: self.binary_op(lhs, rhs, largest)
    InterpreterBuilder.create_minnumf = lambda self, lhs, rhs: self.binary_op(lhs, rhs, smallest)
    InterpreterBuilder.create_clampf = create_clampf


def _add_bfloat16_atomically() -> None:
    """Let tl.atomic_add on bfloat16 add lane by lane, each sum rounded. Triton refuses all other bfloat16 atomics."""
    from triton.runtime.interpreter import InterpreterBuilder, TensorHandle, _interpreter, _ir

    rmw = InterpreterBuilder.create_atomic_rmw
    dtype = np.dtype(np.uint16)

    def create_atomic_rmw(self: Any, rmwOp: Any, ptr: Any, val: Any, mask: Any, sem: Any, scope: Any) -> Any:  # noqa: N803
        if _kind(val) != BFLOAT16 or rmwOp != _ir.ATOMIC_OP.FADD:
            return rmw(self, rmwOp, ptr, val, mask, sem, scope)
        addresses, addends, lit = (one.ravel() for one in np.broadcast_arrays(ptr.data, val.data, mask.data))
        old = np.zeros(addresses.shape, dtype)
        waiting = np.flatnonzero(lit)
        while waiting.size:
            # The first lane of every address, together: their addresses are distinct.
            _, first = np.unique(addresses[waiting], return_index=True)
            lanes = waiting[first]
            everywhere = np.ones(lanes.shape, dtype=bool)
            found = _interpreter.load(addresses[lanes], everywhere, np.zeros(lanes.shape, dtype), dtype)
            total = to_bfloat16(from_bfloat16(found) + from_bfloat16(addends[lanes]))
            _interpreter.store(addresses[lanes], total, everywhere)
            old[lanes] = found
            waiting = np.delete(waiting, first)
        return TensorHandle(old.reshape(np.broadcast_shapes(ptr.data.shape, val.data.shape)), val.dtype.scalar)

    InterpreterBuilder.create_atomic_rmw = create_atomic_rmw


def _exchange_any_bits() -> None:
    """Let tl.atomic_xchg exchange the bits of floats, which the interpreter refuses."""
    from triton.runtime.interpreter import InterpreterBuilder, TensorHandle, _ir

    rmw = InterpreterBuilder.create_atomic_rmw

    def create_atomic_rmw(self: Any, rmwOp: Any, ptr: Any, val: Any, mask: Any, sem: Any, scope: Any) -> Any:  # noqa: N803
        if rmwOp != _ir.ATOMIC_OP.XCHG or val.data.dtype.kind != "f" or val.data.itemsize < 4:
            return rmw(self, rmwOp, ptr, val, mask, sem, scope)
        bits = TensorHandle(val.data.view(f"i{val.data.itemsize}"), val.dtype)
        old = rmw(self, rmwOp, ptr, bits, mask, sem, scope)
        return TensorHandle(old.data.view(val.data.dtype), val.dtype.scalar)

    InterpreterBuilder.create_atomic_rmw = create_atomic_rmw


def _pad_with_nan() -> None:
    """Pad bfloat16 with NaN for padding_option="nan", where the interpreter pads with zeros."""
    from triton.runtime.interpreter import InterpreterBuilder, TensorHandle, _ir, tl

    load = InterpreterBuilder.create_descriptor_load

    def padded(self: Any, ptrs: Any, mask: Array, *how: Any) -> Any:
        other = TensorHandle(np.full(ptrs.data.shape, _BFLOAT16_NAN, np.uint16), tl.bfloat16)
        return self.create_masked_load(ptrs, TensorHandle(mask, tl.int1), other, *how)

    def create_descriptor_load(self: Any, desc: Any, indices: Any, *how: Any) -> Any:
        if desc.padding != _ir.PADDING_OPTION.PAD_NAN or desc.base.get_element_ty().name != BFLOAT16:
            return load(self, desc, indices, *how)
        return padded(self, *desc.materialize_pointers(indices), *how, False)

    InterpreterBuilder.create_descriptor_load = create_descriptor_load
    if not has_block_pointers():
        return
    load_block = InterpreterBuilder.create_tensor_pointer_load

    def create_tensor_pointer_load(self: Any, ptr: Any, boundary_check: Any, padding_option: Any, *how: Any) -> Any:
        if padding_option != _ir.PADDING_OPTION.PAD_NAN or ptr.base.get_element_ty().name != BFLOAT16:
            return load_block(self, ptr, boundary_check, padding_option, *how)
        return padded(self, *ptr.materialize_pointers(boundary_check), *how)

    InterpreterBuilder.create_tensor_pointer_load = create_tensor_pointer_load


def _shift_copies() -> None:
    """Let an arithmetic shift leave its operands alone; the interpreter turns their data into signed integers."""
    from triton.runtime.interpreter import InterpreterBuilder, TensorHandle

    ashr = InterpreterBuilder.create_ashr

    def create_ashr(self: Any, lhs: Any, rhs: Any) -> Any:
        shifted = ashr(self, *(TensorHandle(one.data, one.dtype) for one in (lhs, rhs)))
        return TensorHandle(shifted.data.astype(lhs.data.dtype), shifted.dtype)

    InterpreterBuilder.create_ashr = create_ashr


def _take_scalars_as_numbers() -> None:
    """Let a scalar be an index with every NumPy (Triton 3.6 needs NumPy < 2.4 for it); refuse a block as a truth value.

    `mask_a and mask_b`, `not mask` and `max(block, 0.0)` compile, but are Python's own in the interpreter, which takes
    every block for true: the first would be mask_b.
    """
    from triton.runtime import interpreter

    patch_tensor = interpreter._patch_lang_tensor

    def truth(block: Any) -> bool:
        asking = str(sys._getframe(1).f_globals.get("__name__"))
        data = block.handle.data
        size = elements(data)
        # Triton's own `if mask` only asks for None, and so does `other if other else None`.
        if asking in _ASKING_FOR_PRESENCE or (size > 1 and asking.startswith("triton.")):
            return True
        if size == 1:
            value_was_read()
            note_decision()
            begin_basic_block()
            return bool(agreed(data))
        raise TypeError(
            f"only a scalar is true or false, got a block of shape {list(data.shape)}: "
            "write &, | and ~ for and, or and not, tl.maximum and tl.minimum for max and min"
        )

    def index(scalar: Any) -> int:
        value_was_read()
        note_decision()
        return int(agreed(scalar.handle.data))

    def patch_lang_tensor(tensor: Any, scope: Any) -> None:
        patch_tensor(tensor, scope)
        scope.set_attr(tensor, "__index__", index)
        scope.set_attr(tensor, "__bool__", truth)

    interpreter._patch_lang_tensor = patch_lang_tensor


# Types of numbers that a parameter can be declared with.
_DECLARED = frozenset(
    {"u1", *(f"{sign}{bits}" for sign in "iu" for bits in (8, 16, 32, 64)), *(f"fp{bits}" for bits in (16, 32, 64))}
)


def _pass_scalars_as_tensors() -> None:
    """Pass a float argument as float32, a bool as int1, and a number whose parameter has a type as that type.

    The interpreter passes a Python float, which adapts to any type: float16 times it would be float16, not float32. It
    ignores the types of parameters: a stride that is declared tl.int64 would be int32, and offsets would wrap around.
    """
    from triton.runtime import interpreter
    from triton.runtime.interpreter import GridExecutor, TensorHandle, _get_np_dtype, tl
    from triton.runtime.jit import _normalize_ty

    convert, to_host = interpreter._implicit_cvt, GridExecutor._init_args_hst

    def scalar(value: Any, kind: Any) -> Any:
        return tl.tensor(TensorHandle(np.array([value], _get_np_dtype(kind)), kind), kind)

    def implicit_cvt(arg: Any) -> Any:
        if not isinstance(arg, bool | float):
            return convert(arg)
        return scalar(arg, tl.int1 if isinstance(arg, bool) else tl.float32)

    def with_types(executor: Any, args_dev: Any, kwargs: Any) -> Any:
        parameters = inspect.signature(executor.fn).parameters.values()
        declared = {one.name: _normalize_ty(one.annotation) for one in parameters if one.annotation is not one.empty}
        kinds = {name: tl.str_to_ty(kind, None) for name, kind in declared.items() if kind in _DECLARED}

        def typed(name: str, value: Any) -> Any:
            return scalar(value, kinds[name]) if name in kinds and isinstance(value, bool | int | float) else value

        args, named = to_host(executor, args_dev, kwargs)
        names = [*executor.arg_names, *[""] * len(args)]
        return [*map(typed, names, args)], {name: typed(name, value) for name, value in named.items()}

    interpreter._implicit_cvt = implicit_cvt
    GridExecutor._init_args_hst = with_types


def _skip_overflow_checks() -> None:
    """Skip the int64 overflow checks of integer operations: compiled code makes them in debug mode only, which is off.

    They cost a third of the time of a small matrix product.
    """
    from triton.runtime.interpreter import interpreter_builder

    interpreter_builder.options = replace(interpreter_builder.options, sanitize_overflow=False)
