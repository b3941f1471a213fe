"""ex_17: GEMM with CUTLASS's CuTe DSL, and a choice among GEMM kernels.

Axes: blocked_gemm is C [M, N] = A [M, K] · Bᵀ with B [N, K], in tiles of tile_m × tile_n × tile_k, each by
threads_m × threads_n threads; `layout` says how all three matrices lie in memory (see inputs.py). gemm is a [M, K]
times b [K, N]. select_kernel chooses for M × N × K, from all candidates or from `few` of them.
"""

from collections.abc import Callable

from grader import (
    Agrees,
    Case,
    Cases,
    Check,
    Choice,
    Compiles,
    Contrast,
    Exercise,
    Fresh,
    Limits,
    Package,
    Part,
    Regret,
    RegretGroup,
    Size,
    Space,
    SpeedBand,
    Star,
    Tolerance,
    UsesKernels,
    Value,
)

LAYOUTS = "thinks in layouts, tiles and partitions"
TENSOR_CORES = "writes tensor-core kernels with CUTLASS"
CHOOSES = "chooses a kernel for a problem"

# The DSL, and the driver's interface that comes with it.
CUTLASS = tuple(Package(module, "pip install -c constraints.txt -e '.[cutlass]'") for module in ("cutlass", "cuda"))

Named = tuple[dict[str, Value], ...]

# -- blocked_gemm ----------------------------------------------------------------------------------------------------

# The DSL unrolls the multiply-adds of one thread in one step of K: 256 of them compile in 0.5 s, 4096 in 12 s.
MOST_PER_THREAD = 256


def divides(case: Case) -> bool:
    """Return whether threads divide the tile, and each has so little to do that it compiles fast."""
    rows, columns = int(case["tile_m"]) % int(case["threads_m"]), int(case["tile_n"]) % int(case["threads_n"])
    per_thread = case.product("tile_m", "tile_n") // case.product("threads_m", "threads_n")
    return rows == 0 and columns == 0 and per_thread * int(case["tile_k"]) <= MOST_PER_THREAD


TILES = Choice((8, 4, 6, 9, 12, 16, 32, 64))
THREADS = Choice((4, 1, 2, 3, 8, 16))


def blocked(sides: Size, *, layouts: tuple[str, ...] = ("rows",), values: tuple[str, ...] = ("normal",)) -> Space:
    """Return problems of these sides, in any tiles."""
    return Space(
        {
            "M": sides,
            "N": sides,
            "K": sides,
            "tile_m": TILES,
            "tile_n": TILES,
            "tile_k": Choice((4, 1, 2, 3, 8, 16)),
            "threads_m": THREADS,
            "threads_n": THREADS,
            "layout": Choice(layouts),
            "values": Choice(values),
        },
        where=divides,
    )


def tiled(
    mnk: tuple[int, int, int], tiler: tuple[int, int, int], threads: tuple[int, int], **others: Value
) -> dict[str, Value]:
    """Return a named case."""
    sizes = dict(zip(("M", "N", "K"), mnk, strict=True))
    tiles = dict(zip(("tile_m", "tile_n", "tile_k"), tiler, strict=True))
    return {**sizes, **tiles, "threads_m": threads[0], "threads_n": threads[1], **others}


RAGGED = Size(1, 70)
ALL_LAYOUTS = ("rows", "columns", "sliced", "mixed")
# Only this matrix does not lie row after row.
LONE = ("a_apart", "b_apart", "c_apart")

BLOCKED_GEMM = Part(
    name="blocked_gemm",
    title="Blocked GEMM by layouts",
    arguments=("mA", "mB", "mC", "tiler_mnk", "threads_mn"),
    outputs=(),
    mutates=("mC",),
    on="cpu",
    tensors="cute",
    needs=CUTLASS,
    tolerance=Tolerance(factor=2.0, result_ulps=1.0, accumulation_ulps=6.0, group=1),
    checks=(
        Check(
            "whole_tiles",
            "Right where tiles divide the problem",
            6,
            LAYOUTS,
            Agrees(
                Cases(
                    blocked(Size(0, 64)),
                    (tiled((16, 8, 12), (8, 8, 4), (4, 4)), tiled((32, 64, 16), (16, 32, 4), (8, 4))),
                    generated=0,
                )
            ),
        ),
        Check(
            "residue",
            "Right where tiles reach past the problem, in M, N and K",
            8,
            LAYOUTS,
            Agrees(
                Cases(
                    blocked(RAGGED),
                    (
                        tiled((17, 8, 8), (8, 8, 4), (4, 4)),
                        tiled((8, 17, 8), (8, 8, 4), (4, 4)),
                        tiled((8, 8, 9), (8, 8, 4), (4, 4)),
                        tiled((1, 1, 1), (16, 8, 8), (4, 8)),
                        tiled((17, 9, 1), (8, 8, 2), (1, 1)),
                        tiled((33, 50, 21), (32, 16, 16), (16, 4)),
                    ),
                    generated=2,
                )
            ),
        ),
        Check(
            "threads",
            "Right for any tiler and any layout of threads",
            7,
            LAYOUTS,
            Agrees(
                Cases(
                    blocked(RAGGED),
                    (
                        tiled((20, 14, 6), (4, 8, 2), (1, 1)),
                        tiled((20, 30, 6), (12, 16, 2), (3, 2)),
                        # Odd sides.
                        tiled((20, 31, 7), (9, 9, 3), (3, 1)),
                        tiled((14, 13, 9), (6, 6, 4), (2, 3)),
                        # Two rows and a last step of one, and two terms in a step of four.
                        tiled((2, 9, 9), (4, 4, 4), (2, 2)),
                        tiled((10, 12, 2), (8, 4, 4), (2, 2)),
                        tiled((30, 70, 10), (8, 64, 8), (2, 16)),
                        tiled((20, 33, 7), (16, 32, 4), (16, 16)),
                    ),
                    generated=2,
                )
            ),
        ),
        Check(
            "layouts",
            "Right for matrices that lie in memory in other ways",
            4,
            LAYOUTS,
            Agrees(
                Cases(
                    blocked(RAGGED, layouts=(*ALL_LAYOUTS, *LONE)),
                    (
                        tiled((13, 20, 9), (8, 8, 4), (2, 4), layout="columns"),
                        # Equal but for the strides: a program that is kept for these sizes is wrong.
                        tiled((13, 20, 9), (8, 8, 4), (2, 4), layout="sliced"),
                        # A lies column after column, B row after row; A in a window, B row after row.
                        tiled((13, 20, 7), (8, 8, 4), (4, 4), layout="mixed"),
                        tiled((13, 20, 9), (8, 8, 4), (4, 4), layout="mixed"),
                        # A program that is kept without the strides of one matrix is wrong for two of these.
                        *(tiled((6, 5, 3), (4, 4, 2), (4, 4), layout=one) for one in ("rows", *LONE)),
                    ),
                    generated=0,
                )
            ),
        ),
        Check(
            "precision",
            "Adds up in float32, and leaves infinities and NaN where they are",
            3,
            LAYOUTS,
            Agrees(
                Cases(
                    blocked(Size(1, 300), values=("normal", "shifted", "nonfinite")),
                    (
                        tiled((9, 10, 300), (8, 8, 16), (4, 8), values="shifted"),
                        tiled((18, 10, 21), (8, 8, 4), (4, 8), values="nonfinite"),
                    ),
                    generated=0,
                )
            ),
        ),
        Check(
            "combinations",
            "Right where sizes, tilers, threads, layouts and unusual values meet",
            1,
            LAYOUTS,
            Agrees(
                Cases(
                    blocked(RAGGED, layouts=ALL_LAYOUTS, values=("normal", "shifted")),
                    generated=0,
                    covering=6,
                    star=Star(3, blocked(Size(1, 600), layouts=ALL_LAYOUTS, values=("normal", "shifted"))),
                )
            ),
        ),
        Check(
            "fresh",
            "Computes its result at every call",
            3,
            LAYOUTS,
            Fresh(Cases(blocked(RAGGED), (tiled((20, 12, 8), (8, 8, 4), (4, 4)),), generated=0)),
        ),
        Check(
            "compiled",
            "The compiled function does the work, by a TiledMma, thread by thread",
            3,
            LAYOUTS,
            UsesKernels(
                Cases(
                    blocked(RAGGED),
                    (
                        tiled((12, 20, 8), (8, 8, 4), (4, 4)),
                        # The same problem in other tiles, and then by other threads: programs of their own.
                        tiled((12, 20, 8), (4, 4, 2), (4, 4)),
                        tiled((12, 20, 8), (4, 4, 2), (2, 2)),
                    ),
                    generated=0,
                ),
                operations=("cute.make_tiled_mma", "cute.tiled.mma.partition", "cute.gemm"),
                products_by_cute=True,
                program_axes=("tile_m", "tile_n", "tile_k", "threads_m", "threads_n"),
            ),
        ),
    ),
    hints=(
        "Print `cute.local_tile(mA, (bM, bK), (m, k))` and `thr_mma.partition_A(gA)` for the small case of the stub: "
        "which elements does thread 0 see, and which does thread 1?",
        "For every tile (m, n) and every thread: partition the tile of C, clear an accumulator of that shape, walk "
        "over the tiles of K, copy this thread's part of A and B into fragments, cute.gemm, and store at the end. "
        "Partition the identity tensor in the same way: it gives the coordinate of every element, for the predicate.",
        "Fragments start as zeros: `rA.fill(0.0)`, then `if cute.elem_less(tCcA[i], mA.shape): rA[i] = tCgA[i]`. With "
        "zeros beyond the end of K in *both* operands the last tile of K adds nothing wrong. Store C under the same "
        "kind of condition.",
    ),
)

# -- gemm ------------------------------------------------------------------------------------------------------------

HALVES = Choice(("float16", "bfloat16"))
EIGHTS = Size(8, 400, multiple_of=8)


def products(sides: Size, values: tuple[str, ...] = ("normal",)) -> Space:
    """Return products whose rows start at multiples of 16 bytes."""
    return Space({"M": sides, "N": sides, "K": sides, "dtype": HALVES, "values": Choice(values)})


def sized(m: int, n: int, k: int, dtype: str = "float16", **others: Value) -> dict[str, Value]:
    """Return a named case."""
    return {"M": m, "N": n, "K": k, "dtype": dtype, **others}


GEMM = Part(
    name="gemm",
    title="GEMM on tensor cores",
    arguments=("a", "b"),
    outputs=("c",),
    on="gpu",
    needs=CUTLASS,
    tolerance=Tolerance(factor=2.0, result_ulps=1.0, accumulation_ulps=6.0, group=1),
    checks=(
        Check(
            "compiles",
            "Compiles for sm_80 and sm_90, uses tensor cores, fits, and spills nothing",
            10,
            TENSOR_CORES,
            Compiles((80, 90), tensor_cores=True),
        ),
        Check(
            "tiles",
            "Right where tiles divide the problem",
            4,
            TENSOR_CORES,
            Agrees(Cases(products(EIGHTS), (sized(256, 256, 128), sized(256, 384, 192, "bfloat16")), generated=0)),
        ),
        Check(
            "residue",
            "Right for every size that is a multiple of 8",
            5,
            TENSOR_CORES,
            Agrees(
                Cases(
                    products(EIGHTS),
                    (
                        sized(8, 8, 8),
                        sized(136, 128, 64),
                        sized(128, 136, 64, "bfloat16"),
                        sized(128, 128, 72),
                        sized(8, 264, 400),
                    ),
                    generated=6,
                )
            ),
        ),
        Check(
            "precision",
            "Adds up in float32",
            3,
            TENSOR_CORES,
            Agrees(
                Cases(
                    products(Size(8, 8000, multiple_of=8), ("normal", "shifted", "nonfinite", "large")),
                    (
                        sized(64, 64, 8000, "float16"),
                        sized(64, 64, 4000, "float16", values="shifted"),
                        sized(72, 64, 200, "bfloat16", values="nonfinite"),
                        # Most of these results are infinite in float16.
                        sized(64, 72, 128, "bfloat16", values="large"),
                    ),
                    generated=0,
                )
            ),
        ),
        Check(
            "combinations",
            "Right where large and small sides, dtypes and unusual values meet",
            1,
            TENSOR_CORES,
            Agrees(
                Cases(products(Size(8, 4096, multiple_of=8), ("normal", "shifted", "large")), generated=0, covering=16)
            ),
        ),
        Check(
            "fresh",
            "Computes its result at every call",
            3,
            TENSOR_CORES,
            Fresh(Cases(products(EIGHTS), (sized(200, 136, 264),), generated=0)),
        ),
        Check(
            "kernels",
            "Your kernel does the work",
            3,
            TENSOR_CORES,
            UsesKernels(Cases(products(EIGHTS), (sized(136, 264, 72),), generated=0)),
        ),
        Check(
            "speed",
            "Speed relative to cuBLAS",
            11,
            TENSOR_CORES,
            SpeedBand(
                "cublas",
                0.10,
                0.85,
                Cases(
                    products(Size(8, 1 << 16, multiple_of=8)),
                    (
                        *(sized(side, side, side, "bfloat16") for side in (2048, 4096, 8192)),
                        sized(4096, 14336, 4096, "bfloat16"),
                        sized(8192, 1024, 8192, "float16"),
                    ),
                    generated=0,
                ),
                bytes="itemsize * (M * K + K * N + M * N)",
                flops="2 * M * N * K",
                note="A kernel with mma.sync, as on an A100, reaches about two thirds of the speed of Hopper's wgmma.",
            ),
        ),
    ),
    hints=(
        "The tensor cores wait for registers, registers for shared memory, shared memory for global memory. Which of "
        "these steps can run at the same time?",
        "Several tiles of A and B in shared memory, in a ring: cp.async fills one while ldmatrix and mma.sync empty "
        "another; `cp_async_wait_group(stages - 2)` and one barrier per tile of K keep them apart.",
        "Zeros beyond the end of K: begin with the last, partly filled tile, in a stage that is filled with zeros. "
        "Rows and columns beyond M and N need no zeros: their results are never stored.",
    ),
)

# -- select_kernel ---------------------------------------------------------------------------------------------------

# Shapes that were measured (measure.py), [M, N, K]: squares around whole waves, one more than a wave, flat ones, deep
# ones, those of transformers at several batch sizes, and small ones that leave most of the GPU idle.
SHAPES = (
    *((side, side, side) for side in (256, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192)),
    *((tokens, 4096, 4096) for tokens in (16, 64, 128, 256, 512, 1024, 2048)),
    *((tokens, 14336, 4096) for tokens in (16, 128, 512, 2048, 8192)),
    *((tokens, 4096, 14336) for tokens in (16, 128, 512, 2048, 8192)),
    *((tokens, 6144, 4096) for tokens in (32, 256, 4096)),
    *((tokens, 1024, 8192) for tokens in (64, 1024, 4096)),
    (1408, 1536, 4096),
    (1536, 1536, 4096),
    (2176, 2048, 4096),
    (2112, 2048, 1024),
    (4224, 4096, 512),
    (4224, 4224, 2048),
    (256, 256, 16384),
    (512, 256, 8192),
    (128, 128, 32768),
    (1024, 1024, 128),
    (4096, 4096, 128),
    (8192, 8192, 256),
    (16384, 512, 512),
    (512, 16384, 512),
    (32768, 128, 1024),
    (128, 32768, 1024),
    (192, 8192, 8192),
    (8192, 192, 8192),
    (320, 3072, 1024),
    (640, 640, 2048),
)

# Shapes that were not measured: the choice must still be one of the candidates.
OTHERS = ((1, 1, 1), (8, 40, 24), (7, 50_000, 13), (100_000, 24, 40), (31, 17, 1_000_003))

CHOICES = Space(
    {
        **{axis: Choice(tuple(dict.fromkeys(shape[i] for shape in SHAPES + OTHERS))) for i, axis in enumerate("MNK")},
        "few": Choice((0, 1, 8)),
    },
    where=lambda case: (case["M"], case["N"], case["K"]) in SHAPES + OTHERS,
)


# Regret up to which all points are earned; and the regret of the best constant choice, which earns none.
FULL, NONE = 0.10, 0.16
# Of a group of shapes: few shapes vary more. The model solution and honest/select_simulated stay below 0.08 in each; a
# rule that takes M for N costs 0.19 where tiles are ragged, one that rounds tiles down 0.29 where M is large.
GROUP_NONE = 0.30


def group(name: str, where: Callable[[int, int, int], bool]) -> RegretGroup:
    """Return the group of the shapes in which M, N and K are so."""
    return RegretGroup(name, lambda case: where(*(int(case[axis]) for axis in "MNK")), full=FULL, none=GROUP_NONE)


GROUPS = (
    group("M = N", lambda m, n, k: m == n),
    group("N is at least 4·M", lambda m, n, k: 4 * m <= n),
    group("M is at least 4·N", lambda m, n, k: 4 * n <= m),
    group("M or N is no multiple of 256", lambda m, n, k: m % 256 > 0 or n % 256 > 0),
    group("K is at least 8192", lambda m, n, k: k >= 8192),
    group("K is at most 512", lambda m, n, k: k <= 512),
)


def shapes(*, every: int = 1, few: int = 0, of: tuple[tuple[int, int, int], ...] = SHAPES) -> Cases:
    """Return the measured shapes, or every n-th of them; or others."""
    return Cases(CHOICES, tuple({"M": m, "N": n, "K": k, "few": few} for m, n, k in of[::every]), generated=0)


SELECT_KERNEL = Part(
    name="select_kernel",
    title="Choosing a kernel",
    arguments=("m", "n", "k", "candidates", "device"),
    outputs=("choice",),
    on="cpu",
    chooses="candidates",
    tolerance=Tolerance(),
    checks=(
        Check(
            "regret",
            "Chooses kernels that are nearly the best",
            18,
            CHOOSES,
            Regret(shapes(), full=FULL, none=NONE, groups=GROUPS),
        ),
        Check(
            "few",
            "Chooses well among any number of candidates, even one",
            7,
            CHOOSES,
            Regret(
                Cases(
                    CHOICES,
                    (
                        *shapes(every=12, few=1).named,
                        *shapes(every=2, few=8).named,
                        *shapes(few=8, of=OTHERS).named,
                    ),
                    generated=0,
                ),
                full=FULL,
                none=NONE,
            ),
        ),
    ),
    hints=(
        "Tiles × waves: how many tiles does the product have, how many can run at the same time, and how full is the "
        "last wave? How much work is lost in a tile that reaches past the product?",
        "Predict the time of each candidate and take the least: waves × the time of one tile, plus the time before and "
        "after the loop over K. The time of a tile is that of its arithmetic or of its loads: take the longer one.",
        "ceil(m / tile_m) · ceil(n / tile_n) tiles over sm_count multiprocessors; arithmetic of tile_m · tile_n · k at "
        "the share of the peak that such a tile reaches (large ones reach more); loads of (tile_m + tile_n) · k. A "
        "product with few tiles needs small ones, to fill the multiprocessors.",
    ),
)

# What an axis points to.
CONTRASTS = (
    Contrast("layout", "strides_ignored", "whose matrices do not lie row after row"),
    Contrast("tile_k", "size_assumed", "in which a step of K is not 4", (1, 2, 3, 8, 16)),
    Contrast("threads_m", "size_assumed", "with more or fewer than 4 threads along M", (1, 2, 3, 8, 16)),
    Contrast("threads_n", "size_assumed", "with more or fewer than 4 threads along N", (1, 2, 3, 8, 16)),
    Contrast("tile_m", "size_assumed", "in which tiles are not 8 rows high", (4, 9, 12, 16, 32, 64)),
    Contrast("values", "value_shortcut", "with unusual values", weight=0.5, only=False),
    Contrast("values", "low_precision_sum", "with values around 100", ("shifted",), only=False),
)

EXERCISE = Exercise(
    title="CUTLASS GEMM",
    version="1",
    parts=(BLOCKED_GEMM, GEMM, SELECT_KERNEL),
    # Compiling takes seconds while other work runs.
    limits=Limits(call_s=30.0),
    contrasts=CONTRASTS,
)
