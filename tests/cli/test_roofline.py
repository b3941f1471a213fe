"""The roofline section of a profile: what it counts and predicts, and what the GPU's own counters say beside it."""

from __future__ import annotations

import dataclasses

import pytest

from grader.cli import roofline
from grader.cli.roofline import Roofline, rooflines, section
from grader.exercise.catalogue import resolve
from grader.report.text import terminal
from grader.speed import counters
from grader.speed.counters import Counters, LaunchCounters
from tests.conftest import ROOT
from tests.records import flat, samples

pytestmark = [pytest.mark.process, pytest.mark.usefixtures("lent")]


def shown(one: Roofline, width: int = 110) -> str:
    return flat(terminal.render_rooflines([section(one)], roofline.roofs(), width=width))


def sample() -> Roofline:
    traffic, speed = samples.on_paper().checks[1:]
    return Roofline("vector_add", "Vector addition", traffic.work, speed.predictions)


def counted(*launches: LaunchCounters, why: str = "") -> Counters:
    return Counters("vector_add", sample().predictions[-1].words, launches, why)


def test_a_part_shows_its_bytes_its_memory_its_times_and_the_roofs_behind_them() -> None:
    text = shown(sample())

    for words in (
        "moved in the interpreter, bytes loaded stored together model all points none launches",
        "N=10000, float32 80,000 40,000 120,000 120,000 132,000 – 1",
        "N=10000, float16 4,000 4,096 –",
        # What fits into the L2 cache is marked.
        "N=2^20, float32 7.85 µs* 6.78 µs*",
        "N=2^28, float32 734 µs 460 µs",
        "H200 4.8 989.4 494.7 66.9 50",
        "92% of the bandwidth, 80% of the tensor cores, 70% of float32",
        "No counters of the GPU: none is used here.",
    ):
        assert words in text, words


def test_what_the_gpu_counted_stands_beside_the_predicted_bytes() -> None:
    predicted = sample().predictions[-1].bytes
    metrics = {counters.READ: predicted, counters.WRITTEN: predicted / 16, counters.TIME: 740_000, counters.DRAM: 91.4}
    text = shown(dataclasses.replace(sample(), counters=counted(LaunchCounters("add_kernel", metrics))), width=200)

    assert "counted by the GPU itself (ncu), N=268435456, dtype=float32" in text
    assert "add_kernel 740 µs 3,221,225,472 201,326,592 91% – – –" in text
    assert "3,422,552,064 bytes of DRAM, 1.06 times the predicted 3,221,225,472." in text
    assert "No counters" not in text


def test_why_the_gpu_counted_nothing_is_said() -> None:
    text = shown(dataclasses.replace(sample(), counters=counted(why="no kernel ran in the call")))

    assert "No counters of the GPU: no kernel ran in the call" in text


def test_a_call_that_was_counted_without_a_replay_says_so() -> None:
    told = dataclasses.replace(counted(LaunchCounters("add_kernel", {})), unreplayed="aten.add")
    text = shown(dataclasses.replace(sample(), counters=told))

    assert "The call was not replayed, so its own process was counted: aten.add." in text


def test_a_part_of_which_nothing_was_counted_says_why() -> None:
    assert shown(Roofline("copy", "Copying", why="Because.")).startswith("Copying Because. published")


@pytest.mark.parametrize("width", [40, 70, 100])
def test_no_line_is_wider_than_asked(width: int) -> None:
    text = terminal.render_rooflines([section(sample())], roofline.roofs(), width=width, ascii_only=True)

    assert max(map(len, text.splitlines())) <= width
    assert text.isascii()


def test_a_submission_is_counted_in_the_interpreter_and_its_longest_size_predicted() -> None:
    entry, _ = resolve(ROOT, "ex_15")
    source = (ROOT / "reference" / entry.name / "solution.py").read_text(encoding="utf-8")
    (one,) = rooflines(entry, "/learner/ex_15.py", source, [entry.exercise.parts[0]], quiet=True)

    assert [work.moved_bytes for work in one.work] == [120_000, 60_000]
    assert max(each.time_us for each in one.predictions if each.gpu == "H200") == pytest.approx(734.4, rel=0.01)


def test_a_part_that_is_not_there_is_not_predicted() -> None:
    entry, _ = resolve(ROOT, "ex_15")
    (one,) = rooflines(entry, "/learner/ex_15.py", "", [entry.exercise.parts[0]], quiet=True)

    assert (one.work, one.predictions) == ((), ())
    assert "must define `vector_add`" in one.why
