"""Measure `grade batch`: its cost, and what it survives. A class of 200 × 2, mixed from everything that the tests know.

    python -m benchmarks.batch finished   students with every model solution, all parts: seconds a student
    python -m benchmarks.batch whole      all graded, each as when graded alone
    python -m benchmarks.batch overhead   beside a plain loop over the same files, as many at a time
    python -m benchmarks.batch killed     SIGKILL three times at random, resumed each time
    python -m benchmarks.batch cluster    a scheduler and two workers on loopback, one of which is killed

One part of each exercise is graded unless --all-parts is given. No test depends on what is measured here.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from grader.confinement import system
from grader.exercise.abilities import WHOLE_CPU
from grader.exercise.catalogue import Entry, discover, resolve
from grader.exercise.planted import read
from grader.record.record import Record, from_json
from grader.report.status import LOOKS

ROOT = Path(__file__).resolve().parents[1]
PARTS = ("vector_add", "matmul")
FOLDERS = ("attacks", "faults", "escapes", "controls", "unloadable")
# What comes out in more than one way when the very same file is graded twice, alone as well.
UNSTEADY = {
    "cached_by_pointer": "depends on where tensors lie; its own check, `fresh`, catches it every time",
    "grows_for_ever": "time or memory, whichever ends first on a busy machine",
    "gigabyte_of_prints": "time or values, whichever ends first on a busy machine",
    "answers_and_never_reads": "one check or the next finds it out",
    "column_stripes": "slow: time or bytes moved, whichever ends first on a busy machine",
}
Outcome = tuple[tuple[str, str, float], ...]


def texts(entry: Entry, first: bool) -> list[Path]:
    """Return every submission of an exercise; those of the tests belong to the first one."""
    own = [entry.solution, entry.pristine_stub, *(one.path for one in entry.wrong), *entry.honest]
    return own + [
        path for name in FOLDERS for path in sorted((ROOT / "tests/submissions" / name).glob("*.py")) if first
    ]


def make_class(folder: Path, students: int) -> dict[str, str]:
    """Make a plain class; return the file that each copy comes from.

    No two texts are alike, so that none is graded for another.
    """
    origin = {}
    drawn = random.Random(15)
    for place, name in enumerate(("ex_15", "ex_16")):
        entry, _ = resolve(ROOT, name)
        pool = texts(entry, place == 0)
        # Each once, then the solution again and again, as in a class.
        chosen = [*pool, *[entry.solution] * max(0, students - len(pool))][:students]
        if len(pool) > students:
            chosen = drawn.sample(pool, students)
        drawn.shuffle(chosen)
        for number, path in enumerate(chosen):
            student = f"student_{number:03}"
            target = folder / student / f"{entry.name}.py"
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(f"{read(path).text}\n# {student}\n")
            origin[f"{student}/{name}"] = str(path.relative_to(ROOT))
    return origin


def finished(source: Path, folder: Path, students: int, jobs: int, *, on_dask: bool) -> None:
    """Grade students who have finished every exercise; no two texts are alike. on_dask: by workers of a cluster."""
    for number in range(students):
        student = source / f"student_{number:03}"
        student.mkdir(parents=True)
        for entry in discover(ROOT):
            (student / f"{entry.name}.py").write_text(f"{entry.solution.read_text()}\n# {student.name}\n")
    out = folder / "finished"
    if on_dask:
        with dask_workers(folder, jobs) as (address, _):
            seconds = run(source, out, "--scheduler", address)
    else:
        seconds = run(source, out, "--workers", str(jobs))
    where = f"{jobs} Dask workers" if on_dask else f"{jobs} at a time"
    print(f"graded {len(outcomes(out))} in {seconds:.0f} s, {where}: {seconds / students:.1f} s a student")


def outcome(record: Record) -> Outcome:
    """Return what must be the same in every way of grading."""
    return tuple((check.id, check.status, check.points) for check in record.checks)


def outcomes(out: Path) -> dict[str, Outcome]:
    """Return the outcomes of a run's records, by STUDENT/EXERCISE."""
    return {
        f"{path.parent.name}/{path.stem}": outcome(from_json(path.read_text()))
        for path in sorted((out / "records").glob("*/*.json"))
    }


def command(source: Path, out: Path, *more: str) -> list[str]:
    return [sys.executable, "-m", "grader", "batch", str(source), "--out", str(out), "--cpu", *PICKED, *more]


PICKED: list[str] = [word for part in PARTS for word in ("--part", part)]


def run(source: Path, out: Path, *more: str) -> float:
    started = time.monotonic()
    done = subprocess.run(command(source, out, *more), cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1, 3):
        print(f"exit code {done.returncode}\n{done.stderr[-2000:]}")
    return time.monotonic() - started


def alone(paths: list[str]) -> dict[str, Outcome]:
    """Grade each file by itself, as `grade` does, one after another in this process."""
    from grader.exercise.plan import default_seed, draw
    from grader.grading import Job, grade
    from grader.sandbox.server import ForkServer

    parts = frozenset(PARTS) if PICKED else None
    found = {}
    with closing(ForkServer("interpret")) as server:
        for given in paths:
            name, _, path = given.partition(":")
            entry, _ = resolve(ROOT, name)
            plan = draw(entry.exercise, default_seed(name), WHOLE_CPU, parts=parts)
            job = Job(entry, f"{entry.name}.py", read(Path(path)).text, plan, f"grade {name}", "", compiled=False)
            found[given] = outcome(grade(job, server))
    return found


def differences(got: dict[str, Outcome], wanted: dict[str, Outcome]) -> list[str]:
    """Return the results that differ, a line for each check."""
    said = []
    for name in sorted(set(got) | set(wanted)):
        if name not in got or name not in wanted:
            said.append(f"{name}: {'missing' if name not in got else 'nobody handed that in'}")
        elif got[name] != wanted[name]:
            pairs = zip(got[name], wanted[name], strict=False)
            said += [f"{name}: {one} instead of {other}" for one, other in pairs if one != other][:2]
    return said


def report(what: str, got: dict[str, Outcome], wanted: dict[str, Outcome], origin: dict[str, str]) -> None:
    """Print how many results differ, and how many of them were expected to."""
    other = {line.partition(":")[0] for line in differences(got, wanted)}
    unsteady = {name for name in other if any(word in origin.get(name, "") for word in UNSTEADY)}
    print(f"{what}: {len(got)} of {len(wanted)} results, {len(other - unsteady)} differ", end="")
    print(f"; and {len(unsteady)} of submissions that are not the same twice when graded alone", flush=True)
    for line in differences(got, wanted)[:20]:
        print(f"  {origin.get(line.partition(':')[0], '?').rpartition('/')[2]} {line}")


def whole(source: Path, folder: Path, origin: dict[str, str], jobs: int) -> None:
    seconds = run(source, folder / "whole", "--workers", str(jobs))
    got = outcomes(folder / "whole")
    verdicts = Counter(from_json(path.read_text()).verdict for path in (folder / "whole/records").glob("*/*.json"))
    print(f"graded {len(got)} in {seconds:.0f} s, {jobs} at a time: {60 * len(got) / seconds:.1f} a minute", flush=True)
    print(", ".join(f"{count} {LOOKS[verdict].word}" for verdict, count in verdicts.most_common()), flush=True)
    kinds = {name: _kind(name, ROOT / path) for name, path in origin.items()}
    by_kind = alone(sorted(set(kinds.values())))
    report("beside each graded alone", got, {name: by_kind[kind] for name, kind in kinds.items()}, origin)


def overhead(source: Path, folder: Path, origin: dict[str, str], jobs: int, rounds: int) -> None:
    """Compare a plain loop in `jobs` processes with `jobs` workers, in turns.

    Both by the clock and by processor time, which other work on the machine changes less.
    """
    system.become_subreaper()
    files = [_kind(name, path) for name in sorted(origin) for path in _files(source, name)]
    # Or each loop would have an exercise of its own.
    random.Random(15).shuffle(files)
    ratios = []
    for turn in range(rounds):
        bare = _cost(lambda: _loops(files, jobs))
        batch = _cost(lambda turn=turn: run(source, folder / f"overhead-{turn}", "--workers", str(jobs)))
        ratios.append(batch[1] / bare[1])
        print(f"{len(files)} files, {jobs} at a time", end=": ")
        print(f"plain loops {bare[0]:.0f} s, {bare[1]:.0f} s of the cores", end="; ")
        print(f"batch {batch[0]:.0f} s, {batch[1]:.0f} s of the cores: {ratios[-1] - 1:+.0%}", flush=True)
    print(f"median overhead {sorted(ratios)[len(ratios) // 2] - 1:+.0%}", flush=True)


def _loops(files: list[str], jobs: int) -> None:
    command = [sys.executable, "-m", "benchmarks.batch", "loop"]
    for loop in [subprocess.Popen([*command, *files[place::jobs]], cwd=ROOT) for place in range(jobs)]:
        loop.wait()


def _cost(work: Callable[[], object]) -> tuple[float, float]:
    """Measure (seconds by the clock, seconds of the cores) of all processes that this starts, orphans included."""
    started, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    work()
    seconds = time.monotonic() - started
    with suppress(ChildProcessError):
        while True:
            os.wait()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _files(source: Path, name: str) -> list[Path]:
    student, _, exercise = name.partition("/")
    return list((source / student).glob(f"{exercise}_*.py"))


def by_origin(found: dict[str, Outcome], origin: dict[str, str]) -> dict[str, Outcome]:
    """Return the same results, by the file that was graded."""
    return {_kind(name, origin[name]): result for name, result in found.items()}


def _kind(name: str, path: str | Path) -> str:
    return f"{name.rpartition('/')[2]}:{path}"


def killed(source: Path, folder: Path, wanted: dict[str, Outcome], origin: dict[str, str], jobs: int) -> None:
    out = folder / "killed"
    drawn = random.Random()
    for time_of in range(3):
        given = command(source, out, "--workers", str(jobs), *(["--resume"] if time_of else []))
        with subprocess.Popen(given, cwd=ROOT, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as running:
            # Once it grades, some moments later.
            before = _lines(out)
            while running.poll() is None and _lines(out) <= before:
                time.sleep(0.05)
            time.sleep(drawn.uniform(1, 0.2 * len(wanted)))
            running.send_signal(signal.SIGKILL)
            running.wait()
        print(f"killed with {_lines(out)} lines in the journal", flush=True)
    run(source, out, "--resume", "--workers", str(jobs))
    keys = Counter(json.loads(line)["key"] for line in _whole_lines(out))
    print(f"resumed; {sum(count > 1 for count in keys.values())} of {len(keys)} were graded more than once", flush=True)
    report("killed three times, and resumed", outcomes(out), wanted, origin)


def _whole_lines(out: Path) -> list[str]:
    with suppress(OSError):
        return [line for line in (out / "journal.jsonl").read_text().splitlines() if line.endswith("}")]
    return []


def _lines(out: Path) -> int:
    return len(_whole_lines(out))


def cluster(source: Path, folder: Path, wanted: dict[str, Outcome], origin: dict[str, str]) -> None:
    out = folder / "cluster"
    with dask_workers(folder, 2) as (address, workers):
        given = command(source, out, "--scheduler", address)
        with subprocess.Popen(given, cwd=ROOT, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as running:
            while running.poll() is None and _lines(out) < len(wanted) // 3:
                time.sleep(0.05)
            workers[0].send_signal(signal.SIGKILL)
            print(f"one of two workers killed with {_lines(out)} of {len(wanted)} graded", flush=True)
            said = running.communicate()[1]
        if running.returncode not in (0, 1, 3):
            print(f"exit code {running.returncode}\n{said[-2000:]}")
    report("two workers, one killed", outcomes(out), wanted, origin)


@contextmanager
def dask_workers(folder: Path, count: int) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """Yield the address of a scheduler on loopback, and its workers, which end with the block."""
    address = f"tcp://127.0.0.1:{_free_port()}"
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    environment = {**os.environ, "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "1", "PYTHONPATH": path}
    port = address.rpartition(":")[2]
    dask = [sys.executable, "-m", "dask", "scheduler", "--host", "127.0.0.1", "--port", port, "--no-dashboard"]
    worker = [sys.executable, "-m", "dask", "worker", address, "--nthreads", "1", "--no-nanny", "--no-dashboard"]
    worker += ["--local-directory", str(folder), "--memory-limit", "0"]
    started = [
        subprocess.Popen(one, env=environment, cwd=ROOT, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        for one in (dask, *[worker] * count)
    ]
    try:
        yield address, started[1:]
    finally:
        for process in started:
            process.kill()
            process.wait()


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("finished", "whole", "overhead", "killed", "cluster", "loop"))
    parser.add_argument("files", nargs="*", help=argparse.SUPPRESS)
    parser.add_argument("--students", type=int, default=200)
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument(
        "--dask", action="store_true", help="finished: by so many workers of a Dask cluster on loopback"
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--all-parts", action="store_true")
    parser.add_argument("--keep", type=Path, help="a folder for what is written; a temporary one unless said")
    parser.add_argument(
        "--known", type=Path, help="the --keep of a `whole` run that tells what must come out (killed, cluster)"
    )
    given = parser.parse_args()
    if given.all_parts or given.what == "finished":
        PICKED.clear()
    if given.what == "loop":
        alone(given.files)
        return
    folder = given.keep or Path(tempfile.mkdtemp(prefix="grade-bench-"))
    source = folder / "submissions"
    shutil.rmtree(source, ignore_errors=True)
    if given.what == "finished":
        finished(source, folder, given.students, given.jobs, on_dask=given.dask)
        return
    origin = make_class(source, given.students)
    (folder / "origin.json").write_text(json.dumps(origin))
    print(f"{len(origin)} submissions of {given.students} students in {folder}", flush=True)
    match given.what:
        case "whole":
            whole(source, folder, origin, given.jobs)
        case "overhead":
            overhead(source, folder, origin, given.jobs, given.rounds)
        case _:
            if given.known is None:
                run(source, folder / "undisturbed", "--workers", str(given.jobs))
                wanted = outcomes(folder / "undisturbed")
            else:
                by_kind = by_origin(
                    outcomes(given.known / "whole"), json.loads((given.known / "origin.json").read_text())
                )
                wanted = {name: by_kind[_kind(name, path)] for name, path in origin.items()}
            if given.what == "killed":
                killed(source, folder, wanted, origin, given.jobs)
            else:
                cluster(source, folder, wanted, origin)


if __name__ == "__main__":
    main()
