"""Make loop counters scalars of the language, as in a compiled kernel; the interpreter passes Python's ints.

So `i.to(tl.int64)` works, and an operation of a loop is lowered once and not anew for each number. A loop tells
PATIENCE its turns. A variable that a loop finds and assigns keeps its type, as a compiler demands. A counter has no
value after its loop: compiled code then holds any number.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count
from typing import Any

import numpy as np

from grader.interpreter.basic_blocks import begin_basic_block
from grader.interpreter.groups import counters_of_programs
from grader.interpreter.language.branches import BRANCHES
from grader.interpreter.language.trees import copied
from grader.interpreter.programs.patience import PATIENCE

# A submission may replace Python's.
_RANGE = range
_INT32 = np.iinfo(np.int32)
_START_AND_STOP = 2


def numbered(make: Callable[..., Iterable[Any]], *bounds: Any, **more: Any) -> Iterable[Any]:
    """Return the counters of a kernel's loop over make(*bounds): scalars for a range; anything else unchanged.

    Where programs run in lockstep from different bounds, a counter differs between the programs.
    """
    given = [getattr(one, "value", one) for one in (*bounds, *([more["step"]] if "step" in more else []))]
    _refuse_to_count_down(given)
    turns, counters = counters_of_programs(given) or (0, None)
    if counters is None:
        things = make(*bounds, **more)
        if not isinstance(things, _RANGE):
            if isinstance(things, list):
                BRANCHES.note_loop(len(things))
            return things
        turns, counters = len(things), (np.array([one]) for one in things)
    BRANCHES.note_loop(turns)
    return _scalars(counters, turns, given)


def _refuse_to_count_down(bounds: Sequence[Any]) -> None:
    """Raise ValueError for a negative step that is no constant: compiled code then makes no turn."""
    step = getattr(bounds[-1], "handle", None) if len(bounds) > _START_AND_STOP else None
    if step is not None and (step.data < 0).any():
        raise ValueError(
            "a loop counts down by a constant only, and this step is an argument or a variable: compiled code makes no "
            "turn. Count up, and compute the place from the counter"
        )


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
        begin_basic_block()
        yield tl.tensor(TensorHandle(counter.reshape(-1, *([1] * (counter.size > 1))).astype(dtype), kind), kind)
    begin_basic_block()


def static_range(*bounds: Any, step: Any = None, **_: Any) -> Iterable[Any]:
    """Stand in for tl.static_range: its counters are constants."""
    given = [getattr(one, "value", one) for one in (*bounds, *(() if step is None else (step,)))]
    return list(_RANGE(*given))


class LoopVariableError(TypeError):
    """A variable that leaves a turn of a loop with another type than the loop found: no compiler accepts that."""


# The types of the variables of each loop before it, by the loop's number: all programs find the same.
_found: dict[int, tuple[str, ...]] = {}
_numbers = count()


def entering(loop: int, *values: Any) -> None:
    """Note the types that a loop finds in the variables that it assigns."""
    _found[loop] = tuple(map(_type_words, values))


def carried(loop: int, names: str, *values: Any) -> None:
    """Raise LoopVariableError where a variable has another type than before the loop.

    Widths of integers are not compared: the interpreter takes them from the numbers.
    """
    for name, was, value in zip(names.split(), _found[loop], values, strict=True):
        now = _type_words(value)
        if was and now and was != now:
            raise LoopVariableError(
                f"the loop finds {name} as {was} and leaves it as {now}: a variable keeps one type through a loop. "
                f"Let it begin as {now}, or convert what you assign"
            )


def _type_words(value: Any) -> str:
    """Return a tensor's type in words; "" for anything else."""
    from triton.runtime.interpreter import tl

    if not isinstance(value, tl.tensor):
        return ""
    scalar, shape = value.type.scalar, [int(getattr(one, "value", one)) for one in value.shape]
    kind = str(scalar) if scalar.is_floating() else "a pointer" if scalar.is_ptr() else "an integer"
    return f"{kind} of the shape {shape}" if shape else kind


class WrapLoops(ast.NodeTransformer):
    """Rewrites `for i in range(n)` to `for i in interpreter_semantic.numbered(range, n)`.

    Before a loop and at the end of each turn, it tells the values of variables that are assigned in both places.
    """

    def __init__(self) -> None:
        # The names that are surely assigned, block by block, outermost first.
        self._assigned: list[set[str]] = []

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        """Rewrite the loops of a function."""
        node.body = self._block(node.body)
        return node

    def visit_If(self, node: ast.If) -> ast.If:
        """Rewrite the loops of both branches, and let each tell its end."""
        name = f"condition {next(_numbers)}"
        end = _statement("end_branch", [ast.Name(id=name, ctx=ast.Load())], node)
        node.test = ast.copy_location(ast.NamedExpr(ast.Name(id=name, ctx=ast.Store()), node.test), node.test)
        node.body = [*self._block(node.body), end]
        node.orelse = node.orelse and [*self._block(node.orelse), copied(end)]
        return node

    def visit_While(self, node: ast.While) -> list[ast.stmt]:
        """Rewrite a loop and the loops within it."""
        return self._watched(node)

    def visit_For(self, node: ast.For) -> list[ast.stmt]:
        """Rewrite a loop and the loops within it."""
        unrolled = isinstance(node.iter, ast.Call) and _last_name(node.iter.func) == "static_range"
        if isinstance(node.iter, ast.Call):
            node.iter.args.insert(0, node.iter.func)
            node.iter.func = _rewriters("numbered", node.iter)
        if unrolled:
            node.body = self._block(node.body)
            return [node]
        return [*self._watched(node), *_without_value(node.target)]

    def _block(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        self._assigned.append(set())
        rewritten: list[ast.stmt] = []
        for one in statements:
            names = _names_assigned([one]) if isinstance(one, ast.Assign | ast.AugAssign | ast.AnnAssign) else set()
            found = self.visit(one)
            rewritten += found if isinstance(found, list) else [found]
            self._assigned[-1] |= names
        self._assigned.pop()
        return rewritten

    def _watched(self, node: ast.For | ast.While) -> list[ast.stmt]:
        names = sorted((_names_assigned(node.body) - _counters(node.body)) & set().union(*self._assigned))
        node.body = self._block(node.body)
        if not names:
            return [node]
        loop, values = ast.Constant(next(_numbers)), [ast.Name(id=name, ctx=ast.Load()) for name in names]
        told = ast.Constant(" ".join(names))
        node.body.append(_statement("carried", [loop, told, *values], node))
        return [_statement("entering", [loop, *values], node), node]


def _names_assigned(statements: Sequence[ast.stmt]) -> set[str]:
    nodes = (node for one in statements for node in ast.walk(one))
    return {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}


def _counters(statements: Sequence[ast.stmt]) -> set[str]:
    nodes = (node for one in statements for node in ast.walk(one))
    return {node.target.id for node in nodes if isinstance(node, ast.For) and isinstance(node.target, ast.Name)}


def _without_value(counter: ast.expr) -> list[ast.stmt]:
    """Return statements that leave a variable without a value, whether or not it has one."""
    if not isinstance(counter, ast.Name):
        return []
    assigned = ast.Assign([ast.Name(counter.id, ast.Store())], ast.Constant(None))
    deleted = ast.Delete([ast.Name(counter.id, ast.Del())])
    return [ast.fix_missing_locations(ast.copy_location(one, counter)) for one in (assigned, deleted)]


def _last_name(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _rewriters(name: str, place: ast.expr | ast.stmt) -> ast.Attribute:
    owner = ast.Name(id="interpreter_semantic", ctx=ast.Load())
    return ast.copy_location(ast.Attribute(value=owner, attr=name, ctx=ast.Load()), place)


def _statement(name: str, values: Sequence[ast.expr], place: ast.stmt) -> ast.stmt:
    call = ast.Call(func=_rewriters(name, place), args=[*values], keywords=[])
    return ast.fix_missing_locations(ast.copy_location(ast.Expr(call), place))
