"""Pack arguments for a compiled CuTe program, which takes a pointer to each of them."""

from __future__ import annotations

import ctypes
import math
import re
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from grader.replay.cute_checking import refusal

STREAM = "!cuda.stream"
_TENSOR = re.compile(
    r"!cute\.memref<(?P<element>\w+), (?P<space>gmem|generic)(?:, align<(?P<align>\d+)>)?, "
    r'"\((?P<shape>[^()]*)\):\((?P<strides>[^()]*)\)">'
)
# One size or stride of a layout: open (?), with its width and divisor, or fixed.
_LEAF = re.compile(r"\?(?:\{(?P<wide>i64)?\s*(?:div=(?P<divisor>\d+))?\})?|(?P<fixed>\d+)")
_BITS = re.compile(r"(?:[su]?i|bf|t?f)(?P<bits>\d+)")
_INTEGERS: Mapping[str, Any] = {
    "i1": ctypes.c_bool,
    "i8": ctypes.c_int8,
    "i16": ctypes.c_int16,
    "i32": ctypes.c_int32,
    "i64": ctypes.c_int64,
}


@dataclass(frozen=True)
class Packed:
    """Memory from which a compiled function reads an argument. alive: objects that must live as long."""

    memory: Any
    alive: object = None

    @property
    def address(self) -> int:
        """Return its address."""
        return ctypes.addressof(self.memory)


def packed(kind: str, value: object) -> Packed:
    """Return an argument of the MLIR type `kind`. Raises RefusedFunction for a value of another kind."""
    if isinstance(value, Tensor):
        return _tensor(kind, value)
    if kind == STREAM and value is None:
        return Packed(ctypes.c_void_p(0))
    if kind in _INTEGERS and isinstance(value, int):
        return Packed(_INTEGERS[kind](value))
    if kind in ("f32", "f64") and isinstance(value, float):
        return Packed(ctypes.c_float(value) if kind == "f32" else ctypes.c_double(value))
    if kind in ("f16", "bf16") and isinstance(value, float):
        return Packed(ctypes.c_uint16(_half_bits(kind, value)))
    raise refusal(f"an argument must be a {kind[:80]}, got a {type(value).__name__}")


def check_types(kinds: Sequence[str]) -> None:
    """Raise RefusedFunction for a type of argument that no trace can hold."""
    for kind in kinds:
        if kind not in (STREAM, *_INTEGERS, "f16", "bf16", "f32", "f64") and not _TENSOR.fullmatch(kind):
            raise refusal(f"an argument must be a tensor, a number or a stream, got {kind[:80]}")


def _half_bits(kind: str, value: float) -> int:
    try:
        raw = struct.pack("<e", value) if kind == "f16" else struct.pack("<f", value)[2:]
    except OverflowError:
        raw = struct.pack("<e", math.copysign(math.inf, value))
    return int.from_bytes(raw, "little")


def _tensor(kind: str, tensor: Tensor) -> Packed:
    """Return a tensor's descriptor: its address, then each size and stride that the type leaves open."""
    from cutlass.cute.runtime import from_dlpack

    if (found := _TENSOR.fullmatch(kind)) is None:
        raise refusal(f"an argument must be a {kind[:80]}, got a tensor")
    bits = _BITS.match(found["element"])
    if bits is None or int(bits["bits"]) != 8 * tensor.element_size():
        raise refusal(f"an argument must have elements of {found['element']}, got {tensor.dtype}")
    if (found["space"] == "gmem") != tensor.is_cuda:
        raise refusal(f"an argument must lie in memory of the kind {found['space']}, got {tensor.device}")
    # CuTe chooses the strides of axes with one element itself.
    seen = from_dlpack(tensor)
    address = tensor.data_ptr()
    if address % int(found["align"] or 1):
        raise refusal(f"an argument must lie at a multiple of {found['align']} bytes")
    sizes = _open_leaves(found["shape"], seen.shape, seen.shape, "size")
    strides = _open_leaves(found["strides"], seen.stride, seen.shape, "stride")
    fields = [("address", ctypes.c_uint64), *((f"open{i}", one) for i, (one, _) in enumerate((*sizes, *strides)))]
    descriptor = type("Descriptor", (ctypes.Structure,), {"_fields_": fields})
    return Packed(descriptor(address, *(value for _, value in (*sizes, *strides))), (tensor, seen))


def _open_leaves(text: str, values: Sequence[int], shape: Sequence[int], what: str) -> list[tuple[Any, int]]:
    """Return (C type, value) of every size or stride that a type leaves open."""
    leaves = [one.strip() for one in text.split(",")] if text else []
    if len(leaves) != len(values):
        raise refusal(f"an argument must have {len(leaves)} axes, got {len(values)}")
    found = []
    for leaf, value, size in zip(leaves, values, shape, strict=True):
        read = _LEAF.fullmatch(leaf)
        if read is None:
            raise refusal(f"a {what} must be a number or open, got {leaf[:40]}")
        matters = what == "size" or size > 1
        if read["fixed"] is not None and matters and int(read["fixed"]) != value:
            raise refusal(f"an argument must have the {what} {leaf}, got {value}")
        if matters and value % int(read["divisor"] or 1):
            raise refusal(f"a {what} must be a multiple of {read['divisor']}, got {value}")
        if read["fixed"] is None:
            kind = ctypes.c_int64 if read["wide"] else ctypes.c_int32
            if not -(1 << 31) <= value < 1 << 31 and not read["wide"]:
                raise refusal(f"a {what} must be of 32 bits, got {value}")
            found.append((kind, value))
    return found
