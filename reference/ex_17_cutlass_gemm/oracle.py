"""The truth for ex_17, what honest code of the same precision returns, and what every choice costs.

Floating-point inputs of the plain functions are float64; `<part>_honest` gets them as they are. MEASURED is
measured.json (see measure.py), which the grader puts here.
"""

from collections.abc import Iterator
from math import nan

import torch
from torch import Tensor

MEASURED = None
FLOAT32_EPS = torch.finfo(torch.float32).eps


def blocked_gemm(mA: Tensor, mB: Tensor, mC: Tensor, tiler_mnk: object, threads_mn: object) -> Tensor:
    """Return the new mC, [M, N]."""
    return mA @ mB.T


def blocked_gemm_honest(mA: Tensor, mB: Tensor, mC: Tensor, tiler_mnk: object, threads_mn: object) -> Iterator[Tensor]:
    """Add up in float32: in torch's order, backwards, and one by one."""
    yield mA @ mB.T
    yield mA.flip(1) @ mB.flip(1).T
    total = torch.zeros(())
    for k in range(mA.shape[1]):
        total = total + mA[:, k : k + 1] * mB[:, k]
    yield total


def gemm(a: Tensor, b: Tensor) -> Tensor:
    """c = a @ b, [M, N]."""
    return a @ b


def gemm_honest(a: Tensor, b: Tensor) -> Iterator[Tensor]:
    """Add up in float32, in blocks of K, and round once; and cut off after every step, as tensor cores may do."""
    wide_a, wide_b = a.float(), b.float()
    depth = a.shape[1]
    yield (wide_a @ wide_b).to(a.dtype)
    for block in {64, max(16, -(-depth // 4))}:
        total = torch.zeros((), device=a.device)
        lost = torch.zeros((), device=a.device)
        for start in range(0, depth, block):
            total = total + wide_a[:, start : start + block] @ wide_b[start : start + block]
            lost = lost + block / 16 * FLOAT32_EPS * total
        yield total.to(a.dtype)
        yield (total - lost).to(a.dtype)


def select_kernel(m: int, n: int, k: int, candidates: tuple, device: object) -> list[float]:
    """Return each candidate's measured time for this product, in microseconds; NaN where it was not measured."""
    if [m, n, k] not in MEASURED["shapes"]:
        return [nan] * len(candidates)
    row = MEASURED["times_us"][MEASURED["shapes"].index([m, n, k])]
    times = {tuple(one.values()): time for one, time in zip(MEASURED["candidates"], row, strict=True)}
    return [nan if times.get(tuple(one)) is None else float(times[tuple(one)]) for one in candidates]


def gemm_portion(chance: float, a: Tensor, b: Tensor) -> tuple[tuple[Tensor, ...], tuple[int]]:
    """Return some rows of a, and the start of their rows of c."""
    count = min(a.shape[0], 256)
    first = int(chance * (a.shape[0] - count + 1))
    return (a[first : first + count], b), (first * b.shape[1],)


# -- usual mistakes --------------------------------------------------------------------------------------------------

# A kind, what it looks like, what to do about it, and what it returns.
Mistake = tuple[str, str, str, Tensor]


def blocked_gemm_mistakes(
    mA: Tensor, mB: Tensor, mC: Tensor, tiler_mnk: tuple[int, int, int], threads_mn: object
) -> Iterator[Mistake]:
    """Yield what usual mistakes leave in mC, in float64: those of a walk over tiles."""
    depth = mA.shape[1]
    tile_m, tile_n, step = tiler_mnk
    last = max(depth - 1, 0) // step * step
    help_text = "After the last tile of K, does the accumulator still hold the first one?"
    yield "sum_restarted", "Looks as if only the last tile of K counts", help_text, mA[:, last:] @ mB[:, last:].T
    help_text = "Write down the first and the last tile that the loop visits, for a K of two tiles."
    yield "block_left_out", "Looks as if the last tile of K is left out", help_text, mA[:, :last] @ mB[:, :last].T
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
