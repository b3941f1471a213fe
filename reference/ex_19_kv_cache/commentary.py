"""Say what to learn from the model solution, part by part. It is shown once a learner's own file passes."""

COMMENTARY = {
    "append_kv": """
        A pure copy, so only its shape matters: a program copies several rows, and the accesses are 16 bytes wide where
        sizes and strides allow it. Lengths are read by the kernel, so the CPU never waits for the GPU.
    """,
    "decode_attention": """
        All query heads of a kv head are the rows of one tile, so each cached element is loaded once for all of them.
        The context of a sequence is split over programs, as many as fill the GPU, and a second kernel joins them by
        their log-sum-exp. The number of splits follows from shapes alone.
    """,
    "paged_decode_attention": """
        The same kernel, with one more load for each tile of slots: its pages from the block table. The walk does not
        need contiguous pages, only contiguous slots within a page.
    """,
}
