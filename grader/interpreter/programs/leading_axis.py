"""Compute with values of many programs at once: the interpreter's operations on arrays with a leading axis.

A value is an array [P, …] of one block for each of P programs, or [1, …] where all programs share it; a scalar is
[P, 1] or [1]. Elementwise operations take such arrays as they are; here stand those that make, move or reduce axes, and
those of memory. What programs cannot do together raises Alone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import cache
from typing import Any, NoReturn

import numpy as np

from grader.interpreter.arithmetic.contraction import follow_products
from grader.interpreter.arithmetic.implicit_dots import follow_new_axes
from grader.interpreter.arithmetic.unspecified import backwards, gathered, moves_elements
from grader.interpreter.gather import stretched
from grader.interpreter.groups import Alone, Array, firsts, go_alone, programs_at_once
from grader.interpreter.versions import block_pointer_handle, rereads


@cache
def builder_of_groups() -> Any:
    """Return the builder of values with a leading axis. Call it after every patch of the interpreter's builder."""
    from triton.runtime.interpreter import (
        InterpreterBuilder,
        TensorDescHandle,
        TensorHandle,
        _get_np_dtype,
        interpreter_builder,
        tl,
    )

    def alike(*handles: Any) -> list[Any]:
        """Return handles of one shape."""
        shapes = {one.data.shape for one in handles}
        shape = np.broadcast_shapes(*shapes) if len(shapes) > 1 else shapes.pop()
        return [TensorHandle(stretched(one.data, shape), one.dtype) for one in handles]

    def spread(scalar: Any, rank: int) -> Array:
        """Return a scalar of each program, [P, 1, …, 1]."""
        return np.asarray(scalar.data.reshape(-1, *([1] * rank)))

    def materialized(handle: Any, offsets: Sequence[Any], checked: Collection[int]) -> Any:
        """Return the pointers of a block in a tensor, and a mask of the elements inside it along the checked axes."""
        block, rank = handle.block_shape, len(handle.block_shape)
        width = max(1, handle.base.get_element_ty().primitive_bitwidth // 8)
        pointers, inside = spread(handle.base, rank), np.ones((1, *block), dtype=bool)
        for axis, length in enumerate(block):
            along = [length if axis == other else 1 for other in range(rank)]
            offset = (offsets[axis].data.reshape(-1, 1) + np.arange(length)).reshape(-1, *along)
            pointers = pointers + (width * offset * spread(handle.strides[axis], rank)).astype(np.uint64)
            if axis in checked:
                inside = inside & (offset < spread(handle.shape[axis], rank)) & (offset >= 0)
        return TensorHandle(pointers, handle.base.dtype.scalar), inside

    class BlockPointer(block_pointer_handle()):  # type: ignore[misc]
        """A block pointer of each program."""

        def materialize_pointers(self, boundary_check: Any) -> Any:
            return materialized(self, self.offsets, boundary_check)

    class Descriptor(TensorDescHandle):  # type: ignore[misc]
        """A tensor descriptor of each program; a wrong one is left to the program alone."""

        def validate(self) -> None:
            width = self.base.dtype.element_ty.primitive_bitwidth // 8
            steps = [one.data * width % 16 for one in self.strides[:-1]]
            if any(one.any() for one in (self.base.data % 16, *steps, self.strides[-1].data - 1)):
                go_alone()

        def materialize_pointers(self, offsets: Any) -> Any:
            width = self.base.dtype.element_ty.primitive_bitwidth // 8
            if (offsets[-1].data * width % 16).any():
                go_alone()
            return materialized(self, offsets, range(self.ndim))

    def of_groups(desc: Any) -> Any:
        made = Descriptor.__new__(Descriptor)
        made.__dict__.update(desc.__dict__)
        return made

    class GroupBuilder(InterpreterBuilder):  # type: ignore[misc]
        """The interpreter's builder for values with a leading axis; elementwise operations need no change."""

        def create_get_program_id(self, axis: int) -> Any:
            programs = programs_at_once()
            assert programs is not None, "this builder computes for groups only"
            place = np.unravel_index(programs, self.grid_dim)[axis]
            return TensorHandle(place.astype(np.int32).reshape(-1, 1), tl.int32)

        # -- memory ----------------------------------------------------------------------------------------------------

        def create_masked_load(self, ptrs: Any, mask: Any, other: Any, *how: Any, **named: Any) -> Any:
            if rereads(how, named):
                go_alone()
            ptrs, mask, *others = self._broadcast(ptrs, mask, *(() if other is None else (other,)))
            other = others[0] if others else None
            return super().create_masked_load(ptrs, mask, other, *how, **named)

        def create_masked_store(self, ptrs: Any, value: Any, mask: Any, *how: Any, **named: Any) -> Any:
            ptrs, mask, value = self._broadcast(ptrs, mask, value)
            return super().create_masked_store(ptrs, value, mask, *how, **named)

        def _broadcast(self, ptrs: Any, mask: Any, *values: Any) -> list[Any]:
            """Return handles of one shape; the bare mask of a block pointer stays bare."""
            if not isinstance(mask, np.ndarray):
                return alike(ptrs, mask, *values)
            ptrs, lit, *moved = alike(ptrs, TensorHandle(mask, tl.int1), *values)
            return [ptrs, lit.data, *moved]

        def create_atomic_rmw(self, op: Any, ptr: Any, val: Any, mask: Any, *how: Any) -> Any:
            ptr, val, mask = alike(ptr, val, mask)
            programs = programs_at_once()
            assert programs is not None, "this builder computes for groups only"
            # Each program updates what all of them share. Atomics ignore strides.
            shape = (len(programs), *(ptr.data.shape[1:] or (1,)))
            wide = [np.ascontiguousarray(np.broadcast_to(one.data, shape)) for one in (ptr, val, mask)]
            kinds = (ptr.dtype, val.dtype, mask.dtype)
            return super().create_atomic_rmw(op, *map(TensorHandle, wide, kinds), *how)

        def create_atomic_cas(self, *_: Any) -> NoReturn:
            raise Alone

        create_histogram = create_print = create_descriptor_gather = create_descriptor_scatter = create_atomic_cas

        def create_make_block_ptr(
            self, base: Any, shape: Any, strides: Any, offsets: Any, block_shape: Any, order: Any
        ) -> Any:
            return BlockPointer(base, shape, strides, [one.clone() for one in offsets], block_shape, order)

        def create_advance(self, ptr: Any, offsets: Any) -> Any:
            moved = [TensorHandle(one.data + by.data, one.dtype) for one, by in zip(ptr.offsets, offsets, strict=True)]
            return BlockPointer(ptr.base, ptr.shape, ptr.strides, moved, ptr.block_shape, ptr.order)

        def create_make_tensor_descriptor(
            self, base: Any, shape: Any, strides: Any, tensor_shape: Any, _: Any, padding: Any = "zero"
        ) -> Any:
            made = Descriptor(base, shape, strides, tensor_shape, padding)
            made.validate()
            return made

        def create_descriptor_load(self, desc: Any, indices: Any, *how: Any) -> Any:
            return super().create_descriptor_load(of_groups(desc), indices, *how)

        def create_descriptor_store(self, desc: Any, value: Any, indices: Any) -> Any:
            return super().create_descriptor_store(of_groups(desc), value, indices)

        # -- shapes ----------------------------------------------------------------------------------------------------

        def create_make_range(self, _: Any, start: int, stop: int) -> Any:
            return TensorHandle(np.arange(start, stop, dtype=np.int32).reshape(1, -1), tl.int32)

        def create_splat(self, ret_ty: Any, arg: Any) -> Any:
            shape = ret_ty.shape
            data = arg.data.reshape(-1, *([1] * len(shape))).astype(_get_np_dtype(arg.dtype), copy=False)
            return TensorHandle(stretched(data, (len(data), *shape)), arg.dtype.scalar)

        def create_unsplat(self, arg: Any) -> Any:
            return TensorHandle(firsts(arg.data).reshape(-1, 1), arg.dtype.scalar)

        def create_reshape(self, arg: Any, shape: Any, allow_reorder: bool) -> Any:
            data = arg.data.reshape(-1, *shape)
            if allow_reorder and moves_elements(arg.data.shape[1:], shape):
                data = backwards(data, 1)
            return TensorHandle(data, arg.dtype.scalar)

        def create_trans(self, arg: Any, perm: Any) -> Any:
            return TensorHandle(np.transpose(arg.data, (0, *(one + 1 for one in perm))), arg.dtype.scalar)

        def create_expand_dims(self, arg: Any, axis: int) -> Any:
            # As np.expand_dims, which takes longer than most operations on a block.
            return TensorHandle(arg.data[(slice(None),) * (axis + 1) + (None,)], arg.dtype.scalar)

        def create_broadcast(self, arg: Any, shape: Any) -> Any:
            return TensorHandle(stretched(arg.data, (len(arg.data), *shape)), arg.dtype.scalar)

        def create_cat(self, lhs: Any, rhs: Any) -> Any:
            count = max(len(lhs.data), len(rhs.data))
            data = [np.broadcast_to(one.data, (count, *one.data.shape[1:])) for one in (lhs, rhs)]
            return TensorHandle(backwards(np.concatenate(data, axis=1), 1), lhs.dtype.scalar)

        def create_join(self, lhs: Any, rhs: Any) -> Any:
            return super().create_join(*alike(lhs, rhs))

        def create_gather(self, src: Any, indices: Any, axis: int) -> Any:
            count = max(len(src.data), len(indices.data))
            data, chosen = (np.broadcast_to(one.data, (count, *one.data.shape[1:])) for one in (src, indices))
            return TensorHandle(gathered(data, chosen, axis + 1), src.dtype.scalar)

        def create_extern_elementwise(self, *call: Any) -> Any:
            *what, operands, kind, pure = call
            return super().create_extern_elementwise(*what, alike(*operands), kind, pure)

    follow_products(GroupBuilder)
    follow_new_axes(GroupBuilder)
    builder = GroupBuilder()
    # Without checks of overflow, as for one program: they would be counted as operations.
    builder.options = interpreter_builder.options
    return builder


def reduce_within_programs() -> None:
    """Let reductions and scans, and `.T`, leave the axis of the programs alone. Call it after all other patches."""
    from triton.runtime.interpreter import ReduceOps, ReduceScanOpInterface, ScanOps, TensorHandle, _get_np_dtype, tl

    to_tensor = ReduceScanOpInterface.to_tensor

    def with_axis(self: Any, ret: Any, dtype: Any) -> Any:
        if programs_at_once() is None:
            return to_tensor(self, ret, dtype)
        shape = list(ret.shape[1:])
        data = ret.astype(_get_np_dtype(dtype), copy=False)
        made = TensorHandle(data if shape else data.reshape(-1, 1), dtype.scalar)
        return tl.tensor(made, tl.block_type(dtype, shape) if shape else dtype)

    def shifted(apply: Callable[..., Any]) -> Callable[..., Any]:
        def apply_impl(self: Any, blocks: Any) -> Any:
            if programs_at_once() is None:
                return apply(self, blocks)
            if self.axis is None:
                if self.keep_dims:
                    go_alone()
                rows = [one.handle.data.reshape(len(one.handle.data), -1) for one in blocks]
                blocks = tuple(self.to_tensor(row, one.dtype) for row, one in zip(rows, blocks, strict=True))
                self.axis = 0
            self.axis += 1
            return apply(self, blocks)

        return apply_impl

    ReduceScanOpInterface.to_tensor = with_axis
    ReduceOps.apply_impl = shifted(ReduceOps.apply_impl)
    ScanOps.apply_impl = shifted(ScanOps.apply_impl)
    transpose = vars(tl.tensor)["T"].fget

    def transposed(self: Any) -> Any:
        if programs_at_once() is None:
            return transpose(self)
        if len(self.shape) != 2:
            go_alone()
        kind = tl.block_type(self.dtype, [*self.shape[::-1]])
        return tl.tensor(TensorHandle(self.handle.data.swapaxes(1, 2), self.handle.dtype), kind)

    setattr(tl.tensor, "T", property(transposed))  # noqa: B010 - the interpreter sets it, too
