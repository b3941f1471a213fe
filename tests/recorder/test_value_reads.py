"""Launch code that reads values is told the line, the argument, the rule and the way without."""

from __future__ import annotations

from pathlib import Path

import pytest

from grader.exercise.cases import Case
from grader.exercise.catalogue import Entry
from grader.judge.evidence import Evidence
from grader.judge.failure import Failure
from grader.judge.kernel_policy import by_evidence
from grader.protocol.trace import TraceNote
from grader.sandbox.server import ForkServer
from tests.conftest import Grade
from tests.recordings import HEAD, recording

BOUNDS = {"lengths": "lengths[b] <= cache.shape[1]"}
RULE = "Launch code may use shapes, strides and dtypes, but no values: the CPU would wait for the GPU."


def failure_of(*reads: TraceNote, besides: tuple[str, ...] = ()) -> Failure:
    operators = (*(f"{one.name} (line {one.line})" for one in reads), *besides)
    failure = by_evidence([Evidence(Case({"N": 3}), ("k",), frozenset(), operators, (), reads=reads)], (), BOUNDS)
    assert failure is not None
    assert failure.status == "policy"
    assert failure.cause.kind == "value_read"
    return failure


def test_a_read_names_its_line_the_argument_and_the_shape_that_bounds_it() -> None:
    cause = failure_of(TraceNote("Tensor.tolist", 12, ("lengths",))).cause
    assert (
        cause.rationale == f"For N=3: line 12 of the file reads values of `lengths` into Python by `.tolist()`. {RULE}"
    )
    assert cause.help == (
        "Size grids, loops and buffers by shapes: lengths[b] <= cache.shape[1]. "
        "Load the value in the kernel: tl.load(lengths_ptr + …)."
    )


def test_an_item_says_what_else_asks_for_one_and_what_computed_before_it() -> None:
    cause = failure_of(TraceNote("aten._local_scalar_dense", 12, ("x",)), besides=("aten.isnan (line 12)",)).cause
    assert "by `.item()`, which int(t), float(t), bool(t), `if t` and range(t) do as well." in cause.rationale
    assert cause.rationale.endswith("These ran beside your kernels: aten.isnan (line 12).")
    assert cause.help.startswith("Size grids and loops by shapes.")


@pytest.mark.parametrize(
    ("line", "name", "of"),
    [
        ("y[:2].to(torch.int32).amax().item()", "aten._local_scalar_dense", ("y",)),
        ("x.tolist()", "Tensor.tolist", ("x",)),
        ("x.cpu()", "Tensor.cpu", ("x",)),
        ("x.to('cpu')", "Tensor.cpu", ("x",)),
        ("bool(x[0])", "aten._local_scalar_dense", ("x",)),
        ("torch.equal(x, y)", "aten.equal", ("x", "y")),
    ],
)
def test_the_recorder_tells_whose_values_were_read(
    server: ForkServer, ex_15: Entry, line: str, name: str, of: tuple[str, ...]
) -> None:
    with recording(server, ex_15, f"def vector_add(x, y):\n    {line}\n    return added(x, y)\n") as one:
        outside_work = one.record().outside_work
        assert TraceNote(name, one.line_of(line), of) in outside_work


def test_where_a_tensor_lies_may_be_asked_and_said(server: ForkServer, ex_15: Entry) -> None:
    text = "def vector_add(x, y):\n    torch.empty(3).cpu()\n    return added(x.to(x.device), y.cuda())\n"
    with recording(server, ex_15, text) as one:
        assert one.record().outside_work == ()


def test_a_right_answer_that_read_values_earns_nothing(briefly: Grade, tmp_path: Path) -> None:
    text = f"{HEAD}\ndef vector_add(x, y):\n    if torch.isnan(x).any():\n        pass\n    return added(x, y)\n"
    path = tmp_path / "reads_values.py"
    path.write_text(text)
    check, *others = briefly(path, "vector_add.full_blocks", "vector_add.tail", "vector_add.fresh").checks
    assert (check.status, check.points) == ("policy", 0)
    assert not any(other.points for other in others)
    assert check.cause is not None
    assert "reads values of `x` into Python by `.item()`" in check.cause.rationale
    assert check.cause.help.endswith("Load the value in the kernel: tl.load(x_ptr + …).")
