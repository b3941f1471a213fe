"""Find which lines of a submission's kernels can change which outputs of a call.

Take the text and the trace of the call. A line can change an output if a store to that output's memory uses a name that
the line assigns, in its value, place or mask; or if a later launch computes the output from the values of such a store.
Run nothing.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from grader.diagnosis.edits.edit_scope import arguments_of, called, is_long
from grader.protocol.trace import Launch, TensorValue, Trace, Value, launches_in
from grader.syntax import tree_of

_STORES = frozenset({"store", "scatter"})


def outputs_of_lines(text: str, trace: Trace, stored: Sequence[int]) -> dict[int, frozenset[int]]:
    """Return the outputs that each line of a kernel can change, by line. Lines of long kernels are left out.

    stored: the storage of each output.
    """
    functions = {(one.name, one.lineno): one for one in ast.walk(tree_of(text)) if isinstance(one, ast.FunctionDef)}
    flows = {
        place: _Flow(function)
        for place, kernel in enumerate(trace.kernels)
        if not kernel.home
        and (function := _at(functions, kernel.name, kernel.line)) is not None
        and not is_long(function)
    }
    found: dict[int, set[int]] = {}
    # The outputs that each storage's values lead to, from the last launch to the first.
    leads: dict[int, set[int]] = {}
    for place, storage in enumerate(stored):
        leads.setdefault(storage, set()).add(place)
    for launch in reversed([one for one in launches_in(trace.steps) if isinstance(one, Launch)]):
        flow = flows.get(launch.kernel)
        if flow is None:
            continue
        storages = _storages(trace, launch, flow.arguments)
        written = {name: frozenset(leads.get(storages.get(name, -1), ())) for name in flow.stored}
        everything = set().union(*written.values())
        for name, storage in storages.items():
            if name not in flow.stored:
                leads.setdefault(storage, set()).update(everything)
        for line, names in flow.lines.items():
            found.setdefault(line, set()).update(*(written[name] for name in names))
    return {line: frozenset(outputs) for line, outputs in found.items()}


def _at(functions: Mapping[tuple[str, int], ast.FunctionDef], name: str, line: int) -> ast.FunctionDef | None:
    """Return the function that begins at a line, decorators included."""
    for (found, _), function in functions.items():
        if found == name and line in {function.lineno, *(one.lineno for one in function.decorator_list)}:
            return function
    return None


def _storages(trace: Trace, launch: Launch, names: Sequence[str]) -> dict[str, int]:
    given: dict[str, Value] = {**dict(zip(names, launch.args, strict=False)), **launch.kwargs}
    return {name: trace.windows[value.index].storage for name, value in given.items() if isinstance(value, TensorValue)}


@dataclass
class _Flow:
    """The flow of values in one kernel, by names. A loop or a branch leads to all names that are assigned in it."""

    function: ast.FunctionDef
    # The names that each name is computed from; the names that the lines of a statement assign, and their stores.
    made_of: dict[str, set[str]] = field(default_factory=dict)
    addresses: dict[str, set[str]] = field(default_factory=dict)
    assigned: list[tuple[range, set[str]]] = field(default_factory=list)
    stores: list[tuple[range, ast.Call, set[str]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._read(self.function.body, set())

    @property
    def arguments(self) -> tuple[str, ...]:
        """Return the names of the kernel's arguments."""
        return arguments_of(self.function)

    @cached_property
    def stored(self) -> frozenset[str]:
        """Return the arguments that the kernel stores to."""
        return frozenset(name for _, call, _ in self.stores for name in self._bases(call))

    @cached_property
    def lines(self) -> dict[int, frozenset[str]]:
        """Return the arguments that each line can change, by line."""
        found: dict[int, set[str]] = {}
        for lines, call, around in self.stores:
            bases = self._bases(call)
            for line in lines:
                found.setdefault(line, set()).update(bases)
            relevant = self._closure(around.union(*map(_names, (*call.args, *call.keywords))))
            for others, names in self.assigned:
                for line in others if names & relevant else ():
                    found.setdefault(line, set()).update(bases)
        for others, _ in self.assigned:
            for line in others:
                found.setdefault(line, set())
        return {line: frozenset(names) for line, names in found.items()}

    def _read(self, body: Sequence[ast.stmt], around: set[str]) -> None:
        for one in body:
            lines = range(one.lineno, (one.end_lineno or one.lineno) + 1)
            match one:
                case ast.For(target=target, iter=iterated):
                    head = range(one.lineno, one.body[0].lineno)
                    self._assign(head, _names(target), _names(iterated) | around, iterated)
                    # All values of the loop depend on the number of its steps.
                    inner = around | _names(iterated) | _names(target)
                    self.assigned.append((head, set(_assigned_in(one.body))))
                    self._read([*one.body, *one.orelse], inner)
                case ast.If(test=test) | ast.While(test=test):
                    inner = around | _names(test)
                    self.assigned.append((range(one.lineno, one.body[0].lineno), {*_assigned_in(one.body)}))
                    self._read([*one.body, *one.orelse], inner)
                case ast.Assign(targets=targets, value=value):
                    names = {name for target in targets for name in _names(target)}
                    self._assign(lines, names, _names(value) | around, value)
                case ast.AugAssign(target=target, value=value):
                    self._assign(lines, _names(target), _names(value) | _names(target) | around, value)
                case ast.AnnAssign(target=target, value=ast.expr() as value):
                    self._assign(lines, _names(target), _names(value) | around, value)
            calls = [] if isinstance(one, ast.For | ast.If | ast.While) else _stores_in(one)
            self.stores += [(lines, call, around) for call in calls]

    def _assign(self, lines: range, names: set[str], read: set[str], value: ast.expr) -> None:
        self.assigned.append((lines, names))
        for name in names:
            self.made_of.setdefault(name, set()).update(read)
            self.addresses.setdefault(name, set()).update(_names(value, loads=False))

    def _closure(self, names: set[str]) -> set[str]:
        return _closure(names, self.made_of)

    def _bases(self, call: ast.Call) -> set[str]:
        """Return the arguments that a store's pointer may come from. A loaded value is no pointer."""
        function = call.func
        of_descriptor = (
            isinstance(function, ast.Attribute) and len(call.args) == 2 and isinstance(call.args[0], ast.List)
        )
        pointer = function.value if of_descriptor and isinstance(function, ast.Attribute) else call.args[0]
        reached = _closure(_names(pointer, loads=False), self.addresses)
        # If an address is computed from several arguments, those that are no pointers have no fitting name.
        found = reached & {*self.arguments}
        named = {name for name in found if name.lower().endswith(("ptr", "ptrs", "desc"))}
        return named or found


def _closure(names: set[str], made_of: Mapping[str, Collection[str]]) -> set[str]:
    met: set[str] = set()
    waiting = {*names}
    while waiting:
        name = waiting.pop()
        met.add(name)
        waiting |= {*made_of.get(name, ())} - met
    return met


def _names(tree: ast.AST, *, loads: bool = True) -> set[str]:
    """Return the names in an expression. loads: with those of addresses that it loads from."""
    if not loads and called(tree) in ("load", "gather"):
        return set()
    own = {tree.id} if isinstance(tree, ast.Name) else set()
    return own.union(*(_names(one, loads=loads) for one in ast.iter_child_nodes(tree)))


def _assigned_in(body: Sequence[ast.stmt]) -> Iterator[str]:
    for one in body:
        for node in ast.walk(one):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                yield node.id


def _stores_in(statement: ast.stmt) -> list[ast.Call]:
    calls = (one for one in ast.walk(statement) if isinstance(one, ast.Call) and one.args)
    return [one for one in calls if called(one) in _STORES or called(one).startswith("atomic_")]
