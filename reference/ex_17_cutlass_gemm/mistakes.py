"""The mistakes of ex_17 that a card names, by the values that they give.

`part_mistakes(...)` receives float64 copies of the inputs. `part_roundings(...)` receives the inputs as they are and
yields what too low a precision gives. Neither changes a status or a point.
"""

from collections.abc import Iterator
from math import nan

import torch
from torch import Tensor

# A kind, what it looks like, what to do about it, and what it returns.
Mistake = tuple[str, str, str, Tensor]


def blocked_gemm_mistakes(
    mA: Tensor, mB: Tensor, mC: Tensor, tiler_mnk: tuple[int, int, int], threads_mn: tuple[int, int]
) -> Iterator[Mistake]:
    """Yield what usual mistakes leave in mC, in float64: those of a walk over tiles and threads."""
    depth = mA.shape[1]
    tile_m, tile_n, step = tiler_mnk
    last = max(depth - 1, 0) // step * step
    help_text = "After the last tile of K, does the accumulator still hold the first one?"
    yield "sum_restarted", "Looks as if only the last tile of K counts", help_text, mA[:, last:] @ mB[:, last:].T
    help_text = "Write down the first and the last tile that the loop visits, for a K of two tiles."
    yield "block_left_out", "Looks as if the last tile of K is left out", help_text, mA[:, :last] @ mB[:, :last].T
    help_text = "At which tile does the loop over K begin, and is it the first one?"
    yield "block_left_out", "Looks as if the first tile of K is left out", help_text, mA[:, step:] @ mB[:, step:].T
    inner = torch.arange(depth) % step
    title = "Looks as if the last k of every tile is left out"
    help_text = "How many k does a tile have, and which of them does the loop over a tile visit?"
    yield "block_left_out", title, help_text, mA[:, inner < step - 1] @ mB[:, inner < step - 1].T
    yield (
        "block_left_out",
        "Looks as if only the first k of every tile counts",
        help_text,
        mA[:, ::step] @ mB[:, ::step].T,
    )
    help_text = "How many threads along K does the layout of the TiledMma have, and which of them does the loop visit?"
    for share in (2, 3, 4):
        if share < step:
            title = f"Looks as if only every {share}{'nd' if share == 2 else 'rd' if share == 3 else 'th'} k counts"
            kept = inner % share == 0
            yield "block_left_out", title, help_text, mA[:, kept] @ mB[:, kept].T
    title = "Looks as if only the first tile of K counts"
    yield "block_left_out", title, "Which tiles does the loop over K visit?", mA[:, :step] @ mB[:, :step].T
    whole = depth - depth % step
    help_text = "How many tiles does K need if it is no multiple of the tile?"
    title = "Looks as if the last, partly filled tile of K is left out"
    yield "remainder_skipped", title, help_text, mA[:, :whole] @ mB[:, :whole].T
    if step < depth:
        stale = slice(depth - step, last)
        title = "Looks as if the last tile's fragments hold values of the tile before, beyond K"
        help_text = "What does a fragment hold where the predicate is false? Clear it for every tile of K."
        yield "padding_counted", title, help_text, (mA @ mB.T) + mA[:, stale] @ mB[:, stale].T
    yield (
        "not_cleared",
        "Looks as if the result is added to mC",
        "Which value does the accumulator start with?",
        mC + mA @ mB.T,
    )
    for assumed in (1, 2, 4, 8, 16):
        count = -(-depth // assumed)
        if assumed != step and count * step < depth:
            seen = mA[:, : count * step] @ mB[:, : count * step].T
            help_text = "How many tiles of K are there, for any tiler?"
            yield "size_assumed", f"Looks as if steps of K are counted in {assumed}s", help_text, seen
    exchanged = _tiles_exchanged(mA @ mB.T, tile_m, tile_n)
    if exchanged is not None:
        title = "Looks as if tile (n, m) is taken for tile (m, n)"
        help_text = "Which coordinate of a tile counts rows of tiles, and which columns?"
        yield "axes_exchanged", title, help_text, torch.where(exchanged.isnan(), mC, exchanged)
    yield from _operands_by_the_other_coordinate(mA @ mB.T, tile_m, tile_n)
    yield from _sums_kept(mA @ mB.T, (tile_m, tile_n), threads_mn)


def _operands_by_the_other_coordinate(c: Tensor, tile_m: int, tile_n: int) -> Iterator[Mistake]:
    """Yield c where tile (m, n) multiplies tile m of B, or tile n of A; beyond the end of the operand it is 0."""
    rows, columns = torch.arange(c.shape[0])[:, None], torch.arange(c.shape[1])[None]
    rows_of_b = rows // tile_m * tile_n + columns % tile_n
    by_m = torch.where(rows_of_b < c.shape[1], c.gather(1, rows_of_b.clamp(max=c.shape[1] - 1)), 0.0)
    help_text = "Which coordinate of a tile of C counts the tiles of B's rows: m or n?"
    yield "axes_exchanged", "Looks as if tile m of B is taken for tile n", help_text, by_m
    rows_of_a = columns // tile_n * tile_m + rows % tile_m
    by_n = torch.where(rows_of_a < c.shape[0], c.gather(0, rows_of_a.clamp(max=c.shape[0] - 1)), 0.0)
    help_text = "Which coordinate of a tile of C counts the tiles of A's rows: m or n?"
    yield "axes_exchanged", "Looks as if tile n of A is taken for tile m", help_text, by_n


def _sums_kept(c: Tensor, tile: tuple[int, int], threads: tuple[int, int]) -> Iterator[Mistake]:
    """Yield c where an accumulator is cleared once for a tile, for a row of tiles, or for all tiles.

    An accumulator has one number for each element of a tile that a thread has; threads come one after another.
    """
    if tile[0] % threads[0] or tile[1] % threads[1]:
        return
    tiles_m, tiles_n = -(-c.shape[0] // tile[0]), -(-c.shape[1] // tile[1])
    whole = c.new_zeros(tiles_m * tile[0], tiles_n * tile[1])
    whole[: c.shape[0], : c.shape[1]] = c
    # [tile m, part, thread m, tile n, part, thread n]: the walk is tile m, tile n, thread n, thread m.
    cut = whole.reshape(tiles_m, tile[0] // threads[0], threads[0], tiles_n, tile[1] // threads[1], threads[1])
    walk = cut.permute(0, 3, 5, 2, 1, 4)
    help_text = "Where does the code clear the accumulator? Every thread of every tile must start from 0."
    for kept, where in ((2, "threads of a tile"), (1, "tiles of a row of tiles"), (0, "tiles")):
        summed = walk.flatten(kept, 3).cumsum(kept).reshape(walk.shape)
        laid = summed.permute(0, 4, 3, 1, 5, 2).reshape(whole.shape)[: c.shape[0], : c.shape[1]]
        yield "not_restarted", f"Looks as if the accumulator goes on through all {where}", help_text, laid


def _tiles_exchanged(c: Tensor, tile_m: int, tile_n: int) -> Tensor | None:
    """Return c with tiles at exchanged coordinates; NaN where none comes; None if that moves none."""
    rows, columns = -(-c.shape[0] // tile_m), -(-c.shape[1] // tile_n)
    if rows == columns == 1:
        return None
    found = torch.full_like(c, nan)
    for m in range(rows):
        for n in range(columns):
            place = found[n * tile_m : (n + 1) * tile_m, m * tile_n : (m + 1) * tile_n]
            tile = c[m * tile_m : (m + 1) * tile_m, n * tile_n : (n + 1) * tile_n]
            height, width = min(len(place), len(tile)), min(place.shape[1], tile.shape[1])
            place[:height, :width] = tile[:height, :width]
    return found


def blocked_gemm_roundings(
    mA: Tensor, mB: Tensor, mC: Tensor, tiler_mnk: tuple[int, int, int], threads_mn: object
) -> Iterator[tuple[str, Tensor]]:
    """Yield a sum that is rounded to 16 bits after every tile of K."""
    step = tiler_mnk[2]
    for dtype in (torch.float16, torch.bfloat16):
        total = torch.zeros(mA.shape[0], mB.shape[0])
        for start in range(0, mA.shape[1], step):
            added = mA[:, start : start + step] @ mB[:, start : start + step].T
            total = (total + added).to(dtype).float()
        yield "low_precision_sum", total
        yield "rounded_intermediate", mA.to(dtype).float() @ mB.to(dtype).float().T


def gemm_roundings(a: Tensor, b: Tensor) -> Iterator[tuple[str, Tensor]]:
    """Yield a sum that is rounded to the inputs' dtype after every step of a tensor core."""
    total = torch.zeros(a.shape[0], b.shape[1], dtype=a.dtype, device=a.device)
    for start in range(0, a.shape[1], 16):
        added = a[:, start : start + 16].float() @ b[start : start + 16].float()
        total = (total.float() + added).to(a.dtype)
    yield "low_precision_sum", total
