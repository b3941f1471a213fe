"""docs/causes.md: its figures and misses, and that every mistake outside the reference can still be made."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from benchmarks import causes
from benchmarks.causes import Named, Result, blind, page, table, tried
from grader.diagnosis.kinds import known_kinds
from grader.exercise.catalogue import Entry, discover
from grader.exercise.triton_version import lacking

ROOT = Path(__file__).resolve().parents[2]
RESULTS = (
    Result("ex_15", "planted", Named("a", "p.c", ("zeros",), ("zeros", "clamped"))),
    Result("ex_15", "planted", Named("b", "p.c", ("clamped", "overflow"), ("zeros", "overflow"))),
    Result("ex_15", "tried", Named("d", "p.c", ("zeros",), ("zeros",), True, "changed line")),
    Result("ex_15", "tried", Named("e", "p.c", ("zeros",), ("zeros",), True, "another line")),
    Result("ex_18", "held out", Named("c", "p.c", ("race",), ())),
)


def test_the_table_counts_first_and_among_three_by_source_and_exercise() -> None:
    lines = table(RESULTS).splitlines()[2:]
    assert lines == [
        "| planted, ex_15 | 2 | 1 (50%) | 2 (100%) | 0 | 0 |",
        "| **planted, all** | 2 | 1 (50%) | 2 (100%) | 0 | 0 |",
        "| tried, ex_15 | 2 | 2 (100%) | 2 (100%) | 0 | 2 (1 in the changed line) |",
        "| **tried, all** | 2 | 2 (100%) | 2 (100%) | 0 | 2 (1 in the changed line) |",
        "| held out, ex_18 | 1 | 0 (0%) | 0 (0%) | 1 | 0 |",
        "| **held out, all** | 1 | 0 (0%) | 0 (0%) | 1 | 0 |",
    ]


def test_the_page_lists_every_miss_with_its_reason_and_the_whole_vocabulary() -> None:
    text = page(RESULTS, discover(ROOT), {"ex_15/b": "Because."}, {})
    assert "| ex_15/b | clamped or overflow | zeros, overflow | Because. |" in text
    assert "| ex_18/c (held out) | race | none |  |" in text
    assert "ex_15/a" not in text
    assert "Left out" not in text
    for entry in discover(ROOT):
        assert all(f"| `{kind}` |" in text for kind in known_kinds(entry.exercise))


@pytest.mark.parametrize("entry", discover(ROOT), ids=lambda entry: entry.id)
def test_every_mistake_outside_the_reference_can_be_made_and_has_a_known_cause(entry: Entry) -> None:
    mistakes = [*tried(entry), *blind(entry)]
    assert len({one.name for one in mistakes}) == len(mistakes)
    for one in mistakes:
        compile(one.source, one.name, "exec")
        assert set(one.causes) <= set(known_kinds(entry.exercise)), one.name
        assert entry.exercise.part(one.part) is not None
        assert bool(lacking(one.source, (3, 9))) == ("make_block_ptr" in one.source), one.name


def test_what_the_installed_triton_lacks_is_left_out_and_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(causes, "lacking", partial(lacking, installed=(3, 9)))
    entry = next(one for one in discover(ROOT) if one.id == "ex_18")
    names = "bwd_block_pointers", "bwd_atomic_dq"
    assert [one.name for one in causes._judgeable(blind(entry), names)] == ["bwd_atomic_dq"]
    why = "triton 3.9 and newer have no block pointers"
    assert capsys.readouterr().err == f"left out bwd_block_pointers: {why}\n"
    judged = Result("ex_18", "held out", Named("bwd_block_pointers", "p.c", (), ()))
    left_out = causes.unjudged([entry], [judged])
    assert "ex_18/bwd_grid (held out)" in left_out[why]
    assert "ex_18/bwd_block_pointers (held out)" not in left_out[why]
    assert f"Left out, since {why}: {', '.join(left_out[why])}.\n" in page(RESULTS, [entry], {}, left_out)
