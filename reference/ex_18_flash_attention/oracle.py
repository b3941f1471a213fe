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
# Keys per tile of the online softmax, and the number of pairs up to which all of these are tried.
TILES = (16, 64)
FEW_PAIRS = 1 << 22

FLOAT32_EPS = torch.finfo(torch.float32).eps
# Roundings of a weight besides those of its logit: exp2, the rescaling, the sums.
WEIGHT_ROUNDINGS = 8
# Tensor cores cut off the last bit of the running sum in every step of 16: up to 4.5 eps of a logit at D = 128.
LOGIT_ROUNDINGS = 5


class Some(NamedTuple):
    """Some queries of one head: their place in [B, Hq, Sq], their kv head's place, and which keys each of them sees."""

    rows: tuple[int, int, slice]
    head: tuple[int, int]
    visible: Tensor


def attention_forward(q: Tensor, k: Tensor, v: Tensor, causal: bool, scale: float | None) -> tuple[Tensor, Tensor]:
    """o = softmax(scale · q kᵀ) v, [B, Hq, Sq, D], and lse = log sum exp(scale · q kᵀ), [B, Hq, Sq].

    Query i sees keys j <= i + Skv - Sq if causal, else all. A query that sees none has o = 0 and lse = -inf.
    """
    o, lse = torch.empty_like(q), q.new_empty(q.shape[:3])
    for some in _pieces(q, k, causal):
        logits = _scale(q, scale) * q[some.rows] @ k[some.head].T
        lse[some.rows] = logits.masked_fill(~some.visible, -math.inf).logsumexp(-1)
        o[some.rows] = _weights(logits, lse[some.rows], some.visible) @ v[some.head]
    return o, lse


def attention_backward(
    do: Tensor, q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor, causal: bool, scale: float | None
) -> tuple[Tensor, Tensor, Tensor]:
    """dq: [B, Hq, Sq, D], dk, dv: [B, Hkv, Skv, D], with the weights that follow from lse, and sum(o ∘ do) from o."""
    dq, dk, dv = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
    for some in _pieces(q, k, causal):
        q_rows, do_rows = q[some.rows], do[some.rows]
        weights = _weights(_scale(q, scale) * q_rows @ k[some.head].T, lse[some.rows], some.visible)
        delta = (o[some.rows] * do_rows).sum(-1, keepdim=True)
        dlogits = weights * (do_rows @ v[some.head].T - delta)
        dv[some.head] += weights.T @ do_rows
        dk[some.head] += _scale(q, scale) * dlogits.T @ q_rows
        dq[some.rows] = _scale(q, scale) * dlogits @ k[some.head]
    return dq, dk, dv


def _scale(q: Tensor, scale: float | None) -> float:
    return q.shape[-1] ** -0.5 if scale is None else scale


def _pieces(q: Tensor, k: Tensor, causal: bool) -> Iterator[Some]:
    """All queries of all heads, as many of a head at a time as there is room for."""
    queries, keys, group = q.shape[2], k.shape[2], q.shape[1] // k.shape[1]
    most = max(1, MOST_PAIRS // keys)
    j = torch.arange(keys, device=q.device)
    for b in range(q.shape[0]):
        for h in range(q.shape[1]):
            for first in range(0, queries, most):
                i = torch.arange(first, min(first + most, queries), device=q.device)
                visible = (
                    j <= i[:, None] + keys - queries if causal else torch.ones(1, 1, dtype=torch.bool).to(q.device)
                )
                yield Some((b, h, slice(first, first + most)), (b, h // group), visible)


def _weights(logits: Tensor, lse: Tensor, visible: Tensor) -> Tensor:
    """exp(logits - lse) where visible, else 0: also where nothing is, and lse is -inf."""
    return (logits - lse[:, None]).exp().masked_fill(~visible, 0.0)


# -- honest code -----------------------------------------------------------------------------------------------------


def attention_forward_honest(
    q: Tensor, k: Tensor, v: Tensor, causal: bool, scale: float | None
) -> Iterator[tuple[Tensor, Tensor]]:
    """Online softmax in float32, with weights rounded to the inputs' dtype for the second product; and at worst."""
    few = q.shape[:3].numel() * k.shape[2] <= FEW_PAIRS
    for tile in TILES if few else TILES[-1:]:
        for backwards in (False, True) if few else (False,):
            yield _online(q, k, v, causal, _scale(q, scale), tile, backwards=backwards)
    yield _forward_at_worst(q, k, v, causal, _scale(q, scale))


def _online(
    q: Tensor, k: Tensor, v: Tensor, causal: bool, scale: float, tile: int, *, backwards: bool
) -> tuple[Tensor, Tensor]:
    """Tile after tile of keys, from the first or from the last."""
    o, lse = torch.empty_like(q), torch.empty(q.shape[:3], dtype=torch.float32, device=q.device)
    # A long row is cut into few tiles: their number costs time, and changes little.
    tile = max(tile, k.shape[2] // 64)
    for some in _pieces(q, k, causal):
        logits = scale * (q[some.rows].float() @ k[some.head].float().T)
        logits = logits.masked_fill(~some.visible, -math.inf)
        top = torch.full((len(logits), 1), -math.inf, device=q.device)
        total, acc = torch.zeros_like(top), torch.zeros((len(logits), q.shape[3]), device=q.device)
        starts = range(0, k.shape[2], tile)
        for start in reversed(starts) if backwards else starts:
            part = logits[:, start : start + tile]
            new_top = torch.maximum(top, part.amax(-1, keepdim=True))
            # Where nothing has been seen yet.
            shift = new_top.masked_fill(new_top == -math.inf, 0.0)
            weights, rescale = (part - shift).exp(), (top - shift).exp()
            rounded = weights.to(q.dtype).float()
            total = total * rescale + weights.sum(-1, keepdim=True)
            acc = acc * rescale + rounded @ v[some.head][start : start + tile].float()
            top = new_top
        o[some.rows] = (acc / total.masked_fill(total == 0, 1.0)).to(q.dtype)
        lse[some.rows] = (top + total.log()).squeeze(-1)
    return o, lse


def _forward_at_worst(q: Tensor, k: Tensor, v: Tensor, causal: bool, scale: float) -> tuple[Tensor, Tensor]:
    """The truth, off by what float32 may do to a logit and a weight at worst, and by what rounding the weights of a
    row usually does: their errors are as large as can be, and independent of each other.
    """
    half_ulp = torch.finfo(q.dtype).eps / 2
    q, k, v = q.double(), k.double(), v.double()
    o, lse = attention_forward(q, k, v, causal, scale)
    for some in _pieces(q, k, causal):
        keys, seen = v[some.head], lse[some.rows].masked_fill(lse[some.rows] == -math.inf, 0.0)
        weights = _weights(scale * q[some.rows] @ k[some.head].T, lse[some.rows], some.visible)
        sizes = abs(scale) * q[some.rows].abs() @ k[some.head].abs().T
        roundings = WEIGHT_ROUNDINGS + LOGIT_ROUNDINGS * sizes.amax(-1) + seen.abs()
        lse[some.rows] += FLOAT32_EPS * roundings
        o[some.rows] += FLOAT32_EPS * roundings[:, None] * (weights @ keys.abs())
        o[some.rows] += half_ulp * (weights.square() @ keys.square()).sqrt()
    return o, lse.float()


def attention_backward_honest(
    do: Tensor, q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor, causal: bool, scale: float | None
) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """In float32, with what enters a product rounded to the inputs' dtype; and at worst."""
    yield _rounded_backward(do, q, k, v, o, lse, causal, _scale(q, scale))
    yield _backward_at_worst(do, q, k, v, o, lse, causal, _scale(q, scale))


def _rounded_backward(
    do: Tensor, q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor, causal: bool, scale: float
) -> tuple[Tensor, Tensor, Tensor]:
    """As tensor cores would have it: operands in the inputs' dtype, sums in float32."""
    dtype = q.dtype
    do, q, k, v, o = (one.float() for one in (do, q, k, v, o))
    dq, dk, dv = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
    for some in _pieces(q, k, causal):
        q_rows, do_rows = q[some.rows], do[some.rows]
        weights = _weights(scale * (q_rows @ k[some.head].T), lse[some.rows], some.visible)
        delta = (o[some.rows] * do_rows).sum(-1, keepdim=True)
        dlogits = (weights * (do_rows @ v[some.head].T - delta)).to(dtype).float()
        dv[some.head] += weights.to(dtype).float().T @ do_rows
        dk[some.head] += scale * (dlogits.T @ q_rows)
        dq[some.rows] = scale * (dlogits @ k[some.head])
    return dq.to(dtype), dk.to(dtype), dv.to(dtype)


def _backward_at_worst(
    do: Tensor, q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor, causal: bool, scale: float
) -> tuple[Tensor, Tensor, Tensor]:
    """As `_forward_at_worst`: what float32 may do at worst, and what rounding the operands usually does."""
    half_ulp = torch.finfo(q.dtype).eps / 2
    do, q, k, v, o, lse = (one.double() for one in (do, q, k, v, o, lse))
    dq, dk, dv = attention_backward(do, q, k, v, o, lse, causal, scale)
    # The squares of errors that are independent of each other.
    dk_square, dv_square = torch.zeros_like(k), torch.zeros_like(v)
    for some in _pieces(q, k, causal):
        q_rows, do_rows, keys, seen = q[some.rows], do[some.rows], k[some.head], lse[some.rows]
        weights = _weights(scale * q_rows @ keys.T, seen, some.visible)
        sizes = abs(scale) * q_rows.abs() @ keys.abs().T
        seen = seen.masked_fill(seen == -math.inf, 0.0)[:, None]
        weights_off = FLOAT32_EPS * weights * (WEIGHT_ROUNDINGS + LOGIT_ROUNDINGS * sizes + 2 * seen.abs())
        delta = (o[some.rows] * do_rows).sum(-1, keepdim=True)
        dweights = do_rows @ v[some.head].T - delta
        size = do_rows.abs() @ v[some.head].abs().T + (o[some.rows] * do_rows).abs().sum(-1, keepdim=True)
        off = weights_off * dweights.abs() + FLOAT32_EPS * LOGIT_ROUNDINGS * weights * size
        square = (weights * dweights).square()
        dv[some.head] += weights_off.T @ do_rows.abs()
        dk[some.head] += abs(scale) * off.T @ q_rows.abs()
        dq[some.rows] += abs(scale) * off @ keys.abs()
        dv_square[some.head] += weights.square().T @ do_rows.square()
        dk_square[some.head] += square.T @ q_rows.square()
        dq[some.rows] += half_ulp * abs(scale) * (square @ keys.square()).sqrt()
    dk += half_ulp * abs(scale) * dk_square.sqrt()
    dv += half_ulp * dv_square.sqrt()
    return dq, dk, dv
