"""A speed check on the CPU: a submission in the interpreter, the baseline process, and a size that takes moments.

The clocks mean nothing here and decide nothing; the protocol, and what is verified behind every call, are the same.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from grader.exercise.cases import Case, Cases, Value
from grader.exercise.catalogue import Entry
from grader.exercise.model import Part
from grader.exercise.rules import SpeedBand
from grader.protocol.baseline_messages import Gauged
from grader.protocol.requests import Call, Recipe
from grader.sandbox.pair import RecordedAnswer, paired
from grader.sandbox.process_spec import ProcessSpec
from grader.sandbox.server import ForkServer
from grader.sandbox.session import Session
from grader.speed import rounds, suite
from grader.speed.baseline_process import BaselineProcess
from grader.speed.suite import Suite, Verdict

# A GPU so small that the cover takes moments, and so fast that no time is impossible.
GAUGED = Gauged(1 << 20, 1 << 25, 100.0, 100.0, {"float32": 100.0, "float16": 1000.0})
# Its output has 1024 pieces, some words more, and half a word.
TINY: dict[str, Value] = {"N": 4101}


@contextmanager
def running_baselines(entry: Entry) -> Iterator[BaselineProcess]:
    """The baseline process, on the CPU wherever this runs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CUDA_VISIBLE_DEVICES", "")
        baseline_process = BaselineProcess(entry)
    with baseline_process:
        yield baseline_process


def band_of(part: Part, *sizes: dict[str, Value], **changes: Any) -> SpeedBand:
    """The part's band, over these sizes and beside no other baseline."""
    band = next(check.rule for check in part.checks if isinstance(check.rule, SpeedBand))
    cases = Cases(band.suite.space, sizes, generated=0)
    return replace(band, **{"suite": cases, "shown_beside": (), **changes})


def call_of(part: Part, case: Case) -> Call:
    """The call of a timed case, as it is recorded."""
    return Call(Recipe(part.name, dict(case), 1), part.arguments, part.mutates, (), tensors=part.tensors)


@contextmanager
def session_of(server: ForkServer, entry: Entry, submission: str) -> Iterator[Session]:
    """The submission's processes."""
    with Session(ProcessSpec.of(server, entry, submission)) as session:
        yield session


def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few rounds only, and the same seeds and orders in every run."""
    monkeypatch.setattr(suite, "_LEAST_ROUNDS", 4)
    monkeypatch.setattr(suite, "_MOST_ROUNDS", 4)
    monkeypatch.setattr(rounds, "_CHANCE", random.Random(17))


def judge(
    server: ForkServer,
    entry: Entry,
    baseline_process: BaselineProcess,
    submission: str | Path,
    part: str = "vector_add",
    *,
    size: dict[str, Value] = TINY,
    before: Sequence[dict[str, Value]] = (),
    **changes: Any,
) -> Verdict:
    """The verdict on one part of a submission, at one tiny size; `changes` are the band's.

    before: the sizes of calls that the submission's process has had by then.
    """
    text = submission.read_text(encoding="utf-8") if isinstance(submission, Path) else submission
    found = entry.exercise.part(part)
    assert found is not None
    band = band_of(found, size, **changes)
    with session_of(server, entry, text) as session, paired(ProcessSpec.of(server, entry, text), session) as pair:
        for case in band_of(found, *before).suite.named_cases if before else ():
            told = pair.record(call_of(found, case))
            assert isinstance(told, RecordedAnswer), told
        traced = {case: pair.record_timed(call_of(found, case)) for case in band.suite.named_cases}
        replayer = pair.end_all_but_one()
        return Suite(found, band, traced, replayer, baseline_process, GAUGED, "none", "/learner/ex_15.py").judge()
