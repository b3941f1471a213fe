"""The baseline process on the CPU: it times baselines, knows the truth, and says why when it cannot."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from grader.exercise.cases import Value
from grader.exercise.catalogue import Entry
from grader.judge.truth import Truth
from grader.protocol.answers import Form
from grader.protocol.baseline_messages import PrepareBaseline, Reveal, Revealed
from grader.protocol.requests import Recipe, Sample
from grader.speed.baseline_process import BaselineProcess, BaselineProcessFailed
from grader.speed.baselines import FAMILIES
from tests.racing import running_baselines

pytestmark = pytest.mark.process

CASE: dict[str, Value] = {"N": 4101, "dtype": "float32", "values": "normal", "offset": 0}
ROOT = Path(__file__).resolve().parents[2]

BASELINES = """
import os, sys

def vector_add_torch_eager(x, y):
    return x + y

def vector_add_cublas(x, y):
    return x - y

def fused_multiply_add_torch_eager(x, y, z):
    raise ValueError("no such luck")

def row_softmax_torch_eager(x):
    print("goodbye", file=sys.stderr, flush=True)
    os._exit(7)
"""

PORTION = """

def vector_add_portion(chance, x, y):
    start = int(chance * 4000)
    return [x[start : start + 100], y[start : start + 100]], [start]
"""


def recipe(part: str = "vector_add", seed: int = 17, **changes: Value) -> Recipe:
    return Recipe(part, {**CASE, **changes}, seed)


def prepared(baseline: str = "torch_eager", part: str = "vector_add", mutates: tuple[str, ...] = ()) -> PrepareBaseline:
    """What the baseline process is asked before it takes samples of a baseline."""
    arguments = {"vector_add": ("x", "y"), "fused_multiply_add": ("x", "y", "z"), "row_softmax": ("x",)}[part]
    case: dict[str, Value] = {"M": 7, "N": 63, "stride": 0} if part == "row_softmax" else {}
    return PrepareBaseline(baseline, recipe(part, 0, **case), arguments, mutates, "stream", 1 << 12)


def exercise(tmp_path: Path, baselines: str) -> Entry:
    """The first exercise with other baselines."""
    name = "ex_15_triton_basics"
    shutil.copytree(ROOT / "reference" / name, tmp_path / "reference" / name)
    (tmp_path / "reference" / name / "baselines.py").write_text(baselines, encoding="utf-8")
    return Entry(tmp_path, name)


@pytest.fixture(scope="module")
def baseline_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BaselineProcess]:
    with running_baselines(exercise(tmp_path_factory.mktemp("course"), BASELINES)) as running:
        yield running


# -- what goes wrong -------------------------------------------------------------------------------------------------


def test_a_baseline_that_raises_is_reported_with_its_words_and_the_baseline_process_goes_on(
    baseline_process: BaselineProcess,
) -> None:
    for _ in range(2):
        with pytest.raises(BaselineProcessFailed, match=r"^ValueError: no such luck$"):
            baseline_process.prepare(prepared(part="fused_multiply_add"))
    assert baseline_process.prepare(prepared()).outputs


def test_a_baseline_that_nobody_knows_is_an_answer_too(baseline_process: BaselineProcess) -> None:
    with pytest.raises(BaselineProcessFailed, match=r"^KeyError: 'cudnn'$"):
        baseline_process.prepare(prepared("cudnn"))
    with pytest.raises(BaselineProcessFailed, match=r"^AttributeError: .*vector_add_sdpa"):
        baseline_process.prepare(prepared("sdpa_flash"))


def test_a_sample_of_a_baseline_that_was_not_prepared_is_refused(baseline_process: BaselineProcess) -> None:
    baseline_process.prepare(prepared())
    with pytest.raises(BaselineProcessFailed, match=r"^KeyError: 'copy_roofline'$"):
        baseline_process.sample(Sample(17, "copy_roofline"))


def test_a_gpu_that_is_not_there_cannot_be_gauged(baseline_process: BaselineProcess) -> None:
    with pytest.raises(BaselineProcessFailed):
        baseline_process.gauge()
    assert baseline_process.missing(recipe(), ("torch_eager",)) == {"torch_eager": ""}


def test_a_baseline_process_that_dies_is_reported_with_its_last_words(tmp_path: Path) -> None:
    with running_baselines(exercise(tmp_path, BASELINES)) as dying:
        for _ in range(2):
            with pytest.raises(
                BaselineProcessFailed, match=r"^the baseline process must answer, but it ended: goodbye$"
            ):
                dying.prepare(prepared(part="row_softmax"))


def test_a_baselines_file_that_does_not_load_is_reported_at_the_first_question_and_ends_with_its_block(
    tmp_path: Path,
) -> None:
    with running_baselines(exercise(tmp_path, "import no_such_package\n")) as broken:
        with pytest.raises(BaselineProcessFailed, match=r"^ModuleNotFoundError: No module named 'no_such_package'$"):
            broken.missing(recipe(), ("torch_eager",))
        process = Path("/proc", str(broken.pid))
        assert process.exists()
    assert not process.exists()


# -- what it answers -------------------------------------------------------------------------------------------------


def test_it_says_why_a_baseline_cannot_run_and_nothing_of_those_that_can(baseline_process: BaselineProcess) -> None:
    assert baseline_process.missing(recipe(), ("torch_eager", "sdpa_flash", "cudnn", "copy_roofline")) == {
        "torch_eager": "",
        "sdpa_flash": "the exercise's baselines.py must define vector_add_sdpa for it",
        "cudnn": f"a baseline must be one of {', '.join(FAMILIES)}, got 'cudnn'",
        "copy_roofline": "",
    }


def test_a_baseline_is_tried_and_one_that_raises_cannot_run(baseline_process: BaselineProcess) -> None:
    missing = baseline_process.missing(recipe(part="fused_multiply_add"), ("torch_eager", "copy_roofline"))
    assert missing == {"torch_eager": "ValueError: no such luck", "copy_roofline": ""}


def test_a_prepared_baseline_says_what_its_outputs_look_like(baseline_process: BaselineProcess) -> None:
    assert baseline_process.prepare(prepared()).outputs == (Form("tensor", "float32", (4101,), "cpu"),)


def test_a_sample_has_a_time_and_sums_of_its_output_piece_by_piece(baseline_process: BaselineProcess) -> None:
    baseline_process.prepare(prepared())
    sampled = baseline_process.sample(Sample(17, "torch_eager"))
    assert sampled.device_us > 0
    assert not sampled.exposed
    ((projections,), (scales,)) = sampled.projections, sampled.scales
    # Pieces have 1024 elements at least; x + y has a norm of the root of two, element by element.
    assert len(projections) == len(scales) == 4
    assert scales == pytest.approx([(2 * 1025) ** 0.5] * 4, rel=0.1)
    assert all(abs(one) < 5 * scale for one, scale in zip(projections, scales, strict=True))


def test_the_same_seed_gives_the_same_sums_and_another_gives_others(baseline_process: BaselineProcess) -> None:
    baseline_process.prepare(prepared())
    first, other, again = (baseline_process.sample(Sample(seed, "torch_eager")) for seed in (17, 18, 17))
    assert (first.projections, first.scales) == (again.projections, again.scales)
    assert first.scales != other.scales


def test_several_baselines_are_prepared_at_the_same_time_each_under_its_name(baseline_process: BaselineProcess) -> None:
    for name in ("torch_eager", "cublas"):
        baseline_process.prepare(prepared(name))
    total, difference, again = (
        baseline_process.sample(Sample(17, name)) for name in ("torch_eager", "cublas", "torch_eager")
    )
    assert total.projections == again.projections != difference.projections


def test_at_another_case_the_baselines_of_the_one_before_are_forgotten(baseline_process: BaselineProcess) -> None:
    baseline_process.prepare(prepared())
    baseline_process.prepare(replace(prepared("copy_roofline"), recipe=recipe(N=63)))
    with pytest.raises(BaselineProcessFailed, match=r"^KeyError: 'torch_eager'$"):
        baseline_process.sample(Sample(17, "torch_eager"))


def test_of_an_argument_that_is_changed_in_place_the_change_is_summed_up(baseline_process: BaselineProcess) -> None:
    baseline_process.prepare(prepared(mutates=("x",)))
    sampled = baseline_process.sample(Sample(17, "torch_eager"))
    # This baseline returns its sum, and leaves x as it was.
    assert len(sampled.scales) == 2
    assert set(sampled.scales[1]) == {0.0}


def test_a_copy_moves_as_many_bytes_as_the_part_must(baseline_process: BaselineProcess) -> None:
    (form,) = baseline_process.prepare(prepared("copy_roofline")).outputs
    # Read and written together: 3 · N · 4 bytes.
    assert form == Form("tensor", "int64", (3 * 4101 * 4 // 16,), "cpu")


def test_it_reveals_the_truth_as_the_judge_of_answers_computes_it(
    baseline_process: BaselineProcess, ex_15: Entry
) -> None:
    part = ex_15.exercise.part("vector_add")
    assert part is not None
    truth = Truth.of(ex_15)
    (expected,) = truth.expect(part, recipe())
    about, values, allowed = baseline_process.reveal(Reveal(recipe(), 0, 1000, 63))
    assert about == Revealed("float32", 0, 4101)
    for raw, numbers in ((values, expected.value), (allowed, expected.allowed)):
        assert torch.equal(torch.frombuffer(bytearray(raw), dtype=torch.float64), numbers[1000:1063].double())


def test_its_baseline_and_its_truth_are_of_the_same_inputs(baseline_process: BaselineProcess) -> None:
    baseline_process.prepare(prepared())
    sampled = baseline_process.sample(Sample(17, "torch_eager"))
    _, values, _ = baseline_process.reveal(Reveal(recipe(seed=17), 0, 0, 4101))
    pieces = torch.frombuffer(bytearray(values), dtype=torch.float64)[: 4 * 1025].view(4, 1025)
    assert sampled.scales[0] == pytest.approx(pieces.norm(dim=1).tolist(), rel=1e-5)


def test_of_no_elements_it_reveals_the_form_alone(baseline_process: BaselineProcess) -> None:
    assert baseline_process.reveal(Reveal(recipe(dtype="float16"), 0, 0, 0)) == (Revealed("float16", 0, 4101), b"", b"")


def test_where_the_exercise_cuts_no_portions_any_chance_shows_all_of_an_output(
    baseline_process: BaselineProcess,
) -> None:
    whole, drawn = (baseline_process.reveal(Reveal(recipe(), 0, 7, 500, chance)) for chance in (None, 0.7))
    assert whole == drawn


def test_a_portion_is_computed_of_its_own_inputs_and_begins_where_the_exercise_says(tmp_path: Path) -> None:
    entry = exercise(tmp_path, BASELINES)
    oracle = entry.folder / "oracle.py"
    oracle.write_text(oracle.read_text("utf-8") + PORTION, "utf-8")
    with running_baselines(entry) as cutting:
        whole, values, _ = cutting.reveal(Reveal(recipe(), 0, 2000, 63))
        portion, cut, _ = cutting.reveal(Reveal(recipe(), 0, 0, 63, 0.5))
        assert (whole, portion) == (Revealed("float32", 0, 4101), Revealed("float32", 2000, 100))
        assert cut == values
        # Another chance, another portion.
        assert cutting.reveal(Reveal(recipe(), 0, 0, 0, 0.25))[0].start == 1000


def test_after_a_rest_it_knows_what_it_knew_and_nothing_is_prepared_any_more(baseline_process: BaselineProcess) -> None:
    baseline_process.prepare(prepared())
    before = baseline_process.sample(Sample(17, "torch_eager"))
    assert baseline_process.rest()
    with pytest.raises(BaselineProcessFailed, match=r"^KeyError: 'torch_eager'$"):
        baseline_process.sample(Sample(17, "torch_eager"))
    baseline_process.prepare(prepared())
    assert baseline_process.sample(Sample(17, "torch_eager")).projections == before.projections


def test_a_baseline_process_whose_answer_is_to_another_question_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running_baselines(exercise(tmp_path, BASELINES)) as odd:
        assert odd.missing(recipe(), ("torch_eager",)) == {"torch_eager": ""}
        monkeypatch.setattr(odd, "_answer", lambda limit_s: {"shape": [3]})
        with pytest.raises(BaselineProcessFailed):
            odd.missing(recipe(), ("torch_eager",))
        odd._process.wait(60)
        assert not odd.rest()
