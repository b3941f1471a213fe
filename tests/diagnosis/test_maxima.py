"""A sum that is not relative to the maximum so far is repaired, and the line of its factor is named."""

from __future__ import annotations

import pytest

from grader.diagnosis.edits.edits import edits_of
from grader.diagnosis.edits.repairs import repair_clues
from grader.exercise.cases import Case
from grader.exercise.catalogue import Entry
from grader.protocol.requests import Recipe
from grader.sandbox.server import ForkServer
from tests.benches import bench_of

# Steps of a loop over a row; tests put mistakes into them.
SOFTMAX = """import torch
import triton
import triton.language as tl

@triton.jit
def softmax(x_ptr, p_ptr, N, stride_x, stride_p, BLOCK: tl.constexpr):
    x_ptr += tl.program_id(0) * stride_x
    p_ptr += tl.program_id(0) * stride_p
    lanes = tl.arange(0, BLOCK)
    top = tl.full((), -float("inf"), tl.float32)
    total = tl.full((), 0.0, tl.float32)
    for start in range(0, N, BLOCK):
        x = tl.load(x_ptr + start + lanes, mask=start + lanes < N, other=-float("inf")).to(tl.float32)
STEPS
    for start in range(0, N, BLOCK):
        inside = start + lanes < N
        x = tl.load(x_ptr + start + lanes, mask=inside, other=-float("inf")).to(tl.float32)
        tl.store(p_ptr + start + lanes, tl.exp(x - top) / total, mask=inside)

def row_softmax(x):
    p = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    softmax[(x.shape[0],)](x, p, x.shape[1], x.stride(0), p.stride(0), BLOCK=64)
    return p
"""
COMPARED = """
own = tl.max(x, 0)
top = tl.maximum(top, own)
factor = tl.where(own > top, tl.exp(top - own), 1.0)
total = total * factor + tl.sum(tl.exp(x - top), 0)
"""
BY_ITSELF = """
top = tl.maximum(top, tl.max(x, 0))
total = total * tl.exp(top - top) + tl.sum(tl.exp(x - top), 0)
"""
UNDER_ANOTHER_NAME = """
new = tl.maximum(top, tl.max(x, 0))
top = new
powers = tl.exp(x - new)
total = total * tl.exp(top - new) + tl.sum(powers, 0)
"""
WITHOUT_A_FACTOR = """
top = tl.maximum(top, tl.max(x, 0))
total += tl.sum(tl.exp(x - top), 0)
"""
NEVER_CARRIED = """
new = tl.maximum(top, tl.max(x, 0))
total = total * tl.exp(top - new) + tl.sum(tl.exp(x - new), 0)
"""
CASES = [Case({"M": 2, "N": n, "dtype": "float32", "values": "normal", "stride": 0}) for n in (64, 60, 300, 400)]


def softmax_with(steps: str) -> str:
    return SOFTMAX.replace("STEPS", "\n".join(f"        {line}" for line in steps.strip().splitlines()))


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        (COMPARED, "`tl.exp(old - top), where old is top before line 15,` in place of `tl.where(own > top, "),
        (BY_ITSELF, "`tl.exp(old - top), where old is top before line 14,` in place of `tl.exp(top - top)` in line 15"),
        (UNDER_ANOTHER_NAME, "where old is top before line 15,` in place of `tl.exp(top - new)` in line 17"),
        (WITHOUT_A_FACTOR, "`total * tl.exp(old - top) - total + (tl.sum(tl.exp(x - top), 0))"),
    ],
)
def test_a_maximum_that_is_overwritten_too_early_is_kept_for_the_factor(
    server: ForkServer, ex_15: Entry, steps: str, words: str
) -> None:
    source = softmax_with(steps)
    with bench_of(server, ex_15, source, "row_softmax") as bench:
        failing: list[Recipe] = []
        for case in CASES:
            trial = bench.try_case(case, 5)
            failing += [trial.recipe] if trial.failure else []
        assert failing
        (clue,) = repair_clues(bench, source, failing, ())
    assert (clue.kind, clue.confirmed) == ("no_rescale", True)
    assert words in clue.evidence


def test_a_maximum_that_no_line_carries_on_is_carried_at_the_end_of_the_loop() -> None:
    found = edits_of(softmax_with(NEVER_CARRIED), {("softmax", 5): ((), {})}, "row_softmax")
    carried = [one for one in found if one.after.endswith("; top = new")]
    assert [(one.line, one.kinds[0]) for one in carried] == [(15, "maximum_restarted")]
    # This one does so itself.
    found = edits_of(softmax_with(f"{NEVER_CARRIED}top = new"), {("softmax", 5): ((), {})}, "row_softmax")
    assert not any("; top = new" in one.after for one in found)


def test_what_is_chosen_by_a_maximum_hides_no_element_of_one() -> None:
    hidden = COMPARED.replace("own = tl.max(x, 0)", "x = tl.where(lanes < 60, x, 0.0)\nown = tl.max(x, 0)")
    source = softmax_with(hidden)
    found = edits_of(source, {("softmax", 5): ((), {})}, "row_softmax")
    conditions = {one.after for one in found if one.before == "x" and one.after.startswith("tl.where(")}
    assert 'tl.where(lanes < 60, x, float("-inf"))' in conditions
    assert not any("top" in one for one in conditions)
