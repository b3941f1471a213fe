"""Measure the cost of watching: ex_16's cases in the interpreter, plain, corrected, and guarded: `tox -e bench`."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import time
import types
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from grader.exercise.abilities import WHOLE_CPU
from grader.exercise.catalogue import resolve
from grader.exercise.plan import default_seed, draw

ROOT = Path(__file__).resolve().parents[1]
ENTRY, _ = resolve(ROOT, "ex_16")
WAYS = ("plain", "corrected", "guarded")
# The model solution, and where many programs meet: atomics on whole tiles, tickets, descriptors.
SUBMISSIONS = ("solution", "honest/split_k_atomics", "honest/last_program_epilogue", "honest/host_descriptors")


@contextmanager
def running(way: str, submission: str) -> Iterator[subprocess.Popen[str]]:
    """Yield a process that runs all cases of a submission at every line that it is sent."""
    environment = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-W", "ignore", __file__, way, submission]
    with subprocess.Popen(command, env=environment, stdin=-1, stdout=-1, text=True) as process:
        yield process


def seconds(process: subprocess.Popen[str]) -> float:
    """Return the processor time of all cases."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("run\n")
    process.stdin.flush()
    return float(process.stdout.readline())


@pytest.mark.parametrize("submission", SUBMISSIONS)
def bench_watching(benchmark, submission):
    with ExitStack() as stack:
        processes = [stack.enter_context(running(way, submission)) for way in WAYS]
        for process in processes:
            seconds(process)
        # In turns: what the machine does meanwhile meets all of them.
        spent = [[seconds(process) for process in processes] for _ in range(3)]
        benchmark.pedantic(seconds, args=(processes[-1],), rounds=1)
    least = dict(zip(WAYS, (min(column) for column in zip(*spent, strict=True)), strict=True))
    benchmark.extra_info |= {f"{way}_s": round(least[way], 3) for way in WAYS}
    benchmark.extra_info["times_the_plain"] = least["guarded"] / least["plain"]
    print(
        f"\n{submission}: plain {least['plain']:.2f} s, corrected {least['corrected']:.2f} s, guarded "
        f"{least['guarded']:.2f} s: {least['guarded'] / least['plain']:.2f} x the plain interpreter (promised: 2), "
        f"{least['guarded'] / least['corrected']:.2f} x the corrected one"
    )


def serve(way: str, submission: str) -> None:
    """Run all of the submission's CPU cases for every line of input."""
    import numpy as np
    import torch

    from grader.exercise import tensors
    from grader.interpreter.corrections import apply_corrections
    from grader.interpreter.memory import MemoryWatch

    torch.set_num_threads(1)
    np.seterr(all="ignore")
    if way != "plain":
        apply_corrections()
    watch = MemoryWatch()
    if way == "guarded":
        watch.install()
    inputs, functions = module_of("inputs"), module_of(submission)
    plan = draw(ENTRY.exercise, default_seed(ENTRY.id), WHOLE_CPU)
    calls = [
        (getattr(functions, check.part.name), check.part.name, one)
        for check in plan.checks
        for one in check.cases
        # The plain interpreter computes garbage in bfloat16, and raises as well.
        if hasattr(functions, check.part.name) and one.case["dtype"] != "bfloat16"
    ]
    for _ in sys.stdin:
        spent = 0.0
        for function, part, one in calls:
            arguments = tensors.build(inputs, part, one.case, one.seed)
            started = time.process_time()
            function(*arguments)
            spent += time.process_time() - started
        assert watch.take() == ()
        print(spent, flush=True)


def module_of(name: str) -> types.ModuleType:
    """Return one of the exercise's files as a module; from its file, because triton reads the source of kernels."""
    spec = importlib.util.spec_from_file_location(name.replace("/", "_"), ENTRY.folder / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    serve(*sys.argv[1:])
