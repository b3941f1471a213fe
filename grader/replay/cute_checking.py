"""Check CuTe programs against an allow-list: their text comes from an untrusted process.

A program is MLIR as tracing wrote it: one function for the host, which may launch, and the kernels that it launches.
Everything outside the list is refused. The host's side matters most, because it runs in the replayer:

- it calls nothing, names no symbol but its own kernels, holds no assembly, and makes no pointer out of a number;
- a function that launches kernels reads and writes no memory: it only computes layouts and launches;
- a function that launches none reads and writes the memory of its arguments. Nothing checks its indices.

Kernels run on a GPU, where they may write wherever their context allows, as kernels in Triton may.
After the DSL has lowered a program, the calls of the host's code are checked once more (`check_lowered`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any, NamedTuple

from grader.replay.values import RefusedFunction

MOST_OPERATIONS = 200_000
_MOST_KERNELS = 16
_MOST_DEPTH = 64
_ENTRY = re.compile(r"cutlass_\w{1,2000}")
_KERNEL = re.compile(r"kernel_\w{1,2000}")
# Data beside the operations, which MLIR's parser reads but does not show.
_HIDDEN = ("{-#", "dense_resource", " loc(")
# The DSL nests brackets no deeper than this; the parser of MLIR is recursive.
_MOST_NESTED = 256

_LAYOUTS = frozenset(
    {
        *("add_offset", "append_to_rank", "apply_swizzle", "assume", "blocked_product", "ceil_div", "coalesce"),
        *("complement", "composed_get_inner", "composed_get_offset", "composed_get_outer", "composition", "cosize"),
        *("crd2idx", "deref_arith_tuple_iter", "dice", "elem_less", "equal", "fast_divmod.compute"),
        *("fast_divmod.create_divisor", "fast_divmod.divide", "fast_divmod.get_aux", "fast_divmod.get_divisor"),
        *("fast_divmod.make_divisor", "filter", "filter_zeros", "flat_divide", "flat_product", "get"),
        *("get_flat_coord", "get_hier_coord", "get_integral_coord", "get_iter", "get_layout", "get_layouts_from_tile"),
        *("get_leaves", "get_scalars", "get_shape", "get_stride", "group_modes", "idx2crd", "increment_coord"),
        *("kernel_smem_size", "left_inverse", "local_partition", "local_tile", "logical_divide", "logical_product"),
        *("make_arith_tuple_iter", "make_atom", "make_composed_layout", "make_coord", "make_identity_layout"),
        *("make_identity_tensor", "make_int_tuple", "make_layout", "make_layout_like", "make_ordered_layout"),
        *("make_shape", "make_stride", "make_tile", "make_tiled_copy", "make_tiled_copy_v2", "make_tiled_mma"),
        *("make_tuple", "make_view", "prepend_to_rank", "raked_product", "recast_iter", "recast_layout", "reduce"),
        *("right_inverse", "select", "shape_div", "size", "slice", "smem_partition_size", "static", "stencil_divide"),
        *("tile_to_shape", "tiled.copy.partition_D", "tiled.copy.partition_S", "tiled.copy.retile", "tiled_divide"),
        *("tiled.mma.partition", "tiled.mma.partition_shape", "tiled_product", "to_int_tuple", "tuple.product"),
        *("tuple.product_each", "tuple_add", "tuple_div", "tuple_mod", "tuple_mul", "tuple_sub", "unpack_tuple"),
        *("zipped_divide", "zipped_product"),
    }
)
_MEMORY = frozenset(
    {
        *("copy", "copy.make_fragment", "copy_atom_call", "make_fragment_like", "memref.alloca"),
        *("memref.load", "memref.load_vec", "memref.store", "memref.store_vec", "mma.make_fragment", "mma_atom_call"),
        *("print_view", "ptr.load", "ptr.store"),
    }
)
_VECTORS = frozenset(
    {
        *("bitcast", "broadcast", "extract", "extract_strided_slice", "fma", "from_elements", "insert"),
        *("insert_strided_slice", "interleave", "deinterleave", "multi_reduction", "reduction", "shape_cast"),
        *("shuffle", "step", "to_elements", "transpose", "constant_mask", "create_mask"),
    }
)
_CONTROL = frozenset({"scf.condition", "scf.for", "scf.if", "scf.index_switch", "scf.while", "scf.yield"})
_LAUNCHING = frozenset(
    {
        *("cuda.cast", "cuda.launch_cfg.cluster_dim", "cuda.launch_cfg.cluster_scheduling_policy"),
        *("cuda.launch_cfg.cooperative", "cuda.launch_cfg.create", "cuda.launch_cfg.preferred_cluster_dim"),
        *("cuda.launch_cfg.programmatic_stream_serialization_allowed", "cuda.launch_cfg.shared_mem_carveout"),
        *("cuda.launch_ex", "cuda.return_if_error"),
        *("cute_nvgpu.atom.get_coord_tensor", "cute_nvgpu.atom.get_value", "cute_nvgpu.atom.set_value"),
        *("cute_nvgpu.atom.make_non_exec_tiled_tma_load", "cute_nvgpu.atom.make_non_exec_tiled_tma_reduce"),
        *("cute_nvgpu.atom.make_non_exec_tiled_tma_store", "cute_nvgpu.atom.make_tma_residue_tensor"),
    }
)
# Dialects whose operations only compute.
_PURE = frozenset({"arith", "math"})
# Operations that multiply fractions, or make whole numbers of them, without an operation of CuTe.
MULTIPLYING = frozenset(
    {
        *("arith.mulf", "arith.divf", "arith.remf", "arith.bitcast", "arith.fptosi", "arith.fptoui"),
        *("math.fma", "math.exp", "math.exp2", "math.log", "math.log2", "math.powf", "math.fpowi", "vector.bitcast"),
        *("vector.fma", "vector.multi_reduction", "vector.reduction"),
    }
)
# One operation of a text in the generic form; a value in it.
_OPERATION = re.compile(r'\s*(?:(%[^=]*) = )?"([\w.]+)"(.*)')
_VALUE = re.compile(r"%\w+")
# What the DSL makes names of: the arguments too.
_NAMED_FUNCTION = re.compile(r"@[\w.$]+")
_FUNCTIONS = frozenset({"func.func", "cuda.kernel"})
# Dialects whose operations do nothing where their results are not used.
_IDLE = _PURE | {"cute"}
_ANYWHERE = frozenset({f"cute.{name}" for name in _LAYOUTS} | {f"vector.{name}" for name in _VECTORS} | _CONTROL)
_ON_HOST = _ANYWHERE | {"cute.print", "func.return"}
_LAUNCHES = _ON_HOST | _LAUNCHING
_COMPUTES = _ON_HOST | {"cute.gemm"} | {f"cute.{name}" for name in _MEMORY}

# Dialects that kernels may use, except for these operations: they would reach beyond a kernel.
_KERNEL_DIALECTS = frozenset({"arith", "math", "cute", "cute_nvgpu", "nvvm", "vector", "cf"})
_NOT_IN_KERNELS = frozenset({"vector.print", "cute.kernel_smem_size"})
_IN_KERNELS = _CONTROL | {
    *("cuda.return", "builtin.unrealized_conversion_cast", "ub.poison", "gpu.barrier", "gpu.shuffle"),
    *("llvm.addrspacecast", "llvm.alloca", "llvm.and", "llvm.ashr", "llvm.atomicrmw", "llvm.bitcast"),
    *("llvm.call_intrinsic", "llvm.cmpxchg", "llvm.extractelement", "llvm.extractvalue", "llvm.fadd", "llvm.fcmp"),
    *("llvm.fdiv", "llvm.fence", "llvm.fmul", "llvm.fneg", "llvm.fpext", "llvm.fptosi", "llvm.fptoui"),
    *("llvm.fptrunc", "llvm.freeze", "llvm.fsub", "llvm.getelementptr", "llvm.icmp", "llvm.inline_asm"),
    *("llvm.insertelement", "llvm.insertvalue", "llvm.inttoptr", "llvm.load", "llvm.lshr", "llvm.mlir.constant"),
    *("llvm.mlir.poison", "llvm.mlir.undef", "llvm.mlir.zero", "llvm.add", "llvm.sub", "llvm.mul", "llvm.sdiv"),
    *("llvm.udiv", "llvm.srem", "llvm.urem", "llvm.or", "llvm.xor", "llvm.shl", "llvm.ptrtoint", "llvm.select"),
    *("llvm.sext", "llvm.shufflevector", "llvm.sitofp", "llvm.store", "llvm.trunc", "llvm.uitofp", "llvm.zext"),
}

_OF_MODULES = frozenset({"gpu.container_module"})
_OF_ENTRIES = frozenset({"sym_name", "function_type", "llvm.emit_c_interface"})
_OF_KERNELS = frozenset(
    {
        *("sym_name", "function_type", "arg_attrs", "cu_attrs", "cute.kernel", "cutlass_launch_facts", "gpu.kernel"),
        *("nvvm.reqntid", "nvvm.maxntid", "nvvm.minctasm", "nvvm.cluster_dim", "nvvm.cluster_max_blocks"),
        *("smem.config_smem_size", "smem.hint_smem_base_uniform", "smem.max_smem_per_mp"),
        *("smem.merge_branch_allocs", "smem.partition_num"),
    }
)
# Allowed attributes of other dialects: their names have a dot.
_OF_OTHERS = frozenset({"cutlass.pipelining", "cutlass.vectorize", "smem.partition_id", "smem.struct_fields"})
# What the DSL notes of a `cute.struct` in shared memory: the name, the bytes and the offset of each field.
_FIELD = r'"[A-Za-z_]\w{0,99}:\d{1,9}:\d{1,9}"'
_FIELDS = re.compile(rf"\[{_FIELD}(?:, {_FIELD}){{0,99}}\]", re.ASCII)
# The attributes that may hold a text or a symbol.
_TEXTS = frozenset(
    {
        *(("cute.print", "fmt"), ("llvm.inline_asm", "asm_string"), ("llvm.inline_asm", "constraints")),
        *(("llvm.call_intrinsic", "intrin"), ("nvvm.inline_ptx", "ptxCode"), ("cf.assert", "msg")),
    }
)
_SYMBOLS = frozenset({("cuda.launch_ex", "callee"), ("cute.kernel_smem_size", "kernel_name")})
_SYMBOL = re.compile(r'@[A-Za-z_"$.]')
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"')
# Types of dialects, and MLIR's own types of memory.
_TYPE = re.compile(r"!\w[\w.]*|\b(?:memref|tensor|tuple)(?=<)")
_HOST_TYPE = re.compile(r"!cute\.\w+|!cute_nvgpu\.[\w.]+|!cuda\.(?:stream|result|launch_cfg)")
_CAST = re.compile(r"%\w+ = cuda\.cast %\w+ : !cuda\.result -> i32")

# The functions that lowered host code may call: the DSL's own runtime, and mathematical functions of the C library.
_RUNTIME = frozenset(
    {
        *("_cudaOccupancyMaxActiveBlocksPerMultiprocessor", "_cudaLaunchKernelEx", "_cudaLaunchKernel"),
        *("_cudaLibraryLoadData", "_cuKernelGetAttribute", "_cudaDeviceGetAttribute", "_cudaGetDevice"),
        *("_cudaKernelSetAttributeForDevice", "_cudaFuncSetAttribute", "_cudaLibraryGetKernel"),
        *("printf", "acosf", "acos", "asinf", "asin", "atanf", "atan", "atan2f", "atan2", "tanf", "tan", "tanhf"),
        *("tanh", "sinhf", "sinh", "coshf", "cosh", "erff", "erf", "cbrtf", "cbrt", "expm1f", "expm1", "log1pf"),
        *("log1p", "fmodf", "fmod", "acoshf", "acosh", "asinhf", "asinh", "atanhf", "atanh"),
    }
)


def check_text(text: str) -> None:
    """Raise RefusedFunction for a text that must not reach MLIR's parser."""
    for one in _HIDDEN:
        if one in text:
            raise refusal(f"a program must hold no {one}")
    depth = deepest = 0
    for bracket in re.findall(r"[(\[{<>}\])]", text.replace("->", "")):
        depth += 1 if bracket in "([{<" else -1
        deepest = max(deepest, depth)
    if deepest > _MOST_NESTED:
        raise refusal(f"a program must nest at most {_MOST_NESTED} brackets, got {deepest}")


class Needed(NamedTuple):
    """The operations of a program that matter: the count of each, and a digest of all that they are."""

    counts: Mapping[str, int]
    digest: str


def check(module: Any) -> tuple[Any, Needed]:
    """Return the one function of a parsed program, and its operations that matter. Raises RefusedFunction."""
    _check_attributes(module.operation, _OF_MODULES)
    entries: list[Any] = []
    kernels: list[Any] = []
    for one in module.body.operations:
        name = one.operation.name
        if name == "func.func":
            entries.append(one)
        elif name == "gpu.module" and not kernels:
            kernels = _kernels(one)
        else:
            raise refusal(f"a program must hold functions and kernels, got {name}")
    if len(entries) != 1:
        raise refusal(f"a program must hold one function, got {len(entries)}")
    names = {f"@kernels::@{one.sym_name.value}" for one in kernels}
    counted: Counter[str] = Counter()
    for kernel in kernels:
        counted.update(_body(kernel, frozenset(), names=set(), in_kernel=True))
    counted.update(_entry(entries[0], names))
    if counted.total() > MOST_OPERATIONS:
        raise refusal(f"a program must hold at most {MOST_OPERATIONS} operations, got {counted.total()}")
    return entries[0], _needed([*kernels, entries[0]])


def _needed(functions: Sequence[Any]) -> Needed:
    """Return the operations that have an effect, and those whose results they use: the others compute for nothing.

    They are found by text: the DSL's Python objects for results must not outlive a module. The digest holds no names,
    which other operations and the arguments change.
    """
    counted: Counter[str] = Counter()
    digest = sha256()
    for function in functions:
        used: set[str] = set()
        lines = function.operation.get_asm(print_generic_op_form=True).splitlines()
        # Uses come after results.
        for found in filter(None, map(_OPERATION.match, reversed(lines))):
            results, name, rest = found.groups()
            idle = results and name.partition(".")[0] in _IDLE and not rest.endswith("({")
            if not idle or used.intersection(_VALUE.findall(results)):
                counted[name] += 1
                used.update(_VALUE.findall(rest))
                if name not in _FUNCTIONS:
                    digest.update(_NAMED_FUNCTION.sub("@", _VALUE.sub("%", f"{name}{rest}\n")).encode())
    return Needed(counted, digest.hexdigest())


def check_lowered(module: Any) -> None:
    """Raise RefusedFunction if a lowered program's host code calls anything but the DSL's runtime."""
    own = {one.sym_name.value for one in module.body.operations if one.operation.name == "llvm.func" and _has_body(one)}
    for one in module.body.operations:
        name = one.operation.name
        if name == "llvm.func" and not _has_body(one) and one.sym_name.value not in _RUNTIME:
            raise refusal(f"the host's code must call nothing but the DSL's runtime, got {one.sym_name.value}")
        if name not in ("llvm.func", "llvm.mlir.global", "gpu.binary", "cuda.binary"):
            raise refusal(f"a lowered program must hold functions and data, got {name}")
        for inner, _ in _operations(one.operation) if name == "llvm.func" else ():
            _check_lowered(inner, own | _RUNTIME)


def _check_lowered(operation: Any, known: set[str] | frozenset[str]) -> None:
    if operation.name == "llvm.call":
        callee = str(operation.attributes["callee"]) if "callee" in operation.attributes else "an address"
        if callee.removeprefix("@") not in known:
            raise refusal(f"the host's code must call nothing but the DSL's runtime, got {callee[:80]}")
    elif operation.name in ("llvm.inline_asm", "llvm.invoke", "llvm.call_intrinsic"):
        raise refusal(f"the host's code must hold no {operation.name}")


def _kernels(module: Any) -> list[Any]:
    """Return the kernels of a GPU module."""
    _check_attributes(module.operation, frozenset({"sym_name"}))
    if module.operation.attributes["sym_name"].value != "kernels":
        raise refusal("the module of the kernels must be called kernels")
    found = [one for region in module.operation.regions for block in region.blocks for one in block.operations]
    if len(found) > _MOST_KERNELS:
        raise refusal(f"a program must hold at most {_MOST_KERNELS} kernels, got {len(found)}")
    for one in found:
        if one.operation.name != "cuda.kernel":
            raise refusal(f"a module of kernels must hold kernels, got {one.operation.name}")
        _check_attributes(one.operation, _OF_KERNELS)
        _check_name(one, _KERNEL)
    return found


def _entry(entry: Any, kernels: set[str]) -> Counter[str]:
    """Count the operations of the host's function."""
    _check_attributes(entry.operation, _OF_ENTRIES)
    _check_name(entry, _ENTRY)
    _check_host_types(entry)
    return _body(entry, _LAUNCHES if kernels else _COMPUTES, names=kernels, in_kernel=False)


def _body(function: Any, allowed: frozenset[str], *, names: set[str], in_kernel: bool) -> Counter[str]:
    if not _has_body(function):
        raise refusal(f"a function must have a body, got a declaration of {function.sym_name.value[:80]}")
    counted: Counter[str] = Counter()
    for operation, depth in _operations(function.operation):
        name = operation.name
        if depth > _MOST_DEPTH:
            raise refusal(f"loops and branches must nest at most {_MOST_DEPTH} levels")
        if not (_is_kernels(name) if in_kernel else _is_hosts(name, allowed)):
            where = "a kernel" if in_kernel else "a function that launches" if names else "a function"
            raise refusal(f"{where} must hold operations of the list, got {name}")
        _check_operation(operation, names)
        if not in_kernel:
            _check_host(operation)
        counted[name] += 1
    return counted


def _is_hosts(name: str, allowed: frozenset[str]) -> bool:
    return name in allowed or name.partition(".")[0] in _PURE


def _is_kernels(name: str) -> bool:
    return name in _IN_KERNELS or (name.partition(".")[0] in _KERNEL_DIALECTS and name not in _NOT_IN_KERNELS)


def _operations(operation: Any) -> Iterator[tuple[Any, int]]:
    """Yield (operation, depth) of all operations within one."""
    waiting = [(operation, 0)]
    while waiting:
        outer, level = waiting.pop()
        for region in outer.regions:
            for block in region.blocks:
                for inner in block.operations:
                    yield inner.operation, level
                    waiting.append((inner.operation, level + 1))


def _check_operation(operation: Any, kernels: set[str]) -> None:
    """Refuse attributes that name a symbol, or that a compiler pass may obey."""
    for name in operation.attributes:
        value, place = operation.attributes[name], (operation.name, name)
        text = str(value)
        if "." in name and name not in _OF_OTHERS:
            raise refusal(f"an operation must have its own attributes, got {name[:80]}")
        if name == "smem.struct_fields" and not _FIELDS.fullmatch(text):
            raise refusal(f"fields of shared memory must be names and numbers, got {text[:80]}")
        if place in _SYMBOLS:
            if text not in kernels:
                raise refusal(f"a function must launch the program's own kernels, got {text[:80]}")
        elif type(value).__name__ == "StringAttr":
            if place not in _TEXTS:
                raise refusal(f"{operation.name} must hold no text, got {name[:80]}")
        elif _SYMBOL.search(text):
            raise refusal(f"{operation.name} must name no symbol, got {text[:80]}")


def _check_host(operation: Any) -> None:
    """Refuse a cast of a number to a stream, and a format with which C reads a number as an address."""
    if operation.name == "cuda.cast" and not _CAST.fullmatch(operation.get_asm(use_local_scope=True).strip()):
        raise refusal("cuda.cast must make a number of a result")
    if operation.name == "cute.print" and "%" in operation.attributes["fmt"].value:
        raise refusal("a format of cute.printf must hold {} and no %")


def _check_host_types(function: Any) -> None:
    """Refuse values that are no numbers, layouts, tensors or streams.

    Types are read from the text that MLIR writes: reading a value's type makes the DSL build objects around it, which
    corrupts memory outside of tracing (nvidia-cutlass-dsl 4.8.1).
    """
    text = _QUOTED.sub("", function.operation.get_asm(print_generic_op_form=True, use_local_scope=True))
    for kind in sorted({*_TYPE.findall(text)}):
        if not _HOST_TYPE.fullmatch(kind):
            raise refusal(f"a value of a function must be a number, a layout or a tensor, got {kind[:80]}")


def _check_attributes(operation: Any, allowed: frozenset[str]) -> None:
    """Refuse attributes of a module or a function that are not allowed."""
    for name in operation.attributes:
        if name not in allowed:
            raise refusal(f"{operation.name} must have only attributes of the list, got {name[:80]}")
        if name != "sym_name" and _SYMBOL.search(str(operation.attributes[name])):
            raise refusal(f"{operation.name} must name no symbol in {name}")


def _check_name(function: Any, rule: re.Pattern[str]) -> None:
    name = function.sym_name.value
    if not rule.fullmatch(name):
        raise refusal(f"a name must be that of a traced function, got {name[:80]!r}")


def _has_body(function: Any) -> bool:
    return any(len(region.blocks) for region in function.operation.regions)


def refusal(rule: str) -> RefusedFunction:
    """Return a refusal of a program that the DSL might accept."""
    return RefusedFunction(0, f"in a program of CuTe's: {rule}", python=False)
