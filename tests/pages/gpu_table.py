"""`python -m tests.pages.gpu_table`: writes the table of docs/gpus.md from specifications and the rows of the GPUs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from grader.exercise.cases import Case
from grader.exercise.catalogue import Entry, discover
from grader.exercise.formula import evaluate
from grader.exercise.model import Part
from grader.exercise.rules import SpeedBand
from grader.gpus import ARCHITECTURES, Architecture, Gpu
from grader.speed import suite
from grader.speed.baselines import title_of
from grader.speed.prediction import DRAM_SHARE, TENSOR_SHARE

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "gpus.md"
BEGIN, END = "<!-- python -m tests.pages.gpu_table writes from here -->\n", "<!-- to here -->\n"
NAMES = ("T4", "RTX 3090", "L4", "RTX 4090", "RTX 5090")
# The driver and torch's context take part of the published memory.
FREE = 0.92
# Baselines that do not run from the first architecture on: FlashAttention's kernels in torch need sm_80.
SINCE = {"sdpa_flash": 80}

Card = tuple[Gpu, Architecture]


def cards() -> Iterator[Card]:
    found = {gpu.name: (gpu, row) for row in ARCHITECTURES.values() for gpu in row.gpus}
    return (found[name] for name in NAMES)


def bands() -> Iterator[tuple[Entry, Part, SpeedBand]]:
    for entry in discover(ROOT):
        for part in entry.exercise.parts:
            for check in part.checks:
                if isinstance(check.rule, SpeedBand):
                    yield entry, part, check.rule


def baseline(band: SpeedBand, row: Architecture) -> str:
    """Return the first baseline of the chain that this architecture runs."""
    chain = (band.baseline, *band.fallbacks)
    return next(name for name in chain if row.capability >= SINCE.get(name, 0))


def least_us(band: SpeedBand, case: Case, gpu: Gpu) -> float:
    """Return about how long a baseline takes that reaches the usual share of the published rates."""
    rate = gpu.tflops.get(str(case.get("dtype")), gpu.tflops["float32"])
    memory_us = evaluate(band.bytes, case) / (gpu.dram_tbps * DRAM_SHARE * 1e6)
    return max(memory_us, evaluate(band.flops, case) / (rate * TENSOR_SHARE * 1e6))


def sizes(band: SpeedBand, gpu: Gpu, row: Architecture) -> int:
    """Return how many sizes fit, are in a type that the GPU has, and take the baseline long enough."""
    room: Any = SimpleNamespace(memory_bytes=gpu.memory_gib * FREE * 2**30)
    return sum(
        str(case.get("dtype")) not in row.lacks
        and suite.fits(band, case, room)
        and least_us(band, case, gpu) >= suite._LEAST_US
        for case in band.suite.named_cases
    )


def cell(part: Part, band: SpeedBand, card: Card) -> str:
    gpu, row = card
    if not row.cute_dsl and any(package.module == "cutlass" for package in part.needs):
        return "–"
    return f"{sizes(band, gpu, row)} of {len(band.suite.named_cases)}"


def against(band: SpeedBand) -> str:
    """Return the baseline's title, and those of the cards that cannot run it."""
    others = [(gpu.name, baseline(band, row)) for gpu, row in cards() if baseline(band, row) != band.baseline]
    return "; ".join([title_of(band.baseline), *(f"on the {name} {title_of(one)}" for name, one in others)])


def table() -> str:
    head = [f"| part | against | {' | '.join(NAMES)} |", f"| --- | --- |{' ---: |' * len(NAMES)}"]
    rows = [
        f"| `{entry.id}` `{part.name}` | {against(band)} | {' | '.join(cell(part, band, card) for card in cards())} |"
        for entry, part, band in bands()
    ]
    return "".join(f"{line}\n" for line in [*head, *rows])


def page(text: str) -> str:
    """Return the page with its table made anew."""
    before, _, rest = text.partition(BEGIN)
    return f"{before}{BEGIN}\n{table()}\n{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
