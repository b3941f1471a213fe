"""Measure the cost of grading, in whole processes and in single steps: `tox -e bench`. No test depends on it."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from grader.exercise.abilities import WHOLE_CPU
from grader.exercise.catalogue import resolve
from grader.exercise.model import Limits
from grader.exercise.plan import default_seed, draw
from grader.protocol.answers import Loaded
from grader.protocol.requests import Start
from grader.sandbox.process_spec import ProcessSpec
from grader.sandbox.server import ForkServer
from grader.sandbox.session import Session

ROOT = Path(__file__).resolve().parents[1]
ENTRY, _ = resolve(ROOT, "ex_15")
# How many times the import grading a model solution may take; None: nothing is promised.
PROMISED = {"ex_15": 2.5, "ex_16": None, "ex_18": 6.0, "ex_19": None}
IMPORT = [sys.executable, "-c", "import torch, triton"]


def grading(exercise: str) -> list[str]:
    """Return the command that grades an exercise's model solution."""
    entry, _ = resolve(ROOT, exercise)
    return [sys.executable, "-m", "grader", exercise, "--cpu", "--submission", str(entry.solution)]


def whole(command: list[str]) -> float:
    """Return the seconds from start to end of a command."""
    started = time.perf_counter()
    subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
    return time.perf_counter() - started


def first_result(command: list[str]) -> float:
    """Return the seconds from start to the first check that has passed, on stderr."""
    started = time.perf_counter()
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as process:
        assert process.stderr is not None
        seen = next(time.perf_counter() - started for line in process.stderr if "passed" in line)
        process.stderr.read()
    return seen


def bench_import_torch_and_triton(benchmark):
    benchmark.pedantic(whole, args=(IMPORT,), rounds=3)


@pytest.mark.parametrize("exercise", PROMISED)
def bench_grade_the_model_solution(benchmark, exercise):
    benchmark.pedantic(whole, args=(grading(exercise),), rounds=5)
    imported = statistics.median(whole(IMPORT) for _ in range(5))
    times = benchmark.extra_info["times_the_import"] = statistics.median(benchmark.stats.stats.data) / imported
    promised = f" (promised: {PROMISED[exercise]})" if PROMISED[exercise] else ""
    print(f"\ngrading the model solution of {exercise} takes {times:.2f} x the import{promised}")


def bench_first_result_on_screen(benchmark):
    seconds = benchmark.pedantic(first_result, args=(grading("ex_15"),), rounds=1)
    imported = statistics.median(whole(IMPORT) for _ in range(3))
    benchmark.extra_info["times_the_import"] = seconds / imported
    print(f"\nthe first result is on screen after {seconds / imported:.2f} x the import (promised: 1.5)")


def bench_list(benchmark):
    benchmark.pedantic(whole, args=([sys.executable, "-m", "grader", "list"],), rounds=5)


def bench_draw_the_plan(benchmark):
    benchmark(draw, ENTRY.exercise, default_seed(ENTRY.id), WHOLE_CPU)


@pytest.fixture
def session() -> Iterator[Session]:
    """Yield the model solution's session, its fork server warm."""
    server = ForkServer("interpret")
    names = tuple(part.name for part in ENTRY.exercise.parts)
    start = Start(f"{ENTRY.name}.py", ENTRY.solution.read_text(), ENTRY.source("inputs.py"), names)
    with Session(ProcessSpec(server, start, Limits())) as session:
        assert isinstance(session.load(), Loaded)
        yield session
    server.close()


def bench_fresh_child_with_the_submission_loaded(benchmark, session):
    def replace() -> None:
        session.restart()
        assert isinstance(session.load(), Loaded)

    benchmark(replace)
