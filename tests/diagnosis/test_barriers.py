"""On a GPU, a load of what another thread has stored is right with a barrier between the two."""

from __future__ import annotations

import ast

import pytest

from grader.diagnosis.edits.edited import Edited
from grader.diagnosis.probes.barriers import loaded_again, missing_barrier, with_barriers
from grader.exercise.catalogue import Entry
from grader.protocol.requests import Recipe
from grader.sandbox.server import ForkServer
from tests.benches import VECTOR_ADD, bench_of
from tests.diagnosis.test_padding import VECTORS

THROUGH_MEMORY = VECTOR_ADD.replace(
    "    y",
    "    tl.store(z_ptr + offsets,\n        x, mask=mask)\n    x = tl.load(z_ptr + offsets, mask=mask)\n    y",
    1,
)
STORE, LOAD = 11, 12


def lines_of(text: str) -> list[tuple[int | None, int]]:
    return [(store.end_lineno, load.lineno) for store, load in loaded_again(text)]


def test_a_load_of_what_was_stored_is_found_unless_a_barrier_is_between() -> None:
    assert lines_of(VECTOR_ADD) == []
    assert lines_of(THROUGH_MEMORY) == [(STORE, LOAD)]
    assert lines_of(THROUGH_MEMORY.replace("    x = tl.load(z", "    tl.debug_barrier()\n    x = tl.load(z")) == []


def test_the_barrier_stands_behind_the_whole_store() -> None:
    ((store, _),) = loaded_again(THROUGH_MEMORY)
    text = with_barriers(THROUGH_MEMORY, [store])
    assert text.splitlines()[STORE] == "    tl.debug_barrier()"
    assert lines_of(text) == []
    assert ast.parse(text)


def test_a_call_that_a_barrier_makes_right_names_the_two_lines(
    server: ForkServer, ex_15: Entry, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The interpreter has no threads: it is told which text is right.
    asked: list[str] = []

    def is_right(_: Edited, text: str, most_s: float, *, in_kernel: bool) -> bool:
        asked.append(text)
        return in_kernel and most_s > 1 and "debug_barrier" in text

    monkeypatch.setattr(Edited, "is_right", is_right)
    recipe = Recipe("vector_add", dict(VECTORS), 5)
    with bench_of(server, ex_15, THROUGH_MEMORY) as bench:
        clue = missing_barrier(bench, recipe, THROUGH_MEMORY)
        assert missing_barrier(bench, recipe, VECTOR_ADD) is None
        assert missing_barrier(bench, recipe, "x = (") is None
    assert clue is not None
    assert clue.confirmed
    assert f"between lines {STORE} and {LOAD}" in clue.evidence
    assert len(asked) == 1
    # The edited text runs as it is.
    monkeypatch.undo()
    with bench_of(server, ex_15, THROUGH_MEMORY) as bench:
        assert Edited.of(bench, recipe).is_right(asked[0], 20.0, in_kernel=True)
