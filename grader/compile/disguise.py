"""Let CPU tensors claim to be on a GPU, so that a launcher takes the branches that it takes there.

Nothing is computed on a GPU. Serves processes of the submission whose calls are recorded, to be interpreted or only
compiled.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from typing import Any, Self

import torch
import triton
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils.dlpack import DLDeviceType
from triton.runtime.autotuner import Autotuner

from grader.calls import streams
from grader.calls.launches import benchmark_once
from grader.compile.cute import on_gpu
from grader.gpus import WARP, Architecture

_CPU = torch.device("cpu")
_GPU = torch.device("cuda", 0)
# CUDA's version, where torch was built without it.
_CUDA = "12.8"

# The answers of a disguised tensor about its device.
_SAID: dict[object, object] = {
    Tensor.device.__get__: _GPU,
    Tensor.is_cuda.__get__: True,  # type: ignore[attr-defined]
    Tensor.is_cpu.__get__: False,  # type: ignore[attr-defined]
    Tensor.get_device: 0,
}
# Methods that would move a tensor to the GPU or into pinned memory: it stays.
_STAYING = frozenset({Tensor.cuda, Tensor.pin_memory})
# What tells the true device of a storage.
_STORAGES: dict[Any, Any] = {kind: kind.device for kind in (torch.UntypedStorage, torch.TypedStorage)}


class Disguise(TorchFunctionMode):
    """A mode: every tensor claims to be on the first GPU, and a request for that GPU gets the CPU.

    within: the modes that are on. A storage is no tensor: no mode sees that it is asked, so it looks here.
    """

    within = 0

    def __enter__(self) -> Self:
        """Begin to claim."""
        Disguise.within += 1
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *raised: object) -> None:
        """End it."""
        Disguise.within -= 1
        super().__exit__(*raised)  # type: ignore[no-untyped-call]

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in _SAID:
            return _SAID[func]
        if func is torch.device:
            # A device is a name only, and harmless: only a tensor that is created on it must stay on the CPU.
            return func(*args, **(kwargs or {}))
        if func in _STAYING:
            return args[0]
        if func is Tensor.__dlpack__:
            return on_gpu(func(args[0]))
        if func is Tensor.__dlpack_device__:
            return DLDeviceType.kDLCUDA, 0
        given = {name: _on_cpu(value) for name, value in (kwargs or {}).items() if name != "pin_memory"}
        if type(given.get("device")) is int:
            given["device"] = _CPU
        if func is Tensor.to and len(args) > 1 and type(args[1]) is int:
            args = (args[0], _CPU, *args[2:])
        return func(*map(_on_cpu, args), **given)


def _on_cpu(value: Any) -> Any:
    named = isinstance(value, str) and value.partition(":")[0] == "cuda"
    return _CPU if named or (isinstance(value, torch.device) and value.type == "cuda") else value


def pretend(target: Architecture) -> None:
    """Let torch.cuda, torch.accelerator and triton.testing describe one GPU of this kind, without a driver."""
    for name, answer in _answers(target).items():
        setattr(torch.cuda, name, answer)
    for name, answer in _accelerator_answers(target).items():
        setattr(torch.accelerator, name, answer)
    vars(torch.cuda.nvtx)["_nvtx"] = _Nvtx()
    for kind in _STORAGES:
        kind.device = property(_device_of)
        kind.is_cuda = property(lambda storage: Disguise.within > 0)
    # Code that torch.compile wrote asks below torch.cuda.
    vars(torch._C)["_cuda_getCurrentRawStream"] = lambda device: streams.STREAMS.current.cuda_stream
    # Launchers tell a GPU of NVIDIA's from others by it.
    torch.version.cuda = torch.version.cuda or _CUDA
    # Launchers that tune by themselves ask for times.
    triton.testing.do_bench = triton.testing.do_bench_cudagraph = benchmark_once
    # Performance models, by which configurations are chosen, ask the driver's own tool.
    triton.testing.nvsmi = _tool_for(target)
    # Other models ask libraries that only drivers bring.
    Autotuner.prune_configs = _without_models_that_fail(Autotuner.prune_configs)
    # It refuses everything but a CUDA stream before any mode sees the call.
    Tensor.record_stream = lambda tensor, stream: None  # type: ignore[method-assign,assignment]


def _device_of(storage: Any) -> torch.device:
    """Return the device that a storage claims to be on. Torch's own code, which copies and saves, is told the truth."""
    asks_itself = sys._getframe(1).f_globals.get("__name__", "").partition(".")[0] == "torch"
    if Disguise.within and not asks_itself:
        return _GPU
    kind = torch.TypedStorage if isinstance(storage, torch.TypedStorage) else torch.UntypedStorage
    found: torch.device = _STORAGES[kind].__get__(storage)
    return found


def _without_models_that_fail(prune: Callable[..., Any]) -> Callable[..., Any]:
    """Return a pruning that drops the performance model where the model fails, and prunes by the other rules alone."""

    def pruned(tuner: Any, *args: Any, **kwargs: Any) -> Any:
        model = tuner.perf_model
        try:
            return prune(tuner, *args, **kwargs)
        except Exception:
            if model is None:
                raise
        tuner.perf_model = None
        try:
            return prune(tuner, *args, **kwargs)
        finally:
            tuner.perf_model = model

    return pruned


def _tool_for(target: Architecture) -> Callable[[list[str]], list[int]]:
    """Return a stand-in for triton.testing.nvsmi. It raises ValueError for an unknown attribute."""
    clocks = {"sm": target.sm_mhz, "graphics": target.sm_mhz, "memory": target.gpu.memory_mhz}
    known = {f"clocks.{kind}.{name}": mhz for kind in ("max", "current") for name, mhz in clocks.items()}

    def answer(attributes: list[str]) -> list[int]:
        for one in attributes:
            if one not in known:
                raise ValueError(f"an attribute must be one of {', '.join(known)}, got {one}")
        return [known[one] for one in attributes]

    return answer


# Launch code has asked for the GPU's properties, in this process.
_asked = [False]


def has_asked() -> bool:
    """Return whether launch code has asked for the GPU's properties: what it does may depend on them."""
    return _asked[0]


def properties(target: Architecture) -> dict[str, int]:
    """Return the GPU's properties under the names of Triton's drivers."""
    _asked[0] = True
    return {
        "max_shared_mem": target.shared_bytes_per_program,
        "max_num_regs": target.registers,
        "multiprocessor_count": target.gpu.multiprocessors,
        "warpSize": WARP,
        "sm_clock_rate": 1000 * target.sm_mhz,
        "mem_clock_rate": 1000 * target.gpu.memory_mhz,
        "mem_bus_width": target.gpu.bus_bits,
    }


class _OnlyGpu:
    """A context that chooses the only GPU, and so changes nothing."""

    def __init__(self, *_: object, **__: object) -> None:
        """Take any arguments."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Restore nothing."""


class _NoGraph:
    """A CUDA graph, which no process makes without a GPU. With one its replays launch nothing that is recorded."""

    def __init__(self, *_: object, **__: object) -> None:
        raise RuntimeError("a CUDA graph is not recorded, with or without a GPU: launch the kernels in every call")


class _Nvtx:
    """The marks of a profiler that does not run."""

    def __getattr__(self, name: str) -> Callable[..., int]:
        return lambda *_, **__: 0


def _answers(target: Architecture) -> dict[str, Callable[..., Any]]:
    capability, gpu = divmod(target.capability, 10), target.gpu
    memory_bytes = gpu.memory_gib << 30
    described = types.SimpleNamespace(
        name=gpu.name,
        # Torch gives a GPU of NVIDIA's its name here.
        gcnArchName=gpu.name,
        is_integrated=0,
        is_multi_gpu_board=0,
        major=capability[0],
        minor=capability[1],
        multi_processor_count=gpu.multiprocessors,
        total_memory=memory_bytes,
        L2_cache_size=gpu.l2_bytes,
        warp_size=WARP,
        max_threads_per_multi_processor=target.threads,
        max_threads_per_block=1024,
        regs_per_multiprocessor=target.registers,
        shared_memory_per_block=48 << 10,
        shared_memory_per_block_optin=target.shared_bytes_per_program,
        shared_memory_per_multiprocessor=target.shared_bytes,
    )

    def told(device: object = None) -> types.SimpleNamespace:  # noqa: ARG001
        _asked[0] = True
        return described

    return {
        "is_available": lambda: True,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "get_device_capability": lambda device=None: capability,
        "get_device_properties": told,
        "get_device_name": lambda device=None: gpu.name,
        "current_stream": lambda device=None: streams.STREAMS.current,
        "default_stream": lambda device=None: streams.DEFAULT,
        "stream": streams.STREAMS.on,
        "set_stream": streams.set_current,
        "Stream": streams.PretendedStream,
        "ExternalStream": streams.ExternalStream,
        "is_current_stream_capturing": lambda: False,
        "CUDAGraph": _NoGraph,
        "Event": streams.PretendedEvent,
        "mem_get_info": lambda device=None: (memory_bytes, memory_bytes),
        # Torch asks whether something is one of these.
        "device": type("device", (_OnlyGpu,), {}),
        "device_of": type("device_of", (_OnlyGpu,), {}),
        "_DeviceGuard": type("_DeviceGuard", (_OnlyGpu,), {}),
        "set_device": lambda device: None,
        "init": lambda: None,
        "synchronize": streams.synchronize,
        "empty_cache": lambda: None,
        "ipc_collect": lambda: None,
        "reset_peak_memory_stats": lambda device=None: None,
        "set_sync_debug_mode": lambda mode: None,
        "get_sync_debug_mode": lambda: 0,
        "clock_rate": lambda device=None: target.sm_mhz,
    }


def _accelerator_answers(target: Architecture) -> dict[str, Callable[..., Any]]:
    """Return the answers of torch.accelerator, which asks of any kind of GPU what torch.cuda asks of NVIDIA's."""
    of_cuda = _answers(target)
    named_alike = ("is_available", "device_count", "current_stream", "set_stream", "synchronize", "empty_cache")
    return {
        **{name: of_cuda[name] for name in named_alike},
        "current_accelerator": lambda check_available=False: torch.device("cuda"),
        "current_device_index": of_cuda["current_device"],
        "set_device_index": of_cuda["set_device"],
        "device_index": of_cuda["device"],
    }
