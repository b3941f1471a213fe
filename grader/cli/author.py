"""`grade check`: runs the author's gate and prints what it finds."""

from __future__ import annotations

import os
import sys
from contextlib import closing
from time import monotonic
from typing import TYPE_CHECKING

from grader.catalogue import Entry, discover, find_root, resolve
from grader.cli.files import parse_seed, write
from grader.cli.run import start_server
from grader.cli.say import say
from grader.errors import UsageError

if TYPE_CHECKING:
    from grader.author import Finding, Gate
    from grader.sandbox.server import ForkServer

# The grader's own share of the work, which is one process's.
_MOST_JOBS = 4


def check(
    wanted: str | None, *, every: bool, seed: str | None, cpu: bool, write_probe: bool, jobs: int | None = None
) -> int:
    """Check one exercise or all, `jobs` files at a time; 0 only if everything holds."""
    root = find_root()
    if every == (wanted is not None):
        raise UsageError("exactly one of an exercise and --all must be given")
    if jobs is not None and jobs < 1:
        raise UsageError(f"--jobs must be at least 1, got {jobs}")
    entries = discover(root) if wanted is None else (resolve(root, wanted)[0],)
    if not entries:
        raise UsageError(f"there must be exercises to check, got none in {root / 'reference'}")
    if bare := [entry.id for entry in entries if not entry.solution.is_file()]:
        raise UsageError(f"an exercise must have its solution to be checked, got none for {', '.join(bare)}")
    chosen = parse_seed(seed) if seed is not None else None
    with closing(start_server(cpu=cpu)) as server:
        at_once = _jobs(server, jobs)
        held = [_check_one(entry, server, chosen, write_probe, at_once) for entry in entries]
    return 0 if all(held) else 1


def _jobs(server: ForkServer, wanted: int | None) -> int:
    """How many files are graded at a time: one per core in the interpreter, and one on a GPU, which times them."""
    if server.mode == "gpu":
        return 1
    return wanted or min(len(os.sched_getaffinity(0)), _MOST_JOBS)


def _check_one(entry: Entry, server: ForkServer, seed: int | None, write_probe: bool, jobs: int) -> bool:
    print(f"{entry.id}: {entry.exercise.title} ({server.mode})", flush=True)
    # Hypothesis and torch load here, while the fork server loads them as well.
    from grader.author import run_gate
    from grader.plan import default_seed

    started = monotonic()
    gate = run_gate(entry, server, default_seed(entry.id) if seed is None else seed, _print_finding, jobs)
    print(_margins(gate))
    print(_causes(gate))
    broken = sum(finding.holds is False for finding in gate.findings)
    unjudged = sum(finding.holds is None for finding in gate.findings)
    result = "sound" if gate.holds else f"not sound, {broken} findings"
    if unjudged:
        result += f", {unjudged} not judged on this machine"
    print(f"{entry.id}: {result}; {len(gate.findings)} things tried in {monotonic() - started:.1f} s")
    if write_probe:
        path = entry.folder / f"tolerance_{server.mode}.md"
        write(path, _probe(entry, server.mode, gate))
        print(f"Margins written to {path}", file=sys.stderr)
    return gate.holds


def _print_finding(finding: Finding) -> None:
    mark = {True: "ok  ", False: "BAD ", None: "open"}[finding.holds]
    say(f"  {mark} {finding.subject:<44} {finding.outcome}", sys.stdout)


def _margins(gate: Gate) -> str:
    lines = ["  Margins, in units of the allowed error (honest must stay below 1, mistakes above):"]
    lines += [
        f"    {margin.part:<22} worst honest {margin.worst_honest:.3g} ({margin.honest_file}), "
        f"cheapest mistake {margin.cheapest_cheat:.3g} ({margin.cheat_file})"
        for margin in gate.margins
    ]
    return "\n".join(lines)


def _causes(gate: Gate) -> str:
    """How often the cards name what is behind a planted mistake; which ones do not."""
    total = len(gate.named)
    first, three = (sum(named.among(most) for named in gate.named) for most in (1, 3))
    lines = [f"  Causes: first in {first} of {total}, among three in {three} of {total}."]
    lines += [
        f"    {named.file:<40} {' or '.join(named.causes)}: offered {', '.join(named.offered) or 'none'}"
        for named in gate.named
        if not named.among(1)
    ]
    return "\n".join(lines)


def _probe(entry: Entry, mode: str, gate: Gate) -> str:
    rows = [
        f"| {one.part} | {one.worst_honest:.3g} | {one.honest_file} | {one.cheapest_cheat:.3g} | {one.cheat_file} |"
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
