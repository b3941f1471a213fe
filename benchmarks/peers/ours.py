"""The same files in `grade`, by its command line."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from statistics import geometric_mean

from benchmarks.peers.files import ROOT, Fed
from benchmarks.peers.kernelbench import python_path
from benchmarks.peers.outcome import Outcome, run
from grader.record.checks import CheckResult
from grader.record.record import Record, from_json
from grader.record.speed import SizeTiming
from grader.record.statuses import UNJUDGED

NAME = "grade"
EAGER = "torch_eager"


def evaluate(fed: Fed, folder: Path, environment: Mapping[str, str]) -> Outcome:
    """Have one file graded as a user would."""
    submission, record = folder / f"{fed.name}.py", folder / "record.json"
    submission.write_text(fed.text, encoding="utf-8")
    told = {**environment, "PYTHONPATH": python_path(environment), "GRADE_ROOT": str(ROOT)}
    command = [sys.executable, "-m", "grader", fed.task.exercise, "--part", fed.task.part, "--quiet"]
    documents = ["--json", str(record), "--html", str(folder / "card.html")]
    ran = run([*command, "--submission", str(submission), *documents], folder, told)
    if not record.is_file():
        return Outcome("failed", ran.seconds, None, ran.end)
    return outcome(from_json(record.read_text(encoding="utf-8")), ran.seconds)


def outcome(record: Record, seconds: float) -> Outcome:
    """Return a record in the words of the table. A file that is right and slow is accepted."""
    lost = [check for check in record.checks if check.status not in {"pass", *UNJUDGED} and not _only_slow(check)]
    if lost:
        cause = lost[0].cause.kind if lost[0].cause else lost[0].status
        return Outcome("refused", seconds, None, f"{lost[0].id.partition('.')[2]}: {cause}")
    if not any(check.status == "pass" for check in record.checks):
        return Outcome("flagged", seconds, None, "nothing could be judged")
    open_ = [check for check in record.checks if check.status == "inconclusive"]
    if open_:
        return Outcome("flagged", seconds, speedup(record), f"{open_[0].id.partition('.')[2]}: left open")
    return Outcome("accepted", seconds, speedup(record))


def speedup(record: Record) -> float | None:
    """Return how many times as fast as eager torch, over the judged sizes; None where that was not timed."""
    sizes = [size for check in record.checks if check.speed for size in check.speed.sizes if size.judged]
    ratios = [ratio for size in sizes if (ratio := _ratio(size))]
    return geometric_mean(ratios) if ratios else None


def _ratio(size: SizeTiming) -> float:
    times = {one.name: float(one.median_us) for one in size.contenders}
    eager = times.get(EAGER) or times.get("cublas")
    return eager / times["submission"] if eager and times.get("submission") else 0.0


def _only_slow(check: CheckResult) -> bool:
    return check.cause is not None and check.cause.kind == "too_slow"
