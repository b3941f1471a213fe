"""List the ATen operators that do no part of the work: they allocate, fill, copy, cast or compute indices."""

from __future__ import annotations

# Operators that allocate uninitialised memory.
EMPTY = frozenset({"empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided"})

ALLOCATING = EMPTY | frozenset(
    {"full", "full_like", "ones", "ones_like", "zeros", "zeros_like", "new_full", "new_ones", "new_zeros"}
)

# Operators that write to their first argument, and do not read it.
OVERWRITING = frozenset({"copy_", "fill_", "zero_"})

# With views, which are no steps of a trace, these are all that torch may do beside the kernels.
SUPPORTING = ALLOCATING | frozenset(
    {
        *("arange", "scalar_tensor", "clone", "contiguous", "copy_", "fill", "fill_", "zero_", "_to_copy"),
        *("cat", "stack", "constant_pad_nd", "repeat"),
    }
)

# On whole numbers these make indices, such as the slots of a cache. On anything else they compute.
NUMBERING = frozenset(
    {
        *("add", "add_", "sub", "sub_", "rsub", "mul", "mul_", "neg", "abs"),
        *("div", "floor_divide", "remainder", "fmod"),
        *("bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not", "bitwise_left_shift", "bitwise_right_shift"),
        *("__lshift__", "__rshift__", "__and__", "__or__", "__xor__"),
        *("eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or", "logical_not", "where"),
        *("minimum", "maximum", "clamp", "clamp_", "clamp_min", "clamp_max", "amin", "amax", "max", "min"),
        *("sum", "cumsum", "gather", "index_select", "index"),
    }
)

# Ways for Python to read values of a tensor, and the learner's code for each.
READING = {
    "aten._local_scalar_dense": ".item()",
    "aten._to_copy": ".cpu()",
    "aten._unique2": "torch.unique",
    "aten.equal": "torch.equal",
    "aten.is_nonzero": "bool()",
    "aten.masked_select": "torch.masked_select",
    "aten.nonzero": "torch.nonzero",
    "Tensor.__array__": "numpy.asarray",
    "Tensor.__dlpack__": "from_dlpack",
    "Tensor.cpu": ".cpu()",
    "Tensor.numpy": ".numpy()",
    "Tensor.tolist": ".tolist()",
}

# The operators that a trace may hold.
RECORDED = SUPPORTING | NUMBERING

# These change a tensor's window, or only ask questions; their effect shows in the windows.
SHAPING = frozenset(
    {
        *("detach", "lift", "lift_fresh", "set_", "_unsafe_view", "_reshape_alias", "resize_"),
        *("squeeze_", "unsqueeze_", "t_", "transpose_", "swapaxes_", "swapdims_", "as_strided_", "detach_"),
        *("is_same_size", "is_pinned", "record_stream", "promote_types", "result_type", "can_cast"),
    }
)
