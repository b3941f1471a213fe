"""Measure the gain from a second GPU for a class: the same submissions on the first GPU, then on all of them."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from grader.exercise.catalogue import resolve
from grader.machine import visible_gpus
from grader.record.checks import CheckResult
from grader.record.record import Record, from_json

ROOT = Path(__file__).resolve().parents[1]


def make_class(folder: Path, students: int, exercises: list[str]) -> None:
    """Make a plain class of model solutions, each a text of its own."""
    for name in exercises:
        entry, _ = resolve(ROOT, name)
        for number in range(students):
            target = folder / f"student_{number:02}" / f"{entry.name}.py"
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(f"{entry.solution.read_text()}\n# {number}\n")


def graded(source: Path, out: Path, gpus: list[str]) -> tuple[float, dict[str, Record]]:
    """Return the seconds of the whole command, and the records by STUDENT/EXERCISE."""
    home = out / "home"
    home.mkdir(parents=True)
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ",".join(gpus), "HOME": str(home)}
    command = [sys.executable, "-m", "grader", "batch", str(source), "--out", str(out / "graded"), "--allow-unconfined"]
    started = time.monotonic()
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    seconds = time.monotonic() - started
    if done.returncode not in (0, 1, 3):
        print(f"exit code {done.returncode}\n{done.stdout[-1000:]}{done.stderr[-2000:]}")
    records = sorted((out / "graded/records").glob("*/*.json"))
    return seconds, {f"{path.parent.name}/{path.stem}": from_json(path.read_text()) for path in records}


def speeds(record: Record) -> list[CheckResult]:
    """Return the checks on speed that were decided by timing."""
    return [check for check in record.checks if check.speed is not None]


def compared(alone: dict[str, Record], beside: dict[str, Record]) -> None:
    """Say which speed verdicts are the same, and how far the ratios of single sizes are apart."""
    pairs = [
        (name, one, other)
        for name in sorted(set(alone) & set(beside))
        for one in speeds(alone[name])
        for other in speeds(beside[name])
        if one.id == other.id
    ]
    verdicts = sum(one.status == other.status for _, one, other in pairs)
    points = sum(one.points == other.points for _, one, other in pairs)
    print(f"of {len(pairs)} speed verdicts {verdicts} the same, and {points} to the same points", end="; ")
    apart = sorted(
        (abs(ratio / ratio_alone - 1), name, words)
        for name, one, other in pairs
        for words, ratio_alone, ratio in sizes_of_both(one, other)
    )
    if not apart:
        print("no size was judged both times")
        return
    far, name, words = apart[-1]
    print(f"ratios at {len(apart)} judged sizes apart by {apart[len(apart) // 2][0]:.1%} in the median", end=", ")
    print(f"by {far:.1%} at most ({name}, {words})", flush=True)
    for name, one, other in pairs:
        if one.points != other.points:
            print(f"  {name} {one.id}: {one.status} with {one.points} alone, {other.status} with {other.points}")


def sizes_of_both(one: CheckResult, other: CheckResult) -> list[tuple[str, float, float]]:
    """Return the sizes that were judged both times: their names, and both ratios to the baseline."""
    first, second = (
        {size.words: float(size.submission.ratio) for size in check.speed.sizes if size.judged}
        for check in (one, other)
    )
    return [(words, first[words], second[words]) for words in first if words in second]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--students", type=int, default=6)
    parser.add_argument("--exercises", default="ex_16")
    parser.add_argument("--keep", type=Path, help="a folder for what is written; a temporary one unless said")
    given = parser.parse_args()
    gpus = list(visible_gpus())
    if len(gpus) < 2:
        parser.error(f"there must be at least two GPUs, got {len(gpus)}")
    folder = given.keep or Path(tempfile.mkdtemp(prefix="grade-bench-"))
    if folder.exists() and any(folder.iterdir()):
        parser.error(f"what is written must go to an empty folder, got {folder}")
    make_class(folder / "submissions", given.students, given.exercises.split(","))
    found = []
    for number in (1, len(gpus)):
        seconds, records = graded(folder / "submissions", folder / f"on-{number}", gpus[:number])
        found.append((seconds, records))
        each = ", ".join(f"{record.duration_s:.0f}" for record in records.values())
        passed = sum(record.verdict == "pass" for record in records.values())
        print(f"{number} GPU(s): {len(records)} graded, {passed} pass, in {seconds:.0f} s (each: {each} s)", flush=True)
    (alone_s, alone), (beside_s, beside) = found
    print(f"{len(gpus)} GPUs take {beside_s / alone_s:.2f} of one's time")
    compared(alone, beside)


if __name__ == "__main__":
    main()
