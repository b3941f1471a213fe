"""Measure model solutions and record kernels beside every baseline on this machine's GPU, and write the table.

    python -m benchmarks.records --markdown docs/records.md [EXERCISE ...]

--baseline NAME also times a slow baseline. --keep DIR stores the records (`grade/result/v1`) and the counts of Nsight
Compute. With --from DIR nothing is measured: the page is made from them. --recount then predicts all times again, with
the present model.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import geometric_mean

import msgspec

from benchmarks import limits, predictions
from benchmarks.markdown import table
from grader.exercise.catalogue import Entry, discover, resolve
from grader.record.checks import CheckResult
from grader.record.record import Record, from_json
from grader.record.speed import Contender, SizeTiming, Speed
from grader.report.speed import duration, size_words
from grader.speed.baselines import FAMILIES, SLOW, title_of
from grader.speed.counters import Counters

ROOT = Path(__file__).resolve().parents[1]
# Kernels of this project.
OURS = ("submission", "our_fastest")
# Ends the names of files that hold counts.
_COUNTS = ".counts.json"

HEAD = """# Kernel times: how fast our kernels are

Made by `python -m benchmarks.records --markdown docs/records.md` on a machine with a GPU; do not edit.

Each row is one judged size, timed as a grading times it ([how](timing.md)): rounds in random order, new inputs in every
round, cold caches. *Best peer* is the fastest of all baselines that ran. *Ratio* is its time over ours, so above 1 ours
is faster; the interval goes from the lower end of its 95 % interval over the upper end of ours to the reverse.
*Of the limit* is the time that the measured ceilings of memory and arithmetic allow, over ours. A file may be newer
than the day of its figures: what was measured since stands in its docstring, with the reasons for each choice and what
was tried in vain.
"""


@dataclass(frozen=True)
class Row:
    """One size of a part: our measurements and the best peer's. bound: which ceiling limits the time."""

    file: str
    part: str
    words: str
    own: Contender
    peer: Contender
    bound: str

    @property
    def ratio(self) -> float:
        """Return the peer's median over ours."""
        return self.peer.median_us / self.own.median_us

    @property
    def interval(self) -> tuple[float, float]:
        """Return the cautious interval of the ratio."""
        return self.peer.low_us / self.own.high_us, self.peer.high_us / self.own.low_us


def rows(file: str, record: Record) -> Iterator[Row]:
    """Yield the judged sizes of a record that have a peer."""
    for check in record.checks:
        if check.speed is not None:
            sizes = check.speed.sizes
            for size, words in zip(sizes, size_words(sizes, check.speed.curves), strict=True):
                if row := _row(file, check, size, words):
                    yield row


def _row(file: str, check: CheckResult, size: SizeTiming, words: str) -> Row | None:
    peers = [one for one in size.contenders if one.name not in OURS and FAMILIES[one.name].computes]
    if not peers or not size.judged:
        return None
    best = min(peers, key=lambda one: one.median_us)
    return Row(file, check.part, words, size.submission, best, size.bound)


def mean(found: Sequence[Row]) -> float:
    """Return the geometric mean of the ratios."""
    return geometric_mean(row.ratio for row in found)


def page(records: Sequence[tuple[str, Record]], counted: Sequence[tuple[str, Counters]] = ()) -> str:
    """Return the page. records: the path of each file, relative to reference/, and its record. counted: its counts."""
    found = [row for file, record in records for row in rows(file, record)]
    lines = [HEAD, _environment([record for _, record in records]), "", _summary(found)]
    for file in dict.fromkeys(row.file for row in found):
        lines += [f"## [{file}](../reference/{file})", "", _sizes([row for row in found if row.file == file])]
    lines += [limits.section(counted)] if counted else []
    lines += [predictions.section(records)]
    if missing := sorted(_missing(record for _, record in records)):
        lines += ["## Peers that did not run", "", *(f"- {one}" for one in missing), ""]
    return "\n".join(lines).rstrip("\n") + "\n"


def _environment(records: Sequence[Record]) -> str:
    envs = {(one.env.gpu, one.env.driver, one.env.torch, one.env.triton, one.graded_at[:10]) for one in records}
    return "\n".join(
        f"Measured on {gpu}, driver {driver}, torch {torch}, triton {triton}, {day}."
        for gpu, driver, torch, triton, day in sorted(envs)
    )


def _summary(found: Sequence[Row]) -> str:
    lines = []
    for file, part in dict.fromkeys((row.file, row.part) for row in found):
        own = [row for row in found if (row.file, row.part) == (file, part)]
        ratios = [row.ratio for row in own]
        lines.append((file, part, str(len(own)), f"**{mean(own):.3f}**", f"{min(ratios):.3f}", f"{max(ratios):.3f}"))
    return table(("file", "part", "sizes", "ratio, geometric mean", "least", "best"), lines)


def _sizes(found: Sequence[Row]) -> str:
    titles = ("part", "size", "ours", "best peer", "its time", "ratio", "of the limit")
    return table(titles, map(_cells, found))


def _cells(row: Row) -> tuple[str, ...]:
    low, high = row.interval
    ours, theirs = duration(row.own.median_us), duration(row.peer.median_us)
    share = f"{100 * row.own.roofline_share:.0f} % ({row.bound})"
    return row.part, row.words, ours, title_of(row.peer.name), theirs, f"{row.ratio:.3f} [{low:.3f}, {high:.3f}]", share


def _missing(records: Iterable[Record]) -> set[str]:
    speeds: list[Speed] = [check.speed for one in records for check in one.checks if check.speed is not None]
    return {f"{one.title}: {one.missing}" for speed in speeds for one in speed.baselines if one.missing}


def files_of(entry: Entry) -> tuple[Path, ...]:
    """Return what is measured of an exercise: its solution, then its record kernels."""
    return entry.solution, *entry.fast


def measure(entry: Entry, path: Path, folder: Path, slow: Sequence[str]) -> None:
    """Grade one file beside the slow baselines too, and store its record."""
    target = folder / f"{entry.id}-{path.stem}.json"
    parts = [word for name in sorted(entry.parts_in(path)) for word in ("--part", name)]
    beside = [word for name in slow for word in ("--baseline", name)]
    options = ["--quiet", "--json", str(target), *beside, *parts]
    command = [sys.executable, "-m", "grader", entry.id, "--submission", str(path), *options]
    print(f"{entry.id} {path.name} …", file=sys.stderr, flush=True)
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if not target.is_file():
        raise SystemExit(f"{path} must be graded, got exit code {done.returncode}: {done.stderr[-800:]}")
    found = limits.count(entry, path, from_json(target.read_text()))
    target.with_suffix(_COUNTS).write_bytes(msgspec.json.encode(found))


def stored(entry: Entry, folder: Path, *, recount: bool = False) -> Iterator[tuple[str, Record]]:
    """Yield the stored records of an exercise's files."""
    for path, target in _stored(entry, folder, ".json"):
        record = from_json(target.read_text())
        yield _name(path), predictions.recount(entry, path, record) if recount else record


def stored_counts(entry: Entry, folder: Path) -> Iterator[tuple[str, Counters]]:
    """Yield the stored counts of an exercise's files, part by part."""
    for path, target in _stored(entry, folder, _COUNTS):
        for counted in msgspec.json.decode(target.read_bytes(), type=tuple[Counters, ...]):
            yield _name(path), counted


def _stored(entry: Entry, folder: Path, suffix: str) -> Iterator[tuple[Path, Path]]:
    """Yield each file of an exercise of which something is stored, and where."""
    for path in files_of(entry):
        target = folder / f"{entry.id}-{path.stem}{suffix}"
        if target.is_file():
            yield path, target


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT / "reference"))


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=re.split(r"\n\n", __doc__ or "")[0])
    parser.add_argument("exercises", nargs="*", help="default: all")
    parser.add_argument("--markdown", type=Path, help="the page to write; default: print it")
    parser.add_argument("--baseline", action="append", choices=SLOW, default=[], help="also time this slow baseline")
    parser.add_argument("--keep", type=Path, help="a folder for the records")
    parser.add_argument("--from", type=Path, dest="source", help="a folder of records: measure nothing")
    parser.add_argument("--recount", action="store_true", help="with --from: predict again, with the present model")
    args = parser.parse_args()
    entries = [resolve(ROOT, name)[0] for name in args.exercises] or list(discover(ROOT))
    with tempfile.TemporaryDirectory() as scratch:
        folder = args.source or args.keep or Path(scratch)
        if args.source is None:
            folder.mkdir(parents=True, exist_ok=True)
            for entry in entries:
                for path in files_of(entry):
                    measure(entry, path, folder.resolve(), args.baseline)
        records = [one for entry in entries for one in stored(entry, folder, recount=args.recount)]
        text = page(records, [one for entry in entries for one in stored_counts(entry, folder)])
    if args.markdown is None:
        print(text)
    else:
        args.markdown.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
