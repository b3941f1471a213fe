"""ex_17: matrix multiplication with CUTLASS, in Python: the CuTe DSL.

A fast GEMM repeats one idea: divide the problem into tiles, divide the tiles among the threads, and keep the data for
the next step in the nearest memory. CUTLASS writes that idea down as data. A *layout* says where elements lie, a
*tiler* cuts a layout into tiles, a *partition* gives each thread its part, and *atoms* are the instructions that copy
and multiply. You write it twice: first plainly, for any tiles and any threads, then with tensor cores.

Run it

    grade ex_17                            grade all three parts
    grade ex_17 --part select_kernel       grade one part while you work on it
    grade hint ex_17 --part blocked_gemm   the first of three hints; --level 3 is the plainest
    python exercises/ex_17_cutlass_gemm.py the tour below

blocked_gemm and gemm need the package nvidia-cutlass-dsl: pip install -c constraints.txt -e '.[cutlass]'. select_kernel
needs nothing. Without a GPU blocked_gemm and select_kernel are graded in full; gemm is only compiled.

Where to start

    1. Run the tour, and read it with its output. Change a number and predict the output.
    2. blocked_gemm     the tour's calls, in three loops; steps above the function
    3. select_kernel    plain Python; no part depends on another
    4. gemm             the same partitions, now in shared memory and on tensor cores

Words

    mode            an axis of a layout; modes nest: a tile's mode is (its rows, its columns)
    tiler_mnk       how much of M, N and K one tile takes; a block of threads ("CTA") computes one tile of C
    gA, sA, rA      a tile of A in global memory, in shared memory, in registers; mA is all of A
    tCgA            the part of gA that one thread needs (t) for its part of C: read it from right to left
    residue         the last tile of a mode where the tile does not divide the problem: part of it lies outside

The tour, for A: [6, 4] and C: [6, 8], row after row, tiles of C of 4 × 8, K in steps of 2, and 2 × 4 threads

    call                                            returns (shape):(strides)
    mA.layout                                       (6,4):(4,1)
    cute.local_tile(mA, (4, 2), (1, None))          (4,2,2):(4,1,2)       tile row 1; all tiles of K in a third mode
    cute.zipped_divide(mA, (4, 2))                  ((4,2),(2,2)):((4,1),(16,2))   (within a tile, which tile)
    cute.make_tiled_mma(op, layout (2, 4, 1))       8 threads: thread t is row t % 2, column t // 2
    thr_mma = tiled_mma.get_slice(3)                thread 3: row 1, column 1
    thr_mma.partition_C(gC)                         (1,2,2):(0,16,4)      one value of the atom × 2 rows × 2 columns
    thr_mma.partition_A(gA)                         (1,2,2):(0,8,1)       its 2 rows × all of K in the tile
    tiled_mma.make_fragment_C(...)                  (1,2,2):(0,1,2)       the same shape, in registers
    partition_C of the identity tensor, tile row 1  (5,1) (7,1) (5,5) (7,5)        where its four elements lie in C

C has 6 rows, so row 7 is residue: thread 3 must not store two of its four elements. `cute.elem_less((7, 1), (6, 8))`
is False, and says so.

Three things to know

- A `@cute.jit` function runs twice. First Python runs it to write a program ("tracing"): now `print` prints, and shapes
  and Constexpr arguments are numbers. Then the compiled program runs: now elements are loaded and stored, and
  `cute.printf` prints.
- `for i in range(...)` is a loop of the program; Python unrolls `for i in cutlass.range_constexpr(...)`. An `if` on an
  element or a loop's index is a branch of the program, and must not change the type of a variable.
- The function is compiled again for other shapes and tilers. That takes half a second if a thread does at most a few
  hundred multiply-adds per tile of K: cute.gemm unrolls them. The grader asks for at most 256.
"""

import cuda.bindings.driver as cuda
import cutlass
import cutlass.cute as cute
import torch
from cutlass.cute.nvgpu import MmaUniversalOp
from cutlass.cute.runtime import from_dlpack

# The tour. Read it, run it, change it. It is not graded.


@cute.jit
def tour(mA: cute.Tensor, mC: cute.Tensor):
    """Print what each step returns."""
    print("mA                       ", mA.layout)
    print("local_tile               ", cute.local_tile(mA, (4, 2), (1, None)).layout)
    print("zipped_divide            ", cute.zipped_divide(mA, (4, 2)).layout)

    # The universal operation is one multiply-add by one thread; 2 × 4 of them make a TiledMma.
    tiled_mma = cute.make_tiled_mma(MmaUniversalOp(cutlass.Float32), cute.make_layout((2, 4, 1)))
    thr_mma = tiled_mma.get_slice(3)
    gA = cute.local_tile(mA, (4, 2), (0, 0))
    gC = cute.local_tile(mC, (4, 8), (0, 0))
    tCgC = thr_mma.partition_C(gC)
    print("partition_C              ", tCgC.layout)
    print("partition_A              ", thr_mma.partition_A(gA).layout)
    print("make_fragment_C          ", tiled_mma.make_fragment_C(tCgC).layout)

    # The identity tensor holds coordinates. Cut and partitioned like C, it tells thread 3 where its elements lie.
    cC = cute.make_identity_tensor(mC.shape)
    tCcC = thr_mma.partition_C(cute.local_tile(cC, (4, 8), (1, 0)))
    for i in cutlass.range_constexpr(cute.size(tCcC)):
        print("thread 3, element", i, "is at ", tCcC[i])
        if cute.elem_less(tCcC[i], mC.shape):
            cute.printf("    which is inside: C[{}, {}]", tCcC[i][0], tCcC[i][1])


# Part 1


@cute.jit
def blocked_gemm(
    mA: cute.Tensor, mB: cute.Tensor, mC: cute.Tensor, tiler_mnk: cutlass.Constexpr, threads_mn: cutlass.Constexpr
):
    """Multiply two matrices in tiles of any size, by any number of threads; here on the CPU, one after another.

    Inputs:
        mA: [M, K], float32; any strides
        mB: [N, K], float32; any strides
        mC: [M, N], float32; any strides; holds NaN; changed in place
        tiler_mnk: (bM, bN, bK), integers known when the function is traced
        threads_mn: (tM, tN), likewise; tM divides bM, tN divides bN
    Output:
        nothing; mC is changed
    Definition:
        mC[m, n] = sum_k mA[m, k] * mB[n, k], in float32

    Steps:
        1. Make a TiledMma of the universal operation for tM × tN threads.
        2. For every tile (m, n) of C and every thread: take its part of the tile, and clear an accumulator like it.
        3. For every tile of K: copy its parts of A and B into fragments, and cute.gemm them onto the accumulator.
        4. Store the accumulator to its part of C.
        5. Add predicates: identity tensors of A, B and C, cut and partitioned in the same way, say which elements
           exist. The others are zeros in a fragment, and are never stored.

    Limits:
        M, N, K ≥ 1. Nothing outside the matrices may be read or written: the memory around them is not yours.
    Judged:
        the values, for whole tiles and residues, any tiler, any threads, any strides; that sums are in float32; that
        every call computes its result; that the compiled function does it, by a TiledMma partitioned per thread, in
        the tiles and by the threads that are asked for.
    """
    raise NotImplementedError("blocked_gemm: loops over tiles of C, threads, and tiles of K")


# Part 2

# @cute.kernel
# def gemm_kernel(mA, mB, mC, ...):
#     ...1. which tile of C is this block's (cute.arch.block_idx)? which thread is this (cute.arch.thread_idx)?
#     ...2. shared memory for several tiles of A and of B (cutlass.memory.SmemAllocator), in a swizzled layout
#     ...3. cp.async for the first tiles: cute.make_copy_atom(cpasync.CopyG2SOp(), ...), make_tiled_copy_tv, cute.copy
#     ...4. for every tile of K: wait for the oldest, start the next, ldmatrix into fragments, cute.gemm
#     ...5. the accumulator, rounded once, to C; under a predicate
#
# @cute.jit
# def launch_gemm(mA, mB, mC, stream):
#     ...layouts, copies and the TiledMma (cutlass.cute.nvgpu.warp.MmaF16BF16Op, or warpgroup's on Hopper)
#     gemm_kernel(...).launch(grid=..., block=..., stream=stream)


def gemm(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Multiply two matrices on tensor cores, by a kernel of the CuTe DSL.

    Inputs:
        a: [M, K], float16 or bfloat16; contiguous
        b: [K, N], same dtype and device as a; contiguous
    Output:
        c: [M, N], dtype of a; new memory
    Definition:
        c[m, n] = sum_k a[m, k] * b[k, n], accumulated in float32 and rounded once, at the end

    Limits:
        M, N and K are multiples of 8, so that every row starts at a multiple of 16 bytes: one cp.async, or a TMA box.
        They need not be multiples of a tile.
        Compiling takes seconds: compile once for all sizes (`mark_layout_dynamic`, `cute.compile`), not at every call.
    Judged:
        without a GPU: that it compiles for sm_80 and sm_90 and for both dtypes, fits into their memory, uses tensor
        cores and spills no registers; that the result is new memory of the right form, and that a kernel gets a, b and
        c. With a GPU also: the values, for whole tiles and residues; that sums are in float32; that every call
        computes its result; that your kernel does it; the speed, relative to cuBLAS.
    """
    c = torch.empty((a.shape[0], b.shape[1]), dtype=a.dtype, device=a.device)
    # The compiler may rely on this: rows have 8·n elements and start at multiples of 16 bytes; their number is any.
    mA = from_dlpack(a, assumed_align=16).mark_layout_dynamic(leading_dim=1)
    mA = mA.mark_compact_shape_dynamic(mode=1, stride_order=(0, 1), divisibility=8)
    stream = cuda.CUstream(torch.cuda.current_stream().cuda_stream)
    raise NotImplementedError(f"gemm: mB and mC like mA ({mA}), then a kernel for {c.shape}, launched on {stream}")


# Part 3


def select_kernel(m, n, k, candidates, device):
    """Choose the kernel for a product of [m, k] and [k, n], both of 2-byte elements.

    Inputs:
        m: int, rows of the product
        n: int, its columns
        k: int, terms of each sum
        candidates: tuple of at least one candidate, in any order. A candidate has tile_m, tile_n, tile_k, cluster_m,
            cluster_n, stages (int) and schedule ("cooperative": two warpgroups share a tile; "pingpong": each has its
            own, and one stores while the other multiplies). All of them fit the device.
        device: has sm_count, smem_bytes, peak_tflops, peak_tbps
    Output:
        choice: one of the candidates
    Definition:
        the candidate whose kernel takes the least time for the product on the device

    Judged:
        by regret: how much longer your choices take than the best ones, measured on an H200, over shapes that are not
        listed here. All points up to 10 % (geometric mean), over all shapes and over each group of them: square ones,
        flat ones (N far above M, or M above N), those that tiles do not divide, deep ones (K), shallow ones. No
        constant choice comes close.
    """
    raise NotImplementedError("select_kernel: predict the time of each candidate, and return the least")


if __name__ == "__main__":
    a, c = torch.arange(24.0).reshape(6, 4), torch.zeros(6, 8)
    tour(from_dlpack(a), from_dlpack(c))
