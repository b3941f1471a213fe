"""The mistakes of ex_19 that a card names, by the values that they give.

`part_mistakes(...)` receives float64 copies of the inputs. `part_roundings(...)` receives the inputs as they are and
yields what too low a precision gives. Neither changes a status or a point.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import product

import torch
from oracle import (
    Group,
    attention_of,
    contiguous,
    for_each_group,
    logits_of,
    paged,
    query_heads_of,
    scale_of,
)
from torch import Tensor

# A kind, what it looks like, what to do about it, and what it returns.
Mistake = tuple[str, str, str, Tensor]
# The first slots of some sequences of one length, by their numbers, [G], and that length.
Slots = Callable[[Tensor, int], Group]
# Slots that are taken at once, of all sequences of one length.
SLOTS_TOGETHER = 1 << 16
USUAL_TILES = (16, 32, 64, 128)
USUAL_SPLITS = (2, 4, 8, 16)
USUAL_TILES_OF_ROWS = (4, 8, 16, 32, 64, 128)
# Where a maximum starts that should start at -inf.
USUAL_STARTS = (0.0, -1e4)
# The log-sum-exp of an empty split, where it is finite.
USUAL_FINITE = (0.0, -100.0, -1000.0, -1e4)
# Slots of a split, where that is what is fixed.
USUAL_CHUNKS = (32, 64, 128, 256, 512)
LN_2 = math.log(2.0)
# Products of queries and keys that are computed one by one, to be rounded.
FEW_PRODUCTS = 1 << 22
# Ways to join splits badly: a kind, what it looks like, and the name of the way.
SPLIT_MISTAKES = (
    ("logarithm_base", "Looks as if the weights of splits are powers of 2 of a natural logarithm", "base 2"),
    ("logarithm_base", "Looks as if the weights of splits are powers of e of a logarithm to base 2", "base e"),
    ("splits_not_weighted", "Looks as if the sums of splits are added without their weights", "total"),
    ("splits_not_weighted", "Looks as if the results of splits are added without their weights", "acc"),
    ("splits_not_weighted", "Looks as if splits are weighed by their sums, without their maxima", "sums"),
    ("not_normalised", "Looks as if splits are not divided by their sums before they are joined", "undivided"),
    ("splits_not_weighted", "Looks as if splits are joined by their maxima alone, without their sums", "maxima"),
    ("splits_not_weighted", "Looks as if joined splits are divided by the weights of their maxima alone", "no sums"),
)
BY_MAXIMA = ("maxima", "no sums")
SPLIT_HELP = "o = sum(w · o_s) / sum(w) with w = exp(lse_s - m)."
MAXIMA_HELP = (
    "A split's maximum says nothing of how many slots it has. Its weight is exp(m_s - m) · l_s, or exp(lse_s - m) with "
    "lse_s = m_s + log(l_s): store its sum l_s as well."
)

SCALE_HELP = "s = scale · q · kᵀ; D**-0.5 is the scale only if none is given."
HEADS_HELP = "Neighbouring query heads share a kv head: query head h reads kv head h // (Hq // Hkv)."
LENGTH_HELP = "Sequence b has lengths[b] slots; the last one is slot lengths[b] - 1."
RESCALE_HELP = "The sum so far is relative to the old maximum: multiply it by exp(m_old - m_new)."


def append_kv_mistakes(
    k_cache: Tensor, v_cache: Tensor, k_new: Tensor, v_new: Tensor, lengths: Tensor
) -> Iterator[tuple[str, str, str, tuple[Tensor, Tensor]]]:
    """Yield what usual mistakes leave in the caches, in float64."""

    def appended(k: Tensor, v: Tensor, places: Tensor) -> tuple[Tensor, Tensor]:
        """Return the caches with tokens from these slots on; a token that would fall outside is not stored.

        places: [B], or [B, Hkv].
        """
        after = k_cache.clone(), v_cache.clone()
        for cache, new in zip(after, (k, v), strict=True):
            for b, first in enumerate(places.tolist()):
                for h, start in enumerate(first) if places.dim() > 1 else ((slice(None), first),):
                    begin = max(0, -start)
                    end = max(begin, min(new.shape[2], cache.shape[2] - start))
                    cache[b, h, start + begin : start + end] = new[b, h, begin:end]
        return after

    def put(slots: Tensor) -> tuple[Tensor, Tensor]:
        """Return the caches with each token in a slot of its own, [B, Hkv, T]; outside, it is not stored."""
        after = k_cache.clone(), v_cache.clone()
        sequence, head, token = ((slots >= 0) & (slots < k_cache.shape[2])).nonzero(as_tuple=True)
        for cache, new in zip(after, (k_new, v_new), strict=True):
            cache[sequence, head, slots[sequence, head, token]] = new[sequence, head, token]
        return after

    for most in (1 << power for power in range(k_new.shape[2].bit_length())):
        if most < k_new.shape[2]:
            title = f"Looks as if only the first {most} of the new tokens are written"
            title = "Looks as if only the first of the new tokens is written" if most == 1 else title
            help_text = "How many rows must you copy for T tokens of every head? T may be any number."
            yield "first_tokens_only", title, help_text, appended(k_new[:, :, :most], v_new[:, :, :most], lengths)
    if k_new.shape[2] > 1:
        title = "Looks as if the new tokens are written in reverse"
        yield (
            "position_shifted",
            title,
            "Token t goes to slot lengths[b] + t.",
            appended(k_new.flip(2), v_new.flip(2), lengths),
        )
        title = "Looks as if the last of the new tokens is not written"
        yield (
            "last_left_out",
            title,
            "Token t exists where t < T.",
            appended(k_new[:, :, :-1], v_new[:, :, :-1], lengths),
        )
    for by, where in ((1, "too far"), (-1, "too early")):
        title = f"Looks as if tokens go one slot {where}"
        help_text = "Slots count from 0: which slot is the first free one of a sequence of length 1?"
        yield "position_shifted", title, help_text, appended(k_new, v_new, lengths + by)
    for b in _few(len(lengths)):
        if bool((lengths != lengths[b]).any()):
            title = f"Looks as if all tokens go where sequence {b} ends"
            yield "length_of_first", title, LENGTH_HELP, appended(k_new, v_new, lengths[b].expand_as(lengths))
    heads, tokens = k_new.shape[1:3]
    for tile, order in product(USUAL_TILES_OF_ROWS, ((0, 1, 2), (0, 2, 1))):
        shape = [k_new.shape[axis] for axis in order]
        row = torch.arange(len(lengths) * heads * tokens).reshape(shape).permute(order)
        slots = lengths.long()[row // tile * tile // max(1, heads * tokens)] + torch.arange(tokens)
        title = f"Looks as if a tile of {tile} rows takes the length of its first row's sequence for all"
        yield "length_of_first", title, LENGTH_HELP, put(slots)
    if 1 < k_new.shape[1] <= len(lengths):
        title = "Looks as if head h takes the length of sequence h"
        by_head = lengths[: k_new.shape[1]].expand(len(lengths), -1)
        yield "length_of_first", title, LENGTH_HELP, appended(k_new, v_new, by_head)
    yield "zeros", "Looks as if nothing was written", "Which store writes to the caches?", (k_cache, v_cache)
    title = "Looks as if tokens always go to the first slots"
    yield "position_shifted", title, LENGTH_HELP, appended(k_new, v_new, torch.zeros_like(lengths))
    help_text = "Look at the pointers, argument by argument."
    rows = [one.transpose(1, 2).reshape(one.shape) for one in (k_new, v_new)]
    title = "Looks as if heads and tokens are exchanged"
    yield "axes_exchanged", title, "Which row of the new tokens is token t of head h?", appended(*rows, lengths)
    title = "Looks as if keys and values are exchanged"
    yield "operand_mixed_up", title, help_text, appended(v_new, k_new, lengths)
    rows = k_new.shape[1] * k_new.shape[2]
    for block in (2, 4, 8, 16, 32, 64):
        if left := rows % block:
            # Rows of a sequence are its heads' tokens, one head after the other.
            after = appended(k_new, v_new, lengths)
            for cache, before in zip(after, (k_cache, v_cache), strict=True):
                for b, length in enumerate(lengths.tolist()):
                    for row in range(rows - left, rows):
                        place = b, row // k_new.shape[2], length + row % k_new.shape[2]
                        cache[place] = before[place]
            title = f"Looks as if the last {left} rows of a sequence, which fill no block, are left out"
            yield (
                "remainder_skipped",
                title,
                "How many programs do the rows need if no block divides them?",
                after,
            )


def decode_attention_mistakes(
    q: Tensor, k_cache: Tensor, v_cache: Tensor, lengths: Tensor, scale: float | None
) -> Iterator[Mistake]:
    """In float64: what usual mistakes return."""

    def slots(rows: Tensor, length: int) -> Group:
        return k_cache[rows, :, : max(length, 0)], v_cache[rows, :, : max(length, 0)]

    yield from _decode_mistakes(q, lengths, scale, slots)


def paged_decode_attention_mistakes(
    q: Tensor, k_pages: Tensor, v_pages: Tensor, block_table: Tensor, lengths: Tensor, scale: float | None
) -> Iterator[Mistake]:
    """Yield the same mistakes, and those of the table."""
    page, pages = k_pages.shape[1], k_pages.shape[0]

    def at(places: tuple[Tensor, Tensor]) -> Group:
        return k_pages[places].transpose(1, 2), v_pages[places].transpose(1, 2)

    def through(table: Tensor, by: int = page) -> Slots:
        """Return the slots that a table leads to. by: how many each page counts as."""

        def slots(rows: Tensor, length: int) -> Group:
            reached = torch.arange(min(max(length, 0), table.shape[1] * by))
            found = table[rows].long()[:, reached // by].clamp(0, pages - 1)
            return at((found, (reached % by).clamp(max=page - 1)))

        return slots

    def attended(slots: Slots) -> Tensor:
        return _by_length(q, lengths, slots, partial(attention_of, scale=scale))

    def by_tiles(tile: int, *, beyond: bool) -> Slots:
        """Return the slots where each tile looks up its first page alone. beyond: it walks on into the next ones."""

        def slots(rows: Tensor, length: int) -> Group:
            reached = torch.arange(max(length, 0))
            first = reached // tile * tile
            start = block_table[rows].long()[:, first // page] * page
            found = start + (reached - first if beyond else reached % page)
            return at(((found // page).clamp(0, pages - 1), found % page))

        return slots

    ordered = torch.arange(block_table.numel()).view(block_table.shape)
    help_text = "Slot j of sequence b is slot j % page of page block_table[b, j // page]."
    yield "table_ignored", "Looks as if the pages are read in order", help_text, attended(through(ordered))
    for b in _few(len(block_table)):
        if len(block_table) > 1:
            title = f"Looks as if all sequences use the table of sequence {b}"
            yield "table_of_first", title, help_text, attended(through(block_table[b].expand_as(block_table)))
    for assumed in (16, 32, 64, 128):
        if assumed < page:
            title = f"Looks as if every page counts as {assumed} slots"
            yield (
                "size_assumed",
                title,
                "How many slots does a page have? Read it from the tensor's shape.",
                attended(through(block_table, assumed)),
            )
    help_text = (
        f"A page has {page} slots here, and a longer tile has slots of several pages: each slot needs its own page "
    )
    help_text += "number, block_table[b, slot // page]."
    for tile, beyond in product((one for one in (*USUAL_TILES, 256) if one > page), (False, True)):
        title = f"Looks as if a tile of {tile} slots looks up the page of its first slot alone"
        yield "tile_over_pages", title, help_text, attended(by_tiles(tile, beyond=beyond))
    ends = torch.where((lengths > 0) & (lengths % page == 0), lengths - page, lengths)
    title, help_text = (
        "Looks as if a last page that is full is left out",
        "A last page has (length - 1) % page + 1 slots.",
    )
    right = partial(attention_of, scale=scale)
    yield "block_left_out", title, help_text, _by_length(q, ends, through(block_table), right)
    yield from _decode_mistakes(q, lengths, scale, through(block_table))


def _by_length(q: Tensor, lengths: Tensor, slots: Slots, attend: Callable[[Tensor, Tensor, Tensor], Tensor]) -> Tensor:
    """[B, Hq, D]: `attend` of the queries of all sequences of one length, and of the slots that these are given."""
    o = torch.empty_like(q)
    for length in lengths.unique().tolist():
        for rows in (lengths == length).nonzero().flatten().split(max(1, SLOTS_TOGETHER // max(1, length))):
            o[rows] = attend(q[rows], *slots(rows, length))
    return o


def _few(sequences: int) -> Iterable[int]:
    """Return the sequences whose length or table a mistake may take for all: the first ones, and the last."""
    return sorted({*range(min(sequences, 4)), *range(max(0, sequences - 1), sequences)})


def _decode_mistakes(q: Tensor, lengths: Tensor, scale: float | None, slots: Slots) -> Iterator[Mistake]:
    """Those that both ways to decode share."""

    def attended(attend: Callable[[Tensor, Tensor, Tensor], Tensor], counted: Tensor = lengths) -> Tensor:
        return _by_length(q, counted, slots, attend)

    given = scale_of(q, scale)
    right = partial(attention_of, scale=scale)
    title = "Looks as if the logits are not multiplied by the scale"
    yield "scale_missing", title, SCALE_HELP, attended(partial(attention_of, scale=1.0))
    if scale is not None:
        yield (
            "scale_ignored",
            "Looks as if the given scale is ignored",
            SCALE_HELP,
            attended(partial(attention_of, scale=None)),
        )
    title = "Looks as if the logits are divided by the scale"
    inverse = 1 / given if given else 0.0
    yield "scale_inverted", title, SCALE_HELP, attended(partial(attention_of, scale=inverse))
    title = "Looks as if the weights are powers of 2 instead of e"
    help_text = "exp(x) = 2**(x · log2 e): multiply the logits by log2 e before tl.exp2."
    yield "logarithm_base", title, help_text, attended(partial(attention_of, scale=given * LN_2))
    title = "Looks as if the scale has the wrong sign"
    yield "scale_ignored", title, SCALE_HELP, attended(partial(attention_of, scale=-given))
    title = "Looks as if the scale is applied twice"
    yield "scale_missing", title, SCALE_HELP, attended(partial(attention_of, scale=given * given))
    if given <= 0:
        o, title = attended(right), "Looks as if the scale multiplies logits that are masked already"
        help_text = "-inf times a negative scale is +inf, and times 0 it is NaN: scale first, then mask."
        for tile in USUAL_TILES:
            spoilt = o.masked_fill((lengths % tile != 0)[:, None, None], torch.nan)
            yield "scaled_after_mask", title, help_text, spoilt
    yield "heads_mapping", "Looks as if query head h reads kv head h % Hkv", HEADS_HELP, attended(_modulo(right))
    yield "length_off_by_one", "Looks as if the newest token is left out", LENGTH_HELP, attended(right, lengths - 1)
    for b in _few(len(lengths)):
        if bool((lengths != lengths[b]).any()):
            title = f"Looks as if all sequences are as long as sequence {b}"
            yield "length_of_first", title, LENGTH_HELP, attended(right, lengths[b].expand_as(lengths))
    help_text = "In float32 exp(89) is inf: what can you subtract without changing the quotient?"
    title = "Looks as if the maximum is not subtracted"
    for dtype, least in product((torch.float32, torch.float16, torch.bfloat16), (0.0, 1.0)):
        powers = partial(_no_maximum, scale=given, dtype=dtype, least=least)
        yield "no_maximum", title, help_text, attended(powers)
    help_text = "Each row needs its own maximum: take tl.max along the axis of the slots. Else all weights of a row of "
    help_text += "small logits are 0."
    title = "Looks as if one maximum is taken for all heads of a group"
    for least in (0.0, 1.0):
        yield "wrong_axis", title, help_text, attended(partial(_one_maximum, scale=given, least=least))
    help_text = "Start the maximum at -inf: relative to a larger number, all weights of very negative logits are 0."
    lowest = float(attended(partial(_top, scale=given)).min()) if q.numel() else 0.0
    for start, least in product([one for one in USUAL_STARTS if lowest < one], (0.0, 1.0)):
        above = partial(_at_least, scale=given, start=start, least=least)
        yield "maximum_start", "Looks as if the maximum does not start at -inf", help_text, attended(above)
    if bool((lengths == 0).any()):
        help_text = "Without slots, the sum of weights is 0: what divides by it?"
        empty = attended(right).masked_fill((lengths == 0)[:, None, None], torch.nan)
        yield "empty_sequence", "Looks like 0 / 0 in sequences that have no slot", help_text, empty
    slots_in_all, longest = slots(torch.arange(1), 1 << 40)[0].shape[2], int(lengths.max())
    o, lse = attended(right), attended(partial(_lse, scale=given))
    for empty in (one for splits in USUAL_SPLITS for one in _ways_to_split(lengths, splits, slots_in_all)):
        title, help_text = "Looks like 0 / 0 in splits that have no slot", "What does a split past the length store?"
        yield "empty_split", title, help_text, o.masked_fill((empty > 0)[:, None, None], torch.nan)
        told = "The log-sum-exp of an empty split is -inf, and its weight is 0."
        for finite in USUAL_FINITE:
            # Any finite number is above the log-sum-exp of some sequence.
            weighed = o / (1 + empty[:, None, None] * (finite - lse).exp())
            yield "empty_split", "Looks as if splits that have no slot have a weight", told, weighed
    for tile in USUAL_TILES:
        for title, powers in (
            ("Looks as if the sum so far is not rescaled when the maximum rises", (0.0, 0.0)),
            ("Looks as if the accumulator is not rescaled when the maximum rises", (0.0, 1.0)),
            ("Looks as if the sum is not rescaled when the maximum rises", (1.0, 0.0)),
        ):
            kept = partial(_not_rescaled, scale=given, tile=tile, powers=powers)
            yield "no_rescale", title, RESCALE_HELP, attended(kept)
        title = "Looks as if acc is rescaled after a tile is added to it: the first tile is lost"
        told = "The new tile is relative to the new maximum already: multiply acc by exp(m_old - m_new), then add."
        late = partial(_not_rescaled, scale=given, tile=tile, powers=(1.0, 1.0), late=True)
        yield "no_rescale", title, told, attended(late)
        title = "Looks as if the sum so far is rescaled in another base than that of the weights"
        for power in (LN_2, 1 / LN_2):
            kept = partial(_not_rescaled, scale=given, tile=tile, powers=(power, power))
            yield "logarithm_base", title, "Weights and rescaling are powers of the same base.", attended(kept)
        padded = partial(_padded, scale=given, tile=tile)
        help_text = "Masked loads give 0, and exp(0 - m) is not 0: logits of slots that do not exist must be -inf."
        title = f"Looks as if slots beyond the length count as keys of zeros, up to a multiple of {tile}"
        yield "padding_counted", title, help_text, attended(padded)
        whole = lengths - lengths % tile
        title = f"Looks as if slots that fill no tile of {tile} are left out"
        yield "remainder_skipped", title, "Which slots are left if no tile divides the length?", attended(right, whole)
        reached = torch.where(lengths > 0, lengths + -lengths % tile, 0)
        help_text = "Slots past the length may hold NaN, and 0 · NaN is NaN: which loads must skip them?"
        title = f"Looks as if slots past the length are read, up to a multiple of {tile}"
        yield "past_length", title, help_text, attended(right, reached)
    for splits in (*USUAL_SPLITS, *USUAL_CHUNKS):
        for average in (True, False):
            joined = partial(_unweighted, scale=scale, splits=splits, average=average)
            told = "A split with large logits weighs more: its log-sum-exp gives its weight."
            title = "Looks as if splits are joined without their weights"
            yield "splits_not_weighted", title, told, attended(joined)
    for size in (one for one in _split_sizes(slots_in_all) if one < longest):
        for kind, title, how in SPLIT_MISTAKES:
            joined = partial(_badly_joined, scale=given, size=size, how=how)
            yield kind, title, MAXIMA_HELP if how in BY_MAXIMA else SPLIT_HELP, attended(joined)
    help_text = "Which loop, or which reduction, ends too early?"
    for most in (1 << power for power in range(4, longest.bit_length())):
        if most < longest:
            title = f"Looks as if no more than the first {most} slots are read"
            yield "not_all_covered", title, help_text, attended(right, lengths.clamp(max=most))
    help_text = "Which slots does split 0 read, and which split 1? A split's last tile must end where the split does."
    for splits, tile in product(USUAL_SPLITS, USUAL_TILES):
        size = -(-slots_in_all // splits)
        if size % tile and size < longest:
            counted = partial(_counted_again, scale=given, size=size, tile=tile)
            title = f"Looks as if the last tile of a split, of {tile} slots, reaches into the next one"
            yield "done_again", title, help_text, attended(counted)
    for splits in USUAL_SPLITS:
        whole = lengths - lengths % splits
        title = f"Looks as if slots that do not divide by {splits} splits are left out"
        yield "remainder_skipped", title, "How many slots does the last split have?", attended(right, whole)
        reached = slots_in_all // splits * splits
        title = f"Looks as if the last slots of the cache, which {splits} splits do not divide, are left out"
        told = "Round the size of a split up: the last one may be shorter."
        yield "remainder_skipped", title, told, attended(right, lengths.clamp(max=reached))


def _split_sizes(slots: int) -> list[int]:
    """Return how many slots a split may have: a share of the cache, of any length or in whole tiles, or a fixed one."""
    shares = {-(-slots // (splits * tile)) * tile for splits in USUAL_SPLITS for tile in (1, *USUAL_TILES)}
    return sorted({*shares, *USUAL_CHUNKS})


def _ways_to_split(lengths: Tensor, splits: int, slots: int) -> list[Tensor]:
    """Return for each usual way to split [B]: how many splits have none of a sequence's slots.

    What is split is the cache or a sequence; a split has any number of slots, or whole tiles.
    """
    ways: dict[tuple[int, ...], Tensor] = {}
    for of, tile in product((torch.tensor(slots), lengths), (1, *USUAL_TILES)):
        size = (-(-of // (splits * tile)) * tile).clamp(min=1)
        empty = splits - -(-lengths // size)
        ways.setdefault(tuple(empty.tolist()), empty)
    return [*ways.values()]


def _lse(q: Tensor, k: Tensor, v: Tensor, scale: float) -> Tensor:
    """Return the log-sum-exp of each query head, as often as there are numbers in its row."""
    if k.shape[2] == 0:
        return torch.full_like(q, -torch.inf)
    return logits_of(q, k, scale).logsumexp(-1, keepdim=True).expand(*k.shape[:2], -1, q.shape[-1]).reshape(q.shape)


def _modulo(attend: Callable[[Tensor, Tensor, Tensor], Tensor]) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """Return the same with query heads in the order in which h % Hkv would find them."""

    def attended(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        heads = torch.arange(q.shape[1]) % k.shape[1]
        return torch.cat(
            [attend(q[:, h : h + 1], k[:, one : one + 1], v[:, one : one + 1]) for h, one in enumerate(heads)], 1
        )

    return attended


def _no_maximum(q: Tensor, k: Tensor, v: Tensor, scale: float, dtype: torch.dtype, least: float) -> Tensor:
    """In float32, where exp of a large logit is inf. dtype: of the weights. least: divides in place of a sum of 0."""
    if k.shape[2] == 0:
        return torch.zeros_like(q)
    powers = logits_of(q, k, scale).exp().float()
    total = powers.double().sum(-1, keepdim=True).float().double()
    total = torch.where(total == 0, least, total)
    return ((powers.to(dtype).double() @ v).float().double() / total).reshape(q.shape)


def _one_maximum(q: Tensor, k: Tensor, v: Tensor, scale: float, least: float) -> Tensor:
    """In float32, where exp of a logit far below those of other heads is 0. least: as in _no_maximum."""
    if k.shape[2] == 0:
        return torch.zeros_like(q)
    logits = logits_of(q, k, scale)
    powers = (logits - logits.amax((-1, -2), keepdim=True)).exp().float().double()
    total = powers.sum(-1, keepdim=True)
    return (powers @ v / torch.where(total == 0, least, total)).reshape(q.shape)


def _top(q: Tensor, k: Tensor, v: Tensor, scale: float) -> Tensor:
    """Return the largest logit of each query head, as often as there are numbers in its row; 0 without keys."""
    if k.shape[2] == 0:
        return torch.zeros_like(q)
    return logits_of(q, k, scale).amax(-1, keepdim=True).expand(*k.shape[:2], -1, q.shape[-1]).reshape(q.shape)


def _at_least(q: Tensor, k: Tensor, v: Tensor, scale: float, start: float, least: float) -> Tensor:
    """In float32, where exp of a number far below 0 is 0. start: the maximum is no less. least: as in _no_maximum."""
    if k.shape[2] == 0:
        return torch.zeros_like(q)
    logits = logits_of(q, k, scale)
    powers = (logits - logits.amax(-1, keepdim=True).clamp(min=start)).exp().float().double()
    total = powers.sum(-1, keepdim=True)
    return (powers @ v / torch.where(total == 0, least, total)).reshape(q.shape)


def _not_rescaled(
    q: Tensor, k: Tensor, v: Tensor, scale: float, tile: int, powers: tuple[float, float], *, late: bool = False
) -> Tensor:
    """Tile after tile; `powers`: of the factor by which the accumulator and the sum are rescaled: 1 is right.

    late: a tile is added to the accumulator before that.
    """
    if k.shape[2] == 0:
        return torch.zeros_like(q)
    logits = logits_of(q, k, scale)
    top = torch.full((*logits.shape[:-1], 1), -torch.inf, dtype=logits.dtype)
    total, acc = torch.zeros_like(top), torch.zeros((), dtype=logits.dtype)
    for start in range(0, k.shape[2], tile):
        part = logits[..., start : start + tile]
        new_top = torch.maximum(top, part.amax(-1, keepdim=True))
        weights, factor = (part - new_top).exp(), (top - new_top).exp()
        total = total * factor ** powers[1] + weights.sum(-1, keepdim=True)
        old, new = factor ** powers[0], weights @ v[:, :, start : start + tile]
        acc = (acc + new) * old if late else acc * old + new
        top = new_top
    return (acc / total).reshape(q.shape)


def _padded(q: Tensor, k: Tensor, v: Tensor, scale: float, tile: int) -> Tensor:
    """With as many keys and values of zeros as fill the last tile."""
    more = -k.shape[2] % tile
    filled = [torch.nn.functional.pad(one, (0, 0, 0, more)) for one in (k, v)]
    return attention_of(q, *filled, scale)


def _unweighted(q: Tensor, k: Tensor, v: Tensor, scale: float | None, splits: int, *, average: bool) -> Tensor:
    """Results of splits, averaged or added up; more than a few are so many slots each."""
    size = max(1, -(-k.shape[2] // splits)) if splits <= USUAL_SPLITS[-1] else splits
    found = [
        attention_of(q, k[:, :, start : start + size], v[:, :, start : start + size], scale)
        for start in range(0, k.shape[2], size)
    ]
    if not found:
        return torch.zeros_like(q)
    return sum(found) / (len(found) if average else 1)


def _counted_again(q: Tensor, k: Tensor, v: Tensor, scale: float, size: int, tile: int) -> Tensor:
    """Walk splits of so many slots in whole tiles: a slot counts as often as tiles hold it."""
    if k.shape[2] == 0:
        return torch.zeros_like(q)
    times = torch.zeros(k.shape[2], dtype=q.dtype)
    for start in range(0, k.shape[2], size):
        times[start : start + -(-min(size, k.shape[2] - start) // tile) * tile] += 1
    return (torch.softmax(logits_of(q, k, scale) + times.log(), -1) @ v).reshape(q.shape)


def _badly_joined(q: Tensor, k: Tensor, v: Tensor, scale: float, size: int, how: str) -> Tensor:
    """Join splits of so many slots in one of the ways of SPLIT_MISTAKES."""
    if k.shape[2] == 0:
        return torch.zeros_like(q)
    parts = logits_of(q, k, scale).split(size, dim=-1)
    values = v.split(size, dim=2)
    top = torch.stack([part.amax(-1, keepdim=True) for part in parts])
    totals = torch.stack([(part - one).exp().sum(-1, keepdim=True) for part, one in zip(parts, top, strict=True)])
    accs = torch.stack([(part - one).exp() @ two for part, one, two in zip(parts, top, values, strict=True)])
    weights = (top - top.amax(0)).exp()
    if how in ("base 2", "base e"):
        lse = (top + totals.log()) * (LN_2 if how == "base 2" else 1 / LN_2)
        shares = (lse - lse.amax(0)).exp()
        return (shares * accs / totals).sum(0).div(shares.sum(0)).reshape(q.shape)
    if how in BY_MAXIMA:
        return (weights * (accs / totals if how == "maxima" else accs)).sum(0).div(weights.sum(0)).reshape(q.shape)
    if how == "undivided":
        return (weights * totals * accs).sum(0).div((weights * totals).sum(0)).reshape(q.shape)
    if how == "sums":
        return (accs.sum(0) / totals.sum(0)).reshape(q.shape)
    acc = accs.sum(0) if how == "acc" else (weights * accs).sum(0)
    return (acc / (totals.sum(0) if how == "total" else (weights * totals).sum(0))).reshape(q.shape)


def decode_attention_roundings(
    q: Tensor, k_cache: Tensor, v_cache: Tensor, lengths: Tensor, scale: float | None
) -> Iterator[tuple[str, Tensor]]:
    """Logits, scaled queries, sums or partial results in the inputs' dtype."""
    yield from _decode_roundings(q, list(contiguous(k_cache, v_cache, lengths)), scale)


def paged_decode_attention_roundings(
    q: Tensor, k_pages: Tensor, v_pages: Tensor, block_table: Tensor, lengths: Tensor, scale: float | None
) -> Iterator[tuple[str, Tensor]]:
    """As above."""
    yield from _decode_roundings(q, list(paged(k_pages, v_pages, block_table, lengths)), scale)


def _decode_roundings(q: Tensor, groups: list[Group], scale: float | None) -> Iterator[tuple[str, Tensor]]:
    given, dtype = scale_of(q, scale), q.dtype
    wide = [(some, k.double(), v.double()) for some, k, v in groups]
    # Products are larger than logits: in float16 they overflow, and infinity less infinity is NaN.
    for first in (False, True):
        rounded = partial(_rounded_logits, scale=given, dtype=dtype, first=first)
        yield "rounded_intermediate", for_each_group(q.double(), wide, rounded)
    if q.shape[1] * q.shape[2] * sum(k.shape[0] * k.shape[2] for _, k, _ in groups) <= FEW_PRODUCTS:
        yield "rounded_intermediate", for_each_group(q, groups, partial(_added_products, scale=given))
    scaled = (given * q.double()).to(dtype).double()
    yield "rounded_intermediate", for_each_group(scaled, wide, partial(_rounded_logits, scale=1.0, dtype=torch.float64))
    for splits in USUAL_SPLITS:
        yield (
            "rounded_intermediate",
            for_each_group(q.double(), wide, partial(_rounded_splits, scale=given, dtype=dtype, splits=splits)),
        )
    # The whole sum, before it is divided: in float16 it overflows where values are large.
    whole = max((k.shape[2] for _, k, _ in groups), default=0) or 1
    for kind, tile in (("rounded_intermediate", whole), *(("low_precision_sum", size) for size in USUAL_TILES)):
        yield kind, for_each_group(q.double(), wide, partial(_rounded_sums, scale=given, dtype=dtype, tile=tile))


def _rounded_logits(
    q: Tensor, k: Tensor, v: Tensor, scale: float, dtype: torch.dtype, *, first: bool = False
) -> Tensor:
    """Logits in too few bits. first: the products are rounded before the scale multiplies them, and after."""
    if k.shape[2] == 0:
        return torch.zeros_like(q)
    products = query_heads_of(q, k) @ k.mT
    logits = scale * (products.to(dtype).double() if first else products)
    return (torch.softmax(logits.to(dtype).double(), dim=-1) @ v).reshape(q.shape)


def _added_products(q: Tensor, k: Tensor, v: Tensor, scale: float) -> Tensor:
    """Products of queries and keys that are added up in halves, in the inputs' dtype."""
    if k.shape[2] == 0:
        return torch.zeros_like(q)
    added = query_heads_of(q, k)[..., None, :] * k[:, :, None]
    while added.shape[-1] > 1:
        one, other = added.tensor_split(2, dim=-1)
        added = torch.cat([one[..., : other.shape[-1]] + other, one[..., other.shape[-1] :]], -1)
    weights = torch.softmax((scale * added[..., 0]).double(), dim=-1)
    return (weights @ v.double()).reshape(q.shape)


def _rounded_splits(q: Tensor, k: Tensor, v: Tensor, scale: float, dtype: torch.dtype, splits: int) -> Tensor:
    """Results of splits, which are rounded before they are joined with their weights."""
    if k.shape[2] == 0:
        return torch.zeros_like(q)
    logits = logits_of(q, k, scale)
    whole = logits.logsumexp(-1, keepdim=True)
    size = -(-k.shape[2] // splits)
    o = torch.zeros((), dtype=q.dtype)
    for start in range(0, k.shape[2], size):
        part = logits[..., start : start + size]
        one = (torch.softmax(part, -1) @ v[:, :, start : start + size]).to(dtype).double()
        o = o + (part.logsumexp(-1, keepdim=True) - whole).exp() * one
    return o.reshape(q.shape)


def _rounded_sums(q: Tensor, k: Tensor, v: Tensor, scale: float, dtype: torch.dtype, tile: int) -> Tensor:
    """Tile after tile, with an accumulator in the inputs' dtype."""
    if k.shape[2] == 0:
        return torch.zeros_like(q)
    logits = logits_of(q, k, scale)
    top = torch.full((*logits.shape[:-1], 1), -torch.inf, dtype=logits.dtype)
    total, acc = torch.zeros_like(top), torch.zeros((), dtype=logits.dtype)
    for start in range(0, k.shape[2], tile):
        part = logits[..., start : start + tile]
        new_top = torch.maximum(top, part.amax(-1, keepdim=True))
        weights, factor = (part - new_top).exp(), (top - new_top).exp()
        total = total * factor + weights.sum(-1, keepdim=True)
        acc = (acc * factor + weights @ v[:, :, start : start + tile]).to(dtype).double()
        top = new_top
    return (acc / total).reshape(q.shape)
