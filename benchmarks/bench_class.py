"""Measure a large class: the class page and every export of 10,000 records, each in a process of its own."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from grader.export.formats import formats  # noqa: E402

_OPTIONS = {"canvas": ("--of-judged",)}
COMMANDS = (
    ("report",),
    ("report", "--audience", "student"),
    *(
        ("export", "--format", one.name, *_OPTIONS.get(one.name, ()))
        for one in formats().values()
        if one.render or one.class_files
    ),
)


def main() -> None:
    """Make the class, run the commands, print a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--students", type=int, default=2000)
    parser.add_argument("--keep", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="grade-class-") as scratch:
        folder = given.keep or Path(scratch) / "graded"
        if not (folder / "batch.json").is_file():
            from tests.records.classes import large

            started = time.monotonic()
            large(folder, given.students)
            print(f"made in {time.monotonic() - started:.0f} s", file=sys.stderr)
        files = list((folder / "records").rglob("*.json"))
        size = sum(path.stat().st_size for path in files)
        print(f"{len(files)} records, {size / len(files) / 1000:.0f} kB each, {os.cpu_count()} cores")
        for command in COMMANDS:
            # To leave what is written already alone would be quicker than to write it.
            shutil.rmtree(folder / "export", ignore_errors=True)
            seconds, used, peak = measured(folder, command)
            print(f"{' '.join(command):<36} {seconds:6.1f} s  {used:6.1f} s of CPU {peak / 1e6:7.0f} MB", flush=True)


def measured(folder: Path, command: tuple[str, ...]) -> tuple[float, float, float]:
    """Return seconds, seconds of CPU (steadier on a busy machine) and peak memory in bytes of one command."""
    arguments = [sys.executable, "-m", "grader", command[0], str(folder), *command[1:]]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    started = time.monotonic()
    with subprocess.Popen(arguments, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as child:
        # The kernel's account of this very child.
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {child.returncode}")
    return time.monotonic() - started, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024


if __name__ == "__main__":
    main()
