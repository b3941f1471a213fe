"""Know the tensors that would lie in the host's memory on a GPU: those that launch code makes without a device.

On a machine without a GPU every tensor lies there, so only this class knows the difference.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from grader.calls.modes import tensors_in, unobserved
from grader.calls.storage import has_storage
from grader.recorder.storages import Storages

# They make a tensor on torch's default device unless a call names another.
_FACTORIES = frozenset(
    getattr(torch, name)
    for name in (
        *("empty", "empty_permuted", "empty_strided", "zeros", "ones", "full", "eye", "scalar_tensor"),
        *("arange", "linspace", "logspace", "rand", "randn", "randint", "randperm", "tensor", "as_tensor"),
    )
)


class HostMemory(TorchFunctionMode):
    """Notes, while it is entered, which storages lie in the host's memory.

    line: returns the line that is running. on_gpu: inputs lie on a GPU, so none of them has the device "cpu". Without a
    GPU, launch code may get "cpu" from an input, as x.device.type.
    """

    def __init__(self, line: Callable[[], int], *, on_gpu: bool) -> None:
        super().__init__()
        self._line = line
        self._nowhere = (None, "cpu") if on_gpu else (None,)
        self._storages = Storages()
        # By storage number: the function that made it, and its line.
        self._makers: dict[int, tuple[str, int]] = {}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        named = kwargs or {}
        result = func(*args, **named)
        name = getattr(func, "__name__", "")
        with unobserved():
            for tensor in tensors_in(result):
                if func in _FACTORIES and not tensors_in(args):
                    self._note(tensor, None if self._is_placed(named) else (f"torch.{name}", self._line()))
                elif name in ("cuda", "type_as") or (name == "to" and self._names_device(args[1:], named)):
                    self._note(tensor, None)
                elif self._storages.number_of(tensor) is None and not self._is_placed(named):
                    self._note(tensor, self._maker_of_all(tensors_in((args, tuple(named.values())))))
        return result

    def maker_of(self, tensor: Tensor) -> tuple[str, int] | None:
        """Return the function that made a tensor in the host's memory, and its line; None for any other tensor."""
        number = self._storages.number_of(tensor)
        return None if number is None else self._makers.get(number)

    def _maker_of_all(self, tensors: list[Tensor]) -> tuple[str, int] | None:
        """Return the maker of the first tensor if all of them lie in the host's memory."""
        makers = [self.maker_of(one) for one in tensors]
        return makers[0] if makers and all(makers) else None

    def _note(self, tensor: Tensor, maker: tuple[str, int] | None) -> None:
        if not has_storage(tensor) or (maker is None and self.maker_of(tensor) is None):
            return
        for number in self._storages.forget_dead():
            self._makers.pop(number, None)
        number = self._storages.add(tensor)
        if maker is not None:
            self._makers[number] = maker

    def _names_device(self, given: Sequence[Any], named: dict[str, Any]) -> bool:
        """Return whether Tensor.to gets a device that kernels reach, or a tensor on one."""
        if given and isinstance(given[0], str):
            return given[0] not in self._nowhere
        return (bool(given) and isinstance(given[0], torch.device | Tensor)) or self._names_one(named)

    def _is_placed(self, named: dict[str, Any]) -> bool:
        """Return whether a call names a device that kernels reach, or launch code has set a default device.

        The device of `with torch.device(…):` is passed with the call.
        """
        if named.get("device") is not None:
            return self._names_one(named)
        whole_thread = getattr(torch, "_GLOBAL_DEVICE_CONTEXT", None)
        return getattr(whole_thread, "device_context", None) is not None

    def _names_one(self, named: dict[str, Any]) -> bool:
        return named.get("device") not in self._nowhere
