"""select_kernel.regret fail: the first of the candidates, which come in any order.

Cause: order_followed
"""


def select_kernel(m, n, k, candidates, device):
    return candidates[0]
