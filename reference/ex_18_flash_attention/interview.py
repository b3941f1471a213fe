"""Questions that ex_18 prepares for."""

from grader import Figures, Question

QUESTIONS = (
    Question(
        "How does FlashAttention reduce memory usage?",
        """
        Standard attention writes the Sq × Skv matrix of scores to memory, reads it for the softmax, writes the weights,
        and reads them for the product with V. FlashAttention never stores this matrix. A program keeps a tile of
        queries on the chip and walks along the keys, tile by tile. An online softmax carries three things for every
        query: the maximum so far, the sum of exponentials, and the unfinished output. When the maximum grows, sum and
        output are multiplied by exp(old maximum − new maximum).

        So memory grows with S and not with S². The backward pass stores one number for each query, the log-sum-exp,
        and computes the tiles of weights again. That is more arithmetic and less traffic, and so it is faster: the
        arithmetic is done by tensor cores, and the traffic was the bottleneck.
        """,
        (
            Figures(
                "attention_forward.work",
                "At {case} the weights alone are {weights} bytes. Your forward pass took {extra} bytes beyond inputs "
                "and results.",
                {"weights": "itemsize * B * Hq * Sq * Skv"},
            ),
            Figures(
                "attention_backward.work",
                "Your backward pass took {extra} bytes at {case}; the weights and their gradients are {weights}.",
                {"weights": "2 * itemsize * B * Hq * Sq * Skv"},
            ),
            Figures(
                "attention_forward.speed",
                "At {size} the weights are {weights} bytes. Yours needs none of them, and {time} on {gpu}.",
                {"weights": "itemsize * B * Hq * Sq * Skv"},
            ),
            Figures(
                "attention_forward.speed",
                "At {size} yours takes {time_submission}, attention that stores them {time_torch_eager}.",
            ),
        ),
    ),
)
