"""CUDA's libdevice in Triton's interpreter, which has none of its functions: those that kernels call, by torch.

`triton.language.extra.libdevice` holds names without bodies, which a compiler replaces by those of the GPU's maker. The
interpreter calls them and gets None.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

_NAMESPACE = "__nv_"


def _half_away(x: Tensor) -> Tensor:
    return torch.trunc(x + torch.copysign(torch.full_like(x, 0.5), x))


# By name without what says the type: __nv_tanhf and __nv_tanh are tanh. What rounds to the nearest is torch's own.
_FUNCTIONS: Mapping[str, Callable[..., Tensor]] = {
    **{name: getattr(torch, name) for name in ("abs", "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh")},
    **{name: getattr(torch, name) for name in ("ceil", "copysign", "cos", "cosh", "exp", "exp2", "expm1", "floor")},
    **{name: getattr(torch, name) for name in ("erf", "erfc", "erfinv", "fmod", "hypot", "isinf", "isnan", "lgamma")},
    **{name: getattr(torch, name) for name in ("log", "log10", "log1p", "log2", "nextafter", "pow", "rsqrt")},
    **{name: getattr(torch, name) for name in ("signbit", "sin", "sinh", "sqrt", "tan", "tanh", "trunc")},
    "fabs": torch.abs,
    "finite": torch.isfinite,
    "isfinite": torch.isfinite,
    "rint": torch.round,
    "nearbyint": torch.round,
    "round": _half_away,
    "exp10": lambda x: torch.pow(10.0, x),
    "cbrt": lambda x: torch.copysign(x.abs().pow(1 / 3), x),
    "fdim": lambda x, y: (x - y).clamp_min(0.0),
    "normcdf": torch.special.ndtr,
    "remainder": lambda x, y: x - torch.round(x / y) * y,
    "saturate": lambda x: x.nan_to_num(0.0).clamp(0.0, 1.0),
    "fma": lambda x, y, z: (x.double() * y.double() + z.double()).to(x.dtype),
    "fast_cos": torch.cos,
    "fast_exp": torch.exp,
    "fast_exp10": lambda x: torch.pow(10.0, x),
    "fast_fdivide": torch.div,
    "fast_log": torch.log,
    "fast_log10": torch.log10,
    "fast_log2": torch.log2,
    "fast_pow": torch.pow,
    "fast_sin": torch.sin,
    "fast_tan": torch.tan,
    "fast_tanh": torch.tanh,
    **{f"{kind}add_rn": torch.add for kind in "fd"},
    **{f"{kind}sub_rn": torch.sub for kind in "fd"},
    **{f"{kind}mul_rn": torch.mul for kind in "fd"},
    **{f"{kind}div_rn": torch.div for kind in "fd"},
    **{f"{kind}rcp_rn": torch.reciprocal for kind in "fd"},
    **{f"{kind}sqrt_rn": torch.sqrt for kind in "fd"},
    "frsqrt_rn": torch.rsqrt,
    "float_as_int": lambda x: x.view(torch.int32),
    "int_as_float": lambda x: x.view(torch.float32),
}


def provide_libdevice() -> None:
    """Patch this process's interpreter; before the submission is loaded."""
    from triton.language.core import is_builtin
    from triton.language.extra import libdevice as names
    from triton.language.extra.cuda import libdevice as bodies
    from triton.runtime.interpreter import InterpreterBuilder, TensorHandle, _get_np_dtype, interpreter_semantic

    def create_extern_elementwise(_builder: Any, *call: Any) -> Any:
        _, _, symbol, operands, kind, _ = call
        numbers = [torch.from_numpy(np.ascontiguousarray(one.data)) for one in operands]
        result = _function(symbol)(*numbers).numpy().reshape(operands[0].data.shape)
        return TensorHandle(result.astype(_get_np_dtype(kind.scalar)), kind.scalar)

    def told(body: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *operands: body(*operands, _semantic=interpreter_semantic)

    InterpreterBuilder.create_extern_elementwise = create_extern_elementwise
    for name, body in inspect.getmembers(bodies, inspect.isfunction):
        if is_builtin(body):
            setattr(bodies, name, told(body))
            if hasattr(names, name):
                setattr(names, name, getattr(bodies, name))


def _function(symbol: str) -> Callable[..., Tensor]:
    name = symbol.removeprefix(_NAMESPACE)
    for known in (name, name.removesuffix("f"), name.removesuffix("d")):
        if known in _FUNCTIONS:
            return _FUNCTIONS[known]
    raise NotImplementedError(f"the interpreter must know a function of libdevice to run it, got {name}")
