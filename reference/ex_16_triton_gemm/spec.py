"""ex_16: matrix multiplication in tiles, alone and with an epilogue.

Axes: a is [M, K], b is [K, N]. `a_layout` and `b_layout` say how each lies in memory (see inputs.py): row after row,
column after column, as a window of a larger matrix, spread with gaps in both directions, or one row repeated.
"""

from collections.abc import Callable

from grader import (
    Agrees,
    Allowance,
    Case,
    Cases,
    Check,
    Choice,
    Contrast,
    Exercise,
    Fresh,
    Kind,
    Launches,
    Limits,
    Part,
    Region,
    Size,
    Space,
    SpeedBand,
    Star,
    Tolerance,
    UsesKernels,
    Value,
    WorkModel,
)

WRITES = "writes Triton kernels"
BANDWIDTH = "reasons about memory bandwidth"
PROFILES = "profiles kernels against cuBLAS / FlashAttention"

FLOATS = Choice(("float32", "float16", "bfloat16"))
LAYOUTS = (
    *("rows", "columns", "sliced", "sliced_columns", "padded", "padded_columns", "unaligned", "spread"),
    *("repeated", "repeated_columns"),
)

RAGGED = Size(1, 200)
# Usual tiles divide these.
FULL = Size(128, 256, multiple_of=128)
TILES_DEEP = Size(64, 256, multiple_of=64)
# Several tiles; many of these lengths fill none of them.
UNEVEN = Size(129, 400)
TIMED = Size(1, 1 << 16)

PRODUCT_VALUES = (
    "normal",
    "large",
    "tiny",
    "constant",
    "shifted",
    "overflowing",
    "one_hot",
    "nonfinite",
    "stretch",
    "zeroed",
)
FUSED_VALUES = (
    "normal",
    "large",
    "constant",
    "shifted",
    "overflowing",
    "cancelling",
    "extreme",
    "nonfinite",
    "stretch",
    "zeroed",
)

Named = tuple[dict[str, Value], ...]


def little_work(case: Case) -> bool:
    """Return whether a generated product is small enough for the interpreter."""
    return case.product("M", "N", "K") <= 1 << 20


# The longest side of a product whose sides are all long.
BROAD = 1000


def several_tiles(case: Case) -> bool:
    """Return whether the product is small enough; several tiles of any size along all three sides still fit."""
    return case.product("M", "N", "K") <= 1 << 23


def a_few_tiles(case: Case) -> bool:
    """Return whether the product is small enough; two tiles of 128 × 128 along M and N still fit."""
    return case.product("M", "N", "K") <= 1 << 22


def one_long_side(case: Case) -> bool:
    """Return whether the product is small enough; a side far longer than any tile, or several tiles, still fit."""
    sides = [int(case[side]) for side in "MNK"]
    return sides[0] * sides[1] * sides[2] <= 1 << 18 or (several_tiles(case) and max(sides) <= BROAD)


def sums_stay_finite(case: Case) -> bool:
    """Return False if equal columns of `a` meet values that must cancel, or equal rows of b; else True."""
    if case["a_layout"] != "repeated_columns":
        return True
    return case["values"] not in ("large", "overflowing", "extreme") and case["b_layout"] != "repeated"


def products(
    values: tuple[str, ...] = ("normal",),
    *,
    sides: Size = RAGGED,
    depth: Size | None = None,
    layouts: tuple[str, ...] = ("rows",),
    dtypes: Choice = FLOATS,
    where: Callable[[Case], bool] | None = None,
) -> Space:
    """Return products of an M × K and a K × N matrix; K lies in `sides` unless `depth` is given."""
    return Space(
        {
            "M": sides,
            "N": sides,
            "K": depth or sides,
            "dtype": dtypes,
            "values": Choice(values),
            "a_layout": Choice(layouts),
            "b_layout": Choice(layouts),
        },
        where=lambda case: sums_stay_finite(case) and (where is None or where(case)),
    )


def sized(m: int, n: int, k: int, dtype: str = "float32", **others: Value) -> dict[str, Value]:
    """Return a named case."""
    return {"M": m, "N": n, "K": k, "dtype": dtype, **others}


FILLING: Named = (sized(128, 128, 128), sized(128, 256, 128, "float16"))
TAILS: Named = (
    # Two sides of a case that fills every tile: an autotuner whose key lacks the third takes that case's configuration.
    sized(129, 128, 128),
    sized(128, 129, 128, "float16"),
    sized(128, 128, 129),
    sized(1, 1, 1),
    sized(31, 17, 127, "float16"),
    sized(129, 127, 33),
    # Tiles of 32 divide this, larger ones do not.
    sized(32, 96, 160),
    sized(63, 191, 61, "float16"),
    sized(33, 50, 70, "bfloat16"),
    # Several steps and several tiles of any configuration: the largest of each dtype is run in all of them.
    sized(150, 140, 290, "float16"),
    sized(140, 70, 288),
)
THIN: Named = (
    sized(1, 150, 64),
    sized(150, 1, 65, "float16"),
    sized(70, 50, 1),
    sized(1, 1, 300, "float16"),
    sized(16, 150, 100, "float16"),
    sized(5, 3, 2000),
    # A multiple of 32 and of no power of two beyond, with few tiles: where K is split, the splits end unevenly.
    sized(16, 40, 1056, "float16"),
    # Few rows or columns have kernels of their own, too.
    sized(2, 70, 64, "bfloat16"),
    sized(70, 2, 64),
    sized(3, 40, 100, "float16"),
    sized(40, 4, 100),
    sized(8, 12, 100, "bfloat16"),
)
# More tiles of 128 × 128 than four for each of the 28 multiprocessors that launch code sees without a GPU, and sides
# from which on code copies operands or takes large tiles.
MANY_TILES: Named = (
    sized(1400, 1500, 70, "float16", a_layout="sliced", b_layout="columns"),
    # Rows, or columns, of more tiles than a group has: the last group is smaller.
    sized(4200, 140, 8, "float16"),
    sized(140, 4200, 8, "bfloat16"),
)
# So long that code may split K over programs: with blocks of 32 to 256 and 4 to 16 splits, one may have nothing left.
LONG_SUMS: Named = (
    sized(16, 40, 8200, "float16"),
    sized(64, 72, 1550),
    sized(72, 64, 2100, "float16"),
    sized(64, 64, 4130, "bfloat16"),
)
# Large enough for special kernels: with tensor memory accelerators, packed operands, a split K.
LARGE_FULL: Named = (sized(2048, 2048, 2048, "float16"),)
LARGE_TAILS: Named = (sized(2100, 2056, 2008, "float16"), sized(2047, 2053, 2051, "float16"))
LARGE_THIN: Named = (sized(16, 520, 8200, "float16"), sized(130, 264, 4096, "bfloat16"))
LARGE_STRIDED: Named = (sized(2056, 2048, 2064, "float16", a_layout="columns", b_layout="columns"),)
STRIDED: Named = (
    # Equal sizes, other strides: what is remembered by shape is wrong in the second.
    sized(45, 70, 50, "float16", a_layout="columns"),
    sized(45, 70, 50, "float16", b_layout="columns"),
    sized(64, 64, 64, "float16", a_layout="columns", b_layout="columns"),
    sized(33, 40, 48, a_layout="sliced", b_layout="sliced"),
    sized(40, 33, 48, "float16", a_layout="sliced_columns", b_layout="sliced_columns"),
    sized(48, 64, 32, "float16", a_layout="unaligned", b_layout="unaligned"),
    # All that tensor descriptors ask for, except that rows or columns lie next to each other.
    sized(64, 48, 80, "float16", a_layout="padded", b_layout="padded"),
    sized(64, 48, 80, a_layout="padded", b_layout="padded_columns"),
    sized(37, 41, 43, a_layout="spread", b_layout="spread"),
    sized(20, 30, 40, "float16", a_layout="repeated", b_layout="sliced"),
)


# Several tiles of zeros meet inf and NaN.
HALF_ZEROS = sized(40, 50, 200, "float16", values="zeroed")


def correctness(points: tuple[float, ...], families: tuple[str, ...], *, telling: Named = ()) -> tuple[Check, ...]:
    """Return the correctness checks of a part; `points` in their order.

    `telling`: named cases besides one of each family of values; this part's usual mistakes show there.
    """
    dtypes = ("float32", "float16")
    unusual = tuple(sized(40, 50, 60, dtypes[i % 2], values=kind) for i, kind in enumerate(families[1:]))
    small = sized(48, 40, 56)
    return (
        Check(
            "full_tiles",
            "Right for sizes that fill every tile",
            points[0],
            WRITES,
            Agrees(Cases(products(sides=FULL), FILLING, generated=0, large=LARGE_FULL)),
        ),
        Check(
            "ragged",
            "Right for sizes that do not fill the last tiles, in M, N and K",
            points[1],
            WRITES,
            Agrees(
                Cases(products(sides=Size(1, 300), where=several_tiles), TAILS, generated=3, large=LARGE_TAILS),
                every_configuration=True,
            ),
        ),
        Check(
            "thin",
            "Right for a single row or column, for K = 1 and for a long K",
            points[2],
            WRITES,
            Agrees(
                Cases(
                    products(depth=Size(1, 2000), where=little_work), THIN, generated=0, large=LARGE_THIN, far=LONG_SUMS
                )
            ),
        ),
        Check(
            "precision",
            "Adds up in float32, and multiplies float32 as float32 (not as TF32)",
            points[3],
            WRITES,
            Agrees(
                Cases(
                    products(("normal", "shifted"), sides=Size(8, 64), depth=Size(64, 5000), where=little_work),
                    (
                        sized(32, 32, 1000, "float16"),
                        sized(48, 32, 500, "float16", values="shifted"),
                        sized(32, 48, 300),
                        sized(32, 48, 300, values="shifted"),
                        sized(32, 32, 1000, "bfloat16"),
                        # Long enough for kernels that split K.
                        sized(16, 8, 4500, "float16"),
                    ),
                    generated=1,
                )
            ),
        ),
        Check(
            "values",
            "Right for large, tiny, constant and other unusual values",
            points[4],
            WRITES,
            Agrees(Cases(products(families, where=little_work), (*unusual, HALF_ZEROS, *telling), generated=3)),
        ),
        Check(
            "strides",
            "Right for transposed matrices and for windows of larger ones",
            points[5],
            WRITES,
            Agrees(
                Cases(
                    products(sides=Size(1, 80), layouts=LAYOUTS, where=little_work),
                    STRIDED,
                    generated=3,
                    large=LARGE_STRIDED,
                )
            ),
        ),
        Check(
            "combinations",
            "Right where large and small sides, layouts, dtypes and unusual values meet",
            points[6],
            WRITES,
            Agrees(
                Cases(
                    products(families, sides=Size(1, 700), depth=Size(1, 2000), layouts=LAYOUTS, where=little_work),
                    far=MANY_TILES,
                    generated=0,
                    covering=20,
                    star=Star(
                        5,
                        # The oracle adds up an unusually long K one by one: keep it shorter than the other sides.
                        products(
                            families,
                            sides=Size(1, 9500),
                            depth=Size(1, 6000),
                            layouts=LAYOUTS,
                            where=one_long_side,
                        ),
                        together=2,
                    ),
                    regions=tuple(
                        Region(
                            count,
                            products(
                                ("normal", "shifted"),
                                sides=sides,
                                depth=depth,
                                layouts=LAYOUTS[1:],
                                where=a_few_tiles,
                            ),
                        )
                        for count, sides, depth in ((5, FULL, TILES_DEEP), (4, UNEVEN, Size(33, 300)))
                    ),
                    turns=("dtype", "a_layout", "b_layout"),
                )
            ),
        ),
        Check(
            "fresh",
            "Computes its result at every call, in new memory",
            points[7],
            WRITES,
            Fresh(
                Cases(
                    products(sides=Size(1, 60), layouts=LAYOUTS),
                    (small,),
                    generated=0,
                    covering=1,
                    # Workspaces and pools are for large problems.
                    star=Star(3, products(sides=Size(1, 1200), layouts=LAYOUTS, where=one_long_side)),
                )
            ),
        ),
        Check(
            "kernels",
            "Triton kernels do the work",
            points[8],
            WRITES,
            UsesKernels(Cases(products(), (small,), generated=0)),
        ),
    )


def tiled_traffic(points: float) -> Check:
    """Return the check that a product is computed in tiles: all points for the traffic of tiles of 32 × 32.

    K is so long that 16 splits write and read at most a quarter of that in float32. Tiles half as wide and half as high
    move twice as much.
    """
    cases = Cases(
        products(sides=Size(64, 192), depth=Size(512, 4096), layouts=LAYOUTS),
        (
            sized(64, 64, 4096, "float16"),
            sized(64, 64, 2048),
            sized(64, 64, 4096, "bfloat16", a_layout="sliced", b_layout="columns"),
        ),
        generated=0,
    )
    # Each element of a is read once per tile column, each of b once per tile row, and c is written once.
    moved = Allowance("itemsize * (M * K * ceil(N / 32) + K * N * ceil(M / 32) + M * N)", full=1.25, none=2.0)
    # Room for a bias in float32, not for an operand: the kernel converts tiles in registers. Copies as large as their
    # operands are repaid by large products: the hardware that copies tiles (TMA) wants other lines than some have.
    enlarged = Allowance("itemsize * (M * K + K * N) / 4 + 4 * N", full=1.0, none=2.0)
    # Larger tiles leave room for a second walk over K; but one is enough.
    again = Allowance("itemsize * (M * K + K * N) / 20", full=1.0, none=2.0)
    model = WorkModel(cases, moved=moved, enlarged=enlarged, again=again, everywhere=True)
    return Check("traffic", "Moves no more than tiles of 32 × 32 would", points, BANDWIDTH, model)


def suite(*sizes: dict[str, Value]) -> Cases:
    """Return the sizes at which a part is timed."""
    return Cases(products(sides=TIMED), sizes, generated=0)


MATMUL = Part(
    name="matmul",
    title="Matrix multiplication",
    arguments=("a", "b"),
    outputs=("c",),
    tolerance=Tolerance(factor=2.0, result_ulps=1.0, accumulation_ulps=6.0, group=1),
    # Splits of K may meet by atomic additions, whose order differs from call to call.
    deterministic=False,
    checks=(
        *correctness((4, 7, 4, 6, 5, 5, 1, 2, 2), PRODUCT_VALUES),
        tiled_traffic(6),
        Check(
            "speed",
            "Speed relative to cuBLAS",
            15,
            PROFILES,
            SpeedBand(
                "cublas",
                0.30,
                0.90,
                suite(
                    *(sized(side, side, side, "float16") for side in (512, 1024, 2048, 4096, 8192)),
                    sized(6144, 6144, 6144, "bfloat16"),
                    sized(3072, 3072, 3072),
                    sized(16, 32768, 32768, "float16"),
                    sized(2048, 2048, 49152, "float16"),
                    sized(4095, 4097, 4093, "float16"),
                ),
                bytes="itemsize * (M * K + K * N + M * N)",
                flops="2 * M * N * K",
                shown_beside=("torch_compile", "xla", "our_fastest"),
                note="Small products take less time than a launch; power limits long ones. If rows do not start at "
                "multiples of 16 bytes, cuBLAS is slower too.",
            ),
        ),
    ),
    hints=(
        "An element of c needs a row of a and a column of b. Which other elements need that row? How often is it read?",
        "One program per tile of c: walk along K in blocks, load a BLOCK_M × BLOCK_K and a BLOCK_K × BLOCK_N tile with "
        "masks in both dimensions, and add their product to a float32 accumulator.",
        "a_ptrs = a_ptr + rows[:, None] * stride_am + ks[None, :] * stride_ak; b_ptrs in the same way; load both with "
        'other=0.0; acc = tl.dot(a, b, acc, input_precision="ieee"); at the end tl.store with '
        "mask=(rows[:, None] < M) & (columns[None, :] < N).",
    ),
)

MATMUL_BIAS_SILU = Part(
    name="matmul_bias_silu",
    title="Matrix multiplication with bias and SiLU",
    arguments=("a", "b", "bias"),
    outputs=("out",),
    # The stub says so.
    in_any_order=True,
    # The oracle's honest results hold the errors of sums: how much of them silu hands on depends on z.
    tolerance=Tolerance(factor=2.0, result_ulps=1.0, group=1),
    checks=(
        *correctness(
            (3, 4, 3, 4, 3, 3, 1, 1, 2),
            FUSED_VALUES,
            # Shows a product rounded to float16 before the bias is added: the result is that rounding error alone.
            telling=(sized(8, 60, 200, "float16", values="cancelling"),),
        ),
        Check(
            "launches",
            "One kernel launch does it all",
            3,
            BANDWIDTH,
            Launches(
                Cases(products(FUSED_VALUES, sides=Size(1, 9500), layouts=LAYOUTS), (sized(96, 80, 70),), generated=0)
            ),
        ),
        tiled_traffic(6),
        Check(
            "speed",
            "Speed relative to cuBLAS with the epilogue in eager PyTorch",
            10,
            PROFILES,
            SpeedBand(
                "torch_eager",
                0.40,
                1.00,
                suite(
                    *(sized(side, side, side, "float16") for side in (1024, 4096)),
                    sized(6144, 6144, 6144, "bfloat16"),
                    sized(8192, 8192, 1024, "float16"),
                    sized(4096, 14336, 4096, "bfloat16"),
                ),
                bytes="itemsize * (M * K + K * N + N + M * N)",
                flops="2 * M * N * K",
                shown_beside=("torch_compile",),
                note="The eager epilogue reads and writes the product two more times: fusing saves most for a short K.",
            ),
        ),
    ),
    hints=(
        "After the last block of K the whole tile is in registers: which steps can you still do there?",
        "After the loop over K, load BLOCK_N elements of the bias, once per tile; a column of c has one bias.",
        "z = acc + tl.load(bias_ptr + columns, mask=columns < N, other=0.0).to(tl.float32)[None, :]; then "
        "z / (1 + tl.exp(-z)), all in float32, and one tl.store.",
    ),
)

# Causes of failure that only this exercise knows, and what an axis points to.
KINDS = (
    Kind("bias_missing", "a bias that is not added", "Where does the kernel load the bias, and where does it use it?"),
    Kind("bias_repeated", "a bias that is added more than once", "How often does the line that adds the bias run?"),
    Kind("bias_axis", "a bias along the wrong axis", "Each column has one bias: along which axis do you broadcast it?"),
    Kind("epilogue_order", "steps of the epilogue in another order", "out = silu(a·b + bias): which step comes first?"),
    Kind("activation_wrong", "an activation other than silu", "silu(z) = z · sigmoid(z): which part is missing?"),
)
CONTRASTS = (
    Contrast("a_layout", "strides_ignored", "whose a does not lie row after row"),
    Contrast("b_layout", "strides_ignored", "whose b does not lie row after row"),
    Contrast(
        "a_layout", "start_ignored", "whose a is a window of a larger matrix", ("sliced", "sliced_columns"), only=False
    ),
    Contrast(
        "b_layout", "start_ignored", "whose b is a window of a larger matrix", ("sliced", "sliced_columns"), only=False
    ),
    Contrast("dtype", "tf32", "in float32", ("float32",)),
    Contrast("dtype", "low_precision_sum", "in 16 bits", ("float16", "bfloat16"), only=False),
    Contrast("dtype", "rounded_intermediate", "in 16 bits", ("float16", "bfloat16"), only=False),
    Contrast("values", "value_shortcut", "with unusual values", weight=0.5, only=False),
    Contrast("values", "overflow", "with large values", ("large", "overflowing", "extreme"), only=False),
    Contrast("values", "rounded_intermediate", "in which the bias cancels the product", ("cancelling",), only=False),
)

EXERCISE = Exercise(
    title="Triton GEMM",
    version="1",
    parts=(MATMUL, MATMUL_BIAS_SILU),
    limits=Limits(call_s=20.0),
    kinds=KINDS,
    contrasts=CONTRASTS,
)
