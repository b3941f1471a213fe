"""A GPU's ceilings are measured once: kept per GPU and torch, measured again where what was kept cannot be read."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from grader.protocol.baseline_messages import Gauged
from grader.speed import ceilings

DEVICE = torch.device("cuda")
MEASURED = Gauged(50 << 20, 1 << 37, 4.0, 4.4, {"float32": 51.0, "float16": 700.0})


@pytest.fixture
def measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[torch.device]:
    """The measurements made so far, on a GPU that every machine has; nothing is kept yet."""
    made: list[torch.device] = []

    def measure(device: torch.device) -> Gauged:
        made.append(device)
        return MEASURED

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(ceilings, "_measure", measure)
    plug_in(monkeypatch, "H200", "GPU-7")
    return made


def plug_in(monkeypatch: pytest.MonkeyPatch, name: str, uuid: str) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: SimpleNamespace(name=name, uuid=uuid))


def kept(folder: Path) -> Path:
    (path,) = folder.rglob("*.json")
    return path


def test_a_gpu_is_measured_once(measured: list[torch.device]) -> None:
    assert [ceilings.gauge(DEVICE) for _ in range(3)] == [MEASURED] * 3
    assert measured == [DEVICE]


def test_what_was_kept_is_what_is_read(measured: list[torch.device], tmp_path: Path) -> None:
    ceilings.gauge(DEVICE)
    other = Gauged(1, 2, 3.0, 4.0, {"float16": 5.0})
    kept(tmp_path).write_text(json.dumps(asdict(other)))
    assert ceilings.gauge(DEVICE) == other
    assert len(measured) == 1


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", "7", '{"l2_bytes": 1}', json.dumps({**asdict(MEASURED), "copy_tbps": "fast"})]
)
def test_what_cannot_be_read_is_measured_again_and_mended(
    measured: list[torch.device], tmp_path: Path, text: str
) -> None:
    ceilings.gauge(DEVICE)
    kept(tmp_path).write_text(text)
    assert ceilings.gauge(DEVICE) == MEASURED
    assert ceilings.gauge(DEVICE) == MEASURED
    assert len(measured) == 2


@pytest.mark.parametrize(
    "change",
    [
        lambda patch: plug_in(patch, "H200", "GPU-8"),
        lambda patch: plug_in(patch, "H100", "GPU-7"),
        lambda patch: patch.setattr(torch, "__version__", "99.0"),
    ],
    ids=["another GPU of its kind", "another kind", "another torch"],
)
def test_another_gpu_or_torch_is_measured_for_itself(
    measured: list[torch.device], monkeypatch: pytest.MonkeyPatch, change: Callable[[pytest.MonkeyPatch], None]
) -> None:
    ceilings.gauge(DEVICE)
    change(monkeypatch)
    ceilings.gauge(DEVICE)
    assert len(measured) == 2


def test_a_home_that_cannot_be_written_costs_a_measurement_each_time(
    measured: list[torch.device], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert [ceilings.gauge(DEVICE) for _ in range(2)] == [MEASURED] * 2
    assert len(measured) == 2


def test_no_name_of_a_gpu_leads_out_of_the_folder(
    measured: list[torch.device], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plug_in(monkeypatch, "../../NVIDIA H200 / x", "GPU-7")
    ceilings.gauge(DEVICE)
    assert kept(tmp_path).parent == tmp_path / "grade" / "ceilings"


def test_nothing_unfinished_is_left_behind(measured: list[torch.device], tmp_path: Path) -> None:
    ceilings.gauge(DEVICE)
    assert [path.suffix for path in tmp_path.rglob("*") if path.is_file()] == [".json"]


def test_a_type_that_the_gpu_cannot_multiply_has_no_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    def products(dtype: torch.dtype, device: torch.device) -> float:
        if dtype == torch.bfloat16:
            raise RuntimeError("CUBLAS_STATUS_NOT_SUPPORTED")
        return 8.125

    monkeypatch.setattr(ceilings, "_product_rate", products)
    assert ceilings._rates(DEVICE) == {"float16": 8.12, "float32": 8.12}
