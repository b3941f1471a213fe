"""Hold the text of a submission or of a package's module: its functions and imports, parsed and never executed."""

from __future__ import annotations

import ast
import linecache
import re
import warnings
from collections.abc import Iterator

from grader.calls.packages import file_of
from grader.protocol.trace import FROM_ELSEWHERE, KernelText
from grader.replay.values import RefusedFunction
from grader.syntax import lines_in

Function = ast.FunctionDef


class Text:
    """A parsed text of a submission. path: the file name for its lines. Raises RefusedFunction unless it is Python."""

    def __init__(self, source: str, path: str) -> None:
        self.path = path
        self.lines = lines_in(source)
        self.tree = _parse(source)
        self.functions = {(name, line): found for name, line, found in _functions(self.tree)}
        self.imports = dict(_imports(self.tree))
        linecache.cache[path] = (len(source), None, [f"{one}\n" for one in self.lines], path)

    def lines_at(self, function: tuple[str, int]) -> list[str]:
        """Return a function's lines, by its name and first line, with its decorators; none for an unknown one."""
        _, found = self.functions.get(function, ("", None))
        return self.lines[function[1] - 1 : found.end_lineno] if found is not None else []


def text_of_package(kernel_text: KernelText) -> Text:
    """Return the text of the installed module of a function. Raises RefusedFunction."""
    path = file_of(kernel_text.home)
    if path is None:
        rule = f"{FROM_ELSEWHERE}{kernel_text.words}: no installed package has it, so copy its text into the file"
        raise RefusedFunction(0, rule, python=False)
    return Text(path.read_text("utf-8"), str(path))


def lines_of(tree: Function, text: Text) -> list[str]:
    """Return the function's lines, for messages only: Triton compiles the tree."""
    lines = [one[tree.col_offset :] for one in text.lines[tree.lineno - 1 : tree.end_lineno]]
    if not re.match(r"def\s+\w+\s*\(", lines[0] if lines else ""):
        lines = ast.unparse(tree).splitlines()
    return [f"{one}\n" for one in lines]


def _parse(source: str) -> ast.Module:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(source)
    except SyntaxError as error:
        raise RefusedFunction(error.lineno or 0, f"the file is not Python: {error.msg}", python=True) from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise RefusedFunction(0, f"the file cannot be read: {error}"[:300], python=True) from None


def _functions(tree: ast.AST, place: str = "") -> Iterator[tuple[str, int, tuple[str, Function]]]:
    """Yield (name, first line, (qualified name, tree)) of every function."""
    waiting: list[tuple[ast.AST, str]] = [(tree, place)]
    while waiting:
        node, inside = waiting.pop()
        for one in ast.iter_child_nodes(node):
            within = inside
            if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                within = f"{inside}{one.name}." + ("" if isinstance(one, ast.ClassDef) else "<locals>.")
            if isinstance(one, ast.FunctionDef):
                for line in {one.lineno, min([one.lineno, *(line.lineno for line in one.decorator_list)])}:
                    yield one.name, line, (f"{inside}{one.name}", one)
            waiting.append((one, within))


def _imports(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield (local name, dotted name) of every import."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for one in node.names:
                yield (one.asname, one.name) if one.asname else (one.name.partition(".")[0],) * 2
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for one in node.names:
                yield one.asname or one.name, f"{node.module}.{one.name}"
