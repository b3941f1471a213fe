"""CuTe DSL in a submission's process: its tensors, its launches, its errors, and its absence.

Everything here is about the package nvidia-cutlass-dsl. It is an extra, so nothing imports it before a part needs it.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
import types
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from torch import Tensor

PACKAGE = "cutlass"
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
# How MLIR's diagnostics name a place: ("file":line:column), after the line's text where that is known.
_PLACE = re.compile(r'(?:"[^\n]*")?\("(?P<file>[^"\n]+)":(?P<line>\d+):\d+\): (?P<text>[^\n]+)')
_DIAGNOSTIC = re.compile(r"error: (?:unknown: )?(?P<text>[^\n]+)")
# Exceptions that mean: this is no program of the DSL. Others are Python's own, raised while the function was traced.
_REFUSALS = frozenset({"MLIRError", "CompilerDiagnosticError", "DSLOperationBuildError", "DSLRuntimeError"})


def is_installed(package: str) -> bool:
    """Whether a package can be imported."""
    return importlib.util.find_spec(package) is not None


def import_all(packages: Sequence[str]) -> None:
    """Import those of the packages that are installed."""
    for package in packages:
        if is_installed(package):
            importlib.import_module(package)
            if package == PACKAGE:
                importlib.import_module("cutlass.cute.runtime")


def stand_in_for_missing(packages: Sequence[str]) -> None:
    """Let `import package` succeed where the package is not installed: what the file has besides can then be judged."""
    for package in packages:
        if not is_installed(package):
            sys.meta_path.append(_Finder(package))


def handed_over(arguments: Sequence[object]) -> list[object]:
    """The arguments with every tensor as one of CuTe's, of static layout, in the same memory."""
    from cutlass.cute.runtime import from_dlpack

    return [from_dlpack(value) if isinstance(value, Tensor) else value for value in arguments]


def watch(around: Callable[[str], AbstractContextManager[None]]) -> None:
    """Run every function that the DSL compiles from now on inside `around(name)`."""
    from cutlass.base_dsl.jit_executor import JitExecutor
    from cutlass.cutlass_dsl import CuTeDSL

    compile_and_cache, run = CuTeDSL.compile_and_cache, JitExecutor.run_compiled_program
    # The C function is all that a compiled program and what runs it have in common; kept, so that its id stays its own.
    names: dict[int, tuple[object, str]] = {}

    def named(dsl: Any, *args: Any, **kwargs: Any) -> Any:
        made = compile_and_cache(dsl, *args, **kwargs)
        name = str(getattr(kwargs.get("funcBody"), "__name__", "function"))[:80]
        names[id(made.capi_func)] = made.capi_func, name
        return made

    def watched(executor: Any, exe_args: list[Any]) -> Any:
        _, name = names.get(id(executor.jit_module.capi_func), (None, "function"))
        with around(name):
            return run(executor, exe_args)

    replace_attribute(CuTeDSL, "compile_and_cache", named)
    replace_attribute(JitExecutor, "run_compiled_program", watched)


def replace_attribute(owner: Any, name: str, value: object) -> None:
    """Set an attribute of a class of the DSL's."""
    setattr(owner, name, value)


# -- errors ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Refusal:
    """Why the DSL compiles nothing, in words, and the submission's line (0: not known)."""

    text: str
    line: int


def refusal_in(raised: BaseException, path: str) -> Refusal | None:
    """What an exception of the DSL says, without its colours and frames; None for any other exception.

    `path` is the submission's file.
    """
    if not _is_refusal(raised):
        return None
    if located := _PLACE.search(_COLOUR.sub("", f"{raised}\n{getattr(raised, 'cause', '')}")):
        return Refusal(plain(located["text"]), int(located["line"]) if located["file"] == path else 0)
    line = int(getattr(raised, "line", None) or 0) if getattr(raised, "filename", None) == path else 0
    said = str(getattr(raised, "message", "") or "")
    if not type(raised).__name__.startswith("DSLUserCode"):
        # What the compiler itself has to say stands in its diagnostics, below a headline.
        text = _COLOUR.sub("", f"{getattr(raised, 'cause', None) or raised}")
        found = _DIAGNOSTIC.search(text)
        return Refusal(plain(found["text"] if found else text), line)
    suggestion = getattr(raised, "suggestion", None) or ()
    advice = [suggestion] if isinstance(suggestion, str) else list(suggestion)
    return Refusal(" ".join(map(plain, [said, *advice[:2]])), line)


def located(raised: BaseException, path: str, again: Callable[[], object]) -> BaseException:
    """The same refusal with a line, where it has none: raised once more, now with the places of all operations kept.

    Keeping them costs half again as much time, so that this is not done for what compiles.
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
    """Return one line of what the DSL says, without its colours."""
    return " ".join(_COLOUR.sub("", text).split())


# -- absence ---------------------------------------------------------------------------------------------------------


class _Nothing(types.ModuleType):
    """What stands for a missing module and for everything in it: decorates, is called, is annotated with, in vain."""

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
    """Finds a missing package and its submodules, all of which are nothing."""

    def __init__(self, package: str) -> None:
        self._package = package

    def find_spec(self, name: str, path: object = None, target: object = None) -> Any:  # noqa: ARG002
        """The import system's question."""
        if name.partition(".")[0] == self._package:
            return importlib.util.spec_from_loader(name, self, is_package=True)  # type: ignore[arg-type]
        return None

    def create_module(self, spec: Any) -> types.ModuleType:
        """A module of nothing."""
        return _Nothing(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        """Leaves it empty."""
