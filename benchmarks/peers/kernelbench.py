"""KernelBench: a problem is a class `Model` with `get_inputs`, an answer a class `ModelNew`; one process a file."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.peers.files import ROOT, Fed
from benchmarks.peers.outcome import Outcome, Ran, run
from benchmarks.peers.tasks import Task

NAME = "KernelBench"


def reference(task: Task) -> str:
    """Return the problem: the torch reference and its inputs, of one size."""
    sizes = "".join(f"{axis} = {size}\n" for axis, size in task.fixed.items())
    inputs = ", ".join(f"{task.family}({shape})" for shape in task.shapes.values())
    return (
        f"import torch\n\n{sizes}\n\nclass Model(torch.nn.Module):\n    def forward(self, {task.arguments}):\n"
        f"        return {task.truth}\n\n\ndef get_inputs():\n    return [{inputs}]\n\n\n"
        "def get_init_inputs():\n    return []\n"
    ).replace(f"{task.family}(", f"torch.{task.family}(")


def candidate(task: Task, text: str) -> str:
    """Return the answer: the file, and the class that calls its function."""
    return (
        f"{text}\n\nclass ModelNew(torch.nn.Module):\n    def forward(self, {task.arguments}):\n"
        f"        return {task.part}({task.arguments})\n"
    )


def evaluate(checkout: Path, fed: Fed, folder: Path, environment: Mapping[str, str]) -> Outcome:
    """Have one file evaluated in a process of its own."""
    problem, answer, result = folder / "problem.py", folder / "answer.py", folder / "result.json"
    problem.write_text(reference(fed.task), encoding="utf-8")
    answer.write_text(candidate(fed.task, fed.text), encoding="utf-8")
    command = [sys.executable, "-m", "benchmarks.peers.kernelbench_process"]
    paths = [str(one.resolve()) for one in (checkout, problem, answer, result)]
    ran = run([*command, *paths], folder, {**environment, "PYTHONPATH": python_path(environment)})
    found = json.loads(result.read_text(encoding="utf-8")) if result.is_file() else None
    return outcome(found, ran)


def python_path(environment: Mapping[str, str]) -> str:
    """Return where a process finds this project's packages, and those that the caller named."""
    named = environment.get("PYTHONPATH", os.environ.get("PYTHONPATH", ""))
    return ":".join(filter(None, (str(ROOT), named)))


def outcome(found: Mapping[str, Any] | None, ran: Ran) -> Outcome:
    """Return what the evaluator's result says; None: it wrote none."""
    if found is None:
        return Outcome("failed", ran.seconds, None, ran.end)
    if found["errors"]:
        return Outcome("refused", ran.seconds, None, f"static check: {found['errors'][0]}")
    if not found["correct"]:
        return Outcome("refused", ran.seconds, None, found["why"])
    speedup = (
        found["reference_ms"] / found["runtime_ms"] if min(found["reference_ms"], found["runtime_ms"]) > 0 else None
    )
    if found["excessive"]:
        return Outcome("flagged", ran.seconds, speedup, "excessive speed-up")
    return Outcome("accepted", ran.seconds, speedup)
