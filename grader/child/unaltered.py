"""What a kernel runs on must be what was there before the submission: triton, NumPy, torch, Python's builtins, us.

A submission may change what it likes in its own process. But while a kernel runs, sealed memory is open to whatever
runs with it, and a function that was put in the place of triton's or NumPy's would see the true bytes.
"""

from __future__ import annotations

import builtins
import sys
import typing
from collections.abc import Collection, Iterator
from functools import partial
from operator import is_
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import torch

from grader.child.bystanders import within
from grader.child.inherited import Inherited
from grader.child.kernel_code import closure_of

# Whole packages, and modules of which a kernel's run uses a part.
_PACKAGES = frozenset({"triton", "grader"})
_MODULES = (
    *("builtins", "contextlib", "gc", "inspect", "io", "operator", "os", "signal", "sys", "warnings"),
    *("numpy", "numpy._core.multiarray", "numpy._core.umath", "numpy._core.fromnumeric", "numpy._core.numeric"),
    *("torch", "torch._tensor", "torch.storage", "torch.utils._python_dispatch"),
)
_OUR_FOLDER = str(Path(__file__).parents[1])
# An owner of names, the names that it had, and its type.
_Entry = tuple[Any, dict[str, Any], type]
# What nothing calls while a kernel runs. Python in their place, if it were called there, would be noticed.
_HOOKS = {("sys", "excepthook"), ("sys", "displayhook"), ("warnings", "showwarning")}
_WORDS = (str, int, bool, type(None))
_CALLABLES = (FunctionType, type(len), type(object.__init__), type(str.join), staticmethod, classmethod, property)


_early = Inherited["Unaltered"]()


def remember(operators: Collection[str]) -> None:
    """Look at everything once, in the fork server: in its children little is different."""
    _early.leave(Unaltered(operators))


def as_it_is(operators: Collection[str]) -> Unaltered:
    """What is there now, remembered."""
    found = _early.take()
    if found is None:
        return Unaltered(operators)
    found.renew()
    return found


class Unaltered:
    """Remembers, when it is made, every function and method of these modules and the code behind it; and what torch
    calls for each of these ATen operators.
    """

    def __init__(self, operators: Collection[str] = ()) -> None:
        # Every owner of names, with these and its type; and those of them that are ours.
        self._all: dict[int, _Entry] = {}
        self._ours: list[_Entry] = []
        self._codes: dict[int, tuple[FunctionType, CodeType]] = {}
        self._recoded: dict[int, FunctionType] = {}
        self._own: set[CodeType] = set()
        # Of whatever was there: objects by their ids, and the global names that functions see.
        self._values: dict[int, Any] = {}
        self._globals: set[int] = set()
        # Names that the interpreter itself puts into triton's modules, and what they stand for.
        self._lent: dict[str, Any] = {}
        self.renew()
        every = torch._C._dispatch_get_all_op_names()
        named = [name for name in every if name.removeprefix("aten::").partition(".")[0] in operators]
        self._operators = {name: torch._C._dispatch_dump(name) for name in named if name.startswith("aten::")}

    def renew(self) -> None:
        """Remember what is there now, operators aside: before the submission is loaded, what differs is our work."""
        # It executes triton's own functions, annotations included, among triton's own names.
        self._lent = {**vars(typing), **_interpreter_s_own(), "static_print": builtins.print}
        owners: list[Any] = [owner for module in _watched() for owner in (module, *_classes_of(module))]
        for owner in (*owners, *_objects_of(owners)):
            if id(owner) not in self._all:
                entry: _Entry = (owner, {}, type(owner))
                self._all[id(owner)] = entry
                if _package_of(owner) == "grader":
                    self._ours.append(entry)
        for owner, names, _ in self._all.values():
            now = vars(owner)
            found = {name: value for name, value in now.items() if name not in names or names[name] is not value}
            if found or len(now) != len(names):
                # In the order in which they stand there.
                names.clear()
                names.update(now)
            for value in found.values():
                self._note(value)
        for function, code in [*self._codes.values()]:
            if function.__code__ is not code:
                self._note(function)

    def _note(self, value: Any) -> None:
        self._values[id(value)] = value
        for function in _functions_of(value):
            self._codes[id(function)] = function, function.__code__
            self._own.update(within(function.__code__))
            self._globals.add(id(function.__globals__))

    def recode(self, function: FunctionType) -> None:
        """A function is about to get other code: Python says so, which spares a look at all of them."""
        if id(function) in self._codes:
            self._recoded[id(function)] = function

    def differences(self, *, of_ours: bool = False) -> Iterator[str]:
        """The names of what was replaced since; and of functions that were added to triton's modules. `of_ours` looks
        at this package alone, which takes a tenth of the time.
        """
        for owner, names, kind in self._ours if of_ours else self._all.values():
            if type(owner) is not kind:
                yield f"the type of {_name_of(owner)}"
            now = vars(owner)
            if _are_the_same(now.values(), names.values()):
                continue
            for name, value in now.items():
                before = names.get(name)
                if value is before or not _runs(value if before is None else before):
                    continue
                if self._is_lent(owner, name, value) or _is_hook(owner, name, value):
                    continue
                if (before is not None or _hides(owner, name)) and not self._is_known(value, name):
                    yield f"{_name_of(owner)}.{name}"
        for place, function in self._recoded.items():
            code = self._codes[place][1]
            if function.__code__ is not code and (not of_ours or code.co_filename.startswith(_OUR_FOLDER)):
                yield f"the code of {function.__name__}"
        for name, known in () if of_ours else self._operators.items():
            if torch._C._dispatch_dump(name) != known:
                yield name

    def _is_lent(self, owner: Any, name: str, value: Any) -> bool:
        return self._lent.get(name) is value and isinstance(owner, ModuleType) and _is_triton(owner)

    def _is_known(self, value: Any, name: str = "") -> bool:
        """Whether only functions that were there can have made it, or it was there under this name. What was there
        under another is not known: in the place of another, any function of NumPy's or of Python's does something else.
        """
        if type(value) is partial:
            given = (*value.args, *value.keywords.values())
            return self._is_known(value.func) and all(type(one) in _WORDS for one in given)
        found = [*_functions_of(value)]
        misplaced = any(id(one) in self._codes and one.__code__.co_name != name for one in found)
        return bool(found) and not misplaced and all(map(self._is_made_of_known, found))

    def _is_made_of_known(self, function: FunctionType) -> bool:
        """Whether it has a known function's code and global names, and holds nothing else that could run."""
        if id(function) in self._codes:
            return True
        if function.__code__ not in self._own or id(function.__globals__) not in self._globals:
            return False
        given = (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())
        held = (*closure_of(function).values(), *given)
        return all(self._may_be_held(one) for one in held if one is not function)

    def _may_be_held(self, value: Any) -> bool:
        """By known code: plain words, known functions, what was there, and objects of triton's that hold no more."""
        if isinstance(value, FunctionType):
            return self._is_made_of_known(value)
        was_there = id(value) in self._values
        if isinstance(value, type) or (was_there and not callable(value)):
            return was_there
        if callable(value) or not _is_triton(type(value)):
            return type(value) in _WORDS
        # Triton makes such objects anew for every function that it wraps.
        parts = getattr(value, "__dict__", {}).values()
        return id(type(value)) in self._values and all(map(self._may_be_held, parts))


def _interpreter_s_own() -> dict[str, Any]:
    interpreter = sys.modules.get("triton.runtime.interpreter")
    return vars(interpreter) if interpreter else {}


def _are_the_same(some: Collection[Any], others: Collection[Any]) -> bool:
    """Whether these are the same objects in the same order. Equal is not enough: what is equal, they decide."""
    return len(some) == len(others) and all(map(is_, some, others))


def _watched() -> list[ModuleType]:
    found = [module for name, module in [*sys.modules.items()] if name.partition(".")[0] in _PACKAGES]
    found += [sys.modules[name] for name in _MODULES if name in sys.modules]
    return [module for module in found if type(module) is ModuleType]


def _classes_of(module: ModuleType) -> list[type]:
    """The classes that a module defines, with those that they are made of."""
    own = [value for value in [*vars(module).values()] if isinstance(value, type)]
    return [one for one in own if one.__module__ == module.__name__ and _is_python(one)]


def _is_python(kind: type) -> bool:
    # Types of C modules cannot be changed.
    return bool(kind.__flags__ & (1 << 9))


def _objects_of(owners: Collection[Any]) -> list[Any]:
    """What triton's modules keep in their names, of classes of triton's: an object can have methods of its own."""
    modules = [owner for owner in owners if isinstance(owner, ModuleType) and _is_triton(owner)]
    every = {id(value): value for module in modules for value in vars(module).values()}
    return [
        value for value in every.values() if _is_triton(type(value)) and isinstance(getattr(value, "__dict__", 0), dict)
    ]


def _hides(owner: Any, name: str) -> bool:
    """Whether a name that is new here comes before one that was found until now; in triton, kernels may use any."""
    if isinstance(owner, type):
        return _is_triton(owner) or any(name in vars(base) for base in owner.__mro__[1:])
    if isinstance(owner, ModuleType):
        return _is_triton(owner) or hasattr(builtins, name)
    return True


def _is_hook(owner: Any, name: str, value: Any) -> bool:
    return type(value) is FunctionType and isinstance(owner, ModuleType) and (owner.__name__, name) in _HOOKS


def _name_of(owner: Any) -> str:
    return owner.__name__ if isinstance(owner, ModuleType | type) else f"an object of type {type(owner).__name__}"


def _is_triton(owner: Any) -> bool:
    return _package_of(owner) == "triton"


def _package_of(owner: Any) -> str:
    name = owner.__name__ if isinstance(owner, ModuleType) else owner.__module__
    return str(name).partition(".")[0]


def _runs(value: Any) -> bool:
    return isinstance(value, (*_CALLABLES, type)) or (callable(value) and not isinstance(value, ModuleType))


def _functions_of(value: Any) -> Iterator[FunctionType]:
    """The Python functions behind an attribute."""
    match value:
        case FunctionType():
            yield value
            wrapped = getattr(value, "__wrapped__", None)
            if isinstance(wrapped, FunctionType):
                yield wrapped
        case staticmethod() | classmethod():
            yield from _functions_of(value.__func__)
        case property():
            for one in (value.fget, value.fset):
                yield from _functions_of(one)
