"""The truth for ex_19 in plain PyTorch, and the plain same-precision computations that its tolerances come from.

`part(...)` receives float64 copies of the inputs. `part_honest(...)` receives the inputs as they are and yields what
honest implementations return, in the dtype that the contract asks for. Sequences are taken with exactly the slots that
they have, those of the same length together; everything runs where its inputs lie, for the caches of a timed size stay
on the GPU.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

# Some sequences of the same length: their numbers, [G], and their keys and values, [G, Hkv, L, D].
Group = tuple[Tensor, Tensor, Tensor]
# Keys of a group, in elements: their copies in float64 must find room on a GPU.
MOST_TOGETHER = 1 << 24


class Design(NamedTuple):
    """Describe how an online softmax rounds.

    tile: keys per step. rounded: weights enter the second product in the dtype of v; where all weights are equal, all
    are rounded in the same direction. divided: they are divided by the sum so far before, as in the first
    FlashAttention.
    """

    tile: int
    rounded: bool = False
    divided: bool = False


# Of float32, nothing is rounded on its way into the second product.
EXACT_DESIGNS = (Design(16), Design(128))
# The errors of divided weights depend on the tile.
ALL_DESIGNS = (
    *EXACT_DESIGNS,
    Design(16, rounded=True),
    Design(128, rounded=True),
    *(Design(tile, rounded=True, divided=True) for tile in (16, 32, 64, 128, 256)),
)
# How much of its error counts as that of honest code, of which the part allows twice as much. One half would leave no
# room for another order of sums; partial results that are rounded, a mistake, are hardly further off.
DIVIDED_SHARE = 0.6
# A long row is cut into no more tiles than this: their number costs time, and changes little.
MOST_TILES = 32

FLOAT32_EPS = torch.finfo(torch.float32).eps
# Roundings of a weight besides those of its logit: exp2, the rescaling, the sums, the merge of splits.
WEIGHT_ROUNDINGS = 10
# Tensor cores cut off the last bit of the running sum in every step of 16: up to 4.5 eps of a logit at D = 128.
LOGIT_ROUNDINGS = 5
# Scaled queries or keys may be rounded where the products that a logit adds up are no larger than this, as the root of
# the sum of their squares: normal numbers at D = 128, not scaled, reach 18. Logits of 10⁴ would be off by units.
LARGEST_ROUNDED = 24.0


def append_kv(k_cache: Tensor, v_cache: Tensor, k_new: Tensor, v_new: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """Return the caches, [B, Hkv, Smax, D], with the new tokens in slots lengths[b] … lengths[b] + T - 1."""
    k_after, v_after = k_cache.clone(), v_cache.clone()
    tokens = k_new.shape[2]
    for b, length in enumerate(lengths.tolist()):
        k_after[b, :, length : length + tokens] = k_new[b]
        v_after[b, :, length : length + tokens] = v_new[b]
    return k_after, v_after


def append_kv_honest(
    k_cache: Tensor, v_cache: Tensor, k_new: Tensor, v_new: Tensor, lengths: Tensor
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield a copy: there is nothing to round."""
    yield append_kv(k_cache, v_cache, k_new, v_new, lengths)


def decode_attention(q: Tensor, k_cache: Tensor, v_cache: Tensor, lengths: Tensor, scale: float | None) -> Tensor:
    """o = softmax(scale · q kᵀ) v over the first lengths[b] slots, [B, Hq, D]; 0 for a sequence of length 0."""
    return for_each_group(q, contiguous(k_cache, v_cache, lengths), partial(attention_of, scale=scale))


def decode_attention_honest(
    q: Tensor, k_cache: Tensor, v_cache: Tensor, lengths: Tensor, scale: float | None
) -> Iterator[Tensor]:
    """Online softmax in float32, with weights as they are and rounded for the second product; and at worst.

    Also with weights that are divided by the sum so far, and then rounded.
    """
    yield from _honest(q, contiguous(k_cache, v_cache, lengths), scale)


def paged_decode_attention(
    q: Tensor, k_pages: Tensor, v_pages: Tensor, block_table: Tensor, lengths: Tensor, scale: float | None
) -> Tensor:
    """Compute decode_attention of the keys and values that the table leads to."""
    return for_each_group(q, paged(k_pages, v_pages, block_table, lengths), partial(attention_of, scale=scale))


def paged_decode_attention_honest(
    q: Tensor, k_pages: Tensor, v_pages: Tensor, block_table: Tensor, lengths: Tensor, scale: float | None
) -> Iterator[Tensor]:
    """As above."""
    yield from _honest(q, paged(k_pages, v_pages, block_table, lengths), scale)


# -- portions --------------------------------------------------------------------------------------------------------


def append_kv_portion(
    chance: float, k_cache: Tensor, v_cache: Tensor, k_new: Tensor, v_new: Tensor, lengths: Tensor
) -> tuple[tuple[Tensor, ...], tuple[int, int]]:
    """One sequence; where its slots begin in the caches."""
    one, first = _one_sequence(chance, k_cache)
    return (k_cache[one], v_cache[one], k_new[one], v_new[one], lengths[one]), (first, first)


def decode_attention_portion(
    chance: float, q: Tensor, k_cache: Tensor, v_cache: Tensor, lengths: Tensor, scale: float | None
) -> tuple[tuple[object, ...], tuple[int]]:
    """One sequence; where its heads begin in o."""
    one, first = _one_sequence(chance, q)
    return (q[one], k_cache[one], v_cache[one], lengths[one], scale), (first,)


def paged_decode_attention_portion(
    chance: float,
    q: Tensor,
    k_pages: Tensor,
    v_pages: Tensor,
    block_table: Tensor,
    lengths: Tensor,
    scale: float | None,
) -> tuple[tuple[object, ...], tuple[int]]:
    """One sequence; where its heads begin in o."""
    one, first = _one_sequence(chance, q)
    return (q[one], k_pages, v_pages, block_table[one], lengths[one], scale), (first,)


def _one_sequence(chance: float, of_batch: Tensor) -> tuple[slice, int]:
    """Return the slice of one sequence, and the number of elements before it."""
    place = int(chance * of_batch.shape[0])
    return slice(place, place + 1), place * of_batch[0].numel()


# -- how -------------------------------------------------------------------------------------------------------------


def for_each_group(q: Tensor, groups: Iterable[Group], attend: Callable[[Tensor, Tensor, Tensor], Tensor]) -> Tensor:
    """[…, B, Hq, D]: `attend` of each group's queries [G, Hq, D] and its own slots."""
    numbers, found = [], []
    for some, k, v in groups:
        numbers.append(some)
        found.append(attend(q[some], k, v))
    return torch.cat(found, dim=-3).index_select(-3, torch.cat(numbers).argsort())


def groups_alike(lengths: Tensor, elements: int) -> Iterator[tuple[Tensor, int]]:
    """Yield the numbers of sequences of one length, and that length. elements: of the keys of a slot."""
    for length in lengths.unique().tolist():
        same = (lengths == length).nonzero()[:, 0]
        for some in same.split(max(1, MOST_TOGETHER // max(1, length * elements))):
            yield some, length


def contiguous(k_cache: Tensor, v_cache: Tensor, lengths: Tensor) -> Iterator[Group]:
    """Yield the slots that each sequence has."""
    for some, length in groups_alike(lengths, k_cache.shape[1] * k_cache.shape[3]):
        yield some, k_cache[some, :, :length], v_cache[some, :, :length]


def paged(k_pages: Tensor, v_pages: Tensor, block_table: Tensor, lengths: Tensor) -> Iterator[Group]:
    """Yield the slots that each sequence has, brought together one group at a time."""
    for some, length in groups_alike(lengths, k_pages.shape[2] * k_pages.shape[3]):
        tables = block_table[some]
        yield some, gathered(k_pages, tables, length), gathered(v_pages, tables, length)


def gathered(pages: Tensor, tables: Tensor, length: int) -> Tensor:
    """Return the first `length` slots, [G, Hkv, length, D]: slot j is slot j % page of page table[j // page]."""
    slots = torch.arange(length, device=pages.device)
    return pages[tables.long()[:, slots // pages.shape[1]], slots % pages.shape[1]].transpose(1, 2)


def attention_of(q: Tensor, k: Tensor, v: Tensor, scale: float | None) -> Tensor:
    """q: [G, Hq, D], k, v: [G, Hkv, L, D] to [G, Hq, D]; query head h reads kv head h // (Hq // Hkv)."""
    if k.shape[2] == 0:
        return torch.zeros_like(q)
    weights = torch.softmax(logits_of(q, k, scale), dim=-1)
    return (weights @ v).reshape(q.shape)


def logits_of(q: Tensor, k: Tensor, scale: float | None) -> Tensor:
    """[G, Hkv, Hq // Hkv, L]."""
    return scale_of(q, scale) * (query_heads_of(q, k) @ k.mT)


def query_heads_of(q: Tensor, k: Tensor) -> Tensor:
    """[G, Hkv, Hq // Hkv, D]: the query heads of a kv head are neighbours."""
    return q.reshape(*k.shape[:2], -1, q.shape[-1])


def scale_of(q: Tensor, scale: float | None) -> float:
    return q.shape[-1] ** -0.5 if scale is None else scale


# -- honest code -----------------------------------------------------------------------------------------------------


def _honest(q: Tensor, groups: Iterable[Group], scale: float | None) -> Iterator[Tensor]:
    yield from for_each_group(q, groups, partial(_designs, scale=scale_of(q, scale))).unbind()


def _designs(q: Tensor, k: Tensor, v: Tensor, scale: float) -> Tensor:
    """Return what honest designs give: [N, G, Hq, D]."""
    designs = EXACT_DESIGNS if q.dtype is torch.float32 else ALL_DESIGNS
    if k.shape[2] == 0:
        return q.new_zeros(len(designs) + 1, *q.shape)
    logits, values = scale * (query_heads_of(q, k).float() @ k.float().mT), v.float()
    truth, at_worst = _at_worst(q, k, v, scale)
    found = [at_worst]
    for design in designs:
        o = _online(logits, values, design, q.dtype).reshape(q.shape)
        found.append((truth + DIVIDED_SHARE * (o.double() - truth)).to(q.dtype) if design.divided else o)
    return torch.stack(found)


def _online(logits: Tensor, v: Tensor, design: Design, dtype: torch.dtype) -> Tensor:
    """[G, Hkv, Hq // Hkv, D]: the online softmax, tile after tile of keys.

    All tiles are computed at once: a tile's weights are relative to what a loop knows by then. logits: [G, Hkv, Hq //
    Hkv, L], v: [G, Hkv, L, D], both float32. dtype: of the inputs.
    """
    tile = max(design.tile, -(-v.shape[2] // MOST_TILES))
    missing = -v.shape[2] % tile
    # [G, Hkv, Hq // Hkv, T, tile]
    tiles = pad(logits, (0, missing), value=-torch.inf).unflatten(-1, (-1, tile))
    if design.divided:
        known = tiles.logsumexp(-1, keepdim=True).logcumsumexp(-2)
    else:
        known = tiles.amax(-1, keepdim=True).cummax(-2).values
    weights, rescale = (tiles - known).exp(), (known - known[..., -1:, :]).exp()
    total = (weights.sum(-1, keepdim=True) * rescale).sum(-2)
    weights = weights.to(dtype).float() if design.rounded else weights
    values = pad(v, (0, 0, 0, missing)).unflatten(2, (-1, tile))
    acc = (weights.transpose(2, 3) @ values * rescale.transpose(2, 3)).sum(2)
    return (acc if design.divided else acc / total).to(dtype)


def _at_worst(q: Tensor, k: Tensor, v: Tensor, scale: float) -> tuple[Tensor, Tensor]:
    """Return the truth, and the truth off by the largest errors of float32 and the usual ones of rounded operands.

    float32 errs at worst in a logit and a weight; both products round their operands. Errors of weights, divided or
    not, and of scaled queries or keys are independent of each other.
    """
    half_ulp = torch.finfo(q.dtype).eps / 2
    half_subnormal = half_ulp * torch.finfo(q.dtype).tiny
    wide_q, wide_k, wide_v = q.double(), k.double(), v.double()
    weights = torch.softmax(logits_of(wide_q, wide_k, scale), dim=-1)
    sizes = abs(scale) * query_heads_of(wide_q, wide_k).abs() @ wide_k.abs().mT
    roundings = WEIGHT_ROUNDINGS + LOGIT_ROUNDINGS * sizes.amax(-1, keepdim=True)
    # The squares of the usual errors of a row's weights, by their own rounding and by that of their logits.
    moved = weights.square() * _rounded_by_product(wide_q, wide_k, scale, half_ulp)
    rounded = (half_ulp * weights).maximum(weights.clamp(max=half_subnormal)).square()
    truth = weights @ wide_v
    # Logits move the sum that is divided by as well: what counts is how far a value lies from the mean.
    square = (rounded + moved) @ wide_v.square() - 2 * truth * (moved @ wide_v)
    square = square + truth.square() * moved.sum(-1, keepdim=True)
    o = truth + FLOAT32_EPS * roundings * (weights @ wide_v.abs()) + square.clamp(min=0).sqrt()
    return truth.reshape(q.shape), o.to(q.dtype).reshape(q.shape)


def _rounded_by_product(q: Tensor, k: Tensor, scale: float, half_ulp: float) -> Tensor:
    """Return the squares of logits' usual errors from rounded scaled queries or keys; 0 in rows that are too large."""
    squares = (scale * query_heads_of(q, k)).square() @ k.square().mT
    return half_ulp**2 * squares.where(squares.amax(-1, keepdim=True) <= LARGEST_ROUNDED**2, 0.0)
