"""Locate the functions that a launch runs, and read the values of the names in them.

A function is in the submission's text, or in that of an installed package. Never calls a function.
"""

from __future__ import annotations

import ast
import dis
import inspect
import sys
import textwrap
import types
import weakref
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import triton

from grader.calls.packages import file_of
from grader.protocol.trace import FROM_ELSEWHERE
from grader.recorder.storages import Unrecordable

_TRITON = str(Path(triton.__file__).parent)
# Options of kernel decorators that may change a kernel's meaning.
_OPTIONS = ("do_not_specialize", "do_not_specialize_on_alignment", "noinline", "debug")
# The kinds of functions by their classes; all other functions are Triton's kernels.
_KINDS = {"ConstexprFunction": "constexpr", "GluonJITFunction": "gluon"}
# A source is read once: a kernel is launched in every call.
_COMPUTED: weakref.WeakKeyDictionary[types.FunctionType, tuple[str, ...]] = weakref.WeakKeyDictionary()


def is_function_of_kernels(value: Any) -> bool:
    """Return whether a value was made by triton.jit or triton.constexpr_function."""
    from triton.runtime.interpreter import InterpretedFunction
    from triton.runtime.jit import ConstexprFunction, JITFunction

    return isinstance(value, JITFunction | InterpretedFunction | ConstexprFunction)


def place_in_triton(value: Any) -> str:
    """Return the dotted name of an object that comes with Triton; an empty text for any other."""
    function = getattr(value, "fn", value) if is_function_of_kernels(value) else value
    name, module = getattr(function, "__name__", ""), str(getattr(function, "__module__", ""))
    if not isinstance(name, str) or module.partition(".")[0] != "triton":
        return ""
    if isinstance(function, types.FunctionType) and not function.__code__.co_filename.startswith(_TRITON):
        # Functions of grader.interpreter stand in for Triton's own under the same names.
        homes = (triton.language, sys.modules.get(module))
        return f"{module}.{name}" if any(hasattr(home, name) for home in homes) else ""
    return f"{module}.{name}"


class KernelTexts:
    """The functions that the launches of one call run, in order of first use."""

    def __init__(self, path: str, encode: Callable[[Any], Any]) -> None:
        self._path = path
        self._encode = encode
        self._places: dict[int, int] = {}
        self._alive: list[Any] = []
        self.rows: list[dict[str, Any]] = []

    def place_of(self, kernel: Any) -> int:
        """Return a function's place, and add the functions behind its names.

        Raises Unrecordable for one of another file.
        """
        if id(kernel) in self._places:
            return self._places[id(kernel)]
        function = kernel.fn
        if not isinstance(function, types.FunctionType):
            raise Unrecordable("a kernel that is no function")
        home = self._home_of(function)
        place = self._places[id(kernel)] = len(self.rows)
        # Keep the object: an id is unique only while its object lives.
        self._alive.append(kernel)
        row: dict[str, Any] = {
            "name": function.__name__,
            "line": function.__code__.co_firstlineno,
            "kind": _KINDS.get(type(kernel).__name__, "jit"),
            "names": {},
            "options": {name: self._encode(value) for name, value in _options(kernel) if value},
            **({"home": home} if home else {}),
        }
        self.rows.append(row)
        row["names"] = {name: _constant(self._encode(value)) for name, value in _names(function).items()}
        if computed := _computed_defaults(function):
            row["defaults"] = {name: self._encode(value) for name, value in computed.items()}
        return place

    def _home_of(self, function: types.FunctionType) -> str:
        """Return the installed module of a function; an empty text for the submission. Raises Unrecordable."""
        path, module = function.__code__.co_filename, str(function.__module__ or "")
        if path == self._path:
            return ""
        found = file_of(module)
        if found is not None and found.resolve() == Path(path).resolve():
            return module
        said = f"{FROM_ELSEWHERE}{function.__name__[:60]} of {(module or Path(path).name)[:80]}"
        raise Unrecordable(f"{said}: copy the text of the function, and of what it calls, into the file")


def _constant(encoded: Any) -> Any:
    """Return a global as Triton takes it: every one is a constant if the file disables the rule."""
    is_plain = isinstance(encoded, bool | int | float | str | None) or encoded[0] in ("float", "tuple", "list")
    return ["constexpr", encoded] if triton.knobs.compilation.allow_non_constexpr_globals and is_plain else encoded


def _options(kernel: Any) -> Iterator[tuple[str, Any]]:
    given = getattr(kernel, "kwargs", {})
    for name in _OPTIONS:
        yield name, given.get(name, getattr(kernel, name, None))


def _names(function: types.FunctionType) -> dict[str, Any]:
    """Return the values of the global and enclosing names in a function.

    A kernel's function in a module gets its dotted name: helpers.maximum.
    """
    found: dict[str, Any] = {}
    used = {name for code in _nested_codes(function.__code__) for name in code.co_names}
    for name in sorted(used & function.__globals__.keys()):
        held = found[name] = function.__globals__[name]
        if isinstance(held, types.ModuleType) and held.__name__.partition(".")[0] != "triton":
            behind = {one: vars(held).get(one) for one in sorted(_attributes_used(name, function))}
            found |= {f"{name}.{one}": value for one, value in behind.items() if is_function_of_kernels(value)}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with suppress(ValueError):
            found[name] = cell.cell_contents
    return found


def _computed_defaults(function: types.FunctionType) -> dict[str, Any]:
    """Return the defaults that are no literals, such as torch.finfo(torch.float16).max, by parameter."""
    if function not in _COMPUTED:
        _COMPUTED[function] = _parameters_with_computed_defaults(function)
    names = _COMPUTED[function]
    held = inspect.signature(function).parameters if names else {}
    return {name: held[name].default for name in names}


def _parameters_with_computed_defaults(function: types.FunctionType) -> tuple[str, ...]:
    """Read the parameters from the function's source; none where there is no source."""
    try:
        given = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0].args  # type: ignore[attr-defined]
    except (OSError, SyntaxError, ValueError):
        return ()
    several = [*given.posonlyargs, *given.args]
    pairs = [
        *zip(several[len(several) - len(given.defaults) :], given.defaults, strict=True),
        *zip(given.kwonlyargs, given.kw_defaults, strict=True),
    ]
    return tuple(one.arg for one, default in pairs if default and not _is_literal(default))


def _is_literal(node: ast.expr) -> bool:
    if isinstance(node, ast.UnaryOp):
        return _is_literal(node.operand)
    return all(_is_literal(one) for one in node.elts) if isinstance(node, ast.Tuple) else isinstance(node, ast.Constant)


def _attributes_used(name: str, function: types.FunctionType) -> set[str]:
    """Return the attributes of this name that a function uses."""
    return {
        str(after.argval)
        for code in _nested_codes(function.__code__)
        for before, after in pairwise(dis.get_instructions(code))
        if before.argval == name and after.opname in ("LOAD_ATTR", "LOAD_METHOD")
    }


def _nested_codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _nested_codes(constant)
