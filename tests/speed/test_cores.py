"""Cores: the processes of a clock are kept apart where there is room, and are as free as before afterwards."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from grader.speed import cores
from grader.speed.cores import physical_cores, separate_cores, shares, stay_on

Pinned = list[tuple[int, set[int]]]


def topology(folder: Path, siblings: dict[int, str]) -> Path:
    for processor, listed in siblings.items():
        place = folder / f"cpu{processor}" / "topology"
        place.mkdir(parents=True)
        (place / "thread_siblings_list").write_text(f"{listed}\n", encoding="ascii")
    return folder


@pytest.fixture
def pinned(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Pinned:
    """Which process was put where, on a machine of as many cores as the test says; process 63 has ended."""
    found: Pinned = []

    def put(process: int, places: set[int]) -> None:
        if process == 63:
            raise ProcessLookupError
        found.append((process, set(places)))

    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(request.param)))
    monkeypatch.setattr(os, "sched_setaffinity", put)
    monkeypatch.setattr(cores, "physical_cores", list)
    return found


def test_of_every_core_the_first_processor_counts(tmp_path: Path) -> None:
    place = topology(tmp_path, {0: "0,4", 1: "1,5", 4: "0,4", 5: "1,5"})
    assert physical_cores([0, 1, 4, 5], place) == [0, 1]
    assert physical_cores([1, 4, 5], place) == [1, 4]


def test_without_a_topology_every_processor_is_a_core(tmp_path: Path) -> None:
    assert physical_cores([0, 1, 7], tmp_path) == [0, 1, 7]


@pytest.mark.parametrize("pinned", [8], indirect=True)
def test_everybody_gets_a_core_and_everybody_is_freed(pinned: Pinned, tmp_path: Path) -> None:
    with separate_cores([17, 500], tmp_path):
        inside = list(pinned)
        pinned.clear()
    assert [process for process, _ in inside] == [0, 17, 500]
    places = [place for _, place in inside]
    assert all(len(place) == 1 for place in places)
    assert len(set.union(*places)) == 3
    assert 0 not in set.union(*places)
    assert pinned == [(process, set(range(8))) for process in (0, 17, 500)]


@pytest.mark.parametrize("pinned", [1, 2, 4], indirect=True)
def test_where_cores_are_few_nobody_is_moved(pinned: Pinned, tmp_path: Path) -> None:
    with separate_cores([17, 500], tmp_path):
        pass
    assert pinned == []


@pytest.mark.parametrize("pinned", [8], indirect=True)
def test_a_process_that_has_ended_stops_nobody(pinned: Pinned, tmp_path: Path) -> None:
    with separate_cores([63, 500], tmp_path):
        assert [process for process, _ in pinned] == [0, 500]


@pytest.mark.parametrize("pinned", [8], indirect=True)
def test_an_error_inside_frees_everybody(pinned: Pinned, tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), separate_cores([17], tmp_path):
        raise ZeroDivisionError
    assert pinned[-2:] == [(0, set(range(8))), (17, set(range(8)))]


def places(pinned: Pinned) -> set[int]:
    return set.union(*(place for _, place in pinned))


@pytest.mark.parametrize("pinned", [16], indirect=True)
def test_two_graders_that_time_at_once_get_other_cores_and_the_next_gets_them(pinned: Pinned, tmp_path: Path) -> None:
    with separate_cores([17, 500], tmp_path):
        first = places(pinned)
        pinned.clear()
        with separate_cores([18, 501], tmp_path):
            assert len(places(pinned)) == 3
            assert not first & places(pinned)
    pinned.clear()
    with separate_cores([19, 502], tmp_path):
        assert places(pinned) == first


@pytest.mark.parametrize("pinned", [6], indirect=True)
def test_whoever_comes_when_the_cores_are_taken_is_moved_nowhere(pinned: Pinned, tmp_path: Path) -> None:
    with separate_cores([17, 500], tmp_path):
        pinned.clear()
        with separate_cores([18, 501], tmp_path):
            assert pinned == []


@pytest.fixture
def two_threads_each(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """32 processors; 0 and 16, 1 and 17 … are threads of one core."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(32)))
    return topology(tmp_path, {number: f"{number % 16},{number % 16 + 16}" for number in range(32)})


def test_graders_that_share_a_machine_get_whole_cores_of_their_own(two_threads_each: Path) -> None:
    first, second = (set(map(int, share.split(","))) for share in shares(2, two_threads_each))
    assert first == {*range(8), *range(16, 24)}
    assert second == {*range(8, 16), *range(24, 32)}


@pytest.mark.parametrize("count", [1, 4])
def test_a_grader_alone_and_graders_with_too_few_cores_for_timing_are_bound_to_none(
    count: int, two_threads_each: Path
) -> None:
    assert shares(count, two_threads_each) == ("",) * count


@pytest.mark.parametrize("pinned", [8], indirect=True)
def test_a_share_holds_as_far_as_it_is_there(pinned: Pinned) -> None:
    stay_on("6,7,8,9")
    stay_on("")
    stay_on("64")
    stay_on("what?")
    assert pinned == [(0, {6, 7})]


@pytest.mark.parametrize("pinned", [8], indirect=True)
@pytest.mark.parametrize(
    "lay", [lambda path: path.symlink_to("/x"), Path.mkdir, os.mkfifo], ids=["link", "folder", "pipe"]
)
def test_what_somebody_lays_where_graders_meet_stops_nobody(
    pinned: Pinned, tmp_path: Path, lay: Callable[[Path], None]
) -> None:
    for number in range(8):
        lay(tmp_path / f"grade-core-{number}")
    with separate_cores([17, 500], tmp_path):
        assert len(places(pinned)) == 3


@pytest.mark.parametrize("pinned", [6], indirect=True)
def test_claims_that_are_of_no_use_are_given_back(pinned: Pinned, tmp_path: Path) -> None:
    with separate_cores([17], tmp_path):
        pinned.clear()
        with separate_cores([18, 501, 502], tmp_path), separate_cores([19, 503], tmp_path):
            assert len(places(pinned)) == 3
