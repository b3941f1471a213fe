"""Check the functions of a submission's text against an allow-list; refuse everything else, with its line.

In Triton's interpreter a kernel is Python, executed in the process that decides the verdict. So a tree passes only if
each of its names and attributes is known to lead to Triton's language, to plain data or to another checked function.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import NoReturn

import triton.language as tl

from grader.protocol.trace import NamedValue, Value
from grader.replay.allowed import (
    BUILTINS_OF,
    LOOPS,
    MATHS,
    OF_TABLES,
    OPERATORS,
    PRINTING,
    RESERVED,
    STATEMENTS,
    TYPES,
    Mode,
    safe_attributes,
    unsafe_attributes,
)
from grader.replay.language import MADE, Offered, offers
from grader.replay.things import UNDEFINED, Data, Foreign, KernelReference, Thing, Unknown
from grader.replay.values import RefusedFunction, Unusable, fields_of

# A name that shares this part of its letters with another counts as a misspelling of it.
_ALIKE = 0.8
_OFFERED = "compute with what triton.language offers"


@dataclass
class Checked:
    """The needs of a checked function of the text.

    used: the things behind its names. fields: its attributes that only a record or a named tuple can have. refusals: of
    code removed from branches, by the name of the call in its place. conditions: those of these branches, each with
    the name of its first refusal.
    """

    used: dict[str, Thing] = field(default_factory=dict)
    fields: list[ast.Attribute] = field(default_factory=list)
    refusals: dict[str, RefusedFunction] = field(default_factory=dict)
    conditions: dict[int, str] = field(default_factory=dict)


def check(function: ast.FunctionDef, mode: Mode, resolve: Callable[[str], Thing | None]) -> Checked:
    """Check a function's tree, without decorators, annotations and defaults. Raises RefusedFunction.

    A branch that is never compiled may hold code that Triton refuses. A call that raises the refusal replaces it.
    """
    checker = _Checker(function, mode, resolve)
    checker.body()
    return checker.found


class _Checker(ast.NodeVisitor):
    """Walks one function. A node without a method of its own is refused."""

    def __init__(self, function: ast.FunctionDef, mode: Mode, resolve: Callable[[str], Thing | None]) -> None:
        self.found = Checked()
        self._function, self._mode, self._resolve = function, mode, resolve
        self._scopes: list[set[str]] = [set()]

    def body(self) -> None:
        """Check the parameters and the statements."""
        given = self._function.args
        generic: object = getattr(self._function, "type_params", None)
        if given.kwarg or generic:
            self._refuse_python(self._function, "has no **arguments and no type parameters: name them one by one")
        several = [given.vararg] if given.vararg else []
        for one in (*given.posonlyargs, *given.args, *given.kwonlyargs, *several):
            if one.arg.startswith("_") and one.arg.strip("_"):
                # Triton passes internal arguments under such names.
                self._refuse(one, f"{one.arg} cannot be the name of a parameter: call it otherwise", python=False)
            self._bind(one, one.arg)
        for statement in self._function.body:
            for target in _bound_names(statement):
                self._bind(target, target.id)
        self._visit_all(self._function.body)

    # -- refusing ------------------------------------------------------------------------------------------------------

    def _refuse_python(self, node: ast.AST, rule: str) -> NoReturn:
        """Refuse code that Triton lacks; a function of constants is plain Python, which Triton accepts."""
        if self._mode == "jit":
            self._refuse(node, f"a kernel {rule}", python=True)
        self._refuse(node, f"here a constexpr function {rule}", python=False)

    def _refuse(self, node: ast.AST, rule: str, *, python: bool) -> NoReturn:
        line = getattr(node, "lineno", self._function.lineno)
        raise RefusedFunction(line, rule, python=python and self._mode == "jit")

    # -- names ---------------------------------------------------------------------------------------------------------

    def _bind(self, node: ast.AST, name: str) -> None:
        if name.startswith("__") or name in RESERVED:
            self._refuse(node, f"{name} cannot be the name of a variable: call it otherwise", python=False)
        self._scopes[-1].add(name)

    def _is_local(self, name: str) -> bool:
        return any(name in scope for scope in self._scopes)

    def _look_up_name(self, node: ast.Name) -> Thing | str:
        """Return the thing behind a name that is not a variable; for a builtin, its name."""
        name = node.id
        if name.startswith("__") or name in RESERVED:
            self._refuse_python(node, f"has no {name}: {_advice_for(name)}")
        found = self.found.used.get(name) or self._resolve(name)
        match found:
            case Foreign(path):
                self._refuse_python(node, f"has no {name} ({path} is Python's): {_advice_for(name)}")
            case Unknown(rule, python):
                advice = f": {self._instead_of(name)}" if found == UNDEFINED else ""
                self._refuse(node, f"`{name}`: {rule}{advice}", python=python)
            case None if name in BUILTINS_OF[self._mode]:
                return name
            case None if _is_builtin(name):
                self._refuse_python(node, f"has no {name}, which is Python's: {_advice_for(name)}")
            case None:
                rule = f"`{name}`: no line of this function or at the top level defines it"
                self._refuse(node, f"{rule}: {self._instead_of(name)}", python=False)
            case Data(value, told) if self._mode == "jit" and not _is_constant(value):
                self._refuse(node, _no_constant(name, told), python=True)
            case Data(Unusable(rule)):
                self._refuse(node, f"`{name}`: {rule}", python=False)
        self.found.used[name] = found
        return found

    def _instead_of(self, name: str) -> str:
        """Return what to write for a name that nothing defines: the function's variable that is spelt most alike."""
        near = get_close_matches(name, sorted(set().union(*self._scopes)), 1, _ALIKE)
        if near:
            return f"did you mean {near[0]}?"
        return "assign it before this line, pass it as an argument, or define it at the top level"

    def _look_up_chain(self, node: ast.expr) -> Thing | str | None:
        """Return the thing behind a name, or behind names in a module; None for any other expression, a value."""
        if isinstance(node, ast.Name):
            return None if self._is_local(node.id) else self._foreign_or_thing(node, node)
        if not isinstance(node, ast.Attribute):
            return None
        home = self._chain_home(node)
        if not isinstance(home, Offered) or home.kind not in ("module", "enum"):
            return None
        found = home.member(node.attr)
        if found is None:
            inside = home.path.startswith("triton.") and hasattr(home.value, node.attr) and node.attr[:2] != "__"
            what = "is internal to Triton and not supported here" if inside else "is not of Triton's language"
            near = get_close_matches(node.attr, offers().get(home.path, ()), 1, _ALIKE)
            advice = f"did you mean {ast.unparse(node.value)}.{near[0]}?" if near else _OFFERED
            self._refuse(node, f"`{ast.unparse(node)}` {what}: {advice}", python=not inside)
        return found

    def _chain_home(self, node: ast.Attribute) -> Thing | str | None:
        if isinstance(node.value, ast.Name) and not self._is_local(node.value.id):
            return self._foreign_or_thing(node.value, node)
        return self._look_up_chain(node.value)

    def _foreign_or_thing(self, name: ast.Name, whole: ast.expr) -> Thing | str:
        """Look up a name as _look_up_name does, but name the whole chain in a refusal: np.sum instead of np."""
        found = self.found.used.get(name.id) or self._resolve(name.id)
        if isinstance(found, Foreign) and isinstance(whole, ast.Attribute):
            text = f"{name.id}.{whole.attr}"
            known = found.path.partition(".")[0] in MATHS
            rule = f"{text} is Python's, and a kernel has none: {_advice_for(whole.attr if known else '')}"
            self._refuse(whole, rule, python=True)
        return self._look_up_name(name)

    # -- expressions ---------------------------------------------------------------------------------------------------

    def generic_visit(self, node: ast.AST) -> None:
        """Refuse a node that is not on the list."""
        kind = type(node).__name__
        self._refuse_python(node, f"has no {STATEMENTS.get(kind, kind)}")

    def _visit(self, node: ast.AST | None) -> None:
        if node is not None:
            self.visit(node)

    def _visit_all(self, nodes: Iterable[ast.AST | None]) -> None:
        for one in nodes:
            self._visit(one)

    def _check_value(self, node: ast.expr) -> None:
        """Check an expression that is used as a value: no module, no class."""
        found = self._look_up_chain(node)
        if isinstance(found, str):
            self._refuse_python(node, f"uses {found} in no other way than to call it")
        if isinstance(found, Offered) and found.kind in ("module", "class", "enum"):
            what = f"`{ast.unparse(node)}` is a module or a class, and no value"
            self._refuse(node, f"{what}: name what you need of it, as in tl.math.exp", python=True)

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load):
            self._check_value(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if not isinstance(node.ctx, ast.Load):
            self._refuse_python(node, "stores to no attribute: assign to a variable")
        if self._look_up_chain(node) is not None:
            self._check_value(node)
            return
        home = self._look_up_chain(node.value)
        if isinstance(home, Offered) and home.kind != "data":
            self._refuse(node, f"`{ast.unparse(node)}`: a kernel uses functions only to call them", python=True)
        if isinstance(home, KernelReference | str):
            self._refuse_python(node, f"has no `{ast.unparse(node)}`: functions are there to be called")
        if self._field_of_data(node):
            return
        self._visit(node.value)
        self._attribute(node)

    def _attribute(self, node: ast.Attribute) -> None:
        name = node.attr
        if name in OPERATORS:
            rule = f"`.{name}(…)` is another way to write an operator: write the operator, as {OPERATORS[name]}"
            self._refuse(node, rule, python=False)
        if (name.startswith("_") or name.endswith("_")) and name not in safe_attributes():
            self._refuse_python(node, f"has no `.{name}`: use what triton.language offers")
        if name in safe_attributes() or (self._mode == "constexpr" and name in OF_TABLES):
            return
        if name in unsafe_attributes():
            self._refuse_python(
                node, f"has no `.{name}`: use what tl.tensor offers; a field of yours needs another name"
            )
        self.found.fields.append(node)

    def _field_of_data(self, node: ast.Attribute) -> bool:
        """Return whether this is a field of a record that is known by name, at any depth."""
        chain: list[ast.Attribute] = []
        inner: ast.expr = node
        while isinstance(inner, ast.Attribute):
            chain.insert(0, inner)
            inner = inner.value
        home = self._look_up_chain(inner) if isinstance(inner, ast.Name) else None
        if not isinstance(home, Data):
            return False
        value, fields = home.value, []
        for one in chain:
            held = value.value if isinstance(value, tl.constexpr) else value
            if one.attr in fields_of(held):
                fields.append(one)
                value = fields_of(held)[one.attr]
            elif one.attr == "value" and held is not value:
                value = held
            else:
                return False
            if isinstance(value, Unusable):
                self._refuse(one, f"`{ast.unparse(one)}`: {value.rule}", python=False)
        self.found.fields.extend(fields)
        return bool(fields)

    def visit_Call(self, node: ast.Call) -> None:
        self._arguments(node.args[: self._check_called(node)], node.keywords)

    def _arguments(self, given: list[ast.expr], named: list[ast.keyword]) -> None:
        for keyword in named:
            if keyword.arg is None:
                self._refuse_python(keyword, "has no **arguments: name them one by one")
            if keyword.arg.startswith("_"):
                self._refuse_python(keyword, f"passes no argument called {keyword.arg}")
            self._visit(keyword.value)
        for one in given:
            self._visit(one.value if isinstance(one, ast.Starred) else one)

    def _check_called(self, node: ast.Call) -> int | None:
        """Check the called function. Returns the number of arguments that are values, None for all."""
        function = node.func
        if not isinstance(function, ast.Name | ast.Attribute | ast.Subscript):
            self._visit(function)
            self._refuse(node, "what a call returns is not called: give it a name first", python=False)
        found = self._look_up_chain(function)
        if found is None:
            self._visit(function)
        elif isinstance(found, str):
            return self._builtin(node, found)
        elif isinstance(found, Offered):
            if found.kind in ("module", "enum") or (found.kind == "class" and found.name not in MADE):
                text = ast.unparse(function)
                self._refuse(node, f"`{text}` is not to be called: use what triton.language offers", python=False)
            if found.name in PRINTING:
                self._check_print(node)
        return None

    def _builtin(self, node: ast.Call, name: str) -> int | None:
        if name in PRINTING:
            self._check_print(node)
        if name == "isinstance":
            match node:
                case ast.Call(args=[_, kind], keywords=[]):
                    self._type(kind)
                    return 1
            self._refuse_python(node, "asks isinstance for a value and a type")
        if name == "hasattr":
            match node.args:
                case [_, ast.Constant(value=str(asked))] if not asked.startswith("_"):
                    return None
            self._refuse_python(node, "asks hasattr for a name in quotes that begins with no underscore")
        return None

    def _check_print(self, node: ast.Call) -> None:
        if any(one.arg == "file" for one in node.keywords):
            self._refuse_python(node, "prints to no file")

    def _type(self, node: ast.expr) -> None:
        if isinstance(node, ast.Tuple):
            for one in node.elts:
                self._type(one)
            return
        if isinstance(node, ast.Name) and not self._is_local(node.id) and node.id in TYPES:
            return
        found = self._look_up_chain(node)
        if not isinstance(found, Offered) or found.kind != "class":
            self._refuse(node, "isinstance asks for a type of triton.language, int or float", python=False)
        if found.name == "tuple":
            # Compiled kernels use Triton's tuples, interpreted ones Python's: they would differ.
            self._refuse(node, "isinstance does not ask for a tuple", python=False)

    def visit_Constant(self, node: ast.Constant) -> None:
        if (
            node.value is not None
            and node.value is not Ellipsis
            and not isinstance(node.value, bool | int | float | str)
        ):
            self._refuse_python(node, f"has no {type(node.value).__name__}: write numbers")

    def visit_BinOp(self, node: ast.BinOp) -> None:
        if isinstance(node.op, ast.MatMult):
            self._refuse_python(node, "has no `@`: write tl.dot")
        if isinstance(node.op, ast.Mod) and (_is_text(node.left)):
            self._refuse_python(node, "formats no text with `%`: write an f-string")
        self._visit_all((node.left, node.right))

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        self._visit(node.operand)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        self._visit_all(node.values)

    def visit_Compare(self, node: ast.Compare) -> None:
        if self._mode == "jit" and len(node.ops) > 1:
            self._refuse_python(node, "compares two values at a time: write (a < b) & (b < c)")
        if self._mode == "jit" and isinstance(node.ops[0], ast.In | ast.NotIn):
            self._refuse_python(node, "has no `in`: compare with ==")
        self._visit_all((node.left, *node.comparators))

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self._visit(node.test)
        for name in ("body", "orelse"):
            try:
                self._visit(getattr(node, name))
            except RefusedFunction as refused:
                setattr(node, name, self._refusal_call(refused, getattr(node, name), node))

    def visit_Subscript(self, node: ast.Subscript) -> None:
        if not isinstance(node.ctx, ast.Load):
            self._refuse_python(node, "stores to no element: write tl.store, or choose with tl.where")
        if isinstance(self._look_up_chain(node.value), KernelReference | Offered | str):
            self._refuse_python(node, "launches no kernel: call the function without [grid]")
        self._visit_all((node.value, node.slice))

    def visit_Slice(self, node: ast.Slice) -> None:
        self._visit_all((node.lower, node.upper, node.step))

    def visit_Tuple(self, node: ast.Tuple) -> None:
        self._visit_all(node.elts)

    def visit_List(self, node: ast.List) -> None:
        if not isinstance(node.ctx, ast.Load):
            self._refuse_python(node, "assigns to no list: write a, b = …")
        self._visit_all(node.elts)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        for one in node.values:
            if isinstance(one, ast.FormattedValue):
                self._visit(one.value)
                if one.format_spec is not None:
                    self._refuse(
                        one, "an f-string in a kernel has no format after the colon: leave it out", python=False
                    )

    def visit_ListComp(self, node: ast.ListComp) -> None:
        if self._mode == "jit" and (len(node.generators) > 1 or node.generators[0].ifs):
            self._refuse_python(node, "has one loop and no if in a comprehension: write a loop over tl.static_range")
        self._comprehension(node.generators, (node.elt,))

    def _comprehension(self, generators: list[ast.comprehension], results: tuple[ast.expr, ...]) -> None:
        self._visit(generators[0].iter)
        with self._scope():
            for place, one in enumerate(generators):
                if one.is_async:
                    self._refuse_python(one.iter, "has no async")
                if place:
                    self._visit(one.iter)
                self._bind_targets(one.target)
                self._visit_all(one.ifs)
            self._visit_all(results)

    @contextmanager
    def _scope(self) -> Iterator[None]:
        self._scopes.append(set())
        try:
            yield
        finally:
            self._scopes.pop()

    def _bind_targets(self, target: ast.expr) -> None:
        """Bind the names of a comprehension: they are local in Python, but not for Triton's compiler."""
        if isinstance(target, ast.Tuple) and self._mode == "constexpr":
            for one in target.elts:
                self._bind_targets(one)
            return
        if not isinstance(target, ast.Name):
            self._refuse_python(target, "assigns to names in a comprehension")
        if self._resolve(target.id) is not None or _is_builtin(target.id):
            self._refuse(
                target, f"{target.id} means something else outside of this list: call it otherwise", python=False
            )
        self._bind(target, target.id)

    # -- statements ----------------------------------------------------------------------------------------------------

    def visit_Expr(self, node: ast.Expr) -> None:
        self._visit(node.value)

    def visit_Assign(self, node: ast.Assign) -> None:
        if self._mode == "jit" and len(node.targets) > 1:
            self._refuse_python(node, "assigns to one variable at a time: write two lines")
        for one in node.targets:
            self._target(one)
        self._visit(node.value)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if isinstance(node.op, ast.MatMult):
            self._refuse_python(node, "has no `@`: write tl.dot")
        self._target(node.target)
        self._visit(node.value)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self._target(node.target)
        self._visit(node.value)

    def _target(self, node: ast.expr) -> None:
        if isinstance(node, ast.Tuple):
            for one in node.elts:
                self._target(one)
        elif not isinstance(node, ast.Name):
            self._visit(node)
            self._refuse_python(node, "assigns to variables")

    def visit_Return(self, node: ast.Return) -> None:
        self._visit(node.value)

    def visit_Pass(self, node: ast.Pass) -> None:
        pass

    def visit_If(self, node: ast.If) -> None:
        self._visit(node.test)
        for block in (node.body, node.orelse):
            block[:] = [left for statement in block for left in self._replace_refused(statement, node)]

    def _replace_refused(self, statement: ast.stmt, branching: ast.If) -> list[ast.stmt]:
        """Return a statement of a branch, or its refusing replacement; the names that it assigns stay variables."""
        names = [one.id for one in _bound_names(statement)]
        try:
            self._visit(statement)
        except RefusedFunction as refused:
            call = self._refusal_call(refused, statement, branching)
            nothing = [ast.Assign([ast.Name(name, ast.Store())], ast.Constant(None)) for name in dict.fromkeys(names)]
            left: list[ast.stmt] = [ast.Expr(call), *nothing]
            return [ast.fix_missing_locations(ast.copy_location(one, statement)) for one in left]
        return [statement]

    def _refusal_call(self, refused: RefusedFunction, node: ast.AST, branching: ast.If | ast.IfExp) -> ast.Call:
        """Return the call that replaces refused code. Raises the refusal if Triton might accept the code."""
        if not refused.python:
            raise refused
        name = f"refusal {len(self.found.refusals)}"
        self.found.refusals[name] = refused
        self.found.conditions.setdefault(id(branching), name)
        call = ast.Call(ast.Name(name, ast.Load()), [], [])
        return ast.fix_missing_locations(ast.copy_location(call, node))

    def visit_While(self, node: ast.While) -> None:
        self._visit(node.test)
        self._visit_all((*node.body, *node.orelse))

    def visit_For(self, node: ast.For) -> None:
        if self._mode == "jit":
            if not isinstance(node.iter, ast.Call) or not self._is_loop_function(node.iter.func):
                self._refuse_python(node, "loops over range, tl.range or tl.static_range")
            if not isinstance(node.target, ast.Name):
                self._refuse_python(node, "loops with one variable")
        self._target(node.target)
        match node.iter:
            case ast.Call(func=ast.IfExp(), args=given, keywords=named) if self._mode == "jit":
                self._arguments(given, named)
            case _:
                self._visit(node.iter)
        self._visit_all((*node.body, *node.orelse))

    def _is_loop_function(self, function: ast.expr) -> bool:
        """Return whether the function is one of Triton's loops, or one of two: `static_range if n < 4 else range`."""
        if isinstance(function, ast.IfExp):
            self._visit(function.test)
            return self._is_loop_function(function.body) and self._is_loop_function(function.orelse)
        found = self._look_up_chain(function)
        return (found.name if isinstance(found, Offered) else found) in LOOPS

    def visit_Assert(self, node: ast.Assert) -> None:
        self._visit_all((node.test, node.msg))

    # -- for functions of constants only -------------------------------------------------------------------------------

    def _constants_only(self, node: ast.AST) -> None:
        if self._mode == "jit":
            self._refuse_python(node, f"has no {STATEMENTS.get(type(node).__name__, type(node).__name__)}")

    def visit_Break(self, node: ast.Break) -> None:
        self._constants_only(node)

    def visit_Continue(self, node: ast.Continue) -> None:
        self._constants_only(node)

    def visit_Raise(self, node: ast.Raise) -> None:
        self._constants_only(node)
        if not isinstance(node.exc, ast.Call) or node.cause is not None:
            self._refuse_python(node, "raises an exception with a message")
        self._visit(node.exc)

    def visit_Set(self, node: ast.Set) -> None:
        self._constants_only(node)
        self._visit_all(node.elts)

    def visit_Dict(self, node: ast.Dict) -> None:
        self._constants_only(node)
        if None in node.keys:
            self._refuse_python(node, "has no ** in a dictionary")
        self._visit_all((*node.keys, *node.values))

    def visit_GeneratorExp(self, node: ast.GeneratorExp) -> None:
        self._constants_only(node)
        self._comprehension(node.generators, (node.elt,))

    def visit_SetComp(self, node: ast.SetComp) -> None:
        self._constants_only(node)
        self._comprehension(node.generators, (node.elt,))

    def visit_DictComp(self, node: ast.DictComp) -> None:
        self._constants_only(node)
        self._comprehension(node.generators, (node.key, node.value))


def _bound_names(node: ast.AST) -> Iterator[ast.Name]:
    """Yield the names that a statement binds in its function, without the local ones of a comprehension."""
    if isinstance(node, ast.Name):
        if isinstance(node.ctx, ast.Store):
            yield node
    elif isinstance(node, ast.comprehension):
        # Its targets are local.
        for part in (node.iter, *node.ifs):
            yield from _bound_names(part)
    else:
        for child in ast.iter_child_nodes(node):
            yield from _bound_names(child)


def _is_constant(value: object) -> bool:
    """Return whether Triton lets a kernel read a global variable of this value."""
    is_named_tuple = isinstance(value, type) and issubclass(value, tuple) and hasattr(value, "_fields")
    return is_named_tuple or isinstance(value, tl.constexpr | tl.dtype)


def _no_constant(name: str, told: Value) -> str:
    """Return the rule for a global variable that is no constant."""
    if isinstance(told, NamedValue) and told.kind == "record":
        advice = f"give each function of it that you use a name at the top level, as in `NAME = {name}.NAME`, and each "
        advice += f"number, as in `NAME = tl.constexpr({name}.NAME)`"
        return f"`{name}` is no constant, and a kernel reads constants alone: {advice}"
    advice = f"write `{name} = tl.constexpr(…)`, or pass it as an argument"
    return f"`{name}` is a global variable, and a kernel reads constants alone: {advice}"


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def _is_builtin(name: str) -> bool:
    return hasattr(builtins, name)


def _advice_for(name: str) -> str:
    """Return the advice for a function of Python's."""
    if name and name in offers()["triton.language"]:
        return f"write tl.{name}"
    return _OFFERED
