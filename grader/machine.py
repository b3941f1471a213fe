"""Describe this machine: its GPUs, its packages, and which parts it can judge.

Reads environment variables, the driver and installed packages. Starts no process and runs no submission.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grader.exercise.abilities import Abilities
from grader.exercise.cases import FAR_APART
from grader.exercise.model import Package, Part
from grader.gpus import known
from grader.record.record import Environment
from grader.sandbox.server import Mode

# Two processes hold two such tensors of 4 GiB each, and earlier calls' as well.
_FAR_APART_GIB = 64
# What a grading takes for one such case, beside the memory that its processes hold already.
_FREE_FAR_APART_GIB = 60


@dataclass(frozen=True)
class CudaDevice:
    """A CUDA device, as the driver names it."""

    name: str
    driver: str
    capability: str
    uuid: str = "unknown"


def may_have_gpu() -> bool:
    """Guess, without loading CUDA, whether there is a GPU that is not hidden.

    The sign is the driver's device node (Linux, WSL2).
    """
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES", "0").strip() in ("", "-1")
    return not hidden and (Path("/dev/nvidiactl").exists() or Path("/dev/dxg").exists())


def has_gpu() -> bool:
    """Return whether torch can use a CUDA device. Imports torch, starts no context."""
    import torch

    return may_have_gpu() and torch.cuda.is_available()


def visible_gpus() -> tuple[str, ...]:
    """Return the GPUs that may be used, as CUDA_VISIBLE_DEVICES names them; () without any."""
    if not may_have_gpu():
        return ()
    if named := os.environ.get("CUDA_VISIBLE_DEVICES"):
        return tuple(filter(None, map(str.strip, named.split(","))))
    try:
        import pynvml

        pynvml.nvmlInit()
        return tuple(map(str, range(pynvml.nvmlDeviceGetCount())))
    except Exception:
        # As in find_gpu: if the driver cannot count them, there may be one.
        return ("0",)


def find_gpu() -> CudaDevice | None:
    """Return the first visible GPU, or None.

    Asks the driver through NVML; a GPU that NVML cannot describe is called "unknown".
    """
    if not may_have_gpu():
        return None
    try:
        import pynvml

        pynvml.nvmlInit()
        gpu = _first_handle(pynvml)
        major, minor = pynvml.nvmlDeviceGetCudaComputeCapability(gpu)
        name, uuid = pynvml.nvmlDeviceGetName(gpu), pynvml.nvmlDeviceGetUUID(gpu)
        return CudaDevice(name, pynvml.nvmlSystemGetDriverVersion(), f"{major}.{minor}", uuid)
    except Exception:
        # A driver may raise anything. A GPU that it cannot describe may still run.
        return CudaDevice("unknown", "unknown", "unknown")


def abilities(*, gpu: bool) -> Abilities:
    """Return what this machine can judge, on its GPU or on the CPU.

    It may lack data types without instructions, and tensors whose slices lie far apart: several processes hold some.
    An unknown GPU is taken to lack nothing.
    """
    return Abilities(gpu, _lacked_values(gpu=gpu))


def _lacked_values(*, gpu: bool) -> tuple[str, ...]:
    if not gpu:
        return () if _has_addresses() else (FAR_APART,)
    found = find_gpu()
    architecture = known(found.capability) if found else None
    if architecture is None:
        return ()
    return (*architecture.lacks, *([FAR_APART] if architecture.gpu.memory_gib < _FAR_APART_GIB else []))


def crowded_values() -> tuple[str, ...]:
    """Return the values of a case's axes for which the GPU's free memory is too small just now; () if unknown."""
    memory = _gpu_memory()
    return (FAR_APART,) if memory is not None and memory.free < _FREE_FAR_APART_GIB << 30 else ()


def memory_is_taken() -> bool:
    """Return whether most of the GPU's memory is in use; False if unknown.

    Ask when no process of the submission holds any: then others do.
    """
    memory = _gpu_memory()
    return memory is not None and 2 * memory.free < memory.total


def _gpu_memory() -> Any:
    """Return NVML's figures of the first visible GPU's memory, in bytes; None if the driver does not tell."""
    try:
        import pynvml

        pynvml.nvmlInit()
        return pynvml.nvmlDeviceGetMemoryInfo(_first_handle(pynvml))
    except Exception:
        return None


def _first_handle(pynvml: Any) -> Any:
    """Return NVML's handle of the first visible GPU: CUDA_VISIBLE_DEVICES holds places, as NVML's, or UUIDs."""
    first = os.environ.get("CUDA_VISIBLE_DEVICES", "").partition(",")[0].strip() or "0"
    find = pynvml.nvmlDeviceGetHandleByIndex if first.isdigit() else pynvml.nvmlDeviceGetHandleByUUID
    return find(int(first) if first.isdigit() else first)


def _has_addresses() -> bool:
    """Return whether a process may map tensors far apart: a limit (ulimit -v), or strict accounting, may forbid it."""
    import torch

    from grader.exercise.tensors import unwritten

    try:
        unwritten(_FAR_APART_GIB << 30, torch.uint8, torch.device("cpu"))
    except (OSError, RuntimeError):
        return False
    return True


def is_root() -> bool:
    """Return whether the grader runs as root, so that submissions get users of their own."""
    return os.getuid() == 0


def container() -> str:
    """Return the runtime of the container around this process; '' outside any.

    Known are "docker", "podman" and "kubernetes"; every other is called "container".
    """
    if "KUBERNETES_SERVICE_HOST" in os.environ:
        return "kubernetes"
    if Path("/run/.containerenv").exists():
        return "podman"
    if Path("/.dockerenv").exists():
        return "docker"
    return "container" if os.environ.get("container") else ""  # noqa: SIM112  systemd and LXC write it small


def environment(mode: Mode, isolation: tuple[str, ...], gpu: CudaDevice | None) -> Environment:
    """Return the machine as the record describes it."""
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


def missing_packages(part: Part) -> tuple[Package, ...]:
    """Return the packages that a part needs and that are not installed here."""
    return tuple(package for package in part.needs if importlib.util.find_spec(package.module) is None)


def why_not_judged(part: Part) -> str:
    """Return which missing package keeps a part from being judged, and the command that installs it.

    '' if none is missing.
    """
    missing = missing_packages(part)
    return f"{missing[0].module} is not installed: {missing[0].command}" if missing else ""


def version(package: str) -> str:
    """Return an installed package's version, or ''."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""
