"""Build kernels from a submission's text, and helpers from packages', without executing a line of either.

A kernel is the function at a line of the text. Its tree, without decorators, annotations and defaults, is checked
against the allow-list of grader.replay.checking. That same tree then runs: Triton gets it instead of the text, which
it would parse again. A trace's description of a kernel is a claim. Only functions of the text ever run, and their names
lead to plain data, to Triton's language or to other functions of the text.

A function of an installed package is read from the package's file and checked against the same list. It may only
compute: functions that are launched, load, store or multiply matrices must be in the submission's text.
"""

from __future__ import annotations

import ast
import types
from collections.abc import Iterator, Sequence
from typing import Any

import triton
from triton.experimental import gluon
from triton.runtime.jit import constexpr_function

from grader.interpreter.language.trees import copied
from grader.protocol.trace import KernelText, kernels_in
from grader.replay.checking import check
from grader.replay.language import Offered, offers
from grader.replay.launching import guarded
from grader.replay.making import CheckedRewriter, FunctionMaker, namespace_for, refusing, with_tree
from grader.replay.names import Names, merge_dotted
from grader.replay.rewriting import rewrite_conditions, rewrite_fields
from grader.replay.signature import take_annotations, take_defaults
from grader.replay.text import Function, Text, lines_of, text_of_package
from grader.replay.things import Data, KernelReference, Thing
from grader.replay.values import Elsewhere, RefusedFunction, plain_value

_OPTIONS = ("debug", "do_not_specialize", "do_not_specialize_on_alignment", "noinline")
# Functions that access memory or multiply matrices; all atomics count too.
_WORK = frozenset(
    {
        *("dot", "dot_scaled", "load", "make_block_ptr", "make_tensor_descriptor", "scatter", "store"),
        *("async_copy_global_to_shared", "async_copy_shared_to_global", "mma_v2", "warpgroup_mma"),
    }
)


class Kernels:
    """The kernels that a trace names, built from the text.

    kernel_texts: the trace's descriptions. unedited: the kernels of the text before an edit; functions with equal lines
    are taken from there.
    """

    def __init__(self, text: Text, kernel_texts: Sequence[KernelText], unedited: Kernels | None = None) -> None:
        self._text, self._kernel_texts = text, tuple(kernel_texts)
        self._unedited = unedited if unedited is not None and unedited._text.imports == text.imports else None
        # The functions that each built one calls.
        self._calls: dict[int, frozenset[int]] = {}
        self._packages: dict[str, Text] = {}
        self._interpreted = bool(triton.knobs.runtime.interpret)
        self._built: dict[int, Any] = {}
        # Functions whose definition is being read.
        self._begun: set[int] = set()
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
            self._calls.pop(one, None)
        raise self._failed[index]

    def lines(self, index: int) -> list[str]:
        """Return the lines of a function of the submission's own text."""
        one = self._kernel_texts[index]
        return [] if one.home else self._text.lines_at((one.name, one.line))

    def _kernel(self, index: int) -> Any:
        if index not in self._built and self._unedited is not None and self._unedited._is_same(index, self._text):
            return self._unedited._built[index]
        if index not in self._built:
            kernel_text = self._kernel_texts[index]
            if index in self._begun:
                rule = f"a default or an option of {kernel_text.name} holds {kernel_text.name} itself: pass it instead"
                raise RefusedFunction(0 if kernel_text.home else kernel_text.line, rule, python=False)
            self._begun.add(index)
            try:
                if kernel_text.home:
                    self._build_helper(index, kernel_text)
                else:
                    self._build(index, kernel_text, self._text)
            finally:
                self._begun.discard(index)
        return self._built[index]

    def _is_same(self, index: int, other: Text) -> bool:
        """Return whether a built function, and all that it calls, has the same lines in another text."""
        met, waiting = set[int](), {index}
        while waiting:
            one = waiting.pop()
            kernel_text = self._kernel_texts[one]
            key = kernel_text.name, kernel_text.line
            if one not in self._calls or not (kernel_text.home or self._text.lines_at(key) == other.lines_at(key)):
                return False
            met.add(one)
            waiting |= self._calls[one] - met
        return True

    def _build_helper(self, index: int, kernel_text: KernelText) -> None:
        """Build a function of a package. Its refusals name the package, since its lines are not the submission's."""
        text = self._packages.get(kernel_text.home) or text_of_package(kernel_text)
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
        names = Names(kernel_text, text.imports, text.tree, self._kernel)
        tree = merge_dotted(kernel_text, function)
        annotations = take_annotations(tree, names)
        defaults = take_defaults(tree, names)
        found = check(tree, "constexpr" if kernel_text.kind == "constexpr" else "jit", names.thing)
        plain = copied(tree)
        if self._interpreted or kernel_text.kind == "constexpr":
            # Code that runs as Python reads fields by a call; a compiler must see them unchanged.
            tree = rewrite_fields(tree, found)
        if self._interpreted:
            tree = rewrite_conditions(tree, found)
        namespace = namespace_for(found, interpreted=self._interpreted)
        make = FunctionMaker(tree, text.path, namespace, defaults, annotations, place)
        fn = make.function(ast.Module([copied(tree)], []))
        kernel = self._make_kernel(kernel_text, fn, make, lines_of(plain, text), plain)
        self._built[index] = kernel
        self._calls[index] = frozenset(each for one in found.used.values() for each in _functions_in(one))
        for name, thing in found.used.items():
            namespace[name] = self._object_of(thing)

    def _object_of(self, thing: Thing) -> Any:
        match thing:
            case KernelReference(index):
                return self._callable(index)
            case Data(told=told):
                return plain_value(told, self._callable)
            case Offered(value=value):
                return value
        raise AssertionError(thing)

    def _callable(self, index: int) -> Any:
        """Return a function, or a stand-in for a refused one."""
        try:
            return self._kernel(index)
        except RefusedFunction as refused:
            return refusing(refused)

    def _make_kernel(
        self, kernel_text: KernelText, fn: types.FunctionType, make: FunctionMaker, text: list[str], plain: Function
    ) -> Any:
        if kernel_text.kind == "constexpr":
            return with_tree(lambda: constexpr_function(fn), plain, make.defaults, text)
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
            return guarded(with_tree(lambda: decorator(fn, **options), plain, make.defaults, text))
        kernel = triton.jit(fn, **options)
        kernel.rewriter = CheckedRewriter(fn, make)
        return guarded(kernel)


def _functions_in(thing: Thing) -> Iterator[int]:
    match thing:
        case KernelReference(index):
            yield index
        case Data(told=told):
            yield from kernels_in(told)


def _works_on_memory(function: Function) -> str:
    """Return the name of a call that is a kernel's own work, such as load or dot; an empty text without one."""
    used = (
        one.attr if isinstance(one, ast.Attribute) else one.id
        for one in ast.walk(function)
        if isinstance(one, ast.Attribute | ast.Name)
    )
    return next((name for name in used if name in _WORK or name.startswith("atomic_")), "")


def _is_list_of_names(value: object) -> bool:
    return isinstance(value, tuple) and all(isinstance(one, int | str) for one in value)
