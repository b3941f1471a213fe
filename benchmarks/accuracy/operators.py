"""The kinds of small mistakes: each operator looks at one node of a function and yields the edits that it can make."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True)
class Edit:
    """Replace bytes start … end-1 of the source by `text`."""

    start: int
    end: int
    text: str


# All edits of one change, in the order of the source.
Change = tuple[Edit, ...]


@dataclass(frozen=True)
class Scope:
    """A function under change: its source file in bytes, where its lines start, and what lies around each node."""

    source: bytes
    line_starts: tuple[int, ...]
    function: ast.FunctionDef
    parents: Mapping[ast.AST, ast.AST]

    def span(self, node: ast.expr | ast.stmt | ast.keyword) -> tuple[int, int]:
        """Return the first byte and the one behind the last; syntax trees count columns in bytes."""
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        start = self.line_starts[node.lineno - 1] + node.col_offset
        return start, self.line_starts[node.end_lineno - 1] + node.end_col_offset

    def text(self, node: ast.expr | ast.stmt | ast.keyword) -> str:
        """Return the node as it is written."""
        start, end = self.span(node)
        return self.source[start:end].decode()

    def replaced(self, node: ast.expr | ast.stmt | ast.keyword, text: str) -> Change:
        """Return the change that writes `text` where the node stands."""
        return (Edit(*self.span(node), text),)

    def token(self, before: int, after: int, old: str, new: str) -> Iterator[Change]:
        """Yield the change of the operator between two operands that end at `before` and start at `after`."""
        gap = self.source[before:after]
        if gap.count(old.encode()) == 1 and b"#" not in gap:
            start = before + gap.index(old.encode())
            yield (Edit(start, start + len(old.encode()), new),)

    def without(self, keyword: ast.keyword) -> Edit | None:
        """Return the edit that takes a keyword argument out, with the comma before it."""
        start, end = self.span(keyword)
        comma = self.source.rfind(b",", 0, start)
        return Edit(comma, end, "") if comma >= 0 and not self.source[comma + 1 : start].strip() else None

    @property
    def strides(self) -> tuple[str, ...]:
        """Return the function's parameters that are strides."""
        return tuple(one.arg for one in self.function.args.args if one.arg.startswith("stride"))


Operator = Callable[[ast.AST, Scope], Iterator[Change]]

_COMPARISONS: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
}
_ARITHMETIC: dict[type[ast.operator], tuple[str, str]] = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "+"),
    ast.FloorDiv: ("//", "%"),
    ast.Mod: ("%", "//"),
    ast.Div: ("/", "*"),
}
_OPPOSITE = {"maximum": "minimum", "minimum": "maximum", "max": "min", "min": "max"}
_REDUCTIONS = ("sum", "max", "min", "argmax", "argmin", "cumsum", "reduce")
_TUNING = ("num_warps", "num_stages", "num_ctas", "maxnreg")


def comparison(node: ast.AST, scope: Scope) -> Iterator[Change]:
    """Include or leave out an end, or write equal for unequal."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _COMPARISONS:
        old, new = _COMPARISONS[type(node.ops[0])]
        yield from scope.token(scope.span(node.left)[1], scope.span(node.comparators[0])[0], old, new)


def mask(node: ast.AST, scope: Scope) -> Iterator[Change]:
    """Take the mask from a load or store; `other` goes with it, because it is not allowed alone."""
    if isinstance(node, ast.Call):
        dropped = [one for one in node.keywords if one.arg in ("mask", "other")]
        edits = [edit for one in dropped if (edit := scope.without(one))]
        if any(one.arg == "mask" for one in dropped) and len(edits) == len(dropped):
            yield tuple(sorted(edits, key=lambda edit: edit.start))


def other(node: ast.AST, scope: Scope) -> Iterator[Change]:
    """Take from a masked load the value of its other lanes."""
    if isinstance(node, ast.Call):
        for one in node.keywords:
            if one.arg == "other" and (edit := scope.without(one)):
                yield (edit,)


def bound(node: ast.AST, scope: Scope) -> Iterator[Change]:
    """Shift a range of indices, or a number of blocks, by one."""
    if not isinstance(node, ast.Call) or not node.args:
        return
    match _called(node):
        case "arange":
            yield scope.replaced(node, f"({scope.text(node)} + 1)")
        case "range":
            stop = node.args[0] if len(node.args) == 1 else node.args[1]
            yield scope.replaced(stop, f"({scope.text(stop)}) - 1")
            yield scope.replaced(stop, f"({scope.text(stop)}) + 1")
        case "cdiv" if len(node.args) == 2:
            yield scope.replaced(node, f"(({scope.text(node.args[0])}) // ({scope.text(node.args[1])}))")
            yield scope.replaced(node, f"({scope.text(node)} + 1)")


def stride(node: ast.AST, scope: Scope) -> Iterator[Change]:
    """Swap two neighbouring strides of a call, or write one stride's name for the next one's in an address."""
    if isinstance(node, ast.Call):
        for left, right in pairwise(node.args):
            one, two = scope.text(left), scope.text(right)
            if "stride" in one and "stride" in two and one != two:
                yield (Edit(*scope.span(left), two), Edit(*scope.span(right), one))
    elif isinstance(node, ast.Name) and node.id in scope.strides and isinstance(scope.parents[node], ast.BinOp):
        names = scope.strides
        following = names[(names.index(node.id) + 1) % len(names)]
        if following != node.id:
            yield scope.replaced(node, following)


def dtype(node: ast.AST, scope: Scope) -> Iterator[Change]:
    """Write float16 for float32, or leave a conversion to float32 out."""
    if isinstance(node, ast.Attribute) and node.attr == "float32":
        yield scope.replaced(node, f"{scope.text(node.value)}.float16")
    if isinstance(node, ast.Call) and _called(node) == "to" and isinstance(node.func, ast.Attribute):
        target = node.args[0] if node.args else None
        if isinstance(target, ast.Attribute) and target.attr == "float32":
            yield (Edit(scope.span(node.func.value)[1] + _closing(node, scope), scope.span(node)[1], ""),)


def constant(node: ast.AST, scope: Scope) -> Iterator[Change]:
    """Add or subtract one from an integer, double a float (0.0 becomes 1.0), write 0.0 for minus infinity."""
    if isinstance(node, ast.Call) and _called(node) == "float" and scope.text(node) == 'float("-inf")':
        yield scope.replaced(node, "0.0")
    if not isinstance(node, ast.Constant) or _has_operator_of_its_own(node, scope):
        return
    if type(node.value) is int:
        yield scope.replaced(node, str(node.value + 1))
        yield scope.replaced(node, str(node.value - 1))
    elif type(node.value) is float:
        yield scope.replaced(node, repr(node.value * 2 or 1.0))


def dropped(node: ast.AST, scope: Scope) -> Iterator[Change]:
    """Leave a statement out: a store, an update in place, or an assignment to a name that had a value before."""
    match node:
        case ast.Expr(value=ast.Call() as call) if "store" in _called(call) or "atomic" in _called(call):
            yield scope.replaced(node, "pass")
        case ast.AugAssign():
            yield scope.replaced(node, "pass")
        case ast.Assign(targets=[target]) if _names(target) and _names(target) <= _bound_before(node, scope):
            yield scope.replaced(node, "pass")


def axis(node: ast.AST, scope: Scope) -> Iterator[Change]:
    """Take the other axis: of the grid, of a reduction, or of a vector that becomes a row or a column."""
    if isinstance(node, ast.Call):
        called = _called(node)
        named = [one.value for one in node.keywords if one.arg == "axis"]
        if called in ("program_id", "num_programs"):
            named += node.args[:1]
        elif called in _REDUCTIONS:
            named += node.args[1:2]
        for value in named:
            if isinstance(value, ast.Constant) and type(value.value) is int:
                yield scope.replaced(value, "1" if value.value == 0 else str(value.value - 1))
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Tuple) and len(node.slice.elts) == 2:
        first, second = node.slice.elts
        if isinstance(first, ast.Slice) != isinstance(second, ast.Slice):
            yield (Edit(*scope.span(first), scope.text(second)), Edit(*scope.span(second), scope.text(first)))


def arithmetic(node: ast.AST, scope: Scope) -> Iterator[Change]:
    """Write another arithmetic operator."""
    if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
        old, new = _ARITHMETIC[type(node.op)]
        yield from scope.token(scope.span(node.left)[1], scope.span(node.right)[0], old, new)
    elif isinstance(node, ast.AugAssign) and type(node.op) in _ARITHMETIC:
        old, new = _ARITHMETIC[type(node.op)]
        yield from scope.token(scope.span(node.target)[1], scope.span(node.value)[0], f"{old}=", f"{new}=")


def logic(node: ast.AST, scope: Scope) -> Iterator[Change]:
    """Write or for and, one of two conditions only, and the least for the greatest."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitAnd | ast.BitOr):
        old, new = ("&", "|") if isinstance(node.op, ast.BitAnd) else ("|", "&")
        yield from scope.token(scope.span(node.left)[1], scope.span(node.right)[0], old, new)
        yield scope.replaced(node, f"({scope.text(node.left)})")
        yield scope.replaced(node, f"({scope.text(node.right)})")
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _OPPOSITE:
        end = scope.span(node.func)[1]
        yield (Edit(end - len(node.func.attr), end, _OPPOSITE[node.func.attr]),)


KERNEL: dict[str, Operator] = {
    "comparison": comparison,
    "mask": mask,
    "other": other,
    "bound": bound,
    "stride": stride,
    "dtype": dtype,
    "constant": constant,
    "dropped": dropped,
    "axis": axis,
    "arithmetic": arithmetic,
    "logic": logic,
}
LAUNCH = {
    name: KERNEL[name] for name in ("comparison", "bound", "stride", "dtype", "constant", "dropped", "arithmetic")
}


def _called(node: ast.Call) -> str:
    """Return the last name of a call's function: "load" of tl.load(...)."""
    match node.func:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
        case _:
            return ""


def _closing(node: ast.Call, scope: Scope) -> int:
    """Return how many bytes behind the converted value its own brackets take: `.to` starts behind them."""
    assert isinstance(node.func, ast.Attribute)
    gap = scope.source[scope.span(node.func.value)[1] : scope.span(node.func)[1]]
    return gap.rindex(b".")


def _has_operator_of_its_own(node: ast.Constant, scope: Scope) -> bool:
    """Whether a number is an axis, or says how a kernel is compiled, or starts an arange, which must be as it is."""
    parent = scope.parents[node]
    if isinstance(parent, ast.keyword):
        return parent.arg == "axis" or parent.arg in _TUNING
    if isinstance(parent, ast.Call):
        called = _called(parent)
        return called in ("program_id", "num_programs", "arange") or (
            called in _REDUCTIONS and node in parent.args[1:2]
        )
    return False


def _names(target: ast.AST) -> set[str]:
    """Return the names that an assignment to `target` binds."""
    if isinstance(target, ast.Tuple):
        return set().union(*(_names(one) for one in target.elts))
    return {target.id} if isinstance(target, ast.Name) else set()


def _bound_before(node: ast.Assign, scope: Scope) -> set[str]:
    """Return the names that have a value when the assignment is reached, as far as the order of the lines tells."""
    known = {one.arg for one in scope.function.args.args}
    for found in ast.walk(scope.function):
        if isinstance(found, ast.Name) and isinstance(found.ctx, ast.Store) and found.lineno < node.lineno:
            known.add(found.id)
    return known
