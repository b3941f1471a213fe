"""Make Python functions and Triton's kernels of a checked tree; Triton gets the tree instead of a text."""

from __future__ import annotations

import ast
import builtins
import dis
import hashlib
import inspect
import types
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from triton.runtime.interpreter import FunctionRewriter, interpreter_semantic

from grader.interpreter.arithmetic.extremes import EXTREMES
from grader.interpreter.language.trees import copied
from grader.replay.allowed import BUILTINS
from grader.replay.checking import Checked
from grader.replay.language import offers
from grader.replay.rewriting import LANGUAGE, helpers, rewrite_operators
from grader.replay.text import Function
from grader.replay.values import RefusedFunction

_OF_THE_REWRITER = frozenset(
    {
        "assumed",
        "carried",
        "decided",
        "end_branch",
        "entering",
        "joined",
        "negated",
        "numbered",
        "settled",
        "to_tensor",
    }
)
_NEVER = (
    *(
        "BUILD_CLASS",
        "DELETE_ATTR",
        "DELETE_GLOBAL",
        "DELETE_NAME",
        "DELETE_SUBSCR",
        "FORMAT_WITH_SPEC",
        "IMPORT",
        "INPLACE_",
        "STORE_ATTR",
        "STORE_GLOBAL",
        "STORE_NAME",
    ),
    *("STORE_SUBSCR", "_WITH"),
)


def namespace_for(found: Checked, *, interpreted: bool) -> dict[str, Any]:
    """Return the globals of a function: what rewritten trees call, and stand-ins for refused functions."""
    extremes = EXTREMES if interpreted else {}
    namespace: dict[str, Any] = {
        **helpers(),
        **{name: refusing(refused) for name, refused in found.refusals.items()},
        "__builtins__": {name: extremes.get(name, getattr(builtins, name)) for name in BUILTINS},
        "__name__": "submission",
    }
    return {**namespace, "interpreter_semantic": interpreter_semantic} if interpreted else namespace


class FunctionMaker:
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
        module = ast.fix_missing_locations(rewrite_operators(module))
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
        """Check the compiled byte code against the list once more, as far as byte code shows it."""
        known = self._names | BUILTINS | helpers().keys() | {"interpreter_semantic"}
        language = offers()[LANGUAGE]
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


def _codes_in(code: types.CodeType) -> Iterator[types.CodeType]:
    for one in code.co_consts:
        if isinstance(one, types.CodeType):
            yield one
            yield from _codes_in(one)


class CheckedRewriter(FunctionRewriter):  # type: ignore[misc]
    """Gives the interpreter the checked tree instead of a text."""

    def __init__(self, fn: types.FunctionType, make: FunctionMaker) -> None:
        super().__init__(fn)
        self._make = make

    def rewrite_ast(self) -> types.FunctionType:
        """Return the function for the interpreter."""
        self.filename, self.def_file_lineno = self._make.path, 1
        # ast.parse returns a tree unchanged.
        return self._make.function(self._transform_ast(ast.Module([copied(self._make.tree)], [])))


def with_tree(build: Callable[[], Any], plain: Function, defaults: Mapping[str, object], text: list[str]) -> Any:
    """Build a kernel, then replace its text by the tree, with a digest of the tree in the key of Triton's cache."""
    with _source(text, plain.lineno):
        built = build()
    tree = copied(plain)
    for node in ast.walk(tree):
        if isinstance(node, ast.expr | ast.stmt | ast.arg | ast.keyword):
            node.col_offset = max(0, node.col_offset - plain.col_offset)
    ast.increment_lineno(tree, 1 - tree.lineno)
    digest = hashlib.sha256(f"{ast.dump(tree)} {defaults!r}".encode()).hexdigest()
    built._unsafe_update_src(f"{''.join(text)}# {digest}\n")
    built.parse = lambda: ast.Module([copied(tree)], [])
    return built


@contextmanager
def _source(text: list[str], line: int) -> Iterator[None]:
    known = inspect.getsourcelines
    inspect.getsourcelines = lambda object: (list(text), line)  # noqa: A006
    try:
        yield
    finally:
        inspect.getsourcelines = known


def refusing(refused: RefusedFunction) -> Callable[..., Any]:
    """Return a stand-in for a refused function, which raises only if it is called."""

    def refuse(*_: object, **__: object) -> None:
        raise refused

    # As a builtin, the compiler calls it without reading it first.
    refuse.__triton_builtin__ = True  # type: ignore[attr-defined]
    # Reductions read the Python function of a kernel's function.
    refuse.fn = refuse  # type: ignore[attr-defined]
    return refuse
