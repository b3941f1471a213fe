"""List kinds of causes that only attention can have. A specification adds those of its parts to `Exercise.kinds`.

They are here and not beside an exercise because the diagnosis names them, and several exercises have them: edits
change a causal mask, a scale or the head that a program reads, and probes change what lies past a sequence's length.
"""

from __future__ import annotations

from grader.exercise.causes import NO_ACCESS, Kind

# For parts that weigh values by a softmax of scaled products.
ATTENTION_KINDS = (
    Kind(
        "scale_missing",
        "a scale that is missing, or applied twice",
        "Which products does the scale multiply?",
        families=("reduction",),
        explains=NO_ACCESS,
    ),
    Kind(
        "scale_inverted",
        "a scale that is inverted",
        "Does the default scale grow or shrink with D? Its exponent has a sign.",
        families=("reduction",),
        explains=NO_ACCESS,
    ),
    Kind(
        "scale_ignored",
        "a scale that is ignored",
        "When does the code take the default? It must use every given number as it is, 0 too.",
        families=("reduction",),
        explains=NO_ACCESS,
    ),
    Kind(
        "scaled_after_mask",
        "logits that are masked before they are scaled",
        "-inf times a negative scale is +inf, and times 0 it is NaN: scale first, then mask.",
    ),
    Kind(
        "scaled_maximum",
        "a maximum of logits that are not scaled yet",
        "Which logit is the largest if scale < 0?",
        families=("reduction",),
        explains=NO_ACCESS,
    ),
    Kind(
        "heads_mapping",
        "query heads that read the wrong kv head",
        "Neighbouring query heads share a kv head: write down the kv head of each, for 4 query heads and 2 kv heads.",
        families=("reduction", "addresses"),
        in_launch_code=False,
    ),
    Kind(
        "not_normalised",
        "rows that are not divided by their sum",
        "Which step divides by the sum, and when?",
        families=("reduction",),
        particular=True,
    ),
    Kind(
        "delta_missing",
        "a delta that is missing or has the wrong sign",
        "The gradient of a softmax p is ds = p ∘ (dp - delta), with one delta for each row.",
        families=("reduction",),
        particular=True,
    ),
)

# For parts in which a row sees only the keys up to its own.
CAUSAL_MASK_KINDS = (
    Kind(
        "causal_missing",
        "a missing causal mask",
        "Which keys may query i see, and what are the others' logits?",
        families=("reduction",),
        particular=True,
    ),
    Kind(
        "causal_alignment",
        "a causal mask that is aligned with the first key instead of the last",
        "Which keys does the last query see if there are more keys than queries?",
        families=("reduction",),
        particular=True,
    ),
    Kind(
        "causal_loop",
        "a loop over keys that ends before the last key that a causal row sees",
        "Where does the loop end for queries first … first + BLOCK - 1? The last of them sees the most keys.",
        families=("reduction",),
        particular=True,
    ),
)

# For parts that read sequences shorter than the memory that holds them.
LENGTH_KINDS = (
    Kind(
        "past_length",
        "a read past the length of a sequence",
        "What lies past the length may be NaN, and 0 · NaN is NaN: which loads must skip it?",
        particular=True,
    ),
)
