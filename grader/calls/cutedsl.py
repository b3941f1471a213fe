"""Support for the CuTe DSL in a submission's process: tensors, launches, errors, and stand-ins where it is absent.

The package is nvidia-cutlass-dsl. It is an extra, so nothing imports it before a part needs it.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

PACKAGE = "cutlass"
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
# A place in MLIR's diagnostics: ("file":line:column), after the line's text where that is known.
_PLACE = re.compile(r'(?:"[^\n]*")?\("(?P<file>[^"\n]+)":(?P<line>\d+):\d+\): (?P<text>[^\n]+)')
_DIAGNOSTIC = re.compile(r"error: (?:unknown: )?(?P<text>[^\n]+)")
# Exceptions that mean: this is no program of the DSL. Others are Python's own, raised while the function was traced.
_REFUSALS = frozenset({"MLIRError", "CompilerDiagnosticError", "DSLOperationBuildError", "DSLRuntimeError"})


def is_installed(package: str) -> bool:
    """Return whether a package can be imported."""
    return importlib.util.find_spec(package) is not None


def import_all(packages: Sequence[str]) -> None:
    """Import those of the packages that are installed."""
    for package in packages:
        if is_installed(package):
            importlib.import_module(package)
            if package == PACKAGE:
                importlib.import_module("cutlass.cute.runtime")


def stand_in_for_missing(packages: Sequence[str]) -> None:
    """Let `import package` succeed where the package is not installed, so that the rest of the file can be judged."""
    for package in packages:
        if not is_installed(package):
            sys.meta_path.append(_Finder(package))


def handed_over(arguments: Sequence[object]) -> list[object]:
    """Return the arguments with every tensor as a CuTe tensor of static layout, in the same memory."""
    from cutlass.cute.runtime import from_dlpack

    return [from_dlpack(value) if isinstance(value, Tensor) else value for value in arguments]


def watch(note: Callable[[str], None]) -> None:
    """Call `note(name)` before each run of a function that the DSL compiles from now on."""
    from cutlass.base_dsl.jit_executor import JitExecutor
    from cutlass.cutlass_dsl import CuTeDSL

    compile_and_cache, run = CuTeDSL.compile_and_cache, JitExecutor.run_compiled_program
    # A compiled program and its executor share nothing but the C function. It is stored, so that its id is not reused.
    names: dict[int, tuple[object, str]] = {}

    def named(dsl: Any, *args: Any, **kwargs: Any) -> Any:
        made = compile_and_cache(dsl, *args, **kwargs)
        name = str(getattr(kwargs.get("funcBody"), "__name__", "function"))[:80]
        names[id(made.capi_func)] = made.capi_func, name
        return made

    def watched(executor: Any, exe_args: list[Any]) -> Any:
        _, name = names.get(id(executor.jit_module.capi_func), (None, "function"))
        note(name)
        return run(executor, exe_args)

    replace_attribute(CuTeDSL, "compile_and_cache", named)
    replace_attribute(JitExecutor, "run_compiled_program", watched)


def replace_attribute(owner: Any, name: str, value: object) -> None:
    """Set an attribute of a class of the DSL."""
    setattr(owner, name, value)


# -- errors ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Refusal:
    """The reason for which the DSL refuses to compile, and the submission's line (0: not known)."""

    text: str
    line: int


def refusal_in(raised: BaseException, path: str) -> Refusal | None:
    """Return the refusal that an exception of the DSL holds, without colours and frames; None for any other exception.

    path: the submission's file.
    """
    if not _is_refusal(raised):
        return None
    if located := _PLACE.search(_COLOUR.sub("", f"{raised}\n{getattr(raised, 'cause', '')}")):
        return Refusal(plain(located["text"]), int(located["line"]) if located["file"] == path else 0)
    line = int(getattr(raised, "line", None) or 0) if getattr(raised, "filename", None) == path else 0
    said = str(getattr(raised, "message", "") or "")
    if not type(raised).__name__.startswith("DSLUserCode"):
        # The compiler's own message stands in its diagnostics, below a headline.
        text = _COLOUR.sub("", f"{getattr(raised, 'cause', None) or raised}")
        found = _DIAGNOSTIC.search(text)
        return Refusal(plain(found["text"] if found else text), line)
    suggestion = getattr(raised, "suggestion", None) or ()
    advice = [suggestion] if isinstance(suggestion, str) else list(suggestion)
    return Refusal(" ".join(map(plain, [said, *advice[:2]])), line)


def located(raised: BaseException, path: str, again: Callable[[], object]) -> BaseException:
    """Return the same refusal with a line: where it has none, run `again` with source locations switched on.

    Source locations cost half again as much time, so that programs that compile go without them.
    """
    found = refusal_in(raised, path)
    if found is None or found.line or _has_frame(raised, path):
        return raised
    from cutlass.cutlass_dsl import CuTeDSL

    settings = CuTeDSL._get_dsl().envar
    settings.lineinfo = True
    try:
        again()
    except BaseException as once_more:
        if refusal_in(once_more, path) is not None:
            return once_more
    finally:
        settings.lineinfo = False
    return raised


def _is_refusal(raised: BaseException) -> bool:
    kind = type(raised)
    ours = kind.__module__.partition(".")[0] == PACKAGE
    return ours and (kind.__name__ in _REFUSALS or kind.__name__.startswith("DSLUserCode"))


def _has_frame(raised: BaseException, path: str) -> bool:
    trace: Any = raised.__traceback__
    seen = 0
    # The first frame of the submission is its call of the function; a later one is a line of the function itself.
    while trace is not None:
        seen += trace.tb_frame.f_code.co_filename == path
        trace = trace.tb_next
    return seen > 0


def plain(text: str) -> str:
    """Return a message of the DSL as one line, without its colours."""
    return " ".join(_COLOUR.sub("", text).split())


# -- absence ---------------------------------------------------------------------------------------------------------


class _Nothing(types.ModuleType):
    """A stand-in for a missing module and everything in it: calling, indexing or subclassing it has no effect."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__path__ = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __call__(self, *args: Any, **_: Any) -> Any:
        return args[0] if len(args) == 1 and callable(args[0]) else self

    def __getitem__(self, _: object) -> Any:
        return self

    def __mro_entries__(self, _: object) -> tuple[type, ...]:
        return ()


class _Finder:
    """Finds a missing package and its submodules, and gives stand-ins for them."""

    def __init__(self, package: str) -> None:
        self._package = package

    def find_spec(self, name: str, path: object = None, target: object = None) -> Any:  # noqa: ARG002
        """Return the spec of a stand-in for the missing package and its submodules; None for any other module."""
        if name.partition(".")[0] == self._package:
            return importlib.util.spec_from_loader(name, self, is_package=True)  # type: ignore[arg-type]
        return None

    def create_module(self, spec: Any) -> types.ModuleType:
        """Return a stand-in module."""
        return _Nothing(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        """Do nothing: a stand-in stays empty."""
