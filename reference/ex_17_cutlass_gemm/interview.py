"""Questions that ex_17 prepares for."""

from grader import Figures, Question

QUESTIONS = (
    Question(
        "How do you choose between Triton, CUTLASS and cuBLAS?",
        """
        Begin with cuBLAS: a plain matrix product of usual shapes, dtypes and layouts is a call away, tuned for every
        GPU, and hard to beat. It costs you every byte between it and the next kernel.

        Take Triton where something stands around the product: an epilogue, a mask, a gather, an unusual dtype. A day's
        work gives most of the speed, and the epilogue's bytes are saved. Take CUTLASS where you need the rest: control
        over layouts, pipelines, clusters and warp roles, a new instruction before Triton uses it, or a family of
        kernels to select from by shape. It costs the most work and the most knowledge. In each case measure your own
        shapes: thin, small and ragged ones decide otherwise than large squares.
        """,
        (
            Figures("gemm.speed", "CUTLASS, yours, at {size}: {time_submission}. cuBLAS: {time_cublas}."),
            Figures("ex_16:matmul.speed", "Triton, yours of ex_16, at {size}: {time}."),
            Figures(
                "gemm.compiles",
                "Your {kernel}, compiled for {target}: {registers} registers in each thread.",
            ),
            Figures(
                "select_kernel.regret",
                "No kernel is the best for all shapes: yours chose the fastest one in {best} of {choices} cases.",
            ),
        ),
    ),
)
