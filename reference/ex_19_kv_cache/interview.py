"""Questions that ex_19 prepares for."""

from grader import Figures, Question

QUESTIONS = (
    Question(
        "Explain KV-cache optimisation for autoregressive generation.",
        """
        A new token attends to all earlier tokens, and their keys and values never change. Without a cache each step
        computes them again, so a step costs as much as the whole prompt did. With a cache a step appends one key and
        one value for each head, and its single query walks over what is stored: the cost grows with S and not with S².

        Now each step reads the whole cache for very little arithmetic, so it is bound by memory, and the cache decides
        how many sequences fit. Therefore query heads share keys and values (grouped-query attention), the context of a
        sequence is split over many programs, the cache lies in pages so that nothing is reserved and nothing lies
        idle, and its numbers have fewer bits. Reading an element once, for all query heads that share it, is the first
        of these.
        """,
        (
            Figures(
                "decode_attention.traffic",
                "One step at {case} loaded {loaded} bytes; the used cache is {cache}. A separate cache for each query "
                "head has {separate}.",
                {
                    "cache": "2 * itemsize * B * Hkv * (S - unused) * D",
                    "separate": "2 * itemsize * B * Hkv * group * (S - unused) * D",
                },
            ),
            Figures(
                "decode_attention.speed",
                "One step at {size} does {intensity} FLOP per byte, so it is {bound}-bound: {time} on {gpu}.",
            ),
            Figures(
                "decode_attention.speed",
                "At {size} your step takes {time_submission}, one without a cache {time_naive}.",
            ),
        ),
    ),
)
