"""Builds kernels from a submission's text, and helpers from packages', without executing a line of either.

A kernel is the function at a line of the text. Its tree, without decorators, annotations and defaults, is checked
against the allow-list of grader.replay.checking, and then that very tree runs: Triton gets it instead of the text that
it would parse again. A trace's description of a kernel is a claim. Only functions of the text ever run, and their names
lead to plain data, to Triton's language or to other functions of the text.

A function of an installed package is read from the package's file and checked against the same list. It may only
compute: functions that are launched, load, store or multiply matrices must be in the submission's text.
"""

from __future__ import annotations

import ast
import builtins
import copy
import dis
import hashlib
import inspect
import linecache
import re
import types
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

import triton
import triton.language as tl
from triton.experimental import gluon
from triton.runtime.interpreter import FunctionRewriter, interpreter_semantic
from triton.runtime.jit import constexpr_function

from grader.calls.packages import file_of
from grader.interpreter.beyond import NeedsGpu
from grader.protocol.trace import FROM_ELSEWHERE, KernelText, KernelValue, LanguageValue, UnknownValue, Value
from grader.replay.checking import BUILTINS, Checked, Data, Foreign, KernelReference, Thing, Unknown, check
from grader.replay.language import GLUON, Offered, find, offers
from grader.replay.values import Elsewhere, RefusedFunction, describe, fields_of, is_acting, plain_value, text_of

__all__ = ["Kernels", "RefusedFunction", "Text"]

# Names that no Python text can contain.
_LANGUAGE, _FIELD, _CONSTEXPR = "triton.language", "field of", "tl.constexpr"
_TEXT, _REMAINDER, _SORTED = "text of", "remainder of", "what is sorted"
_CONDITION = "condition that is known"
_OPTIONS = ("debug", "do_not_specialize", "do_not_specialize_on_alignment", "noinline")
# Functions of memory and matrices; all atomics count as well.
_WORK = frozenset(
    {
        *("dot", "dot_scaled", "load", "make_block_ptr", "make_tensor_descriptor", "scatter", "store"),
        *("async_copy_global_to_shared", "async_copy_shared_to_global", "mma_v2", "warpgroup_mma"),
    }
)
_OF_THE_REWRITER = frozenset({"numbered", "to_tensor"})
_NEVER = (
    *("BUILD_CLASS", "DELETE_", "FORMAT_WITH_SPEC", "IMPORT", "INPLACE_", "STORE_ATTR", "STORE_GLOBAL", "STORE_NAME"),
    *("STORE_SUBSCR", "_WITH"),
)
_TYPE_TEXT = re.compile(r"[*a-z0-9_ ]{1,40}")

Function = ast.FunctionDef


class Text:
    """A parsed text of a submission. path: the file name for its lines. Raises RefusedFunction unless it is Python."""

    def __init__(self, source: str, path: str) -> None:
        self.path = path
        self.lines = re.split("\r\n|\r|\n", source)
        self.tree = _parse(source)
        self.functions = {(name, line): found for name, line, found in _functions(self.tree)}
        self.imports = dict(_imports(self.tree))
        linecache.cache[path] = (len(source), None, [f"{one}\n" for one in self.lines], path)


class Kernels:
    """The kernels that a trace names, built from the text. kernel_texts: the trace's descriptions."""

    def __init__(self, text: Text, kernel_texts: Sequence[KernelText]) -> None:
        self._text, self._kernel_texts = text, tuple(kernel_texts)
        self._packages: dict[str, Text] = {}
        self._interpreted = bool(triton.knobs.runtime.interpret)
        self._built: dict[int, Any] = {}
        self._failed: dict[int, RefusedFunction] = {}
        # Call it before the interpreter replaces the language's functions.
        offers()

    def kernel(self, index: int) -> Any:
        """Return a function as triton.jit or triton.constexpr_function makes it. Raises RefusedFunction."""
        if index in self._failed:
            raise self._failed[index]
        known = set(self._built)
        try:
            return self._kernel(index)
        except RefusedFunction as refused:
            self._failed[index] = refused
        except (RecursionError, MemoryError, SyntaxError, ValueError, OverflowError) as error:
            rule = f"the function cannot be compiled: {error}"[:300]
            line = 0 if self._kernel_texts[index].home else self._kernel_texts[index].line
            self._failed[index] = RefusedFunction(line, rule, python=False)
        for one in set(self._built) - known:
            # Functions that call each other are all refused if one of them is.
            del self._built[one]
        raise self._failed[index]

    def _kernel(self, index: int) -> Any:
        if index not in self._built:
            kernel_text = self._kernel_texts[index]
            if kernel_text.home:
                self._build_helper(index, kernel_text)
            else:
                self._build(index, kernel_text, self._text)
        return self._built[index]

    def _build_helper(self, index: int, kernel_text: KernelText) -> None:
        """Build a function of a package. Its refusals name the package, since lines are not the submission's."""
        text = self._packages.get(kernel_text.home) or _text_of_package(kernel_text)
        self._packages[kernel_text.home] = text
        _, function = text.functions.get((kernel_text.name, kernel_text.line), ("", None))
        if function is not None and (used := _works_on_memory(function)):
            raise Elsewhere(0, f"{kernel_text.words}, which has tl.{used}: write it in your file")
        try:
            self._build(index, kernel_text, text)
        except Elsewhere:
            raise
        except RefusedFunction as refused:
            where = f"{kernel_text.words}, line {refused.line}" if refused.line else kernel_text.words
            raise RefusedFunction(0, f"in {where}: {refused.rule}", python=refused.python) from None

    def _build(self, index: int, kernel_text: KernelText, text: Text) -> None:
        place, function = text.functions.get((kernel_text.name, kernel_text.line), ("", None))
        if function is None:
            raise RefusedFunction(
                kernel_text.line,
                f"no function {kernel_text.name} begins here: define kernels in the file",
                python=False,
            )
        names = _Names(kernel_text, text.imports, text.tree, self._kernel)
        tree = _Dotted(kernel_text, function).visit(copy.deepcopy(function))
        annotations = _take_annotations(tree, names)
        defaults = _take_defaults(tree, names)
        found = check(tree, "constexpr" if kernel_text.kind == "constexpr" else "jit", names.thing)
        plain = copy.deepcopy(tree)
        if self._interpreted or kernel_text.kind == "constexpr":
            # Code that runs as Python reads fields through _field_of; a compiler must see them unchanged.
            tree = _Fields(found).visit(tree)
        if self._interpreted:
            tree = _Conditions(found).visit(tree)
        namespace: dict[str, Any] = {
            _LANGUAGE: tl,
            _FIELD: _field_of,
            _TEXT: text_of,
            _REMAINDER: _remainder,
            _SORTED: _sorted,
            _CONSTEXPR: tl.constexpr,
            _CONDITION: _require_constant,
            **{name: _refusing(refused) for name, refused in found.refusals.items()},
            "__builtins__": {name: getattr(builtins, name) for name in BUILTINS},
            "__name__": "submission",
        }
        if self._interpreted:
            namespace["interpreter_semantic"] = interpreter_semantic
        make = _Maker(tree, text.path, namespace, defaults, annotations, place)
        fn = make.function(ast.Module([copy.deepcopy(tree)], []))
        kernel = self._make_kernel(kernel_text, fn, make, _lines_of(plain, text), plain)
        self._built[index] = kernel
        for name, thing in found.used.items():
            namespace[name] = self._object_of(thing)

    def _object_of(self, thing: Thing) -> Any:
        match thing:
            case KernelReference(index):
                try:
                    return self._kernel(index)
                except RefusedFunction as refused:
                    return _refusing(refused)
            case Offered(value=value) | Data(value):
                return value
        raise AssertionError(thing)

    def _make_kernel(
        self, kernel_text: KernelText, fn: types.FunctionType, make: _Maker, text: list[str], plain: Function
    ) -> Any:
        if kernel_text.kind == "constexpr":
            return _with_tree(lambda: constexpr_function(fn), plain, make.defaults, text)
        options = {
            name: plain_value(value, self._kernel)
            for name, value in kernel_text.options.items()
            if name in _OPTIONS and value is not None
        }
        for name in ("do_not_specialize", "do_not_specialize_on_alignment"):
            if name in options and not _is_list_of_names(options[name]):
                raise RefusedFunction(kernel_text.line, f"{name} must be a list of names or places", python=True)
        if not self._interpreted:
            decorator = gluon.jit if kernel_text.kind == "gluon" else triton.jit
            return _guarded(_with_tree(lambda: decorator(fn, **options), plain, make.defaults, text))
        kernel = triton.jit(fn, **options)
        kernel.rewriter = _CheckedRewriter(fn, make)
        return _guarded(kernel)


def _lines_of(tree: Function, text: Text) -> list[str]:
    """Return the function's lines, for messages only: Triton compiles the tree."""
    lines = [one[tree.col_offset :] for one in text.lines[tree.lineno - 1 : tree.end_lineno]]
    if not re.match(r"def\s+\w+\s*\(", lines[0] if lines else ""):
        lines = ast.unparse(tree).splitlines()
    return [f"{one}\n" for one in lines]


def _text_of_package(kernel_text: KernelText) -> Text:
    """Return the text of the installed module of a function. Raises RefusedFunction."""
    path = file_of(kernel_text.home)
    if path is None:
        rule = f"{FROM_ELSEWHERE}{kernel_text.words}: no installed package has it, so copy its text into the file"
        raise RefusedFunction(0, rule, python=False)
    return Text(path.read_text("utf-8"), str(path))


def _works_on_memory(function: Function) -> str:
    """Return the name of a kernel's own work that a function does, such as load or dot, or an empty text."""
    used = (
        one.attr if isinstance(one, ast.Attribute) else one.id
        for one in ast.walk(function)
        if isinstance(one, ast.Attribute | ast.Name)
    )
    return next((name for name in used if name in _WORK or name.startswith("atomic_")), "")


# -- the text --------------------------------------------------------------------------------------------------------


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


class _Dotted(ast.NodeTransformer):
    """Merges the name of a module's function, as in `helpers.maximum`, into one, where the trace holds it.

    A variable called `helpers` hides it.
    """

    def __init__(self, kernel_text: KernelText, function: Function) -> None:
        variables = {one.arg for one in ast.walk(function.args) if isinstance(one, ast.arg)}
        variables |= {
            one.id for one in ast.walk(function) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)
        }
        dotted = (name for name, value in kernel_text.names.items() if "." in name and isinstance(value, KernelValue))
        self._names = {name for name in dotted if name.partition(".")[0] not in variables}

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        self.generic_visit(node)
        name = f"{node.value.id}.{node.attr}" if isinstance(node.value, ast.Name) else ""
        return ast.copy_location(ast.Name(name, node.ctx), node) if name in self._names else node


class _Names:
    """The things behind the names of one function: from the trace, else from the file's imports."""

    def __init__(
        self, kernel_text: KernelText, imports: Mapping[str, str], tree: ast.Module, kernel_of: Callable[[int], object]
    ) -> None:
        self._kernel_text, self._imports, self._tree, self._kernel_of = kernel_text, imports, tree, kernel_of
        self._found: dict[str, Thing | None] = {}

    def thing(self, name: str) -> Thing | None:
        """Return the thing behind a name, or None if it is unknown."""
        if name not in self._found:
            self._found[name] = self._look_up(name)
        return self._found[name]

    def _look_up(self, name: str) -> Thing | None:
        if name in self._kernel_text.names:
            return _thing_of(self._kernel_text.names[name], self._kernel_of)
        return _imported(self._imports[name]) if name in self._imports else None

    def chain(self, node: ast.expr) -> Thing | None:
        """Return the thing behind a dotted name, or None."""
        if isinstance(node, ast.Name):
            return self.thing(node.id)
        if isinstance(node, ast.Attribute):
            home = self.chain(node.value)
            return home.member(node.attr) if isinstance(home, Offered) else None
        return None

    @property
    def defaults(self) -> Mapping[str, Value]:
        """Return the defaults in the trace, by parameter."""
        return self._kernel_text.defaults

    def constant(self, name: str) -> ast.expr | None:
        """Return the expression that the file assigns to a name, if it does so once, at its top level."""
        found = [
            node.value
            for node in self._tree.body
            if isinstance(node, ast.Assign)
            and any(isinstance(one, ast.Name) and one.id == name for one in node.targets)
        ]
        return found[0] if len(found) == 1 else None


def _thing_of(value: Value, kernel_of: Callable[[int], object]) -> Thing:
    if isinstance(value, KernelValue):
        return KernelReference(value.index)
    if isinstance(value, LanguageValue):
        return _imported(value.path)
    if isinstance(value, UnknownValue):
        if value.what.startswith(FROM_ELSEWHERE):
            return Unknown(value.what[:300])
        return Unknown(
            f"{describe(value)}, which a kernel cannot use: pass numbers, dtypes or kernels"[:300], python=True
        )
    try:
        return Data(plain_value(value, kernel_of))
    except RefusedFunction as refused:
        if refused.line:
            raise
        return Unknown(refused.rule)


def _imported(path: str) -> Thing:
    if path.startswith(GLUON) and triton.knobs.runtime.interpret:
        raise NeedsGpu("a kernel of Gluon's, the language below Triton's")
    found = find(path)
    if found is not None:
        return found
    if path.partition(".")[0] == "triton":
        return Unknown(f"{path} is not known to us: use what triton.language offers"[:300])
    return Foreign(path[:100])


# -- code that runs at a definition ----------------------------------------------------------------------------------


def _take_annotations(tree: Function, names: _Names) -> dict[str, Any]:
    """Remove the decorators and annotations of a function. Returns those that Triton reads: constexpr and dtypes."""
    annotations = {}
    tree.decorator_list, tree.returns, tree.type_comment = [], None, None
    for node in ast.walk(tree):
        if isinstance(node, ast.arg):
            found = _annotation(node.annotation, names)
            if found is not None:
                annotations[node.arg] = found
            node.annotation, node.type_comment = None, None
        if isinstance(node, ast.AnnAssign) and not isinstance(node.target, ast.Name):
            raise RefusedFunction(node.lineno, "a kernel annotates variables only", python=True)
    # In place, because a loop's body may hold annotations as well.
    return annotations if _Annotated(names).visit(tree) else {}


class _Annotated(ast.NodeTransformer):
    """Rewrites `x: int = 1` to `x = 1`, and constexpr to a name of the grader's own."""

    def __init__(self, names: _Names) -> None:
        self._names = names

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.stmt:
        if node.value is None:
            raise RefusedFunction(node.lineno, "a variable in a kernel needs a value: write `x = …`", python=True)
        if _annotation(node.annotation, self._names) is tl.constexpr:
            node.annotation = ast.copy_location(ast.Name(_CONSTEXPR, ast.Load()), node.annotation)
            node.simple = 1
            return node
        return ast.copy_location(ast.Assign([node.target], node.value), node)


def _annotation(node: ast.expr | None, names: _Names) -> Any:
    """Return Triton's meaning of an annotation; None for one that it ignores."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        text = node.value.strip()
        if re.fullmatch(r"[\w.]+", text) and not text.endswith("constexpr"):
            known = find(f"triton.language.{text.rpartition('.')[2]}")
            return known.value if known and _is_type(known.value) else _type_text(text)
        return tl.constexpr if text.endswith("constexpr") else _type_text(text)
    if not isinstance(node, ast.Name | ast.Attribute):
        return None
    found = names.chain(node)
    if isinstance(found, Offered) and _is_type(found.value):
        return found.value
    # `tl` may have another name that appears in annotations only.
    return tl.constexpr if ast.unparse(node).rpartition(".")[2] == "constexpr" else None


def _is_type(value: Any) -> bool:
    return value is tl.constexpr or value is tl.const or isinstance(value, tl.dtype)


def _type_text(text: str) -> str | None:
    return (
        text if _TYPE_TEXT.fullmatch(text) and (text.removeprefix("const ").startswith("*") or text.isalnum()) else None
    )


def _take_defaults(tree: Function, names: _Names) -> dict[str, object]:
    """Remove the defaults of a function, and return them as values."""
    given = [*tree.args.posonlyargs, *tree.args.args]
    late = given[len(given) - len(tree.args.defaults) :]
    pairs = [
        *zip(late, tree.args.defaults, strict=True),
        *zip(tree.args.kwonlyargs, tree.args.kw_defaults, strict=True),
    ]
    tree.args.defaults = []
    tree.args.kw_defaults = [None for _ in tree.args.kw_defaults]
    return {one.arg: _default_of(one.arg, value, names) for one, value in pairs if value is not None}


def _default_of(name: str, node: ast.expr, names: _Names) -> object:
    """Return a default from the text, or else, if it is plain data, from the trace."""
    try:
        return _default(node, names)
    except RefusedFunction as refused:
        if name not in names.defaults:
            raise
        try:
            return plain_value(names.defaults[name], _no_kernel)
        except RefusedFunction:
            raise refused from None


def _no_kernel(_: int) -> NoReturn:
    raise RefusedFunction(0, "a default is no kernel", python=False)


def _default(node: ast.expr, names: _Names, depth: int = 4) -> object:
    """Return the value of a default: data, or an object of Triton's language."""
    match node:
        case ast.Constant(value=value) if value is None or isinstance(value, bool | int | float | str):
            return value
        case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=ast.Constant(value=int() | float() as value)):
            return -value if isinstance(node.op, ast.USub) else value
        case ast.Tuple(elts=items) if depth:
            return tuple(_default(one, names, depth - 1) for one in items)
        case ast.Call(func=function, args=[held], keywords=[]) if (
            depth and _annotation(function, names) is tl.constexpr
        ):
            return tl.constexpr(_default(held, names, depth - 1))
        case ast.Name() | ast.Attribute():
            found = names.chain(node)
            if isinstance(found, Data) or (isinstance(found, Offered) and found.kind in ("data", "function")):
                return found.value
            known = names.constant(node.id) if isinstance(node, ast.Name) and found is None else None
            if known is not None and depth:
                return _default(known, names, depth - 1)
    rule = f"the default `{ast.unparse(node)[:80]}` is not known: write a number, or pass the argument"
    raise RefusedFunction(node.lineno, rule, python=False)


# -- code that runs --------------------------------------------------------------------------------------------------


class _Fields(ast.NodeTransformer):
    """Rewrites attributes that no Triton value has to reads of fields of records and named tuples."""

    def __init__(self, found: Checked) -> None:
        self._fields = {id(one) for one in found.fields}

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        ours = id(node) in self._fields
        self.generic_visit(node)
        if not ours:
            return node
        call = ast.Call(ast.Name(_FIELD, ast.Load()), [node.value, ast.Constant(node.attr)], [])
        return ast.fix_missing_locations(ast.copy_location(call, node))


class _Conditions(ast.NodeTransformer):
    """Rewrites conditions of branches with refused code to a test whether Triton would leave a branch out."""

    def __init__(self, found: Checked) -> None:
        self._conditions = found.conditions

    def visit_If(self, node: ast.If) -> ast.stmt:
        refusal = self._conditions.get(id(node))
        self.generic_visit(node)
        if refusal:
            node.test = _call_of(_CONDITION, node.test, node.test, ast.Name(refusal, ast.Load()))
        return node

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        refusal = self._conditions.get(id(node))
        self.generic_visit(node)
        if refusal:
            node.test = _call_of(_CONDITION, node.test, node.test, ast.Name(refusal, ast.Load()))
        return node


def _require_constant(condition: Any, refuse: Callable[[], None]) -> Any:
    """Return a condition that is known at compile time. Any other is refused: both branches would be compiled."""
    if isinstance(condition, tl.tensor):
        refuse()
    return condition


def _field_of(value: Any, name: str) -> object:
    """Return a field of a record or a named tuple."""
    known = fields_of(value.value if type(value) is tl.constexpr else value)
    if name not in known:
        raise AttributeError(f"a {type(value).__name__} has no {name}")
    return known[name]


class _Pure(ast.NodeTransformer):
    """Rewrites operators that change a value in place, or that make a text of anything but numbers."""

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.stmt:
        assert isinstance(node.target, ast.Name)
        before = ast.copy_location(ast.Name(node.target.id, ast.Load()), node.target)
        after = ast.copy_location(ast.BinOp(before, node.op, node.value), node)
        return ast.copy_location(ast.Assign([node.target], self.visit(after)), node)

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        self.generic_visit(node)
        return _call_of(_REMAINDER, node, node.left, node.right) if isinstance(node.op, ast.Mod) else node

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        self.generic_visit(node)
        if node.attr == "sort":
            # The only method that a tensor shares with a list, where it changes the list.
            node.value = _call_of(_SORTED, node.value, node.value)
        return node

    def visit_FormattedValue(self, node: ast.FormattedValue) -> ast.expr:
        self.generic_visit(node)
        how = ast.Constant(chr(node.conversion) if node.conversion > 0 else "s")
        node.value, node.conversion = _call_of(_TEXT, node.value, node.value, how), -1
        return node


def _call_of(name: str, place: ast.expr, *operands: ast.expr) -> ast.expr:
    call = ast.Call(ast.Name(name, ast.Load()), list(operands), [])
    return ast.fix_missing_locations(ast.copy_location(call, place))


def _remainder(left: Any, right: Any) -> Any:
    """Return `left % right`. Raises TypeError for a text on the left, which % would format."""
    if isinstance(left.value if type(left) is tl.constexpr else left, str | bytes):
        raise TypeError("a kernel formats no text with `%`: write an f-string")
    return left % right


def _sorted(value: Any) -> Any:
    if isinstance(value.value if type(value) is tl.constexpr else value, list):
        raise TypeError("a kernel sorts no list: write tl.sort for a tensor")
    return value


class _Maker:
    """Makes Python functions of one checked tree, without executing its definition."""

    def __init__(
        self,
        tree: Function,
        path: str,
        namespace: dict[str, Any],
        defaults: Mapping[str, object],
        annotations: Mapping[str, Any],
        place: str,
    ) -> None:
        self.tree, self.path, self.defaults = tree, path, defaults
        self._namespace, self._annotations, self._place = namespace, annotations, place
        self._attributes = {one.attr for one in ast.walk(tree) if isinstance(one, ast.Attribute)} | _OF_THE_REWRITER
        self._names = {one.id for one in ast.walk(tree) if isinstance(one, ast.Name)}

    def function(self, module: ast.Module) -> types.FunctionType:
        """Return the function of a module that holds its definition alone."""
        module = ast.fix_missing_locations(_Pure().visit(module))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compiled = compile(module, self.path, "exec", dont_inherit=True)
        (code,) = (one for one in compiled.co_consts if isinstance(one, types.CodeType))
        self._look_again(code)
        given = self.tree.args
        by_place = [one.arg for one in (*given.posonlyargs, *given.args) if one.arg in self.defaults]
        by_name = {one.arg: self.defaults[one.arg] for one in given.kwonlyargs if one.arg in self.defaults}
        function = types.FunctionType(
            code, self._namespace, code.co_name, tuple(self.defaults[one] for one in by_place)
        )
        function.__kwdefaults__ = by_name or None
        function.__annotations__ = dict(self._annotations)
        function.__qualname__ = self._place
        return function

    def _look_again(self, code: types.CodeType) -> None:
        """Check the compiled byte code against the list once more, as far as it tells."""
        known = self._names | BUILTINS | {_LANGUAGE, _FIELD, _TEXT, _REMAINDER, _SORTED, _CONSTEXPR, _CONDITION}
        known |= {"interpreter_semantic"}
        language = offers()[_LANGUAGE]
        for one in (code, *_codes_in(code)):
            for step in dis.get_instructions(one):
                name, what = step.opname, str(step.argval)
                wrong = any(never in name for never in _NEVER)
                wrong |= name in ("LOAD_GLOBAL", "LOAD_NAME") and what not in known
                # Operators that change a value in place, and `%`, which formats texts.
                wrong |= name == "BINARY_OP" and (step.argrepr.endswith("=") or step.argrepr == "%")
                wrong |= name in ("LOAD_ATTR", "LOAD_METHOD") and not (what in self._attributes or what in language)
                if wrong:
                    raise RefusedFunction(
                        one.co_firstlineno, f"the function compiles to {name} {what}"[:200], python=False
                    )


def _refusing(refused: RefusedFunction) -> Callable[..., Any]:
    """Return a stand-in for a refused function, which raises only if it is called."""

    def refuse(*_: object, **__: object) -> None:
        raise refused

    # As a builtin, the compiler calls it without reading anything of it before.
    refuse.__triton_builtin__ = True  # type: ignore[attr-defined]
    # Reductions read the Python function of a kernel's function.
    refuse.fn = refuse  # type: ignore[attr-defined]
    return refuse


def _codes_in(code: types.CodeType) -> Iterator[types.CodeType]:
    for one in code.co_consts:
        if isinstance(one, types.CodeType):
            yield one
            yield from _codes_in(one)


class _CheckedRewriter(FunctionRewriter):  # type: ignore[misc]
    """Gives the interpreter the checked tree instead of a text."""

    def __init__(self, fn: types.FunctionType, make: _Maker) -> None:
        super().__init__(fn)
        self._make = make

    def rewrite_ast(self) -> types.FunctionType:
        """Return the function for the interpreter."""
        self.filename, self.def_file_lineno = self._make.path, 1
        # ast.parse returns a tree unchanged.
        return self._make.function(self._transform_ast(ast.Module([copy.deepcopy(self._make.tree)], [])))


def _with_tree(build: Callable[[], Any], plain: Function, defaults: Mapping[str, object], text: list[str]) -> Any:
    """Build a kernel, then replace its text by the tree, with a digest of the tree in the key of Triton's cache."""
    with _source(text, plain.lineno):
        built = build()
    tree = copy.deepcopy(plain)
    for node in ast.walk(tree):
        if isinstance(node, ast.expr | ast.stmt | ast.arg | ast.keyword):
            node.col_offset = max(0, node.col_offset - plain.col_offset)
    ast.increment_lineno(tree, 1 - tree.lineno)
    digest = hashlib.sha256(f"{ast.dump(tree)} {defaults!r}".encode()).hexdigest()
    built._unsafe_update_src(f"{''.join(text)}# {digest}\n")
    built.parse = lambda: ast.Module([copy.deepcopy(tree)], [])
    return built


@contextmanager
def _source(text: list[str], line: int) -> Iterator[None]:
    known = inspect.getsourcelines
    inspect.getsourcelines = lambda object: (list(text), line)  # noqa: A006
    try:
        yield
    finally:
        inspect.getsourcelines = known


def _is_list_of_names(value: object) -> bool:
    return isinstance(value, tuple) and all(isinstance(one, int | str) for one in value)


# -- launching -------------------------------------------------------------------------------------------------------

_launching: list[bool] = []


def _guarded(kernel: Any) -> Any:
    """Let a kernel launch no kernel, and reach tensors through pointers alone: else torch would compute within it."""
    names = [*inspect.signature(kernel.fn).parameters]
    constants = {name for name, one in kernel.fn.__annotations__.items() if one is tl.constexpr}

    def run(*args: Any, grid: Any, warmup: bool, **options: Any) -> Any:
        if _launching:
            raise RefusedFunction(0, "a kernel launches no kernel: call it without [grid]", python=True)
        for name, value in (*zip(names, args, strict=False), *options.items()):
            if _is_misplaced(value, constant=name in constants):
                raise RefusedFunction(
                    0, f"{name} holds a tensor that Triton makes no pointer of: pass it alone", python=True
                )
            _refuse_acting(value)
        _launching.append(True)
        try:
            return type(kernel).run(kernel, *args, grid=grid, warmup=warmup, **options)
        finally:
            _launching.pop()

    kernel.run = run
    return kernel


def _refuse_acting(value: Any) -> None:
    """Check the named tuples of an argument again: those that hold tensors were filled late."""
    value = value.value if isinstance(value, tl.constexpr) else value
    for name, one in fields_of(value).items():
        if is_acting(name, one):
            raise RefusedFunction(0, f"a function cannot be in a field called {name}: call it otherwise", python=False)
    held = [*value.values()] if isinstance(value, dict) else [*fields_of(value).values()]
    for one in value if isinstance(value, tuple | list) else held:
        _refuse_acting(one)


def _is_misplaced(value: Any, *, constant: bool) -> bool:
    """Return whether an argument holds a tensor in anything but itself or a tuple."""
    if value is None or isinstance(value, int | float | str):
        return False
    if isinstance(value, tuple):
        return any(_is_misplaced(one, constant=constant) for one in value)
    if isinstance(value, tl.constexpr):
        return _is_misplaced(value.value, constant=True)
    held = [*value.values()] if isinstance(value, dict) else [*fields_of(value).values()]
    if isinstance(value, list) or held:
        return any(_is_misplaced(one, constant=True) for one in (value if isinstance(value, list) else held))
    return constant and (hasattr(value, "data_ptr") or hasattr(value, "block_shape"))
