"""`grade profile`: print what a submission's kernels compile to, what they move, and how long that should take."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from typing import Literal, TextIO

from grader import __version__, machine
from grader.cli import roofline
from grader.cli.files import check_target, chosen_file, write_or_print
from grader.cli.roofline import Roofline
from grader.cli.say import say
from grader.cli.terminal import terminal_of
from grader.exercise.catalogue import Entry
from grader.exercise.model import Part
from grader.phrases import counted
from grader.record.checks import PartInfo
from grader.record.record import SubmissionInfo, Tool
from grader.sandbox.process_spec import ProcessSpec
from grader.sandbox.server import ForkServer
from grader.text import as_json, sha256_of

# All configurations of an autotuner, one after another.
_CALL_S = 900.0


@dataclass(frozen=True)
class Profile:
    """The document of `--json`.

    parts: the kernels of each, as in a record (docs/result.md), in all configurations. rooflines: what each part moves,
    and how long that should take.
    """

    tool: Tool
    exercise: str
    submission: SubmissionInfo
    torch: str
    triton: str
    parts: tuple[PartInfo, ...]
    rooflines: tuple[Roofline, ...] = ()
    schema: Literal["grade/profile/v1"] = "grade/profile/v1"


def profile(exercise: str, submission: str | None, parts: tuple[str, ...], target: str | None, *, quiet: bool) -> int:
    """Profile a submission's parts (none named: all), and return the exit code.

    0: some kernel was compiled. 1: none was. 3: there is nothing to compile yet.
    """
    entry, path, source = chosen_file(exercise, submission)
    chosen = entry.named_parts(parts)
    check_target(target)
    if not quiet:
        say(f"Compiling {path.resolve()} …", sys.stderr)
    compiled, why = _compiled(entry, source, chosen, quiet=quiet)
    there = [part for part in chosen if part.name not in why]
    rooflines = roofline.rooflines(entry, str(path.resolve()), source, there, quiet=quiet) if there else ()
    found = Profile(
        tool=Tool("grade", __version__),
        exercise=entry.id,
        submission=SubmissionInfo(str(path.resolve()), sha256_of(source)),
        torch=machine.version("torch"),
        triton=machine.version("triton"),
        parts=compiled,
        rooflines=rooflines,
    )
    if target is not None:
        write_or_print(target, as_json(dataclasses.asdict(found)))
    _show(found, why, sys.stderr if target == "-" else sys.stdout)
    if any(kernel.occupancy is not None for part in compiled for kernel in part.kernels):
        return 0
    return 1 if any(part.kernels or part.uncompiled for part in compiled) else 3


# -- sections --------------------------------------------------------------------------------------------------------


def _compiled(
    entry: Entry, source: str, parts: list[Part], *, quiet: bool
) -> tuple[tuple[PartInfo, ...], dict[str, str]]:
    """Return the parts with their kernels, and the reasons for parts with nothing to compile."""
    from grader.compile.outcome_cache import CompileOutcome
    from grader.grading.part_compiler import PartCompiler

    nothing: dict[str, str] = {}

    def on_outcome(outcome: CompileOutcome) -> None:
        if outcome.state == "not_implemented":
            # Said once for each part, at the end, and not for every GPU.
            nothing[outcome.part] = outcome.why
        elif not quiet:
            count = len(outcome.kernels)
            words = counted(count, "kernel") if count else outcome.why
            say(f"{outcome.target}  {outcome.part}: {words}", sys.stderr)

    gpu = machine.find_gpu()
    capability = gpu.capability if gpu else ""
    with (
        closing(ForkServer("compile")) as server,
        PartCompiler(
            lambda: ProcessSpec.of(server, entry, source),
            parts,
            every=True,
            limit_s=_CALL_S,
            capability=capability,
        ) as part_compiler,
    ):
        part_compiler.run(on_outcome)
    return tuple(
        PartInfo(part.name, part.title, *part_compiler.kernels_of(part.name), grids=part_compiler.grids_of(part.name))
        for part in parts
    ), nothing


def _show(found: Profile, nothing: dict[str, str], stream: TextIO) -> None:
    """Print every section as this terminal can show it."""
    from grader.report.text import terminal

    show: Callable[..., str] = terminal.render_kernels
    colour, ascii_only, width = terminal_of(stream)
    shown = [part for part in found.parts if part.name not in nothing]
    if shown:
        print(show(shown, width=width, colour=colour, ascii_only=ascii_only), file=stream)
    if found.rooflines:
        roofline.show(found.rooflines, stream, (colour, ascii_only, width))
    for name, why in nothing.items():
        say(f"{name}: {why}", stream)
