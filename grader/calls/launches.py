"""Facts of a launch, read from outside: the kernel's name, the grid, the block sizes, and equal times for all launches.

Takes what a launcher passes to Triton; never launches anything.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from triton import knobs

# A number that does not fit into a message is left out: no block size is that large.
_LARGEST_INTEGER = 1 << 63
# Compiler options that a launch may give. Others name files, replace the code, or pass options to other programs.
OPTIONS = frozenset(
    {
        *("num_warps", "num_stages", "num_ctas", "maxnreg", "cluster_dims", "enable_fp_fusion", "debug"),
        *("launch_cooperative_grid", "launch_pdl", "sanitize_overflow", "num_consumer_groups"),
        *("num_buffers_warp_spec", "reg_dec_producer", "reg_inc_consumer", "waves_per_eu", "matrix_instr_nonkdim"),
        *("kpack", "allowed_dot_input_precisions", "default_dot_input_precision", "max_num_imprecise_acc_default"),
    }
)
# The name under which a recorded launch tells what `tl.dot` does with float32 if a kernel does not say.
FP32_DEFAULT = "fp32_default"


def language_defaults(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a launch takes from Triton's settings for all kernels, beside its own options.

    Launch code or the environment may have changed them: `triton.knobs.language.fp32_default` (TRITON_F32_DEFAULT) and
    `default_fp_fusion` (TRITON_DEFAULT_FP_FUSION).
    """
    found: dict[str, Any] = {}
    if precision := knobs.language.fp32_default:
        found[FP32_DEFAULT] = precision
    if not knobs.language.default_fp_fusion and "enable_fp_fusion" not in options:
        found["enable_fp_fusion"] = False
    return found


def bound(kernel: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return the kernel's parameters by name, defaults included, as a grid function gets them."""
    given = dict(zip(getattr(kernel, "arg_names", ()), args, strict=False)) | kwargs
    return _defaults(kernel.fn) | given


def _defaults(function: Any) -> dict[str, Any]:
    parameters = inspect.signature(function).parameters.values()
    return {one.name: one.default for one in parameters if one.default is not inspect.Parameter.empty}


def has_allocator() -> bool:
    """Return whether launch code has lent memory to kernels that ask for it while they run."""
    from triton.runtime._allocation import NullAllocator, _allocator

    return not isinstance(_allocator.get(), NullAllocator)


def unknown_options(kernel: Any, options: Collection[str]) -> list[str]:
    """Return the names that are neither a kernel's parameters nor options of Triton's compiler, which refuses them."""
    from triton.backends.nvidia.compiler import CUDAOptions

    known = {*kernel.arg_names, *OPTIONS, *CUDAOptions.__dataclass_fields__}
    return [name for name in options if name not in known]


def sizes(grid: Any) -> tuple[int, ...]:
    """Return the number of programs of a grid on each of its axes."""
    return tuple(operator.index(size) for size in (grid if isinstance(grid, tuple | list) else (grid,)))


def constant_names(kernel: Any) -> frozenset[str]:
    """Return the names of a kernel's compile-time arguments."""
    hints = getattr(kernel.fn, "__annotations__", {})
    return frozenset(name for name, hint in hints.items() if "constexpr" in str(hint))


def constants(kernel: Any, bound: dict[str, Any]) -> dict[str, int]:
    """Return the integers among a launch's compile-time arguments: block sizes."""
    known = constant_names(kernel)
    plain = {name: getattr(value, "value", value) for name, value in bound.items()}
    return {
        name: value
        for name, value in plain.items()
        if isinstance(value, int) and not isinstance(value, bool) and name in known
        if abs(value) < _LARGEST_INTEGER
    }


def name_of(kernel: Any) -> str:
    """Return the kernel's name, cut to the length that a message holds."""
    name = getattr(kernel, "__name__", None) or getattr(kernel, "name", None)
    return str(name or "kernel")[:80]


def equal_times(
    *, quantiles: Sequence[float] | None = None, return_mode: str = "mean", **_: object
) -> float | list[float]:
    """Return the times that triton.testing.do_bench gives for a call that always takes a millisecond.

    A launcher that tunes by itself then takes its first configuration.
    """
    several = return_mode == "all" if quantiles is None else len(quantiles) != 1
    return [1.0] * (1 if quantiles is None else len(quantiles)) if several else 1.0


def benchmark_once(call: Callable[[], object], *_: object, **options: Any) -> float | list[float]:
    """Stand in for triton.testing.do_bench: make the call once and return equal times."""
    call()
    return equal_times(**options)
