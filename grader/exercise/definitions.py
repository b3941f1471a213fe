"""Find the definitions of a file that a function is made of. Reads text; runs nothing."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from grader.syntax import tree_of


def spans_of(source: str, function: str) -> tuple[tuple[int, int], ...]:
    """Return the first and the last line of a function and of each definition that it reaches, in the file's order.

    Lines count from 1. A later definition of a name replaces an earlier one, as it does when the file is loaded. Empty
    where the text does not parse, or has no such function.
    """
    definitions = {name: nodes[-1] for name, nodes in _definitions(source).items()}
    return tuple(sorted({_span(definitions[name]) for name in _reached(definitions, function)}))


def repeated(source: str, function: str) -> dict[str, tuple[int, ...]]:
    """Return the functions and classes defined more than once, of a function and all that it reaches, by name.

    Each with the lines of its definitions, in the file's order.
    """
    found = _definitions(source)
    reached = _reached({name: nodes[-1] for name, nodes in found.items()}, function)
    lines = {
        name: tuple(node.lineno for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef))
        for name, nodes in found.items()
        if name in reached
    }
    return {name: places for name, places in lines.items() if len(places) > 1}


def _definitions(source: str) -> dict[str, list[ast.stmt]]:
    """Return the statements that define each name at the top level; empty where the text does not parse."""
    try:
        tree = tree_of(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    found: dict[str, list[ast.stmt]] = {}
    for node in tree.body:
        for name in _defined_names(node):
            found.setdefault(name, []).append(node)
    return found


def _reached(definitions: Mapping[str, ast.stmt], function: str) -> set[str]:
    """Return a function and all definitions that it uses, by name."""
    reached: set[str] = set()
    waiting = {function}
    while waiting:
        name = waiting.pop()
        if name in definitions and name not in reached:
            reached.add(name)
            waiting |= {node.id for node in ast.walk(definitions[name]) if isinstance(node, ast.Name)}
    return reached


def _defined_names(node: ast.stmt) -> tuple[str, ...]:
    match node:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            return (name,)
        case ast.Assign(targets=targets):
            found = [one for target in targets for one in ast.walk(target)]
            return tuple(one.id for one in found if isinstance(one, ast.Name))
        case ast.AnnAssign(target=ast.Name(id=name)):
            return (name,)
        case _:
            return ()


def _span(node: ast.stmt) -> tuple[int, int]:
    decorators = node.decorator_list if isinstance(node, ast.FunctionDef | ast.ClassDef) else []
    return min([node.lineno, *(one.lineno for one in decorators)]), node.end_lineno or node.lineno
