"""select_kernel.regret fail: the tile that reaches least past the product, which is always a small one.

Cause: cost_misjudged
"""

from math import ceil


def select_kernel(m, n, k, candidates, device):
    def computed(one):
        return ceil(m / one.tile_m) * one.tile_m * ceil(n / one.tile_n) * one.tile_n

    return min(candidates, key=computed)
