"""select_kernel.regret fail: the place of a candidate, not the candidate.

Cause: not_offered
"""


def select_kernel(m, n, k, candidates, device):
    return max(range(len(candidates)), key=lambda place: candidates[place].tile_m)
