"""Give launch code the return value of a launch: a stand-in for a compiled kernel where nothing was compiled."""

from __future__ import annotations

import hashlib
from collections import namedtuple
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from triton.runtime.driver import driver

# Values of a kernel of moderate size; launch code divides by them to compute how many programs fit.
_REGISTERS = 64
_SHARED_BYTES = 16 << 10
_THREADS = 1024
_TEXTS = ("ttir", "ttgir", "llir", "ptx")
_OF_THE_COMPILER = frozenset(
    {
        *("n_regs", "n_spills", "n_max_threads", "metadata", "packed_metadata", "metadata_group"),
        *("asm", "name", "hash", "kernel", "module", "function", "src"),
    }
)


class Handle:
    """A stand-in for Triton's CompiledKernel. relaunch: records a launch with this grid and these arguments."""

    n_regs = _REGISTERS
    n_spills = 0
    n_max_threads = _THREADS

    def __init__(
        self,
        name: str,
        names: Sequence[str],
        bound: Mapping[str, Any],
        options: Mapping[str, Any],
        relaunch: Callable[..., Any],
        compiled: Any = None,
    ) -> None:
        self._names = names
        self._bound = dict(bound)
        self._options = dict(options)
        self._relaunch = relaunch
        self._compiled = compiled
        self.name = name
        self.hash = hashlib.sha256(f"{name} {options!r}".encode()).hexdigest()
        self.asm: dict[str, str | bytes] = {**dict.fromkeys(_TEXTS, ""), "cubin": b""}
        self.kernel = self.asm["cubin"]
        # Addresses for code that asks; they lead nowhere.
        self.module = self.function = 1
        self.src, self.metadata_group = None, dict[str, str]()
        held = {
            "shared": _SHARED_BYTES,
            "num_warps": options.get("num_warps", 4),
            "num_stages": options.get("num_stages", 3),
            "num_ctas": options.get("num_ctas", 1),
            "cluster_dims": (1, 1, 1),
            "maxnreg": options.get("maxnreg"),
            "name": name,
            "hash": self.hash,
            "target": driver.active.get_current_target(),
        }
        self.metadata = _metadata(held)
        self.packed_metadata = (held["num_warps"], held["num_ctas"], held["shared"])

    def __getattr__(self, name: str) -> Any:
        if name in getattr(self.__dict__.get("metadata"), "_fields", ()):
            raise AttributeError(f"`kernel.{name}` is `kernel.metadata.{name}` since Triton 3.0")
        raise AttributeError(f"a compiled kernel of Triton's has no {name}")

    def __getattribute__(self, name: str) -> Any:
        # If the kernel was compiled after all, use its own attributes.
        compiled = object.__getattribute__(self, "__dict__").get("_compiled")
        if compiled is not None and name in _OF_THE_COMPILER:
            compiled._init_handles()
            found = getattr(compiled, name)
            return _with_shared_memory(found) if name == "metadata" else found
        return object.__getattribute__(self, name)

    def _init_handles(self) -> None:
        """Do nothing: there is nothing to load."""

    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        """Return a launcher for this grid, which takes all arguments, or all but those fixed at warm-up."""

        def launch(*args: Any, stream: object = None) -> Any:  # noqa: ARG001
            given = args
            if len(args) < len(self._names):
                rest = iter(args)
                open_names = [name for name in self._names if name not in self._constant_names()]
                values = dict(zip(open_names, rest, strict=False))
                given = tuple(values.get(name, self._bound.get(name)) for name in self._names)
            return self._relaunch(given, self._options, grid)

        return launch

    def _constant_names(self) -> set[str]:
        return {name for name, value in self._bound.items() if not hasattr(value, "dtype")} & self._constants

    _constants: frozenset[str] = frozenset()

    def with_constants(self, names: frozenset[str]) -> Handle:
        """Set the names of compile-time arguments, and return itself."""
        self._constants = names
        return self


def _metadata(held: Mapping[str, Any]) -> Any:
    """Return a named tuple, as Triton does."""
    return namedtuple("KernelMetadata", sorted(held))(**held)


def _with_shared_memory(metadata: Any) -> Any:
    """Return the metadata with at least one byte of shared memory.

    Tiny blocks use none, but launch code, such as Triton's own tutorial, divides by it to find how many programs fit.
    """
    return metadata if metadata.shared else metadata._replace(shared=1)
