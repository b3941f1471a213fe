"""Say what to learn from the model solution, part by part. It is shown once a learner's own file passes."""

COMMENTARY = {
    "blocked_gemm": """
        Tiles and threads are layouts: a tiler cuts the problem, a layout of threads cuts the tile, and the same algebra
        gives every thread its coordinates. A coordinate is compared with the shape before each access: what lies beyond
        the end adds zero and is never stored.
    """,
    "gemm": """
        The Ampere kernel fills a ring of four stages by cp.async while mma.sync works on an older one, and stores
        through shared memory to keep stores 16 bytes wide. The Hopper kernel gives loading to a warpgroup of its own:
        TMA needs one thread, so nearly all registers go to the two warpgroups that multiply.
    """,
    "select_kernel": """
        A model of waves, tiles and bytes replaces a table: waves times the time of a tile, and never less than the
        time of the compulsory bytes. It has a handful of constants, and so it also chooses well among candidates and
        shapes that nobody measured.
    """,
}
