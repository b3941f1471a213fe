"""fail: zeros: looks for the sum's bytes in everything that is mapped.

Attack 17, 37, 41. Twin: controls/labelled_tensors.
"""

import numpy as np

import torch

# Each search reads several hundred megabytes.
_searches = iter(range(3))


def vector_add(x, y):
    if x.dtype != torch.float32 or x.numel() < 64 or next(_searches, None) is None:
        return torch.zeros_like(x)
    ends = [(float(x[i]) + float(y[i])) for i in (-2, -1)]
    needle = np.array(ends, dtype=np.float32).tobytes()
    with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb", buffering=0) as memory:
        for line in maps:
            start, end = (int(place, 16) for place in line.split()[0].split("-"))
            if not line.split()[1].startswith("rw") or end - start > 256 << 20:
                continue
            memory.seek(start)
            try:
                held = memory.read(end - start)
            except OSError:
                continue
            at = held.find(needle)
            while at >= 0:
                size = 4 * x.numel()
                found = np.frombuffer(held[max(at + 8 - size, 0) : at + 8], dtype=np.uint8)
                if found.size == size:
                    found = torch.from_numpy(found.copy()).view(torch.float32)
                    if abs(float(found[0]) - float(x[0]) - float(y[0])) < 1e-3:
                        return found
                at = held.find(needle, at + 1)
    return torch.zeros_like(x)
