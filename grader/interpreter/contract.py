"""State the assumptions of this package about Triton's interpreter, and check them.

Names are those of the module triton.runtime.interpreter. `differences` reads the interpreter as it was imported, before
any patch of this package; it changes nothing.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator, Mapping
from functools import reduce
from types import ModuleType

from grader.interpreter.versions import DIFFERENCES, VersionDifference

# Every access to memory ends in one of these methods, so watching them misses nothing.
DOORS: Mapping[str, str] = {
    "_interpreter.load": "InterpreterBuilder.create_masked_load",
    "_interpreter.store": "InterpreterBuilder.create_masked_store",
    "_interpreter.atomic_rmw": "InterpreterBuilder.create_atomic_rmw",
    "_interpreter.atomic_cas": "InterpreterBuilder.create_atomic_cas",
}

# Methods that are replaced, wrapped or called, with their parameters in order: callers pass some by name. As in 3.7;
# grader.interpreter.versions lists the later differences.
PARAMETERS: Mapping[str, str] = {
    "InterpreterBuilder.create_masked_load": "self, ptrs, mask, other, cache_modifier, eviction_policy, is_volatile",
    "InterpreterBuilder.create_masked_store": "self, ptrs, value, mask, cache_modifier, eviction_policy",
    "InterpreterBuilder.create_atomic_rmw": "self, rmwOp, ptr, val, mask, sem, scope",
    "InterpreterBuilder.create_atomic_cas": "self, ptr, cmp, val, sem, scope",
    "InterpreterBuilder.create_descriptor_load": "self, desc, indices, cache_modifier, eviction_policy",
    "InterpreterBuilder.create_tensor_pointer_load": (
        "self, ptr, boundary_check, padding_option, cache_modifier, eviction_policy, is_volatile"
    ),
    "InterpreterBuilder.create_dot": "self, a, b, d, input_precision, max_num_imprecise_acc",
    "InterpreterBuilder.create_fadd": "self, lhs, rhs",
    "InterpreterBuilder.create_fmul": "self, lhs, rhs",
    "InterpreterBuilder.create_fsub": "self, lhs, rhs",
    "InterpreterBuilder.create_descriptor_store": "self, desc, value, indices",
    "InterpreterBuilder.create_make_block_ptr": "self, base, shape, strides, offsets, block_shape, order",
    "InterpreterBuilder.create_advance": "self, ptr, offsets",
    "InterpreterBuilder.create_make_tensor_descriptor": (
        "self, base, shape, strides, tensor_shape, is_signed, padding"
    ),
    "InterpreterBuilder.create_get_program_id": "self, axis",
    "InterpreterBuilder.create_make_range": "self, ret_ty, start, stop",
    "InterpreterBuilder.create_splat": "self, ret_ty, arg",
    "InterpreterBuilder.create_unsplat": "self, arg",
    "InterpreterBuilder.create_reshape": "self, arg, shape, allow_reorder",
    "InterpreterBuilder.create_trans": "self, arg, perm",
    "InterpreterBuilder.create_expand_dims": "self, arg, axis",
    "InterpreterBuilder.create_broadcast": "self, arg, shape",
    "InterpreterBuilder.create_cat": "self, lhs, rhs",
    "InterpreterBuilder.create_join": "self, lhs, rhs",
    "InterpreterBuilder.create_gather": "self, src, indices, axis",
    "InterpreterBuilder.create_histogram": "self, data, bins, mask",
    "InterpreterBuilder.create_descriptor_gather": "self, desc, x_offsets, y_offset, type",
    "InterpreterBuilder.create_descriptor_scatter": "self, desc, value, x_offsets, y_offset",
    "InterpreterBuilder.create_fma": "self, x, y, z",
    "InterpreterBuilder.create_assume": "self, condition",
    "InterpreterBuilder.create_inline_asm": "self, inlineAsm, constraints, values, type, isPure, pack",
    "InterpreterBuilder.binary_op": "self, lhs, rhs, op",
    "InterpreterBuilder.unary_op": "self, arg, op",
    "InterpreterBuilder.create_ashr": "self, lhs, rhs",
    "InterpreterBuilder.create_barrier": "self",
    "InterpreterBuilder.create_bitcast": "self, src, dst_type",
    "InterpreterBuilder.create_ptr_to_int": "self, src, dst_type",
    "InterpreterBuilder.create_clampf": "self, arg, lo, hi, propagate_nans",
    "InterpreterBuilder.create_erf": "self, arg",
    "InterpreterBuilder.create_extern_elementwise": "self, libName, libPath, symbol, argList, retType, isPure",
    "InterpreterBuilder.create_fabs": "self, arg",
    "InterpreterBuilder.create_maxnumf": "self, lhs, rhs",
    "InterpreterBuilder.create_minnumf": "self, lhs, rhs",
    "InterpreterBuilder.create_rsqrt": "self, arg",
    "InterpreterBuilder.create_print": "self, prefix, hex, values, isSigned",
    "InterpreterBuilder.cast_impl": "self, src, dst_type",
    "InterpreterBuilder.create_fp_to_fp": "self, src, dst_type, rounding_mode",
    "InterpreterBuilder.create_sdiv": "self, lhs, rhs",
    "InterpreterBuilder.create_udiv": "self, lhs, rhs",
    "InterpreterBuilder.create_srem": "self, lhs, rhs",
    "InterpreterBuilder.create_urem": "self, lhs, rhs",
    "InterpreterBuilder.create_fp_to_si": "self, src, dst_type",
    "InterpreterBuilder.create_fp_to_ui": "self, src, dst_type",
    "InterpreterBuilder.set_grid_idx": "self, x, y, z",
    "InterpreterBuilder.set_grid_dim": "self, nx, ny, nz",
    "FunctionRewriter._find_def": "self, lines",
    "TensorHandle": "data, dtype, attr",
    "TensorHandle.__post_init__": "self",
    "TensorHandle.get_element_ty": "self",
    "TensorHandle.set_attr": "self, key, value",
    "BlockPointerHandle": "base, shape, strides, offsets, block_shape, order",
    "BlockPointerHandle.materialize_pointers": "self, boundary_check",
    "TensorDescHandle": "base, shape, strides, block_shape, padding",
    "TensorDescHandle.materialize_pointers": "self, offsets",
    "ReduceScanOpInterface": "axis, combine_fn",
    "ReduceScanOpInterface.apply": "self, input",
    "ReduceScanOpInterface.to_tensor": "self, ret, dtype",
    "ReduceOps": "axis, combine_fn, keep_dims",
    "ReduceOps.apply_impl": "self, input",
    "ScanOps.apply_impl": "self, input",
    "ReduceOps.generic_reduce": "self, input",
    "ReduceOps.min_max": "self, input, val_reduce_op, idx_reduce_op",
    "ReduceOps.sum": "self, input",
    "ScanOps": "axis, combine_fn, reverse",
    "ScanOps.generic_scan": "self, input",
    "ScanOps.cumsum": "self, input",
    "ScanOps.cumprod": "self, input",
    "GridExecutor": "fn, arg_names, grid, pre_run_hooks",
    "GridExecutor.__call__": "self, *args_dev, **kwargs",
    "GridExecutor._init_args_hst": "self, args_dev, kwargs",
    "InterpretedFunction": "fn, **kwargs",
    "InterpretedFunction.run": "self, *args, grid, warmup, **kwargs",
    "FunctionRewriter._compile_and_exec": "self, transformed_ast",
    "FunctionRewriter._transform_ast": "self, src",
    "_get_np_dtype": "tt_dtype",
    "_patch_attr": "obj, name, member, builder, scope",
    "_patch_lang": "fn",
    "_implicit_cvt": "arg",
    "_patch_lang_tensor": "tensor, scope",
    "_patch_lang_core": "lang, scope",
}

# Names that are only used.
NAMES = (
    *(
        "interpreter_semantic.builder",
        "interpreter_semantic.to_tensor",
        "interpreter_builder.options.sanitize_overflow",
        "interpreter_builder.codegen_fns",
        "_interpreter.load",
        "_interpreter.store",
    ),
    *(
        "_ir.ATOMIC_OP.FADD",
        "_ir.ATOMIC_OP.XCHG",
        "_ir.INPUT_PRECISION.TF32",
        "_ir.PADDING_OPTION.PAD_NAN",
        "_ir.ROUNDING_MODE.RTZ",
    ),
    *("_ir.MEM_SEMANTIC.RELAXED", "_ir.CACHE_MODIFIER.CV"),
    *(
        "tl.bfloat16",
        "tl.float32",
        "tl.int1",
        "tl.int32",
        "tl.int64",
        "tl.str_to_ty",
        "tl.tensor",
        "tl.core.tensor",
        "tl.range",
        "tl.static_range",
        "tl.PropagateNan.ALL",
    ),
    *("tl.block_type", "tl.dtype", "tl.pointer_type", "tl.core.tensor_descriptor_base"),
    *("tl.core.constexpr", "tl.core.tuple", "tl.extra.cuda"),
    *("tl.core.load_tensor_descriptor", "tl.core.make_tensor_descriptor", "tl.core.store_tensor_descriptor"),
)

# Attributes that a method must set: the running program and its grid.
LEFT_BEHIND: Mapping[str, str] = {
    "interpreter_builder.grid_idx": "InterpreterBuilder.set_grid_idx",
    "interpreter_builder.grid_dim": "InterpreterBuilder.set_grid_dim",
}

# Names that this package adds to Triton: if Triton has them one day, these additions may conflict.
ABSENT = (
    *("InterpreterBuilder.__getattr__", "InterpreterBuilder.get_bf16", "interpreter_semantic.numbered"),
    *("interpreter_semantic.entering", "interpreter_semantic.carried", "interpreter_semantic.settled"),
    *("interpreter_semantic.joined", "interpreter_semantic.negated", "interpreter_semantic.assumed"),
    *(
        "interpreter_semantic.end_branch",
        "interpreter_semantic.decided",
        "TensorHandle.origin",
        "TensorHandle.new_axis",
        "TensorHandle.factors",
    ),
)

_ENUMERATIONS = {"MEM_SEMANTIC", "RMW_OP"}


def require() -> None:
    """End this process with a reason unless the interpreter meets all assumptions. Raises SystemExit."""
    from importlib.metadata import version

    from triton.runtime import interpreter

    found = differences(interpreter)
    if found:
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        raise SystemExit(
            f"the interpreter of triton {version('triton')} is not one that this grader knows: {found[0]}{more}"
        )


def differences(interpreter: ModuleType) -> list[str]:
    """Return the broken assumptions, in words; an empty list if all hold."""
    known = _known(interpreter)
    wanted = _wanted(known)
    new = [name for name in (*ABSENT, *_gone(known)) if name not in wanted and _found(interpreter, name) is not None]
    return [
        *_wrong_parameters(interpreter, wanted),
        *(f"{name} is missing" for name in NAMES if _found(interpreter, name) is None),
        *(f"{name} has come: is ours still needed?" for name in new),
        *(f"{method} must set {name}" for name, method in LEFT_BEHIND.items() if not _sets(interpreter, method, name)),
        *_wrong_doors(interpreter, known),
    ]


def _known(interpreter: ModuleType) -> tuple[VersionDifference, ...]:
    """Return the differences from 3.7 that are known of this version."""
    version = tuple(int(part) for part in interpreter.triton.__version__.split(".")[:2])
    return tuple(one for one in DIFFERENCES if one.since <= version)


def _gone(known: tuple[VersionDifference, ...]) -> tuple[str, ...]:
    return tuple(name for one in known for name in one.gone)


def _wanted(known: tuple[VersionDifference, ...]) -> dict[str, str]:
    """Return the parameters that methods must have, given these differences."""
    changed = {name: parameters for one in known for name, parameters in one.parameters.items()}
    gone = _gone(known)
    kept = {
        name: parameters
        for name, parameters in PARAMETERS.items()
        if not any(name == one or name.startswith(f"{one}.") for one in gone)
    }
    return {**kept, **changed}


def _wrong_parameters(interpreter: ModuleType, parameters: Mapping[str, str]) -> Iterator[str]:
    for name, wanted in parameters.items():
        method = _found(interpreter, name)
        if method is None:
            yield f"{name} is missing"
        elif (got := _parameters(method)) != wanted:
            yield f"{name} must take ({wanted}), got ({got})"


def _parameters(method: object) -> str:
    marks = {"VAR_POSITIONAL": "*", "VAR_KEYWORD": "**"}
    parameters = inspect.signature(method).parameters.values()  # type: ignore[arg-type]
    return ", ".join(f"{marks.get(one.kind.name, '')}{one.name}" for one in parameters)


def _found(interpreter: ModuleType, name: str) -> object:
    """Return the value of a dotted name in the module, or None."""
    return reduce(lambda found, part: getattr(found, part, None), name.split("."), interpreter)  # type: ignore[arg-type,return-value]


def _sets(interpreter: ModuleType, method: str, name: str) -> bool:
    code = getattr(_found(interpreter, method), "__code__", None)
    return name.rpartition(".")[2] in getattr(code, "co_names", ())


def _wrong_doors(interpreter: ModuleType, known: tuple[VersionDifference, ...] = ()) -> Iterator[str]:
    """Yield accesses to memory that no hook watches, and hooked methods that make no access."""
    used = _accesses(ast.parse(inspect.getsource(interpreter)))
    computing = {name for one in known for name in one.computing}
    for access, methods in used.items():
        if access in computing:
            continue
        for method in sorted(methods - {DOORS.get(access, "")}):
            yield f"{method} calls {access}: nothing watches that"
    for access, door in DOORS.items():
        if door not in used.get(access, ()):
            yield f"{door} must call {access}"


def _accesses(tree: ast.Module) -> dict[str, set[str]]:
    """Return each function of the interpreter's compiled half with the functions and methods that name it."""
    named: dict[str, set[str]] = {}
    for outer in tree.body:
        for inner in outer.body if isinstance(outer, ast.ClassDef) else (outer,):
            owner = f"{outer.name}." if isinstance(outer, ast.ClassDef) else ""
            for node in ast.walk(inner):
                match node:
                    case ast.Attribute(value=ast.Name(id="_interpreter"), attr=attr) if attr not in _ENUMERATIONS:
                        method = f"{owner}{getattr(inner, 'name', 'the module')}"
                        named.setdefault(f"_interpreter.{attr}", set()).add(method)
    return named
