"""The same promises on a CUDA device: `tox -e gpu`, or `pytest -m gpu`."""

from __future__ import annotations

from pathlib import Path

import pytest

from grader.exercise.catalogue import Entry, discover
from grader.exercise.model import Limits
from grader.sandbox.server import ForkServer
from tests.claims import MORE_WORK, claim, files, link, statuses
from tests.conftest import ROOT, Grade, grader_with, limited

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def gpu_entry() -> Entry:
    return limited(Limits(load_s=60.0, call_s=20.0, part_s=60.0))


@pytest.fixture
def graded_on_gpu(gpu_server: ForkServer, gpu_entry: Entry) -> Grade:
    return grader_with(gpu_server, gpu_entry)


def test_the_model_solution_earns_every_point_and_bfloat16_is_judged(graded_on_gpu: Grade, gpu_entry: Entry) -> None:
    record = graded_on_gpu(gpu_entry.solution)
    assert record.verdict == "pass"
    assert record.score == record.judged_score == 75
    assert not any(check.notes for check in record.checks)
    assert record.env.gpu


def test_the_untouched_stub_is_not_implemented_throughout(graded_on_gpu: Grade, gpu_entry: Entry) -> None:
    record = graded_on_gpu(gpu_entry.pristine_stub)
    assert {check.status for check in record.checks} == {"not_implemented", "skipped_environment"}


@pytest.mark.parametrize("path", [*files("gpu"), *files("escapes")], ids=lambda path: path.stem)
def test_a_fault_or_an_escape_on_the_device_gets_its_own_status_and_the_other_part_is_still_judged(
    path: Path, graded_on_gpu: Grade
) -> None:
    status, kind = claim(path)
    record = graded_on_gpu(path, "vector_add", "row_softmax")
    judged = [check for check in record.checks if check.part == "vector_add"]
    assert judged[0].status == status, judged[0]
    assert judged[0].cause is not None
    assert judged[0].cause.kind == kind
    assert statuses(record, "row_softmax") == {"pass"}, [check.reason for check in record.checks]


@pytest.mark.parametrize("path", files("controls"), ids=lambda path: path.stem)
def test_honest_code_that_looks_odd_passes_on_the_device(path: Path, graded_on_gpu: Grade) -> None:
    record = graded_on_gpu(path, "vector_add")
    failed = {check.id for check in record.checks if check.status not in ("pass", "skipped_environment")}
    assert failed <= MORE_WORK.get(path.stem, set()), [check.reason for check in record.checks]


@pytest.mark.parametrize(
    ("mistake", "kind"),
    [
        ("vector_add_unmasked_store", "out_of_bounds"),
        ("vector_add_last_element", "unwritten"),
        ("fused_multiply_add_unmasked_load", "out_of_bounds"),
        ("row_softmax_unmasked_load", "out_of_bounds"),
        ("global_sum_unmasked", "out_of_bounds"),
    ],
)
def test_a_usual_mistake_is_told_as_on_the_cpu_and_not_as_a_broken_rule(
    mistake: str, kind: str, graded_on_gpu: Grade, gpu_entry: Entry, tmp_path: Path
) -> None:
    path = tmp_path / "ex_15_triton_basics.py"
    path.write_text(next(one.text for one in gpu_entry.wrong if one.name == mistake), encoding="utf-8")
    record = graded_on_gpu(path, next(part.name for part in gpu_entry.exercise.parts if mistake.startswith(part.name)))
    failed = next(check for check in record.checks if check.status == "fail")
    assert failed.cause is not None
    assert failed.cause.kind == kind, failed.cause
    assert "policy" not in {check.status for check in record.checks}


RECORDS = [(entry, path) for entry in discover(ROOT) for path in entry.fast]


@pytest.mark.parametrize(("entry", "path"), RECORDS, ids=[f"{entry.id}-{path.stem}" for entry, path in RECORDS])
def test_a_record_kernel_earns_every_point_of_its_part_on_the_device(
    entry: Entry, path: Path, gpu_server: ForkServer
) -> None:
    record = grader_with(gpu_server, entry)(path, *entry.parts_in(path))
    untimed = [check for check in record.checks if check.id.partition(".")[2] != "speed"]
    assert {check.status for check in untimed} == {"pass"}, [check.reason for check in untimed]


def runs_here(path: Path) -> bool:
    """NumPy cannot look at the memory of a GPU, and Python cannot run inside a kernel there: those need no defence."""
    found = link(path)
    return found is None or found.device != "CPU"


@pytest.mark.parametrize("path", [*filter(runs_here, files("attacks"))], ids=lambda path: path.stem)
def test_work_outside_the_kernels_is_noticed_on_the_device(path: Path, graded_on_gpu: Grade) -> None:
    status, kind = claim(path)
    record = graded_on_gpu(path, "vector_add")
    technique = next(check for check in record.checks if check.id == "vector_add.kernels")
    told = technique if technique.status != "pass" else record.checks[0]
    assert (told.status, told.cause.kind if told.cause else told.status) == (status, kind), told


@pytest.mark.parametrize("path", files("hostile"), ids=lambda path: path.stem)
def test_what_attacks_the_grader_gains_no_verdict_on_the_device(path: Path, graded_on_gpu: Grade) -> None:
    # Where it ends may be another place than on the CPU: what memory holds that was free, say, is another thing.
    record = graded_on_gpu(path, "vector_add", "row_softmax")
    of_it = [check.status for check in record.checks if check.part == "vector_add"]
    assert {*of_it} - {"pass", "skipped_environment", "skipped_dependency"}, of_it
    assert "grader_error" not in {check.status for check in record.checks}
