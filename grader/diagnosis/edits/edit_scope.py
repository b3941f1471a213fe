"""Describe one function of a submission's text, and an edit of it, for the search for small mistakes."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

from grader.diagnosis.kinds import of_family

# The arguments of a launch, by position and by name: numbers and texts; None for any other value.
Launched = tuple[Sequence[object], Mapping[str, object]]

# Weights: about so many of a thousand such edits took back a mistake (benchmarks/tried.json).
MOST, OFTEN, SOMETIMES, NOW_AND_THEN, RARELY = 30.0, 6.0, 2.0, 0.6, 0.05
# The factor of edits that read a name which the function never reads.
_FOR_AN_IDLE_NAME = 20.0
_ARGUMENTS_OF_WHERE = 3
# Functions whose arguments move no address: what a load reads is a value, and so is what comes of a reduction.
_OF_VALUES = frozenset({"load", "exp", "exp2", "log", "log2", "dot", "sum"})
# Functions that access memory, each with the place of a mask among its arguments.
_ACCESSES = {"load": 1, "store": 2}
# Functions that limit a bound.
LIMITS = ("minimum", "maximum", "min", "max")
# Functions that loops iterate over: Python's, and those of Triton.
_RANGES = ("range", "static_range")
# Functions of which all arguments lead to addresses.
_OF_ADDRESSES = frozenset({"advance", "gather", "make_block_ptr", "make_tensor_descriptor", "arange"})
# The kind of an edit that could take back several kinds of mistakes.
SLIP = "slip"
# Functions whose arguments are relative to a maximum.
_POWERS = ("exp", "exp2")
# Functions with more nodes than this, some 500 lines, are skipped: the time grows with the square of their length.
_MOST_NODES = 12_000


def is_long(function: ast.FunctionDef) -> bool:
    """Return whether a function is too long to be searched."""
    return next(islice(ast.walk(function), _MOST_NODES, None), None) is not None


@dataclass(frozen=True)
class Edit:
    """A small edit of a text.

    kinds: of the mistakes that it may take back. weight: its likelihood compared with other edits. start, end: the
    bytes that are replaced. in_kernel: launch code does not change. twins: offsets of equal lines, in bytes after this
    one. shown: short texts that replace a long `after` and `before` on a card. help: replaces that of its kind.
    """

    line: int
    before: str
    after: str
    kinds: tuple[str, ...]
    weight: float
    start: int
    end: int
    in_kernel: bool
    twins: tuple[int, ...] = ()
    shown: tuple[str, str] | None = None
    help: str = ""

    @property
    def adds_a_statement(self) -> bool:
        """Return whether the edited line assigns a further name."""
        return "; " in self.after and "; " not in self.before

    def applied(self, source: str) -> str:
        """Return the text with the edit, in each equal line."""
        data, after = source.encode(), self.after.encode()
        for further in sorted((0, *self.twins), reverse=True):
            data = data[: self.start + further] + after + data[self.end + further :]
        return data.decode()


@dataclass(frozen=True)
class Scope:
    """A function of the text.

    launched: the arguments of a kernel's launch; None for launch code. constants: the names of all kernels' constants.
    blocks: those that are lengths of blocks.
    """

    function: ast.FunctionDef
    source: bytes
    starts: tuple[int, ...]
    launched: Launched | None
    constants: tuple[str, ...] = ()
    blocks: tuple[str, ...] = ()

    @property
    def in_kernel(self) -> bool:
        """Return whether the function is a kernel."""
        return self.launched is not None

    def span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        """Return the first byte of an expression or a statement, and the byte after it."""
        last = self.starts[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)
        return self.starts[node.lineno - 1] + node.col_offset, last

    def text(self, node: ast.expr | ast.stmt) -> str:
        """Return the text of an expression or a statement."""
        start, end = self.span(node)
        return self.source[start:end].decode()

    def edit(self, node: ast.expr, after: str, kinds: tuple[str, ...], weight: float = 0.6) -> Edit:
        """Return the edit that replaces an expression. One that reads a name that nothing else reads is likelier."""
        start, end = self.span(node)
        if any(re.search(rf"\b{name}\b", after) for name in self._missed):
            weight *= _FOR_AN_IDLE_NAME
        fitting = self.fitting(node, kinds)
        return Edit(node.lineno, self.text(node), after, fitting, weight, start, end, self.in_kernel)

    def fitting(self, node: ast.AST, kinds: tuple[str, ...]) -> tuple[str, ...]:
        """Return the kinds of a mistake in this node: a number that goes into no address shifts no position."""
        if not self.in_kernel or node in self._in_addresses:
            return kinds
        lost = {*of_family("addresses"), *(() if node in self._in_masks else of_family("masks"))}
        return tuple(dict.fromkeys(kind for kind in kinds if kind not in lost)) or (SLIP,)

    @cached_property
    def _in_addresses(self) -> frozenset[ast.AST]:
        """Return all nodes that addresses are made of, the accesses themselves, and the ranges of loops.

        What a function returns, or passes to another one of the text, may become an address there.
        """
        taken: list[ast.AST] = []
        accesses: list[ast.AST] = []
        for one in ast.walk(self.function):
            if isinstance(one, ast.For):
                taken.append(one.iter)
            if isinstance(one, ast.Return) and one.value is not None:
                taken.append(one.value)
            if not isinstance(one, ast.Call):
                continue
            name = called(one)
            if name in _ACCESSES or name.startswith("atomic_"):
                accesses += [one, one.func]
                # The method of a descriptor takes a list of offsets.
                taken += [*one.args[:1], *(each.value for each in one.keywords if each.arg == "boundary_check")]
            elif name in _OF_ADDRESSES or isinstance(one.func, ast.Name):
                taken += [*one.args, *(each.value for each in one.keywords)]
        return frozenset([*accesses, *self._made_of(taken)])

    @cached_property
    def _in_masks(self) -> frozenset[ast.AST]:
        """Return all nodes that masks, and the conditions of branches and choices, are made of."""
        tests: list[ast.AST] = [*self.mask_nodes]
        for one in ast.walk(self.function):
            match one:
                case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test):
                    tests.append(test)
                case ast.Call(args=[condition, *_]) if called(one) == "where":
                    tests.append(condition)
                case ast.Call(args=args) if called(one) in _ACCESSES:
                    tests += args[_ACCESSES[called(one)] :][:1]
        return frozenset(self._made_of(tests))

    def _made_of(self, nodes: Sequence[ast.AST]) -> list[ast.AST]:
        """Return all nodes that these are computed from, without values."""
        return [one for node in nodes for one in self.origins(node, until=_OF_VALUES)]

    def joined(self, places: Sequence[tuple[ast.expr, str]], kinds: tuple[str, ...], weight: float) -> Edit:
        """Return the edit that replaces several expressions, in the order of the text. Its line is the first one's."""
        start, last = self.span(places[0][0])[0], self.span(places[-1][0])[1]
        text, at = b"", start
        for place, after in places:
            first, end = self.span(place)
            text += self.source[at:first] + after.encode()
            at = end
        before, line = self.source[start:last].decode(), places[0][0].lineno
        return Edit(line, before, text.decode(), kinds, weight, start, last, self.in_kernel)

    @cached_property
    def arguments(self) -> tuple[str, ...]:
        """Return the names of the function's arguments."""
        return arguments_of(self.function)

    @cached_property
    def values(self) -> Mapping[str, object]:
        """Return the known values of the arguments."""
        by_place, by_name = self.launched or ((), {})
        return {**dict(zip(self.arguments, by_place, strict=False)), **by_name}

    @cached_property
    def parents(self) -> Mapping[ast.AST, ast.AST]:
        """Return the parent of every node."""
        return {child: node for node in ast.walk(self.function) for child in ast.iter_child_nodes(node)}

    @cached_property
    def known_from(self) -> Mapping[str, int]:
        """Return every name of the function, and the line after which it has a value."""
        names: dict[str, int] = dict.fromkeys(self.arguments, 0)
        for node in ast.walk(self.function):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                names.setdefault(node.id, node.lineno)
        return names

    @cached_property
    def masks(self) -> tuple[str, ...]:
        """Return the masks of loads and stores."""
        return tuple(dict.fromkeys(map(self.text, self.mask_nodes)))

    @cached_property
    def mask_nodes(self) -> tuple[ast.expr, ...]:
        """Return the masks of loads and stores, as nodes."""
        calls = (node for node in ast.walk(self.function) if isinstance(node, ast.Call))
        return tuple(one for call in calls if (one := keyword(call, "mask")) is not None)

    @cached_property
    def conditions(self) -> tuple[str, ...]:
        """Return the conditions of tl.where, and each mask along one axis as one along either of two axes."""
        calls = [one for one in ast.walk(self.function) if isinstance(one, ast.Call)]
        chosen = [call.args[0] for call in calls if called(call) == "where" and len(call.args) == _ARGUMENTS_OF_WHERE]
        of_axes = [
            f"({self.text(one.value)}){axes}"
            for mask in self.mask_nodes
            for one in ast.walk(mask)
            if isinstance(one, ast.Subscript)
            for axes in ("[None, :]", "[:, None]")
        ]
        return tuple(dict.fromkeys([*map(self.text, chosen), *of_axes]))

    def renamed(self, node: ast.expr, names: Mapping[str, str]) -> str:
        """Return the text of an expression with other names."""
        start, end = self.span(node)
        found = [one for one in ast.walk(node) if isinstance(one, ast.Name) and one.id in names]
        text, last = b"", start
        for first, behind, name in sorted((*self.span(one), names[one.id]) for one in found):
            text += self.source[last:first] + name.encode()
            last = behind
        return (text + self.source[last:end]).decode()

    def meaning(self, node: ast.expr) -> ast.expr:
        """Return the expression that a name stands for, if the function assigns it once; else the node itself."""
        if not isinstance(node, ast.Name):
            return node
        assigned = (one for one in ast.walk(self.function) if isinstance(one, ast.Assign))
        found = [one.value for one in assigned if getattr(one.targets[0], "id", "") == node.id]
        return found[0] if len(found) == 1 else node

    @cached_property
    def given(self) -> Mapping[str, Sequence[ast.expr]]:
        """Return the values that each name is given: by assignments, `+=` and loops."""
        found: dict[str, list[ast.expr]] = {}
        for one in ast.walk(self.function):
            match one:
                case ast.Assign([ast.Name(name)], value) | ast.AugAssign(ast.Name(name), _, value):
                    found.setdefault(name, []).append(value)
                case ast.Assign([ast.Tuple(targets)], value):
                    several = isinstance(value, ast.Tuple) and len(value.elts) == len(targets)
                    values = value.elts if isinstance(value, ast.Tuple) and several else [value] * len(targets)
                    for target, own in zip(targets, values, strict=True):
                        found.setdefault(bare_name(target), []).append(own)
                case ast.For(ast.Name(name), value):
                    found.setdefault(name, []).append(value)
        return found

    def origins(self, node: ast.AST, *, until: Collection[str] = ()) -> list[ast.AST]:
        """Return all nodes of an expression, and of the values that its names are given.

        until: functions; the arguments of their calls are left out, and so is what `/` divides: no address is.
        """
        found: list[ast.AST] = []
        known, left = set[str](), [node]
        while left:
            one = left.pop()
            found.append(one)
            is_divided = isinstance(one, ast.BinOp) and isinstance(one.op, ast.Div)
            if called(one) in until or (until and is_divided):
                continue
            left += ast.iter_child_nodes(one)
            if isinstance(one, ast.Name) and one.id not in known:
                known.add(one.id)
                left += self.given.get(one.id, ())
        return found

    @cached_property
    def handed_on(self) -> frozenset[str]:
        """Return the names that the function passes to a range, or to another function of the text."""
        calls = [one for one in ast.walk(self.function) if isinstance(one, ast.Call) and isinstance(one.func, ast.Name)]
        return frozenset(filter(None, (bare_name(one) for call in calls for one in call.args)))

    @cached_property
    def guards(self) -> Mapping[str, Sequence[ast.Assign]]:
        """Return the lines that replace -inf by a number in a name, by name: `m = tl.where(m == -inf, 0.0, m)`."""
        found: dict[str, list[ast.Assign]] = {}
        for one in ast.walk(self.function):
            if isinstance(one, ast.Assign) and called(one.value) == "where" and isinstance(one.value, ast.Call):
                name, given = bare_name(one.targets[0]), [*map(bare_name, one.value.args)]
                if name and name in given[1:] and name in names_in(one.value.args[0]):
                    found.setdefault(name, []).append(one)
        return found

    @cached_property
    def sums(self) -> Mapping[str, frozenset[str]]:
        """Return the names that the function assigns once, as a sum, each with the names that the sum adds."""
        assigned = [one for one in ast.walk(self.function) if isinstance(one, ast.Assign)]
        names = {bare_name(one.targets[0]): one.value for one in assigned}
        found = {name: frozenset(filter(None, map(bare_name, addends(value)))) for name, value in names.items() if name}
        return {name: terms for name, terms in found.items() if terms and self.meaning(ast.Name(name)) is names[name]}

    @cached_property
    def remainders(self) -> Mapping[tuple[str, str], tuple[str, ...]]:
        """Return the names that the function assigns remainders to, by the texts of both operands."""
        found: dict[tuple[str, str], tuple[str, ...]] = {}
        for one in ast.walk(self.function):
            match one:
                case ast.Assign([ast.Name(name)], ast.BinOp(whole, ast.Mod(), parts)):
                    operands = self.text(whole), self.text(parts)
                    found[operands] = (*found.get(operands, ()), name)
        return found

    @cached_property
    def configurations(self) -> frozenset[ast.AST]:
        """Return all nodes of autotuning configurations and their lists. Changing a configuration fixes no mistake."""
        chosen = [one for one in ast.walk(self.function) if called(one) == "Config"]
        lists = {self.parents[one] for one in chosen if isinstance(self.parents[one], ast.List | ast.Tuple)}
        return frozenset({*lists, *(node for one in chosen for node in ast.walk(one))})

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """Return the texts that the function uses as keys, and the constants of launches."""
        indices = (one.slice for one in ast.walk(self.function) if isinstance(one, ast.Subscript))
        texts = (one.value for one in indices if isinstance(one, ast.Constant))
        return tuple(dict.fromkeys([*(one for one in texts if isinstance(one, str)), *self.constants]))

    @cached_property
    def passed_to_kernels(self) -> tuple[str, ...]:
        """Return the names and numbers that launches of the function pass as constants."""
        return self._passed(self.constants)

    @cached_property
    def passed_blocks(self) -> tuple[str, ...]:
        """Return the names and numbers that launches of the function pass as lengths of blocks."""
        return self._passed(self.blocks)

    def _passed(self, constants: Sequence[str]) -> tuple[str, ...]:
        launches = (one for one in ast.walk(self.function) if isinstance(one, ast.Call))
        launches = (one for one in launches if isinstance(one.func, ast.Subscript))
        given = (one for launch in launches for one in launch.keywords if one.arg in constants)
        return tuple(
            dict.fromkeys(self.text(one.value) for one in given if isinstance(one.value, ast.Name | ast.Constant))
        )

    @cached_property
    def in_grids(self) -> frozenset[ast.AST]:
        """Return all nodes that the grids of launches are computed from; none in a kernel."""
        if self.in_kernel:
            return frozenset()
        called_by = (one.func for one in ast.walk(self.function) if isinstance(one, ast.Call))
        grids = [one.slice for one in called_by if isinstance(one, ast.Subscript)]
        return frozenset(one for grid in grids for one in self.origins(grid))

    @cached_property
    def lengths(self) -> Mapping[str, int]:
        """Return the lengths that launch code takes from tensors, and the line after which each has a value."""
        found: dict[str, int] = {}
        for one in ast.walk(self.function):
            match one:
                case ast.Assign(targets, value) if any(map(_is_length, ast.walk(value))):
                    names = (each for target in targets for each in ast.walk(target) if isinstance(each, ast.Name))
                    found |= {each.id: one.lineno for each in names if each.id not in found}
                case ast.Call() if _is_length(one):
                    found.setdefault(self.text(one), 0)
                case ast.Subscript(of_shape, index) if _is_length(of_shape) and not isinstance(index, ast.Slice):
                    found.setdefault(self.text(one), 0)
        return found

    @cached_property
    def ranges(self) -> tuple[ast.Call, ...]:
        """Return the ranges that the loops of the function iterate over."""
        loops = (one.iter for one in ast.walk(self.function) if isinstance(one, ast.For))
        return tuple(one for one in loops if isinstance(one, ast.Call) and called(one) in _RANGES and one.args)

    @cached_property
    def bounds(self) -> frozenset[str]:
        """Return the names in ranges of loops, and limited ones that are passed to another function of the text."""
        limited = (name for name in self.handed_on if any(called(one) in LIMITS for one in self.given.get(name, ())))
        return frozenset(limited).union(*(names_in(one) for call in self.ranges for one in call.args))

    @cached_property
    def used(self) -> frozenset[str]:
        """Return the names whose values the function reads."""
        names = (one for one in ast.walk(self.function) if isinstance(one, ast.Name))
        return frozenset(one.id for one in names if isinstance(one.ctx, ast.Load))

    @cached_property
    def idle(self) -> frozenset[str]:
        """Return the names that have a value, which the function never reads."""
        return frozenset(name for name in self.known_from if name not in self.used and name.strip("_"))

    @cached_property
    def _missed(self) -> frozenset[str]:
        """Return the idle names that were probably to be read: launch code often takes a shape apart for few sizes."""
        parted = [one.targets[0] for one in ast.walk(self.function) if isinstance(one, ast.Assign)]
        sizes = {bare_name(each) for one in parted if isinstance(one, ast.Tuple) for each in one.elts}
        return self.idle if self.in_kernel else self.idle - sizes

    @cached_property
    def sizes(self) -> tuple[str, ...]:
        """Return the arguments that are whole numbers, without strides and constants."""
        numbers = (one for one in self.arguments if self.is_number(one) and not self._is_pointer(one))
        numbers = (one for one in numbers if not isinstance(self.values.get(one), bool | float))
        return tuple(one for one in numbers if "stride" not in one.lower() and not (one.isupper() and "_" in one))

    @cached_property
    def lane_factors(self) -> frozenset[str]:
        """Return the names that multiply an index of lanes, as strides do: `rows[:, None] * stride`."""
        products = (
            one for one in ast.walk(self.function) if isinstance(one, ast.BinOp) and isinstance(one.op, ast.Mult)
        )
        sides = [side for one in products for side in ((one.left, one.right), (one.right, one.left))]
        return frozenset(
            bare_name(one) for one, other in sides if any(isinstance(x, ast.Subscript) for x in ast.walk(other))
        )

    def _is_pointer(self, name: str) -> bool:
        return name.endswith(("ptr", "ptrs", "desc"))

    @cached_property
    def loaded(self) -> tuple[str, ...]:
        """Return the names of single numbers that are loaded: without a mask, at an address without a range."""
        assigned = (one for one in ast.walk(self.function) if isinstance(one, ast.Assign))
        simple = (one for one in assigned if called(one.value) == "load" and not one.value.keywords)  # type: ignore[attr-defined]
        return tuple(one.targets[0].id for one in simple if isinstance(one.targets[0], ast.Name))

    @cached_property
    def divisors(self) -> tuple[tuple[str, str], ...]:
        """Return the divisors of the function, and its unused arguments that are sizes, each with an operator."""
        found = (one for one in ast.walk(self.function) if isinstance(one, ast.BinOp))
        used = {
            (self.text(one.right), "%" if isinstance(one.op, ast.Mod) else "//"): None
            for one in found
            if isinstance(one.op, ast.FloorDiv | ast.Mod) and not isinstance(one.right, ast.Constant)
        }
        idle = {(name, sign): None for name in self.sizes if name not in self.used for sign in ("//", "%")}
        return tuple({**used, **idle})

    @cached_property
    def factors(self) -> tuple[str, ...]:
        """Return the names that the function multiplies by, or that it computes in a loop and never uses."""
        products = [
            one for one in ast.walk(self.function) if isinstance(one, ast.BinOp) and isinstance(one.op, ast.Mult)
        ]
        names = {_bare(side): None for one in products for side in (one.left, one.right)}
        idle = {name: None for name, line in self.known_from.items() if line and name not in self.used}
        return tuple(one for one in {**names, **idle} if one and one not in self.arguments)

    @cached_property
    def maxima(self) -> frozenset[str]:
        """Return the names that are arguments of a maximum of two values."""
        calls = (one for one in ast.walk(self.function) if isinstance(one, ast.Call) and len(one.args) == 2)
        compared = (arg for call in calls if called(call) in ("maximum", "max") for arg in call.args)
        return frozenset(one.id for one in compared if isinstance(one, ast.Name))

    @cached_property
    def given_maxima(self) -> frozenset[str]:
        """Return the names that get a maximum: `top = tl.max(x, 1)`, `m = tl.maximum(m, top)`, and then `old = m`."""
        assigned = [one for one in ast.walk(self.function) if isinstance(one, ast.Assign)]
        named = {bare_name(one.targets[0]) for one in assigned if called(one.value) in ("max", "maximum")}
        return frozenset({*named, *(bare_name(one.targets[0]) for one in assigned if _bare(one.value) in named)} - {""})

    @cached_property
    def exponents(self) -> frozenset[ast.BinOp]:
        """Return the differences that are exponents: `tl.exp(x - top)`."""
        differences = (
            one for one in ast.walk(self.function) if isinstance(one, ast.BinOp) and isinstance(one.op, ast.Sub)
        )
        return frozenset(one for one in differences if called(self.parents.get(one)) in _POWERS)

    @cached_property
    def hidden_behind(self) -> tuple[tuple[ast.expr, ast.BinOp], ...]:
        """Return the exponents whose powers are masked, each with its condition: `tl.where(seen, tl.exp(x - top), 0)`.

        The power may have a name, or may be multiplied by the condition.
        """
        found = []
        for one in ast.walk(self.function):
            match one:
                case ast.Call(args=[condition, power, ast.Constant(0)]) if called(one) == "where":
                    pairs = [(condition, power)]
                case ast.BinOp(left, ast.Mult(), right):
                    pairs = [(left, right), (right, left)]
                case _:
                    pairs = []
            for condition, power in pairs:
                calls = [one for one in (power, *self.given.get(bare_name(power), ())) if called(one) in _POWERS]
                exponents = [exponent for exponent in self.exponents if self.parents[exponent] in calls]
                found += [(condition, exponent) for exponent in exponents if self._is_condition(condition)]
        return tuple(found)

    def _is_condition(self, node: ast.expr) -> bool:
        """Return whether an expression selects elements by comparing positions."""
        return any(isinstance(one, ast.Compare) for one in self.origins(node, until=("load",)))

    @cached_property
    def tops(self) -> frozenset[str]:
        """Return the names that exponents are relative to, and those of maxima."""
        return (self.maxima | {_bare(one.right) for one in self.exponents}) - {""}

    def target_of(self, node: ast.AST) -> tuple[str, bool]:
        """Return the name that a statement around a node assigns and reads, and whether the node is added to it."""
        inside, at = node, self.parents.get(node)
        operand = False
        while at is not None and not isinstance(at, ast.stmt):
            operand |= isinstance(at, ast.BinOp) and isinstance(at.op, ast.Add | ast.Sub) and inside is node
            operand |= called(at) == "dot" and inside is node
            inside, at = at, self.parents.get(at)
        if isinstance(at, ast.AugAssign) and isinstance(at.target, ast.Name):
            return at.target.id, operand or at.value is node
        if isinstance(at, ast.Assign) and isinstance(at.targets[0], ast.Name):
            name = at.targets[0].id
            return (name if name in names_in(at.value) else ""), operand
        return "", False

    def called_on(self, node: ast.expr) -> str:
        """Return the method that is called on the value of an expression; "" for none."""
        parent = self.parents.get(node)
        return parent.attr if isinstance(parent, ast.Attribute) else ""

    def is_compared(self, node: ast.AST) -> bool:
        """Return whether a name is compared, by itself, with more axes, or as part of a sum."""
        at = self.parents.get(node)
        while isinstance(at, ast.Subscript) or (isinstance(at, ast.BinOp) and isinstance(at.op, ast.Add | ast.Sub)):
            at = self.parents.get(at)
        return isinstance(at, ast.Compare)

    def in_a_loop(self, node: ast.AST) -> bool:
        """Return whether a node is in a loop."""
        at = self.parents.get(node)
        while at is not None and not isinstance(at, ast.For | ast.While):
            at = self.parents.get(at)
        return at is not None

    @cached_property
    def has_block_pointers(self) -> bool:
        """Return whether the text makes block pointers."""
        return b"make_block_ptr" in self.source

    @cached_property
    def unused_strides(self) -> tuple[tuple[str, str], ...]:
        """Return the stride arguments that the function never uses, each with a used one for the same axis."""
        strides = [one for one in self.arguments if "stride" in one.lower()]
        idle = [one for one in strides if one not in self.used]
        return tuple(
            (one, other)
            for one in idle
            for other in strides
            if other in self.used and len(one) == len(other) and one[-1] == other[-1]
        )

    def terms_with(self, stride: str) -> tuple[ast.expr, ...]:
        """Return the products with a stride, each text once."""
        products = (
            one for one in ast.walk(self.function) if isinstance(one, ast.BinOp) and isinstance(one.op, ast.Mult)
        )
        found = {
            self.text(one): one
            for one in products
            if stride in {getattr(one.left, "id", ""), getattr(one.right, "id", "")}
        }
        return tuple(found.values())

    def is_number(self, name: str) -> bool:
        """Return whether an argument may be a number."""
        return name in self.arguments and isinstance(self.values.get(name, 0), int | float)


# Yields the edits at one node of a function. Finders stand in tuples, IN_LOOPS and others, which `slips` lists.
Finder = Callable[[Scope, ast.AST], Iterator[Edit]]


def _is_length(node: ast.AST) -> bool:
    """Return whether a node is the shape of a tensor, or asks for one of its lengths."""
    return (isinstance(node, ast.Attribute) and node.attr == "shape") or called(node) in ("numel", "size")


def arguments_of(function: ast.FunctionDef) -> tuple[str, ...]:
    """Return the names of a function's arguments."""
    own = function.args
    return tuple(one.arg for one in (*own.posonlyargs, *own.args, *own.kwonlyargs))


def constants_of(function: ast.FunctionDef) -> tuple[str, ...]:
    """Return the names of a kernel's arguments that are constants."""
    own = function.args
    every = (*own.posonlyargs, *own.args, *own.kwonlyargs)
    return tuple(one.arg for one in every if one.annotation and "constexpr" in ast.unparse(one.annotation))


def block_lengths_of(function: ast.FunctionDef) -> tuple[str, ...]:
    """Return the names of a kernel's constants that are lengths of blocks: of `tl.arange(0, BLOCK)`."""
    ranges = (one for one in ast.walk(function) if called(one) == "arange")
    lengths = {name for one in ranges for name in names_in(one)}
    return tuple(one for one in constants_of(function) if one in lengths)


def bare_name(node: ast.AST) -> str:
    """Return the name that an expression is; "" for anything else."""
    return node.id if isinstance(node, ast.Name) else ""


def names_in(tree: ast.AST) -> set[str]:
    """Return the names in a tree."""
    return {one.id for one in ast.walk(tree) if isinstance(one, ast.Name)}


def addends(node: ast.expr) -> list[ast.expr]:
    """Return the addends of a sum; of any other node, the node itself."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return [*addends(node.left), *addends(node.right)]
    return [node]


def keyword(call: ast.Call, name: str) -> ast.expr | None:
    """Return the argument of a call that has this name."""
    return next((one.value for one in call.keywords if one.arg == name), None)


def called(call: ast.AST | None) -> str:
    """Return the last name of a called function; "" for any other node."""
    function = call.func if isinstance(call, ast.Call) else None
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _bare(node: ast.expr) -> str:
    """Return a name, without the index that gives it more axes; "" for anything else."""
    return bare_name(node.value if isinstance(node, ast.Subscript) else node)
