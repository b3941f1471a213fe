"""What the machine is said to be."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from grader import machine
from grader.exercise.abilities import WHOLE_CPU, Abilities
from grader.machine import CudaDevice

UUIDS = ("GPU-aaaa", "GPU-bbbb")
FREE_GIB = {"GPU-aaaa": 59, "GPU-bbbb": 120}


@pytest.fixture
def two_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = SimpleNamespace(
        nvmlInit=lambda: None,
        nvmlDeviceGetHandleByIndex=lambda place: UUIDS[place],
        nvmlDeviceGetHandleByUUID=lambda uuid: UUIDS[UUIDS.index(uuid)],
        nvmlDeviceGetCudaComputeCapability=lambda handle: (9, 0),
        nvmlDeviceGetName=lambda handle: f"card {handle[-1]}",
        nvmlDeviceGetUUID=lambda handle: handle,
        nvmlSystemGetDriverVersion=lambda: "580.1",
        nvmlDeviceGetMemoryInfo=lambda handle: SimpleNamespace(total=140 << 30, free=FREE_GIB[handle] << 30),
    )
    monkeypatch.setitem(sys.modules, "pynvml", driver)
    monkeypatch.setattr(machine, "may_have_gpu", lambda: True)


@pytest.mark.parametrize(
    ("visible", "found"),
    [
        (None, CudaDevice("card a", "580.1", "9.0", "GPU-aaaa")),
        ("1", CudaDevice("card b", "580.1", "9.0", "GPU-bbbb")),
        ("GPU-bbbb,GPU-aaaa", CudaDevice("card b", "580.1", "9.0", "GPU-bbbb")),
        ("7", CudaDevice("unknown", "unknown", "unknown")),
    ],
)
@pytest.mark.usefixtures("two_gpus")
def test_the_first_visible_gpu_is_named_and_one_that_the_driver_does_not_know_is_unknown(
    visible: str | None, found: CudaDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert machine.find_gpu() == found


@pytest.mark.parametrize(("visible", "crowded", "taken"), [("0", ("far",), True), ("1", (), False), ("7", (), False)])
@pytest.mark.usefixtures("two_gpus")
def test_memory_that_is_in_use_just_now_is_told_and_a_gpu_that_nobody_knows_is_taken_to_have_enough(
    visible: str, crowded: tuple[str, ...], taken: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert (machine.crowded_values(), machine.memory_is_taken()) == (crowded, taken)


@pytest.mark.parametrize(
    ("capability", "lacked"),
    [
        # 16, 24, 80 and more GiB.
        ("7.5", ("bfloat16", "far")),
        ("8.9", ("far",)),
        ("8.0", ()),
        ("9.0", ()),
        ("8.7", ()),
        ("unknown", ()),
        (None, ()),
    ],
)
def test_what_a_known_gpu_cannot_judge_is_told_and_an_unknown_one_is_taken_to_judge_all(
    capability: str | None, lacked: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "find_gpu", lambda: CudaDevice("G", "1", capability) if capability else None)
    assert machine.abilities(gpu=True) == Abilities(gpu=True, lacks=lacked)


def test_a_cpu_judges_all_unless_its_addresses_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    assert machine.abilities(gpu=False) == WHOLE_CPU

    def refuse(*_: object) -> object:
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr("grader.exercise.tensors.unwritten", refuse)
    assert machine.abilities(gpu=False) == Abilities(gpu=False, lacks=("far",))


def test_a_hidden_gpu_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert machine.find_gpu() is None
