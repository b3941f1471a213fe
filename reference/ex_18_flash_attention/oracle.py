"""The truth for ex_18 in plain PyTorch, and the plain same-precision computations that its tolerances come from.

`part(...)` receives float64 copies of the inputs. `part_honest(...)` receives the inputs as they are and yields what
honest implementations return, in the dtypes that the contract asks for. All logits of some queries are held at once;
everything runs where its inputs lie, for the tensors of a timed size stay on the GPU.
"""

import math
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

# So many pairs of a query and a key at a time: 256 MiB in float64.
MOST_PAIRS = 1 << 25
# Keys per tile of the online softmax, and the number of pairs up to which it is computed.
TILES = (16, 64)
FEW_PAIRS = 1 << 22

FLOAT32_EPS = torch.finfo(torch.float32).eps
FLOAT32_TINY = torch.finfo(torch.float32).tiny
# Roundings of a weight besides those of its logit: exp2, the rescaling, the sums.
WEIGHT_ROUNDINGS = 8
# Tensor cores cut off the last bit of the running sum in every step of 16: up to 4.5 eps of a logit at D = 128.
LOGIT_ROUNDINGS = 5
# Scaled queries or keys may be rounded where the products that a logit adds up are no larger than this, as the root of
# the sum of their squares: normal numbers at D = 128, not scaled, reach 18. Logits of 10⁴ would be off by units.
LARGEST_ROUNDED = 24.0


class Some(NamedTuple):
    """Some queries of some heads, one of each group.

    Their place in [B, Hq, Sq], that of their kv heads in [B, Hkv], and the keys that each of them sees.
    """

    rows: tuple[slice, slice, slice]
    head: tuple[slice, slice]
    visible: Tensor


def attention_forward(q: Tensor, k: Tensor, v: Tensor, causal: bool, scale: float | None) -> tuple[Tensor, Tensor]:
    """o = softmax(scale · q kᵀ) v, [B, Hq, Sq, D], and lse = log sum exp(scale · q kᵀ), [B, Hq, Sq].

    Query i sees keys j <= i + Skv - Sq if causal, else all. A query that sees none has o = 0 and lse = -inf.
    """
    o, lse = torch.empty_like(q), q.new_empty(q.shape[:3])
    for some in _pieces(q, k, causal):
        logits = scale_of(q, scale) * q[some.rows] @ k[some.head].mT
        lse[some.rows] = logits.masked_fill(~some.visible, -math.inf).logsumexp(-1)
        o[some.rows] = weights_of(logits, lse[some.rows], some.visible) @ v[some.head]
    return o, lse


def attention_backward(
    do: Tensor, q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor, causal: bool, scale: float | None
) -> tuple[Tensor, Tensor, Tensor]:
    """dq: [B, Hq, Sq, D], dk, dv: [B, Hkv, Skv, D], with the weights that follow from lse, and sum(o ∘ do) from o."""
    dq, dk, dv = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
    for some in _pieces(q, k, causal):
        q_rows, do_rows = q[some.rows], do[some.rows]
        weights = weights_of(scale_of(q, scale) * q_rows @ k[some.head].mT, lse[some.rows], some.visible)
        delta = (o[some.rows] * do_rows).sum(-1, keepdim=True)
        dlogits = weights * (do_rows @ v[some.head].mT - delta)
        dv[some.head] += weights.mT @ do_rows
        dk[some.head] += scale_of(q, scale) * dlogits.mT @ q_rows
        dq[some.rows] = scale_of(q, scale) * dlogits @ k[some.head]
    return dq, dk, dv


def scale_of(q: Tensor, scale: float | None) -> float:
    return q.shape[-1] ** -0.5 if scale is None else scale


def _pieces(q: Tensor, k: Tensor, causal: bool) -> Iterator[Some]:
    """All queries of all heads: those of all kv heads together, or as many of one at a time as there is room for."""
    (batch, _, queries, _), (heads, keys) = q.shape, k.shape[1:3]
    group = q.shape[1] // heads
    every = (slice(0, batch), slice(0, heads))
    apart = [(slice(b, b + 1), slice(h, h + 1)) for b in range(batch) for h in range(heads)]
    places = [every] if batch * heads * keys <= MOST_PAIRS else apart
    most = max(1, MOST_PAIRS // (keys * (batch * heads if len(places) == 1 else 1)))
    j = torch.arange(keys, device=q.device)
    for sequences, kv_heads in places:
        for member in range(group):
            own = slice(kv_heads.start * group + member, kv_heads.stop * group, group)
            for first in range(0, queries, most):
                i = torch.arange(first, min(first + most, queries), device=q.device)
                visible = (
                    j <= i[:, None] + keys - queries if causal else torch.ones(1, 1, dtype=torch.bool).to(q.device)
                )
                yield Some((sequences, own, slice(first, first + most)), (sequences, kv_heads), visible)


def weights_of(logits: Tensor, lse: Tensor, visible: Tensor) -> Tensor:
    """exp(logits - lse) where visible, else 0: also where nothing is, and lse is -inf."""
    return (logits - lse[..., None]).exp().masked_fill(~visible, 0.0)


# -- portions --------------------------------------------------------------------------------------------------------


def attention_forward_portion(
    chance: float, q: Tensor, k: Tensor, v: Tensor, causal: bool, scale: float | None
) -> tuple[tuple[object, ...], tuple[int, int]]:
    """One kv head of one sequence with its query heads; where o and lse of these begin."""
    queries, keys = _one_head(chance, q, k)
    first = q[0, 0].numel() * (queries[0].start * q.shape[1] + queries[1].start)
    return (q[queries], k[keys], v[keys], causal, scale), (first, first // q.shape[3])


def attention_backward_portion(
    chance: float,
    do: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    o: Tensor,
    lse: Tensor,
    causal: bool,
    scale: float | None,
) -> tuple[tuple[object, ...], tuple[int, int, int]]:
    """One kv head of one sequence with its query heads; where dq, dk and dv of these begin."""
    queries, keys = _one_head(chance, q, k)
    of_query = q[0, 0].numel() * (queries[0].start * q.shape[1] + queries[1].start)
    of_key = k[0, 0].numel() * (keys[0].start * k.shape[1] + keys[1].start)
    some = (do[queries], q[queries], k[keys], v[keys], o[queries], lse[queries], causal, scale)
    return some, (of_query, of_key, of_key)


def _one_head(chance: float, q: Tensor, k: Tensor) -> tuple[tuple[slice, slice], tuple[slice, slice]]:
    """Return the sequence and the heads, of queries and of keys."""
    sequence, head = divmod(int(chance * k.shape[0] * k.shape[1]), k.shape[1])
    group = q.shape[1] // k.shape[1]
    one = slice(sequence, sequence + 1)
    return (one, slice(head * group, (head + 1) * group)), (one, slice(head, head + 1))


# -- honest code -----------------------------------------------------------------------------------------------------


def attention_forward_honest(
    q: Tensor, k: Tensor, v: Tensor, causal: bool, scale: float | None
) -> Iterator[tuple[Tensor, Tensor]]:
    """Compute online softmax in float32, with weights rounded to the inputs' dtype for the second product.

    Also at worst, which alone is computed for many pairs, and stands for the other designs: weights divided before they
    are rounded, scaled queries or keys that are.
    """
    o, lse = _forward_at_worst(q, k, v, causal, scale_of(q, scale))
    if q.shape[:3].numel() * k.shape[2] > FEW_PAIRS:
        yield o.to(q.dtype), lse
        return
    for tile in TILES:
        for backwards in (False, True):
            yield _online(q, k, v, causal, scale_of(q, scale), tile, backwards=backwards)
    yield o, lse


def _online(
    q: Tensor, k: Tensor, v: Tensor, causal: bool, scale: float, tile: int, *, backwards: bool
) -> tuple[Tensor, Tensor]:
    """Tile after tile of keys, from the first or from the last."""
    o, lse = torch.empty_like(q), torch.empty(q.shape[:3], dtype=torch.float32, device=q.device)
    # A long row is cut into few tiles: their number costs time, and changes little.
    tile = max(tile, k.shape[2] // 64)
    for some in _pieces(q, k, causal):
        logits = scale * (q[some.rows].float() @ k[some.head].float().mT)
        logits = logits.masked_fill(~some.visible, -math.inf)
        top = torch.full((*logits.shape[:-1], 1), -math.inf, device=q.device)
        total, acc = torch.zeros_like(top), torch.zeros((*logits.shape[:-1], q.shape[3]), device=q.device)
        starts = range(0, k.shape[2], tile)
        for start in reversed(starts) if backwards else starts:
            part = logits[..., start : start + tile]
            new_top = torch.maximum(top, part.amax(-1, keepdim=True))
            # Where nothing has been seen yet.
            shift = new_top.masked_fill(new_top == -math.inf, 0.0)
            weights, rescale = (part - shift).exp(), (top - shift).exp()
            rounded = weights.to(q.dtype).float()
            total = total * rescale + weights.sum(-1, keepdim=True)
            acc = acc * rescale + rounded @ v[some.head][..., start : start + tile, :].float()
            top = new_top
        o[some.rows] = (acc / total.masked_fill(total == 0, 1.0)).to(q.dtype)
        lse[some.rows] = (top + total.log()).squeeze(-1)
    return o, lse


def _forward_at_worst(q: Tensor, k: Tensor, v: Tensor, causal: bool, scale: float) -> tuple[Tensor, Tensor]:
    """Return the truth, off by the largest errors of float32 and the usual ones of rounded operands.

    float32 errs at worst in a logit and a weight; both products round their operands. Errors of weights, divided or
    not, and of scaled queries or keys are independent of each other.
    """
    half_ulp = torch.finfo(q.dtype).eps / 2
    half_subnormal = half_ulp * torch.finfo(q.dtype).tiny
    q, k, v = q.double(), k.double(), v.double()
    o, lse = torch.empty_like(q), q.new_empty(q.shape[:3])
    for some in _pieces(q, k, causal):
        q_rows, keys, values = q[some.rows], k[some.head], v[some.head]
        logits = scale * q_rows @ keys.mT
        sums = logits.masked_fill(~some.visible, -math.inf).logsumexp(-1)
        weights = weights_of(logits, sums, some.visible)
        sizes = abs(scale) * q_rows.abs() @ keys.abs().mT
        roundings = WEIGHT_ROUNDINGS + LOGIT_ROUNDINGS * sizes.amax(-1) + sums.masked_fill(sums == -math.inf, 0.0).abs()
        # The squares of the usual errors of a row's weights, by their own rounding and by that of their logits.
        moved = weights.square() * _rounded_logits(q_rows, keys, scale, half_ulp)
        rounded = (half_ulp * weights).maximum(weights.clamp(max=half_subnormal)).square()
        truth, total = weights @ values, moved.sum(-1, keepdim=True)
        # Logits move the sum that is divided by as well: what counts is how far a value lies from the mean.
        square = (rounded + moved) @ values.square() - 2 * truth * (moved @ values) + truth.square() * total
        o[some.rows] = (
            truth + FLOAT32_EPS * roundings[..., None] * (weights @ values.abs()) + square.clamp(min=0).sqrt()
        )
        # An element of a scaled query moves all logits of its row.
        shared = (half_ulp * scale * q_rows * (weights @ keys)).square().sum(-1).where(total[..., 0] > 0, 0.0)
        lse[some.rows] = sums + FLOAT32_EPS * roundings + (total[..., 0] + shared).sqrt()
    return o, lse.float()


def _rounded_logits(q_rows: Tensor, keys: Tensor, scale: float, half_ulp: float) -> Tensor:
    """Return the squares of logits' usual errors from rounded scaled queries or keys; 0 in rows that are too large."""
    squares = (scale * q_rows).square() @ keys.square().mT
    return half_ulp**2 * squares.where(squares.amax(-1, keepdim=True) <= LARGEST_ROUNDED**2, 0.0)


def attention_backward_honest(
    do: Tensor, q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor, causal: bool, scale: float | None
) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """In float32, with what enters a product rounded to the inputs' dtype, ds before or after scaling; and at worst."""
    # In float16 the gradients of small weights are subnormal: a scale below 1 takes away some of their last bits.
    yield _rounded_backward(do, q, k, v, o, lse, causal, scale_of(q, scale), scale_first=False)
    yield _rounded_backward(do, q, k, v, o, lse, causal, scale_of(q, scale), scale_first=True)
    yield _backward_at_worst(do, q, k, v, o, lse, causal, scale_of(q, scale))


def _rounded_backward(
    do: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    o: Tensor,
    lse: Tensor,
    causal: bool,
    scale: float,
    *,
    scale_first: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """As tensor cores would have it: operands in the inputs' dtype, sums in float32."""
    dtype = q.dtype
    before, after = (scale, 1.0) if scale_first else (1.0, scale)
    do, q, k, v, o = (one.float() for one in (do, q, k, v, o))
    dq, dk, dv = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
    for some in _pieces(q, k, causal):
        q_rows, do_rows = q[some.rows], do[some.rows]
        weights = weights_of(scale * (q_rows @ k[some.head].mT), lse[some.rows], some.visible)
        delta = (o[some.rows] * do_rows).sum(-1, keepdim=True)
        dlogits = (before * weights * (do_rows @ v[some.head].mT - delta)).to(dtype).float()
        dv[some.head] += weights.to(dtype).float().mT @ do_rows
        dk[some.head] += after * (dlogits.mT @ q_rows)
        dq[some.rows] = after * (dlogits @ k[some.head])
    return dq.to(dtype), dk.to(dtype), dv.to(dtype)


def _backward_at_worst(
    do: Tensor, q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor, causal: bool, scale: float
) -> tuple[Tensor, Tensor, Tensor]:
    """As `_forward_at_worst`: what float32 may do at worst, and what rounding the operands usually does.

    delta may also be the sum of p ∘ dp, which knows nothing of the rounding of o.
    """
    half_ulp = torch.finfo(q.dtype).eps / 2
    half_subnormal = half_ulp * torch.finfo(q.dtype).tiny
    do, q, k, v, o, lse = (one.double() for one in (do, q, k, v, o, lse))
    dq, dk, dv = attention_backward(do, q, k, v, o, lse, causal, scale)
    # The squares of errors that are independent of each other.
    dk_square, dv_square = torch.zeros_like(k), torch.zeros_like(v)
    for some in _pieces(q, k, causal):
        q_rows, do_rows, keys, seen = q[some.rows], do[some.rows], k[some.head], lse[some.rows]
        weights = weights_of(scale * q_rows @ keys.mT, seen, some.visible)
        sizes = abs(scale) * q_rows.abs() @ keys.abs().mT
        seen = seen.masked_fill(seen == -math.inf, 0.0)[..., None]
        weights_off = FLOAT32_EPS * weights * (WEIGHT_ROUNDINGS + LOGIT_ROUNDINGS * sizes + 2 * seen.abs())
        # A GPU's exponential, and its products, may give 0 for what is smaller than the least normal number.
        weights_off += weights.clamp(max=FLOAT32_TINY)
        delta = (o[some.rows] * do_rows).sum(-1, keepdim=True)
        dweights = do_rows @ v[some.head].mT - delta
        # The row's sum of p ∘ (dp - delta) is 0 but for the rounding of o.
        of_o = weights * (weights * dweights).sum(-1, keepdim=True)
        size = do_rows.abs() @ v[some.head].abs().mT + (o[some.rows] * do_rows).abs().sum(-1, keepdim=True)
        off = weights_off * dweights.abs() + FLOAT32_EPS * LOGIT_ROUNDINGS * weights * size
        off += (weights * dweights).abs().clamp(max=FLOAT32_TINY)
        dv[some.head] += weights_off.mT @ do_rows.abs()
        dk[some.head] += abs(scale) * (off.mT @ q_rows.abs() + (of_o.mT @ q_rows).abs())
        dq[some.rows] += abs(scale) * (off @ keys.abs() + (of_o @ keys).abs())
        # Of p and ds themselves, by their logits, and in the product with ds of a scaled query or key.
        moved = _rounded_logits(q_rows, keys, scale, half_ulp)
        # ds may be made of the weights that enter the product with do: what 16 bits hold of a small one is little.
        rounded = (half_ulp * weights).maximum(weights.clamp(max=half_subnormal)).square() + weights.square() * moved
        square = dweights.square() * (rounded + (half_ulp * weights).square() * (moved > 0))
        dv_square[some.head] += rounded.mT @ do_rows.square()
        dk_square[some.head] += square.mT @ q_rows.square()
        dq[some.rows] += abs(scale) * (square @ keys.square()).sqrt()
    dk += abs(scale) * dk_square.sqrt()
    dv += dv_square.sqrt()
    return dq, dk, dv
