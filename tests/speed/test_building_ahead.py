"""What baselines build for each size is built before the first question, and gives way to whoever times."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from grader import machine
from grader.exercise.catalogue import resolve
from grader.speed import baseline_main
from grader.speed.lock import GpuLock
from tests.conftest import ROOT

UUID = "GPU-of-a-test"


@pytest.fixture
def channel() -> Iterator[tuple[socket.socket, socket.socket]]:
    """The process's end, and the grader's."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


@pytest.fixture(autouse=True)
def gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[], GpuLock]:
    """As on a machine with a GPU and cores enough; returns what makes its lock."""
    monkeypatch.setattr(machine, "find_gpu", lambda: SimpleNamespace(uuid=UUID))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    monkeypatch.setattr(torch.cuda, "set_per_process_memory_fraction", lambda _: None)
    monkeypatch.setattr(baseline_main, "GpuLock", lambda uuid: GpuLock(uuid, tmp_path))
    return lambda: GpuLock(UUID, tmp_path)


class Building:
    """A state with three things to build, one after another unless in groups; notes what was built.

    then: done at each of them.
    """

    def __init__(self, then: Callable[[int], object] = lambda place: None, *, groups: int = 1) -> None:
        self.built: list[int] = []
        self._then = then
        self._groups = groups

    def builds(self, parts: tuple[str, ...]) -> list[list[Callable[[], None]]]:
        builds = [partial(self._build, place) for place in range(3)]
        return [[*builds[first :: self._groups]] for first in range(self._groups)]

    def _build(self, place: int) -> None:
        self.built.append(place)
        self._then(place)


def build_ahead(state: Any, channel: tuple[socket.socket, socket.socket]) -> list[int]:
    baseline_main._build_ahead(state, (), channel[0])
    built: list[int] = state.built
    return built


def test_everything_is_built_while_nobody_asks(channel: tuple[socket.socket, socket.socket]) -> None:
    assert build_ahead(Building(), channel) == [0, 1, 2]


def test_the_first_question_ends_it(channel: tuple[socket.socket, socket.socket]) -> None:
    assert build_ahead(Building(lambda place: place == 1 and channel[1].send(b"?")), channel) == [0, 1]


def test_groups_are_built_beside_each_other(channel: tuple[socket.socket, socket.socket]) -> None:
    together = threading.Barrier(3)
    state = Building(lambda _: together.wait(timeout=20.0), groups=3)
    assert sorted(build_ahead(state, channel)) == [0, 1, 2]


def test_a_part_that_builds_nothing_is_no_fault(channel: tuple[socket.socket, socket.socket]) -> None:
    assert build_ahead(Building(groups=0), channel) == []


def test_nothing_is_built_while_another_grader_times(
    channel: tuple[socket.socket, socket.socket], gpu: Callable[[], GpuLock]
) -> None:
    channel[1].send(b"?")
    with gpu().exclusive():
        assert build_ahead(Building(), channel) == []


def test_with_few_cores_the_submission_gets_all_of_them(
    channel: tuple[socket.socket, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    assert build_ahead(Building(), channel) == []


def test_each_size_of_the_parts_that_are_graded_is_built_once() -> None:
    entry, _ = resolve(ROOT, "ex_18")
    state = baseline_main._State(entry)
    forward, backward = (len(part.speed_bands[0].suite.named_cases) for part in entry.exercise.parts)
    # cuDNN for both parts, which switches torch, and our fastest for each.
    assert sorted(map(len, state.builds(()))) == sorted((forward + backward, forward, backward))
    assert [*map(len, state.builds(("attention_backward",)))] == [backward, backward]


def test_what_fails_to_build_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def broken(name: str, *_: object) -> object:
        asked.append(name)
        raise RuntimeError("no plan")

    entry, _ = resolve(ROOT, "ex_18")
    state = baseline_main._State(entry)
    monkeypatch.setattr(baseline_main.baselines, "function_of", broken)
    monkeypatch.setattr(baseline_main.baselines, "unmet_requirement", lambda *_: "")
    builds = [build for group in state.builds(()) for build in group]
    for build in builds:
        build()
    assert len(asked) == len(builds) > 0
