"""Baselines: every one that a specification names exists, and one that cannot run says why in words."""

from __future__ import annotations

import types
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from grader.exercise.catalogue import Entry, discover
from grader.exercise.model import Part
from grader.exercise.rules import Agrees, SpeedBand
from grader.judge.truth import Truth
from grader.protocol.requests import Recipe
from grader.speed import baselines
from grader.speed.baselines import FAMILIES, Family, function_of, title_of, unmet_requirement, why_missing
from grader.speed.exercise_functions import functions_of

ROOT = Path(__file__).resolve().parents[2]
BANDS = [
    (entry, part, check.rule)
    for entry in discover(ROOT)
    for part, check in entry.exercise.checks()
    if isinstance(check.rule, SpeedBand)
]
every_band = pytest.mark.parametrize(("entry", "part", "band"), BANDS, ids=[part.name for _, part, _ in BANDS])


def module_of(**functions: Any) -> types.ModuleType:
    """An exercise's baselines.py with these functions."""
    module = types.ModuleType("baselines")
    vars(module).update(functions)
    return module


@pytest.fixture
def family(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Add a family "odd" with these fields."""

    def add(**fields: Any) -> None:
        monkeypatch.setattr(baselines, "FAMILIES", {**FAMILIES, "odd": Family("Odd", "odd", **fields)})

    return add


# -- why one is missing ----------------------------------------------------------------------------------------------


def test_an_unknown_baseline_is_answered_with_those_that_there_are() -> None:
    assert unmet_requirement("cudnn", "copy", module_of()) == (
        "a baseline must be one of torch_eager, cublas, cuda_cpp, sdpa_flash, sdpa_efficient, sdpa_cudnn, "
        "torch_compile, xla, flashinfer, flash_attention_4, our_fastest, naive, copy_roofline, got 'cudnn'"
    )


def test_a_function_that_the_exercise_lacks_is_named() -> None:
    why = unmet_requirement("torch_compile", "copy", module_of(scale_torch_eager=abs))
    assert why == "the exercise's baselines.py must define copy_torch_eager for it"


def test_a_package_that_is_not_installed_is_named(family: Any) -> None:
    family(needs=("math", "no_such_package.inside"))
    assert unmet_requirement("odd", "copy", module_of(copy_odd=abs)) == "no_such_package.inside is not installed"


def test_a_gate_says_why_in_its_own_words(family: Any) -> None:
    family(gate=lambda: "the GPU must be newer")
    assert unmet_requirement("odd", "copy", module_of(copy_odd=abs)) == "the GPU must be newer"


def test_a_gate_that_fails_is_a_reason_and_no_error(family: Any) -> None:
    def gate() -> str:
        raise RuntimeError("x" * 1000)

    family(gate=gate)
    assert unmet_requirement("odd", "copy", module_of(copy_odd=abs)) == f"RuntimeError: {'x' * 200}"


def test_nothing_is_missing_from_one_that_can_run(family: Any) -> None:
    family(needs=("math",))
    assert unmet_requirement("odd", "copy", module_of(copy_odd=abs)) == ""


def test_a_copy_needs_no_function_of_the_exercise() -> None:
    assert unmet_requirement("copy_roofline", "copy", module_of()) == ""


# -- whether one can run ---------------------------------------------------------------------------------------------


def no_arguments() -> tuple[object, ...]:
    raise AssertionError("nothing is to be called")


def test_a_baseline_that_raises_cannot_run_and_its_words_say_why() -> None:
    def refuses(x: object) -> object:
        raise RuntimeError("FlashAttention only supports\n  Ampere GPUs or newer.")

    why = why_missing("torch_eager", "copy", module_of(copy_torch_eager=refuses), lambda: (1,))
    assert why == "RuntimeError: FlashAttention only supports Ampere GPUs or newer."


def test_a_baseline_is_called_once_with_the_arguments_of_the_case() -> None:
    called: list[object] = []
    module = module_of(copy_torch_eager=lambda *arguments: called.append(arguments))
    assert why_missing("torch_eager", "copy", module, lambda: (3, 4)) == ""
    assert called == [(3, 4)]


def test_an_error_of_the_inputs_is_not_the_baseline_s() -> None:
    with pytest.raises(AssertionError, match="nothing is to be called"):
        why_missing("torch_eager", "copy", module_of(copy_torch_eager=abs), no_arguments)


@pytest.mark.parametrize("name", ["torch_compile", "copy_roofline", "cublas"])
def test_one_that_compiles_for_seconds_or_is_no_function_or_is_missing_is_not_called(name: str) -> None:
    why = why_missing(name, "copy", module_of(copy_torch_eager=no_arguments), no_arguments)
    assert why == ("the exercise's baselines.py must define copy_cublas for it" if name == "cublas" else "")


# -- how one is called -----------------------------------------------------------------------------------------------


def test_a_family_s_wrapper_goes_around_the_exercise_s_function(family: Any) -> None:
    family(wrap=lambda function: lambda x: 7 * function(x))
    assert function_of("odd", "copy", module_of(copy_odd=abs))(-9) == 63


def test_one_without_a_wrapper_is_the_exercise_s_function_itself() -> None:
    def copy(x: object) -> object:
        return x

    assert function_of("torch_eager", "copy", module_of(copy_torch_eager=copy)) is copy


def test_attention_is_run_by_the_backend_that_its_baseline_names() -> None:
    def backends() -> tuple[bool, bool, bool]:
        on = torch.backends.cuda
        return on.flash_sdp_enabled(), on.mem_efficient_sdp_enabled(), on.cudnn_sdp_enabled()

    module = module_of(attend_sdpa=backends)
    before = backends()
    assert function_of("sdpa_flash", "attend", module)() == (True, False, False)
    assert function_of("sdpa_efficient", "attend", module)() == (False, True, False)
    assert function_of("sdpa_cudnn", "attend", module)() == (False, False, True)
    assert backends() == before


def test_an_unknown_name_is_its_own_title() -> None:
    assert (title_of("cublas"), title_of("cudnn")) == ("cuBLAS", "cudnn")


# -- record kernels --------------------------------------------------------------------------------------------------


@pytest.fixture
def entry_with_a_record(tmp_path: Path) -> Entry:
    """An exercise like ex_15, whose fast/ holds what the test writes into it."""
    (tmp_path / "reference").mkdir()
    entry = Entry(tmp_path, "ex_15_triton_basics")
    (entry.folder / "fast").mkdir(parents=True)
    for name in ("spec.py", "baselines.py"):
        (entry.folder / name).write_bytes((ROOT / "reference" / entry.name / name).read_bytes())
    return entry


def test_a_record_kernel_is_a_baseline_of_its_part(entry_with_a_record: Entry) -> None:
    (entry_with_a_record.folder / "fast" / "added.py").write_text("def vector_add(x, y):\n    return x + y\n")
    module = functions_of(entry_with_a_record)
    assert unmet_requirement("our_fastest", "vector_add", module) == ""
    assert function_of("our_fastest", "vector_add", module)(1, 2) == 3


def test_a_part_without_a_record_kernel_says_so(entry_with_a_record: Entry) -> None:
    module = functions_of(entry_with_a_record)
    assert unmet_requirement("our_fastest", "vector_add", module) == "there is no record kernel of ours here"


def test_a_record_kernel_that_cannot_be_imported_is_missing_alone(entry_with_a_record: Entry) -> None:
    text = "import no_such_package\ndef vector_add(x, y):\n    return x\n"
    (entry_with_a_record.folder / "fast" / "added.py").write_text(text)
    module = functions_of(entry_with_a_record)
    why = why_missing("our_fastest", "vector_add", module, tuple)
    assert why == "ModuleNotFoundError: No module named 'no_such_package'"


# -- those of the exercises ------------------------------------------------------------------------------------------


@every_band
def test_every_baseline_that_a_specification_names_is_known(entry: Any, part: Part, band: SpeedBand) -> None:
    names = (band.baseline, *band.shown_beside)
    assert {*names, *band.fallbacks} <= set(FAMILIES)
    assert len(set(names)) == len(names)
    # Points are never measured against something that most machines lack or that takes seconds to compile.
    for name in (band.baseline, *band.fallbacks):
        assert not FAMILIES[name].needs
        assert not FAMILIES[name].slow


@every_band
def test_the_exercise_writes_what_its_baselines_need(
    entry: Any, part: Part, band: SpeedBand, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = functions_of(entry)
    # What a machine lacks is not the exercise's fault.
    bare = {name: replace(family, needs=(), gate=lambda: "") for name, family in FAMILIES.items()}
    monkeypatch.setattr(baselines, "FAMILIES", bare)
    assert {
        unmet_requirement(name, part.name, module) for name in (band.baseline, *band.fallbacks, *band.shown_beside)
    } == {""}


@every_band
def test_some_baseline_of_every_part_computes_what_the_part_asks_for(entry: Any, part: Part, band: SpeedBand) -> None:
    computing = [name for name in (band.baseline, *band.shown_beside) if FAMILIES[name].computes]
    assert any(not FAMILIES[name].slow for name in computing), "nothing to compare timed answers with"


@every_band
def test_what_timed_answers_are_compared_with_has_the_form_of_the_truth(
    entry: Any, part: Part, band: SpeedBand
) -> None:
    module = functions_of(entry)
    truth = Truth.of(entry)
    cases = next(check.rule.cases for check in part.checks if isinstance(check.rule, Agrees))
    recipe = Recipe(part.name, dict(cases.named_cases[0]), 17)
    # These need no GPU; the others are compared with nothing here.
    for name in {"torch_eager", "cublas"} & {band.baseline, *band.shown_beside}:
        arguments = dict(zip(part.arguments, truth.inputs(recipe), strict=True))
        result = function_of(name, part.name, module)(*arguments.values())
        returned = result if isinstance(result, tuple) else () if result is None else (result,)
        outputs = [*returned, *(arguments[changed] for changed in part.mutates)]
        for got, expected in zip(outputs, truth.expect(part, recipe), strict=True):
            assert (got.dtype, got.shape) == (expected.dtype, expected.value.shape)
