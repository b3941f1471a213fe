"""A wrong answer that depends on memory that nobody wrote is told so, and so is an output that is never stored."""

from __future__ import annotations

from dataclasses import replace

import pytest

from grader.diagnosis.probes.unwritten import unwritten_clues
from grader.exercise.cases import Case
from grader.exercise.catalogue import Entry
from grader.sandbox.server import ForkServer
from tests.benches import VECTOR_ADD, bench_of

CASE = Case({"N": 100, "dtype": "float32", "values": "normal", "offset": 0})
STORE = next(line.strip() for line in VECTOR_ADD.splitlines() if "tl.store" in line)


@pytest.mark.parametrize(
    ("instead", "kinds"),
    [
        (STORE.replace("x + y", "x + y + tl.load(z_ptr + offsets, mask=offsets < n)"), ["not_cleared"]),
        (STORE.replace("x + y", "x - y"), []),
        ("pass", ["zeros"]),
    ],
    ids=["read", "wrong for another reason", "never stored"],
)
def test_unwritten_memory_is_told_where_it_is_read_and_where_it_is_returned(
    server: ForkServer, ex_15: Entry, instead: str, kinds: list[str]
) -> None:
    with bench_of(server, ex_15, VECTOR_ADD.replace(STORE, instead), "vector_add") as bench:
        failure = bench.try_case(CASE, 5).failure
        assert failure
        assert [one.kind for one in unwritten_clues(bench, failure)] == kinds


OWN_NAN, QUOTIENT_OF_TWO = "x / 0.0 - x / 0.0", "tl.load(z_ptr + offsets, mask=offsets < n) / tl.load(z_ptr)"


@pytest.mark.parametrize(
    ("value", "is_refuted"), [(OWN_NAN, True), (QUOTIENT_OF_TWO, False)], ids=["its own NaN", "0 / 0 with zeros"]
)
def test_nan_that_stays_whatever_unwritten_memory_holds_does_not_come_from_there(
    server: ForkServer, ex_15: Entry, value: str, is_refuted: bool
) -> None:
    with bench_of(server, ex_15, VECTOR_ADD.replace(STORE, STORE.replace("x + y", value)), "vector_add") as bench:
        failure = bench.try_case(CASE, 5).failure
        assert failure
        refuted = [one.kind for one in unwritten_clues(bench, failure) if one.refutes]
        # What was never stored would hold what the memory held.
        assert refuted == (["not_cleared", "not_all_covered", "remainder_skipped"] if is_refuted else [])


KEPT = VECTOR_ADD.replace("z = torch.empty_like(x)", "z = _kept(x)").replace(
    STORE, STORE.replace("x + y", "x + y + tl.load(z_ptr + offsets, mask=offsets < n)")
)


def test_memory_that_is_kept_from_call_to_call_is_told_as_such(server: ForkServer, ex_15: Entry) -> None:
    assert "_kept(x)" in KEPT
    keeping = "_memory = {}\n\n\ndef _kept(x):\n    return _memory.setdefault(x.shape, torch.empty_like(x))\n\n\n"
    with bench_of(server, ex_15, KEPT.replace("def vector_add", f"{keeping}def vector_add", 1)) as bench:
        failure = bench.try_case(CASE, 5).failure
        assert failure
        (clue,) = unwritten_clues(bench, failure)
    assert clue.evidence.endswith("The memory is kept from call to call.")


def test_programs_that_race_say_nothing_of_unwritten_memory(
    server: ForkServer, ex_15: Entry, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The interpreter's replays are alike: another wrong answer stands for the first one, as on a GPU.
    wrong = VECTOR_ADD.replace(STORE, STORE.replace("x + y", "x + y + tl.load(z_ptr + offsets, mask=offsets < n)"))
    with bench_of(server, ex_15, wrong, "vector_add") as bench:
        failure = bench.try_case(CASE, 5).failure
        assert failure
        assert failure.wrong_call
        monkeypatch.setattr(type(bench.pair.session), "runs_on_gpu", True)
        assert [one.kind for one in unwritten_clues(bench, failure)] == ["not_cleared"]
        other = tuple(bytes(len(raw or b"")) for raw in failure.wrong_call.outcome.outputs)
        raced = replace(failure.wrong_call, outcome=replace(failure.wrong_call.outcome, outputs=other))
        assert unwritten_clues(bench, replace(failure, wrong_call=raced)) == []
