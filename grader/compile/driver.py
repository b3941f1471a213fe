"""A stand-in for Triton's driver, where no GPU is used: answer the questions of launchers, and launch nothing."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType, SimpleNamespace
from typing import Any

import torch

from grader.compile.disguise import properties
from grader.gpus import Architecture


def stand_in(target: Architecture, registers: Mapping[bytes, int] = MappingProxyType({}), number: int = 0) -> Any:
    """Return a driver for one GPU of this kind, whose launches do nothing.

    registers: of one thread, by the kernel's binary. number: of the device; Triton keeps the kernels of each number
    apart.
    """
    from triton.backends.compiler import GPUTarget
    from triton.backends.driver import DriverBase

    class Launcher:
        def __init__(self, *_: object) -> None:
            pass

        def __call__(self, *_: object, **__: object) -> None:
            pass

    class StandIn(DriverBase):  # type: ignore[misc]
        launcher_cls = Launcher
        utils = SimpleNamespace(
            get_device_properties=lambda device: properties(target),
            # (module, function, registers, spills, most threads)
            load_binary=lambda name, binary, shared, device: (1, 1, registers.get(binary, 0), 0, 1024),
            set_printf_fifo_size=lambda size: None,
        )

        @staticmethod
        def is_active() -> bool:
            return True

        def map_python_to_cpp_type(self, ty: str) -> str:
            return ty

        def get_current_target(self) -> Any:
            return GPUTarget("cuda", target.capability, 32)

        def get_active_torch_device(self) -> torch.device:
            return torch.device("cuda:0")

        def get_device_interface(self) -> Any:
            return torch.cuda

        def get_device_capability(self, *_: object) -> tuple[int, int]:
            return divmod(target.capability, 10)

        def get_current_device(self) -> int:
            return number

        def set_current_device(self, device: int) -> None:
            pass

        def get_current_stream(self, *_: object) -> int:
            return 0

        def get_benchmarker(self) -> Any:
            return lambda kernel_call, quantiles=None, **_: [0.0] * 3

        def get_empty_cache_for_benchmark(self) -> torch.Tensor:
            return torch.empty(0)

        def clear_cache(self, cache: object) -> None:
            pass

    return StandIn()
