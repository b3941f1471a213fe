"""Compute what a GPU computes: rounding, products, reductions, and the functions of libdevice."""
