"""`grade sanitize`: accesses outside tensors and races in every planned call, right or wrong."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from grader import machine
from grader.cli.files import check_target, chosen_file, named_again, parse_seed, write_or_print
from grader.cli.say import say
from grader.cli.terminal import terminal_of
from grader.errors import MissingEnvironment, UsageError
from grader.exercise.catalogue import Entry
from grader.sandbox.server import ForkServer
from grader.sanitizer.command import HOW_TO_GET, TOOLS, ToolName, command, find
from grader.speed.lock import GpuLock

if TYPE_CHECKING:
    from grader.sanitizer.findings import Examination
    from grader.sanitizer.run import SanitizeTarget

_INSTEAD = "The guard in Triton's interpreter looked instead."


@dataclass(frozen=True, kw_only=True)
class SanitizeOptions:
    """Options of `grade sanitize`.

    submission: the file, None for the stub. parts: none named for all. seed, tool: as typed. json: target of the
    document.
    """

    exercise: str
    submission: str | None = None
    parts: tuple[str, ...] = ()
    seed: str | None = None
    tool: str | None = None
    cpu: bool = False
    json: str | None = None
    quiet: bool = False


def sanitize(options: SanitizeOptions) -> int:
    """Examine one submission; return the exit code. Refuses bad requests before it starts anything."""
    entry, path, source = chosen_file(options.exercise, options.submission)
    seed = parse_seed(options.seed) if options.seed is not None else None
    tool = _tool(options)
    entry.named_parts(options.parts)
    check_target(options.json)

    def on_line(line: str) -> None:
        if not options.quiet:
            say(line, sys.stderr)

    # Before anything slow: loading torch takes seconds, and silence looks like a hang.
    on_line(f"Looking at {path.resolve()} …")
    gpu = not options.cpu and machine.has_gpu()

    def subject(*, on_gpu: bool) -> SanitizeTarget:
        return _subject(entry, path, source, seed, options, on_gpu=on_gpu, has_gpu=machine.may_have_gpu())

    examined = _examined(subject, tool, on_line, gpu=gpu)
    from grader.sanitizer import findings, text

    stream = sys.stderr if options.json == "-" else sys.stdout
    if options.json is not None:
        write_or_print(options.json, findings.to_json(examined))
    _, ascii_only, width = terminal_of(stream)
    print(text.render(examined, width=width, ascii_only=ascii_only), end="", file=stream)
    return examined.exit_code


def _tool(options: SanitizeOptions) -> ToolName | None:
    if options.tool is None:
        return None
    if options.cpu:
        raise UsageError(f"--tool is for GPUs: it must not be given with --cpu, got {options.tool!r}")
    for tool in TOOLS:
        if tool == options.tool:
            return tool
    raise UsageError(f"a tool must be one of {', '.join(TOOLS)}, got {options.tool!r}")


def _examined(
    subject: Callable[..., SanitizeTarget], tool: ToolName | None, on_line: Callable[[str], None], *, gpu: bool
) -> Examination:
    """Examine with compute-sanitizer if there is a GPU and the tool works; else with the guard, noting why."""
    executable = find() if gpu else None
    note = ""
    if executable is not None:
        try:
            return _by_tool(subject, executable, tool or "memcheck", on_line)
        except MissingEnvironment as missing:
            note = f"{missing}. {_INSTEAD}"
    elif gpu:
        note = f"compute-sanitizer is not installed: {HOW_TO_GET}. {_INSTEAD}"
    elif tool is not None:
        note = f"{tool} is one of compute-sanitizer's tools and needs a GPU, which is not here. {_INSTEAD}"
    # Hypothesis and torch load here, while the fork server loads them as well.
    with closing(ForkServer("interpret")) as server:
        from grader.sanitizer.run import examine_by_guard

        examined = examine_by_guard(subject(on_gpu=False), server, on_line)
    return replace(examined, notes=(*examined.notes, note)) if note else examined


def _by_tool(
    subject: Callable[..., SanitizeTarget], executable: str, tool: ToolName, on_line: Callable[[str], None]
) -> Examination:
    gpu = machine.find_gpu()
    with closing(ForkServer("gpu")) as server:
        from grader.sanitizer.run import examine_by_tool

        lock = GpuLock(gpu.uuid if gpu else "unknown")
        return examine_by_tool(subject(on_gpu=True), server, tool, command(executable, tool), lock, on_line)


def _subject(
    entry: Entry, path: Path, source: str, seed: int | None, options: SanitizeOptions, *, on_gpu: bool, has_gpu: bool
) -> SanitizeTarget:
    from grader.exercise import plan
    from grader.sanitizer.run import SanitizeTarget

    chosen = plan.default_seed(entry.id) if seed is None else seed
    abilities = machine.abilities(gpu=on_gpu)
    drawn = plan.draw(entry.exercise, chosen, abilities, parts=frozenset(options.parts) or None)
    own = tuple(named_again(entry, path))
    words = ["grade", "sanitize", entry.id, *named_again(entry, path, options.parts, seed)]
    words += ["--tool", options.tool] if options.tool is not None else []
    words += ["--cpu"] if options.cpu else []
    return SanitizeTarget(entry, str(path.resolve()), source, drawn, shlex.join(words), own, has_gpu=has_gpu)
