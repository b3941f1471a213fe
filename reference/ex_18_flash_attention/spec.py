"""ex_18: FlashAttention, forward and backward.

Axes: B batches, Hq heads of Sq queries, Hkv heads of Skv keys and values, D numbers in each. `causal` is 0 or 1, so
that formulas can count with it; `scale` is "default" for D**-0.5; `layout` says how the tensors lie in memory and
`values` what is in them (see inputs.py).

float32 is not in the contract: tensor cores do not multiply it, FlashAttention does not take it, and its exact products
compile for minutes at D = 128. So tolerances are those of float16 and bfloat16; lse, which is float32, has its own.
"""

from collections.abc import Callable

from grader import (
    ATTENTION_KINDS,
    CAUSAL_MASK_KINDS,
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
    Remedy,
    Size,
    Space,
    SpeedBand,
    Star,
    Tolerance,
    UsesKernels,
    Value,
    WorkModel,
)

IMPLEMENTS = "implements FlashAttention"
BANDWIDTH = "reasons about memory bandwidth"
PROFILES = "profiles kernels against cuBLAS / FlashAttention"

HALVES = Choice(("float16", "bfloat16"))
SCALES = ("default", 1.0, 0.3, 0.0, -0.5)
# With it, products of q and k are far beyond their logits: below any finite number that code may start a maximum with.
LEAST_SCALE = 0.004
# With scale 0 no other mistake shows.
TELLING_SCALES = ("default", 1.0, 0.3, -0.5)
LAYOUTS = ("bhsd", "bshd", "sliced", "unaligned", "head_gaps", "row_gaps", "expanded", "mixed")
FAMILIES = ("normal", "peaked", "rising", "constant", "shifted", "swamped", "stretch", "outlier")
# If one key has all the weight, mistakes at the others do not show; in gradients not even those at that key do.
TELLING_FAMILIES = tuple(one for one in FAMILIES if one != "peaked")

# Every key has some weight.
REGULAR = ("normal", "shifted")

RAGGED = Size(1, 160)
# Usual tiles divide these.
FULL = Size(128, 256, multiple_of=128)
LONG = Size(1, 1 << 14)
# Several tiles; many of these lengths fill none of them.
UNEVEN = Size(129, 176)
ONE_HEAD = Choice((1,))

Named = tuple[dict[str, Value], ...]


def heads_fit(case: Case) -> bool:
    """Return whether every kv head serves the same number of query heads."""
    return int(case["Hq"]) % int(case["Hkv"]) == 0


def little_work(case: Case) -> bool:
    """Return whether a generated case is small enough for the interpreter."""
    pairs = case.product("B", "Hq", "Sq", "Skv")
    return heads_fit(case) and pairs <= 1 << 15


def least_work(case: Case) -> bool:
    """Return whether a case is small enough for many calls."""
    return little_work(case) and case.product("Hq", "Sq", "Skv") <= 10000


def one_far_end(case: Case) -> bool:
    """Return whether the case is small enough; one length or number of heads far beyond any tile still fits.

    With more heads than a GPU has multiprocessors, a persistent program takes a second piece of work.
    """
    heads, width = case.product("B", "Hq"), int(case["D"])
    rows = heads * (int(case["Sq"]) + int(case["Skv"]))
    # A tile's products cost most, even if few of its rows are used.
    return little_work(case) and heads * width <= 160 * 64 and heads <= 160 and rows * width <= 500_000


def some_work(case: Case) -> bool:
    """Return whether a case is small enough; a few heads of a few tiles still fit."""
    pairs = case.product("B", "Hq", "Sq", "Skv")
    return heads_fit(case) and pairs <= 1 << 17


def problems(
    *,
    lengths: Size = RAGGED,
    heads: Choice | Size = ONE_HEAD,
    batches: Choice | Size = ONE_HEAD,
    kv_heads: Choice | Size | None = None,
    causal: tuple[int, ...] = (0,),
    scales: tuple[Value, ...] = ("default",),
    values: tuple[str, ...] = ("normal",),
    layouts: tuple[str, ...] = ("bhsd",),
    where: Callable[[Case], bool] = heads_fit,
) -> Space:
    """Return attention problems: one head of normal values, contiguous, unless more is said.

    There are as many kv heads as `heads` unless `kv_heads` are given.
    """
    return Space(
        {
            "B": batches,
            "Hq": heads,
            "Hkv": kv_heads or heads,
            "Sq": lengths,
            "Skv": lengths,
            "D": Choice((16, 32, 64, 128)),
            "causal": Choice(causal),
            "scale": Choice(scales),
            "dtype": HALVES,
            "values": Choice(values),
            "layout": Choice(layouts),
        },
        where=where,
    )


def sized(queries: int, keys: int, width: int, dtype: str = "float16", **others: Value) -> dict[str, Value]:
    """Return a named case."""
    return {"Sq": queries, "Skv": keys, "D": width, "dtype": dtype, **others}


TAILS: Named = (
    sized(65, 64, 16),
    sized(64, 65, 32),
    # Tiles of 32 divide this, larger ones do not.
    sized(32, 96, 64),
    sized(1, 1, 16),
    sized(1, 130, 64),
    sized(100, 1, 32),
    sized(31, 77, 128),
    sized(63, 97, 64, "bfloat16"),
)
# Far more keys than queries, or queries than keys, and a last tile that no tiling fills. One key more than splits of
# whole tiles hold, whatever their number.
LONG_TAILS: Named = (sized(3, 3073, 16), sized(3001, 3, 16))
# More tiles than a GPU runs programs at once, of few rows each: a program takes several, whose logits differ. Launch
# code may have a path of its own for so many; so heads share keys, and strides and the scale are others.
MANY_TILES: Named = (sized(4, 3, 16, B=300, Hq=4, Hkv=2, scale=1.0, layout="mixed", values="stretch"),)
# The same, where each tile of a head ends at another key, and where no usual number of programs is a multiple of the
# tiles of a head.
MANY_ENDS: Named = (sized(520, 8, 16, B=300, causal=1),)
HEADS: Named = (
    sized(20, 24, 16, B=2),
    sized(20, 24, 16, Hq=2, Hkv=2),
    sized(17, 30, 32, Hq=4, Hkv=2),
    sized(33, 21, 16, B=2, Hq=3, Hkv=1),
    sized(18, 40, 64, "bfloat16", Hq=6, Hkv=2),
    # Groups that are no power of two, as many models have them.
    sized(17, 20, 16, Hq=10, Hkv=2),
    sized(9, 20, 16, "bfloat16", Hq=6),
    sized(11, 20, 16, Hq=14, Hkv=2),
)
CAUSAL: Named = (
    sized(128, 128, 32, causal=1),
    # Where loops over tiles begin and end: the last query of a tile sees one key beyond it, the first one misses one.
    sized(128, 129, 16, causal=1),
    sized(130, 128, 16, causal=1),
    # Several tiles on the diagonal and off it, for most tilings.
    sized(140, 160, 16, causal=1),
    sized(60, 131, 32, causal=1),
    # The first 71 rows see nothing.
    sized(131, 60, 16, causal=1),
    sized(1, 90, 16, causal=1),
    sized(50, 1, 64, causal=1),
    sized(40, 44, 16, causal=1, Hq=4, Hkv=2),
    # Three heads that share keys: where they share a tile too, they do not fill it.
    sized(50, 60, 16, causal=1, Hq=3),
    # The last query of a tile that they share sees the first key of another tile of keys.
    sized(43, 65, 16, causal=1, Hq=3),
    sized(26, 65, 16, causal=1, Hq=5),
    # Several tiles of queries where heads are widest.
    sized(180, 176, 128, "bfloat16", causal=1),
    # Long, with several heads, another scale and another layout, all in one case.
    sized(24, 300, 16, "bfloat16", causal=1, Hq=4, Hkv=2, scale=0.3),
    sized(150, 40, 16, causal=1, Hq=4, Hkv=2, layout="bshd"),
)
UNUSUAL: Named = (
    sized(40, 150, 64, values="peaked"),
    sized(70, 70, 32, values="peaked", causal=1),
    sized(30, 200, 16, values="rising"),
    sized(40, 150, 64, "bfloat16", values="shifted"),
    sized(40, 100, 32, values="constant"),
    sized(40, 100, 32, values="shifted"),
    # Each weight but one is tiny, and together they are not.
    sized(8, 2048, 16, values="outlier"),
    # No logit is near 0, nor near a finite number that code may take for the lowest.
    sized(40, 100, 64, values="sunken"),
    # From the last key backwards, a query's first tiles are hidden.
    sized(150, 170, 64, values="sunken", causal=1),
)
# Query heads of one kv head.
MOST_SHARING = 14
# Sums so long that those of 16 bits err by several units in the last place: over keys for o and dq, and over queries
# for dk and dv. Where heads are widest, registers are scarcest.
LONG_O: Named = (sized(16, 2048, 128, values="swamped"),)
LONG_GRADIENTS: Named = (
    sized(16, 1024, 128, values="swamped"),
    sized(1024, 16, 16, values="swamped"),
    # Over many query heads that share keys, whose parts 16 bits lose one by one.
    sized(64, 16, 16, values="swamped", Hq=MOST_SHARING),
)
SCALED: Named = (
    sized(30, 70, 16, scale=1.0),
    sized(70, 70, 64, scale=-0.5, causal=1),
    sized(40, 30, 32, scale=0.0, causal=1),
    sized(20, 70, 32, scale=0.3),
    # Each width has kernels of its own, and where widths and scales meet elsewhere, equal keys may hide the scale.
    sized(20, 36, 128, "bfloat16", scale=-0.5),
    sized(20, 36, 32, "bfloat16", scale=1.0, causal=1),
    sized(40, 100, 64, scale=LEAST_SCALE, values="sunken"),
)
STRIDED: Named = (
    sized(33, 40, 16, B=2, Hq=2, Hkv=2, layout="bshd"),
    sized(40, 33, 32, Hq=2, Hkv=1, layout="sliced"),
    sized(33, 24, 32, Hq=2, Hkv=1, layout="unaligned"),
    sized(40, 33, 64, B=2, Hq=2, Hkv=2, layout="head_gaps"),
    sized(33, 40, 64, Hq=2, Hkv=2, layout="row_gaps"),
    sized(30, 20, 16, B=2, Hq=2, Hkv=2, layout="expanded"),
    sized(20, 45, 64, B=2, Hq=2, Hkv=1, layout="mixed", causal=1),
)


# Only these are not contiguous, and a loop walks over each beside another tensor: a step by the other's stride shows
# from the second tile on.
WALKED = ("v_apart", "do_apart")


def apart(*tensors: str) -> tuple[str, ...]:
    """Return layouts in which one of the tensors is the only one that is not contiguous."""
    return tuple(f"{name}_apart" for name in tensors)


def correctness(
    points: tuple[float, ...], long_sums: Named, lone: tuple[str, ...], far: Named = ()
) -> tuple[Check, ...]:
    """Return the correctness checks of a part; `points` in their order.

    `long_sums` are this part's, and so are cases `far` larger than others, and the layouts with a
    `lone` tensor that is not contiguous.
    """
    few = Choice((1, 2, 3))
    many = Choice((1, 2, 3, 4, 5, 6, 10, 14))
    small = sized(36, 40, 32, Hq=2, Hkv=1)
    full = (sized(128, 128, 64), sized(256, 256, 16), sized(128, 128, 128, "bfloat16"))
    two_heads = problems(heads=Choice((1, 2)))
    return (
        Check(
            "full_tiles",
            "Right for one head whose lengths fill every tile",
            points[0],
            IMPLEMENTS,
            Agrees(Cases(problems(lengths=FULL), full, generated=0)),
        ),
        Check(
            "ragged",
            "Right for any number of queries and of keys",
            points[1],
            IMPLEMENTS,
            Agrees(Cases(problems(where=little_work), TAILS, generated=2, far=LONG_TAILS), every_configuration=True),
        ),
        Check(
            "heads",
            "Right for several batches and heads, and for queries that share keys and values",
            points[2],
            IMPLEMENTS,
            Agrees(
                Cases(problems(lengths=Size(1, 48), batches=few, heads=many, where=little_work), HEADS, generated=1)
            ),
        ),
        Check(
            "causal",
            "Right with the causal mask, also where some queries see nothing",
            points[3],
            IMPLEMENTS,
            Agrees(
                Cases(
                    problems(
                        lengths=Size(1, 320),
                        causal=(1, 0),
                        heads=many,
                        scales=SCALES,
                        layouts=LAYOUTS,
                        where=little_work,
                    ),
                    CAUSAL,
                    generated=1,
                ),
                # The mask has other edges in every tiling.
                every_configuration=True,
            ),
        ),
        Check(
            "values",
            "Stable for logits of ±10⁴ and for rising and equal ones; sums kept in float32",
            points[4],
            IMPLEMENTS,
            Agrees(
                Cases(
                    problems(
                        lengths=Size(1, 2048),
                        batches=Choice((1, 300)),
                        heads=Choice((1, 4, MOST_SHARING)),
                        kv_heads=Choice((1, 2, 4)),
                        causal=(0, 1),
                        values=("normal", "sunken", *FAMILIES[1:]),
                        scales=("default", 1.0),
                        layouts=("bhsd", "mixed"),
                        where=little_work,
                    ),
                    (*UNUSUAL, *long_sums, *MANY_TILES),
                    generated=2,
                    far=far,
                )
            ),
        ),
        Check(
            "scale",
            "Right for any scale, 0 and negative ones included",
            points[5],
            IMPLEMENTS,
            Agrees(
                Cases(
                    problems(
                        causal=(0, 1), values=("normal", "sunken"), scales=(*SCALES, LEAST_SCALE), where=little_work
                    ),
                    SCALED,
                    generated=1,
                )
            ),
        ),
        Check(
            "strides",
            "Right for any memory layout with contiguous rows",
            points[6],
            IMPLEMENTS,
            Agrees(
                Cases(
                    problems(
                        lengths=Size(1, 160),
                        batches=few,
                        heads=many,
                        causal=(0, 1),
                        layouts=(*LAYOUTS, *lone),
                        where=little_work,
                    ),
                    (
                        *STRIDED,
                        *(sized(18, 20, 16, B=2, Hq=4, Hkv=2, layout=one) for one in lone),
                        *(sized(160, 160, 16, layout=one) for one in lone if one in WALKED),
                    ),
                    generated=1,
                )
            ),
        ),
        Check(
            "combinations",
            "Right where lengths, heads, the mask, scales, layouts, dtypes and unusual values meet",
            points[7],
            IMPLEMENTS,
            Agrees(
                Cases(
                    problems(
                        lengths=Size(1, 1024),
                        batches=few,
                        heads=many,
                        causal=(0, 1),
                        scales=TELLING_SCALES,
                        values=FAMILIES,
                        layouts=LAYOUTS,
                        where=little_work,
                    ),
                    generated=0,
                    covering=14,
                    star=Star(
                        5,
                        problems(
                            lengths=Size(2, 5000),
                            batches=Size(1, 160),
                            heads=Size(1, 160),
                            kv_heads=Choice((1, 2)),
                            causal=(0, 1),
                            scales=TELLING_SCALES,
                            values=TELLING_FAMILIES,
                            layouts=(*LAYOUTS, *lone),
                            where=one_far_end,
                        ),
                    ),
                    regions=tuple(
                        Region(
                            count,
                            problems(
                                lengths=lengths,
                                batches=Choice((1, 2)),
                                heads=Choice((2, 4)),
                                kv_heads=Choice((1, 2)),
                                causal=(0, 1),
                                scales=TELLING_SCALES[1:],
                                values=REGULAR,
                                layouts=("mixed", "expanded"),
                                where=some_work,
                            ),
                        )
                        for count, lengths in ((3, FULL), (3, UNEVEN))
                    ),
                    turns=("dtype", "causal", "scale", "layout"),
                )
            ),
        ),
        Check(
            "fresh",
            "Computes its result at every call, in new memory",
            points[8],
            IMPLEMENTS,
            Fresh(
                Cases(
                    problems(
                        lengths=Size(1, 260), heads=Choice((1, 2, 4)), causal=(0, 1), layouts=LAYOUTS, where=least_work
                    ),
                    # Results so large that code may keep their memory, and more queries than keys.
                    (small, sized(260, 9, 16, Hq=4, Hkv=2)),
                    generated=0,
                    covering=3,
                )
            ),
        ),
        Check(
            "kernels",
            "Triton kernels do the work",
            points[9],
            IMPLEMENTS,
            UsesKernels(Cases(two_heads, (small,), generated=0)),
        ),
    )


# Four times q, k, v and o in float32, and 1 MiB: partial results of split keys and gradients of every head fit, but
# not a number of 2 bytes for each pair of a query and a key.
EXTRA_BYTES = "4 * 4 * 2 * B * D * (Hq * Sq + Hkv * Skv) + 1048576"
# Here one number per pair outgrows the limit: one of 2 bytes with a mask, and one of 4 with shared heads. No case of
# the other checks has both many queries and many keys, where launch code takes tiles of its own: so the lengths differ,
# and the scale is another.
OUTGROWING = (
    sized(1100, 1130, 16, "bfloat16", causal=1, scale=0.3),
    sized(515, 540, 16, Hq=2, Hkv=1),
)


# One head of each width that is timed. They have no causal mask: with it, programs run one by one in the interpreter,
# and half of each tile on the diagonal is computed in vain, which is much of 512 keys and little of 16384.
MODELS = (sized(512, 512, 128, "bfloat16"), sized(512, 512, 64, "float16"))


def pairs(title: str, points: float, stored: str) -> Check:
    """Return the check that a part stores and holds no Sq × Skv numbers. It may read its inputs any number of times.

    Numbers of 2 bytes for all pairs are 1.1 times the memory that is allowed, and 1.5 times the bytes to store.
    """
    space = problems(lengths=LONG, heads=Choice((1, 2)), causal=(0, 1), scales=("default", 0.3))
    cases = Cases(space, OUTGROWING, generated=0)
    limits = {"stored": Allowance(stored, full=1.0, none=1.5), "extra": Allowance(EXTRA_BYTES, 1.0, 1.1)}
    model = WorkModel(cases, **limits, models=MODELS)
    return Check("work", title, points, BANDWIDTH, model)


def rereads(title: str, points: float, nbytes: str, *sizes: dict[str, Value], **again: Allowance) -> Check:
    """Return the check that a part reads its inputs in tiles: all points for tiles of 16, none for smaller than 6.

    Heads are narrow: a number for every pair that goes through memory costs more than it saves. PyTorch makes no copies
    that are larger than the inputs, neither for several query heads nor in float32. again: what a program may load
    although it has it, by the limits of a WorkModel.
    """
    # A few bytes for each row: room for lse, not for q or k.
    enlarged = Allowance("8 * B * (Hq * Sq + Hkv * Skv)", full=1.0, none=2.0)
    cases = Cases(problems(lengths=LONG, heads=Choice((1, 2))), sizes, generated=0)
    model = WorkModel(cases, moved=Allowance(nbytes, full=1.15, none=3.0), enlarged=enlarged, **again)
    return Check("traffic", title, points, BANDWIDTH, model)


def suite(*sizes: dict[str, Value]) -> Cases:
    """Return the sizes at which a part is timed."""
    return Cases(problems(lengths=LONG, heads=Choice((16, 32)), batches=Choice((1, 4, 8, 16)), causal=(0, 1)), sizes, 0)


def timed(length: int, width: int, dtype: str, *, causal: int, tokens: int = 1 << 14) -> dict[str, Value]:
    """Return a size as papers time attention: 16384 tokens, heads that are 2048 wide together."""
    heads = 2048 // width
    return sized(length, length, width, dtype, B=tokens // length, Hq=heads, Hkv=heads, causal=causal)


SUITE = (
    # Too short to be judged, but shown; and small enough for the report on compiled kernels.
    timed(1024, 128, "bfloat16", causal=0, tokens=1024),
    *(
        timed(length, width, dtype, causal=causal)
        for width, dtype in ((128, "bfloat16"), (64, "float16"))
        for causal in (0, 1)
        for length in (1024, 4096, 16384)
    ),
)
BESIDE = ("torch_eager", "sdpa_cudnn", "flash_attention_4", "torch_compile", "our_fastest")
# FlashAttention needs sm_80; the memory-efficient kernels run on every GPU that torch does.
FALLBACKS = ("sdpa_efficient", "torch_eager")
OVER_LENGTH = Curves("Skv", "tflops", apart=("D", "causal"), versus="torch_eager", versus_title="standard attention")

ATTENTION_FORWARD = Part(
    name="attention_forward",
    title="Attention, forward",
    arguments=("q", "k", "v", "causal", "scale"),
    defaults={"causal": False, "scale": None},
    outputs=("o", "lse"),
    tolerance=Tolerance(factor=2.0, result_ulps=1.0),
    checks=(
        *correctness((4, 6, 5, 5, 6, 2, 2, 1, 1, 2), LONG_O, apart("q", "k", "v"), MANY_ENDS),
        pairs(
            "Stores and holds no number for every pair of query and key",
            5,
            # o and lse, and both in float32 for 16 splits of the keys.
            "itemsize * B * Hq * Sq * D + 4 * B * Hq * Sq + 4 * 16 * B * Hq * Sq * (D + 2)",
        ),
        rereads(
            "Reads keys and values no more often than tiles of 16 queries would",
            3,
            # q and o once, k and v once for every 16 queries, and lse.
            "itemsize * D * B * (2 * Hq * Sq + 2 * Hq * Skv * ceil(Sq / 16)) + 4 * B * Hq * Sq",
            # So many keys that float32 results of 16 splits cost half of what tiles of 32 queries save.
            sized(64, 2048, 16, Hq=2, Hkv=1),
            # Tiles of 16 are room for two walks over the keys in larger tiles; but one is enough. A few bytes for each
            # key and query are loaded twice where splits are joined.
            again=Allowance("8 * B * (Hq * Sq + Hkv * Skv)", full=1.0, none=2.0),
        ),
        Check(
            "speed",
            "Speed relative to SDPA's FlashAttention",
            13,
            PROFILES,
            SpeedBand(
                "sdpa_flash",
                0.25,
                1.00,
                suite(*SUITE),
                bytes="itemsize * D * B * (2 * Hq * Sq + 2 * Hkv * Skv) + 4 * B * Hq * Sq",
                flops="4 * B * Hq * Sq * Skv * D / (1 + causal)",
                shown_beside=BESIDE,
                fallbacks=FALLBACKS,
                curves=OVER_LENGTH,
                note="SDPA's FlashAttention is FlashAttention-2. Eager torch is standard attention, which stores a "
                "number for every pair. The causal mask halves the work if you skip tiles without a visible pair.",
            ),
        ),
    ),
    hints=(
        "A row of softmax needs its maximum and its sum before you can divide it. Must the whole row be there at once? "
        "How can you correct the sum so far when a larger maximum comes?",
        "One program per BLOCK_M queries keeps q, a float32 accumulator [BLOCK_M, D], and a maximum and a sum per row. "
        "It walks over the keys in tiles: a new maximum multiplies the sum and the accumulator by exp(old - new). Keys "
        "that do not exist or are hidden get a logit of -inf. Take care of rows that have seen no key yet.",
        "s = tl.dot(q, tl.trans(k)) * scale, tl.where(visible, s, -inf); m_new = tl.maximum(m, tl.max(s, 1)); "
        "p = tl.exp(s - m_new[:, None]); alpha = tl.exp(m - m_new); l = l * alpha + tl.sum(p, 1); "
        "acc = acc * alpha[:, None] + tl.dot(p.to(v.dtype), v); at the end o = acc / l[:, None], lse = m + tl.log(l). "
        "Query head h reads kv head h // (Hq // Hkv); query i sees keys j <= i + Skv - Sq.",
    ),
)

ATTENTION_BACKWARD = Part(
    name="attention_backward",
    title="Attention, backward",
    arguments=("do", "q", "k", "v", "o", "lse", "causal", "scale"),
    defaults={"causal": False, "scale": None},
    outputs=("dq", "dk", "dv"),
    tolerance=Tolerance(factor=2.0, result_ulps=1.0),
    # Contributions to dq may meet by atomic additions, whose order differs from call to call.
    deterministic=False,
    checks=(
        *correctness((4, 4, 4, 4, 4, 1, 1, 1, 1, 2), LONG_GRADIENTS, apart("q", "k", "v", "do", "o")),
        pairs(
            "Computes the weights again instead of storing or holding them",
            4,
            # The gradients, and 16 splits of dq in float32: gradients of every query head and delta fit.
            "itemsize * D * B * (Hq * Sq + 2 * Hkv * Skv) + 4 * 16 * B * Hq * Sq * (D + 2)",
        ),
        rereads(
            "Reads its inputs no more often than tiles of 16 queries and 16 keys would",
            3,
            # q, do and dq once with k and v for every 16 queries; k, v, dk and dv once with q, do, lse and delta for
            # every 16 keys; o, do, lse and delta for delta.
            "itemsize * D * B * (3 * Hq * Sq + 2 * Hq * Skv * ceil(Sq / 16) + 4 * Hkv * Skv "
            "+ 2 * Hq * Sq * ceil(Skv / 16) + 2 * Hq * Sq) + 4 * B * Hq * Sq * (2 * ceil(Skv / 16) + 4)",
            sized(192, 256, 16, Hq=2, Hkv=1),
            # A second walk over the keys may find delta. But k and v are loaded once for each query head at most, and
            # no tile twice in one step. In tiles of 128 keys, q alone is 1.5 times as much.
            in_a_row=Allowance("2 * itemsize * B * Hkv * Skv * D", full=1.0, none=1.5),
        ),
        Check(
            "speed",
            "Speed relative to the backward pass of SDPA's FlashAttention",
            12,
            PROFILES,
            SpeedBand(
                "sdpa_flash",
                0.20,
                0.80,
                suite(*SUITE),
                bytes="itemsize * D * B * (4 * Hq * Sq + 4 * Hkv * Skv) + 4 * B * Hq * Sq",
                flops="10 * B * Hq * Sq * Skv * D / (1 + causal)",
                shown_beside=BESIDE,
                fallbacks=FALLBACKS,
                curves=OVER_LENGTH,
                note="The pass needs five products; two of them compute the weights and their gradient again. Two "
                "kernels, one for dk and dv and one for dq, compute seven.",
            ),
        ),
    ),
    hints=(
        "The weights were never stored. Which output of the forward pass lets you compute any tile of them again, "
        "exactly and without a second online softmax?",
        "With p = exp(s - lse) and delta = sum over d of o ∘ do, per query: ds = p ∘ (do·vᵀ - delta). Then dv = pᵀ·do, "
        "dk = scale · dsᵀ·q, dq = scale · ds·k. A program that owns a tile of keys walks over the queries, one that "
        "owns a tile of queries walks over the keys.",
        "Three kernels: delta; dk and dv (one program per tile of keys of a kv head, loops over the query heads that "
        "share it and over tiles of queries); dq (one program per tile of queries). p.to(do.dtype) and ds.to(q.dtype) "
        "go into tl.dot, sums stay in float32. Rows with lse = -inf saw nothing: their p is 0, not exp(s + inf).",
    ),
)

# Causes of failure that only this exercise knows, and what an axis points to.
KINDS = (
    Kind(
        "causal_off_by_one",
        "a causal mask that is off by one",
        "Does a query see the key of its own position? Compare with < and <= by hand, for two queries and two keys.",
    ),
    Kind(
        "blind_rows",
        "rows that see no key at all",
        "If a row sees no key, its maximum stays -inf: which of your formulas then gives inf - inf, or 0 / 0?",
    ),
    Kind("lse_incomplete", "a log-sum-exp that lacks one of its terms", "lse = m + log(l)."),
    Kind(
        "heads_not_summed",
        "gradients of only one of the query heads that share a kv head",
        "dk and dv of a kv head come from all query heads that read it.",
    ),
)
CONTRASTS = (
    Contrast("layout", "strides_ignored", "whose tensors are not contiguous"),
    Contrast("causal", "causal_missing", "with the causal mask"),
    Contrast("scale", "scale_ignored", "with a given scale", every=True),
    Contrast("scale", "scaled_maximum", "with a negative scale", (-0.5,)),
    Contrast("scale", "scaled_maximum", "with a scale of 0 or less", (0.0, -0.5)),
    Contrast("scale", "scaled_after_mask", "with a scale of 0 or less", (0.0, -0.5)),
    Contrast("Hkv", "heads_mapping", "with several kv heads"),
    Contrast("Hq", "heads_mapping", "whose query heads share kv heads", weight=0.8, than="Hkv"),
    Contrast("Hq", "heads_not_summed", "with several query heads", part="attention_backward"),
    Contrast("values", "no_maximum", "with large logits", ("peaked", "rising", "shifted"), only=False),
    Contrast("values", "low_precision_sum", "with sums that need float32", ("swamped", "shifted"), only=False),
    Contrast("values", "small_left_out", "with many small terms beside a large one", ("outlier",)),
)
REMEDIES = (
    Remedy(
        "stores_collide",
        "attention_backward",
        "Hq",
        "Hkv",
        "dk and dv of a kv head are sums over the query heads that share it, and each program holds the part of one: "
        "let one program loop over these heads, or add with tl.atomic_add in float32.",
    ),
)

EXERCISE = Exercise(
    title="FlashAttention",
    version="1",
    parts=(ATTENTION_FORWARD, ATTENTION_BACKWARD),
    kinds=(*ATTENTION_KINDS, *CAUSAL_MASK_KINDS, *KINDS),
    contrasts=CONTRASTS,
    remedies=REMEDIES,
    # Small tiles take long in the interpreter, and large ones long to compile.
    limits=Limits(call_s=30.0),
)
