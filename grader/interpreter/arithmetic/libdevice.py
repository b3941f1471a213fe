"""Provide CUDA's libdevice in Triton's interpreter, by NumPy: the functions that kernels call.

`triton.language.extra.libdevice` holds names without bodies, which a compiler links to the GPU vendor's library. The
interpreter calls them and gets None.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from grader.interpreter.beyond import NeedsGpu

Array = NDArray[Any]

_NAMESPACE = "__nv_"


def _half_away(x: Array) -> Array:
    return np.asarray(np.trunc(x + np.copysign(0.5, x)))


def _one_by_one(function: Callable[[float], float]) -> Callable[[Array], Array]:
    return np.vectorize(function, otypes=[np.float64])


_ERFC = _one_by_one(math.erfc)
_UNDER_THE_SAME_NAME = (
    *("ceil", "copysign", "cos", "cosh", "exp", "exp2", "expm1", "floor", "fmod", "hypot", "isinf", "isnan", "log"),
    *("log10", "log1p", "log2", "nextafter", "rint", "signbit", "sin", "sinh", "sqrt", "tan", "tanh", "trunc", "cbrt"),
)

# By name without the type suffix: __nv_tanhf and __nv_tanh are tanh. NumPy's own functions round to the nearest.
_FUNCTIONS: Mapping[str, Callable[..., Array]] = {
    **{name: getattr(np, name) for name in _UNDER_THE_SAME_NAME},
    **{f"fast_{name}": getattr(np, name) for name in ("cos", "exp", "log", "log10", "log2", "sin", "tan", "tanh")},
    **{f"a{name}": getattr(np, f"arc{name}") for name in ("cos", "cosh", "sin", "sinh", "tan", "tan2", "tanh")},
    "abs": np.abs,
    "fabs": np.abs,
    "finite": np.isfinite,
    "isfinite": np.isfinite,
    "nearbyint": np.rint,
    "round": _half_away,
    "pow": np.power,
    "fast_pow": np.power,
    "exp10": lambda x: np.power(10.0, x),
    "fast_exp10": lambda x: np.power(10.0, x),
    "fast_fdivide": np.divide,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "frsqrt_rn": lambda x: 1 / np.sqrt(x),
    "erf": _one_by_one(math.erf),
    "erfc": _ERFC,
    "normcdf": lambda x: 0.5 * _ERFC(-x / math.sqrt(2)),
    "fdim": lambda x, y: np.maximum(x - y, 0),
    "remainder": lambda x, y: x - np.rint(x / y) * y,
    "saturate": lambda x: np.clip(np.nan_to_num(x, nan=0.0), 0, 1),
    **{name: lambda x, y, z: np.asarray(x, np.float64) * y + z for name in ("fma", "fma_rn", "fmaf_rn")},
    **{f"{kind}add_rn": np.add for kind in "fd"},
    **{f"{kind}sub_rn": np.subtract for kind in "fd"},
    **{f"{kind}mul_rn": np.multiply for kind in "fd"},
    **{f"{kind}div_rn": np.divide for kind in "fd"},
    **{f"{kind}rcp_rn": np.reciprocal for kind in "fd"},
    **{f"{kind}sqrt_rn": np.sqrt for kind in "fd"},
    "float_as_int": lambda x: x.view(np.int32),
    "int_as_float": lambda x: x.view(np.float32),
}


def provide_libdevice() -> None:
    """Patch this process's interpreter. Call it before the submission is loaded."""
    from triton.language.core import is_builtin
    from triton.language.extra import libdevice as names
    from triton.language.extra.cuda import libdevice as bodies
    from triton.runtime.interpreter import InterpreterBuilder, TensorHandle, _get_np_dtype, interpreter_semantic

    def create_extern_elementwise(_builder: Any, *call: Any) -> Any:
        _, _, symbol, operands, kind, _ = call
        result = np.asarray(_function(symbol)(*(np.ascontiguousarray(one.data) for one in operands)))
        return TensorHandle(result.reshape(operands[0].data.shape).astype(_get_np_dtype(kind.scalar)), kind.scalar)

    def told(body: Callable[..., Any]) -> Callable[..., Any]:
        # The name stays, so that a trace can name the function that a global holds.
        return functools.wraps(body)(lambda *operands: body(*operands, _semantic=interpreter_semantic))

    InterpreterBuilder.create_extern_elementwise = create_extern_elementwise
    for name, body in inspect.getmembers(bodies, inspect.isfunction):
        if is_builtin(body):
            setattr(bodies, name, told(body))
            if hasattr(names, name):
                setattr(names, name, getattr(bodies, name))


def _function(symbol: str) -> Callable[..., Array]:
    name = symbol.removeprefix(_NAMESPACE)
    for known in (name, name.removesuffix("f"), name.removesuffix("d")):
        if known in _FUNCTIONS:
            return _FUNCTIONS[known]
    raise NeedsGpu(f"{name} of libdevice")
