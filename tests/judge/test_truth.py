"""What the oracle gives is counted before it is used: an author reads which function of oracle.py is wrong."""

from __future__ import annotations

from dataclasses import replace

import pytest

from grader.errors import GradeError
from grader.exercise.catalogue import discover
from grader.judge.truth import Truth
from grader.protocol.requests import Recipe
from tests.conftest import ROOT

INPUTS = "import torch\n\ndef double(case, generator):\n    return (torch.randn(7, generator=generator),)\n"


def failed(returns: str, honest: str) -> str:
    """Return the message about an oracle that returns and yields these."""
    oracle = f"def double(x):\n    return {returns}\n\ndef double_honest(x):\n    {honest}\n"
    part = replace(discover(ROOT)[0].exercise.parts[0], name="double", outputs=("z",), mutates=())
    with pytest.raises(GradeError) as raised:
        Truth(INPUTS, oracle).expect(part, Recipe("double", {}, 1))
    return str(raised.value)


def test_an_oracle_returns_as_many_outputs_as_the_part_has() -> None:
    said = failed("2 * x, x", "yield 2 * x")
    assert said == "oracle.py: double must return 1 output (z), got 2"


def test_a_part_has_at_least_one_honest_variant() -> None:
    said = failed("2 * x", "yield from ()")
    assert said == "oracle.py: double_honest must yield at least one variant, got none"


def test_each_honest_variant_has_all_outputs() -> None:
    said = failed("2 * x", "yield 2 * x; yield ()")
    assert said == "oracle.py: variant 2 of double_honest must have 1 output (z), got 0"
