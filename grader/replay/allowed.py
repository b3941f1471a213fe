"""List what a kernel may name: builtins, attributes and operators, and the statements that Triton lacks."""

from __future__ import annotations

import ast
import functools
import inspect
from collections.abc import Iterator
from typing import Any, Literal

import triton.language as tl
from triton.runtime import interpreter
from triton.runtime.jit import ConstexprFunction, JITFunction
from triton.tools.tensor_descriptor import TensorDescriptor

Mode = Literal["jit", "constexpr"]

# Builtins that Triton's compiler knows, except getattr, and builtins that may make constants.
BUILTINS_OF: dict[Mode, frozenset[str]] = {
    "jit": frozenset({"float", "hasattr", "int", "isinstance", "len", "list", "max", "min", "print", "range"}),
    "constexpr": frozenset(
        {
            *("abs", "all", "any", "bool", "dict", "divmod", "enumerate", "float", "hasattr", "int", "isinstance"),
            *("len", "list", "max", "min", "pow", "range", "reversed", "round", "set", "sorted", "sum", "tuple", "zip"),
            *("AssertionError", "KeyError", "NotImplementedError", "RuntimeError", "TypeError", "ValueError"),
        }
    ),
}
# The types in `isinstance(x, …)`.
TYPES = frozenset({"bool", "dict", "float", "int", "list", "set", "tuple"})
BUILTINS = TYPES.union(*BUILTINS_OF.values())
PRINTING = frozenset({"device_print", "print", "static_print"})
LOOPS = frozenset({"range", "static_range"})
# Names that mean something to Triton: its interpreter writes the first into kernels, its compiler knows the other.
RESERVED = frozenset({"interpreter_semantic", "getattr"})
MATHS = frozenset({"cupy", "jax", "math", "numpy", "torch"})

# Attributes of values: those of Triton's classes, except attributes that build or compile.
_CLASSES = (tl.tensor, tl.tensor_descriptor, tl.dtype, tl.pointer_type, tl.block_type, tl.constexpr)
_OF_INSTANCES = frozenset(
    {
        *("T", "dtype", "element_ty", "name", "numel", "shape", "strides", "type", "value", "address_space"),
        *("block_shape", "exponent_bias", "fp_mantissa_width", "int_bitwidth", "int_signedness", "itemsize"),
        *("primitive_bitwidth", "scalar", "nbytes"),
    }
)
_INSIDES = frozenset(
    {
        *("FP_TYPES", "KIND", "OTHER_TYPES", "SIGNEDNESS", "SINT_TYPES", "STANDARD_FP_TYPES", "UINT_TYPES"),
        *("cache_key_part", "codegen_name", "handle", "kind", "mangle", "to_ir", "with_element_ty"),
    }
)
# Harmless names of a configuration's fields, though Python's or Triton's objects have them too.
_HARMLESS = frozenset({"count", "debug", "index", "kind", "version"})
# Methods of Python's numbers and dictionaries, for functions of constants.
OF_TABLES = frozenset({"bit_count", "bit_length", "get", "items", "keys", "values"})

# Operator methods that Triton lets a kernel call, and their operators.
_SIGNS = {
    **dict(zip(("add", "sub", "mul", "truediv", "floordiv", "mod"), ("+", "-", "*", "/", "//", "%"), strict=True)),
    **dict(zip(("lshift", "rshift", "and", "or", "xor"), ("<<", ">>", "&", "|", "^"), strict=True)),
    **dict(zip(("lt", "le", "gt", "ge", "eq", "ne"), ("<", "<=", ">", ">=", "==", "!="), strict=True)),
}
OPERATORS = {f"__{name}__": f"a {sign} b" for name, sign in _SIGNS.items()}

# Gluon's method that views shared memory in another shape or layout. Its tutorials use it, in spite of the underscore.
_UNDERSCORED = frozenset({"_reinterpret"})

STATEMENTS: dict[str, str] = {
    "AsyncFor": "async for",
    "AsyncFunctionDef": "function inside it",
    "AsyncWith": "async with",
    "Break": "break: let the loop's condition end it",
    "ClassDef": "class inside it",
    "Continue": "continue: write an if around the rest of the loop",
    "Delete": "del",
    "Dict": "dictionary: write a tuple",
    "DictComp": "dictionary: write a tuple",
    "FunctionDef": "function inside it: define it beside the kernel, with @triton.jit",
    "GeneratorExp": "generator: write a loop over tl.static_range",
    "Global": "global: pass the value as an argument",
    "Import": "import: import at the top of the file",
    "ImportFrom": "import: import at the top of the file",
    "Lambda": "lambda: define a function with @triton.jit",
    "Match": "match: write if and elif",
    "NamedExpr": "`:=`: assign on a line of its own",
    "Nonlocal": "nonlocal: return the value",
    "Raise": "raise: write tl.device_assert",
    "Set": "set: write a tuple",
    "SetComp": "set: write a tuple",
    "Try": "try: write an if",
    "TryStar": "try: write an if",
    "With": "with",
    "Yield": "yield: store or return the value",
    "YieldFrom": "yield: store or return the value",
    "Await": "await",
}


@functools.cache
def safe_attributes() -> frozenset[str]:
    """Return the attributes of Triton's values that neither build nor compile anything."""
    names = {name for one in _CLASSES for name in dir(one) if not name.startswith("_")}
    return frozenset(names | _OF_INSTANCES | _UNDERSCORED) - _INSIDES


@functools.cache
def unsafe_attributes() -> frozenset[str]:
    """Return the attributes through which Python's objects or Triton's kernels act, or expose their content.

    While a kernel is compiled, an attribute of a function argument is Python's. The interpreter is safe without this
    list: an attribute that no Triton value has is a field of a record there, or an error.
    """

    def generator() -> Iterator[None]:
        yield

    trusted = tl.standard.sigmoid.fn
    samples: tuple[Any, ...] = (
        *([], {}, set(), object, type, ast, len, [].append, ValueError(), property(), functools.partial(len)),
        *(generator, generator.__code__, generator(), inspect.currentframe(), TensorDescriptor),
        *(JITFunction(trusted), ConstexprFunction(trusted), interpreter.InterpretedFunction(trusted)),
        *(interpreter.FunctionRewriter(trusted), interpreter.interpreter_builder, interpreter.interpreter_semantic),
    )
    names = {name for one in samples for name in dir(one)} | {"data_ptr", "format", "format_map"}
    return frozenset(names | _INSIDES) - safe_attributes() - _HARMLESS
