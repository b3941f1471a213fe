"""Find the definitions of a file that a function is made of. Reads text; runs nothing."""

from __future__ import annotations

import ast

from grader.text import ONE_PARSE_AT_A_TIME


def spans_of(source: str, function: str) -> tuple[tuple[int, int], ...]:
    """Return the first and the last line of a function and of each definition that it reaches, in the file's order.

    Lines count from 1. A later definition of a name replaces an earlier one, as it does when the file is loaded. Empty
    where the text does not parse, or has no such function.
    """
    try:
        with ONE_PARSE_AT_A_TIME:
            tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()
    definitions = {name: node for node in tree.body for name in _defined_names(node)}
    reached: set[str] = set()
    waiting = {function}
    while waiting:
        name = waiting.pop()
        if name in definitions and name not in reached:
            reached.add(name)
            waiting |= {node.id for node in ast.walk(definitions[name]) if isinstance(node, ast.Name)}
    return tuple(sorted({_span(definitions[name]) for name in reached}))


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
