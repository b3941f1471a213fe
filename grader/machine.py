"""What this machine is and what it can judge."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from grader.record import Environment
from grader.sandbox.server import Mode


@dataclass(frozen=True)
class Gpu:
    """A CUDA device, as nvidia-smi names it."""

    name: str
    driver: str
    capability: str
    uuid: str = "unknown"


def may_have_gpu() -> bool:
    """A quick guess without loading CUDA: is there a driver's device node (Linux, WSL2) and is it not hidden?"""
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES", "0").strip() in ("", "-1")
    return not hidden and (Path("/dev/nvidiactl").exists() or Path("/dev/dxg").exists())


def has_gpu() -> bool:
    """Whether torch can use a CUDA device; imports torch, starts no context."""
    import torch

    return may_have_gpu() and torch.cuda.is_available()


def find_gpu() -> Gpu | None:
    """The first visible GPU, or None. Reads nvidia-smi; a GPU that it cannot describe is called unknown."""
    command = shutil.which("nvidia-smi")
    if command is None:
        return Gpu("unknown", "unknown", "unknown") if may_have_gpu() else None
    query = [command, "--query-gpu=name,driver_version,compute_cap,uuid", "--format=csv,noheader"]
    first = os.environ.get("CUDA_VISIBLE_DEVICES", "").partition(",")[0].strip()
    query += [f"--id={first}"] if first else []
    try:
        lines = subprocess.run(query, capture_output=True, text=True, timeout=20, check=True).stdout.splitlines()
        name, driver, capability, uuid = (field.strip() for field in lines[0].split(","))
    except (OSError, subprocess.SubprocessError, ValueError, IndexError):
        return Gpu("unknown", "unknown", "unknown") if may_have_gpu() else None
    return Gpu(name, driver, capability, uuid)


def environment(mode: Mode, isolation: tuple[str, ...], gpu: Gpu | None) -> Environment:
    """The machine as the record describes it."""
    return Environment(
        mode="gpu" if mode == "gpu" else "interpret",
        gpu=gpu.name if gpu else "",
        driver=gpu.driver if gpu else "",
        capability=gpu.capability if gpu else "",
        python=platform.python_version(),
        torch=version("torch"),
        triton=version("triton"),
        numpy=version("numpy"),
        isolation=isolation,
    )


def version(package: str) -> str:
    """An installed package's version, or an empty string."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""
