"""Compare the bytes of an output with the expected values, element by element.

Says where and how they differ.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np
import torch
from torch import Tensor

from grader.judge.truth import Expected
from grader.protocol.observations import LaunchInfo
from grader.record.causes import Difference, Mismatch, Picture
from grader.record.json_numbers import number
from grader.text import clean

_FIRST = 5
_PICTURE_ROWS = 24
_PICTURE_COLUMNS = 64
# The most block sizes to try, and ways to cut an output into tiles: a hostile launch may have any number.
_MOST_BLOCKS, _MOST_WAYS = 8, 1000


@dataclass(frozen=True, eq=False)
class Comparison:
    """An output beside its expected values.

    worst: the largest error in units of the allowed one; 1 and below is right. wrong: marks the wrong elements.
    """

    got: Tensor
    wrong: Tensor
    error: Tensor
    worst: float

    @property
    def agrees(self) -> bool:
        """Every element is within its tolerance."""
        return not bool(self.wrong.any())


def tensor_of(raw: bytes, expected: Expected) -> Tensor:
    """Return the raw bytes of an output as a tensor of the expected shape and dtype."""
    if not raw:
        return torch.empty(expected.value.shape, dtype=expected.dtype)
    return torch.frombuffer(bytearray(raw), dtype=expected.dtype).reshape(expected.value.shape)


def compare(got: Tensor, expected: Expected) -> Comparison:
    """Compare every element with the oracle.

    NaN and infinities match only where rounding the oracle's value gives them. Zeros match whatever their signs are,
    unless `expected` is signed.
    """
    if expected.elsewhere is not None:
        value, allowed = expected.elsewhere
        there = replace(expected, value=value, allowed=allowed, elsewhere=None)
        found = compare(got.to(value.device), there)
        # The marks are copied only where some element is wrong.
        marks = found if not found.agrees else Comparison(got, torch.tensor(False), torch.tensor(0.0), found.worst)
        wrong, error = (one.cpu().expand(got.shape) for one in (marks.wrong, marks.error))
        return Comparison(got, wrong, error, found.worst)
    if not expected.dtype.is_floating_point:
        error = (got.double() - expected.value.double()).abs()
        wrong = got != expected.value.to(expected.dtype)
        return Comparison(got, wrong, error, math.inf if bool(wrong.any()) else 0.0)
    value, wide = expected.value, got.double()
    error = (wide - value).abs()
    right, ratio = error <= expected.allowed, error / expected.allowed
    # NaN is within no tolerance. Usually most elements are within: only the others are examined.
    if not bool(right.all()):
        right, ratio = right.contiguous(), ratio.contiguous()
        places = (~right).view(-1).nonzero()[:, 0]
        beyond = [one.reshape(-1)[places] for one in (value, wide, expected.allowed.expand_as(value), ratio)]
        right.view(-1)[places], ratio.view(-1)[places] = _judged_apart(*beyond, dtype=expected.dtype)
    ratio = ratio.nan_to_num(math.inf, math.inf)
    if expected.signed:
        turned = (wide == 0) & (value == 0) & (wide.signbit() != value.signbit())
        right, ratio = right & ~turned, ratio.masked_fill(turned, math.inf)
    return Comparison(got, (ratio > 1) & ~right, error, float(ratio.max()) if ratio.numel() else 0.0)


def _judged_apart(
    value: Tensor, wide: Tensor, allowed: Tensor, ratio: Tensor, *, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """Return which elements [N] beyond their tolerance are right nevertheless, and the ratios of their errors."""
    target = value.to(dtype).double()
    right = (wide == target) | (wide.isnan() & target.isnan())
    # Next to the largest finite number, one honest rounding may overflow where another does not.
    largest = torch.finfo(dtype).max
    near = (value.abs() + allowed >= largest) & (value.abs() - allowed <= largest)
    edge = value.isfinite() & near & (wide * value.sign() >= largest)
    # Equal after rounding is right by definition; its rounding error still shows how much room is left.
    return right, torch.where((edge & ~right) | (right & ~(wide - value).isfinite()), 0.0, ratio)


def describe(comparison: Comparison, expected: Expected, launches: Sequence[LaunchInfo] = ()) -> Mismatch:
    """Return the mismatch in numbers, words and a picture."""
    wrong, error = comparison.wrong, comparison.error
    shape = tuple(wrong.shape)
    tiles = _tiles(shape, launches)
    # A few of millions of elements may be wrong: examine only these.
    places, all_wrong = wrong.reshape(-1).nonzero()[:, 0], bool(wrong.all())
    flat = [one.reshape(-1) for one in (error, expected.allowed, expected.value)]
    off, allowed, right = flat if all_wrong else [one[places] for one in flat]
    score = (off / allowed).nan_to_num(math.inf, math.inf)
    worst = _unravel(int(places[score.argmax()]), shape)
    first = [_difference_at(_unravel(int(place), shape), comparison, expected) for place in places[:_FIRST]]
    return Mismatch(
        output=expected.name,
        count=len(places),
        total=wrong.numel(),
        max_abs=number(float(off.max())),
        max_rel=number(float((off / right.double().abs().clamp(min=1e-300)).max())),
        worst_index=worst,
        pattern=pattern_of(wrong),
        first=tuple(first),
        tile=", ".join(tile.words(first[0].index) for tile in tiles),
        picture=_with_tiles(picture_of(wrong), tiles),
    )


def pattern_of(wrong: Tensor) -> str:
    """Name the place of the wrong elements: all, tail, head, rows, columns, or scattered."""
    if bool(wrong.all()):
        return "all"
    if wrong.dim() == 0:
        return "all"
    last = wrong.reshape(-1, wrong.shape[-1])
    columns = last.any(0)
    if bool((last == columns).all()) and last.shape[0] > 1:
        return _run_end(columns) or "columns"
    if bool((last == last.any(1)[:, None]).all()):
        return "rows"
    return _run_end(columns) or "scattered"


def _run_end(marks: Tensor) -> str:
    """Return "tail" when the marks are the last few of a row, "head" when they are the first few; else ""."""
    count = int(marks.sum())
    if count == marks.numel():
        return ""
    if bool(marks[-count:].all()):
        return "tail"
    return "head" if bool(marks[:count].all()) else ""


def picture_of(wrong: Tensor) -> Picture:
    """Return the wrong elements as a grid of at most 24 × 64 cells; leading axes become rows."""
    flat = wrong.reshape(-1, wrong.shape[-1]) if wrong.dim() else wrong.reshape(1, 1)
    rows, columns = flat.shape
    tall, broad = -(-rows // _PICTURE_ROWS), -(-columns // _PICTURE_COLUMNS)
    padded = torch.nn.functional.pad(flat, (0, -columns % broad, 0, -rows % tall))
    wrong_in = padded.reshape(-1, tall, padded.shape[1] // broad, broad).sum((1, 3))
    high, wide = (_lengths(*one) for one in ((rows, tall), (columns, broad)))
    share = torch.ceil(9 * wrong_in.double() / (high[:, None] * wide)).int()
    return Picture(tuple(tuple(row) for row in share.tolist()), tall, broad, tuple(wrong.shape))


def _lengths(size: int, step: int) -> Tensor:
    """Return the lengths of an axis's stretches; the last may be shorter."""
    return torch.tensor([min(step, size - start) for start in range(0, size, step)], dtype=torch.float64)


def _difference_at(index: tuple[int, ...], comparison: Comparison, expected: Expected) -> Difference:
    return Difference(
        index,
        number(float(expected.value[index])),
        number(float(comparison.got[index])),
        number(float(expected.allowed[index])),
    )


def _unravel(position: int, shape: Sequence[int]) -> tuple[int, ...]:
    return tuple(map(int, np.unravel_index(position, shape)))


@dataclass(frozen=True)
class _Tile:
    """The tiles of one axis: `count` tiles of `block` elements.

    name: the constant that sets `block`; "" if several may.
    """

    axis: int
    name: str
    block: int
    count: int

    def words(self, index: tuple[int, ...]) -> str:
        place = index[self.axis] // self.block
        size = f"{clean(self.name, 40)}={self.block}" if self.name else f"{self.block} elements"
        return f"tile {place} of {self.count} along axis {self.axis} ({size})"


def _tiles(shape: tuple[int, ...], launches: Sequence[LaunchInfo]) -> list[_Tile]:
    """Return the tiles of an output, where the grid and block sizes of a launch reveal them.

    There must be one program for each tile. Returns nothing if each program may as well take an index, if other tiles
    fit too, or if programs write the same elements.
    """
    for launch in launches:
        if _share_elements(launch):
            continue
        # A block as long as an axis covers that whole axis.
        blocks = [(name, block) for name, block in launch.constants.items() if block > 1 and block not in shape]
        found = [*islice(_ways(shape, blocks[:_MOST_BLOCKS], math.prod(launch.grid)), _MOST_WAYS)]
        if found and all(found):
            longest = max(map(len, found))
            ways = [way for way in found if len(way) == longest]
            # Programs more often take whole rows than parts of a row.
            return _agreed([way for way in ways if all(tile.axis < len(shape) - 1 for tile in way)] or ways)
    return []


def _agreed(ways: Sequence[Sequence[_Tile]]) -> list[_Tile]:
    """Return the tiles in which all ways to cut an output agree, with the names in which they do."""
    if len({tuple(replace(tile, name="") for tile in way) for way in ways}) > 1:
        return []
    return [tiles[0] if len({*tiles}) == 1 else replace(tiles[0], name="") for tiles in zip(*ways, strict=True)]


def _share_elements(launch: LaunchInfo) -> bool:
    """Return whether several programs of a launch write the same elements of a tensor."""
    tensors = launch.footprint.tensors if launch.footprint else ()
    return any((one.writers - one.fewer) * one.most > one.written for one in tensors)


def _ways(
    shape: tuple[int, ...], blocks: Sequence[tuple[str, int]], programs: int, axis: int = 0
) -> Iterator[list[_Tile]]:
    """Yield the ways to cut an output, from an axis on, into as many tiles as there are programs.

    A program takes a block of an axis, the whole axis, or one index; never one index of the last axis. Each block size
    serves one axis.
    """
    if axis == len(shape):
        if programs == 1:
            yield []
        return
    size = shape[axis]
    cuts = [_Tile(axis, name, block, -(-size // block)) for name, block in blocks if size > block]
    ways = (
        [(tile.count, [tile]) for tile in cuts]
        + [(1, [])]
        + ([(size, [])] if size > 1 and axis < len(shape) - 1 else [])
    )
    for count, tiles in ways:
        if programs % count == 0:
            left = [one for one in blocks if not tiles or one[0] != tiles[0].name]
            yield from ([*tiles, *rest] for rest in _ways(shape, left, programs // count, axis + 1))


def _with_tiles(picture: Picture, tiles: Sequence[_Tile]) -> Picture:
    """Return the picture with the tiles on its rows and columns.

    All axes but the last become rows. The axis before the last must be the only one of them, or its tiles must divide
    it: else the grid of rows would be uneven.
    """
    shape = picture.shape
    blocks = {tile.axis - len(shape): tile.block for tile in tiles}
    rows = blocks.get(-2, 0)
    even = rows > 0 and (math.prod(shape[:-2]) == 1 or shape[-2] % rows == 0)
    return replace(picture, tile_rows=rows if even else 0, tile_columns=blocks.get(-1, 0))
