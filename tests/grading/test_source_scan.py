"""The tripwire: what it sees, what it leaves alone, and that it decides nothing."""

from __future__ import annotations

import ast
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from benchmarks.accuracy.sighted import sighted
from grader.exercise.formula import evaluate
from grader.grading.source_scan import sightings
from grader.record.record import Sighting
from tests.claims import files
from tests.conftest import Grade

ROOT = Path(__file__).resolve().parents[2]
HONEST = sorted(
    path for what in ("solution.py", "fast/*.py", "honest/*.py") for path in ROOT.glob(f"reference/*/{what}")
)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("import ctypes", "imports ctypes"),
        ("def f():\n    import multiprocessing.shared_memory", "imports multiprocessing.shared_memory"),
        ("from os import fork", "imports os.fork"),
        ("from subprocess import run", "imports from subprocess"),
        ("os.kill(1, 9)", "uses os.kill"),
        ("exec('x')", "runs text as code"),
        ("f.__globals__['x']", "looks into __globals__"),
        ("getattr(f, '__code__')", "names __code__"),
        ("torch.cuda.Event.elapsed_time = late", "changes torch.cuda.Event.elapsed_time"),
        ("torch.backends.cuda.matmul.allow_tf32 = True", "changes torch.backends.cuda.matmul.allow_tf32"),
        ("setattr(triton, 'jit', mine)", "changes triton"),
        ("open('/etc/passwd')", "opens a file"),
    ],
)
def test_it_sees(text: str, what: str) -> None:
    assert [one.what for one in sightings(text)] == [what]
    assert sightings(text)[0].line == text.count("\n") + 1


@pytest.mark.parametrize(
    "text",
    [
        "import os, functools, inspect, math, torch, triton",
        "os.environ.get('TRITON_CACHE_DIR')",
        "x = 'import ctypes'  # exec('x')",
        "self.size = 3",
        "kernel.warmup = True",
        "x.open()",
        "def broken(:",
        "x = '\0'",
        "(" * 3000,
    ],
)
def test_it_leaves_alone(text: str) -> None:
    assert sightings(text) == ()


@pytest.mark.parametrize("path", HONEST, ids=lambda path: f"{path.parents[-4].name}-{path.stem}")
def test_honest_files_do_not_set_it_off(path: Path) -> None:
    assert sightings(path.read_text(encoding="utf-8")) == ()


@pytest.mark.parametrize("path", files("escapes"), ids=lambda path: path.stem)
def test_ways_out_of_the_process_do(path: Path) -> None:
    assert sightings(path.read_text(encoding="utf-8"))


def test_a_few_are_enough() -> None:
    assert len(sightings("import ctypes\n" * 1000)) == 20


def test_a_name_may_have_more_parts_than_pythons_functions_for_trees_bear() -> None:
    (sighting,) = sightings(f"torch{'.a' * 400} = 1")
    assert sighting.what.startswith("changes torch.a.a")


def test_it_costs_no_points_and_stands_in_the_record(graded: Grade, tmp_path: Path) -> None:
    odd = tmp_path / "odd.py"
    text = (ROOT / "tests" / "submissions" / "controls" / "two_steps_with_fill_between.py").read_text(encoding="utf-8")
    odd.write_text(f"{text}\nimport gc\n", encoding="utf-8")
    record = graded(odd, "vector_add", cases=1)
    assert record.sightings == (Sighting(text.count("\n") + 2, "imports gc"),)
    assert record.score == graded(text, "vector_add", cases=1).score > 0


def test_the_page_counts_what_was_sighted() -> None:
    page = sighted(ROOT)
    assert f"| solutions and honest variants | {len(HONEST)} | 0 (0%) |" in page
    assert "| ways out of the process | 1" in page


def test_trees_are_built_by_one_thread_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    inside, most = [0], []
    parse = ast.parse

    def slow(text: str, mode: str = "exec") -> ast.AST:
        inside[0] += 1
        most.append(inside[0])
        time.sleep(0.01)
        inside[0] -= 1
        return parse(text, mode=mode)

    monkeypatch.setattr(ast, "parse", slow)
    with ThreadPoolExecutor(4) as pool:
        found = [pool.submit(work) for work in (lambda: sightings("x = 1"), lambda: evaluate("2 * N", {"N": 3})) * 4]
    assert [one.result() for one in found] == [(), 6.0] * 4
    assert most == [1] * 8
