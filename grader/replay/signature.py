"""Take annotations and defaults from a function's tree, and return their values without executing them."""

from __future__ import annotations

import ast
import re
from typing import Any, NoReturn

import triton.language as tl

from grader.replay.language import Offered, find
from grader.replay.names import Names
from grader.replay.rewriting import CONSTEXPR
from grader.replay.text import Function
from grader.replay.things import Data
from grader.replay.values import RefusedFunction, plain_value

_TYPE_TEXT = re.compile(r"[*a-z0-9_ ]{1,40}")


def take_annotations(tree: Function, names: Names) -> dict[str, Any]:
    """Remove the decorators and annotations of a function. Returns those that Triton reads: constexpr and dtypes."""
    annotations = {}
    tree.decorator_list, tree.returns, tree.type_comment = [], None, None
    for node in ast.walk(tree):
        if isinstance(node, ast.arg):
            found = _annotation(node.annotation, names)
            if found is not None:
                annotations[node.arg] = found
            node.annotation, node.type_comment = None, None
        if isinstance(node, ast.AnnAssign) and not isinstance(node.target, ast.Name):
            raise RefusedFunction(node.lineno, "a kernel annotates variables only", python=True)
    # In place, because a loop's body may hold annotations as well.
    return annotations if _Annotated(names).visit(tree) else {}


class _Annotated(ast.NodeTransformer):
    """Rewrites `x: int = 1` to `x = 1`, and constexpr to a name of the grader's own."""

    def __init__(self, names: Names) -> None:
        self._names = names

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.stmt:
        if node.value is None:
            raise RefusedFunction(node.lineno, "a variable in a kernel needs a value: write `x = …`", python=True)
        if _annotation(node.annotation, self._names) is tl.constexpr:
            node.annotation = ast.copy_location(ast.Name(CONSTEXPR, ast.Load()), node.annotation)
            node.simple = 1
            return node
        return ast.copy_location(ast.Assign([node.target], node.value), node)


def _annotation(node: ast.expr | None, names: Names) -> Any:
    """Return Triton's meaning of an annotation; None for one that it ignores."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        text = node.value.strip()
        if re.fullmatch(r"[\w.]+", text) and not text.endswith("constexpr"):
            known = find(f"triton.language.{text.rpartition('.')[2]}")
            return known.value if known and _is_type(known.value) else _type_text(text)
        return tl.constexpr if text.endswith("constexpr") else _type_text(text)
    if not isinstance(node, ast.Name | ast.Attribute):
        return None
    found = names.chain(node)
    if isinstance(found, Offered) and _is_type(found.value):
        return found.value
    # `tl` may have another name that appears in annotations only.
    return tl.constexpr if ast.unparse(node).rpartition(".")[2] == "constexpr" else None


def _is_type(value: Any) -> bool:
    return value is tl.constexpr or value is tl.const or isinstance(value, tl.dtype)


def _type_text(text: str) -> str | None:
    return (
        text if _TYPE_TEXT.fullmatch(text) and (text.removeprefix("const ").startswith("*") or text.isalnum()) else None
    )


def take_defaults(tree: Function, names: Names) -> dict[str, object]:
    """Remove the defaults of a function, and return them as values."""
    given = [*tree.args.posonlyargs, *tree.args.args]
    late = given[len(given) - len(tree.args.defaults) :]
    pairs = [
        *zip(late, tree.args.defaults, strict=True),
        *zip(tree.args.kwonlyargs, tree.args.kw_defaults, strict=True),
    ]
    tree.args.defaults = []
    tree.args.kw_defaults = [None for _ in tree.args.kw_defaults]
    return {one.arg: _default_of(one.arg, value, names) for one, value in pairs if value is not None}


def _default_of(name: str, node: ast.expr, names: Names) -> object:
    """Return a default from the text, or else, if it is plain data, from the trace."""
    try:
        return _default(node, names)
    except RefusedFunction as refused:
        if name not in names.defaults:
            raise
        try:
            return plain_value(names.defaults[name], _no_kernel)
        except RefusedFunction:
            raise refused from None


def _no_kernel(_: int) -> NoReturn:
    raise RefusedFunction(0, "a default is no kernel", python=False)


def _default(node: ast.expr, names: Names, depth: int = 4) -> object:
    """Return the value of a default: data, or an object of Triton's language."""
    match node:
        case ast.Constant(value=value) if value is None or isinstance(value, bool | int | float | str):
            return value
        case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=ast.Constant(value=int() | float() as value)):
            return -value if isinstance(node.op, ast.USub) else value
        case ast.Tuple(elts=items) if depth:
            return tuple(_default(one, names, depth - 1) for one in items)
        case ast.Call(func=function, args=[held], keywords=[]) if (
            depth and _annotation(function, names) is tl.constexpr
        ):
            return tl.constexpr(_default(held, names, depth - 1))
        case ast.Name() | ast.Attribute():
            found = names.chain(node)
            if isinstance(found, Data) or (isinstance(found, Offered) and found.kind in ("data", "function")):
                return names.value_of(found)
            known = names.constant(node.id) if isinstance(node, ast.Name) and found is None else None
            if known is not None and depth:
                return _default(known, names, depth - 1)
    rule = f"the default `{ast.unparse(node)[:80]}` is not known: write a number, or pass the argument"
    raise RefusedFunction(node.lineno, rule, python=False)
