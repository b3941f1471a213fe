"""Counts what a kernel computes element by element, beside its matrix products: exponentials, and all other operations.

An operation on a block counts once for each element of its result; a reduction or a scan, for each element that it
reads. Moving, splitting and broadcasting blocks costs nothing. Neither do numbers that all threads share, nor what a
compiler computes itself.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from grader.interpreter.groups import elements, programs_at_once
from grader.interpreter.lowering import is_constant

# NumPy's names of what a GPU computes on its special-function units. A division is one reciprocal there.
_SPECIAL = frozenset({"exp", "exp2", "log", "log2", "sin", "cos", "sqrt", "divide"})

Count = Callable[[int, bool], None]


def count_instructions(count: Count) -> None:
    """Call `count` with the elements of every operation, and whether it is an exponential or another special function.

    Call it after every patch of the interpreter's builder.
    """
    from triton.runtime.interpreter import InterpreterBuilder, ReduceOps, ScanOps

    def counted(method: Callable[..., Any], *, special: bool = False) -> Callable[..., Any]:
        @functools.wraps(method)
        def counting(self: Any, *operands: Any) -> Any:
            result = method(self, *operands)
            # Only conversions of constants are made once.
            if method.__name__ != "cast_impl" or not is_constant(operands[0]):
                count(in_all_programs(result.data), special or getattr(operands[-1], "__name__", "") in _SPECIAL)
            return result

        return counting

    def reading(apply: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(apply)
        def counting(self: Any, blocks: Any) -> Any:
            count(sum(in_all_programs(one.handle.data) for one in blocks), False)
            return apply(self, blocks)

        return counting

    for name in ("create_rsqrt", "create_erf"):
        setattr(InterpreterBuilder, name, counted(getattr(InterpreterBuilder, name), special=True))
    for name in ("binary_op", "unary_op", "ternary_op", "create_fma", "create_addptr", "cast_impl"):
        setattr(InterpreterBuilder, name, counted(getattr(InterpreterBuilder, name)))
    for operations in (ReduceOps, ScanOps):
        operations.apply_impl = reading(operations.apply_impl)


def in_all_programs(data: Any) -> int:
    """Return the elements of a block, together in all programs that run now; 0 for a number."""
    each, programs = elements(data), programs_at_once()
    return 0 if each == 1 else each * (1 if programs is None else len(programs))
