"""`python -m benchmarks.accuracy`: measure, keep the results, and write the page. Runs on the CPU, or with --gpu.

A run that was stopped goes on where it was: results lie in a journal beside --json, and files that it knows are not
graded again. Delete the journal after a change of the grader.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from benchmarks.accuracy.measure import Wanted, measured
from benchmarks.accuracy.report import gaps, report
from benchmarks.accuracy.results import Journal, Result, write
from benchmarks.accuracy.sighted import sighted
from grader.exercise.catalogue import discover, resolve
from grader.sandbox.server import ForkServer

ROOT = Path(__file__).resolve().parents[2]
EQUIVALENT = Path(__file__).parent / "equivalent.json"
MISSED = Path(__file__).parent / "gaps.json"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure what the options ask for; 1 where an honest file was refused. Survivors are figures, not failures."""
    options = _parser().parse_args(arguments)
    names = options.exercises.split(",") if options.exercises else [entry.id for entry in discover(ROOT)]
    entries = [resolve(ROOT, name)[0] for name in names]
    wanted = Wanted(options.mutants, options.seeds, options.planted, options.draw, options.jobs)
    journal = Journal.opened(options.json.with_suffix(".jsonl"))
    results: list[Result] = []
    with closing(ForkServer("gpu" if options.gpu else "interpret")) as server:
        for entry in entries:
            for result in measured(entry, server, wanted, journal):
                results.append(result)
                print(_line(len(results), result), file=sys.stderr, flush=True)
    results += [one for path in options.also for one in Journal.opened(path).known.values()]
    # Journals may overlap.
    results = list({one.key: one for one in results}.values())
    equivalent, missed = (json.loads(path.read_text(encoding="utf-8")) for path in (EQUIVALENT, MISSED))
    write(options.json, results)
    if options.markdown:
        page = f"{report(results, equivalent, missed)}\n{sighted(ROOT)}"
        options.markdown.write_text(page, encoding="utf-8")
    refused = [one for one in results if one.kind == "honest" and one.status != "pass"]
    missing = gaps(results, equivalent)
    unexplained = sum(one.change not in missed for one in missing)
    said = f"{len(missing)} gaps, {unexplained} of them without a reason, {len(refused)} false failures"
    print(said, file=sys.stderr)
    for change in sorted({one.change for one in results if one.caught} & equivalent.keys()):
        print(f"caught, though {EQUIVALENT.name} calls it equivalent: {change}", file=sys.stderr)
    return int(bool(refused))


def _line(count: int, result: Result) -> str:
    subject = f"{result.line} {result.operator}" if result.kind == "mutant" else f"{result.file} {result.seed:#x}"
    fixed = {True: "caught", False: "missed", None: "-"}[result.fixed]
    said = f"{result.status} {result.check}".rstrip()
    return f"{count:4} {result.exercise} {subject}: {said} (fixed shape: {fixed}), {result.seconds:.1f} s"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.accuracy", description="How accurate the grader is.")
    parser.add_argument("--mutants", type=int, default=40, help="how many of each exercise")
    parser.add_argument("--seeds", type=int, default=3, help="how many plans honest files are graded with")
    parser.add_argument("--planted", type=int, default=1, help="how many plans planted mistakes are graded with")
    parser.add_argument("--exercises", default="", help="ex_15,ex_16; all without it")
    parser.add_argument("--json", type=Path, default=ROOT / "benchmarks" / "accuracy.json", help="where results go")
    parser.add_argument("--markdown", type=Path, help="where the page goes; none without it")
    parser.add_argument("--jobs", type=int, default=1, help="gradings at a time")
    parser.add_argument("--gpu", action="store_true", help="judge on the GPU that is here")
    parser.add_argument("--also", type=Path, action="append", default=[], help="a journal of another machine's results")
    parser.add_argument("--draw", type=int, default=0, help="the seed that mutants are drawn with")
    return parser


if __name__ == "__main__":
    sys.exit(main())
