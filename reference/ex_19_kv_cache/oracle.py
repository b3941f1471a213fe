"""The truth for ex_19 in plain PyTorch, and the plain same-precision computations that its tolerances come from.

`part(...)` receives float64 copies of the inputs. `part_honest(...)` receives the inputs as they are and yields what
honest implementations return, in the dtype that the contract asks for. Sequences are taken with exactly the slots that
they have, neighbours of the same length together; everything runs where its inputs lie, for the caches of a timed size
stay on the GPU.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import product

import torch
from torch import Tensor

# The keys and the values of a few sequences of the same length, [G, Hkv, L, D] each.
Group = tuple[Tensor, Tensor]
# Their copies in float64 must find room on a GPU.
MOST_TOGETHER = 8

# Keys per tile of the online softmax.
TILES = (16, 128)
# A long row is cut into no more tiles than this: their number costs time, and changes little.
MOST_TILES = 32

FLOAT32_EPS = torch.finfo(torch.float32).eps
# Roundings of a weight besides those of its logit: exp2, the rescaling, the sums, the merge of splits.
WEIGHT_ROUNDINGS = 10
# Tensor cores cut off the last bit of the running sum in every step of 16: up to 4.5 eps of a logit at D = 128.
LOGIT_ROUNDINGS = 5


def append_kv(k_cache: Tensor, v_cache: Tensor, k_new: Tensor, v_new: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """The new k_cache and v_cache, [B, Hkv, Smax, D]: slots lengths[b] … lengths[b] + T - 1 hold the new tokens."""
    k_after, v_after = k_cache.clone(), v_cache.clone()
    tokens = k_new.shape[2]
    for b, length in enumerate(lengths.tolist()):
        k_after[b, :, length : length + tokens] = k_new[b]
        v_after[b, :, length : length + tokens] = v_new[b]
    return k_after, v_after


def append_kv_honest(
    k_cache: Tensor, v_cache: Tensor, k_new: Tensor, v_new: Tensor, lengths: Tensor
) -> Iterator[tuple[Tensor, Tensor]]:
    """A copy: there is nothing to round."""
    yield append_kv(k_cache, v_cache, k_new, v_new, lengths)


def decode_attention(q: Tensor, k_cache: Tensor, v_cache: Tensor, lengths: Tensor, scale: float | None) -> Tensor:
    """o = softmax(scale · q kᵀ) v over the first lengths[b] slots, [B, Hq, D]; 0 for a sequence of length 0."""
    return _each(q, _contiguous(k_cache, v_cache, lengths), partial(_attention, scale=scale))


def decode_attention_honest(
    q: Tensor, k_cache: Tensor, v_cache: Tensor, lengths: Tensor, scale: float | None
) -> Iterator[Tensor]:
    """Online softmax in float32, with weights as they are and rounded for the second product; and at worst."""
    yield from _honest(q, list(_contiguous(k_cache, v_cache, lengths)), scale)


def paged_decode_attention(
    q: Tensor, k_pages: Tensor, v_pages: Tensor, block_table: Tensor, lengths: Tensor, scale: float | None
) -> Tensor:
    """The same as decode_attention, of the keys and values that the table leads to."""
    return _each(q, _paged(k_pages, v_pages, block_table, lengths), partial(_attention, scale=scale))


def paged_decode_attention_honest(
    q: Tensor, k_pages: Tensor, v_pages: Tensor, block_table: Tensor, lengths: Tensor, scale: float | None
) -> Iterator[Tensor]:
    """As above."""
    yield from _honest(q, list(_paged(k_pages, v_pages, block_table, lengths)), scale)


def _each(q: Tensor, groups: Iterable[Group], attend: Callable[[Tensor, Tensor, Tensor], Tensor]) -> Tensor:
    """[B, Hq, D]: `attend` of each group's queries [G, Hq, D] and its own slots."""
    found, done = [], 0
    for k, v in groups:
        found.append(attend(q[done : done + len(k)], k, v))
        done += len(k)
    return torch.cat(found)


def _alike(lengths: Tensor) -> Iterator[tuple[slice, int]]:
    """A few neighbours of one length at a time, and that length."""
    every = lengths.tolist()
    first = 0
    for b in range(1, len(every) + 1):
        if b == len(every) or every[b] != every[first] or b - first == MOST_TOGETHER:
            yield slice(first, b), every[first]
            first = b


def _contiguous(k_cache: Tensor, v_cache: Tensor, lengths: Tensor) -> Iterator[Group]:
    """The slots that each sequence has."""
    for group, length in _alike(lengths):
        yield k_cache[group, :, :length], v_cache[group, :, :length]


def _paged(k_pages: Tensor, v_pages: Tensor, block_table: Tensor, lengths: Tensor) -> Iterator[Group]:
    """The slots that each sequence has, brought together one group at a time."""
    for group, length in _alike(lengths):
        yield _gathered(k_pages, block_table[group], length), _gathered(v_pages, block_table[group], length)


def _gathered(pages: Tensor, tables: Tensor, length: int) -> Tensor:
    """The first `length` slots of sequences, [G, Hkv, length, D]: slot j is slot j % page of page table[j // page]."""
    slots = torch.arange(length, device=pages.device)
    return pages[tables.long()[:, slots // pages.shape[1]], slots % pages.shape[1]].transpose(1, 2)


def _attention(q: Tensor, k: Tensor, v: Tensor, scale: float | None) -> Tensor:
    """q: [G, Hq, D], k, v: [G, Hkv, L, D] to [G, Hq, D]; query head h reads kv head h // (Hq // Hkv)."""
    if k.shape[2] == 0:
        return torch.zeros_like(q)
    weights = torch.softmax(_logits(q, k, scale), dim=-1)
    return (weights @ v).reshape(q.shape)


def _logits(q: Tensor, k: Tensor, scale: float | None) -> Tensor:
    """[G, Hkv, Hq // Hkv, L]."""
    return _scale(q, scale) * (_grouped(q, k) @ k.mT)


def _grouped(q: Tensor, k: Tensor) -> Tensor:
    """[G, Hkv, Hq // Hkv, D]: the query heads of a kv head are neighbours."""
    return q.reshape(*k.shape[:2], -1, q.shape[-1])


def _scale(q: Tensor, scale: float | None) -> float:
    return q.shape[-1] ** -0.5 if scale is None else scale


# -- honest code -----------------------------------------------------------------------------------------------------


def _honest(q: Tensor, groups: list[Group], scale: float | None) -> Iterator[Tensor]:
    given = _scale(q, scale)
    for tile, rounded in product(TILES, (True, False)):
        yield _each(q, groups, partial(_online, scale=given, tile=tile, rounded=rounded))
    yield _each(q, groups, partial(_at_worst, scale=given))


def _online(q: Tensor, k: Tensor, v: Tensor, scale: float, tile: int, *, rounded: bool) -> Tensor:
    """Tile after tile of keys; `rounded`: weights enter the second product in the dtype of v."""
    if k.shape[2] == 0:
        return torch.zeros_like(q)
    tile = max(tile, -(-k.shape[2] // MOST_TILES))
    grouped = _grouped(q, k).float()
    top = torch.full((*grouped.shape[:-1], 1), -torch.inf, device=q.device)
    total, acc = torch.zeros_like(top), torch.zeros_like(grouped)
    for start in range(0, k.shape[2], tile):
        logits = scale * (grouped @ k[:, :, start : start + tile].float().mT)
        new_top = torch.maximum(top, logits.amax(-1, keepdim=True))
        weights, rescale = (logits - new_top).exp(), (top - new_top).exp()
        total = total * rescale + weights.sum(-1, keepdim=True)
        weights = weights.to(q.dtype).float() if rounded else weights
        acc = acc * rescale + weights @ v[:, :, start : start + tile].float()
        top = new_top
    return (acc / total).to(q.dtype).reshape(q.shape)


def _at_worst(q: Tensor, k: Tensor, v: Tensor, scale: float) -> Tensor:
    """The truth, off by what float32 may do to a logit and a weight at worst, and by what rounding the weights of a
    row usually does: their errors are as large as can be, and independent of each other.
    """
    if k.shape[2] == 0:
        return torch.zeros_like(q)
    half_ulp = torch.finfo(q.dtype).eps / 2
    wide_q, wide_k, wide_v = q.double(), k.double(), v.double()
    weights = torch.softmax(_logits(wide_q, wide_k, scale), dim=-1)
    sizes = abs(scale) * _grouped(wide_q, wide_k).abs() @ wide_k.abs().mT
    roundings = WEIGHT_ROUNDINGS + LOGIT_ROUNDINGS * sizes.amax(-1, keepdim=True)
    o = weights @ wide_v + FLOAT32_EPS * roundings * (weights @ wide_v.abs())
    o = o + half_ulp * (weights.square() @ wide_v.square()).sqrt()
    return o.to(q.dtype).reshape(q.shape)
