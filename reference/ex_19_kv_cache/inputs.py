"""Builds the inputs of one case: a function per part, `part(case, generator) -> arguments in the stub's order`.

All tensors are made on the generator's device: the CPU for correctness, the GPU for the timed sizes.

Slots past a sequence's length hold NaN, and so do unused pages. With stale="numbers" they hold numbers: then a mix of
the tensors of two seeds has no NaN in a slot that is read. Cases with an axis `steps` are a generation: the arguments
are those of step `step` (default 0).
"""

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Generator, Tensor

from grader import FAR_APART
from grader.exercise.tensors import (
    differing,
    dtype_of,
    far_apart,
    one_apart,
    starting_at,
    stretch_of,
    values,
    with_gaps,
)

# Layouts with an element that nobody reads behind each slice of an axis.
GAPPED = {"head_gaps": 1, "row_gaps": 2}
LAYOUTS = ("bhsd", "bshd", "hbsd", "sliced", "unaligned", *GAPPED)
# No two of these have the same strides.
APART = ("bhsd", "bshd", "hbsd", "sliced")
# Size of "peaked" logits, and depth of "sunken" ones.
PEAK = 1e4
DEPTH = 1.2e4
# Distance of a "stretch" of keys from the others.
AWAY = 100.0
# Factor of stale numbers, so that a read past the length shows.
STALE = 30.0
# Pages that 16 bits do not count.
LARGE_POOL = (1 << 15) + 100
# Factor of keys whose products with the query cancel.
LONG_KEY = 100.0


def append_kv(case: Mapping[str, object], generator: Generator) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Return k_cache, v_cache: [B, Hkv, Smax, D], k_new, v_new: [B, Hkv, T, D], lengths: [B], with room for T."""
    if "steps" in case:
        return _Generation(case, generator).append_kv()
    (lengths,) = append_kv_whole_numbers(case, generator)
    batch, heads, slots, width = (int(case[axis]) for axis in ("B", "Hkv", "S", "D"))
    tokens, dtype = int(case["T"]), dtype_of(case["dtype"])
    caches = [values("normal", (batch, heads, slots, width), dtype, generator) for _ in "kv"]
    if not caches[0].is_cuda:
        # On a GPU no stale slot is read, and filling gigabytes takes longer than the timed call.
        caches = [_stale_past(one, lengths, case) for one in caches]
    new = [values(case["values"], (batch, heads, tokens, width), dtype, generator) for _ in "kv"]
    lone = one_apart(("k_cache", "v_cache", "k_new", "v_new"), str(case["layout"]), "bhsd", "sliced")
    layouts = lone or _layouts(case, 2) * 2
    if case["layout"] == FAR_APART:
        return far_apart(caches[0], 0), far_apart(caches[1], 2), *new, lengths
    placed = [laid_out(one, layout) for one, layout in zip((*caches, *new), layouts, strict=True)]
    return *placed, lengths


def append_kv_whole_numbers(case: Mapping[str, object], generator: Generator) -> tuple[Tensor]:
    """Return lengths: [B]."""
    if "steps" in case:
        return (_before(case, generator.device),)
    return (_lengths(case, generator, int(case["S"]) - int(case["T"])),)


def decode_attention(
    case: Mapping[str, object], generator: Generator
) -> tuple[Tensor, Tensor, Tensor, Tensor, float | None]:
    """Return q: [B, Hq, D], k_cache, v_cache: [B, Hkv, Smax, D], lengths: [B], scale."""
    if "steps" in case:
        return _Generation(case, generator).decode_attention()
    (lengths,) = decode_attention_whole_numbers(case, generator)
    q, k, v = _operands(case, generator)
    layout = str(case["layout"])
    k, v = (_stale_past(one, lengths, case) for one in (k, v))
    if layout == "expanded":
        # All sequences share one cache, that of the longest.
        longest = int(lengths.argmax())
        k, v = (one[longest : longest + 1].clone().expand(len(lengths), -1, -1, -1) for one in (k, v))
        return q, k, v, lengths, _scale(case)
    if layout == FAR_APART:
        return q, far_apart(k, 0), far_apart(v, 0), lengths, _scale(case)
    layouts = _layouts_of(case, ("q", "k", "v"))
    q = laid_out(q[:, :, None], layouts[0])[:, :, 0]
    return q, laid_out(k, layouts[1]), laid_out(v, layouts[2]), lengths, _scale(case)


def decode_attention_whole_numbers(case: Mapping[str, object], generator: Generator) -> tuple[Tensor]:
    """Return lengths: [B]."""
    if "steps" in case:
        return (_before(case, generator.device) + _tokens(case),)
    return (_lengths(case, generator, int(case["S"])),)


def paged_decode_attention(
    case: Mapping[str, object], generator: Generator
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, float | None]:
    """Return q: [B, Hq, D], k_pages, v_pages: [P, page, Hkv, D], block_table: [B, blocks], lengths: [B], scale.

    The keys and values of the sequences are scattered over the pages, in the table's order.
    """
    batch, heads, slots, width = (int(case[axis]) for axis in ("B", "Hkv", "S", "D"))
    page, layout = int(case["page"]), str(case["layout"])
    lengths = _lengths(case, generator, slots)
    table, pages = _table(case, generator)
    blocks = table.shape[1]
    shape, dtype = (pages, page, heads, width), dtype_of(case["dtype"])
    # Drawing all numbers of a large pool takes seconds.
    if case["values"] == "normal" and case["table"] != "scattered":
        q = values("normal", (batch, heads * int(case["group"]), width), dtype, generator)
        pools = [values("normal", shape, dtype, generator) for _ in "kv"]
    else:
        q, *sequences = _operands(case, generator)
        pools = [_scattered(one, table, shape) for one in sequences]
    # The sequences' own slots, block by block; the last block may reach past what a sequence can hold.
    inside = (torch.arange(blocks * page, device=q.device) < lengths[:, None]).view(batch, blocks, page)
    used = torch.zeros(pages, page, dtype=torch.int32, device=q.device)
    used.index_add_(0, table.flatten(), inside.flatten(0, 1).to(torch.int32))
    if not q.is_cuda:
        pools = [_stale(one, used[:, :, None, None] > 0, case) for one in pools]
    table = _used_blocks(table, lengths, page)
    if layout in ("sliced", "mixed"):
        wider = torch.full((batch + 1, blocks + 3), -1, dtype=torch.int32, device=q.device)
        wider[1:, 2 : 2 + blocks] = table
        table = wider[1:, 2 : 2 + blocks]
    if layout == FAR_APART:
        return q, *(far_apart(one, 0) for one in pools), table, lengths, _scale(case)
    # [P, page, Hkv, D]: pages before heads or heads before pages.
    layouts = _layouts_of(case, ("q", "k", "v"))
    q = laid_out(q[:, :, None], layouts[0])[:, :, 0]
    k_pages, v_pages = (laid_out(one, each) for one, each in zip(pools, layouts[1:], strict=True))
    return q, k_pages, v_pages, table, lengths, _scale(case)


def paged_decode_attention_whole_numbers(case: Mapping[str, object], generator: Generator) -> tuple[Tensor, Tensor]:
    """Return block_table: [B, blocks], lengths: [B]."""
    lengths = _lengths(case, generator, int(case["S"]))
    table, _ = _table(case, generator)
    return _used_blocks(table, lengths, int(case["page"])), lengths


def _scale(case: Mapping[str, object]) -> float | None:
    return None if case["scale"] == "default" else float(case["scale"])


def _positive_scale(case: Mapping[str, object]) -> float:
    """Return the scale of the case if it is positive, otherwise the default one."""
    scale = _scale(case)
    return scale if scale is not None and scale > 0 else int(case["D"]) ** -0.5


def _operands(case: Mapping[str, object], generator: Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Return q: [B, Hq, D], k, v: [B, Hkv, S, D], contiguous, of the case's dtype and family of values.

    normal: all standard normal. peaked: logits around ±1e4, so that few slots have all the weight. sunken: all logits
    around -1.2e4, at a positive scale. rising: apart from noise, each slot's logit is larger than the one before, so
    that no maximum lasts. offset: logits around 50; 16 bits keep only their first digits. shifted: values around 1e4,
    or around 1e6 in bfloat16, and logits with a large mean: before the division by their sum, the weights' sum of
    values does not fit into float16. constant: all keys are equal, and so are all weights.
    fading: the first slot has most of the weight; 64 others together weigh just less than its last bit in 16 bits, and
    all others together weigh more. cancelling: equal weights of values around 200 in the first half of the slots and
    around -200 in the second: partial sums are large, and o is not. sinking: logits around -300, so far below 0 that
    the exp of each logit, and of each log-sum-exp, is 0. balanced: long keys at right angles to the (first) query that
    reads them, so that large products cancel to a logit near 0, and every bit of q counts. stretch: the keys of one
    stretch, anywhere, are far below all others, or far above them, or 0, or all equal, at random for each head.
    """
    batch, heads, group, slots, width = (int(case[axis]) for axis in ("B", "Hkv", "group", "S", "D"))
    dtype, family = dtype_of(case["dtype"]), str(case["values"])
    queries, keys = (batch, heads * group, width), (batch, heads, slots, width)
    if family == "normal":
        # Rounded one by one: on a GPU all three in float32 would not fit.
        q, k, v = (values("normal", shape, dtype, generator) for shape in (queries, keys, keys))
        return q, k, v
    q, k, v = (values("normal", shape, torch.float32, generator) for shape in (queries, keys, keys))
    match family:
        case "peaked":
            q, k = q * math.sqrt(PEAK / 2), k * math.sqrt(PEAK / 2)
        case "sunken":
            q[..., 0] = 256.0
            k[..., 0] = -DEPTH / (256 * _positive_scale(case))
        case "rising":
            q[..., 0] = 4.0
            k[..., 0] = torch.linspace(-1.5, 1.5, slots, device=k.device) * math.sqrt(width)
        case "offset":
            q, k = q + 2, k + 3
        case "shifted":
            # Ten of them are beyond float16's range; in bfloat16 each of them is.
            k, v = k + 3, (v + 100) * (1e4 if dtype == torch.bfloat16 else 100.0)
        case "constant":
            k = k[:, :, :1].expand(keys)
        case "cancelling":
            k = k[:, :, :1].expand(keys)
            v = v + torch.where(torch.arange(slots, device=v.device) < slots // 2, 200.0, -200.0)[:, None]
        case "sinking":
            q[..., 0] = 16.0
            k[..., 0] = -300.0 * math.sqrt(width) / 16
        case "balanced":
            k, lead = k * LONG_KEY, q[:, ::group, None]
            k = k - (k * lead).sum(-1, keepdim=True) / lead.square().sum(-1, keepdim=True) * lead
        case "stretch":
            q[..., 0] = 4.0
            k = _with_stretch(k, generator)
        case "fading":
            q, v = q / 5, 1.75 + v / 20
            # The others' values differ from the first slot's, so that weights that are left out show.
            v[..., 1::2] *= 4
            v[:, :, 0, 1::2] /= -4
            drop = math.log(64 * 1.75 / (0.8 * torch.finfo(dtype).eps / 2))
            q[..., 0] = 4.0
            k[..., 0] = 0.0
            k[:, :, 0, 0] = drop * math.sqrt(width) / 4
        case unknown:
            raise ValueError(f"a family of values must be one of those above, got {unknown!r}")
    return q.to(dtype), k.to(dtype), v.to(dtype)


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


def _lengths(case: Mapping[str, object], generator: Generator, most: int) -> Tensor:
    """Return lengths: [B], int32, each 0 … most.

    equal: most - unused. stairs: from most - 2 · unused to `most` in equal steps, shuffled, so that the mean is most -
    unused as well. ragged: `most`, 0 and 1 as far as there are sequences, and any lengths for the others; every second
    one is a multiple of 16, or one more or less; shuffled.
    """
    batch, device = int(case["B"]), generator.device
    match str(case["lengths"]):
        case "equal":
            found = torch.full((batch,), most - int(case["unused"]), device=device)
        case "stairs":
            rest = torch.arange(batch, device=device) * 2 * int(case["unused"]) // max(batch - 1, 1)
            found = (most - rest)[torch.randperm(batch, generator=generator, device=device)]
        case "ragged":
            found = torch.randint(0, most + 1, (batch,), generator=generator, device=device)
            # The last tile is full, has a single slot, or lacks one.
            beside = torch.randint(-1, 2, (batch,), generator=generator, device=device)
            found[1::2] = (found - found % 16 + beside)[1::2].clamp(0, most)
            fixed = torch.tensor((most, 0, min(1, most)), device=device)[:batch]
            found[: len(fixed)] = fixed
            found = found[torch.randperm(batch, generator=generator, device=device)]
        case unknown:
            raise ValueError(f"lengths must be equal, stairs or ragged, got {unknown!r}")
    return found.to(torch.int32)


def _stale_past(cache: Tensor, lengths: Tensor, case: Mapping[str, object]) -> Tensor:
    """Return the cache [B, H, S, D] with stale slots past the lengths."""
    if case["lengths"] == "equal" and not case["unused"]:
        return cache
    inside = torch.arange(cache.shape[2], device=cache.device) < lengths[:, None]
    return _stale(cache, inside[:, None, :, None], case)


def _stale(tensor: Tensor, kept: Tensor, case: Mapping[str, object]) -> Tensor:
    if case["stale"] == "nan":
        return tensor.masked_fill_(~kept, math.nan)
    return torch.where(kept, tensor, tensor * STALE)


def _used_blocks(table: Tensor, lengths: Tensor, page: int) -> Tensor:
    """Return the table [B, blocks] with -1 for the blocks that no sequence of this length needs."""
    needed = -(-lengths // page)
    return table.masked_fill(torch.arange(table.shape[1], device=table.device) >= needed[:, None], -1)


def _table(case: Mapping[str, object], generator: Generator) -> tuple[Tensor, int]:
    """Return the page of each block of each sequence, [B, blocks], int32; and the number of pages.

    ordered: one after another. permuted: in any order, with unused pages between them unless they lie far apart.
    shared: permuted, and all sequences share the pages of their first half. scattered: permuted, in a large pool; the
    first page of the first sequence is the last of the pool.
    """
    batch, blocks = int(case["B"]), -(-int(case["S"]) // int(case["page"]))
    device, count = generator.device, batch * blocks
    if case["table"] == "ordered":
        return torch.arange(count, dtype=torch.int32, device=device).view(batch, blocks), count
    # Room for stale pages, but not for gigabytes of them. Of pages that lie far apart only the last is out of reach of
    # 32 bits, so a sequence has it.
    pages = count if case["layout"] == FAR_APART else count + min(count, 5)
    if case["table"] == "scattered":
        pages = max(pages, LARGE_POOL)
    table = torch.randperm(pages, generator=generator, device=device)[:count].view(batch, blocks).to(torch.int32)
    if case["table"] == "scattered":
        table = torch.where(table == pages - 1, table[0, 0], table)
        table[0, 0] = pages - 1
    if case["table"] == "shared":
        table[:, : (blocks + 1) // 2] = table[0, : (blocks + 1) // 2].clone()
    return table, pages


def _scattered(sequences: Tensor, table: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Return pages [P, page, Hkv, D] that hold the sequences [B, Hkv, S, D] where the table says; zeros elsewhere.

    Shared pages hold the first sequence's. The sequences are copied one after another: with equal indices in one copy,
    torch may take any of them.
    """
    _, page, heads, width = shape
    batch, blocks = table.shape
    padded = torch.nn.functional.pad(sequences, (0, 0, 0, blocks * page - sequences.shape[2]))
    pages = padded.view(batch, heads, blocks, page, width).permute(0, 2, 3, 1, 4)
    pool = sequences.new_zeros(shape)
    for own, rows in zip(reversed(table.long().unbind()), reversed(pages.unbind()), strict=True):
        pool.index_copy_(0, own, rows.contiguous())
    return pool


def _layouts(case: Mapping[str, object], count: int) -> tuple[str, ...]:
    """Return the layouts of `count` tensors. mixed: no two of them have the same strides."""
    layout = str(case["layout"])
    return differing(APART, count, case) if layout == "mixed" else (layout,) * count


def _layouts_of(case: Mapping[str, object], names: Sequence[str]) -> tuple[str, ...]:
    """Return the layouts of these tensors. v_apart: v is a window of a larger tensor, and all others are contiguous."""
    return one_apart(names, str(case["layout"]), "bhsd", "sliced") or _layouts(case, len(names))


def laid_out(tensor: Tensor, layout: str) -> Tensor:
    """Return the same tensor [B, H, S, D] in another memory layout; the last axis is always contiguous.

    bhsd: contiguous. bshd: the second and third axis exchanged; hbsd: the first and second. sliced: a window of a
    larger tensor, rows at any address. unaligned: contiguous, from the second element of a longer tensor. head_gaps,
    row_gaps: an unused element behind each head, or each row. Gaps hold NaN.
    """
    batch, heads, rows, width = tensor.shape
    match layout:
        case "bhsd":
            return tensor
        case "bshd":
            view = tensor.new_empty(batch, rows, heads, width).transpose(1, 2)
        case "hbsd":
            view = tensor.new_empty(heads, batch, rows, width).transpose(0, 1)
        case "sliced":
            wider = tensor.new_full((batch, heads + 1, rows + 3, width + 13), math.nan)
            view = wider[:, 1:, 2 : 2 + rows, 5 : 5 + width]
        case "unaligned":
            return starting_at(tensor, 1)
        case "head_gaps" | "row_gaps":
            return with_gaps(tensor, GAPPED[layout], 1)
        case unknown:
            raise ValueError(f"a layout must be one of {', '.join(LAYOUTS)}, got {unknown!r}")
    view.copy_(tensor)
    return view


def _step(case: Mapping[str, object]) -> int:
    return int(case.get("step", 0))


def _tokens(case: Mapping[str, object]) -> int:
    """Return how many tokens this step of a generation adds to each sequence."""
    return 1 if _step(case) else int(case["prefill"])


def _before(case: Mapping[str, object], device: torch.device) -> Tensor:
    """Return lengths: [B], int32, before this step of a generation."""
    past = torch.arange(int(case["B"]), dtype=torch.int32, device=device) * int(case["past"])
    return past + (int(case["prefill"]) + _step(case) - 1 if _step(case) else 0)


class _Generation:
    """A batch of sequences that grow: `prefill` tokens each in step 0, then one in every step.

    All tokens are drawn at once; a step sees those up to its own. Each sequence but the first has a past before step 0.
    """

    def __init__(self, case: Mapping[str, object], generator: Generator) -> None:
        batch, heads, group, width = (int(case[axis]) for axis in ("B", "Hkv", "group", "D"))
        steps, dtype = int(case["steps"]), dtype_of(case["dtype"])
        slots = (batch - 1) * int(case["past"]) + int(case["prefill"]) + steps
        self._k, self._v = (values("normal", (batch, heads, slots, width), dtype, generator) for _ in "kv")
        queries = values("normal", (steps, batch, heads * group, width), dtype, generator)
        self._q = queries[_step(case)]
        self._before = _before(case, generator.device)
        self._tokens = _tokens(case)

    def append_kv(self) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """Return the caches before this step, and the new tokens."""
        places = self._before.long()[:, None] + torch.arange(self._tokens)
        batch = torch.arange(len(places))[:, None]
        k_new, v_new = (one.transpose(1, 2)[batch, places].transpose(1, 2).contiguous() for one in (self._k, self._v))
        return *self._caches(self._before), k_new, v_new, self._before

    def decode_attention(self) -> tuple[Tensor, Tensor, Tensor, Tensor, float | None]:
        """Return the caches with this step's tokens in them."""
        lengths = self._before + self._tokens
        return self._q, *self._caches(lengths), lengths, None

    def _caches(self, lengths: Tensor) -> list[Tensor]:
        inside = (torch.arange(self._k.shape[2]) < lengths[:, None])[:, None, :, None]
        return [one.masked_fill(~inside, math.nan) for one in (self._k, self._v)]
