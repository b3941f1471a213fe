"""Say what to learn from the model solution, part by part. It is shown once a learner's own file passes."""

COMMENTARY = {
    "matmul": """
        The tile decides the traffic: m × n tiles load M·N·K·(1/m + 1/n) elements, so the largest tile that still gives
        every SM work is taken. Large products are read by TMA in persistent programs; others go through pointers, and
        a long K is split over several programs. Tiles are walked in groups of rows, so that neighbours share operands
        in L2.
    """,
    "matmul_bias_silu": """
        The epilogue runs on the accumulator, in float32, before the only store. Its cost is a few instructions for each
        element, while a kernel of its own would read and write the whole matrix once more.
    """,
}
