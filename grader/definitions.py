"""Find the definitions of a file that a function is made of. Reads text; runs nothing."""

from __future__ import annotations

import ast
from collections.abc import Collection, Mapping

from grader.syntax import tree_of

# Methods that add to a dict, a list or a set.
_ADDING = frozenset({"add", "append", "extend", "insert", "setdefault", "update"})
# What keeps the results of a function.
_CACHES = frozenset({"cache", "lru_cache"})


def spans_of(source: str, function: str) -> tuple[tuple[int, int], ...]:
    """Return the first and the last line of a function and of each definition that it reaches, in the file's order.

    Lines count from 1. A later definition of a name replaces an earlier one, as it does when the file is loaded. Empty
    where the text does not parse, or has no such function.
    """
    definitions = {name: nodes[-1] for name, nodes in _definitions(source).items()}
    return tuple(sorted({_span(definitions[name]) for name in _reached(definitions, function)}))


def repeated(source: str, function: str) -> dict[str, tuple[int, ...]]:
    """Return the functions and classes with definitions that differ, of a function and all that it reaches, by name.

    Each with the lines of its definitions, in the file's order. A helper that was pasted twice hides nothing, nor is a
    definition lost that got another name before the next one: `first = matmul`.
    """
    found = _definitions(source)
    renamed = {
        node.value.id
        for nodes in found.values()
        for node in nodes
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Name)
    }
    reached = _reached({name: nodes[-1] for name, nodes in found.items()}, function)
    defined = {
        name: [node for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)]
        for name, nodes in found.items()
        if name in reached
    }
    return {
        name: tuple(node.lineno for node in nodes)
        for name, nodes in defined.items()
        if len({ast.dump(node) for node in nodes}) > 1 and name not in renamed
    }


def keeping_line(source: str, function: str) -> int | None:
    """Return the first line, of a function and of all that it reaches, that keeps something for a later call.

    It changes a name of the file (`KEPT[key] = z`, `KEPT.append(z)`, `global LAST`, `f.last = z`), or gives a function
    a cache. None where there is no such line, or where the text does not parse.
    """
    definitions = {name: nodes[-1] for name, nodes in _definitions(source).items()}
    reached = [definitions[name] for name in _reached(definitions, function)]
    bodies = [node for node in reached if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    found = [line for body in bodies for node in ast.walk(body) for line in _keeping(node, definitions)]
    return min(found, default=None)


def _keeping(node: ast.AST, names: Collection[str]) -> list[int]:
    """Return the lines of a node, without those of the nodes in it, that keep something under names of the file."""
    match node:
        case ast.Global(lineno=line):
            return [line]
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=attribute), lineno=line):
            return [line] if name in names and attribute in _ADDING else []
        case ast.Subscript(value=ast.Name(id=name), ctx=ast.Store(), lineno=line):
            return [line] if name in names else []
        case ast.Attribute(value=ast.Name(id=name), ctx=ast.Store(), lineno=line):
            return [line] if name in names else []
        case ast.FunctionDef(decorator_list=decorators):
            used = [(one, inner) for one in decorators for inner in ast.walk(one)]
            return [one.lineno for one, inner in used if getattr(inner, "attr", getattr(inner, "id", "")) in _CACHES]
        case _:
            return []


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
