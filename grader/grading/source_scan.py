"""Scan the text of a submission for code that no kernel needs. A hint for instructors, never a verdict.

It reads the syntax tree, so comments and strings do not count, and code can be written to evade it. A submission is
judged by what ran (docs/trust-model.md); the error rate of the scan is measured (docs/accuracy.md).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from grader.record.record import Sighting
from grader.syntax import tree_of
from grader.text import clean

_MOST_SIGHTINGS = 20
_MOST_LEVELS = 10_000
# Ways into the interpreter, the process, the machine or the network.
_MODULES = frozenset(
    {
        "_thread",
        "asyncio",
        "atexit",
        "builtins",
        "cffi",
        "code",
        "codeop",
        "concurrent",
        "ctypes",
        "dis",
        "faulthandler",
        "gc",
        "http",
        "imp",
        "importlib",
        "marshal",
        "mmap",
        "multiprocessing",
        "numba",
        "pickle",
        "pip",
        "pty",
        "pwd",
        "requests",
        "resource",
        "runpy",
        "shelve",
        "shutil",
        "signal",
        "site",
        "socket",
        "ssl",
        "subprocess",
        "sys",
        "tempfile",
        "threading",
        "trace",
        "traceback",
        "types",
        "urllib",
        "weakref",
    }
)
_CALLS = {
    "exec": "runs text as code",
    "eval": "runs text as code",
    "compile": "makes code of text",
    "__import__": "imports by a name that is computed",
    "open": "opens a file",
    "globals": "reaches for the names of a module",
    "breakpoint": "stops in a debugger",
}
# Names of `os` that only read settings or name paths.
_HARMLESS_OS = frozenset({"environ", "path", "getenv", "cpu_count"})
_INSIDES = frozenset(
    {
        "currentframe",
        "getouterframes",
        "__builtins__",
        "__class__",
        "__closure__",
        "__code__",
        "__dict__",
        "__globals__",
        "__mro__",
        "__subclasses__",
        "f_back",
        "f_globals",
        "f_locals",
        "gi_frame",
        "tb_frame",
        "_getframe",
    }
)
_PATCHED = frozenset({"torch", "triton", "tl", "numpy", "np", "cutlass", "cute"})


def sightings(source: str) -> tuple[Sighting, ...]:
    """Return code that an instructor may want to look at, by line; nothing for text that is no Python."""
    try:
        # A deep expression hides nothing here: the tree is walked level by level.
        tree = tree_of(source, most_levels=_MOST_LEVELS)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()
    found = {
        Sighting(node.lineno, clean(what, 120)): None
        for node in ast.walk(tree)
        if isinstance(node, ast.stmt | ast.expr)
        for what in _notable_code(node)
    }
    return tuple(sorted(found, key=lambda one: (one.line, one.what)))[:_MOST_SIGHTINGS]


def _notable_code(node: ast.stmt | ast.expr) -> Iterator[str]:
    match node:
        case ast.Import():
            yield from (f"imports {alias.name}" for alias in node.names if _top_module(alias.name) in _MODULES)
        case ast.ImportFrom(module=str(module)):
            if _top_module(module) in _MODULES:
                yield f"imports from {module}"
            elif module == "os":
                yield from (f"imports os.{alias.name}" for alias in node.names if alias.name not in _HARMLESS_OS)
        case ast.Call(func=ast.Name(id=name)) if name in _CALLS:
            yield _CALLS[name]
        case ast.Call(func=ast.Name(id="setattr" | "delattr"), args=[target, *_]) if _first_name(target) in _PATCHED:
            yield f"changes {_dotted(target)}"
        case ast.Attribute(value=ast.Name(id="os"), attr=name) if name not in _HARMLESS_OS:
            yield f"uses os.{name}"
        case ast.Attribute(attr=name) if name in _INSIDES:
            yield f"looks into {name}"
        case ast.Constant(value=str(text)) if text in _INSIDES:
            yield f"names {text}"
        case ast.Assign(targets=targets):
            yield from (f"changes {_dotted(one)}" for one in targets if _is_patch(one))
        case ast.AugAssign(target=target) if _is_patch(target):
            yield f"changes {_dotted(target)}"


def _is_patch(target: ast.expr) -> bool:
    """Return whether an assignment changes a library: torch.sum = …, or a setting in torch.backends."""
    return isinstance(target, ast.Attribute) and _first_name(target) in _PATCHED


def _first_name(node: ast.expr) -> str:
    """Return the first name in a chain of attributes: "torch" in torch.cuda.synchronize."""
    return _dotted(node).partition(".")[0]


def _dotted(node: ast.expr) -> str:
    """Return a chain of attributes as text, however long it is; "" if it does not begin with a name."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""


def _top_module(module: str) -> str:
    return module.partition(".")[0]
