"""select_kernel.regret fail: the largest tile, whatever the product.

Cause: one_criterion
"""


def select_kernel(m, n, k, candidates, device):
    return max(candidates, key=lambda one: one.tile_m * one.tile_n)
