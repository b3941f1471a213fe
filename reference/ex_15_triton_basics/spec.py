"""ex_15: four memory-bound kernels, from a vector addition to a reduction.

Axes: N elements in a vector; M rows of N columns. `offset` starts the first vector at that element of a larger tensor,
so that its address is not 16-byte aligned, and the others elsewhere (see inputs.py); `stride` adds that many unused
columns to every row, or repeats one row.
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

# Lengths that every usual block size divides, and lengths that none does.
FULL = Size(8192, 16384, multiple_of=8192)
RAGGED = Size(1, 5000)
TAILS = (
    {"N": 1},
    {"N": 2},
    {"N": 3, "dtype": "float16"},
    {"N": 127},
    {"N": 1023},
    {"N": 1025, "dtype": "float16"},
    {"N": 777, "dtype": "bfloat16"},
    {"N": 4097},
    # Some blocks of a power of two divide it, and larger ones do not.
    {"N": 3072},
    {"N": 1024, "dtype": "float16"},
    {"N": 1536},
)


def vectors(values: tuple[str, ...], *, length: Size = RAGGED, offsets: tuple[int, ...] = (0,)) -> Space:
    """Return vectors of one length, dtype, family of values and starting element."""
    return Space({"N": length, "dtype": FLOATS, "values": Choice(values), "offset": Choice(offsets)})


def suite(*lengths: int, halves: int) -> Cases:
    """Return the sizes at which a vector part is timed: float32 of these lengths, and 2-byte types of one.

    All are multiples of 16: accesses of 2-byte types are 16 bytes wide only then.
    """
    named: list[dict[str, Value]] = [{"N": length} for length in lengths]
    named += [{"N": halves, "dtype": dtype} for dtype in ("float16", "bfloat16")]
    return Cases(vectors(("normal",), length=Size(1, 1 << 30)), tuple(named), generated=0)


ADDABLE = ("normal", "large", "huge", "tiny", "constant", "one_hot", "nonfinite", "stretch")
CHAINABLE = (*ADDABLE, "cancelling")
EXTREME = ("huge", "tiny", "nonfinite")
# Its contract promises finite values: a compensated sum makes NaN of an infinity.
SUMMABLE = ("normal", "large", "small", "constant", "one_hot", "shifted", "stretch")
ROWS = (
    *("normal", "large", "constant", "shifted", "masked", "late", "negative", "masked_negative"),
    *("lowest", "highest", "stretch", "gap", "outlier"),
)
# At 8 the address is aligned again, but is not where the memory starts; then the other vectors are not aligned.
STARTS = (0, 1, 3, 7, 8)
# An arm of a star ends in the last eighth of this range, beyond 2**20: beyond 1024 blocks of 1024 elements.
FAR = 1_200_000
# 1024 blocks of 1024 elements.
MANY = 1 << 20
# Full blocks of any size.
BLOCKS = Size(1024, 1 << 14, multiple_of=1024)
# From this length on, other traffic is small, such as that of the blocks' sums.
LONG = 1 << 13
# Rows whose maximum is below 0, or comes late.
NEGATIVE = ("negative", "masked_negative", "lowest", "late")
SOME_ROWS = Size(2, 40)
# Rows that fill any tile, and rows that a block of 1024 elements holds and the next smaller one does not.
TILES, IN_A_BLOCK = Size(128, 2048, multiple_of=128), Size(513, 1023)
APART: tuple[Value, ...] = (0, 1, 13, 64, "repeated")


def elementwise(
    values: tuple[str, ...], points: tuple[float, ...], *, telling: tuple[dict[str, Value], ...] = ()
) -> tuple[Check, ...]:
    """Return the correctness checks of a part that maps vectors to a vector (or a scalar); `points` in their order.

    `telling`: named cases besides one of each family of values; this part's usual mistakes show there.
    """
    families = tuple({"N": 700, "values": kind} for kind in values[1:])
    # Full blocks and each dtype may have kernels of their own.
    families += tuple(
        {"N": 8192, "values": kind, "dtype": one} for kind in EXTREME if kind in values for one in FLOATS.values
    )
    return (
        Check(
            "full_blocks",
            "Right for lengths that fill every block",
            points[0],
            WRITES,
            Agrees(
                Cases(vectors(("normal",), length=FULL), ({"N": 8192}, {"N": 8192, "dtype": "float16"}), generated=1)
            ),
        ),
        Check(
            "tail",
            "Right for lengths that do not fill the last block",
            points[1],
            WRITES,
            Agrees(Cases(vectors(("normal",)), TAILS, generated=5), every_configuration=True),
        ),
        Check(
            "values",
            "Right for large, tiny, constant and other unusual values",
            points[2],
            WRITES,
            Agrees(Cases(vectors(values, length=Size(1, FULL.high)), (*families, *telling), generated=5)),
        ),
        Check(
            "slices",
            "Right for vectors that start at any element of a larger tensor",
            points[3],
            WRITES,
            Agrees(
                Cases(
                    vectors(("normal",), offsets=STARTS),
                    ({"N": 1000, "offset": 1}, {"N": 64, "offset": 7}, {"N": 500, "offset": 8}),
                    generated=3,
                )
            ),
        ),
        Check(
            "combinations",
            "Right where lengths, starts, dtypes and unusual values meet",
            points[4],
            WRITES,
            Agrees(
                Cases(
                    vectors(values, length=Size(1, 1 << 16), offsets=STARTS),
                    generated=0,
                    covering=20,
                    star=Star(2, vectors(values, length=Size(1, FAR), offsets=STARTS)),
                    regions=(Region(3, vectors(values[1:], length=BLOCKS, offsets=STARTS[1:])),),
                    turns=("dtype", "offset"),
                )
            ),
        ),
        Check(
            "fresh",
            "Computes its result at every call, in new memory",
            points[5],
            WRITES,
            Fresh(
                Cases(
                    vectors(("normal",), length=Size(1, 1500), offsets=STARTS),
                    ({"N": 1000},),
                    generated=0,
                    covering=2,
                    star=Star(1, vectors(("normal",), length=Size(1, 1 << 17), offsets=STARTS)),
                )
            ),
        ),
        Check(
            "kernels",
            "Triton kernels do the work",
            points[6],
            WRITES,
            UsesKernels(Cases(vectors(("normal",)), ({"N": 1000},), generated=0)),
        ),
    )


def one_launch(points: float, values: tuple[str, ...], most: int = 1) -> Check:
    """Return the check that a vector part needs at most `most` launches."""
    title = "One kernel launch does it all" if most == 1 else f"At most {most} kernel launches"
    # Calls of other checks count as well: those on the longest vectors too.
    meant = vectors(values, length=Size(1, 64 * MANY), offsets=STARTS)
    return Check("launches", title, points, BANDWIDTH, Launches(Cases(meant, ({"N": 3000},), generated=0), most))


def traffic(title: str, points: float, values: tuple[str, ...], elements: str, *, length: int = 10_000) -> Check:
    """Return the check on the traffic of a vector part: all points up to 1.1 times `elements`, none from 1.5 times."""
    cases = Cases(
        vectors(values, length=Size(LONG, MANY), offsets=STARTS),
        ({"N": length}, {"N": length, "dtype": "float16"}),
        generated=0,
    )
    moved = Allowance(f"itemsize * {elements}", full=1.1, none=1.5)
    return Check("traffic", title, points, BANDWIDTH, WorkModel(cases, moved=moved, copies=True, everywhere=True))


VECTOR_ADD = Part(
    name="vector_add",
    title="Vector addition",
    arguments=("x", "y"),
    outputs=("z",),
    reduces=False,
    tolerance=Tolerance(factor=1.0, result_ulps=0.5, group=32),
    checks=(
        *elementwise(ADDABLE, (2, 3, 2, 1, 1, 1, 2)),
        one_launch(1, ADDABLE),
        traffic("Moves no more than 3·N elements", 2, ADDABLE, "3 * N"),
        Check(
            "speed",
            "Speed relative to torch's addition",
            5,
            PROFILES,
            SpeedBand(
                "torch_eager",
                0.5,
                0.95,
                suite(1 << 20, 1 << 24, 1 << 27, 1 << 28, halves=1 << 29),
                bytes="3 * N * itemsize",
                flops="N",
                shown_beside=("cuda_cpp", "torch_compile", "copy_roofline"),
            ),
        ),
    ),
    hints=(
        "Which program handles which elements? Start from `tl.program_id(0)` and the block size.",
        "offsets = pid * BLOCK + tl.arange(0, BLOCK); the lanes with offsets >= n have no data and need a mask.",
        "Load x and y with mask=offsets < n, add, and store with the same mask; launch cdiv(n, BLOCK) programs.",
    ),
)

FUSED_MULTIPLY_ADD = Part(
    name="fused_multiply_add",
    title="A fused chain: x·y + z",
    arguments=("x", "y", "z"),
    outputs=("out",),
    reduces=False,
    tolerance=Tolerance(factor=1.0, result_ulps=0.5, accumulation_ulps=1.0, group=32),
    checks=(
        *elementwise(
            CHAINABLE,
            (2, 4, 3, 1, 1, 1, 2),
            # Shows a product rounded to float16 before the addition: the result is that rounding error alone.
            telling=({"N": 700, "dtype": "float16", "values": "cancelling"},),
        ),
        one_launch(2, CHAINABLE),
        traffic("Moves no more than 4·N elements (unfused: 6·N)", 2, CHAINABLE, "4 * N"),
        Check(
            "speed",
            "Speed relative to eager x*y + z",
            7,
            PROFILES,
            SpeedBand(
                "torch_eager",
                0.9,
                1.35,
                suite(1 << 20, 1 << 24, 1 << 27, 1 << 28, halves=1 << 28),
                bytes="4 * N * itemsize",
                flops="2 * N",
                shown_beside=("torch_compile", "copy_roofline"),
                note="The bandwidth limit is 1.5: fusing saves 2 of 6 passes. The often-quoted 2-5x needs longer "
                "chains or sizes where launches dominate.",
            ),
        ),
    ),
    hints=(
        "One kernel can keep the product in registers. What would a second kernel have to read again?",
        "Convert what you load to float32, multiply and add there, and round once when you store.",
        "x.to(tl.float32) * y.to(tl.float32) + z.to(tl.float32), then tl.store: it converts to the output's dtype.",
    ),
)


PLAIN_ROWS = {"values": Choice(("normal",)), "stride": Choice((0,))}


def few_elements(case: Case) -> bool:
    """Return whether a generated matrix is small enough for the interpreter."""
    return case.product("M", "N") <= 1 << 15


def many_elements(case: Case) -> bool:
    """Return whether the size is small enough for many long rows."""
    return case.product("M", "N") <= 1 << 17


def very_many_elements(case: Case) -> bool:
    """Return whether the size is small enough for rows as many as they are long."""
    return case.product("M", "N") <= 1 << 18


def matrices(
    values: tuple[str, ...],
    *,
    rows: Size = Size(1, 24),
    columns: Size = Size(1, 3000),
    strides: tuple[Value, ...] = (0,),
    where: Callable[[Case], bool] | None = few_elements,
) -> Space:
    """Return matrices of M rows and N columns; the rows lie N + stride elements apart, or in the same place."""
    return Space(
        {"M": rows, "N": columns, "dtype": FLOATS, "values": Choice(values), "stride": Choice(strides)},
        where=where,
    )


# Rows that are read once and written once, in one launch.
ONCE = matrices(
    ROWS,
    rows=Size(1, 2500),
    columns=Size(1, 8192),
    strides=tuple(one for one in APART if one != "repeated"),
    where=None,
)

ROW_SOFTMAX = Part(
    name="row_softmax",
    title="Softmax over rows",
    arguments=("x",),
    outputs=("p",),
    tolerance=Tolerance(factor=2.0, result_ulps=1.0, group=1),
    checks=(
        Check(
            "powers_of_two",
            "Right for rows as long as a block",
            3,
            WRITES,
            Agrees(
                Cases(
                    matrices(("normal",)),
                    ({"M": 4, "N": 256}, {"M": 3, "N": 1024, "dtype": "float16"}, {"M": 1, "N": 16}),
                    generated=0,
                )
            ),
        ),
        Check(
            "tail",
            "Right for rows that do not fill a block",
            4,
            WRITES,
            Agrees(
                Cases(
                    matrices(("normal",)),
                    (
                        {"M": 3, "N": 1},
                        {"M": 2, "N": 3},
                        {"M": 4, "N": 127},
                        {"M": 3, "N": 1025, "dtype": "float16"},
                        {"M": 2, "N": 63, "dtype": "bfloat16"},
                        {"M": 5, "N": 60, "dtype": "float16"},
                        {"M": 2, "N": 384},
                    ),
                    generated=5,
                ),
                every_configuration=True,
            ),
        ),
        Check(
            "values",
            "Stable for large scores, shifted rows and entries of -inf",
            4,
            WRITES,
            Agrees(Cases(matrices(ROWS), tuple({"M": 5, "N": 100, "values": kind} for kind in ROWS[1:]), generated=5)),
        ),
        Check(
            "strides",
            "Right for rows that lie further apart than they are long",
            3,
            WRITES,
            Agrees(
                Cases(
                    matrices(("normal",), strides=APART),
                    ({"M": 5, "N": 96, "stride": 13}, {"M": 5, "N": 60, "stride": "repeated"}),
                    generated=4,
                )
            ),
        ),
        Check(
            "long_rows",
            "Right for rows of up to 16384 columns, and for many rows",
            2,
            WRITES,
            Agrees(
                Cases(
                    matrices(
                        ("normal", "shifted", "large", "gap", "late", "outlier", "negative"),
                        rows=Size(1, 400),
                        columns=Size(1, 16384),
                        strides=(0, 13),
                        where=many_elements,
                    ),
                    (
                        {"M": 2, "N": 16384},
                        {"M": 1, "N": 12345},
                        # Large enough for float32's exponential to overflow, in rows that lie apart.
                        {"M": 2, "N": 12001, "values": "large", "stride": 13},
                        {"M": 2, "N": 9001, "values": "shifted", "stride": 13, "dtype": "float16"},
                        # A run of -inf inside a row, longer than a block.
                        {"M": 12, "N": 10001, "values": "gap", "dtype": "bfloat16"},
                        # No logit is near that of a lane past the row, in types that may have kernels of their own.
                        {"M": 1, "N": 5001, "values": "negative", "dtype": "bfloat16"},
                        {"M": 1, "N": 2501, "values": "negative", "dtype": "float16"},
                        # Nothing but -inf in the first 8192 columns or more.
                        {"M": 2, "N": 16384, "values": "late"},
                        # Each exponential but one is tiny, and together they are not.
                        {"M": 3, "N": 16384, "values": "outlier"},
                    ),
                    generated=0,
                    # More rows than a grid has programs on any axis but its first.
                    far=({"M": 65537, "N": 3},),
                )
            ),
        ),
        Check(
            "combinations",
            "Right where long rows, many rows, strides, dtypes and unusual values meet",
            1,
            WRITES,
            Agrees(
                Cases(
                    matrices(
                        ROWS,
                        rows=Size(1, 400),
                        columns=Size(1, 16384),
                        strides=APART,
                        where=many_elements,
                    ),
                    generated=0,
                    covering=20,
                    star=Star(
                        6,
                        matrices(
                            ROWS,
                            rows=Size(1, 2500),
                            columns=Size(1, 16384),
                            strides=APART,
                            where=very_many_elements,
                        ),
                        together=1,
                    ),
                    regions=(
                        Region(4, matrices(ROWS[1:], rows=SOME_ROWS, columns=TILES, strides=APART[1:])),
                        Region(4, matrices(NEGATIVE, rows=SOME_ROWS, columns=IN_A_BLOCK, strides=APART[1:])),
                    ),
                    turns=("dtype", "stride"),
                )
            ),
        ),
        Check(
            "fresh",
            "Computes its result at every call, in new memory",
            1,
            WRITES,
            Fresh(
                Cases(
                    matrices(("normal",), rows=Size(1, 6), columns=Size(1, 300), strides=APART),
                    ({"M": 4, "N": 200},),
                    generated=0,
                    covering=2,
                    star=Star(
                        0, matrices(("normal",), rows=Size(1, 99), columns=Size(1, 2000), strides=APART), together=1
                    ),
                )
            ),
        ),
        Check(
            "kernels",
            "Triton kernels do the work",
            2,
            WRITES,
            UsesKernels(Cases(matrices(("normal",)), ({"M": 4, "N": 200},), generated=0)),
        ),
        Check(
            "launches",
            "One kernel launch does it all for rows of up to 8192 columns",
            2,
            BANDWIDTH,
            Launches(Cases(ONCE, ({"M": 6, "N": 500},), generated=0)),
        ),
        Check(
            "traffic",
            "Moves no more than 2·M·N elements for rows of up to 8192 columns",
            2,
            BANDWIDTH,
            WorkModel(
                Cases(
                    ONCE,
                    (
                        {"M": 6, "N": 500},
                        {"M": 3, "N": 8192, "dtype": "float16"},
                        {"M": 2, "N": 8000, "stride": 13},
                        {"M": 4, "N": 1000, "stride": 13, "dtype": "bfloat16"},
                    ),
                    generated=0,
                ),
                # A row that is read twice costs 1.5 times as much, for some of the points.
                moved=Allowance("itemsize * 2 * M * N", full=1.1, none=2.0),
                copies=True,
            ),
        ),
        Check(
            "speed",
            "Share of the measured copy bandwidth",
            7,
            PROFILES,
            SpeedBand(
                "copy_roofline",
                0.20,
                0.85,
                Cases(
                    Space({"M": Size(1, 1 << 20), "N": Size(1, 16384), "dtype": FLOATS, **PLAIN_ROWS}),
                    (
                        {"M": 512, "N": 1024},
                        *({"M": (1 << 28) // columns, "N": columns} for columns in (256, 1024, 4096, 16384)),
                        {"M": 1 << 17, "N": 4096, "dtype": "float16"},
                    ),
                    generated=0,
                ),
                bytes="2 * M * N * itemsize",
                flops="5 * M * N",
                shown_beside=("torch_eager", "torch_compile"),
            ),
        ),
    ),
    hints=(
        "A row must be read once and written once: where can it live in between?",
        "One program per row, BLOCK = next power of two of N; lanes beyond N must not join in the maximum or the sum.",
        "Load with other=-inf, subtract tl.max, tl.exp, divide by tl.sum, store with the same mask; a row starts at "
        "row * stride.",
    ),
)

GLOBAL_SUM = Part(
    name="global_sum",
    title="Sum of all elements",
    arguments=("x",),
    outputs=("s",),
    tolerance=Tolerance(factor=4.0, result_ulps=1.0, accumulation_ulps=1.0),
    deterministic=False,
    checks=(
        *elementwise(
            SUMMABLE,
            (2, 3, 3, 1, 1, 1, 2),
            # Sums of float16 in float16: the partial sums outgrow its 11 bits at once.
            telling=({"N": 1025, "dtype": "float16", "values": "shifted"},),
        ),
        Check(
            "long_vectors",
            "Right for vectors of many blocks",
            1,
            WRITES,
            Agrees(
                Cases(
                    vectors(("normal", "shifted"), length=Size(1, 2 * MANY)),
                    # A second kernel cannot join so many blocks of 1024 in one block; nor so many of 4096.
                    ({"N": 65_536}, {"N": 1_200_003, "dtype": "float16", "values": "shifted"}),
                    generated=0,
                    # Sums of blocks that are rounded to 16 bits may err by little.
                    far=({"N": 4_300_003, "dtype": "bfloat16"}, {"N": 2_200_003, "dtype": "bfloat16"}),
                    large=({"N": 40_000_003},),
                )
            ),
        ),
        one_launch(1, SUMMABLE, most=2),
        # The traffic of the blocks' sums is small for so many elements.
        traffic("Reads every element once", 3, SUMMABLE, "N", length=1 << 16),
        Check(
            "speed",
            "Speed relative to torch.sum",
            6,
            PROFILES,
            SpeedBand(
                "torch_eager",
                0.3,
                0.9,
                suite(1 << 20, 1 << 24, 1 << 28, 1 << 29, halves=1 << 30),
                bytes="N * itemsize",
                flops="N",
                shown_beside=("torch_compile", "copy_roofline"),
            ),
        ),
    ),
    hints=(
        "No program sees every element: what can each one store for the others?",
        "Each program sums its block in float32. Then join the blocks' sums, by atomics or in a second kernel.",
        "Start from torch.zeros((), dtype=torch.float32, device=x.device). Every program adds its sum by "
        "tl.atomic_add; mask the tail with other=0.",
    ),
)

# Causes of failure that only this exercise knows, and what an axis points to.
KINDS = (
    Kind("term_missing", "a missing term of the formula", "Write down the formula, and find each term in your code."),
)
CONTRASTS = (
    Contrast("offset", "start_ignored", "that start inside a larger tensor", only=False),
    Contrast("M", "wrong_axis", "with several rows", weight=0.6),
    Contrast("stride", "strides_ignored", "whose rows lie apart"),
    Contrast("values", "value_shortcut", "with unusual values", weight=0.5, only=False),
    Contrast("values", "value_shortcut", "of a single one among zeros", ("one_hot",), only=False, part="global_sum"),
    Contrast("values", "small_left_out", "with many small terms beside a large one", ("outlier",)),
    Contrast(
        "values",
        "overflow",
        "with large values",
        ("large", "huge", "negative", "masked_negative", "lowest", "highest"),
        only=False,
    ),
    Contrast("values", "rounded_intermediate", "in which z cancels the product", ("cancelling",), only=False),
)

EXERCISE = Exercise(
    title="Triton basics",
    version="1",
    parts=(VECTOR_ADD, FUSED_MULTIPLY_ADD, ROW_SOFTMAX, GLOBAL_SUM),
    kinds=KINDS,
    contrasts=CONTRASTS,
)
