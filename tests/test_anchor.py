"""The anchor on the CPU: it runs baselines by the clock, knows the truth, and says why when it cannot."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from grader.protocol.spans import spans, word_sum

from grader.catalogue import Entry
from grader.judge.truth import Truth
from grader.protocol.messages import Form, Open, Recipe, Revealed, Timed
from grader.speed.anchor import Anchor, AnchorFailed
from grader.speed.baselines import FAMILIES
from tests.racing import anchored

CASE = {"N": 4101, "dtype": "float32", "values": "normal", "offset": 0}
ROOT = Path(__file__).resolve().parents[1]

BASELINES = """
import os, sys

def vector_add_torch_eager(x, y):
    return x + y

def fused_multiply_add_torch_eager(x, y, z):
    raise ValueError("no such luck")

def row_softmax_torch_eager(x):
    print("goodbye", file=sys.stderr, flush=True)
    os._exit(7)
"""


def recipe(part: str = "vector_add", seed: int = 17, **changes: object) -> Recipe:
    return Recipe(part, {**CASE, **changes}, seed)  # type: ignore[arg-type]


def timed(function: str = "torch_eager", part: str = "vector_add") -> Timed:
    arguments = {"vector_add": ("x", "y"), "fused_multiply_add": ("x", "y", "z"), "row_softmax": ("x",)}[part]
    case = {"M": 7, "N": 63, "stride": 0} if part == "row_softmax" else {}
    return Timed(function, recipe(part, 0, **case), arguments, (), "stream", 1 << 12)


def exercise(tmp_path: Path, baselines: str) -> Entry:
    """The first exercise with other baselines."""
    name = "ex_15_triton_basics"
    shutil.copytree(ROOT / "reference" / name, tmp_path / "reference" / name)
    (tmp_path / "reference" / name / "baselines.py").write_text(baselines, encoding="utf-8")
    return Entry(tmp_path, name)


@pytest.fixture(scope="module")
def anchor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Anchor]:
    with anchored(exercise(tmp_path_factory.mktemp("course"), BASELINES)) as running:
        yield running


# -- what goes wrong -------------------------------------------------------------------------------------------------


def test_a_baseline_that_raises_is_reported_with_its_words_and_the_anchor_goes_on(anchor: Anchor) -> None:
    for _ in range(2):
        with pytest.raises(AnchorFailed, match=r"^ValueError: no such luck$"):
            anchor.timed(timed(part="fused_multiply_add"), 17)
    assert anchor.timed(timed(), 17).answer.outputs


def test_a_baseline_that_nobody_knows_is_an_answer_too(anchor: Anchor) -> None:
    with pytest.raises(AnchorFailed, match=r"^KeyError: 'cudnn'$"):
        anchor.timed(timed("cudnn"), 17)
    with pytest.raises(AnchorFailed, match=r"^AttributeError: .*vector_add_cublas"):
        anchor.timed(timed("cublas"), 17)


def test_a_gpu_that_is_not_there_cannot_be_gauged(anchor: Anchor) -> None:
    with pytest.raises(AnchorFailed):
        anchor.gauge()
    assert anchor.missing(recipe(), ("torch_eager",)) == {"torch_eager": ""}


def test_an_anchor_that_dies_is_reported_with_its_last_words(tmp_path: Path) -> None:
    with anchored(exercise(tmp_path, BASELINES)) as dying:
        for _ in range(2):
            with pytest.raises(AnchorFailed, match=r"^the anchor must answer, but it ended: goodbye$"):
                dying.timed(timed(part="row_softmax"), 17)


def test_a_baselines_file_that_does_not_load_is_reported_at_the_first_question(tmp_path: Path) -> None:
    with (
        anchored(exercise(tmp_path, "import no_such_package\n")) as broken,
        pytest.raises(AnchorFailed, match=r"^ModuleNotFoundError: No module named 'no_such_package'$"),
    ):
        broken.missing(recipe(), ("torch_eager",))


def test_it_ends_with_its_block(tmp_path: Path) -> None:
    with anchored(exercise(tmp_path, BASELINES)) as ending:
        process = Path("/proc", str(ending.pid))
        assert process.exists()
    assert not process.exists()


# -- what it answers -------------------------------------------------------------------------------------------------


def test_it_says_why_a_baseline_cannot_run_and_nothing_of_those_that_can(anchor: Anchor) -> None:
    assert anchor.missing(recipe(), ("torch_eager", "cublas", "cudnn", "copy_roofline")) == {
        "torch_eager": "",
        "cublas": "the exercise's baselines.py must define vector_add_cublas for it",
        "cudnn": f"a baseline must be one of {', '.join(FAMILIES)}, got 'cudnn'",
        "copy_roofline": "",
    }


def test_a_baseline_is_tried_and_one_that_raises_cannot_run(anchor: Anchor) -> None:
    missing = anchor.missing(recipe(part="fused_multiply_add"), ("torch_eager", "copy_roofline"))
    assert missing == {"torch_eager": "ValueError: no such luck", "copy_roofline": ""}


def test_a_timed_call_commits_to_its_output_and_shows_it(anchor: Anchor) -> None:
    ran = anchor.timed(timed(), 17)
    assert ran.answer.outputs == (Form("tensor", "float32", (4101,), "cpu"),)
    shown = anchor.open(Open(0, 0, 4 * 4101))
    pieces = [word_sum(shown[first : first + count]) for first, count in spans(len(shown))]
    assert list(ran.sums[:-1]) == pieces
    assert ran.answer.device_us >= 0
    assert ran.outside_us > 0


def test_the_same_seed_gives_the_same_sums_and_another_gives_others(anchor: Anchor) -> None:
    first, other, again = (anchor.timed(timed(), seed).sums for seed in (17, 18, 17))
    assert first == again
    assert first[-1] != other[-1]
    assert first[:-1] != other[:-1]


def test_a_copy_moves_as_many_bytes_as_the_part_must(anchor: Anchor) -> None:
    (form,) = anchor.timed(timed("copy_roofline"), 17).answer.outputs
    # Read and written together: 3 · N · 4 bytes.
    assert form == Form("tensor", "int64", (3 * 4101 * 4 // 16,), "cpu")


def test_it_reveals_the_truth_as_the_judge_of_answers_computes_it(anchor: Anchor, ex_15: Entry) -> None:
    part = ex_15.exercise.part("vector_add")
    assert part is not None
    truth = Truth(ex_15.source("inputs.py"), ex_15.source("oracle.py"))
    (expected,) = truth.expect(part, recipe())
    form, values, allowed = anchor.reveal(recipe(), 0, 1000, 63)
    assert form == Revealed("float32", (4101,))
    for raw, numbers in ((values, expected.value), (allowed, expected.allowed)):
        assert torch.equal(torch.frombuffer(bytearray(raw), dtype=torch.float64), numbers[1000:1063].double())


def test_its_baseline_and_its_truth_are_of_the_same_inputs(anchor: Anchor) -> None:
    anchor.timed(timed(), 17)
    got = torch.frombuffer(bytearray(anchor.open(Open(0, 0, 4 * 4101))), dtype=torch.float32).double()
    _, values, _ = anchor.reveal(recipe(seed=17), 0, 0, 4101)
    assert torch.allclose(got, torch.frombuffer(bytearray(values), dtype=torch.float64), rtol=1e-6)


def test_of_no_elements_it_reveals_the_form_alone(anchor: Anchor) -> None:
    assert anchor.reveal(recipe(dtype="float16"), 0, 0, 0) == (Revealed("float16", (4101,)), b"", b"")


def test_after_a_rest_it_knows_what_it_knew_and_shows_nothing_of_before(anchor: Anchor) -> None:
    before = anchor.timed(timed(), 17).sums
    assert anchor.rest()
    assert anchor.open(Open(0, 0, 16)) == bytes(16)
    assert anchor.timed(timed(), 17).sums == before


def test_an_anchor_whose_answer_is_to_another_question_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with anchored(exercise(tmp_path, BASELINES)) as odd:
        assert odd.missing(recipe(), ("torch_eager",)) == {"torch_eager": ""}
        monkeypatch.setattr(odd, "_answer", lambda limit_s: {"shape": [3]})
        with pytest.raises(AnchorFailed):
            odd.missing(recipe(), ("torch_eager",))
        odd._process.wait(60)
        assert not odd.rest()
