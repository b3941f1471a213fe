"""Copy syntax trees in a fifth of the time of copy.deepcopy, which took most of the time of building a kernel."""

from __future__ import annotations

import ast
from typing import Any, TypeVar

Tree = TypeVar("Tree", bound=ast.AST)


def copied(tree: Tree) -> Tree:
    """Return a copy of a tree with nodes of its own; what is no node and no list stays shared."""
    made: Tree = tree.__class__.__new__(tree.__class__)
    own = made.__dict__
    for name, value in tree.__dict__.items():
        own[name] = _copied(value)
    return made


def _copied(value: Any) -> Any:
    if isinstance(value, ast.AST):
        # Load, Add and their like have no fields, and one object stands for all of them.
        return copied(value) if value.__dict__ else value
    return [_copied(one) for one in value] if isinstance(value, list) else value
