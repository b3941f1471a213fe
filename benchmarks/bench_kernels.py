"""The model solutions beside their baselines, kernel by kernel, on a GPU: `tox -e bench` on a machine that has one.

Plain repeated calls on one set of inputs, warm: a quick look for authors who tune a solution. Verdicts come from
grader.speed, which measures with fresh inputs, cold caches and two clocks (docs/timing.md).
"""

from __future__ import annotations

import importlib.util
import types
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from grader.exercise import tensors
from grader.exercise.cases import Case
from grader.exercise.catalogue import Entry, discover
from grader.exercise.formula import evaluate
from grader.exercise.model import Part
from grader.exercise.rules import SpeedBand
from grader.speed.baselines import FAMILIES, function_of, unmet_requirement

ROOT = Path(__file__).resolve().parents[1]

if not torch.cuda.is_available():
    pytest.skip("kernels are timed on a GPU only", allow_module_level=True)


def runs() -> Iterator[object]:
    """Yield every part, size and contender that can run here; slow compilers are left to `--all-baselines`."""
    for entry in discover(ROOT):
        rivals = module_of(entry, "baselines")
        for part, check in entry.exercise.checks():
            band = check.rule.band
            if band is None:
                continue
            named = (band.baseline, *band.shown_beside)
            names = [name for name in named if FAMILIES[name].computes and not FAMILIES[name].slow]
            able = [name for name in names if not unmet_requirement(name, part.name, rivals)]
            for case in band.suite.named_cases:
                for name in ("solution", *able):
                    yield pytest.param(entry, part, band, case, name, id=f"{part.name}-{short(case)}-{name}")


def short(case: Case) -> str:
    """Return the numbers and the dtype of a case."""
    return "x".join(str(value) for name, value in case.items() if name == "dtype" or not isinstance(value, str))


def module_of(entry: Entry, name: str) -> types.ModuleType:
    """Return one of the exercise's files as a module; from its file, because triton reads the source of kernels."""
    spec = importlib.util.spec_from_file_location(f"bench_{entry.name}_{name}", entry.folder / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(("entry", "part", "band", "case", "name"), list(runs()))
def bench_kernel(
    benchmark: Callable[..., object], entry: Entry, part: Part, band: SpeedBand, case: Case, name: str
) -> None:
    """Time one contender at one size; TB/s and TFLOP/s of the median stand in the JSON."""
    inputs = tensors.build(module_of(entry, "inputs"), part.name, case, seed=1, device="cuda")
    if name == "solution":
        function = getattr(module_of(entry, "solution"), part.name)
    else:
        function = function_of(name, part.name, module_of(entry, "baselines"))

    def call() -> None:
        function(*inputs)
        torch.cuda.synchronize()

    benchmark.group = f"{part.name} {short(case)}"  # type: ignore[attr-defined]
    benchmark.pedantic(call, rounds=15, warmup_rounds=3)  # type: ignore[attr-defined]
    seconds = benchmark.stats.stats.median  # type: ignore[attr-defined]
    benchmark.extra_info["tbps"] = evaluate(band.bytes, case) / seconds / 1e12  # type: ignore[attr-defined]
    benchmark.extra_info["tflops"] = evaluate(band.flops, case) / seconds / 1e12  # type: ignore[attr-defined]
