"""What a kernel's own code uses: names that no GPU compiler would take are Python that only an interpreter runs."""

from __future__ import annotations

import builtins
import dis
import sys
import types
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import triton

from grader.child import onlookers
from grader.child.bystanders import within
from grader.child.interpreter import kind_of_kernels, semantic

_TRITON = str(Path(triton.__file__).parent)
_CORRECTIONS = str(Path(__file__).parent / "interpreter")
# What a kernel may call by name and a compiler understands; anything else is Python that only the interpreter runs.
_BUILTINS = frozenset({"float", "hasattr", "int", "isinstance", "len", "list", "max", "min", "print", "range", "tuple"})
_POWERFUL = frozenset({"__import__", "compile", "eval", "exec", "globals", "locals", "open", "vars", "setattr"})
_CONSTANTS = (int, float, str, bool, type(None))
# Parts of triton that run on the host: through them a kernel would reach all that Python has.
_HOSTS = ("triton.runtime", "triton.compiler", "triton.backends", "triton._C", "triton.testing", "triton.knobs")
# A tensor's value as the interpreter holds it: an array of NumPy's.
_INSIDES = frozenset({"handle"})
_WRITING = frozenset({"STORE_GLOBAL", "DELETE_GLOBAL", "STORE_ATTR", "DELETE_ATTR", "STORE_SUBSCR", "DELETE_SUBSCR"})
_READING = frozenset({"LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF", "LOAD_CLOSURE"})
_FOLLOWING = frozenset({"LOAD_ATTR", "LOAD_METHOD"})
# Where the interpreter's rewriter calls it, in every assignment and loop.
_SEMANTIC = "interpreter_semantic"
_OF_THE_REWRITER = frozenset({"to_tensor", "numbered"})


@dataclass(frozen=True)
class Examined:
    """What a kernel is made of.

    foreign: names that its code uses and no GPU compiler would take. codes: the code that runs when it does, with that
    of the kernel functions that it calls.
    """

    foreign: tuple[str, ...]
    codes: tuple[types.CodeType, ...]


def examine(kernel: Any, values: Iterable[Any] = ()) -> Examined:
    """Look at a kernel, and at kernel functions among its arguments, as the interpreter will run them."""
    seen: dict[int, types.FunctionType] = {}
    found = dict.fromkeys(_foreign_in_kernel(kernel, seen))
    for value in _kernels_among(values):
        found.update(dict.fromkeys(_foreign_in_kernel(value, seen)))
    return Examined(tuple(found), tuple(code for function in seen.values() for code in within(function.__code__)))


def _kernels_among(values: Iterable[Any]) -> Iterator[Any]:
    """The kernel functions among a launch's arguments, in tuples too."""
    for value in values:
        if isinstance(value, tuple):
            # Not as its class may iterate.
            yield from _kernels_among(tuple.__iter__(value))
        elif isinstance(value, kind_of_kernels()):
            yield value


def _foreign_in_kernel(kernel: Any, seen: dict[int, types.FunctionType]) -> Iterator[str]:
    # The interpreter runs a kernel's source, which need not be that of its code: what counts is what it makes of it.
    kind = kind_of_kernels()
    if isinstance(kernel, kind):
        if type(kernel) is not kind:
            yield f"a kernel of type {type(kernel).__name__}"
        yield from _foreign_names(kind.rewrite(kernel), seen)
    # What combines in a reduction is called as it was written.
    yield from _foreign_names(getattr(kernel, "fn", None), seen)


def _foreign_names(function: Any, seen: dict[int, types.FunctionType], *, compiling: bool = False) -> Iterator[str]:
    """Names in a function; `compiling` says that it runs as Python while the kernel is compiled, on numbers."""
    if not isinstance(function, types.FunctionType) or id(function) in seen:
        return
    seen[id(function)] = function
    outer = closure_of(function)
    for value in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()):
        yield from _foreign_value("a default", value, seen)
    for code in within(function.__code__):
        followed = 0
        instructions = [*dis.get_instructions(code)]
        for place, instruction in enumerate(instructions):
            name = str(instruction.argval)
            if instruction.opname == "IMPORT_NAME":
                yield f"import {name}"
            elif instruction.opname in _WRITING:
                yield f"a store to {name}" if "SUBSCR" not in instruction.opname else "a store to an element"
            elif instruction.opname in _FOLLOWING and place >= followed:
                yield from _foreign_attribute(name, seen)
            elif instruction.opname in _READING:
                scope = outer if instruction.opname in ("LOAD_DEREF", "LOAD_CLOSURE") else function.__globals__
                if name in scope:
                    dotted, value, followed = _follow(instructions, place, name, scope[name])
                    if not (compiling and _is_table(value)):
                        yield from _foreign_value(dotted, value, seen)
                elif scope is not outer and name not in _BUILTINS and hasattr(builtins, name):
                    yield name


def _follow(instructions: Sequence[dis.Instruction], place: int, name: str, value: Any) -> tuple[str, Any, int]:
    """What a dotted name comes to, as far as modules lead; and the place of the first instruction behind it."""
    place += 1
    while place < len(instructions) and instructions[place].opname in _FOLLOWING and _is_open_module(value):
        attribute = str(instructions[place].argval)
        name = f"{name}.{attribute}"
        value = vars(value).get(attribute, _Missing())
        place += 1
    if name == _SEMANTIC:
        called = str(instructions[place].argval) if place < len(instructions) else ""
        if value is semantic() and called in _OF_THE_REWRITER:
            return name, None, place + 1
        return name, _Missing(), place
    return name, value, place


class _Missing:
    """What a module does not have."""


def _foreign_attribute(name: str, seen: dict[int, types.FunctionType]) -> Iterator[str]:
    """An attribute of a value that is only known when the kernel runs."""
    if name.startswith("_") or name in _INSIDES:
        yield f".{name}"
    # A method of a tensor's may be a kernel function.
    method = vars(triton.language.standard).get(name)
    if isinstance(method, kind_of_kernels()):
        yield from _foreign_in_kernel(method, seen)


def _foreign_value(name: str, value: Any, seen: dict[int, types.FunctionType]) -> Iterator[str]:
    if type(value).__name__ == "ConstexprFunction" and _is_kernels_own(value):
        # Builtins are its business.
        names = _foreign_names(value.fn, seen, compiling=True)
        yield from (name for name in names if not hasattr(builtins, name) or name in _POWERFUL)
    elif type(value) is tuple:
        for one in value:
            yield from _foreign_value(name, one, seen)
    elif type(value) is triton.language.constexpr:
        yield from _foreign_constant(name, value.value, seen)
    elif isinstance(value, kind_of_kernels()):
        # A nested kernel function is judged by its own code.
        yield from _foreign_in_kernel(value, seen)
    elif isinstance(value, types.ModuleType) or not _is_kernels_own(value):
        if type(value) not in _CONSTANTS:
            yield name
    else:
        yield from _foreign_names(getattr(value, "fn", None), seen)


def _foreign_constant(name: str, value: Any, seen: dict[int, types.FunctionType]) -> Iterator[str]:
    """What a tl.constexpr holds may be anything: an argument of a launch would have to be plain, too."""
    if any(onlookers.among(value)):
        yield from _foreign_value(name, value, seen)


def _is_table(value: Any) -> bool:
    """Whether it is a container of Python's own that holds nothing but constants."""
    if type(value) is dict:
        return all(map(_is_table, (*value.keys(), *value.values())))
    if type(value) in (list, tuple, set, frozenset):
        return all(map(_is_table, value))
    return type(value) in _CONSTANTS


def _is_open_module(value: Any) -> bool:
    return isinstance(value, types.ModuleType) and _is_kernels_own(value) and not value.__name__.startswith(_HOSTS)


def _is_kernels_own(value: Any) -> bool:
    """Whether a compiler would take it: triton's own modules, functions and objects, math, named tuple classes."""
    if isinstance(value, types.ModuleType):
        return value.__name__.partition(".")[0] in ("triton", "math") and sys.modules.get(value.__name__) is value
    if isinstance(value, types.FunctionType):
        return value.__code__.co_filename.startswith((_TRITON, _CORRECTIONS))
    if isinstance(value, type):
        return _defined_in_triton(value) or (issubclass(value, tuple) and hasattr(value, "_fields"))
    return _defined_in_triton(type(value))


def _defined_in_triton(kind: type) -> bool:
    # By identity: anybody can write "triton" into a class's __module__.
    # The interpreter leaves functions of its own in the place of classes, now in one module and now in the other.
    homes = (kind.__module__, "triton.language") if kind.__module__.partition(".")[0] == "triton" else ()
    return any(getattr(sys.modules.get(home), kind.__name__, None) is kind for home in homes)


def closure_of(function: types.FunctionType) -> dict[str, Any]:
    """The names of an enclosing function that have a value by now."""
    values = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with suppress(ValueError):
            values[name] = cell.cell_contents
    return values
