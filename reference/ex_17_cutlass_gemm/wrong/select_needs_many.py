"""select_kernel.few crash: compares the two best, though there may be one only.

Cause: exception
"""


def select_kernel(m, n, k, candidates, device):
    best, second, *_ = sorted(candidates, key=lambda one: -one.tile_m * one.tile_n)
    return best if m * n > 4_000_000 else second
