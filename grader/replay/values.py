"""Turn values of a trace into Python objects: plain data, kernels, names of Triton's language; nothing that acts."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from types import FunctionType
from typing import Any, NoReturn

import torch
import triton.language as tl
from triton.runtime import interpreter
from triton.runtime.jit import ConstexprFunction, JITFunction
from triton.tools.tensor_descriptor import TensorDescriptor

from grader.interpreter.versions import block_pointer_handle
from grader.protocol.trace import (
    ConstexprValue,
    DictValue,
    DtypeValue,
    KernelValue,
    LanguageValue,
    ListValue,
    NamedValue,
    TupleValue,
    UnknownValue,
    Value,
)
from grader.replay.language import find

# Triton reads these attributes of every argument.
_TAKEN = frozenset({"data_ptr", "fn", "handle", "tma_desc_cpu_ptr", "untyped_storage"})
# Triton distinguishes types by these attributes.
_OF_TYPES = frozenset(
    {
        *("cache_key_part", "codegen_name", "element_ty", "exponent_bias", "fp_mantissa_width", "get_block_shapes"),
        *("int_bitwidth", "int_signedness", "mangle", "primitive_bitwidth", "scalar", "to_ir", "with_element_ty"),
    }
)
# Links of a chain of exceptions.
_MOST_CAUSES = 40
_CALLED_ON_TENSORS = ("atomic_", "gather", "load", "scatter", "store")
_DTYPES: dict[str, dict[str, object]] = {
    "triton": {
        **{one.name: one for one in vars(tl.core).values() if type(one) is tl.dtype},
        **{name: one for name, one in vars(tl).items() if type(one) is tl.dtype},
    },
    "torch": {name: one for name, one in vars(torch).items() if type(one) is torch.dtype},
}


class ConstantTable(dict[object, object]):
    """A read-only dictionary of a submission: all programs of a kernel share it."""

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise TypeError("a dictionary that a kernel names cannot be changed")

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __deepcopy__(self, memo: object) -> ConstantTable:
        """Return itself: Triton copies a kernel's globals to detect later changes."""
        return self


class RefusedFunction(Exception):
    """A refusal to run a function of the text.

    line: of the text, 0 if not known. rule: the error, and the code to write instead. python: Triton's compiler would
    refuse it too.
    """

    def __init__(self, line: int, rule: str, *, python: bool) -> None:
        super().__init__(line, rule, python)
        self.line, self.rule, self.python = line, rule, python

    def __str__(self) -> str:
        return f"line {self.line}: {self.rule}" if self.line else self.rule


class Elsewhere(RefusedFunction):
    """The refusal of a package's function that does the work of the file's own kernels."""

    def __init__(self, line: int, rule: str) -> None:
        super().__init__(line, rule, python=False)


def refusal_in(raised: BaseException) -> RefusedFunction | None:
    """Return the refusal that led to an exception: interpreter and compiler wrap exceptions of a kernel's functions."""
    link: BaseException | None = raised
    for _ in range(_MOST_CAUSES):
        if link is None or isinstance(link, RefusedFunction):
            return link
        link = link.__cause__ or link.__context__
    return None


@dataclass(frozen=True)
class Unusable:
    """Stands for a value that no kernel can use, within usable data. rule: the error for a use."""

    rule: str

    def __bool__(self) -> NoReturn:
        raise RefusedFunction(0, self.rule, python=False)


class PlainRecord:
    """A dataclass, class or enumeration of constants of a submission, reduced to its fields."""

    __slots__ = ("__fields", "__name")

    def __init__(self, name: str, fields: dict[str, object]) -> None:
        object.__setattr__(self, "_PlainRecord__name", name)
        object.__setattr__(self, "_PlainRecord__fields", fields)

    def __getattr__(self, name: str) -> object:
        fields = fields_of(self)
        if name not in fields:
            raise AttributeError(f"{self.__name} has no field {name}")
        return fields[name]

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"{self.__name} cannot be changed")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"{self.__name} cannot be changed")

    def __deepcopy__(self, memo: object) -> PlainRecord:
        """Return itself, as a table does."""
        return self

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PlainRecord) and repr(self) == repr(other) and fields_of(self) == fields_of(other)

    def __hash__(self) -> int:
        return hash(repr(self))

    def __repr__(self) -> str:
        return text_of(self)


def fields_of(value: object) -> dict[str, object]:
    """Return the fields of a record or a named tuple; an empty dictionary for any other value."""
    if type(value) is PlainRecord:
        fields: dict[str, object] = object.__getattribute__(value, "_PlainRecord__fields")
        return fields
    if isinstance(value, tuple):
        return dict(zip(getattr(type(value), "_fields", ()), value, strict=False))
    return {}


def text_of(value: object, how: str = "s") -> str:
    """Return the text of a value in an f-string; its kind unless it is data, a type of Triton or a tensor.

    Python's own text of an object would show its address. how: "s", "r" or "a".
    """
    if value is None or isinstance(value, int | float | str | torch.dtype | tl.tensor | tl.dtype):
        text = str(value) if how == "s" else repr(value)
    else:
        text = _text_of_parts(value)
    return text.encode("ascii", "backslashreplace").decode("ascii") if how == "a" else text


def _text_of_parts(value: object) -> str:
    if isinstance(value, tl.constexpr):
        return f"constexpr[{text_of(value.value)}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{text_of(key, 'r')}: {text_of(one, 'r')}" for key, one in value.items()) + "}"
    if type(value) is PlainRecord or fields_of(value):
        called = (
            object.__getattribute__(value, "_PlainRecord__name") if type(value) is PlainRecord else type(value).__name__
        )
        parts = [f"{name}={text_of(one, 'r')}" for name, one in fields_of(value).items()]
        return f"{called}({', '.join(parts)})"
    if isinstance(value, tuple | list | set | tl.tuple):
        first, last = ("[", "]") if isinstance(value, list) else ("{", "}") if isinstance(value, set) else ("(", ")")
        items = [text_of(one, "r") for one in value]
        return first + ", ".join(items) + ("," if last == ")" and len(items) == 1 else "") + last
    fn = getattr(value, "fn", None)
    if isinstance(fn, FunctionType):
        return f"<{fn.__qualname__} of line {fn.__code__.co_firstlineno}>"
    return f"<{type(value).__name__}>"


def plain_value(value: Value, kernel_of: Callable[[int], object]) -> object:
    """Return the object of a value. kernel_of: gives the kernel of a number. Raises RefusedFunction unless it is plain.

    Lists become tuples, as in a launch of Triton.
    """
    match value:
        case None | bool() | int() | float() | str():
            found: object = value
        case TupleValue(items) | ListValue(items):
            found = tuple(_part(one, kernel_of) for one in items)
        case DictValue(items):
            found = ConstantTable(_dict_items(items, kernel_of))
        case ConstexprValue(held):
            found = tl.constexpr(plain_value(held, kernel_of))
        case NamedValue():
            found = _named_value(value, kernel_of)
        case KernelValue(index):
            found = kernel_of(index)
        case DtypeValue(library, name) if name in _DTYPES[library]:
            found = _DTYPES[library][name]
        case LanguageValue(path) if (offered := find(path)) and offered.kind in ("function", "data"):
            found = offered.value
        case _:
            raise RefusedFunction(0, _unusable(value), python=False)
    return found


def _part(value: Value, kernel_of: Callable[[int], object]) -> object:
    """Return a part of data. A value that the recorder could not turn is harmless if nothing uses it."""
    return Unusable(_unusable(value)) if isinstance(value, UnknownValue) else plain_value(value, kernel_of)


def _unusable(value: Value) -> str:
    return f"a kernel cannot use {describe(value)}: give it numbers, texts, dtypes or kernels"


def describe(value: Value) -> str:
    """Return a short description of a value."""
    match value:
        case UnknownValue(what) | LanguageValue(what):
            return what
        case DtypeValue(library, name):
            return f"the dtype {name} of {library}"
    return f"a {type(value).__name__.removesuffix('Value').lower()}"


def _dict_items(
    items: tuple[tuple[Value, Value], ...], kernel_of: Callable[[int], object]
) -> Iterator[tuple[object, object]]:
    for key, one in items:
        known = plain_value(key, kernel_of)
        try:
            hash(known)
        except TypeError:
            raise RefusedFunction(0, "a key of a dictionary must be a number or a text", python=False) from None
        yield known, _part(one, kernel_of)


def _named_value(value: NamedValue, kernel_of: Callable[[int], object]) -> object:
    for name in (value.name, *value.fields):
        if not name.isidentifier():
            raise RefusedFunction(0, f"{name!r} is no name", python=False)
    for name in value.fields:
        if name in _TAKEN or name in _OF_TYPES or name.startswith("_") or name.endswith("_"):
            raise RefusedFunction(0, f"a field cannot be called {name}: call it otherwise", python=False)
    items = [_part(one, kernel_of) for one in value.items]
    for name, item in zip(value.fields, items, strict=False):
        if is_acting(name, item):
            raise RefusedFunction(0, f"a function cannot be in a field called {name}: call it otherwise", python=False)
    if value.kind == "record":
        return PlainRecord(value.name, dict(zip(value.fields, items, strict=True)))
    try:
        kind = _tuple_class(value.name, value.fields)
        return kind if value.kind == "class" else kind(*items)
    except ValueError as error:
        raise RefusedFunction(0, f"{value.name} is no named tuple: {error}", python=False) from None


def is_acting(name: str, value: object) -> bool:
    """Return whether a field holds a function under a name that Triton or its interpreter may call."""
    held = value.value if isinstance(value, tl.constexpr) else value
    return callable(held) and name in _method_names()


@cache
def _method_names() -> frozenset[str]:
    types = (tl.core.base_type, tl.core.base_value, tl.dtype, tl.pointer_type, tl.block_type, tl.core.tuple_type, tuple)
    insides = (interpreter.TensorHandle, block_pointer_handle(), interpreter.TensorDescHandle)
    descriptors = (tl.core.tensor_descriptor_base, tl.tensor_descriptor, TensorDescriptor)
    kernels = (JITFunction, ConstexprFunction, interpreter.InterpretedFunction)
    names = {name for one in (*types, *insides, *descriptors, *kernels) for name in dir(one)}
    # tl.exp(x) calls no method of x: a record may have functions under such names.
    names |= {name for name in dir(tl.tensor) if name.startswith(_CALLED_ON_TENSORS)}
    computed = frozenset(dir(tl.math)) | {"argmax", "argmin", "max", "min", "sum", "sort"}
    return frozenset(names - computed) | {"cast", "dtype", "numel", "shape", "to", "type"}


@cache
def _tuple_class(name: str, fields: tuple[str, ...]) -> Any:
    # Equal fields share a class, since Triton compares the types of tuples. namedtuple checks the names.
    return namedtuple(name, fields)
