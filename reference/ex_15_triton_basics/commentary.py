"""Say what to learn from the model solution, part by part. It is shown once a learner's own file passes."""

COMMENTARY = {
    "vector_add": """
        Nothing can be saved here: three elements move for each result. What is left is how they move. With 32 elements
        for each thread, several 16-byte loads are in flight before the first one is used, and that hides their latency.
    """,
    "fused_multiply_add": """
        The product stays in a register, so four elements move instead of six. It is kept in float32 and rounded once,
        at the store: that is also the more precise way.
    """,
    "row_softmax": """
        A row is loaded once and stays in registers for all three passes: maximum, sum, quotient. Short rows share a
        program, because one program for each of them has too few bytes in flight. Lanes past the end get -inf, which
        is never the maximum and whose exponential is 0.
    """,
    "global_sum": """
        Each program adds up many blocks in registers and joins the others by one atomic addition. At most 4096 atomics
        are left for any length, and they cost nothing beside the loads. A second launch would cost more than all of
        them.
    """,
}
