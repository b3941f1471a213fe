"""Attacks on the parts that are no plain kernels: what chooses, what runs through CuTe, what keeps a cache.

The first line of each file under submissions/elsewhere/ names the check that must notice it, as in reference/*/wrong.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from grader.exercise.catalogue import resolve
from grader.exercise.plan import default_seed
from grader.exercise.planted import read
from grader.sandbox.server import ForkServer
from grader.soundness.claims import claim_of
from tests.canaries import Canaries
from tests.claims import files
from tests.conftest import ROOT, answered, plan_of


@pytest.mark.parametrize("path", files("elsewhere"), ids=lambda path: path.stem)
def test_the_check_that_is_named_notices_it(path: Path, server: ForkServer, canaries: Canaries) -> None:
    claim = claim_of(read(path))
    entry, _ = resolve(ROOT, path.stem[:5])
    for package in {need for part in entry.exercise.parts for need in part.needs}:
        pytest.importorskip(package.module)
    part = claim.check.partition(".")[0]
    plan = plan_of(entry, default_seed(entry.id), gpu=False, parts=frozenset({part}))
    # All of what is chosen, and of the check that is named, and a case of each before. What stands behind adds nothing.
    last = [one.id for one in plan.checks].index(claim.check)
    short = [
        one if one.part.chooses or place == last else replace(one, cases=one.cases[:1])
        for place, one in enumerate(plan.checks[: last + 1])
    ]
    with canaries.untouched():
        record = answered(server, entry, path, replace(plan, checks=tuple(short)), diagnosed=False)
    found = {check.id: check.status for check in record.checks}
    assert found[claim.check] == claim.status, found
    assert "grader_error" not in found.values()
