"""The mistakes of ex_16 that a card names, by the values that they give.

`part_mistakes(...)` receives float64 copies of the inputs. `part_roundings(...)` receives the inputs as they are and
yields what too low a precision gives. Neither changes a status or a point.
"""

import math
from collections.abc import Iterator
from itertools import product

import torch
from oracle import silu
from torch import Tensor

LN_2 = math.log(2)
# A kind, what it looks like, what to do about it, and what it returns.
Mistake = tuple[str, str, str, Tensor]
# Depths of blocks of K that kernels walk in.
USUAL_DEPTHS = (16, 32, 64, 128, 256)
# Blocks of K that programs take in turns, and numbers of programs that share a K.
SPLIT_DEPTHS, SPLITS = (32, 64), (2, 4, 8)
# Bounds of an exponent that must not overflow.
USUAL_CLAMPS = (10.0, 15.0, 20.0, 30.0, 50.0, 80.0, 88.0)
# Products up to so many multiply-adds are also added up as bad splits of K would do it.
FEW_PRODUCTS = 1 << 23
# Programs that may share the K of a tile.
USUAL_SPLITS = (2, 3, 4, 8)


def matmul_mistakes(a: Tensor, b: Tensor) -> Iterator[Mistake]:
    """In float64: what usual mistakes return."""
    yield from _wrong_products(a, b)
    if a.shape[0] * b.numel() <= FEW_PRODUCTS:
        yield from _wrong_splits(a, b)


def matmul_bias_silu_mistakes(a: Tensor, b: Tensor, bias: Tensor) -> Iterator[Mistake]:
    """Yield the epilogue's mistakes, then those of the product."""
    plain = a @ b
    z = plain + bias
    help_text = "z = a @ b + bias, and every column has one bias."
    yield "bias_missing", "Looks as if the bias is not added", help_text, silu(plain)
    if a.shape[0] == b.shape[1]:
        yield "bias_axis", "Looks as if the bias is added per row", help_text, silu(plain + bias[:, None])
    else:
        rows = bias[torch.arange(a.shape[0]) % len(bias)]
        yield "bias_axis", "Looks as if the bias is added per row", help_text, silu(plain + rows[:, None])
    for depth in (*USUAL_DEPTHS, 1):
        times = -(-a.shape[1] // depth)
        if times > 1:
            title = f"Looks as if the bias is added {times} times"
            yield "bias_repeated", title, "How often does the line that adds it run?", silu(plain + times * bias)
    help_text = "silu(z) = z · sigmoid(z) = z / (1 + exp(-z))."
    sigmoid = torch.sigmoid(z)
    for title, wrong in (
        ("Looks as if the sigmoid is not multiplied by z", sigmoid),
        ("Looks as if no activation is applied", z),
        ("Looks like relu instead of silu", z.clamp(min=0.0)),
        ("Looks as if the sigmoid has the wrong sign", z * torch.sigmoid(-z)),
        ("Looks as if the sigmoid is made of powers of 2 instead of e", z * torch.sigmoid(z * LN_2)),
        ("Looks as if the sigmoid of the product is taken before the bias is added", z * torch.sigmoid(plain)),
        ("Looks like gelu instead of silu", torch.nn.functional.gelu(z)),
        ("Looks like gelu instead of silu", torch.nn.functional.gelu(z, approximate="tanh")),
        ("Looks like gelu instead of silu", z * torch.sigmoid(1.702 * z)),
        ("Looks like tanh instead of silu", torch.tanh(z)),
        ("Looks as if silu is applied twice", silu(silu(z))),
        ("Looks as if z is multiplied once too often", z * silu(z)),
    ):
        yield "activation_wrong", title, help_text, wrong
    title = "Looks as if the bias is added after the activation"
    yield "epilogue_order", title, "silu is applied to z = a @ b + bias.", silu(plain) + bias
    title = "Looks as if only the sigmoid has the bias"
    yield "bias_missing", title, "silu(z) = z · sigmoid(z): z is the same in both places.", plain * torch.sigmoid(z)
    help_text = "z = a @ b + bias."
    yield "wrong_factor", "Looks as if the bias is subtracted", help_text, silu(plain - bias)
    yield "operand_mixed_up", "Looks as if the bias is multiplied", help_text, silu(plain * bias)
    # In float32, where exp of a large z is inf.
    powers = z.exp().float().double()
    help_text = "silu(z) is nearly 0 for z far below 0: there, exp(-z) must be as large as it is, or inf."
    for bound in USUAL_CLAMPS:
        cut = z / (1 + (-z).clamp(max=bound).exp())
        yield "activation_wrong", "Looks as if the exponent of the sigmoid is cut off", help_text, cut
    help_text = "In float32 exp(89) is inf: which form of the sigmoid has no such exp for large z?"
    yield "overflow", "Looks like inf / inf where z is large", help_text, z * powers / (1 + powers)
    title, help_text = (
        "Looks as if the epilogue runs in every step of K",
        "Bias and silu come once, after the last step.",
    )
    for depth in USUAL_DEPTHS if a.shape[0] * b.numel() <= FEW_PRODUCTS else ():
        if depth < a.shape[1]:
            yield "bias_repeated", title, help_text, _epilogue_inside(a, b, bias, depth)
    for kind, title, told, wrong in _wrong_products(a, b):
        yield kind, title, told, silu(wrong + bias)


def _epilogue_inside(a: Tensor, b: Tensor, bias: Tensor, depth: int) -> Tensor:
    """Add bias and take silu after every block of K."""
    out = torch.zeros_like(bias).expand(a.shape[0], -1)
    for start in range(0, a.shape[1], depth):
        out = silu(out + a[:, start : start + depth] @ b[start : start + depth] + bias)
    return out


def _wrong_products(a: Tensor, b: Tensor) -> Iterator[Mistake]:
    """Yield products of other matrices than the given ones, or of a part of them."""
    depth = a.shape[1]
    help_text = "Which stride belongs to which axis? Compute the addresses of the first two elements of a row by hand."
    if b.shape[0] == b.shape[1]:
        yield "axes_exchanged", "Looks as if b is read as its transpose", help_text, a @ b.T
    else:
        # The same elements of memory, with the two strides exchanged.
        yield "axes_exchanged", "Looks as if the strides of b are exchanged", help_text, a @ _exchanged(b)
    if a.shape[0] == a.shape[1]:
        yield "axes_exchanged", "Looks as if a is read as its transpose", help_text, a.T @ b
    yield "last_left_out", "Looks as if the last of K is left out", "k exists where k < K.", a[:, :-1] @ b[:-1]
    for block in USUAL_DEPTHS:
        left = depth % block
        if left:
            title = f"Looks as if the last {left} of K, which fill no block, are left out"
            help_text = "How many blocks does K need if it is no multiple of the block?"
            yield "remainder_skipped", title, help_text, a[:, : depth - left] @ b[: depth - left]
        if block < depth:
            last = (depth - 1) // block * block
            help_text = "Write down the first and the last offset that the loop visits, for a K of two blocks."
            title = "Looks as if the last block of K is left out"
            yield "block_left_out", title, help_text, a[:, :last] @ b[:last]
            yield "block_left_out", "Looks as if the first block of K is left out", help_text, a[:, block:] @ b[block:]
            title = "Looks as if only the last block of K counts"
            help_text = "After the last block, does the accumulator still hold the first one?"
            yield "sum_restarted", title, help_text, a[:, last:] @ b[last:]


def _wrong_splits(a: Tensor, b: Tensor) -> Iterator[Mistake]:
    """Yield what several programs for one tile add up, each for a share of the blocks of K, if they share them badly.

    All that differs is the number of times that each element of K counts.
    """
    for block, splits in product(USUAL_DEPTHS[:4], USUAL_SPLITS):
        blocks = torch.arange(a.shape[1]) // block
        if splits > int(blocks[-1]) + 1:
            continue
        share = (int(blocks[-1]) + splits) // splits
        help_text = "Which blocks of K does split 0 take, and which split 1? Each must belong to exactly one."
        for kind, title, counts in (
            ("done_again", "every split walks on to the end of K", (blocks + 1).clamp(max=splits)),
            ("done_again", "every split walks on to the end of K", (blocks // share + 1).clamp(max=splits)),
            ("done_again", "every split adds up all of K", torch.full_like(blocks, splits)),
            ("wrong_address", f"the part of split 0 is added {splits} times", splits * (blocks % splits == 0)),
            ("wrong_address", f"the part of split 0 is added {splits} times", splits * (blocks < share)),
            ("stores_collide", "only one split's part counts", (blocks % splits == splits - 1) * 1),
            ("stores_collide", "only one split's part counts", (blocks >= share * (splits - 1)) * 1),
        ):
            yield kind, f"Looks as if {title}", help_text, (a * counts) @ b
        size = -(-a.shape[1] // splits)
        if size % block:
            title = f"Looks as if the last block of a split, of {block}, reaches into the next one"
            help_text = (
                "A split's last block must end where the split does: mask it there, or let splits be whole blocks."
            )
            yield "done_again", title, help_text, (a * _times_counted(a.shape[1], size, block)) @ b


def _times_counted(depth: int, size: int, block: int) -> Tensor:
    """[K]: how often each element counts if splits of so many are walked in whole blocks."""
    times = torch.zeros(depth, dtype=torch.float64)
    for start in range(0, depth, size):
        times[start : start + -(-size // block) * block] += 1
    return times


def _exchanged(b: Tensor) -> Tensor:
    """b where element (k, n) is looked for at k + n · N instead of k · N + n; what lies beyond is unknown."""
    rows, columns = b.shape
    places = torch.arange(rows)[:, None] + torch.arange(columns) * columns
    flat = torch.cat([b.reshape(-1), torch.full((1,), torch.nan, dtype=b.dtype)])
    return flat[places.clamp(max=b.numel())]


def matmul_roundings(a: Tensor, b: Tensor) -> Iterator[tuple[str, Tensor]]:
    """Yield sums, the parts of a split K, and products in the inputs' dtype; TF32, if they are float32."""
    for kind, c in _rounded_products(a, b):
        yield kind, c.to(a.dtype)


def matmul_bias_silu_roundings(a: Tensor, b: Tensor, bias: Tensor) -> Iterator[tuple[str, Tensor]]:
    """Yield the same, and the product rounded before the epilogue."""
    if a.dtype != torch.float32:
        rounded = (a.float() @ b.float()).to(a.dtype).float()
        yield "rounded_intermediate", silu(rounded + bias.float()).to(a.dtype)
        yield "rounded_intermediate", silu((rounded + bias.float()).to(a.dtype).float()).to(a.dtype)
    for kind, c in _rounded_products(a, b):
        yield kind, silu(c.float() + bias.float()).to(a.dtype)


def _rounded_products(a: Tensor, b: Tensor) -> Iterator[tuple[str, Tensor]]:
    wide_a, wide_b = a.float(), b.float()
    if a.dtype == torch.float32:
        for half in (0, 1 << 12):
            yield "tf32", _tf32(a, half) @ _tf32(b, half)
        return
    for block in USUAL_DEPTHS[:4]:
        total = torch.zeros(a.shape[0], b.shape[1], dtype=a.dtype)
        for start in range(0, a.shape[1], block):
            added = wide_a[:, start : start + block] @ wide_b[start : start + block]
            total = (total.float() + added).to(a.dtype)
        yield "low_precision_sum", total
    for block, parts in product(SPLIT_DEPTHS, SPLITS):
        total, part_of = torch.zeros(a.shape[0], b.shape[1], dtype=a.dtype), torch.arange(a.shape[1]) // block % parts
        for part in range(parts):
            added = (wide_a[:, part_of == part] @ wide_b[part_of == part]).to(a.dtype)
            total = (total.float() + added.float()).to(a.dtype)
        yield "low_precision_sum", total
    wide = torch.zeros(a.shape[0], b.shape[1])
    for k in range(a.shape[1]):
        wide += (wide_a[:, k, None] * wide_b[k]).to(a.dtype).float()
    yield "rounded_intermediate", wide


def _tf32(x: Tensor, half: int) -> Tensor:
    """Keep the 10 bits of the mantissa that TF32 has: cut off, or rounded where `half` is half of the last one."""
    bits = x.contiguous().view(torch.int32)
    return torch.where(x.isfinite(), ((bits + half) & -(1 << 13)).view(torch.float32), x)
