"""benchmarks/peers wraps files as other evaluators expect them, reads what they say, and tells it in one table."""

from __future__ import annotations

import json
import re
import sys
import types
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from benchmarks.peers import __main__ as command
from benchmarks.peers import kept, kernelbench, ours, popcorn
from benchmarks.peers.files import KINDS, Fed, chosen, spread, without_docstring
from benchmarks.peers.outcome import Outcome, Ran
from benchmarks.peers.report import Row, Setting, page
from benchmarks.peers.tasks import TASKS, Task
from tests.records import samples

SMALL = {"M": 4, "N": 6, "K": 3}
ADDED = "def vector_add(x, y):\n    return x + y\n"
SETTING = Setting(
    "2026-11-25", "1 × H200", "torch 2.11", {"KernelBench": "commit 423217d"}, "python -m benchmarks.peers"
)
RAN = Ran(0, 9.0, "")


@pytest.fixture(scope="module")
def every_fed() -> tuple[Fed, ...]:
    return chosen(0)


def fed_of(kind: str = "honest", name: str = "mine") -> Fed:
    return Fed(kind, TASKS[0], name, ADDED, "adds.")


def loaded(text: str) -> dict[str, object]:
    names: dict[str, object] = {}
    exec(text, names)
    return names


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.part)
def test_a_problem_of_kernelbench_runs_and_an_answer_calls_the_files_function(task: Task) -> None:
    task = replace(task, fixed={axis: SMALL[axis] for axis in task.axes})
    problem = loaded(kernelbench.reference(task))
    inputs = problem["get_inputs"]()
    expected = problem["Model"](*problem["get_init_inputs"]())(*inputs)
    text = f"import torch\n\ndef {task.part}({task.arguments}):\n    return {task.truth}\n"
    assert torch.equal(loaded(kernelbench.candidate(task, text))["ModelNew"]()(*inputs), expected)
    assert [tuple(one.shape) for one in inputs] == [
        tuple(SMALL[axis.strip()] for axis in shape.split(",") if axis.strip()) for shape in task.shapes.values()
    ]


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.part)
def test_a_task_of_popcorn_draws_compares_and_calls(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    utils = types.ModuleType("utils")
    utils.verbose_allclose = lambda got, expected, rtol, atol: (
        [] if torch.allclose(got, expected, rtol, atol) else ["no"]
    )
    monkeypatch.setitem(sys.modules, "utils", utils)
    reference = loaded(popcorn.reference(task).replace('"cuda"', '"cpu"'))
    sizes = {axis.lower(): SMALL[axis] for axis in task.axes}
    data = reference["generate_input"](**sizes, seed=7)
    again = reference["generate_input"](**sizes, seed=7)
    assert all(torch.equal(one, other) for one, other in zip(data, again, strict=True))
    text = f"import torch\n\ndef {task.part}({task.arguments}):\n    return {task.truth}\n"
    output = loaded(popcorn.candidate(task, text))["custom_kernel"](data)
    assert reference["check_implementation"](data, output) == (True, "")
    assert reference["check_implementation"](data, output + 1) == (False, "no")


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.part)
def test_cases_are_lines_of_names_and_numbers_with_a_seed(task: Task) -> None:
    lines = popcorn.cases(task.tests).splitlines()
    assert len(lines) == len(task.tests)
    for line in lines:
        assert all(re.fullmatch(r"\s*[a-z]+: \d+", part) for part in line.split(";"))
        assert "seed: " in line


def test_a_task_folder_holds_the_evaluators_files_and_ours(tmp_path: Path) -> None:
    checkout, folder = tmp_path / "kernelbot", tmp_path / "task"
    (checkout / "examples").mkdir(parents=True)
    folder.mkdir()
    for name in ("eval.py", "utils.py"):
        (checkout / "examples" / name).write_text(f"# theirs: {name}\n")
    place = popcorn.evaluator(checkout)
    assert place == checkout / "examples"
    popcorn.lay_out(place, TASKS[0], popcorn.candidate(TASKS[0], ADDED), folder)
    assert (folder / "eval.py").read_text() == "# theirs: eval.py\n"
    described = json.loads((folder / "task.yml").read_text())
    assert {one["name"] for one in described["files"]} <= {path.name for path in folder.iterdir()}
    assert described["config"] == {"main": "eval.py"}


def test_a_checkout_without_an_evaluator_is_told() -> None:
    assert "must name a checkout" in command.missing(None, None)
    assert "src/kernelbench/eval.py, got /nowhere" in command.missing(Path("/nowhere"), None)
    assert "must hold eval.py and utils.py" in command.missing(None, Path("/nowhere"))


def test_popcorns_lines_are_read_and_times_meet_in_the_geometric_mean() -> None:
    found = popcorn.read("benchmark-count: 2\nbenchmark.0.mean: 100.0\nbenchmark.1.mean: 400.0\ncheck: pass\n")
    assert found["check"] == "pass"
    assert popcorn.mean_ns(found) == pytest.approx(200.0)
    assert popcorn.mean_ns({**found, "benchmark.1.mean": "0.0"}) == 0
    assert popcorn.mean_ns({}) == 0


@pytest.mark.parametrize(
    ("found", "verdict", "reason"),
    [
        (None, "failed", "the end"),
        ({"errors": ["Contains pass"], "correct": False, "why": ""}, "refused", "static check: Contains pass"),
        ({"errors": [], "correct": False, "why": "Output mismatch"}, "refused", "Output mismatch"),
        ({"errors": [], "correct": True, "runtime_ms": 2.0, "reference_ms": 1.0, "excessive": False}, "accepted", ""),
        (
            {"errors": [], "correct": True, "runtime_ms": 0.1, "reference_ms": 2.0, "excessive": True},
            "flagged",
            "excessive speed-up",
        ),
    ],
)
def test_what_kernelbench_says_becomes_an_outcome(found: dict[str, object] | None, verdict: str, reason: str) -> None:
    told = kernelbench.outcome(found, Ran(1, 9.0, "first\nthe end\n"))
    assert (told.verdict, told.reason, told.seconds) == (verdict, reason, 9.0)


def test_a_speed_up_is_the_references_time_over_the_files() -> None:
    found = {"errors": [], "correct": True, "runtime_ms": 2.0, "reference_ms": 1.0, "excessive": False}
    assert kernelbench.outcome(found, RAN).speedup == 0.5
    # A time of nothing is believed by nobody.
    assert kernelbench.outcome({**found, "runtime_ms": 0.0}, RAN).speedup is None


def test_our_own_record_is_told_in_the_same_words() -> None:
    record = samples.failing()
    told = ours.outcome(record, 3.0)
    assert told.verdict == "refused"
    assert ": " in told.reason


def test_the_docstring_that_tells_the_mistake_does_not_go_along() -> None:
    assert without_docstring('"""Wrong.\n\nCause: x\n"""\nimport torch\n') == "\n\n\n\nimport torch\n"
    assert without_docstring("import torch\n") == "import torch\n"


def test_files_are_spread_evenly_over_their_names() -> None:
    assert spread("abcdefgh", 2) == ["c", "g"]
    assert spread("abc", 0) == spread("abc", 9) == ["a", "b", "c"]


@pytest.mark.process
def test_every_kind_is_fed_and_nothing_that_others_do_not_ask_for(every_fed: tuple[Fed, ...]) -> None:
    assert {fed.kind for fed in every_fed} == set(KINDS)
    assert not [fed.name for fed in every_fed if fed.name.startswith(("control_", "honest_twin"))]
    assert not {fed.name for fed in every_fed} & {"vector_add_two_launches", "vector_add_storage_start"}
    assert not [fed.name for fed in every_fed if fed.says[:60] in fed.text]
    few = chosen(8)
    assert {(fed.kind, fed.task.part) for fed in few} == {(fed.kind, fed.task.part) for fed in every_fed}
    assert len([fed for fed in few if fed.kind == "attack"]) == 8


def test_rows_are_kept_and_read_again(tmp_path: Path) -> None:
    fed = fed_of()
    row = Row(fed, {"grade": Outcome("accepted", 4.0, 0.98)})
    kept.save(tmp_path / "rows.json", [row, Row(fed_of(name="late"), {})])
    assert kept.load(tmp_path / "rows.json", [fed]) == {fed.key: row}
    assert kept.load(tmp_path / "none.json", [fed]) == kept.load(tmp_path / "rows.json", []) == {}


def test_only_graders_whose_outcome_is_missing_are_asked() -> None:
    known, found = Outcome("accepted", 1.0, 1.0), Outcome("refused", 2.0, None, "mismatch")
    asked: list[str] = []

    def ask_of(name: str) -> command.Ask:
        return lambda *_: (asked.append(name), found)[1]

    row, devices = Row(fed_of(), {"one": known}), command.Devices(["0"], 1)
    asks = {name: ask_of(name) for name in ("one", "other")}
    assert command.measured(row, asks, devices, float("inf")).outcomes == {"one": known, "other": found}
    assert command.measured(row, asks, devices, 0.0) == row
    assert asked == ["other"]


def test_the_page_counts_by_kind_and_shows_every_file() -> None:
    rows = [
        Row(fed_of(), {"KernelBench": Outcome("accepted", 8.0, 1.0), "grade": Outcome("accepted", 6.0, 0.97)}),
        Row(
            fed_of("attack", "lazy"),
            {"KernelBench": Outcome("flagged", 8.0, 40.0, "excessive | speed-up"), "grade": Outcome("refused", 6.0)},
        ),
    ]
    text = page(rows, ("KernelBench", "grade"), replace(SETTING, left_out=3))
    assert "on 2026-11-25, on 1 × H200 (torch 2.11)" in text
    assert "- KernelBench: commit 423217d." in text
    assert "3 files were not reached in the time." in text
    assert "| honest | accept | 1 of 1 | 1 of 1 |" in text
    assert "| greatest speed-up believed of an attack |  | 40× | – |" in text
    assert "0 of 1, 1 flagged | 0 of 1 |" in text
    # A speed-up of 40 was flagged, and not accepted.
    assert "`vector_add` | none | 0 of 1 | 0 of 1 |" in text
    # A reason cannot break the table.
    assert "| attack | `vector_add`: lazy | adds. | flagged, 40×, 8 s: excessive / speed-up | refused, 6 s |" in text
    gained = replace(rows[1], outcomes={"grade": Outcome("accepted", 6.0, 1.1)})
    assert "`vector_add` | none | 1 of 1 |" in page([rows[0], gained], ("grade",), SETTING)
    assert "not asked" in page([Row(fed_of(), {})], ("grade",), SETTING)
