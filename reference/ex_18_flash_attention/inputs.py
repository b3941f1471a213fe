"""Builds the inputs of one case: a function per part, `part(case, generator) -> arguments in the stub's order`.

All tensors are made on the generator's device: the CPU for correctness, the GPU for the timed sizes.
"""

import math
from collections.abc import Mapping

import torch
from torch import Generator, Tensor

from grader.exercise.tensors import differing, dtype_of, one_apart, starting_at, stretch_of, values, with_gaps

# Size of a "peaked" row's logits, and the climb of a "rising" row's logits from its first key to its last.
PEAK = 1e4
CLIMB = 12.0
# Depth of a "sunken" row's logits.
DEPTH = 1.2e4
# An "outlier" weighs so many times as much as all other keys of its row together.
OUTWEIGHS = 40.0
# Distance of a "stretch" of keys from the others.
AWAY = 100.0
# The first term of a "swamped" sum, between 512 and 1024; and the sum of 64 further terms, in units of its last place.
# A sum of 16 bits does not change by that, or is rounded up; a thousand terms add several units.
HEAVY = 600.0
PER_TILE = 0.3
# Layouts with an element that nobody reads behind each slice of an axis.
GAPPED = {"head_gaps": 1, "row_gaps": 2}
# No two of these have the same strides.
APART = ("bhsd", "bshd", "sliced", "expanded")
LAYOUTS = ("bhsd", "bshd", "sliced", "unaligned", *GAPPED, "expanded")


def attention_forward(
    case: Mapping[str, object], generator: Generator
) -> tuple[Tensor, Tensor, Tensor, bool, float | None]:
    """Return q: [B, Hq, Sq, D], k, v: [B, Hkv, Skv, D], causal, scale."""
    return *_operands(case, generator), bool(case["causal"]), _scale(case)


def attention_backward(
    case: Mapping[str, object], generator: Generator
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, bool, float | None]:
    """Return do, q, o: [B, Hq, Sq, D], k, v: [B, Hkv, Skv, D], lse: [B, Hq, Sq], causal, scale, in the stub's order.

    o and lse belong to q, k and v.
    """
    q, k, v = _operands(case, generator)
    do = values("normal", q.shape, torch.float32, generator)
    if case["values"] == "swamped":
        # The sums of dk and dv go on over the query heads that share a kv head, so one of these has the heavy number.
        # A hundredth of v: their products must fit into float16.
        do = _swamping(do.reshape(*k.shape[:2], -1, q.shape[3]), q.dtype).reshape(q.shape) / 100
    if case["values"] == "shifted" and q.dtype == torch.bfloat16:
        # As far below float16's range as v lies above it.
        do = do * 1e-9
    do = laid_out(do.to(q.dtype), _layouts(case)[3])
    causal, scale = bool(case["causal"]), _scale(case)
    return do, q, k, v, *_after_forward(case, q, k, v, causal, scale), causal, scale


def attention_backward_following(
    case: Mapping[str, object],
    do: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    o: Tensor,
    lse: Tensor,
    causal: bool,
    scale: float | None,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, bool, float | None]:
    """Return the same with o and lse of these q, k and v: a kernel may trust that weights are at most 1."""
    return do, q, k, v, *_after_forward(case, q, k, v, causal, scale), causal, scale


def _scale(case: Mapping[str, object]) -> float | None:
    return None if case["scale"] == "default" else float(case["scale"])


def _positive_scale(case: Mapping[str, object]) -> float:
    """Return the scale of the case if it is positive, otherwise the default one."""
    scale = _scale(case)
    return scale if scale is not None and scale > 0 else int(case["D"]) ** -0.5


def _layouts(case: Mapping[str, object]) -> tuple[str, ...]:
    """Return the layouts of q, k, v, do and o.

    mixed: q, k and v all have different strides, and so do do and o. v_apart: v is a window of a larger tensor, and all
    others are contiguous; and so on.
    """
    layout = str(case["layout"])
    if layout == "mixed":
        return *differing(APART, 3, case), *differing(APART, 2, case)
    return one_apart(("q", "k", "v", "do", "o"), layout, "bhsd", "sliced") or (layout,) * 5


def _operands(case: Mapping[str, object], generator: Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Return q: [B, Hq, Sq, D], k, v: [B, Hkv, Skv, D] of the case's dtype, family of values and layout.

    normal: all standard normal. peaked: logits around ±1e4, so that few keys have all the weight. sunken: all logits
    around -1.2e4, at a positive scale. rising: apart from noise, each key's logit is larger than the one before, so
    that no maximum lasts. constant: all keys are equal, and so are all weights. shifted: values around 1e4, or around
    1e6 in bfloat16, and logits with a large mean: before the division by their sum, the weights' sum of values does not
    fit into float16. swamped: all weights are equal, and every sum, of o and of the
    gradients, begins with a large number; 16 bits lose the terms of a further tile, float32 keeps them. stretch: the
    keys of one stretch, anywhere, are far below all others, or far above them, or 0, or all equal, at random for each
    head. outlier: one key of each head, anywhere, has most of the weight; each other key has little, and all of them
    together have enough to be seen.
    """
    batch, width, dtype = int(case["B"]), int(case["D"]), dtype_of(case["dtype"])
    queries = (batch, int(case["Hq"]), int(case["Sq"]), width)
    keys = (batch, int(case["Hkv"]), int(case["Skv"]), width)
    q, k, v = (values("normal", shape, torch.float32, generator) for shape in (queries, keys, keys))
    match str(case["values"]):
        case "peaked":
            spread = math.sqrt(PEAK / 2)
            q, k = q * spread, k * spread
        case "sunken":
            q[..., 0] = 256.0
            k[..., 0] = -DEPTH / (256 * _positive_scale(case))
        case "rising":
            # One dimension carries the climb; at the default scale it is CLIMB / 2 either side, or half or twice that.
            steepness = torch.rand(queries[:3], generator=generator, device=q.device)
            q[..., 0] = 4.0 * torch.exp2(2 * steepness - 1)
            k[..., 0] = torch.linspace(-1, 1, keys[2], device=k.device) * (CLIMB / 8 * math.sqrt(width))
        case "constant":
            k = k[:, :, :1].expand(keys)
        case "shifted":
            # Ten of them are beyond float16's range; in bfloat16 each of them is.
            k, v = k + 3, (v + 100) * (1e4 if dtype == torch.bfloat16 else 100.0)
        case "swamped":
            # Where q is not 0, k is 0, so every logit is 0. The weights are equal, so the gradient of one logit out of
            # Skv is as large as those of all others together: the factor makes up for that.
            in_q = torch.arange(width, device=q.device) // 2 % 2 == 0
            q = torch.where(in_q, q.abs() + 1, 0.0)
            k = torch.where(in_q, 0.0, _swamping(k, dtype, keys[2]))
            v = _swamping(v, dtype)
        case "stretch":
            q[..., 0] = 4.0
            k = _with_stretch(k, generator)
        case "outlier":
            top = torch.randint(keys[2], (*keys[:2], 1, 1), generator=generator, device=k.device)
            is_top = torch.arange(keys[2], device=k.device)[:, None] == top
            q, v = q / 5, (1 + v / 20) * torch.where(is_top, -1.0, 1.0)
            q[..., 0] = 4.0
            k[..., :1] = is_top * (math.log(OUTWEIGHS * keys[2]) * math.sqrt(width) / 4)
        case "normal":
            pass
        case unknown:
            raise ValueError(f"a family of values must be one of those above, got {unknown!r}")
    return tuple(laid_out(one.to(dtype), layout) for one, layout in zip((q, k, v), _layouts(case), strict=False))


def _with_stretch(k: Tensor, generator: Generator) -> Tensor:
    """Return k [B, H, S, D] with one stretch of each head's keys at -100, at 100, at 0 or all equal, at random.

    A query whose first number is 4 has logits ±100 there, at the default scale.
    """
    inside = stretch_of(k.shape[:3], generator)[..., None]
    kind = torch.randint(4, (*k.shape[:2], 1, 1), generator=generator, device=k.device)
    lead = torch.zeros_like(k)
    lead[..., 0] = AWAY * math.sqrt(k.shape[-1]) / 4
    for place, other in enumerate((k - lead, k + lead, torch.zeros_like(k), k[:, :, :1].expand_as(k))):
        k = torch.where(inside & (kind == place), other, k)
    return k


def _swamping(noise: Tensor, dtype: torch.dtype, times: float = 1.0) -> Tensor:
    """Return [B, H, S, D] of small positive numbers, `times` as large, and a heavy one at the start of a sum over S.

    A sum may start from either end: even columns have the heavy number in the first row, odd ones in the last.
    """
    rows, width = noise.shape[2:]
    small = PER_TILE / 64 * torch.finfo(dtype).eps * 512 * times * (1 + noise.abs() / 8)
    row, even = torch.arange(rows, device=noise.device)[:, None], torch.arange(width, device=noise.device) % 2 == 0
    heavy = torch.where(even, row == 0, row == rows - 1)
    return torch.where(heavy, HEAVY * (1 + noise.abs() / 16), small)


def laid_out(tensor: Tensor, layout: str) -> Tensor:
    """Return the same tensor [B, H, S, D] in another memory layout; the last axis is always contiguous.

    bhsd: contiguous. bshd: all heads of a token together. sliced: a window of a larger tensor, rows at any address.
    unaligned: contiguous, from the second element of a longer tensor, so that no row lies at a multiple of 16 bytes.
    head_gaps, row_gaps: only the first head, or row, does; the others follow an unused element.
    expanded: all batches are the first one, in the same memory; only this layout changes the values.
    """
    batch, heads, rows, width = tensor.shape
    match layout:
        case "bhsd":
            return tensor.contiguous()
        case "bshd":
            view = tensor.new_empty(batch, rows, heads, width).transpose(1, 2)
        case "sliced":
            view = tensor.new_empty(batch, heads + 1, rows + 3, width + 13)[:, 1:, 2 : 2 + rows, 5 : 5 + width]
        case "unaligned":
            return starting_at(tensor, 1)
        case "head_gaps" | "row_gaps":
            return with_gaps(tensor, GAPPED[layout], 1)
        case "expanded":
            return tensor[:1].contiguous().expand(batch, -1, -1, -1)
        case unknown:
            raise ValueError(f"a layout must be one of {', '.join(LAYOUTS)}, got {unknown!r}")
    view.copy_(tensor)
    return view


def _after_forward(
    case: Mapping[str, object], q: Tensor, k: Tensor, v: Tensor, causal: bool, scale: float | None
) -> tuple[Tensor, Tensor]:
    """Return o and lse of a forward pass, in new memory; o in the case's layout."""
    o, lse = _forward(q, k, v, causal, q.shape[-1] ** -0.5 if scale is None else scale)
    return laid_out(o, _layouts(case)[4]), lse


def _forward(q: Tensor, k: Tensor, v: Tensor, causal: bool, scale: float) -> tuple[Tensor, Tensor]:
    """Return o and lse in new memory.

    On a GPU they come from FlashAttention: float64 would take a hundred times as long as the timed call, and every
    timed call has its own inputs. In timed cases every query sees a key, and each head has its own keys.
    """
    if q.is_cuda:
        return torch.ops.aten._scaled_dot_product_flash_attention(q, k, v, 0.0, causal, scale=scale)[:2]
    group = q.shape[1] // k.shape[1]
    wide_q, wide_k, wide_v = q.double(), k.double().repeat_interleave(group, 1), v.double().repeat_interleave(group, 1)
    logits = scale * wide_q @ wide_k.mT
    if causal:
        visible = torch.ones(logits.shape[-2:], dtype=torch.bool).tril(k.shape[2] - q.shape[2])
        logits = logits.masked_fill(~visible, -math.inf)
    lse = logits.logsumexp(-1)
    # Rows that see nothing have an lse of -inf; any other number makes their weights 0.
    weights = (logits - lse.masked_fill(lse == -math.inf, 0.0)[..., None]).exp()
    return (weights @ wide_v).to(q.dtype), lse.float()
