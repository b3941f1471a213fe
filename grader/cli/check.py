"""`grade check`: run the author's gate and print what it finds."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, TextIO

from grader.cli.files import append, check_target, check_writable, parse_seed, write, write_or_print
from grader.cli.say import say
from grader.errors import UsageError
from grader.exercise.catalogue import Entry, discover, find_root, resolve
from grader.phrases import counted
from grader.processes import Processes
from grader.record.json_numbers import number
from grader.text import as_json

if TYPE_CHECKING:
    from grader.sandbox.server import ForkServer
    from grader.soundness.findings import Gate, GateLine
    from grader.soundness.margins import Margin

# The grader's own share of the work, in one process.
_MOST_JOBS = 4


@dataclass(frozen=True, kw_only=True)
class CheckOptions:
    """Options of `grade check`.

    Either `exercise` names one, or `every` checks all. jobs: files at a time; None for half as many again as there
    are cores. json, junit: targets of the documents. summary: a file that a Markdown summary is appended to.
    write_wrong: a folder for the planted mistakes, instead of a check.
    """

    exercise: str | None = None
    every: bool = False
    seed: str | None = None
    cpu: bool = False
    write_probe: bool = False
    jobs: int | None = None
    json: str | None = None
    junit: str | None = None
    summary: str | None = None
    write_wrong: str | None = None


def check(options: CheckOptions) -> int:
    """Check one exercise or all; return 0 only if everything holds."""
    root = find_root()
    if options.every == (options.exercise is not None):
        got = "both" if options.every else "neither"
        raise UsageError(f"exactly one of an exercise and --all must be given, got {got}")
    if options.jobs is not None and options.jobs < 1:
        raise UsageError(f"--jobs must be at least 1, got {options.jobs}")
    entries = discover(root) if options.exercise is None else (resolve(root, options.exercise)[0],)
    if not entries:
        raise UsageError(f"there must be exercises to check, got none in {root / 'reference'}")
    if options.write_wrong is not None:
        if options != CheckOptions(exercise=options.exercise, write_wrong=options.write_wrong):
            raise UsageError("--write-wrong must come with one exercise and no other option: it checks nothing")
        return _write_wrong(entries[0], Path(options.write_wrong))
    if bare := [entry.id for entry in entries if not entry.solution.is_file()]:
        raise UsageError(f"an exercise must have its solution to be checked, got none for {', '.join(bare)}")
    chosen = parse_seed(options.seed) if options.seed is not None else None
    check_target(options.json)
    check_target(options.junit)
    if options.summary is not None:
        check_writable(Path(options.summary))
    # A document on stdout must be alone there.
    out = sys.stderr if "-" in (options.json, options.junit) else sys.stdout
    with ExitStack() as held:
        server = held.enter_context(Processes(cpu=options.cpu)).checked()
        beside = held.enter_context(Processes(cpu=True)).checked() if server.mode == "gpu" else None
        gates = {entry: _check_one(entry, server, beside, chosen, options, out) for entry in entries}
    if options.write_probe:
        for entry, gate in gates.items():
            path = entry.folder / f"tolerance_{server.mode}.md"
            write(path, _probe(entry, server.mode, gate))
            print(f"Margins written to {path}", file=sys.stderr)
    if options.json is not None:
        write_or_print(options.json, _document(gates, server.mode))
    _tell_service(options, {entry.id: gate for entry, gate in gates.items()})
    return 0 if all(gate.holds for gate in gates.values()) else 1


def _tell_service(options: CheckOptions, gates: Mapping[str, Gate]) -> None:
    """Write the files for a CI service."""
    from grader.cli import check_files

    if options.junit is not None:
        write_or_print(options.junit, check_files.junit(gates))
    if options.summary is not None:
        append(Path(options.summary), check_files.summary(gates))


def _write_wrong(entry: Entry, folder: Path) -> int:
    """Write every planted mistake as a whole file into a new or empty folder."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"the folder of --write-wrong must be new or empty, got {folder}")
    mistakes = entry.wrong
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as refused:
        raise UsageError(f"the folder of --write-wrong must be writable, got {folder}: {refused.strerror}") from refused
    for one in mistakes:
        write(folder / f"{one.name}.py", one.text)
    print(f"{len(mistakes)} planted mistakes written to {folder}")
    return 0


def _document(gates: Mapping[Entry, Gate], mode: str) -> str:
    def plain(one: GateLine | Margin) -> dict[str, object]:
        return {name: number(value) if isinstance(value, float) else value for name, value in asdict(one).items()}

    exercises = [
        {
            "id": entry.id,
            "holds": gate.holds,
            "findings": [plain(finding) for finding in gate.findings],
            "margins": [plain(margin) for margin in gate.margins],
        }
        for entry, gate in gates.items()
    ]
    return as_json({"schema": "grade/check/v1", "mode": mode, "exercises": exercises})


def _jobs(server: ForkServer, requested: int | None) -> int:
    """Return how many files to grade at a time: one on a GPU, which times them.

    In the interpreter, half as many again as there are cores: a file waits for its processes a third of the time.
    """
    if server.mode == "gpu":
        return 1
    return requested or min(len(os.sched_getaffinity(0)) * 3 // 2, _MOST_JOBS)


def _check_one(
    entry: Entry, server: ForkServer, beside: ForkServer | None, seed: int | None, options: CheckOptions, out: TextIO
) -> Gate:
    print(f"{entry.id}: {entry.exercise.title} ({server.mode})", file=out, flush=True)
    # Hypothesis and torch load here, while the fork server loads them as well.
    from grader.exercise.plan import default_seed
    from grader.soundness.gate import run_gate

    def on_finding(finding: GateLine) -> None:
        mark = {True: "ok  ", False: "BAD ", None: "open"}[finding.holds]
        say(f"  {mark} {finding.subject:<44} {finding.outcome}", out)

    started = monotonic()
    seed = default_seed(entry.id) if seed is None else seed
    at_once = _jobs(server, options.jobs)
    gate = run_gate(entry, server, seed, on_finding, at_once, beside, options.write_probe)
    print(_margins(gate), file=out)
    broken = sum(finding.holds is False for finding in gate.findings)
    unjudged = sum(finding.holds is None for finding in gate.findings)
    result = "sound" if gate.holds else f"not sound, {counted(broken, 'finding')}"
    if unjudged:
        result += f", {unjudged} not judged on this machine"
    tried = counted(len(gate.findings), "thing")
    print(f"{entry.id}: {result}; {tried} tried in {monotonic() - started:.1f} s", file=out)
    return gate


def _margins(gate: Gate) -> str:
    head = "  Margins, in units of the allowed error (honest must stay below 1, mistakes above):"
    return "\n".join([head, *(f"    {one.part:<22} {_margin(one)}" for one in gate.margins)])


def _margin(one: Margin) -> str:
    honest = f"worst honest {one.worst_honest:.3g} ({one.honest_file})"
    if one.cheapest_cheat is None:
        return honest
    return f"{honest}, cheapest mistake {one.cheapest_cheat:.3g} ({one.cheat_file})"


def _error(error: float | None) -> str:
    return "-" if error is None else f"{error:.3g}"


def _probe(entry: Entry, mode: str, gate: Gate) -> str:
    rows = [
        f"| {one.part} | {one.worst_honest:.3g} | {one.honest_file} | {_error(one.cheapest_cheat)} | {one.cheat_file} |"
        for one in gate.margins
    ]
    return "\n".join(
        [
            f"# Tolerance probe of {entry.id}, mode {mode}",
            "",
            "Errors in units of the allowed one: honest variants must stay below 1, mistakes must lie above.",
            f"Written by `grade check {entry.id} --write-probe`.",
            "",
            "| part | worst honest | file | cheapest mistake | file |",
            "| --- | --- | --- | --- | --- |",
            *rows,
            "",
        ]
    )
