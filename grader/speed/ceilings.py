"""Measure the best rates of the GPU, once per GPU: the roofs of the roofline, and the floor under every time."""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import torch

from grader.files import write_atomically
from grader.protocol.baseline_messages import Gauged
from grader.protocol.decode import DecodeError, decode

_DTYPES = ("float16", "bfloat16", "float32")
_REPEATS = 5


def gauge(device: torch.device) -> Gauged:
    """Return the GPU's sizes and ceilings; from the cache if this very GPU was measured with this torch."""
    properties = torch.cuda.get_device_properties(device)
    name = re.sub(r"[^\w.-]", "_", f"{properties.name}-{properties.uuid}-torch{torch.__version__}")
    path = _cache_folder() / f"{name}.json"
    try:
        return decode(Gauged, json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, DecodeError):
        found = _measure(device)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, json.dumps(vars(found)))
    except OSError:
        # A home without write access only costs a second at every start.
        return found
    return found


def _cache_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "grade" / "ceilings"


def _measure(device: torch.device) -> Gauged:
    properties = torch.cuda.get_device_properties(device)
    # Large enough for the caches not to matter, small enough for any GPU.
    nbytes = min(1 << 30, properties.total_memory // 8) // 1024 * 1024
    source = torch.empty(nbytes // 8, dtype=torch.int64, device=device).random_()
    target = torch.empty_like(source)
    copied = 2 * nbytes / _best_seconds(lambda: target.copy_(source)) / 1e12
    summed = nbytes / _best_seconds(lambda: source.view(64, -1).sum(1)) / 1e12
    return Gauged(
        l2_bytes=int(properties.L2_cache_size),
        memory_bytes=int(properties.total_memory),
        copy_tbps=round(copied, 4),
        read_tbps=round(max(copied, summed), 4),
        tflops=_rates(device),
    )


def _rates(device: torch.device) -> dict[str, float]:
    """Return the most TFLOP/s by type, without the types that this GPU, or its torch, cannot multiply."""
    rates = {}
    for name in _DTYPES:
        with contextlib.suppress(RuntimeError):
            rates[name] = round(_product_rate(getattr(torch, name), device), 2)
    return rates


def _product_rate(dtype: torch.dtype, device: torch.device) -> float:
    """Return the most TFLOP/s over a few sizes: the largest ones run into the power limit."""
    best = 0.0
    for size in (2048, 4096, 8192) if dtype.itemsize == 2 else (2048, 4096):
        a, b = (torch.randn(size, size, dtype=dtype, device=device) for _ in range(2))
        best = max(best, 2 * size**3 / _best_seconds(lambda a=a, b=b: torch.mm(a, b)) / 1e12)  # type: ignore[misc]
    return best


def _best_seconds(work: Callable[[], object]) -> float:
    work()
    best = float("inf")
    for _ in range(_REPEATS):
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        start.record()
        work()
        stop.record()
        torch.cuda.synchronize()
        best = min(best, float(start.elapsed_time(stop)) / 1e3)
    return best
