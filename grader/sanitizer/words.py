"""Turn reports of the guard or of compute-sanitizer into sentences for the learner."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby

from grader.judge.access_findings import NOUNS, cause_of
from grader.phrases import all_of
from grader.protocol.observations import GuardFinding
from grader.sanitizer.findings import CallFinding
from grader.sanitizer.output import Accusation, Kind
from grader.text import clean

_VERBS: dict[Kind, str] = {"load": "loads", "store": "stores", "atomic": "updates", "uninitialised": "loads"}
_MEMORY = {"global": "", "shared": " of shared memory", "local": " of local memory"}

# Nobody knows their tensors by address.
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")

_TAIL = "The access needs a mask that leaves out the lanes that have no element."
_MISALIGNED = "Offsets are counted in elements of the pointer's type; was a pointer cast to a wider one?"
_UNWRITTEN = (
    "torch.empty gives memory that nobody wrote: start from torch.zeros, or let every element be stored before it is "
    "loaded; gaps between rows, and what lies before a slice, are unwritten as well."
)
_HAZARD = (
    "Threads of one program meet in shared memory, which Triton manages: look at what the line reduces, scans or "
    "exchanges, and whether two lanes store to one place."
)
_BARRIER = "Threads of one program wait at different barriers: look for control flow that differs within a program."


def sighting_of(finding: GuardFinding) -> CallFinding:
    """Return one finding of the guard in words."""
    cause = cause_of((finding,))
    assert cause is not None
    return CallFinding(
        kind=finding.kind,
        kernel=clean(finding.kernel, 80),
        line=finding.line,
        code=clean(finding.code, 200),
        program=finding.program,
        title=cause.title,
        text=cause.rationale,
        help=cause.help,
        other_line=finding.other_line,
        lanes=finding.lanes,
    )


def sightings_of(accusations: Sequence[Accusation], file: str, source: Sequence[str]) -> tuple[CallFinding, ...]:
    """Return the reports of one call in words, each place once.

    `file` is the name, and `source` the lines, of the learner's file.
    """

    def key(one: Accusation) -> tuple[str, int, str, str, int]:
        return one.kind, one.line_in(file), one.place.kernel, one.place.file, one.place.line

    return tuple(_sighting(list(alike), file, source) for _, alike in groupby(sorted(accusations, key=key), key=key))


def _sighting(alike: Sequence[Accusation], file: str, source: Sequence[str]) -> CallFinding:
    first = min(alike, key=lambda one: one.offset)
    line = first.line_in(file)
    code = clean(source[line - 1].strip(), 200) if 0 < line <= len(source) else ""
    kernel = clean((first.callers[-1] if first.callers else first.place).kernel, 80)
    place = "" if line else _place(first)
    where = f"Line {line}, `{code[:120]}`" if code else f"Line {line}" if line else f"In {place or 'a kernel'}"
    others = sorted({one for other in first.others if (one := _other_line(other.file, other.line, file)) != line})
    title, text, help_text = _report_texts(first, where, kernel, len(alike))
    return CallFinding(
        kind=first.kind,
        kernel=kernel,
        line=line,
        code=code,
        program=first.block,
        title=title,
        text=text,
        help=help_text,
        place=place,
        other_line=others[0] if others else line if first.kind == "race" else 0,
        lanes=first.hazards if first.kind == "race" else len(alike),
    )


def _report_texts(first: Accusation, where: str, kernel: str, threads: int) -> tuple[str, str, str]:
    """Return (title, text, help) of reports that are alike."""
    program = f"program ({', '.join(map(str, first.block))}) of {kernel}" if first.block else kernel or "the kernel"
    many = f"; {threads} threads in all" if threads > 1 else ""
    how = _ADDRESS.sub("", clean(first.how, 200))
    match first.kind:
        case "race":
            others = all_of([*dict.fromkeys(_place_words(one.file, one.line, one.kernel) for one in first.others)])
            text = f"{where}: threads of {program} race for shared memory with {others or 'each other'}"
            return "Threads race for shared memory", f"{text}; {first.hazards} bytes are concerned.", _HAZARD
        case "uninitialised":
            size = f"{first.bytes} bytes" if first.bytes else "memory"
            text = f"{where}: {program} loads {size}{_MEMORY.get(first.memory, '')} that nothing has written{many}."
            return "A load of memory that was never written", text, _UNWRITTEN
        case "barrier":
            return "A barrier that not all threads reach", f"{where}: {program}: {_tool_words(first)}{many}.", _BARRIER
        case "load" | "store" | "atomic":
            misaligned = "misaligned" in how
            title = f"{NOUNS[first.kind]} {'at a misaligned address' if misaligned else 'outside an allocation'}"
            size = f"{first.bytes} bytes{_MEMORY.get(first.memory, '')}"
            text = f"{where}: {program} {_VERBS[first.kind]} {size} at an address that {how or 'is invalid'}{many}."
            return title, text, _MISALIGNED if misaligned else _TAIL
        case _:
            return "An invalid access", f"{where}: {program}: {_tool_words(first)}{many}.", ""


def _tool_words(first: Accusation) -> str:
    """Return the tool's own words."""
    return clean(first.what, 200).rstrip(".")


def _place(first: Accusation) -> str:
    return clean(_place_words(first.place.file, first.place.line, first.place.kernel), 160)


def _place_words(file: str, line: int, kernel: str) -> str:
    if line:
        return f"line {line} of {clean(file.rpartition('/')[2], 80)}"
    return clean(kernel, 80) or "a kernel"


def _other_line(found: str, line: int, file: str) -> int:
    return line if found.rpartition("/")[2] == file else 0
