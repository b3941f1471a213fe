"""The guard in the interpreter: what lies outside a tensor is found before it happens and named, and so is a race.

The kernels stand in submissions/guard/. A planted mistake says in its first line which access to which argument must
be found; `# here` marks its line, and `# there` that of the other access of a race. Honest kernels say `pass`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from grader.exercise.cases import Case
from grader.exercise.catalogue import Entry
from grader.exercise.tensors import far_apart
from grader.interpreter.accesses.guard import Guard, extent_of
from grader.interpreter.accesses.races import Access
from grader.judge.access_findings import cause_of, clues_of
from grader.judge.trial import Trial
from grader.protocol.answers import Raised
from grader.protocol.observations import GuardFinding
from grader.record.causes import Cause
from grader.sandbox.outcome import Finished
from grader.sandbox.server import ForkServer
from tests.benches import bench_of
from tests.claims import claim, files
from tests.conftest import Grade

PLANTED = [path for path in files("guard") if claim(path)[0] == "fail"]
HONEST = [path for path in files("guard") if claim(path)[0] == "pass"]
# No block size divides it; 25 rows of 40.
CASE = Case({"N": 1000, "dtype": "float32", "values": "normal", "offset": 0})

Try = Callable[..., list[Trial]]


@pytest.fixture
def tried(server: ForkServer, ex_15: Entry) -> Try:
    """Call vector_add of a submission in a process of its own, with some seeds one after another."""

    def run(source: str | Path, *seeds: int) -> list[Trial]:
        with bench_of(server, ex_15, source) as bench:
            return [bench.try_case(CASE, seed) for seed in seeds]

    return run


def findings(trial: Trial) -> tuple[GuardFinding, ...]:
    assert isinstance(trial.outcome, Finished), trial.outcome
    return trial.outcome.answer.findings


def marked(path: Path, mark: str) -> tuple[int, str]:
    """The line that bears a mark, and its text."""
    lines = path.read_text(encoding="utf-8").splitlines()
    (number,) = (at for at, line in enumerate(lines, 1) if re.search(rf"# .*\b{mark}\b", line))
    return number, lines[number - 1].strip()


# -- kernels with a mistake, and without -----------------------------------------------------------------------------


@pytest.mark.parametrize("path", PLANTED, ids=lambda path: path.stem)
def test_a_planted_mistake_is_found_at_its_line_and_its_argument(path: Path, tried: Try) -> None:
    promised = re.match(r'"""fail: (\w+): (\w+) of (\S+): ', path.read_text(encoding="utf-8"))
    assert promised is not None, path
    kind, access, argument = promised.groups()
    (trial,) = tried(path, 3)
    found = findings(trial)[0]
    assert (found.access if kind == "race" else found.kind, found.argument or "nothing") == (access, argument)
    assert (found.line, found.code) == marked(path, "here")
    if kind == "race":
        assert found.kind == "race"
        assert found.other_line == marked(path, "there")[0]
        assert found.other_program != found.program
    assert trial.failure is not None
    assert (trial.failure.status, trial.failure.cause.kind) == ("fail", kind)


@pytest.mark.parametrize("path", HONEST, ids=lambda path: path.stem)
def test_an_honest_kernel_is_right_and_nothing_is_found(path: Path, tried: Try) -> None:
    # The second call meets memory that the first one left behind.
    for trial in tried(path, 3, 4):
        assert trial.failure is None, trial.failure
        assert findings(trial) == ()


def test_there_are_enough_of_both() -> None:
    assert len(PLANTED) >= 40
    assert len(HONEST) >= 30


def test_after_an_access_that_would_have_killed_it_the_process_lives_and_goes_on(
    server: ForkServer, tried: Try
) -> None:
    trials = tried(next(path for path in PLANTED if path.stem == "huge_address"), 3, 4, 5)
    assert [len(findings(trial)) for trial in trials] == [1, 1, 1]
    trials = tried(next(path for path in PLANTED if path.stem == "far_store"), 3, 4)
    assert all(isinstance(trial.outcome, Finished) for trial in trials)


def test_every_check_that_meets_it_names_the_mistake_and_the_others_are_judged(graded: Grade) -> None:
    record = graded(next(path for path in PLANTED if path.stem == "store_unmasked"), "vector_add", cases=2)
    by_id = {check.id: check for check in record.checks}
    assert by_id["vector_add.full_blocks"].status == "pass"
    for name in ("tail", "fresh", "launches", "traffic"):
        check = by_id[f"vector_add.{name}"]
        assert (check.status, check.cause and check.cause.kind) == ("fail", "out_of_bounds"), name
    tail = by_id["vector_add.tail"].cause
    assert tail is not None
    assert "(N=1, " in f"({tail.case}, "


SPILLS = """
import torch, triton
import triton.language as tl

triton.set_allocator(lambda size, alignment, stream: torch.empty(size, dtype=torch.int8, device="cuda"))

@triton.jit
def add_kernel(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    start = tl.program_id(0) * BLOCK
    x = tl.make_tensor_descriptor(x_ptr, shape=[n], strides=[1], block_shape=[BLOCK]).load([start])
    y = tl.make_tensor_descriptor(y_ptr, shape=[n], strides=[1], block_shape=[BLOCK]).load([start])
    tl.make_tensor_descriptor(z_ptr, shape=[n], strides=[1], block_shape=[BLOCK]).store([start], x + y)

def vector_add(x, y):
    z = torch.empty_like(x)
    z[-1:] = x[-1:] + y[-1:]
    n = x.numel() - 1
    add_kernel[(triton.cdiv(n, 64),)](x, y, z[:n], n, BLOCK=64)
    return z
"""


UNITS = """
import torch, triton
import triton.language as tl

triton.set_allocator(lambda size, alignment, stream: torch.empty(size, dtype=torch.int8, device="cuda"))

@triton.jit
def add_kernel(x_ptr, y_ptr, z_ptr, n):
    start = tl.program_id(0) * 4
    lanes = start + tl.arange(0, 4)
    z = tl.load(x_ptr + lanes, mask=lanes < n) + tl.load(y_ptr + lanes, mask=lanes < n)
    tl.make_tensor_descriptor(z_ptr + start, shape=[1], strides=[1], block_shape=[4]).store([0], z)

def vector_add(x, y):
    z = torch.empty_like(x)
    add_kernel[(triton.cdiv(x.numel(), 4),)](x, y, z, x.numel())
    return z
"""


def test_a_kernel_that_makes_a_descriptor_must_be_lent_memory_as_on_a_gpu(tried: Try) -> None:
    (trial,) = tried(re.sub(r"triton.set_allocator.*", "", UNITS), 3)
    assert trial.failure is not None
    assert (trial.failure.status, trial.failure.cause.kind) == ("crash", "crash")
    assert "triton.set_allocator(lambda size, alignment, stream: " in trial.failure.cause.rationale


def test_what_a_descriptor_stores_beyond_its_row_counts_as_stored(tried: Try) -> None:
    (trial,) = tried(UNITS, 3)
    assert (trial.failure, findings(trial)) == (None, ())
    assert isinstance(trial.outcome, Finished)
    (launch,) = trial.outcome.answer.launches
    assert launch.traffic is not None
    assert launch.traffic.stored_bytes == launch.traffic.unique_stored_bytes == 4 * CASE["N"]


def test_a_descriptors_store_overwrites_what_lies_behind_the_row_in_the_same_allocation(tried: Try) -> None:
    (trial,) = tried(SPILLS, 3)
    assert trial.failure is not None
    assert findings(trial) == ()
    assert trial.failure.cause.kind == "tail"


BEYOND = """
import torch, triton
import triton.language as tl

@triton.jit
def add_kernel(x_ptr, y_ptr, z_ptr, seen_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x, inside = tl.load(x_ptr + offsets), offsets < n
    tl.store(z_ptr + offsets, x + tl.load(y_ptr + offsets, mask=inside), mask=inside)
    tl.store(seen_ptr + 1 + tl.program_id(0), 5)

def vector_add(x, y):
    both = torch.full((2000,), 3.0, device=x.device)
    both[:1000].copy_(x)
    seen = torch.zeros(20, dtype=torch.int32, device=x.device)
    z = torch.empty_like(x)
    add_kernel[(8,)](both[:1000], y, z, seen[:8], x.numel(), BLOCK=128)
    print("behind", both[1000:].tolist() == [3.0] * 1000, seen[7:].tolist())
    return z
"""


def test_what_lies_outside_is_neither_read_nor_written(server: ForkServer, ex_15: Entry) -> None:
    with bench_of(server, ex_15, BEYOND) as bench:
        trial = bench.try_case(CASE, 3)
        assert [one.kind for one in findings(trial)] == ["load", "store"]
        # What it sees there itself, it sees in its own process.
        bench.ask(trial.recipe, ())
        bench.pair.session.restart()
        assert "behind True [5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]" in bench.pair.session.printed.text


RAISING = """
import torch, triton
import triton.language as tl

@triton.jit
def add_kernel(x_ptr, z_ptr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(z_ptr + offsets, tl.load(x_ptr + offsets) + tl.zeros((3,), tl.float32))

def vector_add(x, y):
    z = torch.empty_like(x)
    add_kernel[(8,)](x, z, BLOCK=1024)
    return z
"""


def test_a_kernel_that_raises_still_says_what_was_found_before(tried: Try) -> None:
    (trial,) = tried(RAISING, 3)
    assert isinstance(trial.outcome, Raised)
    assert [one.kind for one in trial.outcome.findings] == ["load"]
    assert trial.failure is not None
    assert trial.failure.status == "crash"
    assert "Before that: Line 8 (add_kernel), " in trial.failure.cause.help


# -- what a tensor's elements are ------------------------------------------------------------------------------------

VIEWS = {
    "dense": lambda: torch.empty(5, 7),
    "transposed": lambda: torch.empty(5, 7).t(),
    "rows_apart": lambda: torch.empty(5, 13)[:, :7],
    "every_third": lambda: torch.empty(10, 21)[::2, ::3],
    "expanded": lambda: torch.empty(1, 7).expand(5, 7),
    "one_element": lambda: torch.empty(()).expand(5, 7),
    "windows": lambda: torch.as_strided(torch.empty(64), (5, 7), (2, 3)),
    "empty": lambda: torch.empty(0, 7),
    "scalar": lambda: torch.empty(()),
    "offset": lambda: torch.empty(100)[63:],
}


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS.keys())
@pytest.mark.parametrize("dtype", [torch.int8, torch.float16, torch.float32, torch.float64])
def test_inside_is_what_the_view_shows_byte_for_byte(view: Callable[[], torch.Tensor], dtype: torch.dtype) -> None:
    tensor = view().to(torch.int8).to(dtype) if not view().numel() else view()
    storage = torch.empty(tensor.untyped_storage().nbytes() // tensor.element_size() * dtype.itemsize, dtype=torch.int8)
    tensor = torch.empty(0, dtype=dtype).set_(
        storage.untyped_storage(), tensor.storage_offset(), tensor.shape, tensor.stride()
    )
    extent = extent_of("x", 1, tensor)
    # The truth, one byte after another, some beyond both ends.
    shown = {
        (address - tensor.data_ptr()) + byte
        for address in {tensor[index].data_ptr() for index in np.ndindex(*tensor.shape)}
        for byte in range(dtype.itemsize)
    }
    offsets = np.arange(-40, extent.nbytes + 40)
    for width in (1, 2, 4, 8):
        wanted = [all(offset + byte in shown for byte in range(width)) for offset in offsets.tolist()]
        assert extent.holds(offsets.astype(np.uint64), width).tolist() == wanted, width
        inside = offsets[wanted].astype(np.uint64)
        assert not inside.size or extent.holds_all(inside, width)
        assert not extent.holds_all(offsets.astype(np.uint64), width)


@given(shape=st.lists(st.integers(1, 7), min_size=1, max_size=3), gaps=st.lists(st.integers(0, 3), max_size=3))
def test_the_place_of_an_element_is_its_index(shape: list[int], gaps: list[int]) -> None:
    padded = [size + gap for size, gap in zip(shape, [*gaps, 0, 0, 0], strict=False)]
    tensor = torch.empty(padded)[tuple(slice(size) for size in shape)]
    extent = extent_of("x", 1, tensor)
    for index in np.ndindex(*shape):
        found, beside = extent.place_of(tensor[index].data_ptr() - tensor.data_ptr())
        # Where an axis has one element, its stride says nothing.
        assert tensor[found].data_ptr() == tensor[index].data_ptr()
        assert beside == 0


def test_places_outside_say_on_which_axis() -> None:
    rows = extent_of("x", 1, torch.empty(25, 64)[:, :40])
    assert rows.place_of(4 * 40) == ((0, 40), 0)
    assert rows.place_of(4 * 64 * 25) == ((25, 0), 0)
    assert rows.place_of(-4) == ((-1, 63), 0)
    assert extent_of("x", 1, torch.empty(10, 2)[:, 0]).place_of(4) == ((0,), 1)
    assert extent_of("x", 1, torch.empty(7)).place_of(28) == ((7,), 0)
    assert extent_of("x", 1, torch.empty(())).place_of(4) == ((), 0)


# -- the bookkeeping of a launch -------------------------------------------------------------------------------------


def access(kind: str = "load", width: int = 4, program: int = 0) -> Access:
    return Access(kind, width, program, (7, "kernel.py"))  # type: ignore[arg-type]


def lanes(pointer: np.uint64, *offsets: int) -> np.ndarray:
    return np.array([int(pointer) + 4 * offset for offset in offsets], dtype=np.uint64)


def look(guard: Guard, one: Access, pointers: np.ndarray, *masked: int) -> list[bool]:
    """Which lanes may go on."""
    active = np.array([place not in masked for place in range(pointers.size)])
    plain, allowed = guard.access(one, pointers, active, np.zeros(pointers.shape, np.float32))
    assert (plain < 1 << 48).all()
    return (active if allowed is None else allowed).tolist()


@pytest.mark.parametrize("axis", [0, 1])
def test_slices_that_lie_far_apart_have_gaps_between_them(axis: int) -> None:
    tensor = far_apart(torch.zeros(4, 3, 6, dtype=torch.float16)[:, :, :5], axis)
    extent = extent_of("x", 1, tensor)
    places = [sum(i * step for i, step in zip(index, tensor.stride(), strict=True)) for index in np.ndindex(4, 3, 5)]
    beside = [one for one in {place + step for place in places for step in (-1, 1)} if one not in places]
    offsets = np.array([*places, *beside, 999_999_999, -(1 << 31)], dtype=np.int64).astype(np.uint64) * np.uint64(2)
    assert extent.holds(offsets, 2).tolist() == [True] * len(places) + [False] * (len(offsets) - len(places))
    assert extent.holds_all(offsets[: len(places)], 2)
    # Two elements at once: the second one of a slice's last two lies behind it.
    last = np.array([places[-1] - 1, places[-1]], dtype=np.uint64) * np.uint64(2)
    assert extent.holds(last, 4).tolist() == [True, False]


def test_bytes_are_counted_access_by_access_and_once() -> None:
    guard = Guard("kernel")
    x, y = torch.empty(8), torch.empty(8)
    x_ptr, y_ptr = guard.admit("x", x), guard.admit("y", y)
    look(guard, access(), lanes(x_ptr, 0, 1, 2, 3), 3)
    look(guard, access(), lanes(x_ptr, 2, 2, 9, 4))
    look(guard, access("store"), lanes(y_ptr, 0, 1))
    look(guard, access("store"), lanes(y_ptr, 1, 2))
    look(guard, access("atomic"), lanes(y_ptr, 7))
    guard.dot(64, 2)
    moved = guard.finish()
    assert (moved.loaded_bytes, moved.unique_loaded_bytes) == (4 * (3 + 2 + 1), 4 * (4 + 1))
    assert (moved.stored_bytes, moved.unique_stored_bytes) == (4 * (4 + 1), 4 * (3 + 1))
    assert (moved.dot_flops, moved.dots, moved.complete) == (64, 2, True)


def test_what_came_after_a_mark_is_forgotten() -> None:
    guard = Guard("kernel")
    x_ptr = guard.admit("x", torch.empty(8))
    guard.compute(100, special=False)
    mark = guard.mark()
    look(guard, access("store", program=3), lanes(x_ptr, 0))
    guard.dot(64)
    guard.compute(10, special=True)
    guard.compute(10, special=False)
    guard.go_back(mark)
    moved = guard.finish()
    assert (moved.stored_bytes, moved.dot_flops, moved.dots) == (0, 0, 0)
    assert (moved.exponentials, moved.operations) == (0, 100)


def test_lanes_of_one_load_that_name_one_address_fetch_it_once_and_atomics_each() -> None:
    guard = Guard("kernel")
    pointer = guard.admit("lengths", torch.empty(8))
    look(guard, access(), lanes(pointer, 3, 1, 3, 1, 1, 2))
    assert guard.finish().loaded_bytes == 4 * 3
    look(guard, access(), lanes(pointer, 3))
    assert guard.finish().loaded_bytes == 4 * 4
    look(guard, access("atomic"), lanes(pointer, 5, 5))
    assert (guard.finish().loaded_bytes, guard.finish().stored_bytes) == (4 * 6, 4 * 2)


def test_two_views_of_one_memory_are_counted_once_and_by_bytes() -> None:
    guard = Guard("kernel")
    whole = torch.empty(8)
    one, other = guard.admit("whole", whole), guard.admit("half", whole.view(torch.float16)[4:])
    look(guard, access(), lanes(one, 0, 1, 2, 3))
    look(guard, access(width=2), lanes(other, 0, 1))
    assert guard.finish().unique_loaded_bytes == 16
    assert guard.finish().loaded_bytes == 20


def test_a_launch_too_large_to_follow_is_still_counted_and_guarded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("grader.interpreter.accesses.guard._MOST_LANES", 5)
    guard = Guard("kernel")
    x_ptr = guard.admit("x", torch.empty(4))
    for program in range(3):
        look(guard, access("store", program=program), lanes(x_ptr, 0, 1, 2))
    assert look(guard, access(), lanes(x_ptr, 3, 4)) == [True, False]
    moved = guard.finish()
    assert (moved.stored_bytes, moved.unique_stored_bytes, moved.complete) == (36, 0, False)
    assert [one.kind for one in guard.findings] == ["load"]


def test_a_flood_of_loads_hides_no_race(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("grader.interpreter.accesses.guard._MOST_LANES", 12)
    guard = Guard("kernel", grid=(2, 1, 1))
    x_ptr, flood_ptr = guard.admit("x", torch.empty(2)), guard.admit("flood", torch.empty(4))
    for program in range(2):
        for _ in range(8):
            look(guard, access(program=program), lanes(flood_ptr, 0, 1, 2, 3))
        look(guard, access(program=program), lanes(x_ptr, 0))
        look(guard, access("store", program=program), lanes(x_ptr, 0))
    moved = guard.finish()
    assert (moved.loaded_bytes, moved.complete, guard.meets) == (264, False, True)
    assert {one.kind for one in guard.findings} == {"race"}


def test_a_flood_of_equal_stores_hides_no_race(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("grader.interpreter.accesses.guard._MOST_LANES", 40)
    guard = Guard("kernel", grid=(2, 1, 1))
    x_ptr, flood_ptr = guard.admit("x", torch.empty(2)), guard.admit("flood", torch.empty(8))
    for program in range(2):
        look(guard, access(program=program), lanes(x_ptr, 0))
        look(guard, access("store", program=program), lanes(x_ptr, 0))
        for _ in range(16):
            look(guard, access("store", program=program), lanes(flood_ptr, *(4 * program + lane for lane in range(4))))
    moved = guard.finish()
    assert (moved.stored_bytes, moved.complete, guard.meets) == (520, False, True)
    assert [(one.kind, one.argument) for one in guard.findings] == [("race", "x")]


def test_loads_of_one_address_by_many_lanes_hide_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("grader.interpreter.accesses.guard._MOST_LANES", 10)
    guard = Guard("kernel", grid=(2, 1, 1))
    x_ptr = guard.admit("x", torch.empty(4))
    look(guard, access("store", program=0), lanes(x_ptr, 0))
    for _ in range(4):
        look(guard, access(program=1), lanes(x_ptr, *[1] * 8))
    look(guard, access(program=1), lanes(x_ptr, 0))
    moved = guard.finish()
    assert (moved.loaded_bytes, moved.unique_loaded_bytes, moved.complete) == (20, 8, True)
    assert [one.kind for one in guard.findings] == ["race"]


def test_a_line_is_told_once_for_each_kind_and_not_endlessly() -> None:
    guard = Guard("kernel")
    x_ptr = guard.admit("x", torch.empty(4))
    for line in range(20):
        for _ in range(2):
            look(guard, Access("load", 4, 0, (line, "kernel.py")), lanes(x_ptr, 4))
    assert [one.line for one in guard.findings] == list(range(8))


@pytest.mark.parametrize(("kind", "past"), [("load", 2), ("store", 4), ("atomic", 6)])
def test_a_pointer_to_a_wider_type_is_aligned_to_it(kind: str, past: int) -> None:
    """A GPU stops at such an access, also where all of it lies inside the tensor."""
    guard, x = Guard("k"), torch.zeros(64, dtype=torch.float16)
    x_ptr = guard.admit("x", x)
    wide = access(kind, width=8)
    said = f"{kind} of 8 bytes must begin at an address that is a multiple of 8, and this one is {past} bytes past one"
    missed = lanes(x_ptr + np.uint64(past), 0, 2)
    with pytest.raises(ValueError, match=said):
        look(guard, wide, missed)
    assert guard.access_in_lockstep(wide, np.arange(1), missed[None], np.ones((1, 2), dtype=bool)) is None
    assert look(guard, wide, lanes(x_ptr, 0, 2)) == look(guard, access(kind, width=2), missed) == [True, True]


@pytest.mark.parametrize("width", [0, -1, np.uint64(2**61), np.int64(1), 1.0, True, None])
def test_a_width_that_is_no_number_of_bytes_is_refused(width: Any) -> None:
    """Such widths wrap around in the guard's arithmetic: what lies outside would seem to lie inside."""
    guard, x = Guard("k"), torch.zeros(4)
    pointers = np.array([guard.admit("x", x)], np.uint64) + np.uint64(1 << 20)
    with pytest.raises(TypeError, match="whole number of bytes"):
        guard.access(Access("store", width, 0, (1, "")), pointers, np.ones(1, dtype=bool), np.zeros(1))


def test_an_address_of_its_own_making_may_lie_in_any_of_the_tensors() -> None:
    guard = Guard("kernel")
    x, y = torch.empty(4), torch.empty(4)
    guard.admit("x", x)
    guard.admit("y", y)
    assert look(guard, access(), lanes(np.uint64(y.data_ptr()), 0, 3)) == [True, True]
    assert look(guard, access(), np.array([x.data_ptr(), y.data_ptr() + 12, 4096], dtype=np.uint64)) == [
        True,
        True,
        False,
    ]
    assert not guard.strayed
    look(guard, access("store"), np.array([4096], dtype=np.uint64))
    assert guard.strayed


@pytest.mark.parametrize("start", [0x238B2AC0, 0x5619_2DD8_4D80, 0xFFFF_9000_0000], ids=hex)
@pytest.mark.parametrize("strayed", [-(1 << 33), -(1 << 46), 1 << 33, 1 << 46], ids=hex)
def test_a_pointer_that_strays_far_is_still_its_tensors_wherever_that_lies(start: int, strayed: int) -> None:
    """The heap of an interpreter that is not position-independent begins near 0; on arm64, mappings end high."""
    guard = Guard("kernel")
    for name in "xyz":
        guard.admit(name, torch.empty(4))
    y = guard.extents[2] = replace(guard.extents[2], start=start)
    first = int(y.tagged)
    assert look(guard, access(), np.array([first, first + strayed], np.uint64)) == [True, False]
    assert look(guard, access("store"), np.array([first + strayed, first], np.uint64)) == [False, True]
    assert [(one.argument, one.element) for one in guard.findings] == [("y", strayed // 4)] * 2


def test_programs_are_told_by_their_place_in_the_grid() -> None:
    guard = Guard("kernel", grid=(2, 3, 4))
    x_ptr = guard.admit("x", torch.empty(4))
    look(guard, access(program=23), lanes(x_ptr, 4))
    assert (guard.findings[0].program, guard.findings[0].grid) == ((1, 2, 3), (2, 3, 4))
    guard = Guard("kernel", grid=(6, 1, 1))
    look(guard, access(program=5), lanes(guard.admit("x", torch.empty(4)), 4))
    assert (guard.findings[0].program, guard.findings[0].grid) == ((5,), (6,))


# -- words -----------------------------------------------------------------------------------------------------------

TAIL = GuardFinding(
    "load", "add_kernel", 16, "x = tl.load(p)", (7,), "x_ptr", (1000,), (1000,), 1000, 1000, 24, 128, False
)


def told(**changes: object) -> Cause:
    cause = cause_of((GuardFinding(**{**vars(TAIL), "grid": (8,), **changes}),))  # type: ignore[arg-type]
    assert cause is not None
    return cause


def test_nothing_found_is_no_cause() -> None:
    assert cause_of(()) is None


def test_a_finding_says_line_kernel_program_argument_index_shape_and_lanes() -> None:
    cause = told()
    assert cause.title == "A load outside x_ptr"
    assert cause.rationale == (
        "Line 16 (add_kernel), `x = tl.load(p)`: program 7 loads x_ptr[1000], but x_ptr has the shape [1000]; "
        "24 of the 128 active lanes lie outside."
    )
    assert (cause.expected, cause.actual) == ("x_ptr[0…999]", "x_ptr[1000]")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "needs a mask that covers the tail"),
        ({"masked": True}, "The mask lets lanes without an element through"),
        ({"program": (3,)}, "Only the last of the 8 programs should have a tail"),
        # In two dimensions the last tile of a row is no last program.
        ({"program": (3,), "shape": (25, 40), "index": (25, 0)}, "needs a mask that covers the tail"),
        ({"lanes": 128}, "does the grid start more programs than there are blocks?"),
        ({"lanes": 128, "element": 4000}, "Is an offset multiplied twice"),
        ({"element": 7, "elements": 1, "shape": (), "index": (), "lanes": 1}, "there are 8 programs for a tensor of 1"),
        (
            {"lanes": 128, "shape": (5, 5, 40), "index": (5, 0, 0), "program": (3,)},
            "which batch, head or tile does this program take",
        ),
        ({"element": -1, "index": (-1,)}, "can an offset, or an index from a table, be negative"),
        ({"element": -(2**31) + 5}, "wrap around in 32 bits"),
        ({"element": 2**31 + 5}, "wrap around in 32 bits"),
        ({"element": 7 - 2**32, "elements": 8}, "4,294,967,296 elements further lies an element of the tensor"),
        ({"element": 40, "shape": (25, 40), "index": (0, 40), "elements": 1576}, "do not lie side by side"),
        ({"element": 998, "elements": 999, "wide": True}, "cast to a wider type"),
        ({"clipped": True, "masked": True}, "needs boundary_check"),
        ({"clipped": True, "masked": True, "lanes": 128}, "and boundary_check cannot help there"),
        ({"shape": (25, 40), "index": (1, 0), "element": 40, "elements": 40}, "a stride is 0"),
        ({"shape": (0,), "element": 0, "elements": 0}, "This tensor is empty"),
    ],
)
def test_the_help_names_what_is_likely_behind_it(changes: dict[str, object], said: str) -> None:
    assert said in told(**changes).help


def test_a_claimed_finding_whose_program_has_no_place_in_its_grid_has_a_cause_too() -> None:
    assert told(program=(), element=1000, elements=3).title == "A load outside x_ptr"


def test_gaps_lone_accesses_and_nameless_tensors_read_well() -> None:
    assert (
        "stores to the gap 1 element behind z_ptr[0], but z_ptr has"
        in told(kind="store", argument="z_ptr", index=(0,), beside=1, element=1, elements=1999).rationale
    )
    assert told(index=(0, 3), shape=(25, 40), lanes=1, active_lanes=1).rationale.endswith("has the shape [25, 40].")
    assert told(lanes=1).rationale.endswith("1 of the 128 active lanes lies outside.")
    nameless = told(argument="", index=(), shape=(), element=0, elements=0)
    assert nameless.title == "A load at an address outside all of the kernel's tensors"
    assert "program 7 loads an address outside all tensors" in nameless.rationale
    assert told(kind="atomic").title == "An atomic outside x_ptr"
    assert told(shape=(0, 7), elements=0).expected == "no element"


def test_one_tensor_alone_that_is_accessed_one_element_too_far_is_shifted() -> None:
    beyond = replace(TAIL, grid=(8,), masked=True, lanes=1)
    assert clues_of([beyond])[0].kind == "position_shifted"
    assert clues_of([beyond, replace(beyond, line=17, argument="y_ptr")])[0].kind == "missing_mask"
    assert clues_of([replace(beyond, lanes=3)])[0].kind == "missing_mask"


def test_a_single_element_outside_lacks_no_mask() -> None:
    alone = replace(TAIL, grid=(8,), lanes=1, active_lanes=1)
    assert clues_of([alone])[0].kind == "wrong_address"
    assert clues_of([replace(alone, masked=True, active_lanes=128)])[0].kind == "position_shifted"


def test_an_offset_that_wrapped_around_is_told_beside_other_mistakes_too() -> None:
    far = replace(TAIL, shape=(2, 2**31), elements=2**32, lanes=4, active_lanes=4)
    (wrapped,) = clues_of([replace(far, element=-(2**31))])
    assert (wrapped.kind, wrapped.firm) == ("offset_overflow", True)
    assert not any(one.firm for one in clues_of([replace(far, element=-(2**33))]) if one.kind == "offset_overflow")


RACE = {"kind": "race", "access": "load", "other_access": "store", "other_program": (2,), "other_line": 17, "lanes": 3}


def test_a_race_says_who_meets_whom_where() -> None:
    cause = told(**RACE, index=(4,))
    assert (cause.kind, cause.title) == ("race", "Programs race for x_ptr")
    assert cause.rationale == (
        "Line 16 (add_kernel), `x = tl.load(p)`: program 7 loads x_ptr[4] and 2 more elements (x_ptr has the shape "
        "[1000]), which program 2 stores to in line 17; their order is not fixed."
    )
    assert "use tl.atomic_add" in cause.help


@pytest.mark.parametrize(
    ("one", "other", "said"),
    [
        ("store", "store", "check whether tiles overlap"),
        ("atomic", "store", "Make every access to it atomic"),
        ("load", "atomic", "Make every access to it atomic"),
        ("store", "load", "a second launch"),
    ],
)
def test_the_help_for_a_race_depends_on_what_meets(one: str, other: str, said: str) -> None:
    assert said in told(**{**RACE, "access": one, "other_access": other}).help


def test_a_race_for_a_scalar_in_one_line_reads_well() -> None:
    found = told(**{**RACE, "other_line": 16, "lanes": 1, "other_program": (0, 1)}, index=(), shape=())
    assert "program 7 loads x_ptr, which program (0, 1) stores to in the same line;" in found.rationale


def test_claims_of_a_hostile_child_are_cleaned_and_shown() -> None:
    forged = told(argument="\x1b[31mx", code="`\n::error::", kernel="k\x00", element=10**400, elements=10**400, grid=())
    assert "\x1b" not in f"{forged.title}{forged.rationale}"
    assert "\n" not in forged.rationale
    assert told(program=(), grid=(3,), shape=(5,)).help
