"""What programs touch, taken from claims into the record, and the call that shows it best."""

from __future__ import annotations

from dataclasses import replace

from grader.exercise.cases import Case
from grader.exercise.catalogue import Entry
from grader.judge.coverage import coverage_of, coverage_of_wrong, more_telling
from grader.judge.failure import WrongCall
from grader.protocol.answers import Returned
from grader.protocol.footprint import MOST_ROWS, MOST_TILES, Footprint
from grader.protocol.observations import LaunchInfo
from grader.protocol.requests import Recipe
from grader.record.launches import Coverage
from grader.sandbox.outcome import Finished
from grader.sandbox.server import ForkServer
from tests.benches import VECTOR_ADD, bench_of
from tests.records.samples import HOSTILE, footprint

WHOLE = footprint(10, 4, 3)


def launched(*footprints: Footprint | None) -> list[LaunchInfo]:
    return [LaunchInfo("add_kernel", (3,), {}, None, one) for one in footprints]


def covering(one: Footprint) -> Coverage:
    found = coverage_of("N=10", launched(one))
    assert found is not None
    return found


def test_a_call_without_counted_launches_covers_nothing_known() -> None:
    assert coverage_of("N=10", launched(None)) is None


def test_launches_beyond_the_first_are_only_counted() -> None:
    found = coverage_of("N=10", launched(*[WHOLE] * 5, None))
    assert found is not None
    assert (len(found.launches), found.more) == (3, 3)


def test_names_are_cleaned_and_numbers_are_limited() -> None:
    one = replace(WHOLE.tensors[0], argument=HOSTILE, loaded=-5, elements=1 << 63)
    (tensor,) = covering(replace(WHOLE, idle=99, tensors=(one,))).launches[0].footprint.tensors
    assert "\x1b" not in tensor.argument
    assert (tensor.loaded, tensor.elements) == (0, 1 << 53)
    assert covering(replace(WHOLE, idle=99)).launches[0].footprint.idle == 3


def test_a_matrix_that_is_none_is_left_out_and_its_numbers_stay() -> None:
    one = replace(WHOLE.tensors[1], cells=("22", "x"))
    (tensor,) = covering(replace(WHOLE, tensors=(one,))).launches[0].footprint.tensors
    assert (tensor.cells, tensor.gaps, tensor.written) == ((), "", 10)


def test_the_cells_of_a_record_are_limited() -> None:
    row = "1" * MOST_TILES
    large = replace(WHOLE.tensors[0], shape=(MOST_TILES,), cells=(row,) * MOST_ROWS, gaps="0" * MOST_TILES, tile=(1, 1))
    found = coverage_of("N=64", launched(*[replace(WHOLE, tensors=(large,) * 6)] * 3))
    assert found is not None
    drawn = [one for launch in found.launches for one in launch.footprint.tensors if one.cells]
    assert len(drawn) == 3


def test_a_remainder_tells_more_than_full_blocks_and_several_programs_more_than_one() -> None:
    full, single = covering(footprint(12, 4, 3)), covering(footprint(4, 4, 1))
    tail = covering(WHOLE)
    assert more_telling(full, tail, single) is tail
    assert more_telling(single, full) is full


def test_a_grid_that_is_too_large_tells_most() -> None:
    wasteful = covering(footprint(10, 4, 3, idle=20))
    assert more_telling(covering(WHOLE), wasteful) is wasteful


def wrong_call(one: Footprint) -> WrongCall:
    answer = Returned("returned", (), (), (), tuple(launched(one)), ())
    return WrongCall(Recipe("vector_add", {"N": 10}, 3), Finished(answer, ()), ())


def test_missing_elements_are_lacking_where_they_may_be_the_wrong_ones() -> None:
    short = wrong_call(footprint(10, 4, 2))
    found = {
        (wrong, in_place): coverage_of_wrong(short, "vector_add.tail", wrong, in_place=in_place)
        for wrong, in_place in ((2, False), (1, False), (2, True))
    }
    assert {key: one and one.lacking for key, one in found.items()} == {
        (2, False): True,
        (1, False): False,
        (2, True): False,
    }


def test_the_bench_keeps_the_right_call_that_shows_most(server: ForkServer, ex_15: Entry) -> None:
    with bench_of(server, ex_15, VECTOR_ADD.replace("64", "256")) as bench:
        for length in (256, 1000, 1024):
            bench.try_case(Case({"N": length, "dtype": "float32", "values": "normal", "offset": 0}), 3)
        found = bench.findings.coverage
    assert found.words.startswith("N=1000")
    z = found.launches[0].footprint.tensors[-1]
    assert (z.argument, z.writers, z.most, z.fewer, z.written) == ("z_ptr", 4, 256, 1, 1000)
