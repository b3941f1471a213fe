"""The mistakes of ex_15 that a card names, by the values that they give.

`part_mistakes(...)` receives float64 copies of the inputs. `part_roundings(...)` receives the inputs as they are and
yields what too low a precision gives. Neither changes a status or a point.
"""

import math
from collections.abc import Iterator

import torch
from oracle import row_softmax
from torch import Tensor

LN_2 = math.log(2.0)
# A kind, what it looks like, what to do about it, and what it returns.
Mistake = tuple[str, str, str, Tensor]
# Widths that a block may have.
BLOCKS = tuple(2**i for i in range(5, 14))
# Elements that all programs together take in one step of a loop.
WAVES = tuple(2**i for i in range(14, 20))
# Elements whose sums a second kernel may join in one block.
JOINED = tuple(2**i for i in range(15, 23))
# Rows that a program may hold at a time.
ROWS_TOGETHER = (2, 4, 8, 16, 32, 64, 128)
# Powers, relative to the row's largest, below which a shortcut may take 0.
SMALL_POWERS = (1e-3, 1e-4, 1e-5, 1e-6)


def vector_add_mistakes(x: Tensor, y: Tensor) -> Iterator[Mistake]:
    """In float64: what usual mistakes return."""
    help_text = "Two inputs, two pointers: where does the kernel load each of them?"
    yield "operand_mixed_up", "Looks as if x is added to itself", help_text, x + x
    yield "operand_mixed_up", "Looks as if y is added to itself", help_text, y + y
    yield "operand_mixed_up", "Looks as if y is subtracted", "z = x + y, with both signs as they are.", x - y
    yield "operand_mixed_up", "Looks as if x and y are multiplied", "z = x + y.", x * y


def fused_multiply_add_mistakes(x: Tensor, y: Tensor, z: Tensor) -> Iterator[Mistake]:
    """Terms that are missing, or in each other's place."""
    help_text = "x * y + z: which of the three is a factor, and which is added?"
    yield "term_missing", "Looks as if z is not added", help_text, x * y
    for title, wrong in (("x * z + y", x * z + y), ("x + y * z", x + y * z), ("(x + y) * z", (x + y) * z)):
        yield "operand_mixed_up", f"Looks as if {title} is computed", help_text, wrong
    yield "operand_mixed_up", "Looks as if z is subtracted", help_text, x * y - z
    yield "operand_mixed_up", "Looks as if all three are added", help_text, x + y + z
    yield "operand_mixed_up", "Looks as if all three are multiplied", help_text, x * y * z


def fused_multiply_add_roundings(x: Tensor, y: Tensor, z: Tensor) -> Iterator[tuple[str, Tensor]]:
    """Yield the product in the inputs' dtype."""
    if x.dtype != torch.float32:
        yield "rounded_intermediate", (x * y + z.float()).to(x.dtype)


def row_softmax_mistakes(x: Tensor) -> Iterator[Mistake]:
    """Yield mistakes in a row, and in which rows are computed."""
    top = x.amax(dim=1, keepdim=True)
    powers = torch.exp(x - top)
    total = powers.sum(dim=1, keepdim=True)
    plain = torch.exp(x.float().double()).float()
    yield (
        "no_maximum",
        "Looks as if the row's maximum is not subtracted",
        "In float32 exp(89) is inf and exp(-104) is 0: what can you subtract without changing the quotient?",
        (plain / plain.sum(dim=1, keepdim=True)).double(),
    )
    # In float32, where powers of scores far below 0 are 0.
    for start in (0.0, -1e4):
        low = torch.exp((x - top.clamp(min=start)).float())
        yield (
            "maximum_start",
            "Looks as if the maximum does not start at -inf",
            "Start the maximum at -inf: with 0, all exponentials of a row of very negative scores are 0.",
            (low / low.sum(dim=1, keepdim=True)).double(),
        )
    yield "term_missing", "Looks as if the exponentials are not divided by their sum", "Rows must sum to 1.", powers
    for factor, said in (
        (LN_2, "powers of 2 are taken instead of powers of e"),
        (LN_2**2, "scores are multiplied by ln 2, not by log2 e, before powers of 2 are taken"),
        (1 / LN_2, "scores are multiplied by log2 e before powers of e are taken"),
    ):
        help_text = "exp(x) = 2**(x · log2 e): multiply the scores by log2 e = 1.4427, and take tl.exp2 of that."
        in_another_base = torch.exp((x - top) * factor)
        total_of_those = in_another_base.sum(dim=1, keepdim=True)
        yield "logarithm_base", f"Looks as if {said}", help_text, in_another_base / total_of_those
    yield (
        "term_missing",
        "Looks as if the logarithm of the softmax is returned",
        "Which step makes a probability of a logarithm?",
        x - top - total.log(),
    )
    title = "Looks as if exponentials far below the largest one count as 0"
    told = "Thousands of small exponentials together may weigh as much as the largest one: none of them is 0."
    for least in SMALL_POWERS:
        kept = powers.masked_fill(powers < least, 0.0)
        yield "small_left_out", title, told, kept / kept.sum(dim=1, keepdim=True)
        yield "small_left_out", title, told, kept / total
    yield "wrong_axis", "Looks as if columns are normalised instead of rows", *_columns(x)
    help_text = "A block of rows is reduced along one axis only: one sum for every row."
    yield "wrong_axis", "Looks as if the sum goes over columns", help_text, powers / powers.sum(dim=0, keepdim=True)
    for rows in ROWS_TOGETHER:
        if x.shape[0] > 1 and rows < 2 * x.shape[0]:
            starts = range(0, x.shape[0], rows)
            mixed = [powers[first : first + rows] / total[first : first + rows].sum() for first in starts]
            help_text = "A block of rows is reduced along one axis only: one sum for every row."
            yield "wrong_axis", f"Looks as if the sum goes over {rows} rows at a time", help_text, torch.cat(mixed)
            whole = [torch.softmax(x[first : first + rows].flatten(), 0).view(-1, x.shape[1]) for first in starts]
            title = f"Looks as if maximum and sum go over {rows} rows at a time"
            yield "wrong_axis", title, help_text, torch.cat(whole)
            # In float32, where rows far below the tile's maximum become 0 / 0.
            low = [torch.exp((part - part.amax()).float()) for part in (x[first : first + rows] for first in starts)]
            title = f"Looks as if the maximum goes over {rows} rows at a time"
            told = "Each row needs its own maximum: without it, all exponentials of a row of small scores are 0."
            yield "wrong_axis", title, told, torch.cat([one / one.sum(dim=1, keepdim=True) for one in low]).double()
    for block in BLOCKS:
        if beyond := -x.shape[1] % block:
            # 0 is one of the scores.
            high = top.clamp(min=0.0)
            more = torch.exp(x - high).sum(dim=1, keepdim=True) + beyond * torch.exp(-high)
            help_text = "Which value leaves a maximum and a sum of exponentials as they are? It is not 0."
            title = f"Looks as if {beyond} columns beyond the end count as scores of 0"
            yield "padding_counted", title, help_text, torch.exp(x - high) / more
        if block < x.shape[1]:
            yield from _in_blocks(x, block)


def _columns(x: Tensor) -> tuple[str, Tensor]:
    powers = torch.exp(x - x.amax(dim=0, keepdim=True))
    return "Each row is a distribution of its own.", powers / powers.sum(dim=0, keepdim=True)


def _in_blocks(x: Tensor, block: int) -> Iterator[Mistake]:
    """Yield mistakes of a walk over a row in blocks: the sum not rescaled, or only the first block counted."""
    total = torch.zeros(x.shape[0], 1, dtype=x.dtype)
    top = torch.full_like(total, -torch.inf)
    for start in range(0, x.shape[1], block):
        part = x[:, start : start + block]
        top = torch.maximum(top, part.amax(dim=1, keepdim=True))
        total = total + torch.exp(part - top.nan_to_num(neginf=0.0)).sum(dim=1, keepdim=True)
    help_text = "The sum so far is relative to the old maximum: which factor makes it relative to the new one?"
    title = "Looks as if the running sum is not rescaled when the maximum grows"
    yield "no_rescale", title, help_text, torch.exp(x - top) / total
    # Each lane of a block has a maximum and a sum of its own; only the last step joins them.
    lanes = torch.nn.functional.pad(x, (0, -x.shape[1] % block), value=-torch.inf).view(x.shape[0], -1, block)
    tops = lanes.cummax(dim=1).values
    sums = torch.exp(lanes - tops.nan_to_num(neginf=0.0)).sum(dim=1)
    joined = (sums * torch.exp(tops[:, -1] - top)).sum(dim=1, keepdim=True)
    yield "no_rescale", title, help_text, torch.exp(x - top) / joined
    told = "Each lane's sum is relative to that lane's own maximum: multiply it by exp(own maximum - row's maximum)."
    title_of_sums = "Looks as if the lanes' sums are joined as they are"
    own_sums = torch.exp(lanes - tops[:, -1:].nan_to_num(neginf=0.0)).sum(dim=1)
    yield "no_rescale", title_of_sums, told, torch.exp(x - top) / own_sums.sum(dim=1, keepdim=True)
    own_top = tops[:, -1].repeat(1, lanes.shape[1])[:, : x.shape[1]]
    told = "The sum is relative to the maximum of the whole row: subtract the same one from every score."
    title_of_lanes = "Looks as if each lane subtracts the maximum of its own scores in the end"
    yield "no_rescale", title_of_lanes, told, torch.exp(x - own_top) / torch.exp(x - top).sum(dim=1, keepdim=True)
    own = [torch.softmax(x[:, start : start + block], dim=1) for start in range(0, x.shape[1], block)]
    title = f"Looks as if every {block} columns are a row of their own"
    yield "wrong_axis", title, "All blocks of a row share one maximum and one sum.", torch.cat(own, dim=1)
    left_out = x.shape[1] % block
    if left_out:
        counted = row_softmax(x[:, :-left_out])
        short = torch.cat([counted, torch.full_like(x[:, -left_out:], torch.nan)], dim=1)
        help_text = "A row of any length has a last, partly filled block."
        yield "remainder_skipped", f"Looks as if the last {left_out} columns are left out", help_text, short
    if x.shape[1] > block >= 1024:
        counted = row_softmax(x[:, :block])
        short = torch.cat([counted, torch.full_like(x[:, block:], torch.nan)], dim=1)
        help_text = "How long may a row be? A block has a largest size."
        yield "size_assumed", f"Looks as if no column beyond {block} is read", help_text, short


def row_softmax_roundings(x: Tensor) -> Iterator[tuple[str, Tensor]]:
    """Exponentials, their sum, or both, in 16 bits."""
    for dtype in (torch.float16, torch.bfloat16):
        if x.dtype in (torch.float32, dtype):
            powers = torch.exp((x - x.amax(dim=1, keepdim=True)).float())
            rounded = powers.to(dtype)
            total = rounded.float().sum(dim=1, keepdim=True).to(dtype)
            yield "rounded_intermediate", (rounded.float() / total.float()).to(dtype).to(x.dtype)
            yield "rounded_intermediate", (rounded.float() / rounded.float().sum(dim=1, keepdim=True)).to(x.dtype)
            yield "low_precision_sum", (powers / rounded.cumsum(dim=1)[:, -1:].float()).to(x.dtype)


def global_sum_mistakes(x: Tensor) -> Iterator[Mistake]:
    """Yield sums with blocks left out, and sums of one block or of the first ones alone."""
    yield "last_left_out", "Looks as if the last element is not added", "Element i exists where i < N.", x[:-1].sum()
    for block in BLOCKS:
        left = x.numel() % block
        if left:
            title = f"Looks as if the last {left} elements, which fill no block, are not added"
            help_text = "How many blocks does a vector need if its length is no multiple of the block?"
            yield "remainder_skipped", title, help_text, x[: x.numel() - left].sum()
        if block < x.numel():
            title, help_text = (
                "Looks as if one block's sum is returned",
                "Join the blocks' sums; overwrite none.",
            )
            yield "stores_collide", title, help_text, x[-(left or block) :].sum()
            told = "After the last step of the loop, does the accumulator still hold the first one?"
            yield "sum_restarted", "Looks as if only the last step's block counts", told, x[-(left or block) :].sum()
            yield "block_left_out", "Looks as if the first block alone is added", help_text, x[:block].sum()
    for most in JOINED:
        if most < x.numel():
            title = f"Looks as if no more than the first {most} elements are added"
            yield "not_all_covered", title, "How many blocks' sums does the last step join?", x[:most].sum()
    yield "wrong_factor", "Looks as if the mean is returned", "The sum is asked for.", x.mean()
    for factor in (2.0, -1.0, 0.5):
        title = f"Looks like {factor:g} times the sum"
        yield "wrong_factor", title, "How often does each element enter the sum?", factor * x.sum()
    told = "What does the first step of the reduction do with an element: add it, or square it?"
    yield "term_missing", "Looks like a sum of other values: absolute ones", told, x.abs().sum()
    yield "term_missing", "Looks like a sum of other values: squares", told, x.square().sum()
    yield "operand_mixed_up", "Looks as if the maximum is returned", "The sum is asked for.", x.amax()
    for wave in WAVES:
        if wave < x.numel():
            title = f"Looks as if only the last step of a loop counts, {wave} elements at a time"
            told = "After the last step of the loop, does the accumulator still hold the first one?"
            yield "sum_restarted", title, told, x[(x.numel() - 1) // wave * wave :].sum()


def global_sum_roundings(x: Tensor) -> Iterator[tuple[str, Tensor]]:
    """Yield sums of blocks in the inputs' dtype, and all of the sum."""
    if x.dtype != torch.float32:
        for block in BLOCKS:
            filled = torch.nn.functional.pad(x, (0, -x.numel() % block)).view(-1, block)
            yield "low_precision_sum", filled.float().sum(1).to(x.dtype).float().sum()
            yield "low_precision_sum", filled.float().sum(1).to(x.dtype).cumsum(0)[-1].float()
