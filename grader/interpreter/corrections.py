"""Correct Triton's interpreter, so that a kernel that passes there deserves to pass on a GPU.

Patches the interpreter of this process, once; never touches the submission.
"""

from __future__ import annotations

import ast
import functools
import inspect
import sys
import textwrap
import threading
import types
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
from triton.compiler.errors import CompileTimeAssertionFailure

from grader.compile.disguise import pretend
from grader.compile.driver import stand_in
from grader.compile.static_conditions import mark_conditions
from grader.gpus import LENT_MULTIPROCESSORS, USUAL
from grader.interpreter import kind_of_kernels
from grader.interpreter.arithmetic.births import BIRTHS
from grader.interpreter.arithmetic.contraction import contract_products
from grader.interpreter.arithmetic.implicit_dots import multiply_sums_as_dots
from grader.interpreter.arithmetic.libdevice import provide_libdevice
from grader.interpreter.arithmetic.numerics import correct_numerics
from grader.interpreter.arithmetic.reductions import correct_reductions
from grader.interpreter.arithmetic.unspecified import reorder_and_gather
from grader.interpreter.basic_blocks import begin_launch, end_branch, has_data_decided
from grader.interpreter.beyond import refuse_what_needs_a_gpu
from grader.interpreter.gather import load_and_store_blocks, stretched
from grader.interpreter.language.assumptions import CheckAssumptions, assumed
from grader.interpreter.language.conditions import JoinConditions, joined, negated, settled
from grader.interpreter.language.constant_arguments import pass_ones_as_constants
from grader.interpreter.language.loops import WrapLoops, carried, entering, numbered, static_range
from grader.interpreter.language.padding import PADDING
from grader.interpreter.language.promises import forget_promises, hold_to_promises
from grader.interpreter.language.static_conditions import NoteConditions, decided
from grader.interpreter.language.workspaces import ask_before_descriptors
from grader.interpreter.once import replace_in_language
from grader.interpreter.places import is_ours
from grader.interpreter.programs import patience
from grader.interpreter.programs.dependence import wait_for_launches_before
from grader.interpreter.versions import level

_BITS_OF_A_BYTE = 8


@functools.cache
def apply_corrections() -> None:
    """Patch this process's interpreter, if nothing did so before. Call it before the submission is loaded."""
    # Switch off NumPy's warnings: a GPU gives none about a kernel's numbers.
    for module in (r"triton\.runtime\.interpreter", r"grader\.interpreter\.arithmetic\.(numerics|contraction)"):
        warnings.filterwarnings("ignore", category=RuntimeWarning, module=module)
    level()
    load_and_store_blocks()
    _raise_static_assertions()
    _refuse_numbers_of_warps()
    pass_ones_as_constants()
    _poison_masked_loads()
    hold_to_promises()
    _check_assumptions()
    _keep_closures()
    answer_launchers(LENT_MULTIPROCESSORS)
    _note_conditions()
    _make_counters_scalars()
    _join_conditions()
    _find_definitions()
    _let_names_be_imported()
    _let_methods_compute()
    _let_constants_stand_left()
    _let_kernels_launch_nothing()
    _print_without_traces()
    _take_descriptors_alone()
    ask_before_descriptors()
    _make_blocks_of_types()
    _let_kernels_wait_for_none()
    _let_kernels_be_named()
    _refuse_short_products()
    _let_conditions_decide()
    _let_tuples_hold_tensors()
    refuse_what_needs_a_gpu()
    patience.install()
    correct_numerics()
    contract_products()
    correct_reductions()
    multiply_sums_as_dots()
    reorder_and_gather()
    provide_libdevice()


class StaticAssertFailed(CompileTimeAssertionFailure):  # type: ignore[misc]
    """Raised by tl.static_assert, with its message."""

    def __init__(self, message: str) -> None:
        Exception.__init__(self, message)

    def __str__(self) -> str:
        return str(self.args[0])


def static_assert(cond: Any, msg: Any = "") -> None:
    """Stand in for tl.static_assert. Raises StaticAssertFailed, and TypeError where the compiler knows no answer.

    Behind a branch that data decides, the compiler meets it in every launch: its failure rejects no configuration.
    """
    from triton.language import tensor

    if isinstance(cond, tensor):
        raise TypeError("tl.static_assert is decided when the kernel is compiled: give it constexprs and shapes only")
    if not getattr(cond, "value", cond):
        if has_data_decided():
            raise TypeError(
                "Triton compiles a branch whatever its condition is, so this tl.static_assert fails in every launch: "
                "write it before the first branch on data"
            )
        raise StaticAssertFailed(str(getattr(msg, "value", msg)) or "a static assertion failed")


def _raise_static_assertions() -> None:
    """Let a failed tl.static_assert raise a compile error: an autotuner skips such a configuration."""
    replace_in_language({"static_assert": static_assert})


def _refuse_numbers_of_warps() -> None:
    """Refuse a num_warps that is no power of two, as Triton's compiler does; the interpreter has no warps."""
    kind = kind_of_kernels()
    run = kind.run

    def checked(kernel: Any, *args: Any, **options: Any) -> Any:
        given = options.get("num_warps", 1)
        warps = getattr(given, "value", given)
        if isinstance(warps, int) and (warps < 1 or warps & (warps - 1)):
            raise ValueError(f"num_warps must be a power of two, got {warps}")
        return run(kernel, *args, **options)

    kind.run = checked


def _poison_masked_loads() -> None:
    """Set all bits of masked lanes in loads without `other`, instead of zeros: on a GPU they are undefined."""
    from triton.runtime.interpreter import InterpreterBuilder, TensorHandle, _get_np_dtype

    load = InterpreterBuilder.create_masked_load

    def create_masked_load(self: Any, ptrs: Any, mask: Any, other: Any, *how: Any, **named: Any) -> Any:
        raw = mask if isinstance(mask, np.ndarray) else mask.data
        if other is None or not raw.all():
            kind, given = ptrs.get_element_ty(), None if other is None else other.data
            lit = stretched(raw, ptrs.data.shape)
            BIRTHS.note_mask(lit)
            lanes = PADDING.lanes(lit, np.dtype(_get_np_dtype(kind)), kind, given)
            other = other if lanes is given else TensorHandle(lanes, kind)
        return load(self, ptrs, mask, other, *how, **named)

    InterpreterBuilder.create_masked_load = create_masked_load


def _rewrite_kernels(rewrite: Callable[[Any, Any], Any]) -> None:
    """Change the tree of every kernel after Triton's own changes. rewrite: takes Triton's rewriter and the tree."""
    from triton.runtime.interpreter import FunctionRewriter

    transform = FunctionRewriter._transform_ast

    def rewritten(self: Any, source: Any) -> Any:
        return ast.fix_missing_locations(rewrite(self, transform(self, source)))

    FunctionRewriter._transform_ast = rewritten


def _check_assumptions() -> None:
    """Raise where the promise of a tl.assume is false. The interpreter's own check asks arrays for one truth value."""
    from triton.runtime.interpreter import InterpreterBuilder, interpreter_semantic

    def create_assume(_builder: Any, _condition: Any) -> None:
        """Do nothing, under any other name of tl.assume."""

    _rewrite_kernels(lambda _, tree: CheckAssumptions().visit(tree))
    interpreter_semantic.assumed = assumed
    InterpreterBuilder.create_assume = create_assume


def answer_launchers(multiprocessors: int) -> None:
    """Answer launch code that asks for a GPU's size, its stream, or Triton's driver. Call it before code has asked.

    The answers are those of the first row of grader.gpus, but for the multiprocessors.
    """
    from triton.runtime.driver import driver

    lent = replace(USUAL, gpus=(replace(USUAL.gpu, multiprocessors=multiprocessors),))
    pretend(lent)
    driver.set_active(stand_in(lent))


def _keep_closures() -> None:
    """Let a kernel defined inside a function see that function's names, as a compiled kernel does."""
    from triton.runtime.interpreter import FunctionRewriter

    compile_and_exec = FunctionRewriter._compile_and_exec

    def with_closure(self: Any, transformed: Any) -> Any:
        rewritten = compile_and_exec(self, transformed)
        outer = closure_of(self.fn)
        if not outer:
            return rewritten
        seen = {**self.fn.__globals__, **outer}
        bound = types.FunctionType(rewritten.__code__, seen, rewritten.__name__, rewritten.__defaults__)
        bound.__annotations__ = rewritten.__annotations__
        return bound

    FunctionRewriter._compile_and_exec = with_closure


def closure_of(function: types.FunctionType) -> dict[str, Any]:
    """Return the values of an enclosing function's names, as far as they have values by now."""
    values = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with suppress(ValueError):
            values[name] = cell.cell_contents
    return values


def _note_conditions() -> None:
    """Note the conditions of the submission's kernels that no tensor decides."""
    from triton.runtime.interpreter import interpreter_semantic

    def with_notes(rewriter: Any, tree: Any) -> Any:
        if is_ours(rewriter.filename):
            return tree
        mark_conditions(tree)
        return NoteConditions().visit(tree)

    _rewrite_kernels(with_notes)
    interpreter_semantic.decided = decided


def _make_counters_scalars() -> None:
    """Make the counters of range and tl.range scalars, as a compiler does; those of tl.static_range are constants."""
    from triton.runtime.interpreter import interpreter_semantic

    replace_in_language({"static_range": static_range})
    _rewrite_kernels(lambda _, tree: WrapLoops().visit(tree))
    interpreter_semantic.numbered = numbered
    interpreter_semantic.entering, interpreter_semantic.carried = entering, carried
    interpreter_semantic.end_branch = end_branch


def _join_conditions() -> None:
    """Let `and`, `or` and `not` do what compiled code does."""
    from triton.runtime.interpreter import interpreter_semantic

    _rewrite_kernels(lambda _, tree: JoinConditions().visit(tree))
    for function in (joined, negated, settled):
        setattr(interpreter_semantic, function.__name__, function)


def _find_definitions() -> None:
    """Find a kernel's first `def` line: Triton takes the last line that begins with "def", even in a docstring."""
    from triton.runtime.interpreter import FunctionRewriter

    last_def = FunctionRewriter._find_def

    def first_def(self: Any, lines: list[str]) -> int:
        with suppress(SyntaxError, IndexError):
            return ast.parse(textwrap.dedent("".join(lines))).body[0].lineno
        return int(last_def(self, lines))

    FunctionRewriter._find_def = first_def


def _let_names_be_imported() -> None:
    """Let names from `from triton.language import load` work as tl.load, as in a compiled kernel.

    The interpreter patches Triton's modules only, and misses names that were bound before.
    """
    from triton.language.core import is_builtin
    from triton.runtime.interpreter import tl

    of_the_language = {
        id(value): name for name, value in vars(tl).items() if is_builtin(value) or value in (tl.range, tl.static_range)
    }

    def qualified(rewriter: Any, tree: Any) -> Any:
        seen = {**rewriter.fn.__globals__, **closure_of(rewriter.fn)}
        local = rewriter.fn.__code__.co_varnames
        names = {
            name: of_the_language[id(value)]
            for name, value in seen.items()
            if id(value) in of_the_language and name not in local
        }
        language = next((name for name, value in seen.items() if value is tl), "tl")
        return _Qualify(language, names).visit(tree)

    _rewrite_kernels(qualified)


class _Qualify(ast.NodeTransformer):
    """Rewrites `load` to `tl.load`. names: the language's name by the kernel's name."""

    def __init__(self, module: str, names: dict[str, str]) -> None:
        self._module, self._names = module, names

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if not isinstance(node.ctx, ast.Load) or node.id not in self._names:
            return node
        module = ast.copy_location(ast.Name(self._module, ast.Load()), node)
        return ast.copy_location(ast.Attribute(module, self._names[node.id], ast.Load()), node)


def _let_methods_compute() -> None:
    """Let `x.exp()` be tl.exp(x), as in a compiled kernel; the interpreter knows only some of a tensor's methods."""
    from triton.language.core import is_builtin
    from triton.runtime import interpreter
    from triton.runtime.interpreter import interpreter_semantic, tl

    patch_tensor = interpreter._patch_lang_tensor

    def told(method: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *operands, **more: method(*operands, **more, _semantic=interpreter_semantic)

    methods = {
        name: told(method)
        for name, method in inspect.getmembers(tl.tensor, inspect.isfunction)
        if not is_builtin(method) and "_semantic" in inspect.signature(method).parameters
    }

    def patch_lang_tensor(tensor: Any, scope: Any) -> None:
        patch_tensor(tensor, scope)
        for name, method in methods.items():
            scope.set_attr(tensor, name, method)

    interpreter._patch_lang_tensor = patch_lang_tensor


def _let_constants_stand_left() -> None:
    """Leave `constant op tensor` to the tensor: tl.store and tl.where take no constant that holds a tensor."""
    import triton.language as tl

    operators = ("add", "sub", "mul", "mod", "truediv", "floordiv", "and", "or", "xor", "lshift", "rshift")
    for name in (*operators, "eq", "ne", "lt", "le", "gt", "ge"):
        special = f"__{name}__"
        setattr(tl.core.constexpr, special, _of_constants(getattr(tl.core.constexpr, special)))


def _of_constants(operate: Callable[..., Any]) -> Callable[..., Any]:
    from triton.language import tensor

    @functools.wraps(operate)
    def operate_alone(constant: Any, other: Any) -> Any:
        return NotImplemented if isinstance(other, tensor) else operate(constant, other)

    return operate_alone


def _let_tuples_hold_tensors() -> None:
    """Make tensors of the numbers in a tuple that is assigned, as the compiler does: there -7 // 2 is -3."""
    from triton.runtime.interpreter import interpreter_semantic

    to_tensor = interpreter_semantic.to_tensor

    def with_elements(value: Any, check_type: bool = True) -> Any:
        if not isinstance(value, tuple | list) or check_type:
            return to_tensor(value, check_type)
        elements = [with_elements(one, check_type=False) for one in value]
        return type(value)(*elements) if hasattr(value, "_fields") else type(value)(elements)

    interpreter_semantic.to_tensor = with_elements


def _let_kernels_launch_nothing() -> None:
    """Refuse a launch within a running kernel: it does not compile, and would overwrite number and guard."""
    from triton.runtime.interpreter import GridExecutor, InterpreterBuilder

    launch, set_grid_dim = GridExecutor.__call__, InterpreterBuilder.set_grid_dim
    # For each open launch of a thread, innermost last: True once its programs run. Hooks before that may launch
    # other kernels.
    here = threading.local()

    def alone(executor: Any, *args: Any, **options: Any) -> Any:
        running: list[bool] = here.__dict__.setdefault("running", [])
        if any(running):
            raise TypeError("a kernel launches no kernel: call it without [grid]")
        running.append(False)
        begin_launch()
        forget_promises()
        try:
            return launch(executor, *args, **options)
        finally:
            running.pop()

    def noted(builder: Any, nx: Any, ny: Any, nz: Any) -> None:
        set_grid_dim(builder, nx, ny, nz)
        running = here.__dict__.get("running")
        if running:
            running[-1] = True

    GridExecutor.__call__ = alone
    InterpreterBuilder.set_grid_dim = noted


def _print_without_traces() -> None:
    """Send a kernel's prints to Python's sys.stdout, and leave NumPy's print options as they were."""
    from triton.runtime.interpreter import InterpreterBuilder

    create_print = InterpreterBuilder.create_print

    def static_print(*values: Any, sep: str = " ", end: str = "\n", file: None = None, flush: bool = False) -> None:
        if file is not None:
            raise TypeError("a kernel prints to no file")
        sys.stdout.write(sep.join(map(str, values)) + end)
        if flush:
            sys.stdout.flush()

    def printed(builder: Any, *how: Any) -> None:
        with np.printoptions():
            create_print(builder, *how)

    replace_in_language({"static_print": static_print})
    InterpreterBuilder.create_print = printed


def _take_descriptors_alone() -> None:
    """Accept only descriptors in tl.load_tensor_descriptor and its store, which call a method of their argument."""
    from triton.runtime.interpreter import interpreter_semantic, tl

    def checked(name: str) -> Callable[..., Any]:
        access = getattr(tl.core, name)

        def accessed(desc: Any, *rest: Any, **more: Any) -> Any:
            if not isinstance(desc, tl.core.tensor_descriptor_base):
                raise TypeError(f"tl.{name} takes a tensor descriptor, not a {type(desc).__name__}")
            return access(desc, *rest, **{**more, "_semantic": interpreter_semantic})

        return accessed

    replace_in_language({name: checked(name) for name in ("load_tensor_descriptor", "store_tensor_descriptor")})


def _make_blocks_of_types() -> None:
    """Refuse a block of anything but Triton's types: the class takes any object, and asks it for its width."""
    from triton.runtime.interpreter import tl

    make = tl.block_type.__init__

    def made(self: Any, element_ty: Any, shape: Any) -> None:
        if not isinstance(element_ty, tl.dtype):
            raise TypeError(f"a block is made of a type of triton's, not of a {type(element_ty).__name__}")
        make(self, element_ty, shape)

    tl.block_type.__init__ = made


def _let_kernels_wait_for_none() -> None:
    """Let programmatic dependent launch wait for nothing: the kernel before has ended, and the next has not begun."""
    from triton.language.extra import cuda
    from triton.runtime.interpreter import tl

    def gdc_wait(_semantic: Any = None) -> None:
        """Tell that the program waits."""
        wait_for_launches_before()

    def gdc_launch_dependents(_semantic: Any = None) -> None:
        """Do nothing."""

    for function in (gdc_wait, gdc_launch_dependents):
        function.__triton_builtin__ = True  # type: ignore[attr-defined]
        # Triton loads its extra.cuda twice.
        for module in (cuda, tl.extra.cuda):
            setattr(module, function.__name__, function)


def _let_kernels_be_named() -> None:
    """Let a file set the name of a kernel, as that of a compiled one. The kernel still shows its function's name."""

    def set_attribute(kernel: Any, name: str, value: object) -> None:
        if name == "__name__":
            vars(kernel)[name] = value
        else:
            object.__setattr__(kernel, name, value)

    kind_of_kernels().__setattr__ = set_attribute


def _refuse_short_products() -> None:
    """Let tl.dot refuse a K below what the compiler for NVIDIA's GPUs takes; the interpreter takes 1."""
    from triton.runtime.interpreter import interpreter_builder

    def least(left: Any, _right: Any) -> tuple[int, int, int]:
        return 1, 1, 32 if left.scalar.primitive_bitwidth == _BITS_OF_A_BYTE else 16

    interpreter_builder.codegen_fns["min_dot_size"] = least


def _let_conditions_decide() -> None:
    """Give `tl.condition` the truth value of its content: in a `while`, Python took every wrapper for true."""
    from triton.language import core

    core.condition.__bool__ = lambda wrapper: bool(wrapper.condition)
