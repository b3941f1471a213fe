"""Prove that an exercise is sound: what `grade check` does.

The untouched stub is `not_implemented` throughout, the solution and the record kernels earn every point that can be
judged here, every planted mistake is caught by the check that it names, every honest variant passes, no trivial answer
(zeros, ones, the mean, a copy of an input, the next lower precision) passes a correctness check, the oracle is wide, a
seed gives the same inputs twice, and another seed gives others.
"""
