"""Looks for accesses outside tensors and for races, whatever the answers are: `grade sanitize`."""
