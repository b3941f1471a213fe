"""Feed our planted mistakes, honest files and attacks to the evaluators of other projects, and write a table.

    python -m benchmarks.peers --kernelbench PATH --popcorn PATH [--each 8] [--rows FILE] [--markdown FILE]

PATH is a checkout: of ScalingIntelligence/KernelBench, and of gpu-mode/kernelbot (or reference-kernels). Their code
runs as it is, in processes of its own, without a sandbox. A CUDA device is needed: both evaluators draw their inputs on
one. Files of escapes/, faults/ and hostile/ are never fed.
"""

from __future__ import annotations

import argparse
import datetime
import os
import queue
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from pathlib import Path

from benchmarks.peers import kept, kernelbench, ours, popcorn
from benchmarks.peers.files import Fed, chosen
from benchmarks.peers.outcome import Outcome
from benchmarks.peers.report import Row, Setting, page
from benchmarks.peers.tasks import TASKS
from grader.machine import find_gpu, version, visible_gpus

# Asks one grader about one file, in a folder, with an environment.
Ask = Callable[[Fed, Path, Mapping[str, str]], Outcome]


class Devices:
    """The GPUs, each lent to one file at a time unless there are more jobs than GPUs."""

    def __init__(self, gpus: Sequence[str], jobs: int) -> None:
        self._free: queue.SimpleQueue[str] = queue.SimpleQueue()
        for place in range(jobs):
            self._free.put(gpus[place % len(gpus)])

    @contextmanager
    def one(self) -> Iterator[Mapping[str, str]]:
        """Lend a GPU, as an environment that shows no other."""
        gpu = self._free.get()
        try:
            yield {"CUDA_VISIBLE_DEVICES": gpu}
        finally:
            self._free.put(gpu)


def main() -> int:
    """Measure, and write the page."""
    options = _options().parse_args()
    feds = chosen(options.each)
    if trouble := missing(options.kernelbench, options.popcorn):
        print(f"Nothing can be measured here: {trouble}.\n\nThese files would be fed:\n")
        print("\n".join(f"{fed.kind:<12} {fed.task.exercise} {fed.task.part:<12} {fed.name}" for fed in feds))
        return 4
    rows = kept.load(options.rows, feds)
    gpus = visible_gpus()
    jobs = options.jobs or len(gpus)
    devices, stop = Devices(gpus, jobs), time.monotonic() + options.seconds
    with ThreadPoolExecutor(jobs) as pool:
        asks = _graders(options.kernelbench, options.popcorn, pool, devices)
        begun = [pool.submit(measured, rows.get(fed.key, Row(fed, {})), asks, devices, stop) for fed in feds]
        for done in as_completed(begun):
            rows[done.result().fed.key] = done.result()
            # An evaluator may hang: what was measured before is kept.
            kept.save(options.rows, [*rows.values()])
    ordered = [rows[fed.key] for fed in feds]
    text = page([row for row in ordered if row.outcomes], list(asks), _setting(options, ordered))
    if options.markdown:
        options.markdown.write_text(text, encoding="utf-8")
    print(text)
    return 0


def missing(kernelbench_at: Path | None, popcorn_at: Path | None) -> str:
    """Return why nothing can be measured; '' if everything is there."""
    if kernelbench_at is None and popcorn_at is None:
        return "at least one of --kernelbench and --popcorn must name a checkout"
    if kernelbench_at and not (kernelbench_at / "src" / "kernelbench" / "eval.py").is_file():
        return f"--kernelbench must hold src/kernelbench/eval.py, got {kernelbench_at}"
    if popcorn_at and popcorn.evaluator(popcorn_at) is None:
        return f"--popcorn must hold eval.py and utils.py, also in {', '.join(popcorn.PLACES[1:])}, got {popcorn_at}"
    if not visible_gpus():
        return "the evaluators must have a CUDA device, for their inputs and their clocks, got none"
    return ""


def measured(row: Row, asks: Mapping[str, Ask], devices: Devices, stop: float) -> Row:
    """Ask about one file every grader whose outcome a row lacks, one after the other on the same GPU.

    None is asked once it is too late.
    """
    fed, outcomes = row.fed, {**row.outcomes}
    asks = {name: ask for name, ask in asks.items() if name not in outcomes}
    with devices.one() as environment:
        for name, ask in asks.items() if time.monotonic() < stop else ():
            with tempfile.TemporaryDirectory(prefix="peers-", ignore_cleanup_errors=True) as folder:
                outcomes[name] = ask(fed, Path(folder), environment)
            told = outcomes[name]
            print(f"{fed.task.part} {fed.name}: {name} {told.verdict} {told.reason}", file=sys.stderr, flush=True)
    return Row(fed, outcomes)


def _graders(
    kernelbench_at: Path | None, popcorn_at: Path | None, pool: ThreadPoolExecutor, devices: Devices
) -> dict[str, Ask]:
    asks: dict[str, Ask] = {}
    if kernelbench_at:
        asks[kernelbench.NAME] = lambda *given: kernelbench.evaluate(kernelbench_at, *given)
    if popcorn_at and (place := popcorn.evaluator(popcorn_at)):
        usual = _usual_times(place, pool, devices)
        asks[popcorn.NAME] = lambda fed, folder, told: popcorn.evaluate(place, fed, folder, told, usual[fed.task.part])
    return {**asks, ours.NAME: ours.evaluate}


def _usual_times(place: Path, pool: ThreadPoolExecutor, devices: Devices) -> dict[str, float]:
    """Return the reference's own time by part, measured by popcorn's evaluator."""

    def of(part: int) -> float:
        with devices.one() as environment, tempfile.TemporaryDirectory(prefix="peers-") as folder:
            return popcorn.time_of_reference(place, TASKS[part], Path(folder), environment)

    return dict(zip((task.part for task in TASKS), pool.map(of, range(len(TASKS))), strict=True))


def _setting(options: argparse.Namespace, rows: Sequence[Row]) -> Setting:
    gpu = find_gpu()
    named = {kernelbench.NAME: options.kernelbench, popcorn.NAME: options.popcorn}
    return Setting(
        day=datetime.datetime.now(tz=datetime.UTC).date().isoformat(),
        machine=f"{len(visible_gpus())} × {gpu.name if gpu else 'unknown'}",
        versions=f"torch {version('torch')}, triton {version('triton')}, Python {sys.version.split()[0]}",
        checkouts={name: _commit(path) for name, path in named.items() if path},
        command="python -m benchmarks.peers --kernelbench PATH --popcorn PATH",
        left_out=sum(not row.outcomes for row in rows),
    )


def _commit(checkout: Path) -> str:
    """Return which version a checkout is: the text of a file COMMIT in it, or what git says."""
    if (checkout / "COMMIT").is_file():
        return (checkout / "COMMIT").read_text(encoding="utf-8").strip()
    command = ["git", "-C", str(checkout), "log", "-1", "--format=commit %h of %cs"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() or f"{checkout.name}, a version that is not known"


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__.partition("\n")[0])
    parser.add_argument("--kernelbench", type=Path, help="a checkout of ScalingIntelligence/KernelBench")
    parser.add_argument("--popcorn", type=Path, help="a checkout of gpu-mode/kernelbot or gpu-mode/reference-kernels")
    parser.add_argument("--each", type=int, default=8, help="files of each kind; 0: all")
    parser.add_argument("--jobs", type=int, default=0, help="files at a time; default: one for each GPU")
    parser.add_argument("--seconds", type=float, default=3600.0, help="begin no file later than this")
    parser.add_argument(
        "--rows", type=Path, help="a JSON file: what it holds is not measured again; each result is written there"
    )
    parser.add_argument("--markdown", type=Path, help="also write the page here")
    return parser


if __name__ == "__main__":
    # The evaluators print what they compile; a broken pipe must not end a measurement.
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    raise SystemExit(main())
