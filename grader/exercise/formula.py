"""Formulas over a case's axes, such as "2 * M * N * K": the work of a case, stated once in the specification.

Names are the case's numeric axes and `itemsize`, the bytes of one element of the case's dtype. Allowed are numbers,
names, + - * / // ** and min, max, ceil.
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Mapping

from grader.errors import SpecError
from grader.exercise.cases import Value
from grader.syntax import expression_of

_OPERATORS: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Pow: operator.pow,
}
_FUNCTIONS: dict[str, Callable[..., float]] = {"min": min, "max": max, "ceil": math.ceil}


def evaluate(formula: str, case: Mapping[str, Value]) -> float:
    """Return the formula's value for a case. Raises SpecError for anything that is not such a formula."""
    names: dict[str, float] = {name: float(value) for name, value in case.items() if not isinstance(value, str | bool)}
    if "dtype" in case:
        names["itemsize"] = itemsize(case["dtype"])
    try:
        # The root of a negative number is complex, and no amount of work: float() refuses it.
        return _finite(float(_value(expression_of(formula), names)))
    except (SyntaxError, ZeroDivisionError, TypeError, OverflowError, ValueError) as broken:
        raise SpecError(f"a formula must be arithmetic over {_listed(names)}, got {formula!r} ({broken})") from broken


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise ValueError(f"its value is {value}")
    return value


def itemsize(dtype: Value) -> int:
    """Return the bytes of one element of a dtype: the number in "float16" counts its bits."""
    bits = re.search(r"\d+", str(dtype))
    return max(1, int(bits[0]) // 8) if bits else 1


def _value(node: ast.expr, names: Mapping[str, float]) -> float:
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return number
        case ast.Name(id=name) if name in names:
            return names[name]
        case ast.BinOp(left, op, right) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](_value(left, names), _value(right, names))
        case ast.UnaryOp(ast.USub(), operand):
            return -_value(operand, names)
        case ast.Call(ast.Name(id=name), args, []) if name in _FUNCTIONS:
            return _FUNCTIONS[name](*(_value(one, names) for one in args))
    raise SpecError(f"a formula must be arithmetic over {_listed(names)}, got {ast.unparse(node)!r} in it")


def _listed(names: Mapping[str, float]) -> str:
    return ", ".join(names) or "no axes"
