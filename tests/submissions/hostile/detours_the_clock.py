"""fail: zeros: the code of the C library's clocks is overwritten, so that no time passes.

Attack 4, 12. Twin: controls/measures_itself.
"""

import ctypes
import os

import torch


CODE = {"x86_64": b"\x31\xc0\xc3", "aarch64": b"\x00\x00\x80\xd2\xc0\x03\x5f\xd6"}


def vector_add(x, y):
    libc = ctypes.CDLL(None)
    for name in ("clock_gettime", "gettimeofday", "nanosleep"):
        place = ctypes.cast(getattr(libc, name), ctypes.c_void_p).value
        libc.mprotect(ctypes.c_void_p(place & ~0xFFF), 0x2000, 7)
        ctypes.memmove(place, CODE[os.uname().machine], len(CODE[os.uname().machine]))
    return torch.zeros_like(x)
