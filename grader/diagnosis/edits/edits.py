"""List small edits of a submission's text. Each takes back one small mistake.

Take the text and the functions that a call ran, and return edits, the likeliest first. Run nothing. An edit replaces
one expression, or changes the indentation of lines. It does not change line numbers.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from time import thread_time

from grader.definitions import spans_of
from grader.diagnosis.edits.edit_scope import Edit, Launched, Scope, block_lengths_of, constants_of, is_long
from grader.diagnosis.edits.slips import SLIPS
from grader.syntax import tree_of

# Seconds to list the edits: a text may be written to take hours.
_MOST_S = 2.0


def edits_of(source: str, kernels: Mapping[tuple[str, int], Launched], launching: str) -> list[Edit]:
    """Return the edits of the functions that a call ran, the likeliest first. Long functions are left out.

    kernels: by name and first line, the arguments of their launches. launching: the function that was called.
    """
    found: dict[tuple[int, int, str], Edit] = {}
    until = thread_time() + _MOST_S
    scopes = scopes_of(source, kernels, launching)
    twins = _twins([scope.function for scope in scopes], scopes[0].source, scopes[0].starts) if scopes else {}
    for whole in scopes:
        around = replace(whole, launched=None)
        decorators = {node for one in whole.function.decorator_list for node in ast.walk(one)}
        for node in ast.walk(whole.function):
            if thread_time() > until:
                break
            if node in whole.configurations:
                continue
            # A kernel's decorators run with the launch code.
            scope = around if node in decorators else whole
            for edit in (edit for find in SLIPS for edit in find(scope, node) if edit.after != edit.before):
                others = twins.get(edit.line, ()) if "\n" not in edit.before else ()
                found.setdefault((edit.start, edit.end, edit.after), replace(edit, twins=others))
    # Those of launch code need a process each.
    return sorted(found.values(), key=lambda one: (-one.weight, not one.in_kernel, one.line, one.start))


def scopes_of(source: str, kernels: Mapping[tuple[str, int], Launched], launching: str) -> list[Scope]:
    """Return the functions that a call ran, except for long ones; the arguments are those of `edits_of`."""
    data = source.encode()
    starts = (0, *(match.end() for match in re.finditer(b"\r\n|\r|\n", data)))
    ran = [one for one in _functions(source, kernels, launching) if not is_long(one[0])]
    constants = tuple(dict.fromkeys(name for function, _ in ran for name in constants_of(function)))
    blocks = tuple(dict.fromkeys(name for function, _ in ran for name in block_lengths_of(function)))
    return [Scope(function, data, starts, launched, constants, blocks) for function, launched in ran]


def _twins(functions: Sequence[ast.FunctionDef], data: bytes, starts: Sequence[int]) -> dict[int, tuple[int, ...]]:
    """Return the offsets of equal lines in the functions, in bytes after a line, by that line's number."""
    numbers = sorted({line for one in functions for line in range(one.lineno, (one.end_lineno or one.lineno) + 1)})
    alike: dict[bytes, list[tuple[int, int]]] = {}
    for number in numbers:
        line = data[starts[number - 1] : starts[number] if number < len(starts) else len(data)]
        indent = len(line) - len(line.lstrip())
        alike.setdefault(line.strip(), []).append((number, starts[number - 1] + indent))
    return {line: tuple(place - at for _, place in others) for (line, at), *others in alike.values()}


def _functions(
    source: str, kernels: Mapping[tuple[str, int], Launched], launching: str
) -> Iterator[tuple[ast.FunctionDef, Launched | None]]:
    """Yield the functions that a call ran: kernels with their arguments, what they call, then launch code with None."""
    functions = [node for node in ast.walk(tree_of(source)) if isinstance(node, ast.FunctionDef)]
    others = []
    for one in functions:
        lines = (one.lineno, *(decorator.lineno for decorator in one.decorator_list))
        launched = next((kernels[one.name, line] for line in lines if (one.name, line) in kernels), None)
        if launched is not None:
            yield one, launched
        else:
            others.append(one)
    spans = spans_of(source, launching)
    for one in others:
        if any(first <= one.lineno <= last for first, last in spans):
            is_called = any("jit" in ast.unparse(decorator) for decorator in one.decorator_list)
            yield one, ((), {}) if is_called else None
