"""Makes loop counters scalars of the language, as in a compiled kernel; the interpreter passes Python's ints.

So `i.to(tl.int64)` works, and an operation of a loop is lowered once and not anew for each number. A loop tells
PATIENCE its turns.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from grader.interpreter.groups import counters_of_programs
from grader.interpreter.patience import PATIENCE

# A submission may replace Python's.
_RANGE = range
_INT32 = np.iinfo(np.int32)


def numbered(make: Callable[..., Iterable[Any]], *bounds: Any, **more: Any) -> Iterable[Any]:
    """Return the counters of a kernel's loop over make(*bounds): scalars for a range; anything else unchanged.

    Where programs run in lockstep from different bounds, a counter differs between the programs.
    """
    given = [getattr(one, "value", one) for one in (*bounds, *([more["step"]] if "step" in more else []))]
    turns, counters = counters_of_programs(given) or (0, None)
    if counters is None:
        things = make(*bounds, **more)
        if not isinstance(things, _RANGE):
            return things
        turns, counters = len(things), (np.array([one]) for one in things)
    return _scalars(counters, turns, given)


def _scalars(counters: Iterable[Any], turns: int, bounds: Sequence[Any]) -> Iterator[Any]:
    """Yield a scalar for each counter, as many as turns: int64 if a bound is, or needs it, else int32."""
    from triton.runtime.interpreter import TensorHandle, tl

    long = any(
        str(one.dtype).endswith("int64") if hasattr(one, "handle") else not _INT32.min <= int(one) <= _INT32.max
        for one in bounds
    )
    kind, dtype = (tl.int64, np.int64) if long else (tl.int32, np.int32)
    for number, counter in enumerate(counters):
        PATIENCE.turn(number, turns)
        yield tl.tensor(TensorHandle(counter.reshape(-1, *([1] * (counter.size > 1))).astype(dtype), kind), kind)


def static_range(*bounds: Any, step: Any = None, **_: Any) -> Iterable[Any]:
    """Stand in for tl.static_range: its counters are constants."""
    given = [getattr(one, "value", one) for one in (*bounds, *(() if step is None else (step,)))]
    return list(_RANGE(*given))


class WrapLoops(ast.NodeTransformer):
    """Rewrites `for i in range(n)` to `for i in interpreter_semantic.numbered(range, n)`."""

    def visit_For(self, node: ast.For) -> ast.For:
        """Rewrite a loop and the loops within it."""
        self.generic_visit(node)
        if isinstance(node.iter, ast.Call):
            place = ast.Name(id="interpreter_semantic", ctx=ast.Load())
            wrap = ast.Attribute(value=place, attr="numbered", ctx=ast.Load())
            node.iter.args.insert(0, node.iter.func)
            node.iter.func = ast.copy_location(wrap, node.iter)
        return node
