"""Count what a kernel computes element by element, beside its matrix products: exponentials, and all other operations.

An operation on a block counts once for each element of its result; a reduction or a scan, for each element that it
reads. Moving, splitting and broadcasting blocks costs nothing. Neither do numbers that all threads share, nor what a
compiler computes itself.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

from grader.interpreter.groups import elements, programs_at_once
from grader.interpreter.lowering import is_constant
from grader.interpreter.switched import Method, Switched

# NumPy's names of what a GPU computes on its special-function units. A division is one reciprocal there.
_SPECIAL = frozenset({"exp", "exp2", "log", "log2", "sin", "cos", "sqrt", "divide"})

Count = Callable[[int, bool], None]


class InstructionCounter:
    """Calls `count` with the elements of every operation while it is switched on.

    The second argument says whether the operation is an exponential or another special function. Off, it costs nothing.
    """

    def __init__(self, count: Count) -> None:
        self._count = count
        self._methods = Switched(self._counting)

    def switch(self, on: bool) -> None:
        """Count from now on, or no longer."""
        self._methods.switch(on)

    def _counting(self) -> Iterator[Method]:
        from triton.runtime.interpreter import InterpreterBuilder, ReduceOps, ScanOps

        for name in ("create_rsqrt", "create_erf"):
            plain = getattr(InterpreterBuilder, name)
            yield InterpreterBuilder, name, plain, self._counted(plain, special=True)
        for name in ("binary_op", "unary_op", "ternary_op", "create_fma", "create_addptr", "cast_impl"):
            plain = getattr(InterpreterBuilder, name)
            yield InterpreterBuilder, name, plain, self._counted(plain)
        for operations in (ReduceOps, ScanOps):
            yield operations, "apply_impl", operations.apply_impl, self._reading(operations.apply_impl)

    def _counted(self, method: Callable[..., Any], *, special: bool = False) -> Callable[..., Any]:
        @functools.wraps(method)
        def counting(builder: Any, *operands: Any) -> Any:
            result = method(builder, *operands)
            # Only conversions of constants are made once.
            if method.__name__ != "cast_impl" or not is_constant(operands[0]):
                is_special = special or getattr(operands[-1], "__name__", "") in _SPECIAL
                self._count(in_all_programs(result.data), is_special)
            return result

        return counting

    def _reading(self, apply: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(apply)
        def counting(operations: Any, blocks: Any) -> Any:
            self._count(sum(in_all_programs(one.handle.data) for one in blocks), False)
            return apply(operations, blocks)

        return counting


def in_all_programs(data: Any) -> int:
    """Return the elements of a block, together in all programs that run now; 0 for a number."""
    each, programs = elements(data), programs_at_once()
    return 0 if each == 1 else each * (1 if programs is None else len(programs))
