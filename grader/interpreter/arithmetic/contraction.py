"""Round a product and the sum that it goes into once, as the fused multiply-add of a GPU does.

The interpreter rounds twice, and so hides a mistake: `x * c - max(x * c)` is 0 at the maximum only if both products are
rounded. A GPU rounds one of them. What is left is small, but for large x it overflows an exponential.

Triton lets LLVM and ptxas contract unless a launch says enable_fp_fusion=False. The PTX and SASS of Triton 3.7 for
sm_90 show what they contract, in float64, float32, float16 and bfloat16, and this module does the same:

- a product of the same type that is added or subtracted, however many other uses it has. Each use is for itself: a
  maximum or a store of the product sees it rounded;
- through a splat, a broadcast and expand_dims, but not through tl.where, a maximum or a conversion;
- the left one of two products;
- within one basic block: not from before a loop into it, nor out of a branch;
- not with a tl.dot: the other addend becomes the accumulator of the tensor cores.

What they contract beyond is rounded twice here, as without this module: a division, whose last step is a product;
products within a reduction, whose order depends on the threads; a product that has one use only, in another basic
block; loops of a few constant turns. In two cases they contract less than is done here: a product of values that do not
change in a loop, which LLVM moves out of it, and one that changes its layout before the addition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from grader.interpreter import kind_of_kernels
from grader.interpreter.arithmetic.numerics import BFLOAT16, from_bfloat16
from grader.interpreter.basic_blocks import present_basic_block

Array = NDArray[Any]
Method = Callable[..., Any]

# The methods that give a product another shape, with the position of the argument that may be one.
_MOVES = {"create_splat": 1, "create_broadcast": 0, "create_expand_dims": 0}
# The origin of a value that tensor cores computed.
_DOT = object()


class Contraction:
    """The switch of contraction. A call may be replayed without it; a launch may forbid it.

    happened: a sum of the call took a product that was not rounded.
    """

    def __init__(self) -> None:
        self.begin(True)

    def begin(self, is_on: bool) -> None:
        """Start over with a call."""
        self._in_call = self.is_on = is_on
        self.happened = False

    @contextmanager
    def launching(self, allowed: bool) -> Iterator[None]:
        """Contract within a launch if it allows that."""
        before, self.is_on = self.is_on, self._in_call and allowed
        try:
            yield
        finally:
            self.is_on = before


CONTRACTION = Contraction()


@dataclass(frozen=True)
class Product:
    """The factors of a product.

    moves: what has given the product another shape since, on handles. basic_block: where the product was computed.
    """

    left: Array
    right: Array
    dtype: Any
    basic_block: int
    moves: tuple[Method, ...] = ()

    def moved(self, move: Method) -> Product:
        """Return the product in another shape."""
        return replace(self, moves=(*self.moves, move))

    def plus(self, _product: Array, addend: Array) -> Array:
        """Return the product plus an addend, not rounded yet. Takes the operands of the addition, as the others do."""
        return self._exact() + addend

    def minus(self, _product: Array, subtrahend: Array) -> Array:
        """Return the product minus a subtrahend."""
        return self._exact() - subtrahend

    def added_to(self, augend: Array, _product: Array) -> Array:
        """Return the augend plus the product."""
        return augend + self._exact()

    def taken_from(self, minuend: Array, _product: Array) -> Array:
        """Return the minuend minus the product."""
        return minuend - self._exact()

    def _exact(self) -> Array:
        """Return the product in float64, which holds that of two narrower numbers; of float64, in what NumPy has."""
        from triton.runtime.interpreter import TensorHandle

        factors = [self.left, self.right]
        for move in self.moves:
            factors = [move(TensorHandle(one, self.dtype)).data for one in factors]
        kind = str(self.dtype.name)
        if kind == BFLOAT16:
            factors = [from_bfloat16(one) for one in factors]
        wide = np.longdouble if kind == "fp64" else np.float64
        # A sum in float64 rounds as well: one that this makes a tie of float32 may have a wrong last bit.
        exact: Array = np.multiply(*factors, dtype=wide)
        return exact


def contract_products() -> None:
    """Patch this process's interpreter. Call it after the arithmetic is corrected."""
    from triton.runtime.interpreter import InterpreterBuilder, TensorHandle

    TensorHandle.origin = None
    follow_products(InterpreterBuilder)
    _contract_sums(InterpreterBuilder)
    _obey_launches()


def follow_products(builder: type) -> None:
    """Let the methods of a builder that move values keep the factors of products."""

    def following(method: Method, place: int) -> Method:
        def moved(self: Any, *what: Any) -> Any:
            result, product = method(self, *what), what[place].origin
            if type(product) is Product:
                result.origin = product.moved(partial(_moved, method, self, what, place))
            return result

        return moved

    for name, place in _MOVES.items():
        setattr(builder, name, following(getattr(builder, name), place))


def _moved(method: Method, builder: Any, what: tuple[Any, ...], place: int, factor: Any) -> Any:
    """Return a factor in the shape that a method gave to the product, its argument at that place."""
    return method(builder, *what[:place], factor, *what[place + 1 :])


def _contract_sums(builder: Any) -> None:
    multiply, add, subtract, dot = (getattr(builder, f"create_{name}") for name in ("fmul", "fadd", "fsub", "dot"))

    def create_fmul(self: Any, lhs: Any, rhs: Any) -> Any:
        result = multiply(self, lhs, rhs)
        if CONTRACTION.is_on:
            result.origin = Product(lhs.data, rhs.data, lhs.dtype.scalar, present_basic_block())
        return result

    def create_fadd(self: Any, lhs: Any, rhs: Any) -> Any:
        if lhs.origin is not _DOT and rhs.origin is not _DOT:
            if product := _contracted(lhs):
                return self.binary_op(lhs, rhs, product.plus)
            if product := _contracted(rhs):
                return self.binary_op(lhs, rhs, product.added_to)
        return add(self, lhs, rhs)

    def create_fsub(self: Any, lhs: Any, rhs: Any) -> Any:
        if product := _contracted(lhs):
            return self.binary_op(lhs, rhs, product.minus)
        if product := _contracted(rhs):
            return self.binary_op(lhs, rhs, product.taken_from)
        return subtract(self, lhs, rhs)

    def create_dot(self: Any, *what: Any) -> Any:
        result = dot(self, *what)
        result.origin = _DOT
        return result

    builder.create_fmul, builder.create_fadd, builder.create_fsub = create_fmul, create_fadd, create_fsub
    builder.create_dot = create_dot


def _contracted(handle: Any) -> Product | None:
    """Return the product that a value is, if it was computed in this basic block."""
    product = handle.origin
    if type(product) is not Product or product.basic_block != present_basic_block():
        return None
    CONTRACTION.happened = True
    return product


def _obey_launches() -> None:
    """Let enable_fp_fusion=False forbid it for a launch."""
    kind = kind_of_kernels()
    run = kind.run

    def obeying(kernel: Any, *args: Any, **options: Any) -> Any:
        given = options.get("enable_fp_fusion", True)
        with CONTRACTION.launching(bool(getattr(given, "value", given))):
            return run(kernel, *args, **options)

    kind.run = obeying
