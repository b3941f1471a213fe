"""Read the GPU's clocks, temperature, power and reasons for slowing down, in a thread, while kernels are timed."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from grader.record.speed import GpuState, Span

_EVERY_S = 0.02
# Idle clocks and requested limits of a GPU are not reasons for slowness.
_SLOWING = {
    0x4: "power limit",
    0x8: "hardware slowdown",
    0x20: "thermal slowdown (software)",
    0x40: "thermal slowdown (hardware)",
    0x80: "power brake",
}


@dataclass
class Readings:
    """All readings so far."""

    sm_mhz: list[float] = field(default_factory=list)
    memory_mhz: list[float] = field(default_factory=list)
    temperature_c: list[float] = field(default_factory=list)
    power_w: list[float] = field(default_factory=list)
    throttled: set[str] = field(default_factory=set)

    def state(self) -> GpuState | None:
        """Return the readings as the record holds them; None without any."""
        if not self.power_w:
            return None
        return GpuState(
            sm_mhz=_span(self.sm_mhz),
            memory_mhz=_span(self.memory_mhz),
            temperature_c=_span(self.temperature_c),
            power_w=_span(self.power_w),
            throttled=tuple(sorted(self.throttled)),
            samples=len(self.power_w),
        )


def _span(values: list[float]) -> Span:
    return Span(min(values), max(values))


@contextmanager
def read_throughout(uuid: str) -> Iterator[Readings]:
    """Read the GPU of that UUID while the block runs. Without NVML, or where it refuses, there are no readings."""
    readings, stop = Readings(), threading.Event()
    thread = None
    with contextlib.suppress(Exception):
        # A driver that does not answer costs the readings, never the grading.
        import pynvml

        pynvml.nvmlInit()
        handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
        thread = threading.Thread(target=_read, args=(pynvml, handle, readings, stop), daemon=True)
        thread.start()
    try:
        yield readings
    finally:
        stop.set()
        if thread is not None:
            thread.join(1)


def _read(nvml: Any, handle: Any, readings: Readings, stop: threading.Event) -> None:
    with contextlib.suppress(Exception):
        while not stop.wait(_EVERY_S):
            readings.sm_mhz.append(nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM))
            readings.memory_mhz.append(nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_MEM))
            readings.temperature_c.append(nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU))
            readings.power_w.append(round(nvml.nvmlDeviceGetPowerUsage(handle) / 1000, 1))
            reasons = nvml.nvmlDeviceGetCurrentClocksEventReasons(handle)
            readings.throttled |= {words for bit, words in _SLOWING.items() if reasons & bit}
