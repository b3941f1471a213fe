"""Say what to learn from the model solution, part by part. It is shown once a learner's own file passes."""

COMMENTARY = {
    "attention_forward": """
        A program keeps BLOCK_M queries and walks along the keys with an online softmax. Its walk has two stages: tiles
        that are fully visible need no mask, and only the diagonal and the last tile pay for one. Exponentials are
        powers of two, with log2 e folded into the scale, because the hardware computes those.
    """,
    "attention_backward": """
        Weights are computed again from lse instead of being stored. Two kernels walk in different directions, one for
        dk and dv and one for dq: the scores are computed twice, but no gradient needs atomics, so the result is
        the same at every call. A small first kernel gives delta, the sum of o ∘ do, which both need for each query.
    """,
}
