"""Kernels whose programs run in lockstep and one after another; run as a script, it tells where the two differ.

Prints one line for each kernel, as JSON: its name, the number of times that its Python ran in lockstep and one after
another, and the things that differ: outputs, traffic, footprints, findings, errors, unordered sums.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import torch
import triton
import triton.language as tl

PROGRAMS = 13
RAN: list[int] = []

triton.set_allocator(lambda size, _alignment, _stream: torch.empty(size, dtype=torch.int8))


@triton.jit
def masked(x_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, offsets < n - 9, other=1.0)
    tl.store(z_ptr + offsets, x * x + tl.exp(x) - x / 3, offsets < n)


@triton.jit
def undefined_lanes(x_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(z_ptr + offsets, tl.load(x_ptr + offsets, offsets < n // 2), offsets < n)


@triton.jit
def rows(x_ptr, z_ptr, n, BLOCK: tl.constexpr):
    places = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(0) * BLOCK + places)
    shared = tl.load(x_ptr + places)
    x = x - tl.max(x)
    total = tl.sum(tl.exp(x) * shared, 0) + tl.argmax(x, 0) + tl.min(shared)
    tl.store(z_ptr + tl.program_id(0), total)
    tl.store(z_ptr + BLOCK * PROGRAMS_OF_ROWS + tl.program_id(0) * BLOCK + places, tl.cumsum(x, 0, reverse=True))


PROGRAMS_OF_ROWS = tl.constexpr(4)


@triton.jit
def contracted(x_ptr, z_ptr, n, BLOCK: tl.constexpr):
    places = tl.arange(0, BLOCK)
    x, shared = tl.load(x_ptr + tl.program_id(0) * BLOCK + places), tl.load(x_ptr + places)
    scaled, first = x * 1.7, tl.load(x_ptr + tl.program_id(0))
    tile = (x * shared)[:, None] - scaled[None, :]
    z = scaled - tl.max(scaled, 0) + shared * shared + tl.sum(tile, 1) + first * tl.load(x_ptr)
    tl.store(z_ptr + tl.program_id(0) * BLOCK + places, z)


@triton.jit
def tiles(x_ptr, z_ptr, n, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + place).reshape((4, BLOCK // 4))
    y = tl.load(x_ptr + tl.arange(0, BLOCK)).reshape((BLOCK // 4, 4))
    wide = tl.broadcast_to(x[:, :, None], (4, BLOCK // 4, 16)).reshape((4, BLOCK * 4))
    deep = tl.broadcast_to(y[:, None, :], (BLOCK // 4, 16, 4)).reshape((BLOCK * 4, 4))
    product = tl.dot(wide, deep, input_precision="ieee") + tl.trans(tl.dot(wide, wide.T, input_precision="tf32"))
    high, low = tl.split(tl.join(x, y.T))
    pair = tl.cat(tl.sum(high, 1), tl.sum(low, 1), can_reorder=True)
    chosen = tl.gather(x, tl.arange(0, 4)[:, None] + tl.zeros((4, 4), tl.int32), 1)
    result = product + pair.reshape((2, 4))[:, None, :].broadcast_to((2, 4, 4)).sum(0) + chosen
    tl.store(z_ptr + tl.program_id(0) * 16 + tl.arange(0, 4)[:, None] * 4 + tl.arange(0, 4)[None, :], result)


@triton.jit
def summed_products(x_ptr, z_ptr, n, BLOCK: tl.constexpr):
    places, few = tl.arange(0, BLOCK), tl.arange(0, 2)
    x = tl.load(x_ptr + (tl.program_id(0) + few[None, :]) % 13 * BLOCK + places[:, None])
    y = tl.load(x_ptr + few[:, None] * BLOCK + places[None, :])
    product = tl.sum(x[:, :, None] * y[None, :, :], 1)
    tl.store(z_ptr + tl.program_id(0) * BLOCK + places, tl.sum(product, 1))


@triton.jit
def narrow(x_ptr, z_ptr, n, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + place).to(tl.bfloat16)
    y = (x * x + tl.program_id(0)).to(tl.float16)
    z = tl.sum(x.reshape((2, BLOCK // 2)), 0).to(tl.float32)
    tl.store(z_ptr + place, tl.fma(y.to(tl.float32), 2.0, tl.abs(x).to(tl.float32)))
    tl.store(z_ptr + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK // 2), z)


@triton.jit
def branches(x_ptr, z_ptr, n, BLOCK: tl.constexpr):
    program = tl.program_id(0)
    place = program * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(z_ptr + place)
    # In place, and before the programs part: what they did is done once.
    tl.store(z_ptr + place, x + 1)
    if program % 3 == 0:
        tl.store(z_ptr + place, tl.load(z_ptr + place) * 2)
    for turn in range(program // 4):
        x = tl.load(z_ptr + place)
        tl.store(z_ptr + place, x + turn)


@triton.jit
def while_it_is_large(x_ptr, z_ptr, n, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    left = tl.program_id(0) // 5 + 1
    x = tl.load(x_ptr + place)
    while left > 0:
        x = x * 2
        left -= 1
    tl.store(z_ptr + place, x)


@triton.jit
def while_a_condition_holds(x_ptr, z_ptr, n, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    left = tl.program_id(0) // 5
    x = tl.load(x_ptr + place)
    while tl.condition(left > 0, disable_licm=True):
        x = x * 2
        left -= 1
    tl.store(z_ptr + place, x)


@triton.jit
def each_its_own_way(x_ptr, z_ptr, n, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + place)
    for _ in range(tl.program_id(0)):
        x += 1
    tl.store(z_ptr + place, x)


@triton.jit
def persistent(x_ptr, z_ptr, n, BLOCK: tl.constexpr):
    for tile in tl.range(tl.program_id(0), n // BLOCK, 4):
        place = tile * BLOCK + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + place) + tile.to(tl.float32)
        if tile % 2 == 0:
            x = -x
        tl.store(z_ptr + place, x)


@triton.jit
def block_pointers(x_ptr, z_ptr, n, BLOCK: tl.constexpr):
    program = tl.program_id(0)
    source = tl.make_block_ptr(x_ptr, (n // 8, 8), (8, 1), (program * 4, 0), (4, 8), (1, 0))
    target = tl.make_block_ptr(z_ptr, (n // 8, 8), (8, 1), (program * 4, 0), (4, 8), (1, 0))
    x = tl.load(source, boundary_check=(0,), padding_option="zero")
    source = tl.advance(source, (2, 0))
    tl.store(target, x + tl.load(source, boundary_check=(0, 1), padding_option="nan"), boundary_check=(0,))


@triton.jit
def descriptors(x_ptr, z_ptr, n, BLOCK: tl.constexpr):
    program = tl.program_id(0)
    source = tl.make_tensor_descriptor(x_ptr, [n // 8, 8], [8, 1], [4, 8])
    target = tl.make_tensor_descriptor(z_ptr + program // 2 * 64, [8, 8], [8, 1], [4, 8])
    target.store([program % 2 * 4, 0], source.load([program * 4, 0]) * 2)


@triton.jit
def _smaller(a, b, c, d):
    return tl.where(a < c, a, c), b + d


@triton.jit
def _last(a, b):
    return b


@triton.jit
def combined(x_ptr, z_ptr, n, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + place).reshape((8, BLOCK // 8))
    least, total = tl.reduce((x, x * x), 1, _smaller)
    scanned = tl.associative_scan(x, 0, _last)
    tl.store(z_ptr + place, (scanned + (least + total)[:, None]).reshape((BLOCK,)))


@triton.jit
def random_numbers(x_ptr, z_ptr, n, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(z_ptr + place, tl.rand(n, place) + tl.sort(tl.load(x_ptr + place)))


@triton.jit
def atomics(x_ptr, z_ptr, n, BLOCK: tl.constexpr):
    place = tl.arange(0, BLOCK)
    tl.atomic_add(z_ptr + place, tl.load(x_ptr + tl.program_id(0) * BLOCK + place))


@triton.jit
def atomics_of_scalars(x_ptr, z_ptr, n, BLOCK: tl.constexpr):
    program = tl.program_id(0)
    x = tl.load(x_ptr + program * BLOCK + tl.arange(0, BLOCK))
    tl.atomic_add(z_ptr, tl.sum(x) + 0.1)
    tl.atomic_add(z_ptr + 1, 0.1)
    tl.atomic_xchg(z_ptr + 2, x.max(), program % 3 == 1, sem="relaxed")
    tl.atomic_max((z_ptr + 3).to(tl.pointer_type(tl.int32), bitcast=True), program * 7 % 5)


@triton.jit
def atomics_in_a_loop(x_ptr, z_ptr, n, BLOCK: tl.constexpr):
    place = tl.arange(0, BLOCK)
    for turn in range(4):
        x = tl.load(x_ptr + tl.program_id(0) * BLOCK + place)
        tl.atomic_add(z_ptr + turn * BLOCK + place, x / (turn + 1), place < BLOCK - turn)


@triton.jit
def atomics_of_some(x_ptr, z_ptr, n, BLOCK: tl.constexpr):
    place = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(0) * BLOCK + place)
    tl.atomic_add(z_ptr + place, x)
    if tl.program_id(0) > 5:
        tl.atomic_add(z_ptr + BLOCK + place, x)


@triton.jit
def atomics_out_of_order(x_ptr, z_ptr, n, BLOCK: tl.constexpr):
    place = tl.arange(0, BLOCK)
    for turn in range(2):
        tl.atomic_add(z_ptr + place, tl.load(x_ptr + tl.program_id(0) * BLOCK + place) / (turn + 1))


@triton.jit
def atomics_of_odd_ones(x_ptr, z_ptr, n, BLOCK: tl.constexpr):
    place = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(0) * BLOCK + place)
    if tl.program_id(0) % 2 == 1:
        x = x / 3
    tl.atomic_add(z_ptr + place, x)


@triton.jit
def locks(x_ptr, z_ptr, n, BLOCK: tl.constexpr):
    lock_ptr = z_ptr.to(tl.pointer_type(tl.int32), bitcast=True)
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    place = 1 + tl.arange(0, BLOCK)
    tl.store(z_ptr + place, tl.load(z_ptr + place) + tl.load(x_ptr + tl.program_id(0) * BLOCK + place - 1))
    tl.atomic_xchg(lock_ptr, 0)


@triton.jit
def tickets(x_ptr, z_ptr, n, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(z_ptr + 1 + place, tl.load(x_ptr + place), place < n - 1)
    if tl.atomic_add(z_ptr, 1.0) == 12:
        total = tl.zeros((BLOCK,), tl.float32)
        for start in range(0, n, BLOCK):
            total += tl.load(z_ptr + 1 + start + tl.arange(0, BLOCK), start + tl.arange(0, BLOCK) < n - 1)
        tl.store(z_ptr + 1 + tl.arange(0, BLOCK), total)


@triton.jit
def the_last_one_strays(x_ptr, z_ptr, n, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(z_ptr + place + 1, tl.load(x_ptr + place))


@triton.jit
def races(x_ptr, z_ptr, n, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + place)
    tl.store(z_ptr + place, x)
    tl.store(z_ptr + (place + BLOCK) % n, x + 1)
    tl.store(z_ptr + tl.arange(0, BLOCK), tl.program_id(0).to(tl.float32), place < BLOCK * 3)


@triton.jit
def races_with_atomics(x_ptr, z_ptr, n, BLOCK: tl.constexpr):
    place = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(0) * BLOCK + place)
    tl.atomic_add(z_ptr + place, x)
    tl.store(z_ptr + BLOCK + tl.program_id(0), tl.sum(tl.load(z_ptr + place)))


@triton.jit
def equal_stores(x_ptr, z_ptr, n, BLOCK: tl.constexpr):
    place = tl.minimum(tl.program_id(0) * BLOCK, n - BLOCK - 5) + tl.arange(0, BLOCK)
    tl.store(z_ptr + place, tl.load(x_ptr + place))
    tl.store(z_ptr + n - 1, 1.0)


@triton.jit
def one_of_them_fails(x_ptr, z_ptr, n, BLOCK: tl.constexpr):
    program = tl.program_id(0)
    place = program * BLOCK + tl.arange(0, BLOCK)
    tl.store(z_ptr + place, tl.load(x_ptr + place))
    # A false promise of program 7.
    tl.store(z_ptr + tl.multiple_of(program % 7 * BLOCK + program // 7, 8), 1.0)


@triton.jit
def printing(x_ptr, z_ptr, n, BLOCK: tl.constexpr):
    tl.device_print("program", tl.program_id(0))
    tl.store(z_ptr + tl.program_id(0), 1.0)


@triton.jit
def two_axes(x_ptr, z_ptr, n, BLOCK: tl.constexpr):
    place = (tl.program_id(0) * tl.num_programs(1) + tl.program_id(1)) * BLOCK + tl.arange(0, BLOCK)
    tl.store(z_ptr + place, tl.load(x_ptr + place) * tl.program_id(1), place < n)


@triton.jit
def sums_of_broadcast_products(x_ptr, z_ptr, n, BLOCK: tl.constexpr):
    places = tl.arange(0, BLOCK)
    x, shared = tl.load(x_ptr + tl.program_id(0) * BLOCK + places), tl.load(x_ptr + places)
    pairs = x[:, None] * shared[None, :] + tl.program_id(0)
    tile = pairs[:, None, :] * tl.trans(pairs)[None, :, :]
    z = tl.sum(tl.sum(tile, 2), 1) + tl.sum(tl.sum(tile, 1), 0) + tl.sum(tl.trans(pairs), 0)
    tl.store(z_ptr + tl.program_id(0) * BLOCK + places, z)


@triton.jit
def reordered(x_ptr, z_ptr, n, BLOCK: tl.constexpr):
    places = tl.arange(0, BLOCK)
    x, shared = tl.load(x_ptr + tl.program_id(0) * BLOCK + places), tl.load(x_ptr + places)
    both = tl.reshape(tl.cat(x, shared, can_reorder=True), (2, BLOCK), can_reorder=True)
    chosen = tl.gather(x, places - (x > 0).to(tl.int32), 0)
    count = (x > 0) + (shared > 0)
    z = tl.where(count and (places < n), tl.sum(both * tl.arange(0, 2)[:, None], 0), chosen)
    tl.store(z_ptr + tl.program_id(0) * BLOCK + places, z)


@triton.jit
def exchanges(x_ptr, z_ptr, n, BLOCK: tl.constexpr):
    mine, places = z_ptr + tl.program_id(0) * BLOCK, tl.arange(0, BLOCK)
    tl.store(mine + places, tl.load(x_ptr + tl.program_id(0) * BLOCK + places))
    backwards = tl.load(mine + BLOCK - 1 - places)
    tl.debug_barrier()
    tl.store(mine + places, backwards + tl.load(mine + places), places < tl.program_id(0))
    tl.store(mine + places, tl.load(mine + (places ^ 1)))


@triton.jit
def exchanges_with_barriers(x_ptr, z_ptr, n, BLOCK: tl.constexpr):
    mine, places = z_ptr + tl.program_id(0) * BLOCK, tl.arange(0, BLOCK)
    tl.store(mine + places, tl.load(x_ptr + tl.program_id(0) * BLOCK + places))
    tl.debug_barrier()
    backwards = tl.load(mine + BLOCK - 1 - places)
    total = tl.sum(backwards, 0) + tl.load(mine + places)
    tl.debug_barrier()
    tl.store(mine + places, backwards + total)
    tl.store(mine + places, tl.load(mine + places) + tl.max(backwards, 0))


GRIDS: dict[str, tuple[int, ...]] = {"rows": (4,), "persistent": (4,), "two_axes": (3, 4)}
KERNELS = [
    one for one in list(globals().values()) if type(one).__name__ == "InterpretedFunction" and one.__name__[0] != "_"
]


def outcome(kernel: Any, block: int) -> tuple[Any, ...]:
    """Everything that a launch does: its output, traffic, footprint, findings, error and unordered sums."""
    n = PROGRAMS * block
    x = torch.randn(n, generator=torch.Generator().manual_seed(7))
    z = torch.arange(n, dtype=torch.float32)
    error = ""
    try:
        kernel[GRIDS.get(kernel.__name__, (PROGRAMS,))](x, z, n, BLOCK=block)
    except Exception as raised:
        error = repr(raised)
    return z.numpy().tobytes(), WATCH.traffic, WATCH.footprint(), WATCH.take(), error, WATCH.take_unordered()


def main() -> None:
    from grader.interpreter.programs import lockstep

    run: Callable[..., None] = lockstep.LockstepKernel._run

    def counted(programs: Any, group: Any, *rest: Any) -> None:
        RAN.append(len(group.programs))
        run(programs, group, *rest)

    lockstep.LockstepKernel._run = counted  # type: ignore[method-assign]
    for kernel in KERNELS:
        RAN.clear()
        WATCH._known = None
        alone = outcome(kernel, 32)
        assert not RAN
        WATCH._known = {}
        together = outcome(kernel, 32), outcome(kernel, 32)
        names = ("output", "traffic", "footprint", "findings", "error", "unordered sums")
        differing = sorted({name for made in together for name, a, b in zip(names, made, alone, strict=True) if a != b})
        print(json.dumps([kernel.__name__, RAN, differing, [one.kind for one in alone[3]], alone[4]]))


if __name__ == "__main__":
    from grader.interpreter.corrections import apply_corrections
    from grader.interpreter.memory import MemoryWatch
    from grader.interpreter.once import patch_language_once

    apply_corrections()
    WATCH = MemoryWatch()
    WATCH.install()
    patch_language_once()
    WATCH.run_in_lockstep()
    WATCH.count_instructions(True)
    main()
