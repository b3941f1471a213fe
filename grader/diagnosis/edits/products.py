"""List edits for products of blocks: operands whose axes do not fit."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from grader.diagnosis.edits.edit_scope import MOST, SOMETIMES, Edit, Finder, Scope, bare_name, called
from grader.diagnosis.edits.functions import REDUCTIONS

# The names of the indices along the rows and along the columns of a block.
_Axes = tuple[frozenset[str], frozenset[str]]
_NO_AXES: _Axes = (frozenset(), frozenset())
_OPERANDS = 2
# How many names are followed from one operand: some sources are written to have no end.
_MOST_NAMES = 64
_KINDS = ("operand_transposed", "axes_exchanged")


def _transposes(scope: Scope, node: ast.AST) -> Iterator[Edit]:
    """Transpose an operand of a product, or remove its transpose. First one whose indices do not fit the other's."""
    if not isinstance(node, ast.Call) or called(node) != "dot" or len(node.args) < _OPERANDS:
        return
    misfit = _misfit(scope, node.args[:_OPERANDS])
    for place, one in enumerate(node.args[:_OPERANDS]):
        weight = MOST if place == misfit else SOMETIMES
        match one:
            case ast.Call(args=[block]) if called(one) == "trans":
                yield scope.edit(one, scope.text(block), _KINDS, weight)
            case _:
                yield scope.edit(one, f"tl.trans({scope.text(one)})", _KINDS, weight)


def _misfit(scope: Scope, operands: Sequence[ast.expr]) -> int | None:
    """Return the place of the operand that must be transposed by the names of its indices; None if they fit."""
    first, second = (_axes(scope, one, {}) for one in operands)
    if first[1] & second[0]:
        return None
    if first[1] & second[1]:
        return 1
    if first[0] & second[0]:
        return 0
    # The first block comes from another function: an index of rows that is one of columns too belongs to the product.
    unknown = first == _NO_AXES
    return 1 if unknown and any(_is_of_columns(scope, name) for name in second[0]) else None


def _is_of_columns(scope: Scope, name: str) -> bool:
    subscripts = (one for one in ast.walk(scope.function) if isinstance(one, ast.Subscript))
    return any(name in _of_subscript(one)[1] for one in subscripts)


def _axes(scope: Scope, node: ast.expr, known: dict[str, _Axes]) -> _Axes:
    """Return the names of the indices along the rows and along the columns of a block.

    known: the axes of names so far, none of one that is being followed.
    """
    match node:
        case ast.Name(name):
            if name not in known and len(known) < _MOST_NAMES:
                known[name] = _NO_AXES
                known[name] = _union([_axes(scope, one, known) for one in scope.given.get(name, ())])
            return known.get(name, _NO_AXES)
        case ast.Subscript():
            return _of_subscript(node)
        case ast.Call(args=[first, second, *_]) if called(node) == "dot":
            return _axes(scope, first, known)[0], _axes(scope, second, known)[1]
    rows, columns = _union([_axes(scope, one, known) for one in _made_of(node)])
    return (columns, rows) if called(node) == "trans" else (rows, columns)


def _made_of(node: ast.expr) -> Sequence[ast.expr]:
    """Return the expressions that have the axes of a block: of a load its address."""
    match node:
        case ast.Call(ast.Attribute(block, "to")):
            return (block,)
        case ast.Call(args=[block, *_]) if called(node) in ("load", "trans"):
            return (block,)
        case ast.Call() if called(node) in REDUCTIONS:
            return ()
    return [one for one in ast.iter_child_nodes(node) if isinstance(one, ast.expr)]


def _of_subscript(node: ast.Subscript) -> _Axes:
    """Return the axes of `rows[:, None]` or `columns[None, :]`."""
    match node.slice:
        case ast.Tuple([ast.Slice(), ast.Constant(None)]):
            return frozenset({bare_name(node.value)} - {""}), frozenset()
        case ast.Tuple([ast.Constant(None), ast.Slice()]):
            return frozenset(), frozenset({bare_name(node.value)} - {""})
    return _NO_AXES


def _union(several: Sequence[_Axes]) -> _Axes:
    return frozenset().union(*(one[0] for one in several)), frozenset().union(*(one[1] for one in several))


IN_PRODUCTS: tuple[Finder, ...] = (_transposes,)
