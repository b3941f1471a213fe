"""Build the tensors of `inputs.py` files: families of values and memory layouts, from a seeded generator.

Runs on both sides of the process boundary and must give the same bits on each. Everything is drawn on the device of
the `torch.Generator`: the CPU where answers are judged, the GPU where they are timed (a seed gives the same bits in
every process, but other bits on another kind of device).
"""

from __future__ import annotations

import builtins
import math
import mmap
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from itertools import permutations
from typing import Any

import numpy as np
import torch
from torch import Generator, Tensor

_WRAPS_AT = 1 << 31
# A multiple of what any access needs, so that rows stay aligned.
_ROW_ELEMENTS = 64
# Linux. The pages of such memory exist once they are written.
_NO_RESERVE = 0x4000


def dtype_of(name: object) -> torch.dtype:
    """Return the torch dtype of that name, such as "float16". Raises TypeError for anything else."""
    found = getattr(torch, str(name), None)
    if not isinstance(found, torch.dtype):
        raise TypeError(f"a dtype must be named as in torch, got {name!r}")
    return found


# Bytes of an element, by the names of the usual dtypes. A name that is claimed may be any text.
ITEMSIZES = {"float64": 8, "int64": 8, "float32": 4, "int32": 4, "float16": 2, "bfloat16": 2, "int16": 2, "int8": 1}


def dtype_name(dtype: torch.dtype) -> str:
    """Return the name of a torch dtype, such as "float16"."""
    return str(dtype).removeprefix("torch.")


def values(family: object, shape: Sequence[int], dtype: torch.dtype, generator: Generator) -> Tensor:
    """Return a contiguous tensor [*shape] of one family of values, drawn in float32 and rounded to `dtype`.

    normal: standard normal. large: up to a quarter of the largest finite number (at most 1e30), both signs. tiny:
    around the smallest normal number. small: normal around 0 at a millionth of the usual size. huge: at least half of
    the largest finite number, both signs, so that sums overflow. constant: one repeated value. one_hot: a single 1
    along the last axis, zeros elsewhere. shifted: normal around 100. nonfinite: normal with some +inf, -inf, NaN and
    zeros. bits: any bit pattern, so NaN and infinities too, and numbers below the smallest normal one; some are -0.0.
    masked: normal with -inf in up to half of each row, never in all of it. late: normal with -inf in half of each row
    or more, from its start on, never in all of it. negative: normal around minus a million (or a quarter of the
    largest finite number). masked_negative: the same with -inf as in masked. lowest: around minus half of the largest
    finite number. highest: around half of it. extreme: ±1e4. stretch: normal, but in each row one stretch, anywhere
    and up to all of it, holds zeros, or equal numbers, or numbers around 1000 or -1000, at random. gap: normal with
    -inf in one stretch of each row, anywhere, never all of it. outlier: in each row of N numbers one, anywhere, that
    lies above the others by ln N in the first row and by ln N + 12 in the last: each of the others is little in a
    softmax, and all of them together are not.
    """
    try:
        family_values = _FAMILIES[str(family)]
    except KeyError:
        raise ValueError(f"a family of values must be one of {', '.join(_FAMILIES)}, got {family!r}") from None
    return family_values(tuple(shape), dtype, generator).to(dtype)


def _normal(shape: tuple[int, ...], dtype: torch.dtype, generator: Generator) -> Tensor:
    return torch.randn(shape, generator=generator, device=generator.device)


def _rounded_normal(shape: tuple[int, ...], dtype: torch.dtype, generator: Generator) -> Tensor:
    # On a GPU gigabytes are drawn beside what is timed: rounded in the same pass.
    drawn = dtype if generator.device.type == "cuda" and dtype in (torch.float16, torch.bfloat16) else torch.float32
    return torch.randn(shape, generator=generator, device=generator.device, dtype=drawn)


def _large(shape: tuple[int, ...], dtype: torch.dtype, generator: Generator) -> Tensor:
    top = min(torch.finfo(dtype).max / 4, 1e30)
    return (2 * torch.rand(shape, generator=generator, device=generator.device) - 1) * top


def _huge(shape: tuple[int, ...], dtype: torch.dtype, generator: Generator) -> Tensor:
    sign = _normal(shape, dtype, generator).sign()
    return sign * (1 + torch.rand(shape, generator=generator, device=generator.device)) * (torch.finfo(dtype).max / 2)


def _tiny(shape: tuple[int, ...], dtype: torch.dtype, generator: Generator) -> Tensor:
    return _normal(shape, dtype, generator) * (8 * torch.finfo(dtype).tiny)


def _small(shape: tuple[int, ...], dtype: torch.dtype, generator: Generator) -> Tensor:
    return _normal(shape, dtype, generator) * 2.0**-20


def _constant(shape: tuple[int, ...], dtype: torch.dtype, generator: Generator) -> Tensor:
    # A clone of one expanded element would keep its strides of 0.
    return torch.empty(shape, device=generator.device).fill_(
        torch.randn((), generator=generator, device=generator.device)
    )


def _one_hot(shape: tuple[int, ...], dtype: torch.dtype, generator: Generator) -> Tensor:
    zeros = torch.zeros(shape, device=generator.device)
    if not shape[-1]:
        return zeros
    hot = torch.randint(shape[-1], (*shape[:-1], 1), generator=generator, device=generator.device)
    return zeros.scatter_(-1, hot, 1.0)


def _shifted(shape: tuple[int, ...], dtype: torch.dtype, generator: Generator) -> Tensor:
    return _normal(shape, dtype, generator) + 100


def _extreme(shape: tuple[int, ...], dtype: torch.dtype, generator: Generator) -> Tensor:
    return _normal(shape, dtype, generator).sign() * 1e4


def _nonfinite(shape: tuple[int, ...], dtype: torch.dtype, generator: Generator) -> Tensor:
    drawn = _normal(shape, dtype, generator)
    dice = torch.rand(shape, generator=generator, device=generator.device)
    # Zeros of one operand meet infinities and NaN of another.
    for share, value in ((0.16, 0.0), (0.06, math.nan), (0.04, -math.inf), (0.02, math.inf)):
        drawn = drawn.masked_fill_(dice < share, value)
    return drawn


def _bits(shape: tuple[int, ...], dtype: torch.dtype, generator: Generator) -> Tensor:
    whole = {2: torch.int16, 4: torch.int32, 8: torch.int64}[dtype.itemsize]
    least, most = torch.iinfo(whole).min, torch.iinfo(whole).max
    drawn = torch.randint(least, most, shape, generator=generator, device=generator.device, dtype=whole)
    # A zero but for its sign.
    drawn = drawn.masked_fill_(torch.rand(shape, generator=generator, device=generator.device) < 0.05, least)
    return drawn.view(dtype)


def _negative(shape: tuple[int, ...], dtype: torch.dtype, generator: Generator) -> Tensor:
    return _normal(shape, dtype, generator) - min(torch.finfo(dtype).max / 4, 1e6)


def _masked(shape: tuple[int, ...], dtype: torch.dtype, generator: Generator) -> Tensor:
    return _with_hidden(_normal(shape, dtype, generator), generator)


def _masked_negative(shape: tuple[int, ...], dtype: torch.dtype, generator: Generator) -> Tensor:
    return _with_hidden(_negative(shape, dtype, generator), generator)


def _lowest(shape: tuple[int, ...], dtype: torch.dtype, generator: Generator) -> Tensor:
    # Lower than what code uses for -infinity, such as -1e30; log2(e) times it is still finite.
    return (torch.rand(shape, generator=generator, device=generator.device) / 8 - 1) * (torch.finfo(dtype).max / 2)


def _highest(shape: tuple[int, ...], dtype: torch.dtype, generator: Generator) -> Tensor:
    return -_lowest(shape, dtype, generator)


def _late(shape: tuple[int, ...], dtype: torch.dtype, generator: Generator) -> Tensor:
    share = 0.5 + 0.5 * torch.rand((*shape[:-1], 1), generator=generator, device=generator.device)
    hidden = (share * shape[-1]).floor().clamp(max=shape[-1] - 1)
    places = torch.arange(shape[-1], device=generator.device)
    return _normal(shape, dtype, generator).masked_fill_(places < hidden, -math.inf)


def _with_hidden(drawn: Tensor, generator: Generator) -> Tensor:
    shape = drawn.shape
    share = 0.5 * torch.rand((*shape[:-1], 1), generator=generator, device=generator.device)
    order = torch.rand(shape, generator=generator, device=generator.device).argsort(-1)
    hidden = order < (share * shape[-1]).ceil().clamp(max=shape[-1] // 2)
    return drawn.masked_fill(hidden, -math.inf)


def _stretch(shape: tuple[int, ...], dtype: torch.dtype, generator: Generator) -> Tensor:
    return stretched(_normal(shape, dtype, generator), generator)


def _gap(shape: tuple[int, ...], dtype: torch.dtype, generator: Generator) -> Tensor:
    drawn = _normal(shape, dtype, generator)
    inside = stretch_of(shape, generator)
    # One element of each row stays as it was.
    inside[..., :1] &= ~inside.all(-1, keepdim=True)
    return drawn.masked_fill_(inside, -math.inf)


def _outlier(shape: tuple[int, ...], dtype: torch.dtype, generator: Generator) -> Tensor:
    drawn = _normal(shape, dtype, generator) / 4
    above = torch.linspace(0, OUTLIERS, math.prod(shape[:-1]), device=generator.device) + math.log(max(shape[-1], 1))
    return drawn + above.reshape(*shape[:-1], 1) * _one_hot(shape, dtype, generator)


def stretch_of(shape: Sequence[int], generator: Generator) -> Tensor:
    """Return a mask of one stretch in every row [..., N]: True inside it.

    The stretch leads, lies in the middle or trails; its length is 1 to N.
    """
    *rows, columns = shape
    dice = torch.rand((2, *rows, 1), generator=generator, device=generator.device)
    # As many stretches are short as are long.
    length = torch.exp2(dice[0] * math.log2(columns + 1)).floor().clamp(1, max(columns, 1))
    # Beyond either end as often as anywhere else: a stretch that is cut off leads or trails.
    first = ((dice[1] * 1.5 - 0.25) * (columns - length + 1)).floor().clamp(min=0).minimum(columns - length)
    places = torch.arange(columns, device=generator.device)
    return (places >= first) & (places < first + length)


FAR = 1000.0
# The last row's outlier lies so much higher than the first one's, in units of a logarithm.
OUTLIERS = 12.0


def stretched(rows: Tensor, generator: Generator) -> Tensor:
    """Return the rows with one stretch of each replaced at random: zeros, equal numbers, or numbers ±1000 away."""
    inside = stretch_of(rows.shape, generator)
    kind = torch.randint(4, (*rows.shape[:-1], 1), generator=generator, device=generator.device)
    for place, other in enumerate((torch.zeros_like(rows), rows[..., :1].expand_as(rows), rows + FAR, rows - FAR)):
        rows = torch.where(inside & (kind == place), other, rows)
    return rows


_FAMILIES: dict[str, Callable[[tuple[int, ...], torch.dtype, Generator], Tensor]] = {
    "normal": _rounded_normal,
    "large": _large,
    "huge": _huge,
    "tiny": _tiny,
    "small": _small,
    "constant": _constant,
    "one_hot": _one_hot,
    "shifted": _shifted,
    "extreme": _extreme,
    "nonfinite": _nonfinite,
    "bits": _bits,
    "outlier": _outlier,
    "masked": _masked,
    "late": _late,
    "negative": _negative,
    "masked_negative": _masked_negative,
    "lowest": _lowest,
    "highest": _highest,
    "stretch": _stretch,
    "gap": _gap,
}


def bytes_of(tensor: Tensor) -> Tensor:
    """Return the elements as bytes, uint8 [numel · itemsize], on the same device; a view if they lie contiguously.

    A tensor of one element is contiguous whatever its stride is, and a view of it keeps that stride.
    """
    whole = tensor.detach().contiguous()
    return whole.as_strided((whole.numel(),), (1,)).view(torch.uint8)


def same_bytes(one: Tensor, other: Tensor) -> bool:
    """Return whether two tensors of bytes, uint8 of any shape on one device, are equal.

    On a CPU torch compares bytes one by one; numpy is ten times faster.
    """
    if one.device.type == "cpu":
        return bool(np.array_equal(one.numpy(), other.numpy()))
    return torch.equal(one, other)


def starting_at(tensor: Tensor, offset: int) -> Tensor:
    """Return the same tensor of any shape, contiguous, from element `offset` of a longer one."""
    longer = tensor.new_empty(offset + tensor.numel())
    view = longer[offset:].view(tensor.shape)
    view.copy_(tensor)
    return view


def differing(layouts: Sequence[str], count: int, case: Mapping[str, object]) -> tuple[str, ...]:
    """Return `count` of the layouts, no two alike; the sizes of the case decide which ones, and in which order.

    A kernel that takes one tensor's strides for another's is right wherever both lie alike. Seeds do not matter:
    decoys lie as the true inputs do.
    """
    orders = list(permutations(layouts, count))
    sizes = [value for value in case.values() if isinstance(value, int)]
    # Sizes that differ by one lead to orders that have nothing in common.
    return orders[int(sum(size * 31**power for power, size in enumerate(sizes))) % len(orders)]


def one_apart(names: Sequence[str], layout: str, usual: str, other: str) -> tuple[str, ...]:
    """Return the layouts of tensors of these names for "<name>_apart": `other` for that one, `usual` for the rest.

    Returns () for a layout of another form. Such layouts catch a path for contiguous tensors that checks all tensors
    but one: it is right wherever all lie alike, and wherever no two do.
    """
    lone, form, _ = layout.rpartition("_apart")
    if not form:
        return ()
    if lone not in names:
        raise ValueError(f"the tensor that lies apart must be one of {', '.join(names)}, got {lone!r}")
    return tuple(other if name == lone else usual for name in names)


def with_gaps(tensor: Tensor, axis: int, gap: int) -> Tensor:
    """Return the same floating-point tensor, with so many elements of NaN behind each slice of an axis, counted from 0.

    The first element lies where that of a contiguous tensor lies: code that asks for its address alone takes an odd
    stride for an even one.
    """
    size = math.prod(tensor.shape[axis + 1 :])
    slices = tensor.new_empty((*tensor.shape[: axis + 1], size + gap))
    slices[..., size:].fill_(math.nan)
    view = slices[..., :size].view(tensor.shape)
    view.copy_(tensor)
    return view


def far_apart(tensor: Tensor, axis: int) -> Tensor:
    """Return the same tensor with the slices of one axis far apart: the last begins 2**31 elements after the first.

    The axis's stride is below 2**31, so that Triton passes it in 32 bits. Gaps hold anything. Raises ValueError for an
    axis of fewer than 3 slices: its stride would not fit.
    """
    count = tensor.shape[axis]
    apart = -(-_WRAPS_AT // max(count - 1, 1))
    if apart >= _WRAPS_AT:
        raise ValueError(f"an axis whose slices lie far apart must have at least 3 of them, got {count}")
    apart += -apart % _ROW_ELEMENTS
    inner = tensor.movedim(axis, 0).contiguous()
    buffer = unwritten((count - 1) * apart + inner[0].numel(), tensor.dtype, tensor.device)
    view = buffer.as_strided(inner.shape, (apart, *inner.stride()[1:])).movedim(0, axis)
    view.copy_(tensor)
    return view


def unwritten(count: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return memory for `count` elements, as a vector; on a CPU, what is not written takes addresses only."""
    if not count or device.type != "cpu" or sys.platform != "linux":
        return torch.empty(count, dtype=dtype, device=device)
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE
    return torch.frombuffer(mmap.mmap(-1, count * dtype.itemsize, flags=flags), dtype=dtype)


def distinct(view: Tensor) -> Tensor:
    """Return the view with every broadcast axis cut to one element: no two of its elements share memory."""
    for axis, (size, stride) in enumerate(zip(view.shape, view.stride(), strict=True)):
        if stride == 0 and size > 1:
            view = view.narrow(axis, 0, 1)
    return view


def patched(inputs: Sequence[object], other: Sequence[object]) -> tuple[object, ...]:
    """Replace, in place, the middle third of every floating-point tensor's elements with those of `other`.

    Returns `inputs`. A fingerprint of the first and last elements does not see the change.
    """
    for tensor, source in zip(inputs, other, strict=True):
        if isinstance(tensor, Tensor) and isinstance(source, Tensor) and tensor.is_floating_point():
            own = distinct(tensor)
            others = source[tuple(slice(size) for size in own.shape)]
            count = own.numel()
            place = torch.arange(count, device=own.device).reshape(own.shape)
            middle = (place >= count // 3) & (place < max(count // 3 + 1, 2 * count // 3))
            own.copy_(torch.where(middle, others, own))
    return tuple(inputs)


def is_whole(dtype: torch.dtype) -> bool:
    """Return whether a dtype holds whole numbers alone; bool does."""
    return not dtype.is_floating_point and not dtype.is_complex


def build(
    source: object,
    part: str,
    case: Mapping[str, object],
    seed: int,
    patch_seed: int | None = None,
    device: torch.device | str = "cpu",
) -> tuple[object, ...]:
    """Return the inputs of a case and a seed; with `patch_seed`, `patched` with those of that seed.

    source: the module of `inputs.py`. Its function `<part>` makes the inputs. If some of them follow from others, its
    function `<part>_following(case, *inputs)` returns the inputs with these made anew, after a patch. The bits are the
    same in every process.
    """
    make: Callable[[Mapping[str, object], Generator], Sequence[object]] = getattr(source, part)
    inputs = tuple(make(case, Generator(device).manual_seed(seed)))
    if patch_seed is None:
        return inputs
    inputs = patched(inputs, make(case, Generator(device).manual_seed(patch_seed)))
    following = getattr(source, f"{part}_following", None)
    return inputs if following is None else tuple(following(case, *inputs))


def whole_inputs(
    source: object, part: str, case: Mapping[str, object], seed: int, device: torch.device | str = "cpu"
) -> tuple[object, ...]:
    """Return the whole-number tensors among the inputs of a case and a seed, in their order; others may be there too.

    source: as in `build`. Its function `<part>_whole_numbers(case, generator)`, if it has one, makes them alone.
    """
    make = getattr(source, f"{part}_whole_numbers", None)
    if make is None:
        return build(source, part, case, seed, device=device)
    return tuple(make(case, Generator(device).manual_seed(seed)))


def module_from_text(name: str, source: str, *beside: types.ModuleType) -> types.ModuleType:
    """Return a module made of the text of one of an exercise's files. Raises what the text raises.

    beside: modules of the same folder, which the text can import by their names.
    """
    module = types.ModuleType(name.removesuffix(".py"))
    if beside:
        known = {one.__name__: one for one in beside}

        def load(wanted: str, *args: Any) -> types.ModuleType:
            return known.get(wanted) or __import__(wanted, *args)

        # An import of this text alone: sys.modules would show a module of one exercise to all others.
        vars(module)["__builtins__"] = {**vars(builtins), "__import__": load}
    exec(compile(source, name, "exec"), vars(module))
    return module
