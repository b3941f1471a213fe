"""The learner's parts stand beside the model solution's: costs, the author's words, and the code of both."""

from __future__ import annotations

from dataclasses import replace

import pytest

from grader.record.record import Record
from grader.report.page import beside
from grader.report.page.beside import CostRow, Solved, code_of
from grader.report.text import terminal
from tests.records import compiled, samples

SOURCE = """
import torch
BLOCK, WARPS = 64, 4
SPARE = 1

def helper(x):
    return x + WARPS

@triton.jit
def kernel(x, BLOCK):
    pass

def vector_add(x, y):
    return kernel[(1,)](helper(x), BLOCK)

def other():
    return SPARE
"""


def solved(record: Record | None, source: str = SOURCE) -> Solved:
    return Solved(source, record.checks, record.parts) if record else Solved(source)


def test_costs_of_both_are_those_of_the_call_that_moves_most() -> None:
    model = samples.on_paper()
    (part,) = beside.beside(solved(model), solved(model), {"vector_add": "Two\n  words."})
    assert (part.title, part.case, part.commentary) == ("Vector addition", "N=10000, float32", "Two words.")
    assert part.costs == (
        CostRow("launches", "1", "1"),
        CostRow("bytes moved", "120,000", "120,000"),
        CostRow("bytes of extra memory", "0", "0"),
        CostRow("predicted on H200 at N=2^28, float32", "734 µs", "734 µs"),
    )


def test_a_dash_stands_for_what_the_learners_record_lacks() -> None:
    (part,) = beside.beside(solved(samples.fast()), solved(samples.on_paper()), {})
    assert (part,) == beside.beside(solved(None), solved(samples.on_paper()), {})
    assert {row.own for row in part.costs} == {"–"}
    assert part.commentary == ""


def test_registers_are_named_for_each_kernel_in_launch_order() -> None:
    record = samples.record((samples.check("gemm.compiles", "Compiles"),), (compiled.gemm(),))
    (part,) = beside.beside(solved(record), solved(record), {})
    (row,) = part.costs
    assert row.name == "registers per thread, sm_90"
    assert row.own == row.model != "–"


def test_the_code_of_a_part_is_its_function_and_all_that_it_reaches() -> None:
    code = code_of(SOURCE, "vector_add")
    assert code.startswith("BLOCK, WARPS = 64, 4\n\ndef helper(x):")
    assert "@triton.jit\ndef kernel(x, BLOCK):" in code
    assert "SPARE" not in code
    assert "import torch" not in code


def test_a_later_definition_of_a_name_is_the_one_that_counts() -> None:
    assert code_of("# a\x0cpage\ndef f():\n    return 1\n", "f") == "def f():\n    return 1"
    assert code_of("def f():\n    return 1\n\ndef f():\n    return 2\n", "f") == "def f():\n    return 2"


@pytest.mark.parametrize("source", ["def f(:", "f = \0", "", "x = 1"])
def test_text_without_the_function_has_no_code(source: str) -> None:
    assert code_of(source, "f") == ""


def test_the_page_shows_both_as_text_and_runs_nothing() -> None:
    hostile = SOURCE.replace("pass", "'</pre><script>alert(1)</script>'")
    model = samples.on_paper()
    own = replace(model, parts=(replace(samples.VECTOR_ADD, title=samples.HOSTILE),))
    page = beside.render("ex_15: Triton basics", beside.beside(solved(own, hostile), solved(model), {}))
    assert page.count("<script") == 0
    assert "&lt;/pre&gt;&lt;script&gt;" in page
    assert page.count("def helper(x):") == 2


def test_the_terminal_shows_costs_and_commentary() -> None:
    model = samples.on_paper()
    text = terminal.render_beside(beside.beside(solved(model), solved(model), {"vector_add": "In words."}))
    assert "at N=10000, float32" in text
    assert "120,000  120,000" in text
    assert "  In words." in text
