"""Questions that ex_16 prepares for."""

from grader import Figures, Question

QUESTIONS = (
    Question(
        "When is a matrix product bound by memory, and when by arithmetic?",
        """
        An M × N × K product does 2·M·N·K FLOP on M·K + K·N + M·N elements. Large squares reuse each element hundreds of
        times, so the tensor cores are the limit. With one thin side, such as a batch of a few tokens, every weight is
        read for a handful of multiplications, and the product is bound by memory like a copy.

        The reuse exists only if the kernel takes it. A tile of m × n results loads each operand once for the whole
        tile, so traffic falls with the size of the tile: M·N·K·(1/m + 1/n) elements. Then a deep pipeline must hide the
        loads behind the products, and a fused epilogue saves one more round trip of the result.
        """,
        (
            Figures(
                "matmul.speed",
                "Yours does {intensity} FLOP per byte at {size}, so it is {bound}-bound: {time} on {gpu}.",
            ),
            Figures(
                "matmul.traffic",
                "Your tiles moved {moved} bytes at {case}; every element once is {once}.",
                {"once": "itemsize * (M * K + K * N + M * N)"},
            ),
            Figures("matmul.speed", "At {size}: yours {time_submission}, cuBLAS {time_cublas}."),
        ),
    ),
)
