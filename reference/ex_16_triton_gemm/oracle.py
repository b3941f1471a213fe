"""The truth for ex_16 in plain PyTorch, and the plain same-precision computations that its tolerances come from.

`part(...)` receives float64 copies of the inputs. `part_honest(...)` receives the inputs as they are and yields what
honest implementations return, in the dtype that the contract asks for: float32 sums in several orders, rounded once.
Everything runs where its inputs lie; the matrices of a timed product stay on the GPU.
"""

import math
from collections.abc import Iterator
from itertools import product

import numpy as np
import torch
from torch import Tensor

# Products up to so many multiply-adds are also added up one by one, which stores every sum: in 32 MiB. Where all terms
# are equal, the errors of such a sum add up, and no other order's errors are as large.
ONE_BY_ONE = 1 << 23
# Otherwise K is cut into at most so many blocks.
MOST_BLOCKS = 32
# What a tensor core multiplies and adds to its sum in one step.
TENSOR_CORE_DEPTH = 16
# The rounding errors of a sum in any order, in standard deviations; the tolerance takes twice as many.
DEVIATIONS = 2.5
LN_2 = math.log(2)
ROWS_OF_A_PORTION = 256
FLOAT32_EPS = torch.finfo(torch.float32).eps
# Below this, tanh(z / 2) is -1.
SATURATED = -20.0
# A sum of three numbers, however it is rounded, errs by less than so many ulp; the tolerance takes twice as many.
ULPS_OF_A_SUM = 3.0


def matmul(a: Tensor, b: Tensor) -> Tensor:
    """c = a @ b, [M, N]."""
    return a @ b


def matmul_honest(a: Tensor, b: Tensor) -> Iterator[Tensor]:
    """Add up in float32, in any order, and round once."""
    for c in _sums(a, b):
        yield c.to(a.dtype)


def matmul_bias_silu(a: Tensor, b: Tensor, bias: Tensor) -> Tensor:
    """silu(a @ b + bias), [M, N]."""
    return _silu(a @ b + bias)


def matmul_bias_silu_honest(a: Tensor, b: Tensor, bias: Tensor) -> Iterator[Tensor]:
    """Yield the same sums with the epilogue in float32; sums that start with the bias; and at worst.

    "At worst" is what a GPU may do at any element: its exponential errs by 2 ulp, its division by 2, and every other
    operation of the epilogue by half of one. A sigmoid of 1 + tanh(z / 2) errs by an ulp of 1, and is 0 far below 0.
    The sum z may err by some ulp of all its terms; silu hands that on only where it is not flat.
    """
    for c in _sums(a, b):
        yield _silu(c + bias.float()).to(a.dtype)
    if a.shape[0] * b.numel() <= ONE_BY_ONE:
        # An accumulator that starts with the bias: each of its sums is rounded as a number of the bias's size.
        first = a.new_ones((a.shape[0], 1), dtype=torch.float32)
        yield _silu(_one_by_one(torch.cat([first, a.float()], 1), torch.cat([bias.float()[None], b.float()]))).to(
            a.dtype
        )
    z = a.double() @ b.double() + bias.double()
    yield (_silu(z) * (1 + 5 * FLOAT32_EPS)).to(a.dtype)
    coarse = (torch.sigmoid(z) + FLOAT32_EPS).masked_fill(z < SATURATED, 0.0)
    yield (z * coarse).to(a.dtype)
    error = ULPS_OF_A_SUM * FLOAT32_EPS * (a.double().abs() @ b.double().abs() + bias.double().abs())
    largest = torch.finfo(a.dtype).max
    for shaken in (z + error, z - error):
        # Of infinities, no error is measured.
        yield _silu(shaken).clamp(-largest, largest).to(a.dtype)


def _silu(z: Tensor) -> Tensor:
    """z · sigmoid(z); the sigmoid is 0, not NaN, where exp(-z) overflows."""
    return z * torch.sigmoid(z)


def _sums(a: Tensor, b: Tensor) -> Iterator[Tensor]:
    """Yield a @ b in float32: in torch's order, backwards, by blocks of K, one by one, and as tensor cores do it."""
    wide_a, wide_b = a.float(), b.float()
    depth = a.shape[1]
    least = -(-depth // MOST_BLOCKS)
    yield wide_a @ wide_b
    yield wide_a.flip(1) @ wide_b.flip(0)
    for block in {max(16, least), max(64, least), -(-depth // 4)}:
        total = torch.zeros((), device=a.device)
        for start in range(0, depth, block):
            total = total + wide_a[:, start : start + block] @ wide_b[start : start + block]
        yield total
    if a.shape[0] * b.shape[1] * depth <= ONE_BY_ONE:
        yield _one_by_one(wide_a, wide_b)
    yield _in_any_order(wide_a, wide_b)
    if a.dtype != torch.float32:
        yield _truncated(wide_a, wide_b)


def _one_by_one(a: Tensor, b: Tensor) -> Tensor:
    """Add one product after the other, and round each sum: NumPy accumulates in the dtype of the products."""
    products = a.T[:, :, None] * b[:, None, :]
    with np.errstate(invalid="ignore", over="ignore"):
        return torch.from_numpy(np.add.accumulate(products.cpu().numpy(), axis=0)[-1]).to(a.device)


def _in_any_order(a: Tensor, b: Tensor) -> Tensor:
    """As a kernel may add that takes K in an order of its own: from its end, or in parts.

    Each of K additions rounds by up to half an ulp of the sum so far, at random. That sum is at most the sum of all
    blocks of K that have the same sign.
    """
    depth = a.shape[1]
    block = -(-depth // MOST_BLOCKS)
    zero = torch.zeros((), device=a.device)
    above, below = zero, zero
    for start in range(0, depth, block):
        part = a[:, start : start + block] @ b[start : start + block]
        above, below = above + part.clamp(min=0), below + part.clamp(max=0)
    largest = torch.maximum(above, -below)
    return above + below + DEVIATIONS * math.sqrt(depth / 12) * FLOAT32_EPS * largest


def _truncated(a: Tensor, b: Tensor) -> Tensor:
    """As tensor cores may do it: every step cuts off what lies beyond the last bit of the running sum.

    A cut loses up to eps times the running sum, always towards zero, so the losses add up. The running sum is known at
    the ends of blocks.
    """
    depth = a.shape[1]
    steps = -(-depth // (TENSOR_CORE_DEPTH * MOST_BLOCKS))
    block = TENSOR_CORE_DEPTH * steps
    total = torch.zeros((), device=a.device)
    lost = torch.zeros((), device=a.device)
    for start in range(0, depth, block):
        total = total + a[:, start : start + block] @ b[start : start + block]
        lost = lost + steps * FLOAT32_EPS * total
    return total - lost


# -- portions --------------------------------------------------------------------------------------------------------


def matmul_portion(chance: float, a: Tensor, b: Tensor) -> tuple[tuple[Tensor, ...], tuple[int]]:
    """Return some rows of a, and the start of their rows of c."""
    rows = _some_rows(chance, a)
    return (a[rows], b), (rows.start * b.shape[1],)


def matmul_bias_silu_portion(
    chance: float, a: Tensor, b: Tensor, bias: Tensor
) -> tuple[tuple[Tensor, ...], tuple[int]]:
    """Return some rows of a, and the start of their rows of the result."""
    rows = _some_rows(chance, a)
    return (a[rows], b, bias), (rows.start * b.shape[1],)


def _some_rows(chance: float, a: Tensor) -> slice:
    count = min(a.shape[0], ROWS_OF_A_PORTION)
    first = int(chance * (a.shape[0] - count + 1))
    return slice(first, first + count)


# -- usual mistakes --------------------------------------------------------------------------------------------------

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
    yield "bias_missing", "Looks as if the bias is not added", help_text, _silu(plain)
    if a.shape[0] == b.shape[1]:
        yield "bias_axis", "Looks as if the bias is added per row", help_text, _silu(plain + bias[:, None])
    else:
        rows = bias[torch.arange(a.shape[0]) % len(bias)]
        yield "bias_axis", "Looks as if the bias is added per row", help_text, _silu(plain + rows[:, None])
    for depth in (*USUAL_DEPTHS, 1):
        times = -(-a.shape[1] // depth)
        if times > 1:
            title = f"Looks as if the bias is added {times} times"
            yield "bias_repeated", title, "How often does the line that adds it run?", _silu(plain + times * bias)
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
        ("Looks as if silu is applied twice", _silu(_silu(z))),
        ("Looks as if z is multiplied once too often", z * _silu(z)),
    ):
        yield "activation_wrong", title, help_text, wrong
    title = "Looks as if the bias is added after the activation"
    yield "epilogue_order", title, "silu is applied to z = a @ b + bias.", _silu(plain) + bias
    title = "Looks as if only the sigmoid has the bias"
    yield "bias_missing", title, "silu(z) = z · sigmoid(z): z is the same in both places.", plain * torch.sigmoid(z)
    help_text = "z = a @ b + bias."
    yield "wrong_factor", "Looks as if the bias is subtracted", help_text, _silu(plain - bias)
    yield "operand_mixed_up", "Looks as if the bias is multiplied", help_text, _silu(plain * bias)
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
        yield kind, title, told, _silu(wrong + bias)


def _epilogue_inside(a: Tensor, b: Tensor, bias: Tensor, depth: int) -> Tensor:
    """Add bias and take silu after every block of K."""
    out = torch.zeros_like(bias).expand(a.shape[0], -1)
    for start in range(0, a.shape[1], depth):
        out = _silu(out + a[:, start : start + depth] @ b[start : start + depth] + bias)
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
        yield "rounded_intermediate", _silu(rounded + bias.float()).to(a.dtype)
        yield "rounded_intermediate", _silu((rounded + bias.float()).to(a.dtype).float()).to(a.dtype)
    for kind, c in _rounded_products(a, b):
        yield kind, _silu(c.float() + bias.float()).to(a.dtype)


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
