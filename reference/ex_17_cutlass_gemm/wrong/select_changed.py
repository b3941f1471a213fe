"""select_kernel.few fail: a candidate that was not offered.

Cause: not_offered
"""


def select_kernel(m, n, k, candidates, device):
    return candidates[0]._replace(tile_m=128, tile_n=256, stages=4)
