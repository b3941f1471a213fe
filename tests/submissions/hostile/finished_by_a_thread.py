"""fail: unwritten: a thread fills the result after the return.

Attack 1, 2, 24. Twin: controls/helper_thread_finished.
"""

import threading
import time

import torch


def vector_add(x, y):
    z = torch.empty_like(x)

    def later():
        time.sleep(0.3)
        torch.add(x, y, out=z)

    threading.Thread(target=later, daemon=True).start()
    return z
