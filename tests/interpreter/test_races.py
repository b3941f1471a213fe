"""Races: two programs meet at one address, one of them stores, nothing orders them; found as the definition says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from grader.interpreter.accesses.guard import Guard
from grader.interpreter.accesses.races import Access, Heed, Order
from grader.judge.access_findings import clues_of
from grader.protocol.observations import GuardFinding

pytestmark = pytest.mark.process

ELEMENTS = 4


@dataclass(frozen=True)
class Step:
    """What one program does to some elements; a barrier, to none. order, heeded: of an atomic."""

    program: int
    kind: str
    elements: tuple[int, ...]
    value: int = 0
    order: Order = "orders"
    heeded: bool = True

    @property
    def waits(self) -> bool:
        return self.kind == "wait"


def load(program: int, *elements: int) -> Step:
    return Step(program, "load", elements or (0,))


def store(program: int, *elements: int, value: int | None = None) -> Step:
    return Step(program, "store", elements or (0,), program if value is None else value)


def wait(program: int, *elements: int) -> Step:
    return Step(program, "wait", elements or (0,))


def barrier(program: int) -> Step:
    return Step(program, "barrier", ())


def atomic(program: int, *elements: int, order: Order = "orders", heeded: bool = True) -> Step:
    return Step(program, "atomic", elements or (0,), 0, order, heeded)


def races(guard: Guard) -> list[GuardFinding]:
    """The races between programs; test_exchanges.py looks at those within one."""
    guard.finish()
    return [one for one in guard.findings if one.program != one.other_program]


def run(steps: Sequence[Step]) -> list[GuardFinding]:
    """The races among steps, taken in this order; each step's line is its place among them."""
    guard = Guard("kernel")
    pointer = int(guard.admit("x", torch.empty(ELEMENTS)))
    for line, step in enumerate(steps):
        if step.kind == "barrier":
            guard.pass_barrier([step.program])
            continue
        order = "waits" if step.waits else step.order if step.kind == "atomic" else "plain"
        access = Access(
            "load" if step.waits else step.kind,  # type: ignore[arg-type]
            4,
            step.program,
            (line, "kernel.py"),
            order,
            heed=Heed(step.heeded) if step.kind == "atomic" else None,
        )
        lanes = np.array([pointer + 4 * element for element in step.elements], dtype=np.uint64)
        values = np.full(lanes.shape, step.value, dtype=np.int32)
        guard.access(access, lanes, np.ones(lanes.shape, dtype=bool), values)
    return races(guard)


def pairs(steps: Sequence[Step]) -> set[tuple[int, int]]:
    return {(one.other_line, one.line) for one in run(steps)}


# -- by definition ---------------------------------------------------------------------------------------------------


def before(steps: Sequence[Step]) -> np.ndarray:
    """[i, j]: step i comes before step j in every legal order, j being the later one here."""
    comes = np.zeros((len(steps), len(steps)), dtype=bool)
    for j, later in enumerate(steps):
        knows = later.waits or (later.kind == "atomic" and later.order in ("orders", "acquires") and later.heeded)
        for i, earlier in enumerate(steps[:j]):
            hands_on = earlier.kind == "atomic" and earlier.order in ("orders", "releases")
            met = bool({*earlier.elements} & {*later.elements})
            comes[i, j] = earlier.program == later.program or (knows and hands_on and met)
        for flag in flags_of(steps, j):
            released = behind_a_barrier(steps, flag)
            comes[released, j] = True
    for k in range(len(steps)):
        comes |= comes[:, k : k + 1] & comes[k]
    # A flag that was seen was set, and tells nothing else of its program.
    for j in range(len(steps)):
        for flag in flags_of(steps, j):
            comes[flag] |= comes[j]
            comes[flag, j] = True
    return comes


def flags_of(steps: Sequence[Step], waiting: int) -> list[int]:
    """The stores that set what a step waits for."""
    flags = []
    for element in steps[waiting].elements if steps[waiting].waits else ():
        found = [i for i, one in enumerate(steps[:waiting]) if one.kind == "store" and one.elements == (element,)]
        flags += found[-1:]
    return flags


def behind_a_barrier(steps: Sequence[Step], flag: int) -> list[int]:
    """The steps of a flag's program that a barrier divides from it."""
    own = [i for i, one in enumerate(steps[:flag]) if one.program == steps[flag].program]
    barriers = [i for i in own if steps[i].kind == "barrier"]
    return [i for i in own if barriers and i < barriers[-1]]


def by_definition(steps: Sequence[Step]) -> set[tuple[int, int]]:
    comes = before(steps)
    found = set()
    for i, j in combinations(range(len(steps)), 2):
        one, other = steps[i], steps[j]
        kinds = {one.kind, other.kind}
        mind = kinds != {"load"} and kinds != {"atomic"} and not kinds & {"wait", "barrier"}
        same = kinds == {"store"} and one.value == other.value
        met = {*one.elements} & {*other.elements}
        if met and mind and not same and one.program != other.program and not comes[i, j]:
            found.add((i, j))
    return found


STEPS = st.builds(
    Step,
    program=st.integers(0, 3),
    kind=st.sampled_from(["load", "store", "atomic", "atomic", "wait", "barrier"]),
    elements=st.sampled_from([(0,), (1,), (2,), (0, 1), (2, 3)]),
    value=st.integers(0, 1),
    order=st.sampled_from(["orders", "orders", "acquires", "releases", "plain"]),
    heeded=st.booleans(),
)


@settings(max_examples=600)
@given(st.lists(STEPS, max_size=16))
def test_every_race_is_found_and_nothing_else(steps: list[Step]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("grader.interpreter.accesses.guard._MOST_FINDINGS", 1000)
        assert pairs(steps) == by_definition(steps)


# -- by name ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param([store(0), load(1)], id="a_load_of_what_another_stored"),
        pytest.param([load(0), store(1)], id="a_store_to_what_another_loaded"),
        pytest.param([store(0), store(1)], id="two_stores"),
        pytest.param([store(0), atomic(1, heeded=False)], id="a_store_and_an_atomic"),
        pytest.param([store(0), atomic(0, heeded=False), atomic(1, heeded=False)], id="cleared_by_one_added_to_by_all"),
        pytest.param([atomic(0), load(1)], id="an_atomic_and_a_load"),
        pytest.param([atomic(0, order="plain"), atomic(1, order="plain"), load(1)], id="an_atomic_a_program_before"),
        pytest.param(
            [store(0), atomic(0, 1, order="plain"), atomic(1, 1, order="plain"), load(1)], id="a_relaxed_ticket"
        ),
        pytest.param([store(0), atomic(0, 1), atomic(1, 1, heeded=False), load(1)], id="an_unheeded_ticket"),
        pytest.param(
            [store(0), atomic(0, 1, order="acquires"), atomic(1, 1, order="acquires"), load(1)], id="nobody_releases"
        ),
        pytest.param(
            [store(0), atomic(0, 1, order="releases"), atomic(1, 1, order="releases"), load(1)], id="nobody_acquires"
        ),
        pytest.param([store(0), atomic(0, 1), atomic(1, 2), load(1)], id="two_different_tickets"),
        pytest.param([atomic(0, 1), store(0), atomic(1, 1), load(1)], id="stored_after_the_ticket"),
        pytest.param([store(0), atomic(0, 1), load(1), atomic(1, 1)], id="loaded_before_the_ticket"),
        pytest.param([store(0), store(0, 1), load(1)], id="a_flag_that_nobody_waits_for"),
        pytest.param([store(0), *[load(0)] * 99, *[load(1)] * 99, store(1)], id="behind_many_loads"),
        pytest.param([wait(1, 1), store(0), barrier(0), store(0, 1), load(1)], id="waited_too_early"),
        pytest.param([store(0), store(0, 1), wait(1, 1), load(1)], id="a_flag_that_other_threads_do_not_wait_for"),
        pytest.param([barrier(0), store(0), store(0, 1), wait(1, 1), load(1)], id="a_barrier_too_early"),
    ],
)
def test_it_is_a_race(steps: list[Step]) -> None:
    assert pairs(steps)


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param([load(0), load(1), load(2)], id="loads"),
        pytest.param([atomic(0), atomic(1, order="plain"), atomic(2)], id="atomics"),
        pytest.param([store(0), load(0), store(0), atomic(0)], id="one_program"),
        pytest.param([store(0, 0), load(1, 1), store(2, 2)], id="different_elements"),
        pytest.param([store(0, 0, 1, value=7), store(1, 1, 2, value=7)], id="equal_values"),
        pytest.param([store(0), atomic(0, 1), atomic(1, 1), load(1), store(1)], id="a_ticket"),
        pytest.param(
            [store(0), atomic(0, 1, order="releases"), atomic(1, 1, order="acquires"), load(1)], id="a_ticket_by_halves"
        ),
        pytest.param(
            [store(0), atomic(0, 1), atomic(1, 1, order="acquires"), atomic(2, 1, order="acquires"), load(2)],
            id="handed_on_by_one_who_only_acquires",
        ),
        pytest.param([store(0), atomic(0, 1, heeded=False), wait(1, 1), load(1)], id="a_flag_set_by_an_atomic"),
        pytest.param([store(0), barrier(0), store(0, 1), wait(1, 1), load(1)], id="a_flag_set_by_a_store"),
        pytest.param(
            [store(0), atomic(0, 1), store(1, 2), atomic(1, 1), atomic(2, 1), load(2), load(2, 2)],
            id="a_ticket_of_three",
        ),
        pytest.param(
            [store(0), atomic(0, 1, heeded=False), atomic(1, 1, heeded=False), atomic(2, 1), load(2)],
            id="handed_on_by_one_that_does_not_look",
        ),
        pytest.param(
            [store(0), barrier(0), store(0, 1), wait(1, 1), barrier(1), store(1, 2), wait(2, 2), load(2)],
            id="a_chain_of_flags",
        ),
        pytest.param([store(0), wait(1), store(1)], id="a_flag_that_is_taken_back"),
        pytest.param(
            [atomic(0, 1), load(0), store(0), atomic(0, 1), atomic(1, 1), load(1), store(1), atomic(1, 1)], id="a_lock"
        ),
        pytest.param([atomic(0), atomic(1), store(1)], id="the_last_one_resets_the_counter"),
    ],
)
def test_it_is_no_race(steps: list[Step]) -> None:
    assert run(steps) == []


def test_what_was_read_after_another_stored_it_is_told_before_other_pairs_of_the_same_lines() -> None:
    steps = [load(0), store(0), load(1), store(1)]
    guard = Guard("kernel")
    pointer = guard.admit("x", torch.empty(ELEMENTS))
    for place, step in enumerate(steps):
        one = Access(step.kind, 4, step.program, (place % 2, "kernel.py"))  # type: ignore[arg-type]
        guard.access(one, np.array([pointer]), np.ones(1, dtype=bool), np.array([step.value], dtype=np.int32))
    guard.finish()
    told = [(one.access, one.line, one.other_access, one.other_line) for one in guard.findings]
    assert told == [("load", 0, "store", 1), ("store", 1, "store", 1)]


def test_a_race_names_both_programs_the_first_element_and_how_many_there_are() -> None:
    (found,) = run([store(0, 1, 2, 3), load(1, 0, 2, 3)])
    assert (found.program, found.other_program, found.index, found.lanes) == ((1,), (0,), (2,), 2)
    assert (found.access, found.other_access, found.shape, found.elements) == ("load", "store", (ELEMENTS,), ELEMENTS)


def test_an_update_is_what_both_programs_load_and_store() -> None:
    (read, *_) = run([load(0, 1), store(0, 1, value=1), load(1, 1), store(1, 1, value=2)])
    assert read.updates
    (used,) = run([store(0, 1), store(1, 2), load(1, 1, 2)])
    assert not used.updates
    assert clues_of([read])[0].kind == "lost_update"
    assert clues_of([used])[0].kind == "race"


def widths(*steps: tuple[int, str, int, int, np.ndarray]) -> list[GuardFinding]:
    """Races of (program, kind, width, byte offset, values)."""
    guard = Guard("kernel")
    pointer = int(guard.admit("x", torch.empty(8)))
    for line, (program, kind, width, offset, values) in enumerate(steps):
        lanes = pointer + offset + width * np.arange(values.size, dtype=np.uint64)
        one = Access(kind, width, program, (line, "kernel.py"))  # type: ignore[arg-type]
        guard.access(one, lanes, np.ones(lanes.shape, dtype=bool), values)
    return races(guard)


def test_bytes_meet_words() -> None:
    words, one = np.arange(8, dtype=np.int32), np.zeros(1, dtype=np.int8)
    (found,) = widths((0, "store", 4, 0, words), (1, "load", 1, 13, one))
    assert (found.index, found.lanes) == ((3,), 1)
    (found,) = widths((0, "load", 1, 13, one), (1, "store", 4, 0, words))
    assert (found.index, found.lanes) == ((3,), 1)
    assert widths((0, "store", 4, 0, words[:3]), (1, "load", 1, 13, one)) == []


def test_equal_words_are_no_race_though_a_byte_is_read_elsewhere() -> None:
    words, one = np.arange(4, dtype=np.int32), np.zeros(1, dtype=np.int8)
    assert widths((0, "store", 4, 0, words), (1, "store", 4, 4, words[1:]), (0, "load", 1, 1, one)) == []
    (found,) = widths((0, "store", 4, 0, words), (1, "store", 4, 4, words[1:] + 256), (0, "load", 1, 1, one))
    assert (found.line, found.other_line, found.lanes) == (1, 0, 3)


def test_equal_bits_of_not_a_number_are_equal_values() -> None:
    nan = np.full(2, np.nan, dtype=np.float32)
    assert widths((0, "store", 4, 0, nan), (1, "store", 4, 0, nan)) == []
    assert widths((0, "store", 4, 0, nan), (1, "store", 4, 0, -nan))


def test_a_race_far_apart_in_time_is_found_behind_ordered_accesses() -> None:
    # Between the two: so many harmless accesses of other programs that only the nearest can be compared.
    steps = [store(0), *(store(program, value=0) for program in range(1, 60)), load(60)]
    assert pairs(steps)


@pytest.mark.parametrize("most", [1, 1 << 24])
def test_what_lies_far_apart_is_numbered_without_what_is_between(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr("grader.interpreter.accesses.races._MOST_NUMBERS", most)
    assert pairs([store(0), load(1, 3), store(2, 3), load(0, 1)]) == {(1, 2)}
    words, one = np.arange(8, dtype=np.int32), np.zeros(1, dtype=np.int8)
    (found,) = widths((0, "store", 4, 0, words), (1, "load", 1, 13, one))
    assert (found.index, found.lanes) == ((3,), 1)


def test_a_thousand_programs_that_race_for_one_scalar_take_no_time() -> None:
    found = run([step for program in range(1000) for step in (load(program), store(program))])
    assert len(found) == 8


def test_a_ticket_of_hundreds_of_programs_is_no_race() -> None:
    steps = [step for program in range(300) for step in (store(program, 0, value=1), atomic(program, 1))]
    assert run([*steps, load(299)]) == []


def test_stores_that_meet_in_a_part_of_a_block_may_lack_a_mask_and_those_that_meet_in_all_of_it_do_not() -> None:
    part, whole = run([store(0, 1, 2), store(1, 2, 3)]), run([store(0, 1, 2), store(1, 1, 2)])
    assert [clue.kind for clue in clues_of(part)] == ["stores_collide", "missing_mask"]
    assert [clue.kind for clue in clues_of(whole)] == ["stores_collide"]
