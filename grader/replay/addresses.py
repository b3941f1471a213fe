"""Find the parameters of a kernel that its loads and stores follow as they are, so that no number can take their place.

Take lines of text and names. Run nothing.
"""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Collection, Iterator, Sequence

# The functions that need a pointer: their first argument, which has the name `base` in the last one.
_ACCESSES = ("load", "store", "make_block_ptr")


def followed(lines: Sequence[str], among: Collection[str]) -> tuple[str, str] | None:
    """Return the first of some parameters that an access follows, and the function; None if none does.

    lines: the kernel's own. An annotated parameter, one that gets another value, and one that a call converts may be
    pointers after all.
    """
    try:
        tree = ast.parse(textwrap.dedent("\n".join(lines)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    nodes = list(ast.walk(tree))
    assigned = {one.id for one in nodes if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}
    annotated = {one.arg for one in nodes if isinstance(one, ast.arg) and one.annotation is not None}
    for node in nodes:
        match node:
            case ast.Call(ast.Attribute(attr=access), given, named) if access in _ACCESSES:
                pointers = [*given[:1], *(one.value for one in named if one.arg == "base")]
                names = (name for pointer in pointers for name in _unconverted(pointer) if name in among)
                if name := next((one for one in names if one not in assigned | annotated), ""):
                    return name, access
    return None


def _unconverted(node: ast.AST) -> Iterator[str]:
    """Yield the names in an expression that no call gets."""
    if isinstance(node, ast.Name):
        yield node.id
    elif not isinstance(node, ast.Call):
        for one in ast.iter_child_nodes(node):
            yield from _unconverted(one)
