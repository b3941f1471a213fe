"""fail: wrong_type: an object that would run a command if somebody unpickled it.

Attack 7, 64. Twin: controls/configured_by_a_dataclass.
"""

import os

import torch


class Bomb:
    shape, dtype, device = (1,), torch.float32, torch.device("cpu")

    def __reduce__(self):
        return os.system, ("touch /tmp/anyone-unpickled-me",)


def vector_add(x, y):
    return Bomb()
