"""The mistakes of ex_18 that a card names, by the values that they give.

`part_mistakes(...)` receives float64 copies of the inputs. `part_roundings(...)` receives the inputs as they are and
yields what too low a precision gives. Neither changes a status or a point.
"""

import math
from collections.abc import Iterator
from itertools import product

import torch
from oracle import FEW_PAIRS, scale_of, weights_of
from torch import Tensor

# Shares of a row's largest weight below which code may take a weight for 0.
SMALL_WEIGHTS = (1e-3, 1e-4, 1e-5)
LN_2 = math.log(2.0)
# A kind, what it looks like, what to do about it, and what it returns.
Mistake = tuple[str, str, str, tuple[Tensor, ...]]
# Tiles of keys that a kernel may walk in, where a mistake shows at their edges.
USUAL_TILES = (16, 32, 64, 128, 256)

SCALE_MISSING = "Looks as if the logits are not multiplied by the scale"
SCALE_HELP = "s = scale · q · kᵀ; without a given scale it is D**-0.5."
SCALE_IGNORED = "Looks as if the given scale is ignored"
SCALE_INVERTED = "Looks as if the logits are divided by the scale"
SCALE_SIGN = "Looks as if the scale has the wrong sign"
NOT_CAUSAL = "Looks as if the causal mask is missing"
TOP_LEFT = "Looks as if the causal mask is aligned with the first key instead of the last"
CAUSAL_HELP = "Query i sees keys j <= i + Skv - Sq: the last query sees all of them."
OFF_BY_ONE = "Looks as if the causal mask is off by one"
ENDS_AT_THE_FIRST = "Looks as if a causal loop over keys ends at the first query of a tile instead of the last"
ENDS_IN_WHOLE_TILES = "Looks as if a causal loop over keys leaves out the last tile, which its queries see in part"
ENDS_BY_ROUNDED_START = (
    "Looks as if the masked end of a causal loop is as long as a tile of queries, from a start that is rounded down"
)
ENDS_BY_ROUNDED_START_HELP = (
    "The start of the masked keys is rounded down, but the last query of the tile still sees keys up to "
    "first + BLOCK_M - 1 + Skv - Sq: compute the end from that query, not from the rounded start."
)
UNMASKED = "Looks as if a causal loop does not mask a tile that its queries see in part"
UNMASKED_HELP = "Its first query sees keys up to first + Skv - Sq: round that number of keys down to whole tiles."
ENDS_HELP = "Queries first to last of a tile see keys up to last + Skv - Sq: round that end up to whole tiles of keys."
SCALED_LATE = "Looks as if the scale multiplies logits that are masked already"
SCALED_LATE_HELP = "-inf times a negative scale is +inf, and times 0 it is NaN: scale first, then mask."
HEADS_MODULO = "Looks as if query head h reads kv head h % Hkv"
HEADS_HELP = "Neighbouring query heads share a kv head: query head h reads kv head h // (Hq // Hkv)."
LAST_KEY = "Looks as if the last key is not seen"
REMAINDER_HELP = "How many tiles does a length need if it is no multiple of the tile?"
LAST_KEY_HELP = "Key j exists where j < Skv: compare with the length, not with the last index."
BASE_2 = "Looks as if lse is read as a logarithm to base 2"
BLIND_NAN = "Looks like -inf - (-inf), which is NaN, in rows that see no key"


def attention_forward_mistakes(q: Tensor, k: Tensor, v: Tensor, causal: bool, scale: float | None) -> Iterator[Mistake]:
    """Those that show in the values, the plainest first."""
    given, heads, seen = scale_of(q, scale), _kv_heads(q, k), _seen(q, k, causal)
    o, lse = _softmax(q, k, v, given, seen, heads)
    yield "scale_missing", SCALE_MISSING, SCALE_HELP, _softmax(q, k, v, 1.0, seen, heads)
    if scale is not None:
        yield "scale_ignored", SCALE_IGNORED, SCALE_HELP, _softmax(q, k, v, q.shape[3] ** -0.5, seen, heads)
    yield (
        "scale_missing",
        "Looks as if the scale is applied twice",
        SCALE_HELP,
        _softmax(q, k, v, given * given, seen, heads),
    )
    yield "scale_inverted", SCALE_INVERTED, SCALE_HELP, _softmax(q, k, v, _inverse(given), seen, heads)
    yield "scale_ignored", SCALE_SIGN, SCALE_HELP, _softmax(q, k, v, -given, seen, heads)
    if given <= 0 and (causal or k.shape[2] % USUAL_TILES[0]):
        spoilt = torch.full_like(o, math.nan), torch.full_like(lse, math.nan)
        yield "scaled_after_mask", SCALED_LATE, SCALED_LATE_HELP, spoilt
    yield "last_left_out", LAST_KEY, LAST_KEY_HELP, _softmax(q, k, v, given, _but_the_last(seen), heads)
    for kind, title, help_text, wrongly_seen in _wrongly_seen(q, k, causal):
        yield kind, title, help_text, _softmax(q, k, v, given, wrongly_seen, heads)
    if k.shape[1] > 1:
        yield (
            "heads_mapping",
            HEADS_MODULO,
            HEADS_HELP,
            _softmax(q, k, v, given, seen, torch.arange(q.shape[1]) % k.shape[1]),
        )
        first = torch.zeros_like(heads)
        yield (
            "heads_mapping",
            "Looks as if every query head reads kv head 0",
            HEADS_HELP,
            _softmax(q, k, v, given, seen, first),
        )
        for wrong in (torch.arange(q.shape[1]) % k.shape[1], first):
            title = "Looks as if {} reads the wrong kv head"
            yield "heads_mapping", title.format("k"), HEADS_HELP, _softmax(q, k, v, given, seen, wrong, heads)
            yield "heads_mapping", title.format("v"), HEADS_HELP, _softmax(q, k, v, given, seen, heads, wrong)
    logits = (given * q @ k[:, heads].mT).masked_fill(~seen, -math.inf)
    top = logits.amax(-1)
    base_2 = "Looks as if lse is a logarithm to base 2"
    yield (
        "logarithm_base",
        base_2,
        "lse is the natural logarithm, m + log(l): multiply a logarithm to base 2 by ln 2.",
        (o, lse / LN_2),
    )
    mixed = "Looks as if lse adds a natural logarithm and one to base 2"
    help_text = "lse = m + log(l): with m and l in base 2, multiply both by ln 2."
    yield "logarithm_base", mixed, help_text, (o, top + (lse - top) / LN_2)
    yield "logarithm_base", mixed, help_text, (o, top / LN_2 + lse - top)
    yield (
        "logarithm_base",
        "Looks as if the weights are powers of 2 instead of e",
        "exp(x) = 2**(x · log2 e): multiply the logits by log2 e before tl.exp2.",
        _softmax(q, k, v, given * LN_2, seen, heads),
    )
    yield "lse_incomplete", "Looks as if lse lacks the row's maximum", "lse = m + log(l).", (o, lse - top)
    yield "lse_incomplete", "Looks as if lse lacks the logarithm of the row's sum", "lse = m + log(l).", (o, top)
    row_sum = (lse - top).exp()[..., None]
    not_divided = o * row_sum
    # In float32, where exp of a large logit is inf; the weights also in fewer bits, and rows whose sum is 0 left as 0.
    plain = logits.exp().float().double()
    total = plain.sum(-1, keepdim=True)
    hidden = ~seen.any(-1)[:, None]
    for dtype, spared in product((torch.float32, torch.float16, torch.bfloat16), (hidden, total == 0)):
        weights = plain.to(dtype).double()
        yield (
            "no_maximum",
            "Looks as if the row's maximum is not subtracted",
            "In float32 exp(89) is inf and exp(-104) is 0: what can you subtract without changing the quotient?",
            ((weights @ v[:, heads]) / total.masked_fill(spared, 1.0), total[..., 0].log()),
        )
    # In float32, relative to the largest logit of a tile of queries.
    for rows in [rows for rows in USUAL_TILES if q.shape[2] > 1 and rows < 2 * q.shape[2]]:
        tops = torch.cat([part.amax((-1, -2), keepdim=True).expand_as(part) for part in logits.split(rows, 2)], 2)
        low = (logits - tops.nan_to_num(neginf=0.0)).exp().float().double()
        total = low.sum(-1)
        yield (
            "wrong_axis",
            f"Looks as if the maximum goes over {rows} queries at a time",
            "Each query needs its own maximum: take tl.max along the axis of the keys.",
            (
                low @ v[:, heads] / total.masked_fill(~seen.any(-1), 1.0)[..., None],
                tops[..., 0] + total.log(),
            ),
        )
    # In float32, relative to 0 where all logits are below.
    starts = [start for start in (0.0, -1e4) if bool(((top < start) & (top > -math.inf)).any())]
    for start, least in product(starts, (1.0, 0.0)):
        low = (logits - top.clamp(min=start)[..., None]).exp().float().double()
        total = low.sum(-1)
        yield (
            "maximum_start",
            "Looks as if the running maximum does not start at -inf",
            "Start the maximum at -inf, hidden keys included: any other number exceeds a row of very negative logits.",
            (
                (low @ v[:, heads]) / total.masked_fill(total == 0.0, least)[..., None],
                top.clamp(min=start) + total.log(),
            ),
        )
    yield (
        "not_normalised",
        "Looks as if o is not divided by the row's sum",
        "After the last tile, o = acc / l.",
        (not_divided, lse),
    )
    twice = "Looks as if o is divided by the row's sum twice"
    yield "not_normalised", twice, "After the last tile, o = acc / l, once.", (o / row_sum, lse)
    title = "Looks as if lse of joined splits lacks their maximum"
    for size in _split_sizes(k.shape[2]) if logits.numel() <= FEW_PAIRS else ():
        tops = [part.logsumexp(-1) for part in logits.split(size, dim=-1)]
        yield "lse_incomplete", title, "lse = m + log(l).", (o, lse - torch.stack(tops).amax(0))
    title = "Looks as if weights far below the largest one count as 0"
    told = "Thousands of small weights together may weigh as much as the largest one: none of them is 0."
    for least in SMALL_WEIGHTS if logits.numel() <= FEW_PAIRS else ():
        kept = logits.masked_fill((logits - top[..., None]).exp() < least, -math.inf)
        lse_kept = kept.logsumexp(-1)
        o_kept = weights_of(kept, lse_kept, seen & (top > -math.inf)[..., None]) @ v[:, heads]
        yield "small_left_out", title, told, (o_kept, lse_kept)
    title = "Looks as if splits are joined by their maxima alone"
    told = "A split's weight is exp(m_s - m) · l_s, or exp(lse_s - m): its sum counts, too."
    for size in _split_sizes(k.shape[2]) if logits.numel() <= FEW_PAIRS else ():
        yield "no_rescale", title, told, (_joined_by_maxima(logits, v[:, heads], size), lse)
    title = "Looks as if a split starts at the number of its first tile, not at that of its first key"
    told = "A tile's first key is its number times its size."
    for tile, splits in product(USUAL_TILES, (2, 4, 8, 16)) if logits.numel() <= FEW_PAIRS else ():
        steps = math.ceil(math.ceil(k.shape[2] / tile) / splits)
        if steps * tile < k.shape[2]:
            counted = logits + _times_read(k.shape[2], steps, steps * tile, splits).log()
            weights = weights_of(counted, counted.logsumexp(-1), seen & (top > -math.inf)[..., None])
            yield "wrong_address", title, told, (weights @ v[:, heads], counted.logsumexp(-1))
    for tile in USUAL_TILES:
        if tile < k.shape[2]:
            yield from _without_rescale(logits, v[:, heads], tile)
            for factor, backwards in product((1 / LN_2, LN_2), (False, True)) if logits.numel() <= FEW_PAIRS else ():
                yield _rescaled_in_another_base(logits, v[:, heads], tile, factor, backwards=backwards)
        if left := k.shape[2] % tile:
            title = f"Looks as if the last {left} keys, which fill no tile, are left out"
            few = seen & (torch.arange(k.shape[2]) < k.shape[2] - left)
            yield "remainder_skipped", title, REMAINDER_HELP, _softmax(q, k, v, given, few, heads)
    # All keys of the last tile, or one, with a mask that lets one key too many through.
    for beyond in dict.fromkeys((*(-k.shape[2] % tile for tile in USUAL_TILES), 1)) if not causal else ():
        if not beyond:
            continue
        # Keys of zeros have a logit of 0.
        more = torch.logaddexp(lse, torch.full_like(lse, math.log(beyond)))
        yield (
            "padding_counted",
            f"Looks as if {beyond} keys beyond the last one count as keys of zeros"
            if beyond > 1
            else "Looks as if one key beyond the last one counts as a key of zeros",
            "Masked loads give 0, and exp(0 - m) is not 0: logits of keys that do not exist must be -inf.",
            (o * (lse - more).exp()[..., None], more),
        )
    if bool((top == -math.inf).any()):
        blind = (top == -math.inf)[..., None]
        for told, instead in (("0", 0.0), ("+inf", math.inf)):
            yield (
                "blind_rows",
                f"Looks as if lse of rows that see no key is {told}",
                "For such a row log(0) = -inf is right.",
                (o, lse.masked_fill(blind[..., 0], instead)),
            )
        help_text = "In such a row m_new is still -inf: subtract 0 instead, and divide by 1 where l is 0."
        yield (
            "blind_rows",
            BLIND_NAN,
            help_text,
            (o.masked_fill(blind, math.nan), lse.masked_fill(blind[..., 0], math.nan)),
        )
        # Tiles that nobody sees are left out, and the last one may hold zeros.
        for keys in (k.shape[2], *range(USUAL_TILES[0], 2 * USUAL_TILES[-1] + 1, USUAL_TILES[0])):
            mean = v[:, heads, :keys].sum(2, keepdim=True) / keys
            yield (
                "blind_rows",
                "Looks as if rows that see no key get the mean of values",
                "A large negative number instead of -inf makes their weights equal, not 0.",
                (torch.where(blind, mean, o), lse),
            )


def attention_forward_roundings(
    q: Tensor, k: Tensor, v: Tensor, causal: bool, scale: float | None
) -> Iterator[tuple[str, tuple[Tensor, Tensor]]]:
    """Yield sums, weights or scaled queries in too few bits."""
    given, heads, seen = scale_of(q, scale), _kv_heads(q, k), _seen(q, k, causal)
    wide_q, wide_k, wide_v = q.double(), k.double()[:, heads], v.double()[:, heads]
    logits = (given * wide_q @ wide_k.mT).masked_fill(~seen, -math.inf)
    lse = logits.logsumexp(-1)
    blind = (lse == -math.inf)[..., None]
    top = logits.amax(-1, keepdim=True).masked_fill(blind, 0.0)
    powers = (logits - top).exp()
    total = powers.sum(-1, keepdim=True).masked_fill(blind, 1.0)
    for dtype in {q.dtype, torch.bfloat16, torch.float16}:
        if dtype != q.dtype:
            yield "rounded_intermediate", (powers.to(dtype).double() @ wide_v / total, lse)
    for scaled_q, scaled_k in _rounded_operands(wide_q, k.double(), given, q.dtype):
        yield "rounded_intermediate", _softmax(scaled_q, scaled_k, v.double(), given, seen, heads)
    rounded = logits.to(q.dtype).double()
    shifted = (rounded - rounded.amax(-1, keepdim=True).masked_fill(blind, 0.0)).exp()
    yield "rounded_intermediate", (shifted @ wide_v / shifted.sum(-1, keepdim=True).masked_fill(blind, 1.0), lse)
    # Products are larger than logits: in float16 they overflow, and infinity less infinity is NaN.
    products = (given * (wide_q @ wide_k.mT).to(q.dtype).double()).masked_fill(~seen, -math.inf)
    powers_of = (products - products.amax(-1, keepdim=True).masked_fill(blind, 0.0)).exp()
    total_of = powers_of.sum(-1, keepdim=True).masked_fill(blind, 1.0)
    yield "rounded_intermediate", (powers_of @ wide_v / total_of, products.logsumexp(-1))
    # The whole sum, before it is divided: in float16 it overflows where values are large.
    yield "rounded_intermediate", ((powers @ wide_v).to(q.dtype).double() / total, lse)
    for tile in USUAL_TILES[:3]:
        acc = torch.zeros_like(wide_q)
        for start in range(0, k.shape[2], tile):
            added = powers[..., start : start + tile] @ wide_v[:, :, start : start + tile]
            acc = (acc + added).to(q.dtype).double()
        yield "low_precision_sum", (acc / total, lse)


def _rounded_operands(q: Tensor, k: Tensor, scale: float, dtype: torch.dtype) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield q and k, of which one was rounded to a dtype when the scale was in it, with log2 e or without."""
    for factor in (scale, scale / LN_2) if scale else ():
        yield (factor * q).to(dtype).double() / factor, k
        yield q, (factor * k).to(dtype).double() / factor


def attention_backward_roundings(
    do: Tensor, q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor, causal: bool, scale: float | None
) -> Iterator[tuple[str, tuple[Tensor, Tensor, Tensor]]]:
    """Yield delta or scaled operands in the inputs' dtype, and gradients that are added up in it."""
    dtype, given, group = q.dtype, scale_of(q, scale), q.shape[1] // k.shape[1]
    heads, seen = _kv_heads(q, k), _seen(q, k, causal)
    do, q, k, v, o, lse = (one.double() for one in (do, q, k, v, o, lse))
    delta = (o * do).sum(-1, keepdim=True)

    def weights(q: Tensor, k: Tensor) -> Tensor:
        logits = given * q @ k[:, heads].mT - lse[..., None]
        return logits.exp().masked_fill(~seen | (lse == -math.inf)[..., None], 0.0)

    def joined(each: Tensor) -> Tensor:
        return each.unflatten(1, (-1, group)).sum(2)

    def all_of(p: Tensor, ds: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return given * ds @ k[:, heads], joined(given * ds.mT @ q), joined(p.mT @ do)

    p, dp = weights(q, k), do @ v[:, heads].mT
    yield "rounded_intermediate", all_of(p, p * (dp - delta.to(dtype).double()))
    for scaled_q, scaled_k in _rounded_operands(q, k, given, dtype):
        rounded = weights(scaled_q, scaled_k)
        yield "rounded_intermediate", all_of(rounded, rounded * (dp - delta))
    ds = p * (dp - delta)
    for tile in USUAL_TILES[:3]:
        sums = [
            torch.zeros_like(q),
            torch.zeros_like(q[:, :, :1]).expand_as(k[:, heads]),
            torch.zeros_like(k[:, heads]),
        ]
        for start in range(0, q.shape[2], tile):
            rows = slice(start, start + tile)
            sums[1] = (sums[1] + given * ds[:, :, rows].mT @ q[:, :, rows]).to(dtype).double()
            sums[2] = (sums[2] + p[:, :, rows].mT @ do[:, :, rows]).to(dtype).double()
        for start in range(0, k.shape[2], tile):
            keys = slice(start, start + tile)
            sums[0] = (sums[0] + given * ds[..., keys] @ k[:, heads][:, :, keys]).to(dtype).double()
        yield "low_precision_sum", (sums[0], joined(sums[1]), joined(sums[2]))


def attention_backward_mistakes(
    do: Tensor, q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor, causal: bool, scale: float | None
) -> Iterator[Mistake]:
    """Those that show in the values, the plainest first."""
    given, heads, seen = scale_of(q, scale), _kv_heads(q, k), _seen(q, k, causal)
    delta = (o * do).sum(-1, keepdim=True)

    def gradients(
        *,
        scale: float = given,
        outer: float = given,
        lse: Tensor = lse,
        delta: Tensor = delta,
        seen: Tensor = seen,
        heads: Tensor = heads,
        counted: slice = slice(None),
        base: float = 1.0,
        other: str = "",
        outside: bool = False,
    ) -> tuple[Tensor, Tensor, Tensor]:
        logits = (scale * q @ k[:, heads].mT).masked_fill(~seen, -math.inf)
        p = (base * (logits - lse[..., None])).exp().masked_fill(lse[..., None] == -math.inf, 0.0)
        dp = do @ v[:, heads].mT
        ds = p * dp - delta if outside else p * (dp - delta)
        for_dq = outer * (p if other == "dq" else ds)
        for_dk = outer * (p if other == "dk" else ds)
        for_dv = ds if other == "dv" else p
        dk, dv = torch.zeros_like(k), torch.zeros_like(v)
        own = torch.arange(q.shape[1])[counted]
        dk.index_add_(1, heads[own], (for_dk.mT @ q)[:, own])
        dv.index_add_(1, heads[own], (for_dv.mT @ do)[:, own])
        return for_dq @ k[:, heads], dk, dv

    group = q.shape[1] // k.shape[1]
    inverse = _inverse(given)
    yield "scale_inverted", SCALE_INVERTED, SCALE_HELP, gradients(scale=inverse, outer=inverse)
    yield "scale_missing", SCALE_MISSING, SCALE_HELP, gradients(scale=1.0)
    yield "scale_missing", SCALE_MISSING, SCALE_HELP, gradients(scale=1.0, outer=1.0)
    help_text = "s = scale · q · kᵀ, so dq = scale · ds · k and dk = scale · dsᵀ · q."
    (dq, dk, dv), (whole_dq, whole_dk, _) = gradients(), gradients(outer=1.0)
    for names, outputs in (
        ("dq and dk are", (whole_dq, whole_dk, dv)),
        ("dq is", (whole_dq, dk, dv)),
        ("dk is", (dq, whole_dk, dv)),
    ):
        yield "scale_missing", f"Looks as if {names} not multiplied by the scale", help_text, outputs
    told = "The logits' log2 e belongs to tl.exp2 alone: dq = scale · ds · k and dk = scale · dsᵀ · q."
    for factor, said in ((1 / LN_2, "log2 e"), (LN_2, "ln 2")):
        for names, outputs in (
            ("dq and dk are", (factor * dq, factor * dk, dv)),
            ("dq is", (factor * dq, dk, dv)),
            ("dk is", (dq, factor * dk, dv)),
        ):
            yield "logarithm_base", f"Looks as if {names} multiplied by {said}", told, outputs
    if scale is not None:
        default = q.shape[3] ** -0.5
        yield "scale_ignored", SCALE_IGNORED, SCALE_HELP, gradients(scale=default, outer=default)
    yield (
        "delta_missing",
        "Looks as if delta is missing",
        "ds = p ∘ (do · vᵀ - delta), with delta = sum over d of o ∘ do, one number per query.",
        gradients(delta=torch.zeros_like(delta)),
    )
    yield (
        "scale_missing",
        "Looks as if dq and dk are multiplied by the scale twice",
        "s = scale · q · kᵀ, so dq = scale · ds · k and dk = scale · dsᵀ · q.",
        gradients(outer=given * given),
    )
    logits = (given * q @ k[:, heads].mT).masked_fill(~seen, -math.inf)
    p = (logits - lse[..., None]).exp().masked_fill(lse[..., None] == -math.inf, 0.0)
    products = p * (do @ v[:, heads].mT)
    for tile in USUAL_TILES:
        if tile < k.shape[2]:
            of_tiles = [part.sum(-1, keepdim=True).expand_as(part) for part in products.split(tile, dim=-1)]
            title = f"Looks as if delta is summed over {tile} keys at a time"
            told = "delta = sum over d of o ∘ do is one number per query: p ∘ dp, summed over all keys."
            yield "delta_missing", title, told, gradients(delta=torch.cat(of_tiles, -1))
    raw = gradients(lse=logits.amax(-1))[2]
    title = "Looks as if dv adds up weights that are not divided by their sum"
    yield "not_normalised", title, "dv = pᵀ · do, with p = exp(s - lse): its rows add up to 1.", (dq, dk, raw)
    yield "last_left_out", LAST_KEY, LAST_KEY_HELP, gradients(seen=_but_the_last(seen))
    help_text = "dv comes from p, dq and dk from ds = p ∘ (do · vᵀ - delta)."
    for name, used, due in (("dv", "ds", "p"), ("dk", "p", "ds"), ("dq", "p", "ds")):
        title = f"Looks as if {name} is made of {used} instead of {due}"
        yield "operand_mixed_up", title, help_text, gradients(other=name)
    help_text = "delta = sum over d of o ∘ do, one number per query."
    for name, one in (("o", o), ("do", do)):
        title = f"Looks as if delta is the sum of the squares of {name}"
        yield "delta_missing", title, help_text, gradients(delta=one.square().sum(-1, keepdim=True))
        title = f"Looks as if delta is the sum of {name} alone"
        yield "delta_missing", title, help_text, gradients(delta=one.sum(-1, keepdim=True))
    yield "delta_missing", "Looks as if delta is scaled", help_text, gradients(delta=given * delta)
    yield "delta_missing", "Looks as if delta is scaled", help_text, gradients(delta=delta / given if given else delta)
    yield (
        "logarithm_base",
        "Looks as if the weights are powers of 2 instead of e",
        "exp(x) = 2**(x · log2 e): multiply s - lse by log2 e before tl.exp2.",
        gradients(base=LN_2),
    )
    yield "delta_missing", "Looks as if delta is added", "ds = p ∘ (do · vᵀ - delta).", gradients(delta=-delta)
    title = "Looks as if delta is subtracted after the product with p"
    yield "delta_missing", title, "ds = p ∘ (do · vᵀ - delta).", gradients(outside=True)
    for kind, title, help_text, wrongly_seen in _wrongly_seen(q, k, causal):
        yield kind, title, help_text, gradients(seen=wrongly_seen)
    if group > 1:
        yield "heads_mapping", HEADS_MODULO, HEADS_HELP, gradients(heads=torch.arange(q.shape[1]) % k.shape[1])
        for which, member in (("last", group - 1), ("first", 0)):
            yield (
                "heads_not_summed",
                f"Looks as if dk and dv come from only the {which} of the query heads that share a kv head",
                "dk and dv of a kv head are the sums over all query heads that read it.",
                gradients(counted=slice(member, None, group)),
            )
    for tile in USUAL_TILES:
        if left := q.shape[2] % tile:
            title = f"Looks as if the last {left} queries, which fill no tile, are left out"
            few = seen & (torch.arange(q.shape[2]) < q.shape[2] - left)[:, None]
            yield "remainder_skipped", title, REMAINDER_HELP, gradients(seen=few)
        if left := k.shape[2] % tile:
            title = f"Looks as if the last {left} keys, which fill no tile, are left out"
            few = seen & (torch.arange(k.shape[2]) < k.shape[2] - left)
            yield "remainder_skipped", title, REMAINDER_HELP, gradients(seen=few)
    for factor in (LN_2, 1 / LN_2):
        yield (
            "logarithm_base",
            BASE_2,
            "lse is a natural logarithm: p = exp(s - lse), or 2**((s - lse) · log2 e).",
            gradients(lse=factor * lse),
        )
    if bool((lse == -math.inf).any()):
        blind = (lse == -math.inf)[..., None]
        help_text = "A query with lse = -inf saw no key: its p is 0, not exp(-inf - (-inf))."
        nan = torch.full_like(k, math.nan)
        yield "blind_rows", BLIND_NAN, help_text, (dq.masked_fill(blind, math.nan), nan, nan)


def _joined_by_maxima(logits: Tensor, v: Tensor, size: int) -> Tensor:
    """[B, Hq, Sq, D]: the outputs of splits of so many keys, weighted by exp(m) without their sums."""
    tops = torch.stack([part.amax(-1) for part in logits.split(size, dim=-1)])
    outputs = torch.stack(
        [
            part.softmax(-1).nan_to_num(nan=0.0) @ values
            for part, values in zip(logits.split(size, dim=-1), v.split(size, dim=2), strict=True)
        ]
    )
    weights = (tops - tops.amax(0).nan_to_num(neginf=0.0)).exp()[..., None]
    return (weights * outputs).sum(0) / weights.sum(0).masked_fill(weights.sum(0) == 0.0, 1.0)


def _kv_heads(q: Tensor, k: Tensor) -> Tensor:
    """Return the kv head that each query head reads."""
    return torch.arange(q.shape[1]) // (q.shape[1] // k.shape[1])


def _seen(q: Tensor, k: Tensor, causal: bool, offset: int | None = None) -> Tensor:
    """[Sq, Skv]: whether query i sees key j <= i + offset; None for Skv - Sq."""
    queries, keys = q.shape[2], k.shape[2]
    shift = keys - queries if offset is None else offset
    return torch.ones(queries, keys, dtype=torch.bool).tril(shift) if causal else torch.ones(queries, keys).bool()


def _inverse(scale: float) -> float:
    """1 / scale; 0 has none."""
    return 1 / scale if scale else 0.0


def _but_the_last(seen: Tensor) -> Tensor:
    """Without the last key."""
    return seen & (torch.arange(seen.shape[1]) < seen.shape[1] - 1)


def _wrongly_seen(q: Tensor, k: Tensor, causal: bool) -> Iterator[tuple[str, str, str, Tensor]]:
    """Usual wrong masks and wrong ends of the loop over keys, in a causal case: kind, title, help, what is seen.

    Each mask comes once for a kind: tiles of many sizes often show the same keys.
    """
    if causal:
        right, known = _seen(q, k, causal), dict[str, list[Tensor]]()
        for one in (*_wrong_masks(q, k), *_wrong_ends(q, k)):
            alike = known.setdefault(one[0], [right])
            if not any(torch.equal(one[3], mask) for mask in alike):
                alike.append(one[3])
                yield one


def _wrong_masks(q: Tensor, k: Tensor) -> Iterator[tuple[str, str, str, Tensor]]:
    offset = k.shape[2] - q.shape[2]
    yield "causal_alignment", TOP_LEFT, CAUSAL_HELP, _seen(q, k, True, 0)
    title = "Looks as if Sq - Skv is added instead of Skv - Sq"
    yield "causal_alignment", title, CAUSAL_HELP, _seen(q, k, True, -offset)
    for tile in USUAL_TILES:
        ends = (torch.arange(q.shape[2]) // tile + 1)[:, None] * tile
        title = "Looks as if tiles of queries and of keys meet by their own numbers, without Skv - Sq"
        yield "causal_alignment", title, CAUSAL_HELP, _seen(q, k, True) & (torch.arange(k.shape[2]) < ends)
    yield "causal_missing", "Looks as if the causal mask hides the past", CAUSAL_HELP, ~_seen(q, k, True, offset - 1)
    yield "causal_missing", NOT_CAUSAL, CAUSAL_HELP, _seen(q, k, causal=False)
    yield "causal_off_by_one", OFF_BY_ONE, CAUSAL_HELP, _seen(q, k, True, offset - 1)
    yield "causal_off_by_one", OFF_BY_ONE, CAUSAL_HELP, _seen(q, k, True, offset + 1)


def _wrong_ends(q: Tensor, k: Tensor) -> Iterator[tuple[str, str, str, Tensor]]:
    """Loops over keys that end before the last key that a tile of queries sees."""
    if q.shape[2] * k.shape[2] > FEW_PAIRS:
        return
    for rows, keys in product(USUAL_TILES, USUAL_TILES):
        first = torch.arange(q.shape[2])[:, None] // rows * rows + k.shape[2] - q.shape[2]
        for end, title in ((-(-first // keys), ENDS_AT_THE_FIRST), ((first + rows) // keys, ENDS_IN_WHOLE_TILES)):
            yield "causal_loop", title, ENDS_HELP, _seen(q, k, True) & (torch.arange(k.shape[2]) < end * keys)
        for seen_by_all in (first + 1, first):
            rounded = seen_by_all.clamp(min=0, max=k.shape[2]) // keys * keys
            reached = _seen(q, k, True) & (torch.arange(k.shape[2]) < rounded + rows)
            yield "causal_loop", ENDS_BY_ROUNDED_START, ENDS_BY_ROUNDED_START_HELP, reached
        whole = k.shape[2] // keys
        for end in (-(-first.clamp(min=0) // keys), ((first + rows) // keys).clamp(min=0)):
            beyond = torch.arange(k.shape[2]) < end.clamp(max=whole) * keys
            yield "causal_loop", UNMASKED, UNMASKED_HELP, _seen(q, k, True) | beyond


def _softmax(
    q: Tensor, k: Tensor, v: Tensor, scale: float, seen: Tensor, heads: Tensor, v_heads: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """o and lse, all at once; heads[h] is the kv head that query head h reads, v_heads[h] that of v, if another."""
    logits = (scale * q @ k[:, heads].mT).masked_fill(~seen, -math.inf)
    lse = logits.logsumexp(-1)
    values = v[:, heads if v_heads is None else v_heads]
    return weights_of(logits, lse, seen & (lse > -math.inf)[..., None]) @ values, lse


def _without_rescale(logits: Tensor, v: Tensor, tile: int) -> Iterator[Mistake]:
    """Compute online softmax in tiles of so many keys, where sums stay relative to another maximum than the row's."""
    acc_kept, total_kept, acc, total, acc_late = 0.0, 0.0, 0.0, 0.0, 0.0
    top = torch.full((*logits.shape[:3], 1), -math.inf, dtype=logits.dtype)
    for start in range(0, logits.shape[3], tile):
        part = logits[..., start : start + tile]
        new_top = torch.maximum(top, part.amax(-1, keepdim=True))
        shift = new_top.masked_fill(new_top == -math.inf, 0.0)
        weights, rescale = (part - shift).exp(), (top - shift).exp()
        added, more = weights.sum(-1, keepdim=True), weights @ v[:, :, start : start + tile]
        total_kept, acc_kept = total_kept + added, acc_kept + more
        total, acc, acc_late = total * rescale + added, acc * rescale + more, (acc_late + more) * rescale
        top = new_top
    divisor = total.masked_fill(total == 0, 1.0)
    title = "Looks as if acc is rescaled after a tile is added to it: the first tile is lost"
    told = "The new tile is relative to the new maximum already: multiply acc by exp(m_old - m_new), then add."
    yield "no_rescale", title, told, (acc_late / divisor, (top + total.log()).squeeze(-1))
    for what, one, other in (
        ("the sum so far", acc_kept, total_kept),
        ("acc", acc_kept, total),
        ("l", acc, total_kept),
    ):
        yield (
            "no_rescale",
            f"Looks as if {what} is not rescaled when a row's maximum rises",
            "The sum so far is relative to the old maximum: multiply l and acc by exp(m_old - m_new).",
            (one / other.masked_fill(other == 0, 1.0), (top + other.log()).squeeze(-1)),
        )


def _rescaled_in_another_base(logits: Tensor, v: Tensor, tile: int, factor: float, *, backwards: bool) -> Mistake:
    """Compute online softmax in tiles of so many keys; weights and factors are powers of different bases."""
    acc, total = torch.zeros_like(v[:, :, :1]), torch.zeros((), dtype=logits.dtype)
    top = torch.full((*logits.shape[:3], 1), -math.inf, dtype=logits.dtype)
    starts = range(0, logits.shape[3], tile)
    for start in reversed(starts) if backwards else starts:
        part = logits[..., start : start + tile]
        new_top = torch.maximum(top, part.amax(-1, keepdim=True))
        shift = new_top.masked_fill(new_top == -math.inf, 0.0)
        weights, rescale = (part - shift).exp(), (factor * (top - shift)).exp()
        total = total * rescale + weights.sum(-1, keepdim=True)
        acc = acc * rescale + weights @ v[:, :, start : start + tile]
        top = new_top
    return (
        "logarithm_base",
        "Looks as if l and acc are rescaled in another base than that of the weights",
        "If the logits are multiplied by log2 e, both the weights and the rescaling are powers of 2.",
        (acc / total.masked_fill(total == 0, 1.0), (top + total.log()).squeeze(-1)),
    )


def _split_sizes(keys: int) -> list[int]:
    """Return how many keys a split may have: whole tiles, and all keys if there are few."""
    sizes = {math.ceil(math.ceil(keys / tile) / splits) * tile for tile in USUAL_TILES for splits in (1, 2, 4, 8, 16)}
    return sorted({min(size, keys) for size in sizes})


def _times_read(keys: int, apart: int, size: int, splits: int) -> Tensor:
    """Return how often each key is read by splits of so many keys, which start so far apart."""
    times = torch.zeros(keys, dtype=torch.float64)
    for split in range(splits):
        times[split * apart : split * apart + size] += 1
    return times
