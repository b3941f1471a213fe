"""Say what to learn from the model solution, part by part. It is shown once a learner's own file passes."""

COMMENTARY = {
    "matmul": """
        The tile decides the traffic: m × n tiles load M·N·K·(1/m + 1/n) elements, so the largest tile that still gives
        every SM work is taken. Tiles are walked in groups of rows, so that neighbours share operands in L2. Rows that
        start anywhere are read 2 bytes at a time; a large product copies them once, into rows that start at multiples
        of 16 elements.
    """,
    "matmul_bias_silu": """
        The epilogue runs on the accumulator, in float32, before the only store. Its cost is a few instructions for each
        element, while a kernel of its own would read and write the whole matrix once more.
    """,
}
