"""ex_19: a KV cache, how it grows, and how a new token attends to it, contiguous or in pages.

Axes: B sequences, Hkv kv heads, each with `group` query heads (Hq = group · Hkv), S slots, D numbers in each; T tokens
are appended; a page has `page` slots. `lengths` says how long the sequences are: "equal" is S - unused (for append_kv
S - T - unused), "stairs" from S - 2 · unused to S in equal steps, "ragged" anything with 0, 1 and S among it. `table`
is the order of the pages. `stale` says what lies past the lengths, and `layout` how the tensors lie in memory. `scale`
is "default" for D**-0.5 (see inputs.py).

The first two kinds of lengths have the mean S - unused: formulas can count with it.
"""

from collections.abc import Callable, Mapping

from grader import (
    ATTENTION_KINDS,
    FAR_APART,
    FEWEST_FAR_APART,
    LENGTH_KINDS,
    Agrees,
    Allowance,
    Case,
    Cases,
    Check,
    Choice,
    Contrast,
    Curves,
    Exercise,
    Fresh,
    Kind,
    Limits,
    Part,
    Region,
    Size,
    Space,
    SpeedBand,
    Star,
    Stateful,
    Tolerance,
    UsesKernels,
    Value,
    WorkModel,
)

OPTIMISES = "optimises a KV cache"
BANDWIDTH = "reasons about memory bandwidth"
PROFILES = "profiles kernels against cuBLAS / FlashAttention"

HALVES = Choice(("float16", "bfloat16"))
WIDTHS = Choice((64, 128))
ONE, FEW = Choice((1,)), Choice((1, 2, 3))
GROUPS = Choice((1, 4, 8, 2, 3, 7, 5, 6))
SCALES = ("default", 1.0, 0.3, 0.0, -0.5)
# With it, products of q and k are far beyond their logits: below any finite number that code may start a maximum with.
LEAST_SCALE = 0.004
# With scale 0 no other mistake shows.
TELLING_SCALES = ("default", 1.0, 0.3, -0.5)
FAMILIES = (
    "normal",
    "constant",
    "peaked",
    "rising",
    "shifted",
    "offset",
    "fading",
    "cancelling",
    "sinking",
    "balanced",
    "stretch",
)
# If one slot has nearly all the weight, mistakes at the others do not show.
TELLING_FAMILIES = tuple(one for one in FAMILIES if one not in ("peaked", "fading"))
NONE_UNUSED = Choice((0,))

RAGGED = Size(1, 200)
# Usual tiles divide these.
FULL = Size(128, 256, multiple_of=128)
# So many slots that code splits them.
SPLIT = Size(2049, 2600)
SEVERAL = Choice((2, 3))
# Every slot has some weight.
REGULAR = ("normal", "shifted")
LONG = Size(1, 1 << 20)

Named = tuple[dict[str, Value], ...]


def has_room(case: Case) -> bool:
    """Return whether no length is below 0, and what lies far apart has at least 3 slices."""
    room = int(case["S"]) - int(case.get("T", 0))
    slices = min(int(case["B"]), int(case["S"])) if case["layout"] == FAR_APART else FEWEST_FAR_APART
    return room >= int(case["unused"]) * (2 if case["lengths"] == "stairs" else 1) and slices >= FEWEST_FAR_APART


def little_work(case: Case) -> bool:
    """Return whether a generated case is small enough for the interpreter."""
    return has_room(case) and case.product("B", "Hkv", "S") <= 1000


def in_a_pool(case: Case) -> bool:
    """Return whether the case is small enough, its pool of pages included."""
    return little_work(case) and (case["table"] != "scattered" or (case["page"] == 16 and case["D"] == 64))


def some_work(case: Case) -> bool:
    """Return whether the case is small enough; a long context of several heads still fits."""
    return has_room(case) and case.product("B", "Hkv", "S") <= 2400


def few_rows(case: Case) -> bool:
    """Return whether the case is small enough; many new tokens of few heads still fit."""
    return has_room(case) and case.product("B", "Hkv", "T") <= 1000


def many_rows(case: Case) -> bool:
    """Return whether the case is small enough; many new tokens of several heads still fit."""
    return has_room(case) and case.product("B", "Hkv", "T") <= 4000


def several_tiles(case: Case) -> bool:
    """Return whether the case is small enough; so many slots that code splits them still fit in several heads."""
    return has_room(case) and case.product("B", "Hkv", "S") <= 12000


def one_far_end(case: Case) -> bool:
    """Return whether the case is small enough; one length or number of heads or sequences far beyond any tile fits.

    With more heads than a GPU has multiprocessors, a persistent program takes a second piece of work.
    """
    heads, width = case.product("B", "Hkv"), int(case["D"])
    return has_room(case) and heads * width <= 160 * 64 and heads * int(case["S"]) <= 10000


def caches(
    *,
    slots: Size = RAGGED,
    batches: Choice | Size = FEW,
    heads: Choice | Size = ONE,
    lengths: tuple[str, ...] = ("equal",),
    unused: Choice | Size = NONE_UNUSED,
    layouts: tuple[str, ...] = ("bhsd",),
    stale: str = "nan",
    where: Callable[[Case], bool] = has_room,
    more: Mapping[str, Choice | Size] | None = None,
) -> Space:
    """Return caches: contiguous, and full to the last slot, unless more is said."""
    return Space(
        {
            "B": batches,
            "Hkv": heads,
            **(more or {}),
            "S": slots,
            "D": WIDTHS,
            "lengths": Choice(lengths),
            "unused": unused,
            "stale": Choice((stale,)),
            "layout": Choice(layouts),
            "dtype": HALVES,
        },
        where=where,
    )


def appends(tokens: Size | Choice, *, values: tuple[str, ...] = ("normal",), **others: object) -> Space:
    """Return caches that grow by T tokens."""
    return caches(**{"more": {"T": tokens, "values": Choice(values)}, **others})


def decodes(
    *,
    groups: Choice = ONE,
    values: tuple[str, ...] = ("normal",),
    scales: tuple[Value, ...] = ("default",),
    paged: tuple[str, ...] = (),
    **others: object,
) -> Space:
    """Return caches that a query attends to; in pages, if `paged` names orders of them."""
    more: dict[str, Choice | Size] = {"group": groups, "values": Choice(values), "scale": Choice(scales)}
    if paged:
        more |= {"page": Choice((16, 64)), "table": Choice(paged)}
    return caches(more=more, **others)


def sized(slots: int, batch: int = 1, **others: Value) -> dict[str, Value]:
    """Return a named case, of equal lengths unless more is said."""
    return {"S": slots, "B": batch, **others}


def ragged(slots: int, batch: int = 1, **others: Value) -> dict[str, Value]:
    """Return a named case of ragged lengths."""
    return sized(slots, batch, lengths="ragged", **others)


def stairs(slots: int, batch: int, **others: Value) -> dict[str, Value]:
    """Return a named case whose shortest sequence is half as long as its longest: no two have one length."""
    return sized(slots, batch, lengths="stairs", unused=slots // 4, **others)


# -- append_kv -------------------------------------------------------------------------------------------------------

LAYOUTS = ("bhsd", "bshd", "hbsd", "sliced", "unaligned", "head_gaps", "row_gaps", "mixed")
# A copy keeps every bit, also of -0.0, of infinities and of numbers below the smallest normal one.
ANY_BITS = ("normal", "bits")
# One tensor is the only one that is not contiguous.
LONE_APPENDED = ("k_cache_apart", "v_cache_apart", "k_new_apart", "v_new_apart")
LONE_READ = ("q_apart", "k_apart", "v_apart")
TIMED_BATCHES = Size(1, 256)
TIMED_HEADS = Choice((1, 8))

APPEND_KV = Part(
    name="append_kv",
    title="Append to the cache",
    arguments=("k_cache", "v_cache", "k_new", "v_new", "lengths"),
    bounds={"lengths": "lengths[b] <= k_cache.shape[2] - k_new.shape[2]"},
    outputs=(),
    mutates=("k_cache", "v_cache"),
    # A copy rounds nothing.
    reduces=False,
    tolerance=Tolerance(factor=0.0, result_ulps=0.5, copies=True),
    checks=(
        Check(
            "one_token",
            "Right for one new token per sequence, of any lengths",
            3,
            OPTIMISES,
            Agrees(
                Cases(
                    appends(ONE, lengths=("equal", "ragged"), heads=FEW),
                    (
                        sized(1),
                        ragged(9, 3, Hkv=2),
                        ragged(33, 2, Hkv=3, D=128),
                        ragged(70, 3, Hkv=2, dtype="bfloat16"),
                    ),
                    generated=2,
                )
            ),
        ),
        Check(
            "many_tokens",
            "Right for many new tokens, up to a full cache",
            3,
            OPTIMISES,
            Agrees(
                Cases(
                    appends(Size(1, 80), lengths=("equal", "ragged"), heads=FEW, where=has_room),
                    (
                        sized(64, T=64),
                        ragged(100, 3, T=37, Hkv=2),
                        ragged(150, 2, T=65, Hkv=3, D=128, dtype="bfloat16"),
                        ragged(40, 3, T=7, Hkv=3),
                        # Tiles of 8 divide it, those of 16 do not; those of 16, and not of 32.
                        ragged(60, 2, T=24, Hkv=2),
                        ragged(70, 2, T=48),
                    ),
                    generated=2,
                    far=(
                        # More rows than 256 programs of 16 rows copy.
                        sized(1420, T=1400, Hkv=3),
                        # Slots that 16 bits do not count, with a sign or without.
                        sized(66_000, T=3),
                    ),
                ),
                every_configuration=True,
            ),
        ),
        Check(
            "strides",
            "Right for any memory layout with contiguous rows",
            2,
            OPTIMISES,
            Agrees(
                Cases(
                    appends(
                        Size(1, 40),
                        lengths=("ragged",),
                        heads=FEW,
                        layouts=(*LAYOUTS, *LONE_APPENDED, FAR_APART),
                        where=has_room,
                    ),
                    (
                        sized(12, 3, T=4, Hkv=2, layout=FAR_APART),
                        # Some fill the cache, some do not.
                        *(sized(6, 2, T=tokens, Hkv=2, layout=one) for one in LONE_APPENDED for tokens in (2, 6)),
                        sized(20, 2, T=3, Hkv=2, layout="bshd"),
                        sized(22, 3, T=4, Hkv=2, layout="hbsd"),
                        sized(30, 3, T=5, Hkv=2, layout="sliced"),
                        sized(25, 2, T=4, Hkv=3, D=128, layout="mixed"),
                        sized(28, 2, T=6, Hkv=2, layout="unaligned"),
                        *(sized(26, 2, T=6, Hkv=2, layout=one) for one in ("head_gaps", "row_gaps")),
                    ),
                    generated=1,
                )
            ),
        ),
        Check(
            "combinations",
            "Right where caches and new tokens of all sizes, lengths, layouts, dtypes and bits meet",
            1,
            OPTIMISES,
            Agrees(
                Cases(
                    appends(
                        Size(1, 600),
                        values=ANY_BITS,
                        slots=Size(1, 700),
                        lengths=("equal", "ragged"),
                        heads=FEW,
                        layouts=LAYOUTS,
                        where=few_rows,
                    ),
                    (sized(20, 2, T=3, Hkv=2, values="bits"),),
                    generated=0,
                    covering=14,
                    star=Star(
                        6,
                        appends(
                            Choice((1, 3, 700)),
                            values=ANY_BITS,
                            slots=Size(3, 5000),
                            batches=Size(1, 160),
                            heads=Size(1, 160),
                            lengths=("equal", "ragged"),
                            layouts=(*LAYOUTS, *LONE_APPENDED),
                            where=one_far_end,
                        ),
                    ),
                    regions=tuple(
                        Region(
                            3,
                            appends(
                                tokens,
                                values=ANY_BITS,
                                slots=slots,
                                batches=Choice((2, 9)),
                                heads=SEVERAL,
                                lengths=("equal", "ragged"),
                                layouts=("mixed",),
                                where=many_rows,
                            ),
                        )
                        for tokens, slots in ((Size(64, 128, multiple_of=64), FULL), (Size(513, 700), Size(513, 900)))
                    ),
                    turns=("dtype", "layout"),
                )
            ),
        ),
        Check(
            "fresh",
            "Writes the new tokens at every call, and nothing else",
            1,
            OPTIMISES,
            Fresh(
                Cases(
                    appends(
                        Size(1, 9), slots=Size(1, 60), lengths=("ragged",), heads=FEW, layouts=LAYOUTS, stale="numbers"
                    ),
                    (sized(30, 3, T=5, Hkv=2),),
                    generated=0,
                    covering=3,
                )
            ),
        ),
        Check(
            "kernels",
            "Triton kernels do the work",
            2,
            OPTIMISES,
            UsesKernels(
                Cases(appends(Size(1, 9), lengths=("ragged",), heads=FEW), (sized(30, 3, T=4, Hkv=2),), generated=0)
            ),
        ),
        Check(
            "traffic",
            "Reads and writes only the bytes of the new tokens",
            3,
            BANDWIDTH,
            WorkModel(
                Cases(
                    appends(Size(1, 80), slots=Size(1, 300), lengths=("ragged",), heads=FEW, layouts=("bhsd", "bshd")),
                    (
                        sized(300, 2, T=1, Hkv=3, layout="bshd"),
                        sized(120, 2, T=50, Hkv=2, D=128, layout="bshd"),
                        sized(300, 2, T=75),
                    ),
                    generated=0,
                ),
                # Both new tensors are read and written; the rest has room for the lengths.
                moved=Allowance("4 * itemsize * B * Hkv * T * D", full=1.1, none=2.0),
                # A program that writes old values back overwrites the new ones of another program. 16 bytes for each
                # token are room for tables of slots or pages, as servers make them; where T is 1, no old row fits.
                stored=Allowance("2 * itemsize * B * Hkv * T * D + 16 * B * T", full=1.0, none=1.05),
                # Such tables, and a copy of the new tokens; none of the caches, which `contiguous()` makes of these.
                extra=Allowance("2 * itemsize * B * Hkv * T * D + 32 * B * T", full=1.0, none=1.5),
                copies=True,
            ),
        ),
        Check(
            "speed",
            "Speed relative to slice assignment in a loop",
            5,
            PROFILES,
            SpeedBand(
                "torch_eager",
                0.8,
                # A copy at full bandwidth is 2.5 to 3.4 times as fast as the loop; the loop's speed is the host's.
                2.0,
                Cases(
                    appends(Size(1, 4096), batches=TIMED_BATCHES, heads=TIMED_HEADS, slots=LONG),
                    (
                        sized(512, 8, T=1, Hkv=8, D=128),
                        sized(128, 128, T=1, Hkv=8, D=128),
                        sized(4096, 64, T=256, Hkv=8, D=128),
                        sized(4096, 32, T=4096, Hkv=8, D=128, dtype="bfloat16"),
                    ),
                    generated=0,
                ),
                bytes="4 * itemsize * B * Hkv * T * D",
                shown_beside=("copy_roofline",),
                note="The loop first waits for the lengths from the GPU, then launches two copies for each sequence. "
                "With few new tokens that takes all the time; with many, the copies do.",
            ),
        ),
    ),
    hints=(
        "The length of its sequence says where a token goes. Which can load it without waiting: the CPU or the kernel?",
        "One program for some rows of one sequence: row r is token r % T of head r // T. It loads lengths[b], and "
        "stores rows of k_new and v_new at slot lengths[b] + t of head h.",
        "slot = tl.load(lengths_ptr + b) + row % T; tl.store(k_ptr + b * stride_kb + h * stride_kh + slot * stride_ks "
        "+ dims, tl.load(k_new_ptr + ...), mask=row < Hkv * T), with 64-bit offsets, and the same for v.",
    ),
)

# -- decode ----------------------------------------------------------------------------------------------------------

TAILS: Named = (
    sized(1),
    ragged(5, 3),
    sized(63, 2, unused=1),
    ragged(65, 3, D=128),
    ragged(100, 3, group=4, dtype="bfloat16"),
    sized(64, 2, unused=64),
    sized(129, 2, unused=64),
    # Tiles of 16 divide this, larger ones do not.
    sized(48, 2, D=128, dtype="bfloat16"),
    # One slot less than tiles of 16 or 32 hold, and one more.
    sized(95, 2),
    sized(97, 2),
)
HEADS: Named = (
    stairs(40, 2, Hkv=2, group=4),
    sized(50, Hkv=3),
    stairs(30, 2, Hkv=2, group=8, D=128),
    sized(70, Hkv=2, group=3, dtype="bfloat16"),
    sized(20, Hkv=2, group=5),
    sized(20, Hkv=2, group=6, dtype="bfloat16"),
    sized(20, Hkv=2, group=7),
)
LONG_CONTEXTS: Named = (
    sized(1003, group=4),
    sized(701, 2, D=128, lengths="stairs", unused=340),
    sized(907, Hkv=2, unused=885, dtype="bfloat16"),
    # One sequence has all slots, one has none, and one a single one.
    ragged(600, 3),
    # The splits' sums of exps are very small, with nothing beside them but empty splits; or they are very large.
    sized(700, group=4, values="sinking", unused=300),
    sized(600, values="peaked"),
    sized(600, 2, Hkv=2, group=4, scale=0.3, layout="bshd"),
    sized(2300, lengths="stairs"),
)
UNUSUAL: Named = (
    sized(150, group=4, values="peaked"),
    # Several properties in one case: long, several heads, another scale; and a sequence of length 0.
    sized(600, 2, Hkv=2, group=4, scale=0.3, values="rising"),
    ragged(600, 3, group=2, values="rising"),
    # float16 cannot hold a sum of values before it is divided; in the bfloat16 case it cannot hold even one value.
    sized(1000, values="shifted"),
    sized(200, values="shifted", dtype="bfloat16"),
    sized(2000, values="fading", dtype="bfloat16"),
    sized(900, group=2, values="fading"),
    # The sum over half of the slots is large; the sum over all of them is not.
    sized(1000, values="cancelling"),
    sized(400, group=4, D=128, values="rising", dtype="bfloat16"),
    sized(300, values="rising"),
    sized(120, 2, values="constant", unused=20),
    sized(150, group=4, values="offset"),
    # With D = 64 the scale is a power of two, and rounds nothing; so D is 128.
    sized(130, D=128, values="balanced"),
    # No logit is near 0, nor near a finite number that code may take for the lowest.
    sized(300, 2, group=4, values="sunken", unused=150),
)
# More sequences than a GPU has multiprocessors, and than a byte counts.
MANY = 260
# More sequences and heads than a GPU runs programs at once: a program takes several, whose logits differ. Launch code
# may have a path of its own for so many; so heads share keys, a sequence is empty, and the strides and the scale are
# others.
MANY_SEQUENCES: Named = (
    sized(4, 600, Hkv=2, group=4, lengths="stairs", unused=2, scale=0.3, layout="mixed", values="stretch"),
)
SCALED: Named = (
    sized(40, scale=1.0),
    sized(70, D=128, scale=-0.5, group=4),
    sized(50, scale=0.0),
    sized(60, D=64, scale=-0.5, group=3, dtype="bfloat16"),
    sized(90, group=2, scale=LEAST_SCALE, values="sunken"),
)
ORDERS = ("ordered", "permuted", "shared")


def in_pages(cases: Named) -> Named:
    """Return the same cases in permuted pages of either size; in large ones those of very many sequences.

    So many blocks of small pages are in other cases.
    """
    sizes = (64 if int(one["B"]) >= MANY else (16, 64)[i % 2] for i, one in enumerate(cases))
    return tuple({**one, "table": "permuted", "page": page} for one, page in zip(cases, sizes, strict=True))


def decode_checks(
    points: Mapping[str, float], paged: tuple[str, ...], layouts: tuple[str, ...], *own: Check
) -> tuple[Check, ...]:
    """Return the correctness checks that both ways to decode share, with the part's `own` ones; `points` by name."""

    def agrees(
        name: str,
        title: str,
        named: Named,
        generated: int,
        covering: int = 0,
        star: Star | None = None,
        turns: tuple[str, ...] = (),
        regions: tuple[Region, ...] = (),
        **space: object,
    ) -> Check:
        space = {"where": little_work, "paged": paged, **space}
        named = in_pages(named) if paged else named
        cases = Cases(decodes(**space), named, generated, covering=covering, star=star, turns=turns, regions=regions)
        rule = Agrees(cases, every_configuration=name in ("ragged", "heads"))
        return Check(name, title, points[name], OPTIMISES, rule)

    small: Named = (stairs(70, 2, Hkv=2, group=2),)
    # So many heads that code may keep the memory of their results; and so many slots that code splits them: some splits
    # are empty in one call, others in the next.
    kept: Named = (ragged(5, 3, Hkv=3, group=8), ragged(260, 3, group=2))
    small, kept = (in_pages(one) if paged else one for one in (small, kept))
    few_heads = {"heads": FEW, "groups": GROUPS, "lengths": ("stairs",), "unused": Size(0, 50), "paged": paged}
    far = decodes(
        values=TELLING_FAMILIES,
        groups=GROUPS,
        heads=Size(1, 160),
        batches=Size(1, 160),
        lengths=("ragged",),
        scales=TELLING_SCALES,
        layouts=(*layouts, *LONE_READ),
        slots=Size(3, 5000),
        where=one_far_end,
        paged=paged,
    )
    full: Named = (sized(128, 1), sized(128, 2, D=128), sized(256, 1, dtype="bfloat16"))
    return (
        agrees("full", "Right for sequences that fill the cache and every tile", full, 0, slots=FULL, where=has_room),
        agrees(
            "ragged",
            "Right for sequences of any length, 0 and 1 included, and any values in the slots past it",
            TAILS,
            2,
            lengths=("equal", "ragged"),
            groups=GROUPS,
            unused=Size(0, 200),
        ),
        agrees(
            "heads",
            "Right for several kv heads, each read by 1 to 8 query heads",
            HEADS,
            1,
            lengths=("equal", "stairs", "ragged"),
            unused=Size(0, 20),
            heads=FEW,
            groups=GROUPS,
            slots=Size(1, 80),
        ),
        *own,
        agrees(
            "values",
            "Stable for logits of ±10⁴, rising and equal logits, and sums of large and of many small terms",
            (*UNUSUAL, *MANY_SEQUENCES),
            0,
            batches=Choice((*FEW.values, 600)),
            values=("normal", "sunken", *FAMILIES[1:]),
            groups=GROUPS,
            heads=FEW,
            lengths=("equal", "ragged", "stairs"),
            scales=SCALES,
            layouts=("bhsd", "mixed"),
            slots=Size(1, 2000),
            unused=Size(0, 150),
            where=has_room,
        ),
        agrees(
            "scale",
            "Right for any scale, 0 and negative ones included",
            SCALED,
            1,
            values=("normal", "sunken"),
            scales=(*SCALES, LEAST_SCALE),
            groups=GROUPS,
        ),
        agrees(
            "strides",
            "Right for any memory layout with contiguous rows",
            (
                *(
                    stairs(40, 2, Hkv=2, group=2, D=(64, 128)[i % 2], layout=one)
                    for i, one in enumerate((*layouts[1:], *LONE_READ))
                ),
                # Of several tiles: a loop may step over v by the strides of k.
                sized(300, 1, Hkv=2, group=2, layout="v_apart"),
                sized(40, 3, Hkv=2, group=2, layout=FAR_APART),
            ),
            1,
            lengths=("equal", "stairs", "ragged"),
            unused=Size(0, 20),
            heads=FEW,
            groups=GROUPS,
            layouts=(*layouts, *LONE_READ, FAR_APART),
            slots=Size(1, 300),
        ),
        agrees(
            "combinations",
            "Right where batches, heads, lengths, scales, layouts, dtypes and unusual values meet",
            (),
            0,
            covering=20,
            star=Star(4, far),
            regions=tuple(
                Region(
                    count,
                    decodes(
                        values=REGULAR,
                        groups=Choice(GROUPS.values[1:]),
                        heads=SEVERAL,
                        batches=Choice((2, 9)),
                        lengths=lengths,
                        scales=TELLING_SCALES[1:],
                        layouts=("mixed",),
                        slots=slots,
                        where=several_tiles,
                        # In pages in order, a tile that crosses into the next page is right.
                        paged=paged[1:],
                    ),
                )
                for count, slots, lengths in ((4, FULL, ("equal",)), (4, SPLIT, ("equal", "stairs", "ragged")))
            ),
            turns=("dtype", "scale", "layout"),
            values=FAMILIES,
            groups=GROUPS,
            heads=FEW,
            lengths=("equal", "stairs", "ragged"),
            scales=TELLING_SCALES,
            layouts=layouts,
            slots=Size(1, 1200),
            unused=Size(0, 600),
            where=some_work,
        ),
        Check(
            "fresh",
            "Computes its result at every call, in new memory",
            points["fresh"],
            OPTIMISES,
            Fresh(
                Cases(
                    decodes(
                        **{**few_heads, "slots": Size(1, 300), "layouts": layouts, "lengths": ("stairs", "ragged")},
                        where=some_work,
                        stale="numbers",
                    ),
                    kept,
                    generated=0,
                    covering=3,
                )
            ),
        ),
        Check(
            "kernels",
            "Triton kernels do the work",
            points["kernels"],
            OPTIMISES,
            UsesKernels(Cases(decodes(**few_heads), small, generated=0)),
        ),
    )


# Each element of k and v once, q and o once.
KV_BYTES = "2 * itemsize * B * Hkv * (S - unused) * D"
Q_BYTES = "B * Hkv * group * D"
WORK_BYTES = f"{KV_BYTES} + 2 * itemsize * {Q_BYTES}"
# What splits of 64 slots that lie past every length store and load again: a float32 result and its log-sum-exp.
EMPTY_SPLIT_BYTES = "8 * B * Hkv * group * (D + 1) * (unused // 64)"


def work(points: float, paged: tuple[str, ...] = ()) -> Check:
    """Return the check that nothing of the cache is read twice, and nothing past a length."""
    space = decodes(
        groups=GROUPS,
        heads=Choice((1, 2, 4)),
        slots=LONG,
        lengths=("equal", "stairs"),
        unused=Size(0, 1 << 17),
        layouts=("bhsd", "bshd"),
        paged=paged,
        batches=Size(1, 9),
    )
    # For 64 slots and four query heads, a split's float32 result has an eighth of the bytes it reads, q a thirtieth.
    # Mean lengths are so long that 16 splits of any sequence cost no more.
    sizes = (
        # Four query heads with keys and values of their own, where `contiguous()` copies the caches; four that share
        # them, for a quarter of the bytes.
        sized(256, Hkv=4, layout="bshd"),
        sized(1024, 2, group=4, lengths="stairs", unused=128),
        sized(2560, group=4, unused=1792),
        # More and wider heads than one program usually takes.
        sized(640, group=5, D=128),
    )
    sizes = in_pages(sizes) if paged else sizes
    title = "Reads each cached element once per kv head, and nothing past the length"
    # A split for every 16 slots, whose results pass through memory, moves as much as a second walk over the keys: it
    # costs half of the points or more. A program that loads the keys again earns none.
    moved = Allowance(f"{WORK_BYTES} + {EMPTY_SPLIT_BYTES}", full=1.25, none=2.0)
    again = Allowance(f"{KV_BYTES} / 20", full=1.0, none=2.0)
    model = WorkModel(Cases(space, sizes, generated=0), moved=moved, again=again, copies=True)
    return Check("traffic", title, points, BANDWIDTH, model)


# Batch and context of the points; 32 query heads, 8 kv heads, D = 128. Those of one sequence share a dtype: they make a
# curve. On a fast GPU only the last two take long enough to be judged: many sequences, and a single one.
POINTS = ((1, 1 << 13), (8, 1 << 13), (64, 1 << 12), (1, 1 << 17), (128, 1 << 13), (1, 1 << 20))
# More contexts of one sequence for the curve, too short to be judged.
CONTEXTS = ((1, 1 << 11), (1, 1 << 15))
BESIDE = ("torch_eager", "flashinfer")


def speed(paged: tuple[str, ...] = ()) -> Check:
    """Return the check on the share of the bandwidth: large batches, and a small batch with a long context."""
    space = decodes(groups=Choice((4,)), heads=TIMED_HEADS, batches=TIMED_BATCHES, slots=LONG, paged=paged)
    sizes: list[dict[str, Value]] = []
    for batch, context in POINTS if paged else sorted((*POINTS, *CONTEXTS)):
        dtype = "bfloat16" if batch == 1 else "float16"
        one = sized(context, batch, Hkv=8, group=4, D=128, dtype=dtype)
        sizes.append({**one, "table": "permuted", "page": 16 if batch < 128 else 64} if paged else one)
    curves = Curves("S", "time", ("B",), versus="naive", versus_title="decoding without a cache")
    return Check(
        "speed",
        "Share of the measured copy bandwidth",
        10,
        PROFILES,
        SpeedBand(
            "copy_roofline",
            0.15,
            0.75,
            Cases(space, tuple(sizes), generated=0),
            bytes=KV_BYTES + f" + 2 * itemsize * {Q_BYTES}",
            flops="4 * B * Hkv * group * S * D",
            shown_beside=BESIDE if paged else (*BESIDE, "naive"),
            curves=None if paged else curves,
            note="A token costs one walk over all earlier tokens: many bytes, little arithmetic. A single sequence "
            "keeps a GPU busy only if its context is split over all multiprocessors. Grouped heads divide the bytes by "
            "the size of the group. Without a cache, every token computes the attention of all earlier tokens again.",
        ),
    )


GENERATION = Check(
    "generation",
    "Right at every step of a generation: append, then decode, again and again",
    3,
    OPTIMISES,
    Stateful(
        Cases(
            Space(
                {
                    "B": FEW,
                    "Hkv": FEW,
                    "group": GROUPS,
                    "D": WIDTHS,
                    "prefill": Size(1, 40),
                    "past": Choice((0, 3, 17)),
                    "steps": Size(1, 12),
                    "dtype": HALVES,
                }
            ),
            (
                {"B": 2, "Hkv": 2, "group": 2, "prefill": 5, "past": 3, "steps": 8},
                {"B": 1, "Hkv": 1, "group": 4, "D": 128, "prefill": 40, "steps": 3, "dtype": "bfloat16"},
            ),
            generated=0,
        ),
        steps="steps",
        before=(APPEND_KV,),
        carries=("k_cache", "v_cache"),
    ),
)

# A row of o is one sum over the slots; its elements share the error.
DECODE_TOLERANCE = Tolerance(factor=2.0, result_ulps=1.0)

DECODE_ATTENTION = Part(
    name="decode_attention",
    title="Decode attention",
    arguments=("q", "k_cache", "v_cache", "lengths", "scale"),
    bounds={"lengths": "lengths[b] <= k_cache.shape[2]"},
    defaults={"scale": None},
    outputs=("o",),
    tolerance=DECODE_TOLERANCE,
    checks=(
        *decode_checks(
            {
                "full": 3,
                "ragged": 4,
                "heads": 4,
                "values": 3,
                "scale": 2,
                "strides": 2,
                "combinations": 1,
                "fresh": 1,
                "kernels": 1,
            },
            (),
            (*LAYOUTS, "expanded"),
            Check(
                "long",
                "Right for a long context of few sequences, also where most of it is empty",
                2,
                OPTIMISES,
                Agrees(
                    Cases(
                        decodes(
                            slots=Size(1, 2400),
                            groups=GROUPS,
                            heads=FEW,
                            lengths=("equal", "stairs", "ragged"),
                            unused=Size(0, 2000),
                            values=("normal", "sinking", "peaked"),
                            scales=SCALES,
                            layouts=LAYOUTS,
                        ),
                        LONG_CONTEXTS,
                        generated=0,
                        # More splits than 32 of 512 slots, or 64 of 256; the last one partly filled.
                        far=(sized(16_500, group=4),),
                        # More splits than are joined at once.
                        large=(sized(9000, group=4, values="sinking"), ragged(20000, 3, dtype="bfloat16")),
                    )
                ),
            ),
            GENERATION,
        ),
        work(6),
        speed(),
    ),
    hints=(
        "A new token's query reads every cached key and value once. How many query heads can use a key while it is in "
        "registers? How many programs work if there is one sequence with a long context?",
        "One program per sequence, kv head and split of the slots: its group of query heads are the rows of one tile. "
        "It walks over its slots with an online softmax, masked by lengths[b], and stores o and a log-sum-exp; another "
        "kernel joins the splits with weights exp(lse - max). The number of splits comes from B, Hkv and Smax.",
        "s = tl.where(inside, tl.dot(q, tl.trans(k)) * scale, -inf) with q: [16, D], rows >= group masked; then m, l "
        "and acc as in FlashAttention. An empty split stores lse = -inf, and no 0 / 0. v needs other=0.0: 0 · NaN is "
        "NaN. "
        "Merge: w = exp(lse - max(lse)), o = sum(w · o_split) / sum(w), and 0 where all lse are -inf.",
    ),
)

PAGED_DECODE_ATTENTION = Part(
    name="paged_decode_attention",
    title="Decode attention from pages",
    arguments=("q", "k_pages", "v_pages", "block_table", "lengths", "scale"),
    bounds={
        "block_table": "block_table[b, i] < k_pages.shape[0]",
        "lengths": "lengths[b] <= block_table.shape[1] * k_pages.shape[1]",
    },
    defaults={"scale": None},
    outputs=("o",),
    tolerance=DECODE_TOLERANCE,
    checks=(
        *decode_checks(
            {
                "full": 2,
                "ragged": 3,
                "heads": 3,
                "values": 2,
                "scale": 2,
                "strides": 2,
                "combinations": 1,
                "fresh": 1,
                "kernels": 2,
            },
            ORDERS,
            LAYOUTS,
            Check(
                "tables",
                "Right for pages in any order, for shared pages and for unused ones",
                4,
                OPTIMISES,
                Agrees(
                    Cases(
                        decodes(
                            slots=Size(1, 1000),
                            batches=Choice((*FEW.values, MANY)),
                            lengths=("equal", "ragged"),
                            groups=GROUPS,
                            unused=Size(0, 200),
                            paged=(*ORDERS, "scattered"),
                            where=in_a_pool,
                        ),
                        (
                            ragged(100, 3, table="shared"),
                            sized(150, 2, table="shared", unused=13, page=64, D=128),
                            sized(700, table="permuted", page=64, unused=7, group=4),
                            ragged(90, 2, table="permuted", page=64, dtype="bfloat16"),
                        ),
                        generated=2,
                        far=(
                            # More pages of one sequence than any tile of the table, and more splits than 32 of 512.
                            sized(16_500, group=4, table="permuted", page=16),
                            # Pages that 16 bits do not count.
                            sized(60, group=4, table="scattered", page=16),
                            # Enough sequences for a GPU, so that nobody splits them; each has many pages.
                            sized(300, MANY, table="permuted", page=16),
                        ),
                    ),
                    # With several large pages, a tile may lie in one, or reach into the next.
                    every_configuration=True,
                ),
            ),
        ),
        work(6, ORDERS),
        speed(ORDERS),
    ),
    hints=(
        "Slot j of a sequence lies in page block_table[b, j // page]. What else changes, compared with one long cache?",
        "The walk stays the same; only addresses differ. Load the page numbers of a tile of slots first, with the same "
        "mask as the slots (entries past the length are -1), then k and v at page · stride + (slot % page) · stride.",
        "page = tl.load(table_ptr + b * stride_tb + slots // PAGE * stride_tn, mask=inside, other=0).to(tl.int64); "
        "k = tl.load(k_ptr + page[:, None] * stride_kp + (slots % PAGE)[:, None] * stride_ks + h * stride_kh + dims, "
        "mask=inside[:, None], other=0.0).",
    ),
)

# Causes of failure that only this exercise knows, and what an axis points to.
KINDS = (
    Kind(
        "length_of_first",
        "one sequence's length that is used for all sequences",
        "Which sequence is a program's own, and whose length does it load?",
    ),
    Kind(
        "length_off_by_one",
        "a length that is off by one",
        "Which is the last slot of a sequence of length 1?",
    ),
    Kind(
        "first_tokens_only",
        "a copy of the first new tokens only",
        "How many rows must you copy for T tokens of every head? T may be any number.",
    ),
    Kind("empty_sequence", "a sequence without slots", "Without slots, the sum of weights is 0: what divides by it?"),
    Kind(
        "empty_split",
        "a split that has no slots of its own",
        "Which maximum, sum and weight does a split get that lies wholly past the length?",
    ),
    Kind(
        "splits_not_weighted",
        "splits that are joined without their weights",
        "Which share of the sum of exponentials does each split have?",
    ),
    Kind("table_ignored", "a block table that is not followed", "Where does page j of sequence b lie? Ask the table."),
    Kind(
        "tile_over_pages",
        "one page number for a tile of slots that is longer than a page",
        "A tile that is longer than a page has slots of several pages: each slot needs its own page number, "
        "block_table[b, slot // page].",
    ),
    Kind("table_of_first", "one sequence's table that is used for all", "Which row of the table does a program read?"),
)
CONTRASTS = (
    Contrast("layout", "offset_overflow", "whose slices lie so far apart that 32 bits cannot count", (FAR_APART,), 0.8),
    Contrast("layout", "strides_ignored", "whose tensors are not contiguous"),
    Contrast("scale", "scale_ignored", "with a given scale", every=True),
    Contrast("scale", "scaled_maximum", "with a negative scale", (-0.5,)),
    Contrast("scale", "scaled_maximum", "with a scale of 0 or less", (0.0, -0.5)),
    Contrast("scale", "scaled_after_mask", "with a scale of 0 or less", (0.0, -0.5)),
    Contrast("Hkv", "heads_mapping", "with several kv heads"),
    Contrast("page", "size_assumed", "with pages of 64 slots", (64,), only=False),
    Contrast("page", "size_assumed", "with pages of 16 slots", (16,), only=False),
    Contrast("table", "table_ignored", "whose pages do not lie in order"),
    Contrast("page", "tile_over_pages", "with pages of 16 slots", (16,), only=False),
    # What lies behind a page is the next one where the pages lie in order.
    Contrast("table", "tile_over_pages", "whose pages do not lie in order", weight=0.7),
    Contrast("B", "table_of_first", "with several sequences", part="paged_decode_attention"),
    Contrast("lengths", "length_of_first", "whose sequences have different lengths"),
    Contrast("unused", "past_length", "with slots past the length", only=False),
    Contrast("lengths", "past_length", "whose sequences have different lengths", only=False),
    Contrast("lengths", "empty_split", "whose sequences have different lengths", only=False),
    Contrast("lengths", "empty_sequence", "with any lengths, 0 among them", ("ragged",), only=False),
    Contrast("T", "first_tokens_only", "with several new tokens"),
    Contrast(
        "values", "no_maximum", "with large logits", ("peaked", "rising", "offset", "sinking", "shifted"), only=False
    ),
    Contrast("values", "low_precision_sum", "with large partial sums", ("cancelling", "fading", "shifted"), only=False),
    Contrast(
        "values",
        "rounded_intermediate",
        "with logits that need more than 16 bits",
        ("offset", "cancelling", "balanced"),
        only=False,
    ),
)

EXERCISE = Exercise(
    title="KV cache",
    version="1",
    parts=(APPEND_KV, DECODE_ATTENTION, PAGED_DECODE_ATTENTION),
    limits=Limits(call_s=20.0, sparse_bytes=64 << 30),
    kinds=(*ATTENTION_KINDS, *LENGTH_KINDS, *KINDS),
    contrasts=CONTRASTS,
)
