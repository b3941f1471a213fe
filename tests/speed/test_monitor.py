"""Readings of the GPU: taken while a block runs where the driver gives them, and never a reason to fail."""

from __future__ import annotations

import sys
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from grader.record.speed import GpuState, Span
from grader.speed.monitor import Readings, read_throughout


def driver(**changes: Any) -> SimpleNamespace:
    """A driver that answers; `read` is set once it was asked for everything twice."""
    read, reasons = threading.Event(), iter([0x1, 0x4 | 0x40])

    def next_reasons(handle: object) -> int:
        found = next(reasons, None)
        if found is None:
            read.set()
        return found or 0

    given = {
        "NVML_CLOCK_SM": 1,
        "NVML_CLOCK_MEM": 2,
        "NVML_TEMPERATURE_GPU": 0,
        "nvmlInit": lambda: None,
        "nvmlDeviceGetHandleByUUID": lambda uuid: uuid,
        "nvmlDeviceGetClockInfo": lambda handle, kind: 1000 * kind,
        "nvmlDeviceGetTemperature": lambda handle, kind: 63,
        "nvmlDeviceGetPowerUsage": lambda handle: 500_017,
        "nvmlDeviceGetCurrentClocksEventReasons": next_reasons,
        "read": read,
    }
    return SimpleNamespace(**{**given, **changes})


def refuses(*args: object) -> Any:
    raise RuntimeError("not supported")


def test_without_a_driver_s_library_there_are_no_readings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with read_throughout("GPU-7") as readings:
        pass
    assert readings.state() is None


@pytest.mark.parametrize(
    "function", ["nvmlInit", "nvmlDeviceGetHandleByUUID", "nvmlDeviceGetClockInfo", "nvmlDeviceGetPowerUsage"]
)
def test_a_driver_that_refuses_costs_the_readings_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch, function: str
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", driver(**{function: refuses}))
    with read_throughout("GPU-7") as readings:
        pass
    assert readings.state() is None


def test_the_gpu_is_read_while_the_block_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    nvml = driver()
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    before = threading.active_count()
    with read_throughout("GPU-7") as readings:
        assert nvml.read.wait(60)
    assert threading.active_count() == before
    state = readings.state()
    assert state is not None
    assert state.samples >= 2
    assert (state.sm_mhz, state.memory_mhz) == (Span(1000, 1000), Span(2000, 2000))
    assert (state.temperature_c, state.power_w) == (Span(63, 63), Span(500.0, 500.0))


def test_only_what_slows_a_gpu_down_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    nvml = driver()
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    with read_throughout("GPU-7") as readings:
        assert nvml.read.wait(60)
    assert readings.throttled == {"power limit", "thermal slowdown (hardware)"}


def test_a_block_that_fails_fails_as_it_would_have() -> None:
    with pytest.raises(ZeroDivisionError), read_throughout("GPU-7"):
        raise ZeroDivisionError


def test_readings_become_spans() -> None:
    readings = Readings([1980.0, 1755.0], [3201.0, 3201.0], [41.0, 63.0], [500.0, 212.5], {"power limit"})
    assert readings.state() == GpuState(
        Span(1755.0, 1980.0), Span(3201.0, 3201.0), Span(41.0, 63.0), Span(212.5, 500.0), ("power limit",), 2
    )
