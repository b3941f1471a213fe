"""Simulates the tiles on the multiprocessors one after another, instead of counting waves."""

import heapq
from math import ceil


def select_kernel(m, n, k, candidates, device):
    return min(sorted(candidates), key=lambda one: finished(m, n, k, one, device))


def finished(m, n, k, one, device):
    """Return the time at which the last cluster is done, in microseconds."""
    size = one.cluster_m * one.cluster_n
    count = ceil(m / (one.tile_m * one.cluster_m)) * ceil(n / (one.tile_n * one.cluster_n))
    slots = [0.0] * (device.sm_count // size)
    each = duration(one, k, device, size * min(count, len(slots)))
    for _ in range(count % len(slots) or len(slots)):
        heapq.heapreplace(slots, slots[0] + each)
    whole = (count - 1) // len(slots) * each
    return whole + max(slots)


def duration(one, k, device, busy):
    """Return the time of one tile on its multiprocessor; `busy` of them share L2 and memory."""
    area = one.tile_m * one.tile_n
    efficiency = min(0.8, 0.45 + 0.15 * (area / 4096 - 1) ** 0.5)
    arithmetic = 2 * area * one.tile_k / (device.peak_tflops * 1e6 / device.sm_count * efficiency)
    brought = 2 * one.tile_k * (one.tile_m / one.cluster_n + one.tile_n / one.cluster_m) * busy
    store = 2 * area * busy / (device.peak_tbps * 1e6)
    overlapped = 0.5 if one.schedule == "pingpong" else 1.0
    return ceil(k / one.tile_k) * max(arithmetic, brought / 5.5e6) + overlapped * store + 0.5
