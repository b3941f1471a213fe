"""Build the arguments of launches and operators from the values of a trace: tensors among plain data.

Takes a value, and functions that look up tensors and kernels by their number. Gives the Python object that a kernel or
an operator of ATen takes. Runs neither, and refuses every value outside its lists.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from grader.protocol.trace import (
    DescriptorValue,
    EnumValue,
    ListValue,
    NamedValue,
    TensorValue,
    TupleValue,
    Value,
    WrapperValue,
)
from grader.replay.memory import Unreplayable
from grader.replay.values import plain_value

_FORMATS = {
    "memory_format": (torch.contiguous_format, torch.preserve_format, torch.channels_last, torch.channels_last_3d),
    "layout": (torch.strided,),
}
_MEMBERS = {(kind, str(one).removeprefix("torch.")): one for kind, found in _FORMATS.items() for one in found}


@dataclass(frozen=True)
class ArgumentBuilder:
    """Turns values into arguments.

    tensor, kernel: return the tensor of a window, or a kernel, by its number in the trace. They may raise Unreplayable
    and RefusedFunction. device: stands for every device in a trace.
    """

    tensor: Callable[[int], Tensor]
    kernel: Callable[[int], Any]
    device: torch.device

    def of_operator(self, value: Value) -> Any:
        """Return the argument of an operator of ATen.

        Tuples and lists become lists. Raises Unreplayable, RefusedFunction.
        """
        match value:
            case TensorValue(index):
                return self.tensor(index)
            case TupleValue(items) | ListValue(items):
                return [self.of_operator(one) for one in items]
            case EnumValue("device"):
                return self.device
            case EnumValue(kind, name):
                if (kind, name) not in _MEMBERS:
                    raise Unreplayable(f"an operator cannot be given the {kind} {name}")
                return _MEMBERS[kind, name]
            case _:
                return self.plain(value)

    def of_launch(self, value: Value) -> Any:
        """Return the argument of a kernel launch.

        Tuples and lists become tuples. Raises Unreplayable, RefusedFunction; AssertionError, TypeError or ValueError if
        Triton refuses a tensor descriptor.
        """
        match value:
            case TensorValue(index):
                return self.tensor(index)
            case WrapperValue(base, dtype):
                return self._wrap_dtype(self.tensor(base.index), dtype)
            case DescriptorValue():
                return self._descriptor(value)
            case TupleValue(items) | ListValue(items):
                return tuple(map(self.of_launch, items))
            case NamedValue("tuple", _, fields, items) if any(map(_holds_tensor, items)):
                empty: Any = plain_value(NamedValue("tuple", value.name, fields, (None,) * len(items)), self.kernel)
                return type(empty)(*map(self.of_launch, items))
            case _:
                return self.plain(value)

    def plain(self, value: Value) -> Any:
        """Return a value without memory, such as a launch's option or a descriptor's size. Raises RefusedFunction.

        A tensor here would bypass the bookkeeping of arguments.
        """
        return plain_value(value, self.kernel)

    def _wrap_dtype(self, base: Tensor, name: str) -> Any:
        """Return a tensor viewed as another dtype of torch. Raises Unreplayable."""
        from triton.runtime.jit import TensorWrapper

        dtype = getattr(torch, name, None)
        if not isinstance(dtype, torch.dtype):
            raise Unreplayable(f"a tensor must be seen under a dtype of torch, got {name}")
        return TensorWrapper(base, dtype)

    def _descriptor(self, value: DescriptorValue) -> Any:
        """Return a tensor descriptor of Triton or of Gluon; it checks itself."""
        rows: list[Any] = [list(map(self.plain, one)) for one in (value.shape, value.strides, value.block_shape)]
        rounding = (value.round_f32_to_tf32,) if value.round_f32_to_tf32 else ()
        if value.layout:
            from triton.experimental.gluon.language import NVMMASharedLayout
            from triton.experimental.gluon.nvidia.hopper import TensorDescriptor as OfGluon

            fields = (self.plain(one) for one in value.layout)
            layout = NVMMASharedLayout(*(list(one) if isinstance(one, tuple) else one for one in fields))
            return OfGluon(self.tensor(value.base.index), *rows, layout, value.padding, *rounding)
        from triton.tools.tensor_descriptor import TensorDescriptor

        return TensorDescriptor(self.tensor(value.base.index), *rows, value.padding, *rounding)


def _holds_tensor(value: Value) -> bool:
    match value:
        case TensorValue() | WrapperValue() | DescriptorValue():
            return True
        case TupleValue(items) | ListValue(items) | NamedValue(items=items):
            return any(map(_holds_tensor, items))
    return False
