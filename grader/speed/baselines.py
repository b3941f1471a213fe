"""The baselines that a submission can be compared with.

An exercise writes its own functions, `<part>_<baseline>` in its baselines.py; this module knows what such a function
needs and how it is called. It runs in the trusted baseline process: torch, jax and the rest are imported when a
baseline is first asked for.
"""

from __future__ import annotations

import contextlib
import importlib.util
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Function = Callable[..., Any]


@dataclass(frozen=True)
class Family:
    """One way to compute a part's result.

    source: the exercise's function is `<part>_<source>`. needs: Python modules that must be importable. gate: returns
    why it cannot run, as a sentence, or ''. wrap: turns the exercise's function into the one that is called. computes:
    whether its result is the part's. slow: it takes seconds to compile, and is timed only on request. builds: it builds
    something for each size, a plan or a kernel, before it first runs. switches: `wrap` switches torch for all threads.
    without: the sentence to show if the exercise lacks the function; '' if its baselines.py must define it.
    """

    title: str
    source: str = ""
    needs: tuple[str, ...] = ()
    gate: Callable[[], str] = lambda: ""
    wrap: Callable[[Function], Function] = lambda function: function
    computes: bool = True
    slow: bool = False
    builds: bool = False
    switches: bool = False
    without: str = ""


def _compile(function: Function) -> Function:
    import torch

    # Every timed size is a shape of its own.
    torch._dynamo.config.recompile_limit = 64
    return torch.compile(function, mode="max-autotune-no-cudagraphs", dynamic=False)


def _with_attention(backend: str) -> Callable[[Function], Function]:
    def wrap(function: Function) -> Function:
        from torch.nn.attention import SDPBackend, sdpa_kernel

        def attention(*args: Any) -> Any:
            with sdpa_kernel(getattr(SDPBackend, backend)):
                return function(*args)

        return attention

    return wrap


def _through_xla(function: Function) -> Function:
    """Turn a function of jax arrays into one of torch tensors that waits for its result.

    XLA launches on streams of its own: its time includes the conversion of the tensors in both directions.
    """
    import jax
    import torch

    jitted = jax.jit(function)

    def call(*args: Any) -> Any:
        arrays = [jax.dlpack.from_dlpack(one.contiguous()) if isinstance(one, torch.Tensor) else one for one in args]
        return torch.utils.dlpack.from_dlpack(jitted(*arrays).block_until_ready())

    return call


def _jax_sees_a_gpu() -> str:
    import jax

    kinds = {device.platform for device in jax.devices()}
    return "" if "gpu" in kinds else f"jax must see the GPU, got devices of kind {', '.join(sorted(kinds))}"


def _has_compiler() -> str:
    import torch

    return "" if hasattr(torch.cuda, "_compile_kernel") else f"this torch ({torch.__version__}) cannot compile CUDA C++"


def _sdpa(title: str, backend: str, *, builds: bool = False) -> Family:
    return Family(title, "sdpa", wrap=_with_attention(backend), builds=builds, switches=True)


FAMILIES: Mapping[str, Family] = types.MappingProxyType(
    {
        "torch_eager": Family("eager torch", "torch_eager"),
        "cublas": Family("cuBLAS", "cublas"),
        "cuda_cpp": Family("CUDA C++ through its Python binding", "cuda_cpp", gate=_has_compiler),
        "sdpa_flash": _sdpa("FlashAttention (SDPA)", "FLASH_ATTENTION"),
        "sdpa_efficient": _sdpa("memory-efficient attention (SDPA)", "EFFICIENT_ATTENTION"),
        "sdpa_cudnn": _sdpa("cuDNN attention (SDPA)", "CUDNN_ATTENTION", builds=True),
        "torch_compile": Family("torch.compile (max-autotune)", "torch_eager", wrap=_compile, slow=True),
        "xla": Family("XLA (jax.jit)", "xla", ("jax",), _jax_sees_a_gpu, _through_xla, slow=True),
        "flashinfer": Family("FlashInfer", "flashinfer", ("flashinfer",), slow=True),
        "flash_attention_4": Family("FlashAttention-4", "flash_attention_4", ("flash_attn.cute",), slow=True),
        "our_fastest": Family(
            "our fastest", "our_fastest", builds=True, without="there is no record kernel of ours here"
        ),
        "naive": Family("the naive way", "naive"),
        "copy_roofline": Family("device copy of as many bytes", computes=False),
    }
)


# Baselines that take seconds to compile: timed only on request.
SLOW = tuple(name for name, family in FAMILIES.items() if family.slow)


def title_of(name: str) -> str:
    """Return a baseline's name for people."""
    return FAMILIES[name].title if name in FAMILIES else name


def why_missing(name: str, part: str, module: types.ModuleType, arguments: Callable[[], Sequence[Any]]) -> str:
    """Return why a baseline cannot run for this part on this machine; '' if it can.

    Its requirements are looked up, and then it is called once: only a call tells whether a GPU can run it. Slow ones
    are only looked up. `arguments` builds the arguments of a small call.
    """
    if why := unmet_requirement(name, part, module):
        return why
    family = FAMILIES[name]
    return _why_not_called(function_of(name, part, module), arguments) if family.computes and not family.slow else ""


def unmet_requirement(name: str, part: str, module: types.ModuleType) -> str:
    """Return which requirement of a baseline is not written or not installed; '' if all are there."""
    family = FAMILIES.get(name)
    if family is None:
        return f"a baseline must be one of {', '.join(FAMILIES)}, got {name!r}"
    if family.source and not hasattr(module, f"{part}_{family.source}"):
        return family.without or f"the exercise's baselines.py must define {part}_{family.source} for it"
    for needed in family.needs:
        found = None
        with contextlib.suppress(ImportError, ValueError):
            found = importlib.util.find_spec(needed)
        if found is None:
            return f"{needed} is not installed"
    try:
        return family.gate()
    except Exception as failed:
        # A third party's package may raise anything on inspection; the other baselines can still run.
        return _error_text(failed)


def _why_not_called(function: Function, arguments: Callable[[], Sequence[Any]]) -> str:
    """Call a baseline once and wait for its end: a kernel's failure shows only then."""
    import torch

    given = arguments()
    try:
        function(*given)
        if torch.cuda.is_available():
            torch.cuda.synchronize()
    except Exception as failed:
        return _error_text(failed)
    return ""


def _error_text(failed: Exception) -> str:
    return f"{type(failed).__name__}: {' '.join(str(failed).split())[:200]}"


def function_of(name: str, part: str, module: types.ModuleType) -> Function:
    """Return the function to time, which takes the part's own arguments.

    Only for a baseline without a reason from `why_missing`.
    """
    family = FAMILIES[name]
    return family.wrap(getattr(module, f"{part}_{family.source}"))
